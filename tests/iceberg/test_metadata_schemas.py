"""Types, schemas, specs, orders and name mappings: round trips, PyIceberg beside us, and what is refused."""

from __future__ import annotations

import contextlib
import json
import pickle
from decimal import Decimal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from peers import peer_order, peer_schema, peer_spec
from pyiceberg.schema import assign_fresh_schema_ids as peer_fresh_ids
from pyiceberg.schema import index_by_id as peer_index
from pyiceberg.table.name_mapping import parse_mapping_from_json
from schema_samples import OF_VERSION_3, PLAIN, optional, schemas, types, values

from skerry.errors import FormatError, SchemaError, SkerryError, UnsupportedError
from skerry.iceberg.evolution.schema_draft import SchemaDraft
from skerry.iceberg.metadata.arrow_schema import to_arrow_schema
from skerry.iceberg.metadata.default_values import checked_default
from skerry.iceberg.metadata.json_object import JsonObject
from skerry.iceberg.metadata.name_mapping import NameMapping
from skerry.iceberg.metadata.partition_spec import PartitionField, PartitionSpec
from skerry.iceberg.metadata.schema import Schema, assign_fresh_schema_ids, index_by_id
from skerry.iceberg.metadata.single_values import value_from_json, value_to_json
from skerry.iceberg.metadata.sort_order import NullOrder, SortDirection, SortField, SortOrder
from skerry.iceberg.metadata.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    parse_transform,
)
from skerry.iceberg.metadata.types import (
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
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
    VariantType,
    parse_type,
)


def read(document):
    return Schema.from_json(JsonObject(json.loads(json.dumps(document))))


def with_type(type_, **entries):
    return {"type": "struct", "schema-id": 1, "fields": [field(1, "c", type_, **entries)]}


def field(number, name, type_, **entries):
    return {"id": number, "name": name, "type": type_, "required": False, **entries}


# Types ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type_", [*PLAIN, *OF_VERSION_3], ids=str)
def test_names_of_types_are_read_as_they_are_written(type_):
    assert parse_type(str(type_)) == type_
    assert hash(parse_type(str(type_))) == hash(type_)
    assert pickle.loads(pickle.dumps(type_)) == type_


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Long", LongType()),
        ("decimal( 10 ,2)", DecimalType(10, 2)),
        ("fixed[ 3 ]", FixedType(3)),
        ("geometry(srid:4326)", GeometryType("srid:4326")),
        ("geometry('EPSG:4326')", GeometryType("EPSG:4326")),
        ("geometry(OGC:CRS84)", GeometryType()),
        ("geography( srid:1 , Vincenty )", GeographyType("srid:1", "vincenty")),
    ],
)
def test_names_of_types_have_variants(text, expected):
    assert parse_type(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "decimal", "decimal(39, 2)", "decimal(0, 0)", "decimal(5, 6)", "decimal(5,-1)", "fixed", "fixed[-1]",
     "fixed[99999999999999999999]", "fixed[2147483648]", "long ",
     "geometry()", "geometry( )", "geography(, karney)", "geography(a,)", "geography(a, flat)", "decimal(٣, 1)"],
)  # fmt: skip
def test_what_is_not_the_name_of_a_type_is_refused(text):
    with pytest.raises(FormatError, match="is not the name of a type"):
        parse_type(text)


@pytest.mark.parametrize("text", ["geometry({}", "geography({}", "geography(a,{}", "geometry{}", "geography('{}"])
def test_long_names_of_types_are_refused_at_once(text):
    """Not after trying every division of the white space, which would take years."""
    with pytest.raises(FormatError, match="is not the name of a type"):
        parse_type(text.format(" " * 100_000))


def test_types_that_do_not_exist_are_named():
    with pytest.raises(UnsupportedError, match="columns of type interval are not supported"):
        parse_type("interval")
    with pytest.raises(UnsupportedError, match=r"fields\[0\].type: columns of type interval_ym are not supported"):
        read(with_type("interval_ym"))


def test_the_versions_of_types():
    for type_ in (TimestampNanoType(), UnknownType(), VariantType(), GeometryType(), GeographyType()):
        schema = Schema(NestedField(1, "a", StructType(NestedField(2, "b", type_))))
        schema.check_format_version(3)
        with pytest.raises(SchemaError, match="needs format version 3, the table has 2"):
            schema.check_format_version(2)
    Schema(*(NestedField(n, f"c{n}", type_) for n, type_ in enumerate(PLAIN) if type_.format_version == 1)
    ).check_format_version(1)  # fmt: skip


# Schemas -------------------------------------------------------------------------------------------------------------


@given(schemas(all_types=True, defaults=True))
def test_schemas_are_read_as_they_are_written(schema):
    again = read(schema.to_json())
    assert again == schema
    assert again.schema_id == schema.schema_id
    assert again.to_json() == schema.to_json()
    assert hash(again) == hash(schema)
    assert pickle.loads(pickle.dumps(schema)) == schema


@given(schemas())
def test_pyiceberg_reads_the_same_schemas(schema):
    theirs = peer_schema(schema)
    assert json.loads(theirs.model_dump_json()) == {"identifier-field-ids": [], **schema.to_json()}
    assert read(json.loads(theirs.model_dump_json())) == schema
    assert {number: str(one) for number, one in index_by_id(schema).items()} == {
        number: str(one) for number, one in peer_index(theirs).items()
    }
    assert sorted(schema.column_names) == sorted(theirs.column_names)
    assert schema.field_ids == theirs.field_ids
    assert schema.highest_field_id == theirs.highest_field_id
    for number in schema.field_ids:
        assert schema.find_column_name(number) == theirs.find_column_name(number)
        assert str(schema.find_type(number)) == str(theirs.find_type(number))
        name = schema.find_column_name(number)
        assert schema.find_field(name) is schema.find_field(number)
    assert sorted(schema.identifier_field_names()) == sorted(theirs.identifier_field_names())
    fresh = assign_fresh_schema_ids(schema.as_struct())
    assert [str(one) for one in fresh.fields] == [str(one) for one in peer_fresh_ids(theirs).fields]


@settings(max_examples=50)
@given(schemas(), st.dictionaries(st.sampled_from(["x-a", "x-b"]), st.integers() | st.none() | st.text()))
def test_entries_that_we_do_not_know_are_kept(schema, extra):
    def extended(value):
        if isinstance(value, list):
            return [extended(one) for one in value]
        if isinstance(value, dict):
            return {**{name: extended(one) for name, one in value.items()}, **extra}
        return value

    document = extended(schema.to_json())
    assert read(document).to_json() == document
    assert read(document) == schema


def test_fields_that_are_missing():
    schema = read({"type": "struct", "fields": [field(1, "a", "long")]})
    assert (schema.schema_id, schema.identifier_field_ids) == (0, ())
    with pytest.raises(SchemaError, match="the schema has no field 7"):
        schema.find_type(7)
    with pytest.raises(SchemaError, match="the schema has no field 'b'"):
        schema.find_field("b")
    assert schema.find_column_name(7) is None


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ([], "expected an object"),
        ({}, "fields: is missing"),
        ({"type": "list", "fields": []}, "type: expected struct"),
        ({"fields": {}}, "fields: expected an array"),
        ({"fields": [1]}, r"fields\[0\]: expected an object"),
        ({"fields": [{**field(1, "a", "long"), "id": "1"}]}, r"fields\[0\].id: expected a 32-bit integer"),
        ({"fields": [field(2**31, "a", "long")]}, r"fields\[0\].id: expected a 32-bit integer"),
        ({"fields": [field(True, "a", "long")]}, r"fields\[0\].id: expected a 32-bit integer"),
        ({"fields": [{**field(1, "a", "long"), "required": None}]}, r"fields\[0\].required: is missing"),
        ({"fields": [{**field(1, "a", "long"), "required": "yes"}]}, r"fields\[0\].required: expected a boolean"),
        ({"fields": [field(1, None, "long")]}, r"fields\[0\].name: is missing"),
        ({"fields": [field(1, "a", None)]}, r"fields\[0\].type: is missing"),
        ({"fields": [field(1, "a", 5)]}, r"fields\[0\].type: expected a type"),
        ({"fields": [field(1, "a", {"type": "set"})]}, r"fields\[0\].type.type: expected struct, list or map"),
        ({"fields": [field(1, "a", {"type": "list", "element": "int", "element-required": True})]},
         r"fields\[0\].type.element-id: is missing"),
        ({"fields": [field(1, "a", {"type": "map", "key-id": 2, "key": "int", "value-id": 3, "value": "nope(",
                                    "value-required": True})]}, r"fields\[0\].type.value: .*nope"),
        ({"fields": [field(1, "a", "long"), field(1, "b", "long")]}, "field id 1 is used twice"),
        ({"fields": [field(1, "a", "long"), field(2, "a", "long")]}, "two fields have the name 'a'"),
        ({"fields": [field(1, "a", {"type": "struct", "fields": [field(2, "b", "int")]}), field(3, "a.b", "int")]},
         "two fields have the name 'a.b'"),
        ({"fields": [field(1, "a", "long")], "identifier-field-ids": [1]}, "field 1 cannot identify rows"),
        ({"fields": [field(1, "a", "double", required=True)], "identifier-field-ids": [1]}, "cannot identify rows"),
        ({"fields": [field(1, "a", "long", required=True)], "identifier-field-ids": [2]}, "field 2 cannot identify"),
        ({"fields": [], "identifier-field-ids": ["1"]}, r"identifier-field-ids\[0\]: expected a 32-bit integer"),
        ({"fields": [field(1, "a", "unknown", required=True)]}, "field 'a' of type unknown cannot be required"),
        (with_type("date", **{"initial-default": "yesterday"}), r"fields\[0\].initial-default: 'yesterday' is not a"),
    ],
)  # fmt: skip
def test_bad_schemas_are_refused(document, problem):
    with pytest.raises((FormatError, UnsupportedError), match=problem):
        read(document)


def test_nesting_has_an_end():
    def nested(depth):
        type_ = "long"
        for number in range(2, depth + 2):
            type_ = {"type": "list", "element-id": number, "element-required": True, "element": type_}
        return {"fields": [field(1, "a", type_)]}

    assert to_arrow_schema(Schema.from_json(JsonObject(nested(64)))).names == ["a"]
    for depth in (65, 5000):
        with pytest.raises(UnsupportedError, match="more than 64 types within each other"):
            Schema.from_json(JsonObject(nested(depth)))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**70) | st.floats() | st.sampled_from(["struct", "long", "1", "x[3]"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "name", "type", "required", "fields", "element", "element-id", "key", "value"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(st.data())
def test_hostile_json_raises_nothing_else(data):
    document = json.loads(json.dumps(data.draw(schemas(defaults=True)).to_json()))
    for reader, value in (
        (Schema, document),
        (PartitionSpec, {"spec-id": 1, "fields": [
            {"source-id": 1, "field-id": 1000, "transform": "day", "name": "d"}]}),
        (SortOrder, {"order-id": 1, "fields": [
            {"source-id": 1, "transform": "day", "direction": "asc", "null-order": "nulls-first"}]}),
    ):  # fmt: skip
        place = value
        while isinstance(place, dict | list) and place:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = data.draw(st.sampled_from(keys))
            if data.draw(st.booleans()) or not isinstance(place[key], dict | list):
                place[key] = data.draw(JSON)
                break
            place = place[key]
        with contextlib.suppress(SkerryError):
            reader.from_json(JsonObject(value)).to_json()


# Values --------------------------------------------------------------------------------------------------------------


@given(st.data())
def test_values_of_every_type_are_read_as_they_are_written(data):
    kind = data.draw(types(PLAIN))
    type_ = assign_fresh_schema_ids(kind)
    value = data.draw(optional(type_))
    written = json.loads(json.dumps(value_to_json(type_, value)))
    assert value_from_json(type_, written, "x") == value


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        (IntegerType(), 34, 34),
        (FloatType(), 0.10000000149011612, 0.1),
        (DecimalType(9, 2), Decimal("14.20"), "14.20"),
        (DecimalType(20, 10), Decimal("1E-10"), "0.0000000001"),
        (DateType(), 17486, "2017-11-16"),
        (DateType(), -1, "1969-12-31"),
        (TimeType(), 81068123456, "22:31:08.123456"),
        (TimestampType(), 1510871468123456, "2017-11-16T22:31:08.123456"),
        (TimestamptzType(), 1510871468000000, "2017-11-16T22:31:08+00:00"),
        (TimestampNanoType(), 1510871468123456789, "2017-11-16T22:31:08.123456789"),
        (StringType(), "iceberg", "iceberg"),
        (UUIDType(), bytes.fromhex("f79c3e09677c4bbda4793f349cb785e7"), "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        (FixedType(4), bytes(4), "00000000"),
        (ListType(1, IntegerType()), (1, None, 3), [1, None, 3]),
        (MapType(1, StringType(), 2, IntegerType()), (("a", 1), ("b", 2)), {"keys": ["a", "b"], "values": [1, 2]}),
        (StructType(NestedField(1, "f", IntegerType()), NestedField(2, "g", StringType())), ((1, 1), (2, "bar")),
         {"1": 1, "2": "bar"}),
        (StructType(NestedField(1, "f", IntegerType())), (), {}),
    ],
)  # fmt: skip
def test_the_values_of_the_specification(type_, value, text):
    assert value_to_json(type_, value) == text
    assert value_from_json(type_, text, "x") == value


def test_moments_may_have_other_zones_and_fewer_digits():
    assert value_from_json(TimestamptzType(), "1970-01-01T02:00:00+02:00", "x") == 0
    assert value_from_json(TimestampType(), "1970-01-01T00:00", "x") == 0
    assert value_from_json(FloatType(), 1, "x") == 1.0


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (IntegerType(), 2**31), (IntegerType(), True), (IntegerType(), 1.0), (LongType(), "1"), (LongType(), 2**63),
        (DoubleType(), "NaN"), (DoubleType(), float("nan")), (FloatType(), 1e39), (DoubleType(), float("inf")),
        (DoubleType(), 10**400), (DecimalType(4, 2), "1.5"), (DecimalType(4, 2), "100.00"), (DecimalType(4, 2), 1.25),
        (DecimalType(4, 2), "NaN"), (DecimalType(4, 2), "x" * 1000), (DateType(), "2017-02-30"), (DateType(), 3),
        (DateType(), "6000000-01-01"), (TimeType(), "25:00:00"), (TimeType(), "10:00:00.1234567"),
        (TimestampType(), "2017-01-01T00:00:00Z"), (TimestamptzType(), "2017-01-01T00:00:00"),
        (TimestampType(), "2017-01-01T00:00:00.123456789"), (TimestampNanoType(), "9999-01-01T00:00:00"),
        (UUIDType(), "f79c3e09"), (FixedType(2), "00"), (FixedType(2), "zz00"), (StringType(), 1),
        (ListType(1, IntegerType()), {"1": 1}), (ListType(1, IntegerType()), ["x"]), (UnknownType(), 1),
        (MapType(1, StringType(), 2, IntegerType()), {"keys": ["a"]}), (VariantType(), 1),
        (MapType(1, StringType(), 2, IntegerType()), {"keys": ["a"], "values": []}),
        (StructType(NestedField(1, "f", IntegerType())), {"f": 1}), (StructType(), [1]),
        (ListType(1, VariantType()), [1]), (GeometryType(), "POINT (1 2)"),
    ],
    ids=str,
)  # fmt: skip
def test_values_that_do_not_fit_are_refused(type_, value):
    with pytest.raises(FormatError, match=r"^x: "):
        value_from_json(type_, value, "x")


@given(st.data())
def test_defaults_of_users_are_checked(data):
    type_ = data.draw(st.sampled_from(PLAIN))
    value = data.draw(values(type_))
    assert checked_default(type_, value, "c") == value


@pytest.mark.parametrize(
    ("type_", "value"),
    [(DoubleType(), float("nan")), (FloatType(), float("-inf")), (DateType(), 2932897), (DateType(), -719163),
     (TimestampType(), 2**62), (DateType(), 2**31 - 1)],
)  # fmt: skip
def test_defaults_that_others_do_not_read_are_refused(type_, value):
    with pytest.raises(SchemaError, match="column 'c': metadata cannot store the default"):
        checked_default(type_, value, "c")


# Transforms, specs and orders ----------------------------------------------------------------------------------------

TRANSFORMS = st.one_of(
    st.sampled_from(["identity", "void", "year", "month", "day", "hour"]).map(parse_transform),
    st.builds(BucketTransform, st.integers(1, 2**31 - 1)),
    st.builds(TruncateTransform, st.integers(1, 2**31 - 1)),
)


@given(TRANSFORMS)
def test_transforms_are_read_as_they_are_written(transform):
    assert parse_transform(str(transform)) == transform
    assert parse_transform(str(transform).upper()) == transform
    assert pickle.loads(pickle.dumps(transform)) == transform


@pytest.mark.parametrize("text", ["zorder", "bucket", "bucket[x]", "bucketV2[16]", "truncate[-1]", "day[3]", ""])
def test_transforms_that_we_do_not_know_are_kept(text):
    assert parse_transform(text) == UnknownTransform(text)
    assert str(parse_transform(text)) == text
    assert not parse_transform(text).preserves_order


@pytest.mark.parametrize("text", ["bucket[0]", "truncate[0]", "bucket[2147483648]", "truncate[9999999999]"])
def test_numbers_of_transforms_have_limits(text):
    with pytest.raises(FormatError, match="needs a positive 32-bit number"):
        parse_transform(text)


@given(st.lists(st.tuples(st.integers(1, 9), TRANSFORMS, NAME := st.text(max_size=4)), max_size=4), st.integers(0, 9))
def test_pyiceberg_reads_the_same_specs(fields, spec_id):
    ours = PartitionSpec(
        *(PartitionField(source, 1000 + n, transform, name) for n, (source, transform, name) in enumerate(fields)),
        spec_id=spec_id,
    )
    theirs = peer_spec(ours)
    assert json.loads(theirs.model_dump_json()) == ours.to_json()
    assert PartitionSpec.from_json(JsonObject(ours.to_json())) == ours
    assert str(theirs.fields) == str(peer_spec(ours).fields)
    assert [str(one) for one in ours.fields] == [str(one) for one in theirs.fields]
    assert (ours.is_unpartitioned(), ours.last_assigned_field_id) == (
        theirs.is_unpartitioned(),
        theirs.last_assigned_field_id,
    )


@given(
    st.lists(
        st.tuples(st.integers(1, 9), TRANSFORMS, st.sampled_from(SortDirection), st.sampled_from(NullOrder)), max_size=4
    )
)
def test_pyiceberg_reads_the_same_orders(fields):
    ours = SortOrder(*(SortField(*one) for one in fields), order_id=3)
    assert json.loads(peer_order(ours).model_dump_json()) == ours.to_json()
    assert SortOrder.from_json(JsonObject(ours.to_json())) == ours
    assert ours.is_unsorted is peer_order(ours).is_unsorted
    assert pickle.loads(pickle.dumps(ours)) == ours


def test_fields_of_version_1_without_ids_are_numbered():
    fields = [{"source-id": n, "transform": "identity", "name": f"p{n}"} for n in (1, 2)]
    spec = PartitionSpec.from_json(JsonObject({"spec-id": 4, "fields": fields}))
    assert [one.field_id for one in spec.fields] == [1000, 1001]


def test_transforms_of_several_columns_are_kept():
    document = {
        "spec-id": 0,
        "fields": [{"source-ids": [3, 4], "field-id": 1000, "transform": "zorder", "name": "z", "x-note": 1}],
    }
    spec = PartitionSpec.from_json(JsonObject(document))
    assert (spec.fields[0].source_id, spec.fields[0].source_ids) == (3, (3, 4))
    assert str(spec.fields[0]) == "1000: z: zorder(3, 4)"
    assert spec.to_json() == document
    order = {"order-id": 1, "fields": [{"source-ids": [3, 4], "transform": "zorder", "direction": "desc",
                                        "null-order": "nulls-last"}]}  # fmt: skip
    assert SortOrder.from_json(JsonObject(order)).to_json() == order
    single = PartitionSpec.from_json(JsonObject({"fields": [{**document["fields"][0], "source-ids": [3]}]}))
    assert (single.fields[0].source_id, single.fields[0].source_ids) == (3, ())


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ([{"field-id": 1000, "transform": "day", "name": "d"}], "source-id: is missing"),
        ([{"source-ids": [], "field-id": 1000, "transform": "day", "name": "d"}], "source-ids: is empty"),
        ([{"source-id": 1, "field-id": 1000, "transform": 3, "name": "d"}], "transform: expected a string"),
        ([{"source-id": 1, "field-id": 1000, "transform": "day"}], "name: is missing"),
        ([{"source-id": 1, "field-id": 1000, "transform": "day", "name": "a"},
          {"source-id": 1, "field-id": 1000, "transform": "year", "name": "b"}], "two partition fields have the same"),
    ],
)  # fmt: skip
def test_bad_specs_are_refused(fields, problem):
    with pytest.raises(FormatError, match=problem):
        PartitionSpec.from_json(JsonObject({"spec-id": 1, "fields": fields}, "partition-specs[0]"))


def test_bad_orders_are_refused():
    good = {"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}
    for name, value in (("direction", "up"), ("null-order", "first"), ("transform", None), ("source-id", 1.5)):
        document = {"order-id": 1, "fields": [{**good, name: value}]}
        with pytest.raises(FormatError, match=rf"fields\[0\].{name}: "):
            SortOrder.from_json(JsonObject(document))
    assert SortOrder.from_json(JsonObject({"order-id": 1, "fields": [{**good, "direction": "ASC"}]})).fields == (
        SortField(1, IdentityTransform(), SortDirection.ASC, NullOrder.NULLS_FIRST),
    )


# Name mappings -------------------------------------------------------------------------------------------------------

_TEXTS = st.lists(st.text(max_size=3), max_size=3)
_ID = {"field-id": st.integers(1, 9)}
MAPPED = st.recursive(
    st.fixed_dictionaries({"names": _TEXTS}, optional=_ID),
    lambda inner: st.fixed_dictionaries(
        {"names": _TEXTS, "fields": st.lists(inner, min_size=1, max_size=3)}, optional={**_ID, "x-more": st.just(1)}
    ),
    max_leaves=6,
)


@given(st.lists(MAPPED, max_size=3))
@example([{"field-id": 1, "names": ["a"], "fields": []}])
def test_pyiceberg_reads_the_same_mappings(document):
    ours = NameMapping.parse(json.dumps(document))

    def shape(fields):
        return [(one.field_id, list(one.names), shape(one.fields)) for one in fields]

    assert shape(ours.fields) == shape(parse_mapping_from_json(json.dumps(document)).root)
    assert NameMapping.parse(ours.to_text()) == ours
    assert shape(parse_mapping_from_json(ours.to_text()).root) == shape(ours.fields)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[1]", '[{"names": "a"}]', '[{"names": [1]}]', '[{"field-id": "1", "names": []}]', "[" * 100_000,
     '[{"names": [], "fields": 3}]', '[{"names": ["\\ud800"]}]'],
)  # fmt: skip
def test_bad_mappings_are_refused(text):
    with pytest.raises(FormatError, match=r"Name Mapping Serialization\]$"):
        NameMapping.parse(text)


def test_orders_are_told_from_transforms():
    assert VoidTransform() != IdentityTransform() != DayTransform()
    assert BucketTransform(16) != TruncateTransform(16)
    assert LongType() != IntegerType()


def test_types_that_are_changed_keep_what_we_do_not_know():
    inner = StructType(NestedField(4, "a", LongType()), unknown={"x": 1})
    types = (ListType(2, inner, unknown={"y": 2}), MapType(5, StringType(), 6, LongType(), unknown={"z": 3}))
    draft = SchemaDraft(Schema(*(NestedField(n, f"c{n}", type_) for n, type_ in zip((1, 3), types, strict=True))), 9, 2)
    draft.add(("c1", "b"), "int", None, required=False, default=None)
    draft.update(("c3", "value"), None, required=False, doc=None)
    found, mapped = (field.field_type for field in draft.fields)
    assert (found.unknown, found.element_type.unknown, mapped.unknown) == ({"y": 2}, {"x": 1}, {"z": 3})
    assert [field.name for field in found.element_type.fields] == ["a", "b"]
