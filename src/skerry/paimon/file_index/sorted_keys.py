"""The distinct keys of a column in order, and the rows that have each: what indexes of rows are built from.

Keys are collected batch by batch while a file is written, each distinct value once, and put in order at its end.

Spec: docs/formats/paimon.md § 12.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.paimon.file_index.keys import key_form
from skerry.paimon.file_index.row_sets import complement
from skerry.paimon.values.types import AtomicType, TypeRoot

__all__ = ["KeyCollector", "SortedKeys", "as_longs"]

_Longs = npt.NDArray[np.int64]
_TEXTS: Final = (TypeRoot.CHAR, TypeRoot.VARCHAR)


def as_longs(type_: AtomicType, values: pa.Array) -> _Longs:
    """The values of a column as indexes store them, as 64-bit numbers: floating-point ones by their bits.

    Args:
        type_: The column's type: not of texts or bytes, decimals of at most 18 digits.
        values: Without nulls, in the Arrow type of its type.

    Returns:
        int64[n].
    """
    match type_.root:
        case TypeRoot.FLOAT:
            bits = values.to_numpy(zero_copy_only=False).astype(np.float32)
            bits[np.isnan(bits)] = np.nan  # Java has a single NaN
            return bits.view(np.int32).astype(np.int64)
        case TypeRoot.DOUBLE:
            wide = values.to_numpy(zero_copy_only=False).astype(np.float64)
            wide[np.isnan(wide)] = np.nan
            return wide.view(np.int64)
        case TypeRoot.DECIMAL:
            words = np.frombuffer(values.buffers()[1] or b"", np.int64).reshape(-1, 2)
            return np.ascontiguousarray(words[values.offset : values.offset + len(values), 0])
        case TypeRoot.BOOLEAN:
            return values.cast(pa.int8()).to_numpy().astype(np.int64)
    if pa.types.is_temporal(values.type):
        values = values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())
    longs = np.ascontiguousarray(values.to_numpy().astype(np.int64))
    if type_.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        if type_.precision == 0:
            return longs * 1000
        return longs if type_.precision <= 6 else np.floor_divide(longs, 1000)
    return longs


def _in_order(type_: AtomicType, longs: _Longs) -> _Longs:
    """Numbers that are ordered like the values: -0.0 before 0.0, NaN last; its own inverse."""
    if type_.root not in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return longs
    rest = np.int64((1 << (31 if type_.root is TypeRoot.FLOAT else 63)) - 1)
    return np.where(longs < 0, longs ^ rest, longs)


@dataclass(frozen=True, slots=True)
class SortedKeys:
    """The keys of a file's column.

    Args:
        type: The column's type.
        row_count: Rows of the file.
        rows: int64[n] Rows that are not null, ascending.
        codes: int64[n] The key of each, as an index of `ordered`.
        ordered: The keys, ascending: texts as large_binary, all others as int64 that are ordered like the values.
    """

    type: AtomicType
    row_count: int
    rows: _Longs
    codes: _Longs
    ordered: pa.Array

    def __len__(self) -> int:
        return len(self.ordered)

    @property
    def nulls(self) -> _Longs:
        """int64[m] Rows that are null, ascending."""
        return complement(self.rows, self.row_count)

    @property
    def numbers(self) -> _Longs:
        """int64[keys] The keys of an integer column."""
        return self.ordered.to_numpy()

    def encoded(self) -> pa.Array:
        """binary[keys] The keys as an index stores them, without the lengths of texts."""
        form = key_form(self.type)
        if form is None:
            return self.ordered
        data = _in_order(self.type, self.ordered.to_numpy()).astype(f">i{form.size}").tobytes()
        offsets = np.arange(len(self) + 1, dtype=np.int64) * form.size
        return pa.Array.from_buffers(pa.large_binary(), len(self), [None, pa.py_buffer(offsets), pa.py_buffer(data)])

    def rows_by_key(self) -> tuple[_Longs, _Longs]:
        """int64[n] the rows key by key, and int64[keys + 1] where those of each start, with the end."""
        order = np.argsort(self.codes, kind="stable")
        counts = np.bincount(self.codes, minlength=len(self))
        return self.rows[order], np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


class KeyCollector:
    """Collects the keys of a column.

    Args:
        type_: The column's type, of which there are row indexes.
    """

    def __init__(self, type_: AtomicType) -> None:
        self._type = type_
        self._is_text = type_.root in _TEXTS
        self._parts: list[pa.Array] = []
        self._rows: list[_Longs] = []
        self._row_count = 0

    def update(self, values: pa.Array | pa.ChunkedArray) -> None:
        """Add the values of rows, in the Arrow type of the column."""
        for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
            present = np.flatnonzero(chunk.is_valid().to_numpy(zero_copy_only=False))
            self._rows.append(present + self._row_count)
            self._row_count += len(chunk)
            kept = chunk.drop_null() if chunk.null_count else chunk
            keys = (
                kept.cast(pa.large_binary())
                if self._is_text
                else pa.array(_in_order(self._type, as_longs(self._type, kept)))
            )
            self._parts.append(keys.dictionary_encode())

    def finish(self) -> SortedKeys:
        """The keys of all rows."""
        rows = np.concatenate([np.zeros(0, np.int64), *self._rows])
        type_ = pa.large_binary() if self._is_text else pa.int64()
        chunks = pa.chunked_array(self._parts, pa.dictionary(pa.int32(), type_)).unify_dictionaries()
        if not chunks.num_chunks:
            return SortedKeys(self._type, self._row_count, rows, rows, pa.array([], type_))
        dictionary = chunks.chunk(0).dictionary
        order = pc.array_sort_indices(dictionary).to_numpy().astype(np.int64)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        codes = rank[np.concatenate([chunk.indices.to_numpy() for chunk in chunks.chunks])]
        return SortedKeys(self._type, self._row_count, rows, codes, dictionary.take(pa.array(order)))
