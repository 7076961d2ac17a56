"""BinaryRow, BinaryArray and BinaryMap written out in plain Python, one value at a time; and values of every type."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from skerry.paimon.values.arrow_types import arrow_type
from skerry.paimon.values.types import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataField,
    MapType,
    MultisetType,
    PaimonType,
    RowType,
    TypeRoot,
    decode_type,
)

DATA = Path(__file__).parent / "data"
MULTIPLES = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


# Rows ---------------------------------------------------------------------------------------------------------------


def plain_row(types: Sequence[PaimonType], values: Sequence[Any]) -> bytes:
    """A row without arity, from values as `array_of` takes them."""
    nulls = (len(types) + 63 + 8) // 64 * 8
    fixed, tail = bytearray(nulls), b""
    slots = b""
    for number, (type_, value) in enumerate(zip(types, values, strict=True)):
        if value is None:
            fixed[(number + 8) // 8] |= 1 << ((number + 8) % 8)
        slot, behind = _slot(type_, value, nulls + 8 * len(types) + len(tail), in_row=True)
        slots += slot
        tail += behind
    return bytes(fixed) + slots + tail


def with_arity(types: Sequence[PaimonType], values: Sequence[Any]) -> bytes:
    return struct.pack(">i", len(types)) + plain_row(types, values)


def _pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


_NUMBERS = {
    TypeRoot.BOOLEAN: "<?",
    TypeRoot.TINYINT: "<b",
    TypeRoot.SMALLINT: "<h",
    TypeRoot.INT: "<i",
    TypeRoot.DATE: "<i",
    TypeRoot.TIME: "<i",
    TypeRoot.FLOAT: "<f",
    TypeRoot.BIGINT: "<q",
    TypeRoot.DOUBLE: "<d",
}


def _slot(type_: PaimonType, value: Any, offset: int, *, in_row: bool) -> tuple[bytes, bytes]:
    """Eight bytes (fewer bytes of which may count in arrays), and what lies behind the fixed part."""
    if isinstance(type_, AtomicType) and type_.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        return _timestamp(type_, value, offset, in_row=in_row)
    if isinstance(type_, AtomicType) and type_.root is TypeRoot.DECIMAL and type_.precision > 18:
        return _long_decimal(type_, value, offset, in_row=in_row)
    if value is None:
        return bytes(8), b""
    if isinstance(type_, AtomicType):
        if type_.root is TypeRoot.DECIMAL:
            return struct.pack("<q", int(value.scaleb(type_.scale))), b""
        if type_.root in _NUMBERS:
            return struct.pack(_NUMBERS[type_.root], value).ljust(8, b"\0"), b""
        data = value.encode() if isinstance(value, str) else value
        if len(data) <= 7:
            return data.ljust(7, b"\0") + bytes([0x80 + len(data)]), b""
        return struct.pack("<ii", len(data), offset), _pad(data)
    data = _nested(type_, value)
    return struct.pack("<ii", len(data), offset), _pad(data)


def _timestamp(type_: AtomicType, value: int | None, offset: int, *, in_row: bool) -> tuple[bytes, bytes]:
    nanos = 0 if value is None else value * MULTIPLES[arrow_type(type_).unit]
    millis, rest = divmod(nanos, 10**6)
    if type_.precision <= 3:
        return struct.pack("<q", millis), b""
    if value is None and not in_row:
        return bytes(8), b""
    return struct.pack("<ii", rest, offset), struct.pack("<q", millis)


def _long_decimal(type_: AtomicType, value: Decimal | None, offset: int, *, in_row: bool) -> tuple[bytes, bytes]:
    if value is None:
        return (struct.pack("<ii", 0, offset), bytes(16)) if in_row else (bytes(8), b"")
    number = int(value.scaleb(type_.scale))
    magnitude = number if number >= 0 else ~number
    data = number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)
    return struct.pack("<ii", len(data), offset), data.ljust(16, b"\0")


def _nested(type_: PaimonType, value: Any) -> bytes:
    if isinstance(type_, RowType):
        return plain_row([field.type for field in type_.fields], [value[field.name] for field in type_.fields])
    if isinstance(type_, ArrayType):
        return plain_array(type_.element, value)
    if isinstance(type_, MultisetType):
        type_ = type_.as_map
    assert isinstance(type_, MapType)
    keys = plain_array(type_.key, [key for key, _ in value])
    return struct.pack("<i", len(keys)) + keys + plain_array(type_.value, [item for _, item in value])


_WIDTHS = {TypeRoot.BOOLEAN: 1, TypeRoot.TINYINT: 1, TypeRoot.SMALLINT: 2}
_FOUR = (TypeRoot.INT, TypeRoot.DATE, TypeRoot.TIME, TypeRoot.FLOAT)


def plain_array(type_: PaimonType, values: Sequence[Any]) -> bytes:
    root = type_.root if isinstance(type_, AtomicType) else None
    width = 4 if root in _FOUR else _WIDTHS.get(root, 8) if root is not None else 8
    nulls = bytearray((len(values) + 31) // 32 * 4)
    size = len(_pad(bytes(4 + len(nulls) + width * len(values))))
    elements, tail = b"", b""
    for number, value in enumerate(values):
        if value is None:
            nulls[number // 8] |= 1 << (number % 8)
        slot, behind = _slot(type_, value, size + len(tail), in_row=False)
        elements += slot[:width]
        tail += behind
    return _pad(struct.pack("<i", len(values)) + bytes(nulls) + elements) + tail


def plain_hash(data: bytes) -> int:
    """Murmur3 with seed 42 over words of four bytes, as a signed number."""
    state = 42
    for (word,) in struct.iter_unpack("<I", data):
        word = word * 0xCC9E2D51 & 0xFFFFFFFF
        word = (word << 15 | word >> 17) & 0xFFFFFFFF
        state ^= word * 0x1B873593 & 0xFFFFFFFF
        state = (state << 13 | state >> 19) & 0xFFFFFFFF
        state = (state * 5 + 0xE6546B64) & 0xFFFFFFFF
    state ^= len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    state = (state ^ state >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    state ^= state >> 16
    return state - (1 << 32) if state >= 1 << 31 else state


# Values -------------------------------------------------------------------------------------------------------------


def array_of(type_: PaimonType, values: Sequence[Any]) -> pa.Array:
    """Plain values as a column: times in the units of their Arrow type, rows as mappings, maps as pairs."""
    return pa.array(values, _plain_type(arrow_type(type_))).cast(arrow_type(type_))


def _plain_type(type_: pa.DataType) -> pa.DataType:
    """A type whose values Python can hold: times and dates as integers."""
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(type_.key_field, type_.item_field.with_type(_plain_type(type_.item_type)))
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_plain_type(type_.value_type)))
    if pa.types.is_temporal(type_):
        return pa.int64() if type_.bit_width == 64 else pa.int32()
    return type_


def java_vectors() -> list[tuple[list[PaimonType], list[dict[str, Any]]]]:
    """Rows that Paimon Java wrote: their types and cases, with plain values."""
    found = json.loads((DATA / "binary_row_hash.json").read_text())
    result = []
    for group in found["sets"]:
        types = [decode_type(type_) for type_ in group["types"]]
        for case in group["cases"]:
            case["values"] = [_of_json(type_, value) for type_, value in zip(types, case["values"], strict=True)]
        result.append((types, group["cases"]))
    return result


def _of_json(type_: PaimonType, value: Any) -> Any:
    if value is None:
        return None
    match type_:
        case AtomicType(TypeRoot.FLOAT | TypeRoot.DOUBLE):
            return float(value)
        case AtomicType(TypeRoot.DECIMAL):
            return Decimal(value)
        case AtomicType(TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ):
            return (value[0] * 10**6 + value[1]) // MULTIPLES[arrow_type(type_).unit]
        case AtomicType(TypeRoot.BINARY | TypeRoot.VARBINARY):
            return base64.b64decode(value)
        case ArrayType(element):
            return [_of_json(element, item) for item in value]
        case MapType(key, item):
            return [(_of_json(key, left), _of_json(item, right)) for left, right in value]
        case RowType(fields):
            return {field.name: _of_json(field.type, part) for field, part in zip(fields, value, strict=True)}
    return value


def atomic_types() -> st.SearchStrategy[PaimonType]:
    lengths = st.sampled_from([1, 7, 16, MAX_LENGTH])
    plain = [root for root in TypeRoot if root not in _SIZED]
    return st.one_of(
        st.sampled_from(plain).map(AtomicType),
        st.builds(AtomicType, st.sampled_from([TypeRoot.CHAR, TypeRoot.VARCHAR]), length=lengths),
        st.builds(AtomicType, st.sampled_from([TypeRoot.BINARY, TypeRoot.VARBINARY]), length=lengths),
        st.builds(
            AtomicType, st.sampled_from([TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ]), precision=st.integers(0, 9)
        ),
        st.builds(AtomicType, st.just(TypeRoot.TIME), precision=st.integers(0, 3)),
        st.tuples(st.integers(1, 38), st.integers(0, 38)).map(
            lambda pair: AtomicType(TypeRoot.DECIMAL, precision=pair[0], scale=min(pair))
        ),
    )


_SIZED = (
    TypeRoot.CHAR,
    TypeRoot.VARCHAR,
    TypeRoot.BINARY,
    TypeRoot.VARBINARY,
    TypeRoot.DECIMAL,
    TypeRoot.TIME,
    TypeRoot.TIMESTAMP,
    TypeRoot.TIMESTAMP_LTZ,
)


def types() -> st.SearchStrategy[PaimonType]:
    """Any type, nested up to three deep."""
    keys = st.sampled_from(["STRING NOT NULL", "INT NOT NULL", "BIGINT NOT NULL"]).map(decode_type)
    return st.recursive(
        atomic_types(),
        lambda inner: st.one_of(
            inner.map(ArrayType),
            keys.map(MultisetType),
            st.builds(MapType, keys, inner),
            st.lists(inner, min_size=1, max_size=3).map(_row),
        ),
        max_leaves=4,
    )


def _row(members: list[PaimonType]) -> RowType:
    return RowType(tuple(DataField(number + 1, f"f{number}", type_) for number, type_ in enumerate(members)))


_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64, TypeRoot.DATE: 32}


def values(type_: PaimonType, *, nullable: bool = True) -> st.SearchStrategy[Any]:
    """Plain values of a type, nulls among them."""
    found = _present(type_)
    return st.none() | found if nullable and type_.nullable else found


def _present(type_: PaimonType) -> st.SearchStrategy[Any]:
    match type_:
        case ArrayType(element):
            return st.lists(values(element), max_size=40 if isinstance(element, AtomicType) else 3)
        case MultisetType():
            return _present(type_.as_map)
        case MapType(key, value):
            keys = values(key, nullable=False)
            return st.dictionaries(keys, values(value), max_size=4).map(lambda found: list(found.items()))
        case RowType(fields):
            return st.fixed_dictionaries({field.name: values(field.type) for field in fields})
        case AtomicType(root):
            return _atomic(type_, root)


def _atomic(type_: AtomicType, root: TypeRoot) -> st.SearchStrategy[Any]:
    if root in _BITS:
        half = 1 << (_BITS[root] - 1)
        return st.integers(-half, half - 1)
    if root is TypeRoot.BOOLEAN:
        return st.booleans()
    if root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return st.floats(width=32 if root is TypeRoot.FLOAT else 64, allow_nan=False)
    if root is TypeRoot.TIME:
        return st.integers(0, 86_399_999)
    if root is TypeRoot.DECIMAL:
        most = 10**type_.precision - 1
        return st.integers(-most, most).map(lambda number: Decimal(number).scaleb(-type_.scale))
    if root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        return st.integers(-(2**52), 2**52)
    if root in (TypeRoot.CHAR, TypeRoot.VARCHAR):
        return st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    return st.binary(max_size=20)
