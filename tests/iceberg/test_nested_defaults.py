"""Defaults inside of structs, lists and maps, and of these types, where files or rows lack the column."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from decimal import Decimal

import pyarrow as pa
import pytest

import skerry
from skerry.errors import SchemaError, UnsupportedError
from skerry.table.rows.default_arrays import decode_default, default_array, encode_default
from skerry.table.rows.schema import WRITE_DEFAULT_KEY

INNER = pa.struct([("a", pa.int64())])
SCHEMA = pa.schema([("id", pa.int64()), ("s", INNER), ("l", pa.list_(INNER)), ("m", pa.map_(pa.string(), INNER))])
ROWS = [
    {"id": 1, "s": {"a": 1}, "l": [{"a": 1}, None], "m": [("x", {"a": 1})]},
    {"id": 2, "s": None, "l": None, "m": None},
]


@pytest.fixture
def table(tmp_path):
    table = skerry.connect(tmp_path / "lake").create_table("a.t", SCHEMA, format_version=3)
    table.append(pa.Table.from_pylist(ROWS, schema=SCHEMA))
    return table


def content(table, **options):
    return sorted(table.refresh().scan(**options).to_arrow().to_pylist(), key=lambda row: row["id"])


def with_fields(table, *fields):
    """The table with columns as another writer may have put them into the metadata."""
    path = table.metadata_location.removeprefix("file://")
    with open(path) as file:
        document = json.load(file)
    schema = document["schemas"][-1]
    schema["fields"] += fields
    document["last-column-id"] = 100
    with open(path, "w") as file:
        json.dump(document, file)
    return table.catalog.load_table(table.name)  # a handle never reads a metadata file twice


LIST = {"type": "list", "element-id": 51, "element-required": False, "element": "decimal(5, 2)"}
MAP = {"type": "map", "key-id": 53, "key": "date", "value-id": 54, "value-required": False, "value": "uuid"}
STRUCT = {
    "type": "struct",
    "fields": [
        {"id": 56, "name": "x", "required": True, "type": "int", "initial-default": 3, "write-default": 4},
        {"id": 57, "name": "y", "required": False, "type": "string"},
        {"id": 58, "name": "z", "required": False, "type": LIST | {"element-id": 59}, "initial-default": ["9.00"]},
    ],
}
UUID = "f79c3e09-677c-4bbd-a479-3f349cb785e7"


def column(number, name, type_, default):
    return {
        "id": number,
        "name": name,
        "required": False,
        "type": type_,
        "initial-default": default,
        "write-default": default,
    }


FOREIGN = [
    column(50, "list", LIST, ["1.50", None]),
    column(52, "map", MAP, {"keys": ["2020-01-02"], "values": [UUID]}),
    column(55, "struct", STRUCT, {}),
]
EXPECTED = {
    "list": [Decimal("1.50"), None],
    "map": [(dt.date(2020, 1, 2), uuid.UUID(UUID))],
    "struct": {"x": 3, "y": None, "z": [Decimal("9.00")]},
}


def test_fields_inside_of_other_columns_have_defaults(table):
    update = table.update_schema()
    update.add_column("s.b", "int", default_value=7)
    update.add_column("l.element.b", "string", default_value="q")
    update.add_column("m.value.b", "double", required=True, default_value=1.5)
    update.commit()
    old = {"id": 1, "s": {"a": 1, "b": 7}, "l": [{"a": 1, "b": "q"}, None], "m": [("x", {"a": 1, "b": 1.5})]}
    assert content(table) == [old, ROWS[1]]
    assert content(table, columns=["id"], where="s.b = 7") == [{"id": 1}]
    assert content(table, columns=["id"], where="s.b IS NULL") == [{"id": 2}]
    table.append(pa.Table.from_pylist([{**ROWS[0], "id": 3}], schema=SCHEMA))
    assert content(table) == [old, ROWS[1], {**old, "id": 3}]
    table.update_schema().set_default_value("s.b", 8).commit()
    table.append(
        pa.Table.from_pylist([{"id": 4, "s": {"a": 5}}], schema=pa.schema([SCHEMA.field("id"), SCHEMA.field("s")]))
    )
    assert content(table, columns=["id", "s"], where="id <> 2") == [
        *({"id": number, "s": {"a": 1, "b": 7}} for number in (1, 3)),
        {"id": 4, "s": {"a": 5, "b": 8}},
    ]
    table.compact()
    assert [row["s"] for row in content(table)] == [{"a": 1, "b": 7}, None, {"a": 1, "b": 7}, {"a": 5, "b": 8}]


def test_defaults_of_nested_types_are_read_and_written(table):
    table = with_fields(table, *FOREIGN)
    expected = [{**row, **EXPECTED} for row in ROWS]
    assert content(table) == expected
    assert content(table, columns=["struct.z", "id"]) == [
        {"id": number, "struct": {"z": [Decimal("9.00")]}} for number in (1, 2)
    ]
    assert content(table, columns=["id"], where="struct.x = 3 AND struct.y IS NULL") == [{"id": 1}, {"id": 2}]
    assert content(table, where="list IS NULL") == []
    table.append(pa.table({"id": [3]}))
    written = {**EXPECTED, "struct": {"x": 4, "y": None, "z": None}}
    new = {"id": 3, "s": None, "l": None, "m": None, **written}
    assert content(table) == [*expected, new]
    table.append(pa.table({"id": [4], "struct": [{"y": "given"}], "list": pa.array([None], pa.null())}))
    assert content(table, where="id = 4") == [
        {**new, "id": 4, "struct": {"x": 4, "y": "given", "z": None}, "list": None}
    ]
    table.refresh().delete("id = 4")
    table.refresh().compact()
    assert content(table) == [*expected, new]
    table.refresh().update_schema().rename_column("list", "renamed").commit()
    with open(table.refresh().metadata_location.removeprefix("file://")) as file:
        fields = {field["id"]: field for field in json.load(file)["schemas"][-1]["fields"]}
    for field in FOREIGN:
        kept = fields[field["id"]]
        assert (kept["initial-default"], kept["write-default"]) == (field["initial-default"], field["write-default"])


def test_counts_are_not_guessed_from_nested_defaults(table):
    values = {"56": 5, "57": "both"}
    table = with_fields(table, column(55, "struct", STRUCT, values))
    assert [row["struct"] for row in content(table)] == [{"x": 5, "y": "both", "z": [Decimal("9.00")]}] * 2
    statistics = table.statistics()
    for name in ("struct.x", "struct.y"):
        assert not statistics[name].freshness.is_fresh
    table.analyze()
    assert table.refresh().statistics()["struct.y"].ndv == 1


def test_an_invalid_default_of_others_leaves_the_rest_readable(table):
    required = {"type": "struct", "fields": [{"id": 71, "name": "x", "required": True, "type": "int"}]}
    table = with_fields(table, column(70, "bad", required, {}))
    assert content(table, columns=["id"]) == [{"id": 1}, {"id": 2}]
    with pytest.raises(SchemaError, match="required column 'x' has no value in a default"):
        content(table)


@pytest.mark.parametrize(
    ("type_", "default"),
    [(pa.list_(pa.int64()), [1]), (INNER, {}), (pa.map_(pa.string(), pa.int64()), {"a": 1})],
    ids=str,
)
def test_such_defaults_are_not_set_as_iceberg_java_fails_on_them(table, type_, default):
    with pytest.raises(UnsupportedError, match=r"column 'n': .* cannot have a default: Iceberg Java \(1.12\) does not"):
        table.update_schema().add_column("n", type_, default_value=default).commit()
    assert table.refresh().schema.names == SCHEMA.names


def test_defaults_as_arrays_and_bytes():
    def number(name, type_, value, **options):
        return pa.field(name, type_, metadata={b"PARQUET:field_id": str(value).encode()}, **options)

    item = number("element", pa.uuid(), 4)
    inner = pa.struct([number("x", pa.int32(), 2), number("l", pa.list_(item), 3)])
    field = number("s", inner, 1)
    default = ((3, (bytes(range(16)), None)),)
    array = default_array(field, default, lambda child: pa.array([5], pa.int32()) if child.name == "x" else None)
    assert array.type == inner
    assert array.to_pylist()[0]["x"] == 5
    assert [value and value.bytes for value in array.to_pylist()[0]["l"]] == [bytes(range(16)), None]
    with_own = pa.struct(
        [
            inner.field("x").with_metadata({**inner.field("x").metadata, WRITE_DEFAULT_KEY: b"\x07\0\0\0"}),
            inner.field("l"),
        ]
    )
    stored = encode_default(field.with_type(with_own), default)
    assert decode_default(with_own, stored).to_pylist()[0]["x"] == 7
    assert decode_default(pa.int32(), encode_default(number("i", pa.int32(), 1), -2)).to_pylist() == [-2]
    assert default_array(number("m", pa.map_(pa.string(), pa.int32()), 1), (), lambda child: None).to_pylist() == [[]]
