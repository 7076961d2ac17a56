"""Encoding the binary rows of Paimon's metadata in bulk: BinaryRow, BinaryArray and BinaryMap.

Encoding proceeds by column: first the number of bytes is determined that each row of a column needs after the fixed
part, then every column writes its slots and its bytes into all rows. `skerry.paimon.values.binary_reading` decodes.

Spec: docs/formats/paimon.md § 6.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.errors import SchemaError
from skerry.paimon.values.arrow_types import arrow_type
from skerry.paimon.values.byte_spans import Bytes, Longs, Words, copy_spans, hash_spans, put_words
from skerry.paimon.values.types import (
    ArrayType,
    AtomicType,
    MapType,
    MultisetType,
    PaimonType,
    RowType,
    TypeRoot,
    VectorType,
)

__all__ = [
    "COMPACT_DECIMAL",
    "COMPACT_TIMESTAMP",
    "INLINE_BYTES",
    "BinaryRows",
    "byte_spans_of",
    "element_width",
    "encode_rows",
    "null_bytes",
]

COMPACT_DECIMAL: Final = 18
"""Maximum digits that fit a slot."""
COMPACT_TIMESTAMP: Final = 3
"""Maximum fractional digits of a second that fit a slot."""
INLINE_BYTES: Final = 7
"""Maximum bytes that fit a slot."""

_HEADER_BITS: Final = 8
_DECIMAL_BYTES: Final = 16
_WIDTHS: Final = {
    TypeRoot.BOOLEAN: 1,
    TypeRoot.TINYINT: 1,
    TypeRoot.SMALLINT: 2,
    TypeRoot.INT: 4,
    TypeRoot.DATE: 4,
    TypeRoot.TIME: 4,
    TypeRoot.FLOAT: 4,
}


def null_bytes(arity: int) -> int:
    """Size of a row's header and null bits in bytes."""
    return (arity + 63 + _HEADER_BITS) // 64 * 8


def element_width(type_: PaimonType) -> int:
    """Size of an element in the fixed part of an array in bytes."""
    return _WIDTHS.get(type_.root, 8) if isinstance(type_, AtomicType) else 8


@dataclass(frozen=True, slots=True)
class BinaryRows:
    """Concatenated rows without their arity.

    Args:
        data: uint8[bytes].
        offsets: int64[rows + 1] Where each begins, with the end of the last.
        arity: Number of their fields.
    """

    data: Bytes
    offsets: Longs
    arity: int

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def hashes(self) -> npt.NDArray[np.int32]:
        """int32[rows] The hash of each row, by which buckets are chosen."""
        hashes = np.empty(len(self), np.int32)
        hash_spans(self.data, self.offsets, hashes)
        return hashes

    def to_list(self) -> list[bytes]:
        """Each row preceded by its arity, as in metadata."""
        arity = struct.pack(">i", self.arity)
        data = self.data.tobytes()
        bounds = self.offsets.tolist()
        return [arity + data[start:stop] for start, stop in itertools.pairwise(bounds)]


def encode_rows(types: Sequence[PaimonType], columns: Sequence[pa.Array]) -> BinaryRows:
    """Encode rows.

    Args:
        types: The types of the fields; nulls are written even if a type is not nullable.
        columns: One array for each, of the type that `skerry.paimon.values.arrow_types.arrow_type` returns; of the same
            length.

    Raises:
        SchemaError: A column has another type, or a row would be larger than 2 GiB.

    Spec: docs/formats/paimon.md § 6.1, § 6.2.
    """
    count = len(columns[0]) if columns else 1
    slots = [_slots(type_, column, True) for type_, column in zip(types, columns, strict=True)]
    nulls, fixed = null_bytes(len(slots)), null_bytes(len(slots)) + 8 * len(slots)
    if all(slot.tail is None for slot in slots):
        return _fixed_rows(count, nulls, slots)
    sizes = np.full(count, fixed, np.int64)
    for slot in slots:
        if slot.tail is not None:
            sizes += slot.tail.padded
    offsets, data = _allocate(sizes)
    starts = offsets[:-1]
    cursor = np.full(count, fixed, np.int64)
    for number, slot in enumerate(slots):
        _mark_nulls(data, starts, slot.is_null, number + _HEADER_BITS)
        put_words(data, starts + nulls + 8 * number, _words(slot, data, starts, cursor), 8)
    return BinaryRows(data, offsets, len(slots))


def _fixed_rows(count: int, nulls: int, slots: Sequence[_Slots]) -> BinaryRows:
    """Rows of nothing but slots."""
    size = nulls + 8 * len(slots)
    words = np.zeros((count, size // 8), np.uint64)
    data = words.view(np.uint8).reshape(-1)
    offsets = size * np.arange(count + 1)
    for number, slot in enumerate(slots):
        words[:, nulls // 8 + number] = slot.words
        if slot.is_null.any():
            _mark_nulls(data, offsets[:-1], slot.is_null, number + _HEADER_BITS)
    return BinaryRows(data, offsets, len(slots))


# Slots and tails ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Tail:
    """Bytes after the fixed part.

    Args:
        data: Their source.
        starts: int64[n] Where each begins in `data`.
        lengths: int64[n] Length of each.
        padded: int64[n] Padded length of each, a multiple of 8; 0 if the slot holds everything.
    """

    data: Bytes
    starts: Longs
    lengths: Longs
    padded: Longs


@dataclass(frozen=True, slots=True)
class _Slots:
    """A column's slots: uint64[n], to which the offset of the tail is added if there is one."""

    words: Words
    is_null: npt.NDArray[np.bool_]
    tail: _Tail | None = None


def _allocate(sizes: Longs) -> tuple[Longs, Bytes]:
    if len(sizes) and int(sizes.max()) >= 2**31:
        raise SchemaError("a row exceeds 2 GiB, the limit of the format", rule="docs/formats/paimon.md § 6.1")
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    return offsets, np.zeros(int(offsets[-1]), np.uint8)


def _mark_nulls(data: Bytes, starts: Longs, is_null: npt.NDArray[np.bool_], bit: int) -> None:
    data[starts[is_null] + (bit >> 3)] |= np.uint8(1 << (bit & 7))


def _words(slot: _Slots, data: Bytes, starts: Longs, cursor: Longs) -> Words:
    """Write a column's tails at the cursors, advance these, and return the slots with the offsets."""
    tail = slot.tail
    if tail is None:
        return slot.words
    copy_spans(tail.data, tail.starts, tail.lengths, data, starts + cursor)
    words = np.where(tail.padded > 0, slot.words | cursor.astype(np.uint64) << np.uint64(32), slot.words)
    cursor += tail.padded
    return words


def _padded(lengths: Longs) -> Longs:
    return (lengths + 7) & ~np.int64(7)


def _slots(type_: PaimonType, column: pa.Array, in_row: bool) -> _Slots:
    """The slots of a column of a row, or of the elements of arrays, whose nulls reserve no bytes."""
    is_null = column.is_null().to_numpy(zero_copy_only=False)
    match type_:
        case AtomicType(TypeRoot.VARIANT | TypeRoot.BLOB) | VectorType():
            if not is_null.all():
                raise SchemaError(f"{type_} cannot be a value of metadata")
            return _Slots(np.zeros(len(column), np.uint64), is_null)
        case AtomicType(root):
            if root in _BYTES:
                return _byte_slots(column, is_null)
            if root is TypeRoot.DECIMAL:
                return _decimal_slots(type_, column, is_null, in_row)
            if root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
                return _timestamp_slots(type_, column, is_null, in_row)
            return _Slots(np.where(is_null, np.uint64(0), _number_words(type_, column)), is_null)
        case RowType(fields):
            rows = encode_rows([field.type for field in fields], column.flatten())
            return _nested_slots(rows.data, rows.offsets, is_null)
        case ArrayType(element):
            return _nested_slots(*_encode_arrays(element, column, column.values), is_null)
        case MultisetType():
            return _slots(type_.as_map, column, in_row)
        case MapType():
            return _nested_slots(*_encode_maps(type_, column), is_null)


_BYTES: Final = (TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY)
_NUMBERS: Final = {
    TypeRoot.TINYINT: np.uint8,
    TypeRoot.SMALLINT: np.uint16,
    TypeRoot.INT: np.uint32,
    TypeRoot.DATE: np.uint32,
    TypeRoot.TIME: np.uint32,
    TypeRoot.FLOAT: np.uint32,
    TypeRoot.BIGINT: np.uint64,
    TypeRoot.DOUBLE: np.uint64,
}


def _values(column: pa.Array, dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
    """A column's values in place, arbitrary under nulls."""
    buffer = column.buffers()[1]
    if buffer is None:
        return np.zeros(len(column), dtype)
    return np.frombuffer(buffer, dtype)[column.offset : column.offset + len(column)]


def _number_words(type_: AtomicType, column: pa.Array) -> Words:
    if column.type != arrow_type(type_):
        raise SchemaError(f"{type_} expected, found a column of type {column.type}")
    if type_.root is TypeRoot.BOOLEAN:
        return column.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint64)
    return _values(column, _NUMBERS[type_.root]).astype(np.uint64)


def _byte_slots(column: pa.Array, is_null: npt.NDArray[np.bool_]) -> _Slots:
    data, starts, lengths = byte_spans_of(column)
    lengths = np.where(is_null, 0, lengths)
    inline = lengths <= INLINE_BYTES
    words = lengths.astype(np.uint64)
    if inline.any():
        short = np.zeros((len(column), 8), np.uint8)
        copy_spans(data, starts, np.where(inline, lengths, 0), short.reshape(-1), 8 * np.arange(len(column)))
        short[:, 7] = 0x80 + np.minimum(lengths, INLINE_BYTES)
        words = np.where(inline, short.view(np.uint64)[:, 0], words)
    words = np.where(is_null, np.uint64(0), words)
    return _Slots(
        words, is_null, _Tail(data, starts, np.where(inline, 0, lengths), np.where(inline, 0, _padded(lengths)))
    )


_OFFSETS: Final[dict[pa.DataType, npt.DTypeLike]] = {
    pa.string(): np.int32,
    pa.binary(): np.int32,
    pa.large_string(): np.int64,
    pa.large_binary(): np.int64,
}


def byte_spans_of(column: pa.Array) -> tuple[Bytes, Longs, Longs]:
    """The bytes of strings or binary values: uint8[bytes], int64[n] where each begins, int64[n] length of each.

    Raises:
        SchemaError: The column has another type.
    """
    if column.type not in _OFFSETS:
        raise SchemaError(f"strings or bytes expected, found a column of type {column.type}")
    _, offset_buffer, data_buffer = column.buffers()
    if offset_buffer is None or not len(column):
        return np.empty(0, np.uint8), np.zeros(len(column), np.int64), np.zeros(len(column), np.int64)
    offsets = np.frombuffer(offset_buffer, _OFFSETS[column.type])[
        column.offset : column.offset + len(column) + 1
    ].astype(np.int64)
    data = np.empty(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return data, offsets[:-1], np.diff(offsets)


def _decimal_slots(type_: AtomicType, column: pa.Array, is_null: npt.NDArray[np.bool_], in_row: bool) -> _Slots:
    if not pa.types.is_decimal128(column.type) or column.type.scale != type_.scale:
        raise SchemaError(f"{type_} expected, found a column of type {column.type}")
    raw = _values(column, np.dtype("V16")).view(np.uint8).reshape(-1, _DECIMAL_BYTES)
    if type_.precision <= COMPACT_DECIMAL:
        words = np.ascontiguousarray(raw[:, :8]).view(np.uint64)[:, 0]
        return _Slots(np.where(is_null, np.uint64(0), words), is_null)
    digits = np.ascontiguousarray(raw[:, ::-1])
    sign = np.where(digits[:, :1] >= 0x80, 0xFF, 0)
    # drop bytes that only repeat the sign, which the next byte shows as well
    spare = (digits[:, :-1] == sign) & ((digits[:, 1:] ^ sign) < 0x80)
    first = np.logical_and.accumulate(spare, axis=1).sum(axis=1, dtype=np.int64)
    lengths = np.where(is_null, 0, _DECIMAL_BYTES - first)
    starts = np.arange(len(column), dtype=np.int64) * _DECIMAL_BYTES + first
    padded = np.where(is_null & (not in_row), 0, _DECIMAL_BYTES).astype(np.int64)
    return _Slots(lengths.astype(np.uint64), is_null, _Tail(digits.reshape(-1), starts, lengths, padded))


def _timestamp_slots(type_: AtomicType, column: pa.Array, is_null: npt.NDArray[np.bool_], in_row: bool) -> _Slots:
    if not pa.types.is_timestamp(column.type):
        raise SchemaError(f"{type_} expected, found a column of type {column.type}")
    values = np.where(is_null, 0, _values(column, np.int64))
    per_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[column.type.unit]
    if per_second <= 1_000:
        millis, nanos = values * (1_000 // per_second), np.zeros(len(values), np.int64)
    else:
        millis, rest = np.divmod(values, per_second // 1_000)
        nanos = rest * (1_000_000_000 // per_second)
    if type_.precision <= COMPACT_TIMESTAMP:
        return _Slots(millis.view(np.uint64), is_null)
    starts = 8 * np.arange(len(values), dtype=np.int64)
    padded = np.where(is_null & (not in_row), 0, 8).astype(np.int64)
    tail = _Tail(np.ascontiguousarray(millis).view(np.uint8), starts, padded, padded)
    return _Slots(nanos.astype(np.uint64), is_null, tail)


def _nested_slots(data: Bytes, offsets: Longs, is_null: npt.NDArray[np.bool_]) -> _Slots:
    lengths = np.where(is_null, 0, np.diff(offsets))
    return _Slots(lengths.astype(np.uint64), is_null, _Tail(data, offsets[:-1], lengths, _padded(lengths)))


# Arrays and maps ----------------------------------------------------------------------------------------------------


def _encode_arrays(type_: PaimonType, lists: pa.Array, values: pa.Array) -> tuple[Bytes, Longs]:
    """The elements of lists or maps as BinaryArrays; those of null lists are arbitrary.

    Spec: docs/formats/paimon.md § 6.3.
    """
    is_null = lists.is_null().to_numpy(zero_copy_only=False)
    bounds = lists.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    counts = np.where(is_null, 0, np.diff(bounds))
    firsts = np.repeat(bounds[:-1], counts)
    owners = np.repeat(np.arange(len(counts)), counts)
    ordinals = np.arange(len(owners), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    slots = _slots(type_, values.take(pa.array(firsts + ordinals)), False)
    width = element_width(type_)
    headers = 4 + (counts + 31) // 32 * 4
    fixed = _padded(headers + width * counts)
    own = slots.tail.padded if slots.tail is not None else np.zeros(len(owners), np.int64)
    ends = np.cumsum(own)
    before = np.concatenate([np.zeros(1, np.int64), ends])
    list_ends = np.cumsum(counts)
    tails = before[list_ends] - before[list_ends - counts]
    offsets, data = _allocate(fixed + tails)
    starts = offsets[:-1]
    put_words(data, starts, counts.astype(np.uint64), 4)
    marked = starts[owners] + 4 + (ordinals >> 3)
    np.bitwise_or.at(data, marked[slots.is_null], (np.uint8(1) << (ordinals & 7).astype(np.uint8))[slots.is_null])
    cursor = fixed[owners] + (ends - own) - before[list_ends - counts][owners]
    words = _words(slots, data, starts[owners], cursor)
    put_words(data, starts[owners] + headers[owners] + width * ordinals, words, width)
    return data, offsets


def _encode_maps(type_: MapType, column: pa.Array) -> tuple[Bytes, Longs]:
    """Maps as BinaryMaps.

    Spec: docs/formats/paimon.md § 6.4.
    """
    keys, key_offsets = _encode_arrays(type_.key, column, column.keys)
    items, item_offsets = _encode_arrays(type_.value, column, column.items)
    key_lengths, item_lengths = np.diff(key_offsets), np.diff(item_offsets)
    offsets, data = _allocate(4 + key_lengths + item_lengths)
    starts = offsets[:-1]
    put_words(data, starts, key_lengths.astype(np.uint64), 4)
    copy_spans(keys, key_offsets[:-1], key_lengths, data, starts + 4)
    copy_spans(items, item_offsets[:-1], item_lengths, data, starts + 4 + key_lengths)
    return data, offsets
