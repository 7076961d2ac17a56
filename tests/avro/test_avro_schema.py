"""Avro schemas: what is understood, what is ignored, what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from skerry.avro.schema import (
    Array,
    AvroType,
    Enumeration,
    Fixed,
    LogicalType,
    Map,
    Primitive,
    PrimitiveKind,
    Record,
    Union,
    decode_schema,
)
from skerry.errors import FormatError, UnsupportedError


def parse(value: Any) -> AvroType:
    return decode_schema(json.dumps(value))


def record(name: str = "r", fields: Any = (), **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


@pytest.mark.parametrize(("name", "least"), [("null", 0), ("boolean", 1), ("int", 1), ("long", 1), ("float", 4),
                                             ("double", 8), ("bytes", 1), ("string", 1)])  # fmt: skip
def test_primitive_types(name: str, least: int) -> None:
    for found in (parse(name), parse({"type": name}), parse({"type": {"type": name}})):
        assert found == Primitive(PrimitiveKind(name), None, least)
        assert found.min_bytes == least


def test_named_types_are_found_by_full_name_and_by_their_namespace() -> None:
    found = parse(
        record(
            "r",
            [
                field("a", {"type": "fixed", "name": "f", "size": 3}),
                field("b", "f"),
                field("c", "n.f"),
                field("d", record("m.s", [field("x", {"type": "fixed", "name": "f", "size": 5}), field("y", "f")])),
                field("e", "m.f"),
                field("f", {"type": "f"}),
            ],
            namespace="n",
        )
    )
    assert isinstance(found, Record)
    assert found.name == "n.r"
    a, b, c, d, e, f = (entry.type for entry in found.fields)
    assert a == Fixed("n.f", 3)
    assert a is b is c is f
    assert isinstance(d, Record)
    assert d.fields[1].type == e == Fixed("m.f", 5)


def test_attributes_of_iceberg_are_kept() -> None:
    pair = record("k1_v2", [field("key", "int", **{"field-id": 1}), field("value", "long", **{"field-id": 2})])
    found = parse(
        record(
            "r",
            [
                field("list", {"type": "array", "items": "int", "element-id": 7}, **{"field-id": 3}),
                field("map", {"type": "array", "items": pair, "logicalType": "map"}, **{"field-id": 4}),
                field("text_map", {"type": "map", "values": "int", "key-id": 8, "value-id": 9}),
                field("ts", {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False}),
            ],
        )
    )
    assert isinstance(found, Record)
    assert [entry.field_id for entry in found.fields] == [3, 4, None, None]
    numbers, mapping, text_map, timestamp = (entry.type for entry in found.fields)
    assert isinstance(numbers, Array)
    assert (numbers.element_id, numbers.is_map) == (7, False)
    assert isinstance(mapping, Array)
    assert mapping.is_map
    assert isinstance(text_map, Map)
    assert (text_map.key_id, text_map.value_id) == (8, 9)
    assert isinstance(timestamp, Primitive)
    assert timestamp.logical == LogicalType("timestamp-micros", adjust_to_utc=False)


@pytest.mark.parametrize(
    "items",
    [
        "int",
        record("p", [field("key", "int")]),
        record("p", [field("value", "int"), field("key", "int")]),
        record("p", [field("key", ["null", "int"]), field("value", "int")]),
    ],
)
def test_an_array_is_a_map_only_of_pairs_whose_key_is_never_null(items: Any) -> None:
    found = parse({"type": "array", "items": items, "logicalType": "map"})
    assert isinstance(found, Array)
    assert not found.is_map


def test_optional_is_a_union_with_null_on_either_side() -> None:
    for branches, null in ((["null", "int"], 0), (["int", "null"], 1)):
        found = parse(branches)
        assert isinstance(found, Union)
        assert found.optional == Primitive(PrimitiveKind.INT)
        assert found.null_branch == null
    for branches in (["int"], ["null"], ["null", "int", "string"], ["int", "string"]):
        found = parse(branches)
        assert isinstance(found, Union)
        assert found.optional is None


def test_least_bytes() -> None:
    found = parse(
        record(
            fields=[
                field("a", "null"),
                field("b", {"type": "fixed", "name": "f", "size": 10}),
                field("c", ["null", "double"]),
                field("d", ["double", "f"]),
                field("e", {"type": "array", "items": "double"}),
                field("g", {"type": "enum", "name": "e", "symbols": ["A"]}),
            ]
        )
    )
    assert found.min_bytes == 0 + 10 + 1 + 9 + 1 + 1


@pytest.mark.parametrize(
    ("schema", "logical"),
    [
        ({"type": "int", "logicalType": "date"}, LogicalType("date")),
        ({"type": "long", "logicalType": "date"}, None),
        ({"type": "string", "logicalType": "uuid"}, LogicalType("uuid")),
        ({"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"}, LogicalType("uuid")),
        ({"type": "fixed", "name": "u", "size": 15, "logicalType": "uuid"}, None),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, LogicalType("decimal", 4, 2)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4}, LogicalType("decimal", 4, 0)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 5}, None),
        ({"type": "bytes", "logicalType": "decimal", "precision": 0}, None),
        ({"type": "bytes", "logicalType": "decimal", "precision": True}, None),
        ({"type": "bytes", "logicalType": "decimal"}, None),
        ({"type": "long", "logicalType": "something-new"}, None),
        ({"type": "long", "logicalType": 5}, None),
    ],
)
def test_logical_types_that_do_not_fit_are_ignored(schema: Any, logical: LogicalType | None) -> None:
    found = parse(schema)
    assert isinstance(found, Primitive | Fixed)
    assert found.logical == logical


def test_enum() -> None:
    assert parse({"type": "enum", "name": "e", "symbols": ["A", "B"]}) == Enumeration("e", ("A", "B"))


BAD = [
    ("", "is not JSON"),
    ("{", "is not JSON"),
    (b"\xff", "is not JSON"),
    ("[" * 100_000, "is not JSON"),
    (r'{"type": "record", "name": "r", "fields": [{"name": "a\ud800", "type": "int"}]}', "text that is not Unicode"),
    ("5", "expected a type name, list or object, found 5"),
    ("null", "expected a type name, list or object, found None"),
    ('"missing"', "uses the type 'missing', which it does not define before"),
    ('{"type": "missing"}', "uses the type 'missing', which it does not define before"),
    ("{}", "expected an object with a type"),
    ('{"type": 5}', "expected an object with a type"),
    ("[]", "expected a union of one or more types"),
    ('["int", ["null", "int"]]', "expected a union of one or more types that are not unions"),
    ('["null", "null"]', "expected a union with null once"),
    ('{"type": "record", "fields": []}', "expected a record with a name"),
    ('{"type": "record", "name": "", "fields": []}', "expected a record with a name"),
    ('{"type": "record", "name": "r"}', "expected a record with a list of fields"),
    ('{"type": "record", "name": "int", "fields": []}', "defines the type 'int' twice"),
    ('{"type": "record", "name": "r", "fields": [5]}', "expected a record field with name and type, found 5"),
    ('{"type": "record", "name": "r", "fields": [{"name": "a"}]}', "expected a record field with name and type"),
    ('{"type": "record", "name": "r", "fields": [{"type": "int"}]}', "expected a record field with name and type"),
    (json.dumps(record(fields=[field("a", "int"), field("a", "int")])), "has two fields of one name"),
    (json.dumps(record(fields=[field("a", record("r"))])), "defines the type 'r' twice"),
    (json.dumps(record(fields=[field("a", "int", **{"field-id": "1"})])), "expected an integer as field-id"),
    (json.dumps(record(fields=[field("a", "int", **{"field-id": True})])), "expected an integer as field-id"),
    (json.dumps(record(fields=[field("a", "int", **{"field-id": 2**31})])), "expected an integer as field-id"),
    ('{"type": "enum", "name": "e", "symbols": []}', "expected an enum with a list of symbols"),
    ('{"type": "enum", "name": "e", "symbols": [1]}', "expected an enum with a list of symbols"),
    ('{"type": "fixed", "name": "f", "size": -1}', "expected a fixed with a size"),
    ('{"type": "fixed", "name": "f", "size": 2147483648}', "expected a fixed with a size"),
    ('{"type": "fixed", "name": "f", "size": true}', "expected a fixed with a size"),
    ('{"type": "fixed", "name": "f"}', "expected a fixed with a size"),
    ('{"type": "array"}', "expected a type name, list or object, found None"),
    ('{"type": "map", "values": 1}', "expected a type name, list or object, found 1"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_what_is_no_schema(text: str | bytes, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        decode_schema(text, location="f.avro")
    assert message in caught.value.message
    assert (caught.value.location, caught.value.rule) == ("f.avro", "Avro spec, Schema Declaration")


def test_recursive_type_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match=r"Avro type 'n\.list' contains itself"):
        parse(record("list", [field("next", ["null", "list"])], namespace="n"))


def test_deep_schema_is_refused() -> None:
    schema: Any = "int"
    for _ in range(63):
        schema = {"type": "array", "items": schema}
    assert parse(schema).depth == 64
    with pytest.raises(UnsupportedError, match="nests deeper than 64 types"):
        parse({"type": "array", "items": schema})


def test_short_schema_that_expands_without_end_is_refused_at_once() -> None:
    """Each record uses the one before twice: 2 ** 60 fields in a few kilobytes."""
    inner: Any = "int"
    for i in range(60):
        inner = record(f"r{i}", [field("a", inner), field("b", f"r{i - 1}" if i else "int")])
    with pytest.raises(UnsupportedError, match="more than 65536 types"):
        parse(inner)
