"""Decoding the binary rows of Paimon's metadata into columns.

Every count, offset and length is checked against its row, and the parts of a row together must not exceed the row, so
that columns are never much larger than their input.

Spec: docs/formats/paimon.md § 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.errors import FormatError, UnsupportedError
from skerry.paimon.values.arrow_types import arrow_type
from skerry.paimon.values.binary_row import COMPACT_DECIMAL, COMPACT_TIMESTAMP, INLINE_BYTES, element_width, null_bytes
from skerry.paimon.values.byte_spans import Bytes, Longs, Words, copy_spans, get_words
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

__all__ = ["decode_rows"]

_RULE: Final = "docs/formats/paimon.md § 6.1"
_ARITY_BYTES: Final = 4
_HEADER_BITS: Final = 8
_DECIMAL_BYTES: Final = 16
_NANOS_OF_MILLI: Final = 1_000_000
_LOW: Final = np.uint64(0xFFFFFFFF)


def decode_rows(
    types: Sequence[PaimonType],
    rows: pa.Array | Sequence[bytes],
    wanted: Sequence[int] | None = None,
    *,
    location: str | None = None,
) -> list[pa.Array]:
    """Decode rows that are preceded by their arity.

    Args:
        types: The types of their fields.
        rows: Binary values without nulls.
        wanted: Indices of the fields to decode; all if None.
        location: The file, for messages.

    Returns:
        One array for each decoded field, of the type that `skerry.paimon.values.arrow_types.arrow_type` returns.

    Raises:
        FormatError: A row does not match the types.
        UnsupportedError: A timestamp is outside the range of Arrow.

    Spec: docs/formats/paimon.md § 6.
    """
    array = rows if isinstance(rows, pa.Array) else pa.array(rows, pa.large_binary())
    try:
        return _decode(types, _spans(array), range(len(types)) if wanted is None else wanted)
    except (FormatError, UnsupportedError) as error:
        error.location = location
        raise


@dataclass(frozen=True, slots=True)
class _Spans:
    """Rows, arrays or maps at positions in a buffer."""

    data: Bytes
    starts: Longs
    lengths: Longs

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, rows: Longs) -> _Spans:
        return _Spans(self.data, self.starts[rows], self.lengths[rows])

    def words(self, positions: Longs, width: int) -> Words:
        words = np.empty(len(positions), np.uint64)
        get_words(self.data, positions, width, words)
        return words


@dataclass(frozen=True, slots=True)
class _Slots:
    """Slots of a field in all rows, or of all elements of arrays.

    Args:
        spans: The base of offsets, one for each slot.
        words: uint64[n] The contents of the slots.
        positions: int64[n] Their positions.
        is_null: bool[n] Whether the value is null.
    """

    spans: _Spans
    words: Words
    positions: Longs
    is_null: npt.NDArray[np.bool_]


def _spans(array: pa.Array) -> _Spans:
    width = np.int64 if pa.types.is_large_binary(array.type) else np.int32
    _, offset_buffer, data_buffer = array.buffers()
    if array.null_count:
        raise FormatError("a row is missing", rule=_RULE)
    if offset_buffer is None or not len(array):
        offsets = np.zeros(len(array) + 1, np.int64)
    else:
        offsets = np.frombuffer(offset_buffer, width)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    data = np.empty(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return _Spans(data, offsets[:-1], np.diff(offsets))


def _decode(types: Sequence[PaimonType], spans: _Spans, wanted: Sequence[int]) -> list[pa.Array]:
    least = _ARITY_BYTES + null_bytes(len(types)) + 8 * len(types)
    if len(spans) and int(spans.lengths.min()) < least:
        raise FormatError(
            f"a row of {len(types)} fields takes at least {least} bytes, found {int(spans.lengths.min())}", rule=_RULE
        )
    arity = spans.words(spans.starts, _ARITY_BYTES).astype(">u4").view("<u4")
    if (arity != len(types)).any():
        wrong = int(arity[arity != len(types)][0])
        raise FormatError(f"a row has {wrong} fields, expected {len(types)}", rule=_RULE)
    rows = _Spans(spans.data, spans.starts + _ARITY_BYTES, spans.lengths - _ARITY_BYTES)
    return _fields(types, rows, wanted)


def _fields(types: Sequence[PaimonType], rows: _Spans, wanted: Sequence[int]) -> list[pa.Array]:
    nulls = null_bytes(len(types))
    columns = []
    for number in wanted:
        bit = number + _HEADER_BITS
        is_null = (rows.data[rows.starts + (bit >> 3)] >> (bit & 7)) & 1 == 1
        positions = rows.starts + nulls + 8 * number
        columns.append(_column(types[number], _Slots(rows, rows.words(positions, 8), positions, is_null)))
    return columns


def _column(type_: PaimonType, slots: _Slots) -> pa.Array:
    match type_:
        case AtomicType(TypeRoot.VARIANT | TypeRoot.BLOB) | VectorType():
            return pa.nulls(len(slots.is_null), arrow_type(type_))  # metadata describes none
        case AtomicType(root):
            if root in _BYTES:
                return _bytes(type_, slots)
            if root is TypeRoot.DECIMAL:
                return _decimals(type_, slots)
            if root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
                return _timestamps(type_, slots)
            return _numbers(type_, slots)
        case MultisetType():
            return _column(type_.as_map, slots)
        case _:
            return _nested(type_, slots)


_BYTES: Final = (TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY)
_NUMBERS: Final = {
    TypeRoot.TINYINT: np.int8,
    TypeRoot.SMALLINT: np.int16,
    TypeRoot.INT: np.int32,
    TypeRoot.DATE: np.int32,
    TypeRoot.TIME: np.int32,
    TypeRoot.FLOAT: np.int32,
    TypeRoot.BIGINT: np.int64,
    TypeRoot.DOUBLE: np.int64,
}


def _array(type_: pa.DataType, values: npt.NDArray[np.generic], is_null: npt.NDArray[np.bool_]) -> pa.Array:
    """An array of values by their bytes."""
    validity = pa.array(~is_null).buffers()[1] if is_null.any() else None
    return pa.Array.from_buffers(type_, len(values), [validity, pa.py_buffer(np.ascontiguousarray(values))])


def _numbers(type_: AtomicType, slots: _Slots) -> pa.Array:
    if type_.root is TypeRoot.BOOLEAN:
        return pa.array(slots.words & np.uint64(0xFF) != 0, mask=slots.is_null)
    narrow = slots.words.astype(np.dtype(_NUMBERS[type_.root]).str.replace("i", "u")).view(_NUMBERS[type_.root])
    return _array(arrow_type(type_), narrow, slots.is_null)


def _positions(slots: _Slots, is_used: npt.NDArray[np.bool_], lengths: Longs) -> Longs:
    """The checked start positions of values that do not fit their slots.

    Args:
        slots: The slots; their upper halves are offsets.
        is_used: Which values have such bytes.
        lengths: Their lengths.
    """
    offsets = (slots.words >> np.uint64(32)).astype(np.int64)
    beyond = is_used & (offsets + lengths > slots.spans.lengths)
    if beyond.any():
        row = int(np.flatnonzero(beyond)[0])
        raise FormatError(
            f"{lengths[row]} bytes at offset {offsets[row]} exceed a row of {slots.spans.lengths[row]} bytes",
            rule=_RULE,
        )
    return slots.spans.starts + offsets


def _check_sum(slots: _Slots, lengths: Longs) -> None:
    if int(lengths.sum()) > len(slots.spans.data):
        raise FormatError("the values of rows take more bytes than the rows have", rule=_RULE)


def _bytes(type_: AtomicType, slots: _Slots) -> pa.Array:
    top = (slots.words >> np.uint64(56)).astype(np.int64)
    inline = top >= 0x80
    lengths = np.where(inline, top & 0x7F, (slots.words & _LOW).astype(np.int64))
    lengths = np.where(slots.is_null, 0, lengths)
    if (inline & (lengths > INLINE_BYTES)).any():
        raise FormatError(f"{int(lengths[inline].max())} bytes do not fit a slot", rule=_RULE)
    far = ~inline & ~slots.is_null
    starts = np.where(far, _positions(slots, far, lengths), slots.positions)
    _check_sum(slots, lengths)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    content = np.empty(int(offsets[-1]), np.uint8)
    copy_spans(slots.spans.data, starts, lengths, content, offsets[:-1])
    plain = arrow_type(type_)
    large = pa.large_string() if plain == pa.string() else pa.large_binary()
    validity = pa.array(~slots.is_null).buffers()[1] if slots.is_null.any() else None
    array = pa.Array.from_buffers(large, len(lengths), [validity, pa.py_buffer(offsets), pa.py_buffer(content)])
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise FormatError(f"a string is not UTF-8: {error}", rule=_RULE) from error
    return array.cast(plain)


def _decimals(type_: AtomicType, slots: _Slots) -> pa.Array:
    if type_.precision <= COMPACT_DECIMAL:
        low = slots.words.view(np.int64)
        values = np.stack([low, low >> 63], axis=1)
    else:
        lengths = np.where(slots.is_null, 0, (slots.words & _LOW).astype(np.int64))
        used = ~slots.is_null
        if (used & ((lengths < 1) | (lengths > _DECIMAL_BYTES))).any():
            raise FormatError(f"a decimal must have 1 to {_DECIMAL_BYTES} bytes", rule=_RULE)
        starts = np.where(used, _positions(slots, used, lengths), 0)
        content = np.zeros((len(lengths), _DECIMAL_BYTES), np.uint8)
        ends = _DECIMAL_BYTES * np.arange(1, len(lengths) + 1, dtype=np.int64)
        copy_spans(slots.spans.data, starts, lengths, content.reshape(-1), ends - lengths)
        first = np.minimum(_DECIMAL_BYTES - lengths, _DECIMAL_BYTES - 1)
        negative = np.take_along_axis(content, first[:, None], axis=1) >= 0x80
        content[(np.arange(_DECIMAL_BYTES) < first[:, None]) & negative] = 0xFF
        values = content[:, ::-1]
    array = _array(arrow_type(type_), values, slots.is_null)
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise FormatError(f"a decimal has more digits than {type_}: {error}", rule=_RULE) from error
    return array


def _timestamps(type_: AtomicType, slots: _Slots) -> pa.Array:
    arrow = arrow_type(type_)
    used = ~slots.is_null
    if type_.precision <= COMPACT_TIMESTAMP:
        millis, nanos = np.where(used, slots.words.view(np.int64), 0), np.zeros(len(used), np.int64)
    else:
        positions = np.where(used, _positions(slots, used, np.full(len(used), 8, np.int64)), 0)
        millis = np.zeros(len(used), np.int64)
        millis[used] = slots.spans.words(positions[used], 8).view(np.int64)
        nanos = np.where(used, (slots.words & _LOW).astype(np.int64), 0)
        if (nanos >= _NANOS_OF_MILLI).any():
            raise FormatError(f"{int(nanos.max())} nanoseconds exceed a millisecond", rule=_RULE)
    if arrow.unit == "s":
        return _array(arrow, np.floor_divide(millis, 1_000), slots.is_null)
    factor = {"ms": 1, "us": 1_000, "ns": _NANOS_OF_MILLI}[arrow.unit]
    limit = (2**63 - 1) // factor - 1
    if factor > 1 and (np.abs(millis) > limit).any():
        raise UnsupportedError(f"a {type_} of {int(millis[np.abs(millis) > limit][0])} ms is beyond what Arrow holds")
    return _array(arrow, millis * factor + nanos // (_NANOS_OF_MILLI // factor), slots.is_null)


# Nested values ------------------------------------------------------------------------------------------------------


def _nested(type_: ArrayType | MapType | RowType, slots: _Slots) -> pa.Array:
    """Decode rows, arrays or maps: those that are not null are decoded, then nulls are inserted."""
    rows = np.flatnonzero(~slots.is_null)
    lengths = (slots.words & _LOW).astype(np.int64)
    positions = _positions(slots, ~slots.is_null, lengths)
    found = _Spans(slots.spans.data, positions[rows], lengths[rows])
    _check_sum(slots, found.lengths)
    match type_:
        case RowType(fields):
            least = null_bytes(len(fields)) + 8 * len(fields)
            _check_least(found, least)
            columns = _fields([field.type for field in fields], found, range(len(fields)))
            values = pa.StructArray.from_arrays(columns, fields=list(arrow_type(type_)))
        case ArrayType(element):
            offsets, elements = _arrays(element, found)
            values = pa.ListArray.from_arrays(offsets, elements, type=arrow_type(type_))
        case MapType():
            values = _maps(type_, found)
    if len(rows) == len(slots.is_null):
        return values
    index = np.zeros(len(slots.is_null), np.int64)
    index[rows] = np.arange(len(rows))
    return values.take(pa.array(index, mask=slots.is_null))


def _check_least(found: _Spans, least: int) -> None:
    if len(found) and int(found.lengths.min()) < least:
        raise FormatError(f"a nested value takes at least {least} bytes, found {int(found.lengths.min())}", rule=_RULE)


def _arrays(type_: PaimonType, spans: _Spans) -> tuple[pa.Array, pa.Array]:
    """Offsets and elements of BinaryArrays.

    Spec: docs/formats/paimon.md § 6.3.
    """
    _check_least(spans, 4)
    counts = spans.words(spans.starts, 4).astype(np.int64)
    width = element_width(type_)
    headers = 4 + (counts + 31) // 32 * 4
    if (headers + width * counts > spans.lengths).any():
        raise FormatError("an array has more elements than bytes", rule="docs/formats/paimon.md § 6.3")
    owners = np.repeat(np.arange(len(counts)), counts)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    ordinals = np.arange(len(owners), dtype=np.int64) - offsets[owners]
    starts = spans.starts[owners]
    is_null = (spans.data[starts + 4 + (ordinals >> 3)] >> (ordinals & 7).astype(np.uint8)) & 1 == 1
    positions = starts + headers[owners] + width * ordinals
    slots = _Slots(spans.take(owners), spans.words(positions, width), positions, is_null)
    return pa.array(offsets.astype(np.int32)), _column(type_, slots)


def _maps(type_: MapType, spans: _Spans) -> pa.Array:
    """BinaryMaps.

    Spec: docs/formats/paimon.md § 6.4.
    """
    _check_least(spans, 4)
    key_lengths = spans.words(spans.starts, 4).astype(np.int64)
    if (key_lengths + 4 > spans.lengths).any():
        raise FormatError("the keys of a map take more bytes than the map", rule="docs/formats/paimon.md § 6.4")
    offsets, keys = _arrays(type_.key, _Spans(spans.data, spans.starts + 4, key_lengths))
    item_offsets, items = _arrays(
        type_.value, _Spans(spans.data, spans.starts + 4 + key_lengths, spans.lengths - 4 - key_lengths)
    )
    if not offsets.equals(item_offsets):
        raise FormatError("a map has different numbers of keys and values", rule="docs/formats/paimon.md § 6.4")
    if keys.null_count:
        raise FormatError("a map has a null among its keys", rule="docs/formats/paimon.md § 6.4")
    return pa.MapArray.from_arrays(offsets, keys, items, type=arrow_type(type_))
