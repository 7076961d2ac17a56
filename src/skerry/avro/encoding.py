"""Encoding Arrow rows as Avro records, a column at a time instead of a value at a time.

Every field of a record is one or more *pieces*: stretches of bytes whose lengths are known for all rows before any byte
is written. A running sum over the lengths of all pieces says where each begins, and each piece is then scattered to its
places at once. Items of lists and maps are encoded in the same way, and are a piece of their row.

Spec: Avro spec, Binary Encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.errors import SchemaError, UnsupportedError

__all__ = ["decimal_bytes", "encode_rows"]

_Bytes: TypeAlias = npt.NDArray[np.uint8]
_Longs: TypeAlias = npt.NDArray[np.int64]
_Mask: TypeAlias = npt.NDArray[np.bool_]
_Write: TypeAlias = Callable[[_Bytes, _Longs], None]
_Piece: TypeAlias = tuple[_Longs, _Write]
"""Bytes of it in every row, and what writes them to an output, given where they begin."""

_MAX_VARINT_BYTES: Final = 10


def encode_rows(rows: pa.RecordBatch) -> tuple[_Bytes, _Longs]:
    """Encode rows as records.

    Args:
        rows: A nullable column is written as a union of null and its type, one of Arrow's type null as null. Dates are
            ints; integers, times and timestamps are ints or longs; decimals are fixed, of `decimal_bytes`; lists are
            arrays; maps are maps, or arrays of records of key and value, which look the same.

    Returns:
        uint8[bytes] the records, and int64[rows + 1] where each begins, with the end of the last.

    Raises:
        SchemaError: A column that is not nullable has a null.
        UnsupportedError: A type has no encoding here.
    """
    present = np.ones(rows.num_rows, bool)
    pieces = [
        piece
        for field, column in zip(rows.schema, rows.columns, strict=True)
        for piece in _of_field(field, column, present)
    ]
    return _lay_out(pieces, rows.num_rows)


def decimal_bytes(precision: int) -> int:
    """The fewest bytes that hold every decimal of `precision` digits in two's complement."""
    return ((10**precision - 1).bit_length() + 8) // 8


def _lay_out(pieces: Sequence[_Piece], count: int) -> tuple[_Bytes, _Longs]:
    """Put pieces side by side, row after row."""
    if not pieces or not count:
        return np.empty(0, np.uint8), np.zeros(count + 1, np.int64)
    lengths = np.stack([piece_lengths for piece_lengths, _ in pieces], axis=1)
    ends = np.cumsum(lengths.ravel()).reshape(lengths.shape)
    out = np.empty(int(ends[-1, -1]), np.uint8)
    for number, (_, write) in enumerate(pieces):
        write(out, ends[:, number] - lengths[:, number])
    return out, np.concatenate([np.zeros(1, np.int64), ends[:, -1]])


# Fields --------------------------------------------------------------------------------------------------------------


def _of_field(field: pa.Field, array: pa.Array, present: _Mask) -> list[_Piece]:
    """A field of the records in which it is present.

    Spec: Avro spec, Unions: the number of the branch, then the value.
    """
    if pa.types.is_null(field.type):
        return []
    valid = present & np.asarray(array.is_valid())
    if field.nullable:
        branch = _fixed((valid * 2).astype(np.uint8).reshape(-1, 1), present)
        return [branch, *_of_values(array, valid)] if valid.any() else [branch]
    if not np.array_equal(valid, present):
        raise SchemaError(f"column {field.name!r} is required, but null")
    return _of_values(array, valid)


def _of_values(array: pa.Array, valid: _Mask) -> list[_Piece]:
    """The values of a field in the rows that have one."""
    type_ = array.type
    if not len(array):
        return []
    if isinstance(type_, pa.UuidType):
        array, type_ = array.storage, array.storage.type
    if pa.types.is_struct(type_):
        children = zip(type_, array.flatten(), strict=True)
        return [piece for field, child in children for piece in _of_field(field, child, valid)]
    if pa.types.is_list(type_) or pa.types.is_map(type_):
        return _of_items(array, valid)
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return _of_binary(array, valid)
    if pa.types.is_boolean(type_):
        return [_fixed(_numbers(array.cast(pa.uint8())).reshape(-1, 1), valid)]
    if pa.types.is_floating(type_) or pa.types.is_fixed_size_binary(type_) or pa.types.is_decimal128(type_):
        return [_fixed(_stored_bytes(array), valid)]
    if pa.types.is_integer(type_) or pa.types.is_temporal(type_):
        numbers = array.cast(pa.int32()) if pa.types.is_date32(type_) else array
        return [_varints(_numbers(numbers.cast(pa.int64())), valid)]
    raise UnsupportedError(f"Arrow type {type_} cannot be written to Avro files")


def _of_binary(array: pa.Array, valid: _Mask) -> list[_Piece]:
    """Length and bytes.

    Spec: Avro spec, Primitive Types: bytes, string.
    """
    _, offsets_buffer, data = array.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
    lengths = np.where(valid, np.diff(offsets), 0)
    source = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return [_varints(lengths, valid), _slices(source, offsets[:-1], lengths)]


def _of_items(array: pa.Array, valid: _Mask) -> list[_Piece]:
    """One block of all items, and the empty block that ends it.

    Spec: Avro spec, Arrays, Maps.
    """
    offsets = array.offsets.to_numpy().astype(np.int64)
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    present = np.repeat(valid, np.diff(offsets))  # a null list may have items, which are none of the column's
    type_ = array.type
    if pa.types.is_map(type_):
        children = [(type_.key_field, array.keys), (type_.item_field, array.items)]
    else:
        children = [(type_.value_field, array.values)]
    pieces = [piece for field, child in children for piece in _of_field(field, child.slice(first, count), present)]
    data, starts = _lay_out(pieces, count)
    bounds = starts[offsets - first]
    counts = np.where(valid, np.diff(offsets), 0)
    end = np.zeros((len(array), 1), np.uint8)
    return [_varints(counts, counts > 0), _slices(data, bounds[:-1], np.diff(bounds)), _fixed(end, valid)]


def _numbers(array: pa.Array) -> npt.NDArray[Any]:
    """The values of a numeric array, anything where it is null."""
    width = array.type.bit_width // 8
    dtype = array.type.to_pandas_dtype()
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * width)


def _stored_bytes(array: pa.Array) -> _Bytes:
    """uint8[rows, width] Floating-point numbers, decimals and fixed binary as Avro stores them."""
    type_ = array.type
    width = type_.bit_width // 8
    data = np.frombuffer(array.buffers()[1], np.uint8, len(array) * width, array.offset * width).reshape(-1, width)
    return data[:, ::-1][:, width - decimal_bytes(type_.precision) :] if pa.types.is_decimal(type_) else data


# Pieces --------------------------------------------------------------------------------------------------------------


def _fixed(data: _Bytes, where: _Mask) -> _Piece:
    """Rows of the same number of bytes."""
    width = data.shape[1]

    def write(out: _Bytes, starts: _Longs) -> None:
        out[starts[where][:, None] + np.arange(width)] = data[where]

    return where.astype(np.int64) * width, write


def _varints(values: _Longs, where: _Mask) -> _Piece:
    """Zigzag varints.

    Spec: Avro spec, Primitive Types: int, long.
    """
    chosen = values[where]
    rest = ((chosen << 1) ^ (chosen >> 63)).view(np.uint64)
    sizes = np.ones(len(chosen), np.int64)
    for number in range(1, _MAX_VARINT_BYTES):
        is_longer = rest >= np.uint64(1 << (7 * number))
        if not is_longer.any():
            break
        sizes += is_longer
    lengths = np.zeros(len(values), np.int64)
    lengths[where] = sizes

    def write(out: _Bytes, starts: _Longs) -> None:
        begins, left, size = starts[where], rest, sizes
        for number in range(_MAX_VARINT_BYTES):
            more = size > number + 1
            out[begins + number] = (left & np.uint64(0x7F)).astype(np.uint8) | (more.astype(np.uint8) << 7)
            if not more.any():
                break
            begins, left, size = begins[more], left[more] >> np.uint64(7), size[more]

    return lengths, write


def _slices(source: _Bytes, begins: _Longs, lengths: _Longs) -> _Piece:
    """Stretches of a buffer."""

    def write(out: _Bytes, starts: _Longs) -> None:
        before = np.cumsum(lengths) - lengths
        within = np.arange(int(lengths.sum()))
        out[np.repeat(starts - before, lengths) + within] = source[np.repeat(begins - before, lengths) + within]

    return lengths, write
