"""Iceberg ⇄ Arrow schemas: types, ids, docs, required-ness, and refusals by name."""

from __future__ import annotations

import pyarrow as pa
import pytest
from peers import peer_schema
from pyiceberg.io.pyarrow import schema_to_pyarrow

from skerry.errors import SchemaError
from skerry.iceberg.metadata.arrow_schema import to_arrow_schema, to_arrow_type, to_iceberg_schema, to_iceberg_type
from skerry.iceberg.metadata.schema import Schema, assign_fresh_schema_ids
from skerry.iceberg.metadata.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)
from skerry.table.rows.schema import WRITE_DEFAULT_KEY
from skerry.table.rows.values import decode_value
from skerry.wkb import shapes_of

BOTH_WAYS = [
    (BooleanType(), pa.bool_()),
    (IntegerType(), pa.int32()),
    (LongType(), pa.int64()),
    (FloatType(), pa.float32()),
    (DoubleType(), pa.float64()),
    (DecimalType(9, 2), pa.decimal128(9, 2)),
    (DecimalType(38, 38), pa.decimal128(38, 38)),
    (DateType(), pa.date32()),
    (TimeType(), pa.time64("us")),
    (TimestampType(), pa.timestamp("us")),
    (TimestamptzType(), pa.timestamp("us", "UTC")),
    (TimestampNanoType(), pa.timestamp("ns")),
    (TimestamptzNanoType(), pa.timestamp("ns", "UTC")),
    (StringType(), pa.string()),
    (UUIDType(), pa.uuid()),
    (FixedType(7), pa.binary(7)),
    (BinaryType(), pa.binary()),
    (UnknownType(), pa.null()),
]
WIDENED = [
    *[(type_, IntegerType()) for type_ in (pa.int8(), pa.int16(), pa.uint8(), pa.uint16())],
    (pa.uint32(), LongType()),
    (pa.float16(), FloatType()),
    (pa.date64(), DateType()),
    (pa.time32("s"), TimeType()),
    (pa.time32("ms"), TimeType()),
    (pa.time64("ns"), TimeType()),
    (pa.timestamp("s"), TimestampType()),
    (pa.timestamp("ms", "Europe/Paris"), TimestamptzType()),
    (pa.timestamp("ns", "+02:00"), TimestamptzNanoType()),
    (pa.large_string(), StringType()),
    (pa.string_view(), StringType()),
    (pa.large_binary(), BinaryType()),
    (pa.binary_view(), BinaryType()),
    (pa.decimal32(5, 2), DecimalType(5, 2)),
    (pa.decimal256(38, 2), DecimalType(38, 2)),
    (pa.dictionary(pa.int8(), pa.string()), StringType()),
    (pa.run_end_encoded(pa.int32(), pa.dictionary(pa.int32(), pa.date32())), DateType()),
    *[
        (kind(pa.int8()), ListType(1, IntegerType(), element_required=False))
        for kind in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)
    ],
    (pa.list_(pa.int8(), 3), ListType(1, IntegerType(), element_required=False)),
]


@pytest.mark.parametrize(("iceberg", "arrow"), BOTH_WAYS, ids=str)
def test_types_map_both_ways(iceberg, arrow):
    assert to_arrow_type(iceberg) == arrow
    assert to_iceberg_type(arrow, format_version=3) == iceberg


@pytest.mark.parametrize(("arrow", "iceberg"), WIDENED, ids=str)
def test_types_that_lose_nothing_are_accepted(arrow, iceberg):
    assert to_iceberg_type(arrow, format_version=3) == iceberg


@pytest.mark.parametrize("version", [1, 2])
def test_nanoseconds_need_format_version_3(version):
    assert to_iceberg_type(pa.timestamp("ns"), format_version=version) == TimestampType()
    assert to_iceberg_type(pa.timestamp("ns", "UTC"), format_version=version) == TimestamptzType()
    with pytest.raises(SchemaError, match=f"unknown type needs format version 3, the table has {version}"):
        to_iceberg_type(pa.null(), format_version=version)


REFUSED = [
    (pa.uint64(), r"cast to int64 or decimal\(20, 0\)"),
    (pa.duration("ms"), "no durations"),
    (pa.month_day_nano_interval(), "no intervals"),
    (pa.decimal256(39, 2), "at most 38 digits"),
    (pa.decimal128(5, -2), "scale must be 0 to the precision"),
    (pa.decimal128(5, 6), "scale must be 0 to the precision"),
    (pa.dense_union([pa.field("a", pa.int32())]), "Iceberg has no such type"),
    (pa.struct([]), "struct without fields"),
    (pa.json_(), "Iceberg has no such type"),
]


@pytest.mark.parametrize(("arrow", "reason"), REFUSED, ids=str)
def test_types_that_would_lose_something_are_refused_by_name(arrow, reason):
    with pytest.raises(SchemaError, match=reason) as error:
        to_iceberg_schema(pa.schema([("a", pa.struct([("b", pa.list_(arrow))]))]))
    assert "column 'a.b.element'" in str(error.value)


@pytest.mark.parametrize("type_", [GeometryType(), GeographyType("EPSG:4326", "karney")], ids=str)
def test_shapes_are_marked_at_every_depth(type_):
    fields = [NestedField(2, "at", type_), NestedField(3, "l", ListType(4, type_))]
    schema = Schema(NestedField(1, "where", StructType(*fields)))
    arrow = to_arrow_schema(schema)
    where = arrow.field("where").type
    assert shapes_of(where.field("at")) == shapes_of(where.field("l").type.value_field) is not None
    assert to_iceberg_schema(arrow, format_version=3) == schema


SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True, doc="the key — always there"),
    NestedField(
        2,
        "s",
        StructType(
            NestedField(3, "x", DoubleType(), required=True),
            NestedField(4, "tags", ListType(5, StringType(), element_required=True)),
        ),
    ),
    NestedField(
        6,
        "m",
        MapType(7, StringType(), 8, StructType(NestedField(9, "when", TimestamptzType())), value_required=False),
    ),
    NestedField(10, "u", UUIDType()),
)


def test_ids_docs_and_requiredness_survive_at_every_depth():
    arrow = to_arrow_schema(SCHEMA)
    assert to_iceberg_schema(arrow) == SCHEMA
    assert arrow.field("id").metadata == {b"PARQUET:field_id": b"1", b"doc": "the key — always there".encode()}
    assert not arrow.field("id").nullable
    assert not arrow.field("s").type.field("tags").type.value_field.nullable
    assert arrow.field("m").type.item_field.type.field("when").metadata[b"PARQUET:field_id"] == b"9"


def test_pyiceberg_makes_the_same_arrow_schema_but_for_large_types():
    small = schema_to_pyarrow(peer_schema(SCHEMA))

    def narrow(type_):
        if pa.types.is_large_binary(type_):
            return pa.binary()
        if pa.types.is_large_string(type_):
            return pa.string()
        if pa.types.is_large_list(type_) or pa.types.is_list(type_):
            return pa.list_(of(type_.value_field))
        if pa.types.is_struct(type_):
            return pa.struct([of(field) for field in type_])
        if pa.types.is_map(type_):
            return pa.map_(of(type_.key_field), of(type_.item_field))
        return type_

    def of(field):
        return field.with_type(narrow(field.type))

    assert pa.schema([of(field) for field in small]).equals(to_arrow_schema(SCHEMA), check_metadata=True)


def test_ids_are_assigned_as_iceberg_assigns_them():
    bare = pa.schema(
        [
            ("a", pa.struct([("b", pa.int32()), ("c", pa.struct([("d", pa.int32())]))])),
            ("l", pa.list_(pa.struct([("e", pa.string())]))),
            ("m", pa.map_(pa.string(), pa.list_(pa.int64()))),
            ("z", pa.int64()),
        ]
    )
    schema = to_iceberg_schema(bare)
    assert schema == assign_fresh_schema_ids(schema)
    partly = bare.set(3, bare.field("z").with_metadata({"PARQUET:field_id": "77"}))
    assert to_iceberg_schema(partly) == schema
    unset = pa.schema([field.with_metadata({"PARQUET:field_id": "-1"}) for field in bare])
    assert to_iceberg_schema(unset) == schema


def test_ids_and_names_are_unique():
    def field(name, number):
        return pa.field(name, pa.int32(), metadata={"PARQUET:field_id": str(number)})

    with pytest.raises(SchemaError, match="field id 5 is used twice"):
        to_iceberg_schema(pa.schema([field("a", 5), field("b", 5)]))
    with pytest.raises(SchemaError, match=r"column 's\.a': the name is used twice"):
        to_iceberg_schema(pa.schema([("s", pa.struct([pa.field("a", pa.int32()), pa.field("a", pa.int64())]))]))
    with pytest.raises(SchemaError, match="column 'a': field id 2147483640 is reserved"):
        to_iceberg_schema(pa.schema([field("a", 2147483640)]))


def test_write_defaults_travel_as_serialised_values():
    schema = Schema(
        NestedField(1, "n", IntegerType(), write_default=7),
        NestedField(2, "t", TimestamptzType(), write_default=1_000_000),
        NestedField(3, "none", IntegerType(), initial_default=3),
    )
    arrow = to_arrow_schema(schema)
    defaults = [(field.metadata or {}).get(WRITE_DEFAULT_KEY) for field in arrow]
    assert decode_value(pa.int32(), defaults[0]) == 7
    assert decode_value(pa.timestamp("us", "UTC"), defaults[1]) == 1_000_000
    assert defaults[2] is None


def test_names_may_be_anything():
    names = ["", " ", "a.b", "ünï", "select", "x" * 300, "1", "\n"]
    schema = to_iceberg_schema(pa.schema([(name, pa.int32()) for name in names]))
    assert to_arrow_schema(schema).names == names
