"""Matching of equal rows in two tables: rows are numbered, column by column, so that equal rows have equal numbers.

Everything is computed on whole columns, nested ones too. Null equals null, NaN equals NaN of the same bits, and -0.0
differs from 0.0: a row that was only copied between files still has the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.table.rows.nested_arrays import list_elements
from skerry.table.rows.schema import is_list

__all__ = ["match_rows", "number_rows"]

_Numbers = npt.NDArray[np.int64]


def number_rows(rows: pa.Table) -> _Numbers:
    """Number rows so that two of them have the same number if, and only if, they are equal.

    Args:
        rows: Columns of any type. Without columns all rows are equal.

    Returns:
        int64[n] Numbers from 0, without gaps.
    """
    return _number_together([_number(column) for column in rows.columns], rows.num_rows)


def match_rows(left: Sequence[int] | _Numbers, right: Sequence[int] | _Numbers) -> tuple[_Numbers, _Numbers]:
    """Pair equal rows: the first on one side with the first equal one on the other, the second with the second.

    Args:
        left: Numbers of the rows of one side, by `number_rows`.
        right: Numbers of the rows of the other side, from the same call.

    Returns:
        int64[m] positions in `left`, ascending, and int64[m] positions in `right` of their partners.
    """
    lefts, rights = np.asarray(left, np.int64), np.asarray(right, np.int64)
    size = max(int(lefts.max(initial=-1)), int(rights.max(initial=-1))) + 1
    on_left, on_right = np.bincount(lefts, minlength=size), np.bincount(rights, minlength=size)
    # most rows equal at most one other, and are matched without sorting
    once = (on_left == 1) & (on_right == 1)
    place = np.empty(size, np.int64)
    place[rights] = np.arange(len(rights))
    singles = np.flatnonzero(once[lefts])
    often = (on_left > 0) & (on_right > 0) & ~once
    rest_left, rest_right = np.flatnonzero(often[lefts]), np.flatnonzero(often[rights])
    some_left, some_right = _match_repeated(lefts[rest_left], rights[rest_right])
    of_left = np.concatenate([singles, rest_left[some_left]])
    of_right = np.concatenate([place[lefts[singles]], rest_right[some_right]])
    order = np.argsort(of_left, kind="stable")
    return of_left[order], of_right[order]


def _match_repeated(lefts: _Numbers, rights: _Numbers) -> tuple[_Numbers, _Numbers]:
    """Pair rows whose numbers occur several times on a side, by number and occurrence."""
    width = max(len(lefts), len(rights), 1)
    _, of_left, of_right = np.intersect1d(
        lefts * width + _occurrence(lefts),
        rights * width + _occurrence(rights),
        assume_unique=True,
        return_indices=True,
    )
    return of_left.astype(np.int64), of_right.astype(np.int64)


def _occurrence(numbers: _Numbers) -> _Numbers:
    """How many equal numbers precede each."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    places = np.arange(len(numbers), dtype=np.int64)
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(numbers) else places
    result = np.empty(len(numbers), np.int64)
    result[order] = places - np.repeat(begins, np.diff(np.r_[begins, len(numbers)]))
    return result


def _number(column: pa.ChunkedArray) -> _Numbers:
    """Number the values of one column."""
    type_ = column.type
    if isinstance(type_, pa.BaseExtensionType):
        return _number(pa.chunked_array([chunk.storage for chunk in column.chunks], type_.storage_type))
    if pa.types.is_dictionary(type_):
        return _number(column.cast(type_.value_type))
    if pa.types.is_null(type_):
        return np.zeros(len(column), np.int64)
    if pa.types.is_struct(type_):
        return _number_together([_validity(column), *map(_number, column.flatten())], len(column))
    if pa.types.is_map(type_):
        entry = pa.struct([pa.field("key", type_.key_type), pa.field("value", type_.item_type)])
        return _number(column.cast(pa.list_(entry)))
    if is_list(type_):
        return _number_lists(column)
    if pa.types.is_floating(type_):
        bits = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[type_.bit_width]
        column = pa.chunked_array([chunk.view(bits) for chunk in column.chunks], bits)
    return _encoded(column)


def _number_lists(column: pa.ChunkedArray) -> _Numbers:
    """Number lists: each is treated as the byte string of its elements' numbers."""
    lists = column.combine_chunks()
    elements = _number(pa.chunked_array([list_elements(lists)]))
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(lists) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    keys = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(lists), [None, pa.py_buffer(offsets * elements.itemsize), pa.py_buffer(elements)]
    )
    return _number_together([_validity(column), _encoded(pa.chunked_array([keys]))], len(column))


def _validity(column: pa.ChunkedArray) -> _Numbers:
    return np.asarray(column.is_valid()).astype(np.int64)


def _encoded(column: pa.ChunkedArray) -> _Numbers:
    """Number values by their position in the column's dictionary, which all chunks share."""
    encoded = column.dictionary_encode(null_encoding="encode")
    places = [chunk.indices.to_numpy() for chunk in encoded.chunks]
    return np.concatenate(places).astype(np.int64) if places else np.empty(0, np.int64)


def _number_together(columns: Sequence[_Numbers], count: int) -> _Numbers:
    """Number combinations of numbers from two columns."""
    if not columns:
        return np.zeros(count, np.int64)
    numbers = columns[0]
    for column in columns[1:]:
        # neither factor exceeds the number of rows, so that the product fits
        width = int(column.max(initial=0)) + 1
        numbers = _encoded(pa.chunked_array([pa.array(numbers * width + column)]))
    return numbers
