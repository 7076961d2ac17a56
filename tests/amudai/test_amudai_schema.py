"""Messages and schemas: framing, FlatBuffers, types from and to Arrow."""

from __future__ import annotations

import json
import struct

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from flatbuffers.table import Table
from hypothesis import given
from hypothesis import strategies as st

from skerry.amudai.messages import AnyValue, FieldDescriptor, NameValuePair, ShardProperties, UrlList
from skerry.amudai.reading.column_types import stored_schemas
from skerry.amudai.shard.framing import decode_frame, decode_message, encode_frame, encode_message
from skerry.amudai.shard.schema import (
    BasicType,
    DataType,
    ExtendedType,
    ExtendedTypeProperty,
    Field,
    InternalKind,
    PropertyValueKind,
    Schema,
)
from skerry.amudai.shard.schema_layout import decode_schema, encode_schema
from skerry.amudai.values.types import (
    ALIASES_KEY,
    ARROW_SCHEMA_PROPERTY,
    INTERNAL_KIND_KEY,
    arrow_field,
    is_stored_as,
    schema_from_arrow,
)
from skerry.errors import FormatError, NotFoundError, SchemaError, UnsupportedError

# Framing ------------------------------------------------------------------------------------------------------------


@given(st.binary(max_size=100), st.binary(max_size=10))
def test_frames_come_back(payload: bytes, behind: bytes) -> None:
    frame = encode_frame(payload)
    digest = xxhash.xxh3_64_intdigest(payload)
    assert frame == struct.pack("<I", len(payload)) + payload + struct.pack(
        "<I", (digest >> 32) ^ (digest & 0xFFFFFFFF)
    )
    assert bytes(decode_frame(frame + behind)) == payload


@given(st.binary(max_size=60), st.integers(0), st.integers(0, 7))
def test_a_flipped_bit_of_a_frame_is_found(payload: bytes, place: int, bit: int) -> None:
    frame = bytearray(encode_frame(payload))
    frame[place % len(frame)] ^= 1 << bit
    with pytest.raises(FormatError):
        decode_frame(frame)


def test_messages_are_what_they_are() -> None:
    frame = encode_message(UrlList(urls=["a", "b"]))
    assert decode_message(UrlList, frame).urls == ["a", "b"]
    with pytest.raises(FormatError, match="FieldDescriptor message cannot be decoded"):
        decode_message(FieldDescriptor, encode_frame(b"\xff"), location="x", offset=3)


def test_messages_that_nest_without_end_are_refused() -> None:
    message = AnyValue()
    inner = message
    for _ in range(200):
        inner = inner.list_value.elements.add()
    with pytest.raises(FormatError):
        decode_message(AnyValue, encode_frame(_nested(200)))


def _nested(depth: int) -> bytes:
    """A list in a list, as bytes: protobuf itself would refuse to write it."""
    data = b""
    for _ in range(depth):
        elements = b"\x0a" + _varint(len(data)) + data
        data = b"\xa2\x01" + _varint(len(elements)) + elements
    return data


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


# Schema -------------------------------------------------------------------------------------------------------------

_names = st.text(min_size=1, max_size=8)


@st.composite
def _schemas(draw: st.DrawFn) -> Schema:
    counter = iter(range(10_000))

    def data_type(name: str, depth: int) -> DataType:
        number = next(counter)
        kinds = [kind for kind in BasicType if depth < 3 or not kind.is_composite]
        basic = draw(st.sampled_from(kinds))
        names: list[str] = []
        if basic in (BasicType.STRUCT, BasicType.UNION):
            names = draw(st.lists(_names, max_size=12 if depth == 0 else 3, unique=True))
        elif basic in (BasicType.LIST, BasicType.FIXED_SIZE_LIST):
            names = [""]
        elif basic is BasicType.MAP:
            names = ["", ""]
        sized = basic in (BasicType.FIXED_SIZE_BINARY, BasicType.FIXED_SIZE_LIST)
        kinds_of_value = st.sampled_from(PropertyValueKind)
        properties = draw(
            st.lists(st.builds(ExtendedTypeProperty, _names, kinds_of_value, st.binary(max_size=5)), max_size=2)
        )
        return DataType(
            basic,
            number,
            name,
            tuple(draw(st.lists(_names, max_size=2))),
            tuple(data_type(child, depth + 1) for child in names),
            draw(st.booleans()),
            draw(st.integers(1, 2**31 - 1)) if sized else 0,
            draw(st.none() | st.builds(ExtendedType, _names, st.just(tuple(properties)))),
        )

    names = draw(st.lists(_names, max_size=15, unique=True))
    fields = [Field(data_type(name, 0)) for name in names]
    if draw(st.booleans()):
        fields.append(Field(DataType(BasicType.BOOLEAN, next(counter)), draw(st.sampled_from(InternalKind))))
    return Schema(tuple(fields), next(counter))


@given(_schemas())
def test_schemas_come_back(schema: Schema) -> None:
    assert decode_schema(memoryview(encode_schema(schema))) == schema


@given(_schemas(), st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=3))
def test_damaged_schemas_are_refused_or_read(schema: Schema, changes: list[tuple[int, int]]) -> None:
    """Behind a right checksum any bytes may stand: no offset is followed that leads out of them."""
    payload = bytearray(encode_schema(schema)[4:-4])
    for place, byte in changes:
        payload[place % len(payload)] = byte
    try:
        found = decode_schema(memoryview(encode_frame(payload)))
    except (FormatError, UnsupportedError):
        return
    assert len(list(found.nodes())) == found.schema_id_count


def test_the_lookup_table_finds_every_name() -> None:
    """A hash of the name chooses the bucket, whose entries are ordinals of fields.

    Spec: docs/formats/amudai.md § 3.4.
    """
    names = [f"column {n}" for n in range(37)]
    data = encode_schema(schema_from_arrow(pa.schema([(name, pa.int8()) for name in names])))[4:-4]
    root = Table(data, int.from_bytes(data[:4], "little"))
    lookup = Table(data, root.Indirect(root.Pos + root.Offset(4 + 2 * 2)))

    def numbers(slot: int) -> list[int]:
        offset = lookup.Offset(4 + 2 * slot)
        return np.frombuffer(data, "<u4", lookup.VectorLen(offset), lookup.Vector(offset)).tolist()

    buckets, entries = numbers(0), numbers(1)
    assert (len(buckets), len(entries)) == (32 + 1, 37)
    for ordinal, name in enumerate(names):
        bucket = xxhash.xxh3_64_intdigest(name.encode()) % 32
        assert ordinal in entries[buckets[bucket] : buckets[bucket + 1]]


def test_fields_are_found_by_name_before_alias() -> None:
    schema = Schema(
        (Field(DataType(BasicType.INT8, 0, "a", ("b",))), Field(DataType(BasicType.INT8, 1, "b", ("c", "a")))), 2
    )
    assert [schema.field(name).schema_id for name in ("a", "b", "c")] == [0, 1, 1]
    with pytest.raises(NotFoundError, match="no column 'd'"):
        schema.field("d")


@pytest.mark.parametrize("names", [["", "a"], ["a", "a"]])
def test_names_are_needed_and_differ(names: list[str]) -> None:
    fields = tuple(Field(DataType(BasicType.INT8, n, name)) for n, name in enumerate(names))
    with pytest.raises(FormatError, match="need names that differ and are not empty"):
        encode_schema(Schema(fields, 2))
    with pytest.raises(SchemaError):
        schema_from_arrow(pa.schema([(name, pa.int8()) for name in names]))


# Types --------------------------------------------------------------------------------------------------------------

_UUID = pa.uuid()
_DYNAMIC = {"ARROW:extension:name": "KustoDynamic"}
_TYPES: list[tuple[pa.Field, str, pa.DataType]] = [
    (pa.field("c", pa.bool_()), "BOOLEAN", pa.bool_()),
    (pa.field("c", pa.int8()), "INT8 signed", pa.int8()),
    (pa.field("c", pa.uint64()), "INT64", pa.uint64()),
    (pa.field("c", pa.float32()), "FLOAT32", pa.float32()),
    (pa.field("c", pa.string_view()), "STRING", pa.string()),
    (pa.field("c", pa.large_string()), "STRING", pa.string()),
    (pa.field("c", pa.large_binary()), "BINARY", pa.binary()),
    (pa.field("c", pa.binary(7)), "FIXED_SIZE_BINARY 7", pa.binary(7)),
    (pa.field("c", _UUID), "GUID 16", _UUID),
    (pa.field("c", pa.binary(16), metadata={"ARROW:extension:name": "arrow.uuid"}), "GUID 16", _UUID),
    (pa.field("c", pa.timestamp("s", "UTC")), "DATE_TIME", pa.timestamp("ns")),
    (pa.field("c", pa.date32()), "DATE_TIME", pa.timestamp("ns")),
    (pa.field("c", pa.date64()), "DATE_TIME", pa.timestamp("ns")),
    (pa.field("c", pa.uint64(), metadata={"ARROW:extension:name": "KustoDateTime"}), "DATE_TIME", pa.timestamp("ns")),
    (pa.field("c", pa.duration("ms")), "INT64 signed KustoTimeSpan", pa.duration("ns")),
    (
        pa.field("c", pa.int64(), metadata={"ARROW:extension:name": "KustoTimeSpan"}),
        "INT64 signed KustoTimeSpan",
        pa.duration("ns"),
    ),
    (pa.field("c", pa.decimal128(9, 2)), "FIXED_SIZE_BINARY 16 KustoDecimal", pa.decimal256(76, 38)),
    (pa.field("c", pa.decimal32(9, 2)), "FIXED_SIZE_BINARY 16 KustoDecimal", pa.decimal256(76, 38)),
    (pa.field("c", pa.binary(), metadata=_DYNAMIC), "BINARY KustoDynamic", pa.binary()),
    (pa.field("c", pa.json_()), "BINARY KustoDynamic", pa.binary()),
    (pa.field("c", pa.dictionary(pa.int8(), pa.string())), "STRING", pa.string()),
    (pa.field("c", pa.run_end_encoded(pa.int32(), pa.int64())), "INT64 signed", pa.int64()),
    (pa.field("c", pa.large_list(pa.int8())), "LIST(INT8 signed)", pa.list_(pa.int8())),
    (pa.field("c", pa.list_view(pa.int8())), "LIST(INT8 signed)", pa.list_(pa.int8())),
    (pa.field("c", pa.list_(pa.int8(), 3)), "FIXED_SIZE_LIST 3(INT8 signed)", pa.list_(pa.int8(), 3)),
    (pa.field("c", pa.map_(pa.string(), pa.bool_())), "MAP(STRING, BOOLEAN)", pa.map_(pa.string(), pa.bool_())),
    (pa.field("c", pa.struct([("x", pa.int8())])), "STRUCT(INT8 signed)", pa.struct([("x", pa.int8())])),
    (
        pa.field("c", pa.dense_union([pa.field("x", pa.int8()), pa.field("y", pa.string())])),
        "UNION(INT8 signed, STRING)",
        pa.sparse_union([pa.field("x", pa.int8()), pa.field("y", pa.string())]),
    ),
]


def _text(node: DataType) -> str:
    size = [str(node.fixed_size)] if node.fixed_size else []
    parts = [node.basic_type.name, *(["signed"] if node.signed else []), *size, *([node.label] if node.label else [])]
    return " ".join(parts) + (f"({', '.join(map(_text, node.children))})" if node.children else "")


@pytest.mark.parametrize(("field", "stored", "default"), _TYPES, ids=lambda value: str(value)[:40])
def test_types(field: pa.Field, stored: str, default: pa.DataType) -> None:
    node = schema_from_arrow(pa.schema([field])).fields[0].data_type
    assert _text(node) == stored
    assert is_stored_as(field, node)
    shown = arrow_field(node)
    assert shown.type == default
    assert schema_from_arrow(pa.schema([shown])).fields[0].data_type == node  # what is shown can be stored again


@pytest.mark.parametrize(
    "type_",
    [
        pa.null(),
        pa.float16(),
        pa.time32("s"),
        pa.time64("ns"),
        pa.month_day_nano_interval(),
        pa.decimal128(5, -2),
        pa.binary(0),
        pa.list_(pa.int8(), 0),
        pa.fixed_shape_tensor(pa.int8(), [2]),
        pa.struct([("x", pa.list_(pa.float16()))]),
    ],
    ids=str,
)
def test_types_that_no_shard_holds_are_refused_by_name(type_: pa.DataType) -> None:
    with pytest.raises(UnsupportedError, match=r"column 'c"):
        schema_from_arrow(pa.schema([("c", type_)]))


def test_nodes_are_numbered_parents_first() -> None:
    schema = schema_from_arrow(
        pa.schema([("a", pa.struct([("x", pa.list_(pa.int8())), ("y", pa.int8())])), ("b", pa.int8())])
    )
    assert [(node.schema_id, node.name) for node in schema.nodes()] == [(0, "a"), (1, "x"), (2, ""), (3, "y"), (4, "b")]
    assert schema.schema_id_count == 5


def test_metadata_says_more() -> None:
    fields = [
        pa.field("a", pa.int8(), metadata={ALIASES_KEY: json.dumps(["x", "y"])}),
        pa.field("b", pa.bool_(), metadata={INTERNAL_KIND_KEY: InternalKind.DELETED_RECORD}),
    ]
    schema = schema_from_arrow(pa.schema(fields))
    assert schema.fields[0].data_type.aliases == ("x", "y")
    assert schema.internal_field(InternalKind.DELETED_RECORD) is schema.fields[1]
    assert [field.name for field in schema.columns] == ["a"]
    assert arrow_field(schema.fields[0].data_type).metadata == fields[0].metadata
    with pytest.raises(SchemaError, match="not a JSON list"):
        schema_from_arrow(pa.schema([pa.field("a", pa.int8(), metadata={ALIASES_KEY: "x"})]))


@pytest.mark.parametrize("name", [b"abc", b"inner"])
def test_a_stored_arrow_schema_with_a_name_that_is_not_text_is_ignored(name: bytes) -> None:
    arrow = pa.schema([("abc", pa.list_(pa.struct([("inner", pa.int64())])))])
    kept = arrow.serialize().to_pybytes()
    values = (AnyValue(bytes_value=data) for data in (kept, kept.replace(name, b"\xff" + name[1:])))
    pairs = [NameValuePair(name=ARROW_SCHEMA_PROPERTY, value=value) for value in values]
    assert stored_schemas(ShardProperties(custom_properties=pairs[:1])) == [arrow]
    assert stored_schemas(ShardProperties(custom_properties=pairs[1:])) == []
