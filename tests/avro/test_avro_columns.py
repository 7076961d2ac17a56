"""Decoding records into columns: against fastavro, against plain Python, by hand, and with damage."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import avro_oracle
import fastavro
import numpy as np
import pyarrow as pa
import pytest
from avro_oracle import as_arrow_shows
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.avro import machine, read_batches, read_columns, read_header, write_container
from skerry.avro.container import encode_block, encode_header, encode_long
from skerry.avro.program import compile_program
from skerry.errors import FormatError, SchemaError, UnsupportedError
from torture import examples

SYNC = bytes(range(16))
DATA = Path(__file__).parent / "data"


@pytest.fixture(params=["machine code", "plain Python"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test twice: with the compiled kernel and with its plain twin, which would trip over a wild index."""
    if request.param == "plain Python":
        monkeypatch.setattr(machine, "run_program", machine.run_program.py_func)
    return str(request.param)


def record(*fields: tuple[str, Any], name: str = "r") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields]}


def file_of(schema: Any, data: bytes, count: int = 1) -> bytes:
    """A file with one block of bytes by hand."""
    return encode_header(json.dumps(schema), "null", {}, SYNC) + encode_block(count, data, "null", SYNC)


def body_start(schema: Any, data: bytes, count: int = 1) -> int:
    return len(file_of(schema, data, count)) - len(data) - 16


def expected(data: bytes, schema: Any) -> list[Any]:
    return [as_arrow_shows(value, schema) for value in avro_oracle.read_records(data)]


def check(schema: Any, records: list[Any], codec: str = "null", block_bytes: int = 1 << 16) -> pa.RecordBatch:
    """Write with fastavro's encoder, decode with both, compare."""
    data = write_container(schema, records, codec=codec, block_bytes=block_bytes)
    batch = read_columns(data)
    batch.validate(full=True)
    assert batch.to_pylist() == expected(data, schema)
    return batch


# --- By hand ----------------------------------------------------------------------------------------------------------

A_LONG_AND_A_STRING = record(("a", "long"), ("b", "string"))
FIXED4 = {"type": "fixed", "name": "f4", "size": 4}
SUITS = {"type": "enum", "name": "suit", "symbols": ["A", "B", "C", "D"]}
LONGS = {"type": "array", "items": "long"}

# (type of the only field, bytes of its values, values), the first ones from the specification's own examples
BY_HAND: list[tuple[Any, str, list[Any]]] = [
    (A_LONG_AND_A_STRING, "36 06 66 6f 6f", [{"a": 27, "b": "foo"}]),
    (LONGS, "04 06 36 00", [[3, 27]]),
    (["string", "null"], "02  00 02 61", [None, "a"]),
    (SUITS, "06 00", ["D", "A"]),
    ("null", "", [None, None, None]),
    ("boolean", "01 00 01", [True, False, True]),
    ("int", "01 feffffff0f ffffffff0f", [-1, 2**31 - 1, -(2**31)]),
    ("int", "80 00", [0]),  # longer than needed, but legal
    ("float", "0000803f 00000080", [1.0, -0.0]),
    ("double", "000000000000f03f 000000000000f07f", [1.0, float("inf")]),
    ("bytes", "00 04 ff00", [b"", b"\xff\x00"]),
    (FIXED4, "01020304", [b"\1\2\3\4"]),
    ({"type": "fixed", "name": "f0", "size": 0}, "", [b"", b""]),
    (LONGS, "01 02 06 01 02 36 00", [[3, 27]]),  # two blocks of one item, each with its size
    (LONGS, "00 02 02 02 04 00", [[], [1, 2]]),
    ({"type": "array", "items": "null"}, "06 00", [[None, None, None]]),
    ({"type": "array", "items": ["null", LONGS]}, "06 00 02 02 02 00 02 00 00", [[None, [1], []]]),
    ({"type": "map", "values": "int"}, "02 02 61 04 01 06 02 62 06 00", [[("a", 2), ("b", 3)]]),
    (["int"], "00 02", [1]),
    (["null"], "00 00", [None, None]),
    (record(), "", [{}, {}]),
    (
        ["null", record(("x", "string"), ("y", LONGS), name="s")],
        "00 02 02 61 00 00 00",
        [None, {"x": "a", "y": []}, None, None],
    ),
]


@pytest.mark.parametrize(("kind", "encoded", "values"), BY_HAND)
def test_bytes_by_hand(engine: str, kind: Any, encoded: str, values: list[Any]) -> None:
    data = file_of(record(("v", kind), name="top"), bytes.fromhex(encoded), len(values))
    batch = read_columns(data)
    batch.validate(full=True)
    assert batch["v"].to_pylist() == values
    skipped = read_columns(data, [])
    assert (skipped.num_rows, skipped.num_columns) == (len(values), 0)


def test_union_of_several_types_is_skipped_but_not_decoded(engine: str) -> None:
    choice = ["null", "long", "string", {"type": "array", "items": "int"}]
    schema = record(("u", choice), ("v", "int"))
    data = file_of(schema, bytes.fromhex("00 02  02 04 04  04 02 61 06  06 02 02 00 08"), 4)
    assert read_columns(data, ["v"])["v"].to_pylist() == [1, 2, 3, 4]
    with pytest.raises(UnsupportedError, match=r"Avro field 'u' is a union of several types, \[null, long, str"):
        read_columns(data)


def test_only_records_have_columns() -> None:
    with pytest.raises(UnsupportedError, match="Avro file of long values; only records have columns") as caught:
        read_columns(file_of("long", b"\x02"), location="f.avro")
    assert caught.value.location == "f.avro"


# --- Logical types and attributes -------------------------------------------------------------------------------------

DECIMAL_BYTES = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
DECIMAL_FIXED = {"type": "fixed", "name": "d", "size": 5, "logicalType": "decimal", "precision": 10, "scale": 3}
WIDE = {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 1}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
UUID_FIXED = {"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"}
MOMENT = datetime(2026, 11, 21, 12, 24, 38, 751000, tzinfo=UTC)
SOME_UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")

LOGICAL: list[tuple[Any, pa.DataType, list[Any]]] = [
    ({"type": "int", "logicalType": "date"}, pa.date32(), [date(1969, 12, 31), date(2026, 1, 1)]),
    ({"type": "int", "logicalType": "time-millis"}, pa.time32("ms"), [time(0), time(23, 59, 59, 999000)]),
    ({"type": "long", "logicalType": "time-micros"}, pa.time64("us"), [time(0), time(23, 59, 59, 999999)]),
    ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("ms", "UTC"), [MOMENT]),
    (MICROS, pa.timestamp("us", "UTC"), [MOMENT, datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)]),
    ({**MICROS, "adjust-to-utc": True}, pa.timestamp("us", "UTC"), [MOMENT]),
    ({**MICROS, "adjust-to-utc": False}, pa.timestamp("us"), [MOMENT.replace(tzinfo=None)]),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, pa.timestamp("ms"), [MOMENT.replace(tzinfo=None)]),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us"), [MOMENT.replace(tzinfo=None)]),
    (DECIMAL_BYTES, pa.decimal128(5, 2), [Decimal("0.00"), Decimal("999.99"), Decimal("-999.99"), Decimal("-0.01")]),
    (DECIMAL_FIXED, pa.decimal128(10, 3), [Decimal("1.000"), Decimal("-9999999.999")]),
    (WIDE, pa.decimal256(60, 1), [Decimal(-1), Decimal("9" * 59 + ".9")]),
    ({**WIDE, "precision": 80}, pa.binary(), [b"\x01", b"\xff\x00"]),
    (UUID_FIXED, pa.uuid(), [SOME_UUID]),
    ({"type": "string", "logicalType": "uuid"}, pa.string(), [str(SOME_UUID)]),
    (SUITS, pa.dictionary(pa.int32(), pa.string()), ["D", "A", "D"]),
    ({"type": "long", "logicalType": "unheard-of"}, pa.int64(), [1]),
]


WRITTEN_AS = {"binary": "bytes", "extension<arrow.uuid>": {"type": "fixed", "name": "u", "size": 16}}
"""What fastavro would not take the given values for."""


def logical_schema(kind: Any) -> Any:
    again = kind.get("name", kind) if isinstance(kind, dict) else kind
    return record(("v", kind), ("n", ["null", again]))


@pytest.mark.parametrize(("kind", "arrow_type", "values"), LOGICAL)
def test_logical_types(engine: str, kind: Any, arrow_type: pa.DataType, values: list[Any]) -> None:
    plain = [value.bytes if isinstance(value, uuid.UUID) else value for value in values]
    schema = logical_schema(kind)
    writer = fastavro.parse_schema(logical_schema(WRITTEN_AS.get(str(arrow_type), kind)))
    stream = io.BytesIO()
    for value in plain:
        fastavro.schemaless_writer(stream, writer, {"v": value, "n": None})
        fastavro.schemaless_writer(stream, writer, {"v": value, "n": value})
    batch = read_columns(file_of(schema, stream.getvalue(), 2 * len(plain)))
    batch.validate(full=True)
    assert batch.schema.field("v").type == batch.schema.field("n").type == arrow_type
    assert not batch.schema.field("v").nullable
    assert batch.schema.field("n").nullable
    assert batch["v"].to_pylist() == [value for value in values for _ in range(2)]
    assert batch["n"].to_pylist() == [shown for value in values for shown in (None, value)]


def test_nanoseconds() -> None:
    kind = {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": False}
    batch = read_columns(file_of(record(("v", kind)), encode_long(1_700_000_000_123_456_789)))
    assert batch.schema.field("v").type == pa.timestamp("ns")
    assert batch["v"].cast(pa.int64()).to_pylist() == [1_700_000_000_123_456_789]


def test_field_ids_are_kept_at_every_level() -> None:
    pair = {
        "type": "record",
        "name": "k5_v6",
        "fields": [{"name": "key", "type": "int", "field-id": 5}, {"name": "value", "type": "bytes", "field-id": 6}],
    }
    inner = {"type": "record", "name": "i", "fields": [{"name": "x", "type": ["null", "long"], "field-id": 8}]}
    schema = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "a", "type": "int", "field-id": 0},
            {"name": "m", "type": ["null", {"type": "array", "items": pair, "logicalType": "map"}], "field-id": 1},
            {"name": "l", "type": {"type": "array", "items": "string", "element-id": 7}, "field-id": 2},
            {"name": "s", "type": inner, "field-id": 3},
            {"name": "t", "type": {"type": "map", "values": "int", "key-id": 9, "value-id": 10}, "field-id": 4},
            {"name": "none", "type": "int"},
        ],
    }
    record_of = {"a": 1, "m": [{"key": 1, "value": b"x"}], "l": ["y"], "s": {"x": 2}, "t": {"z": 3}, "none": 0}
    found = check(schema, [record_of]).schema

    def field_id(entry: pa.Field) -> int | None:
        return int(entry.metadata[b"PARQUET:field_id"]) if entry.metadata else None

    assert [field_id(entry) for entry in found] == [0, 1, 2, 3, 4, None]
    assert field_id(found.field("m").type.key_field) == 5
    assert field_id(found.field("m").type.item_field) == 6
    assert field_id(found.field("l").type.value_field) == 7
    assert field_id(found.field("s").type.field("x")) == 8
    assert field_id(found.field("t").type.key_field) == 9
    assert field_id(found.field("t").type.item_field) == 10


# --- Against fastavro -------------------------------------------------------------------------------------------------

FLOATS = st.floats(width=32, allow_nan=False)
PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": FLOATS,
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=20),
    "string": st.text(st.characters(exclude_categories=("Cs",)), max_size=12),
}


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3) -> Any:
    """Schemas of which every value can become a column; names are given later."""
    kinds = ["primitive", "fixed", "enum", "optional"] + (["array", "map", "record", "pairs"] if depth else [])
    kind = draw(st.sampled_from(kinds))
    if kind == "fixed":
        return {"type": "fixed", "size": draw(st.integers(0, 20))}
    if kind == "enum":
        return {"type": "enum", "symbols": [f"S{i}" for i in range(draw(st.integers(1, 70)))]}
    if kind == "optional":
        inner = draw(schemas(max(depth - 1, 0)).filter(lambda value: value != "null" and not isinstance(value, list)))
        return draw(st.permutations(["null", inner]))
    if kind == "array":
        return {"type": "array", "items": draw(schemas(depth - 1))}
    if kind == "map":
        return {"type": "map", "values": draw(schemas(depth - 1))}
    if kind == "pairs":
        key = draw(st.sampled_from(["int", "long", "string"]))
        pair = {
            "type": "record",
            "fields": [{"name": "key", "type": key}, {"name": "value", "type": draw(schemas(depth - 1))}],
        }
        return {"type": "array", "items": pair, "logicalType": "map"}
    if kind == "record":
        return draw(records(depth))
    return draw(st.sampled_from(sorted(PRIMITIVES)))


@st.composite
def records(draw: st.DrawFn, depth: int = 3) -> dict[str, Any]:
    kinds = draw(st.lists(schemas(depth - 1), max_size=5))
    return {"type": "record", "fields": [{"name": f"f{i}", "type": kind} for i, kind in enumerate(kinds)]}


def named(schema: Any, counter: Iterator[int]) -> Any:
    if isinstance(schema, list):
        return [named(branch, counter) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    result = dict(schema)
    if result["type"] in ("record", "fixed", "enum"):
        result["name"] = f"n{next(counter)}"
    for key in ("items", "values"):
        if key in result:
            result[key] = named(result[key], counter)
    if "fields" in result:
        result["fields"] = [{**entry, "type": named(entry["type"], counter)} for entry in result["fields"]]
    return result


def values_of(schema: Any) -> st.SearchStrategy[Any]:
    if isinstance(schema, list):
        return st.none() | values_of(next(branch for branch in schema if branch != "null"))
    if isinstance(schema, str):
        return PRIMITIVES[schema]
    match schema["type"]:
        case "fixed":
            return st.binary(min_size=schema["size"], max_size=schema["size"])
        case "enum":
            return st.sampled_from(schema["symbols"])
        case "array":
            return st.lists(values_of(schema["items"]), max_size=4)
        case "map":
            return st.dictionaries(PRIMITIVES["string"], values_of(schema["values"]), max_size=4)
        case _:
            return st.fixed_dictionaries({entry["name"]: values_of(entry["type"]) for entry in schema["fields"]})


@st.composite
def files(draw: st.DrawFn) -> tuple[dict[str, Any], list[Any]]:
    schema = named(draw(records()), iter(range(10**6)))
    return schema, draw(st.lists(values_of(schema), max_size=12))


@settings(max_examples=examples(50), deadline=None)
@given(files(), st.sampled_from(["null", "deflate"]), st.sampled_from([1, 64, 1 << 16]))
def test_any_schema_decodes_as_with_fastavro(file: tuple[Any, list[Any]], codec: str, block_bytes: int) -> None:
    schema, values = file
    check(schema, values, codec, block_bytes)


@settings(max_examples=60, deadline=None)
@given(files(), st.data())
def test_any_choice_of_columns_decodes_the_same(file: tuple[Any, list[Any]], data: st.DataObject) -> None:
    schema, values = file
    encoded = write_container(schema, values, codec="null")
    whole = read_columns(encoded)
    names = data.draw(st.lists(st.sampled_from(whole.schema.names), unique=True) if whole.schema.names else st.just([]))
    chosen = read_columns(encoded, names)
    assert chosen.schema.names == [name for name in whole.schema.names if name in names]
    assert chosen.num_rows == whole.num_rows
    for name in names:
        assert chosen[name].equals(whole[name])


@settings(max_examples=40, deadline=None)
@given(files())
def test_the_plain_twin_decodes_the_same(file: tuple[Any, list[Any]]) -> None:
    schema, values = file
    encoded = write_container(schema, values, codec="null", block_bytes=64)
    compiled = read_columns(encoded)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "run_program", machine.run_program.py_func)
        assert read_columns(encoded).equals(compiled)


def test_batches_are_the_whole_in_pieces() -> None:
    schema = record(("a", {"type": "array", "items": "string"}), ("b", ["null", "long"]))
    values = [{"a": ["x" * j for j in range(i % 4)], "b": None if i % 3 else i} for i in range(500)]
    data = write_container(schema, values, codec="zstandard", block_bytes=200)
    batches = list(read_batches(data, ["b", "a"], batch_bytes=400))
    assert len(batches) > 5
    assert pa.Table.from_batches(batches).to_pylist() == values


# --- Choosing columns -------------------------------------------------------------------------------------------------

PART = record(("lower", "bytes"), ("nan", "boolean"), name="p")
NESTED = {
    "type": "record",
    "name": "entry",
    "fields": [
        {"name": "status", "type": "int", "field-id": 0},
        {
            "name": "file",
            "field-id": 2,
            "type": {
                "type": "record",
                "name": "f",
                "fields": [
                    {"name": "path", "type": "string", "field-id": 100},
                    {"name": "rows", "type": ["null", "long"], "field-id": 103},
                    {
                        "name": "parts",
                        "field-id": 507,
                        "type": {"type": "array", "element-id": 508, "items": PART},
                    },
                    {"name": "sizes", "field-id": 108, "type": {"type": "map", "values": "long"}},
                ],
            },
        },
        {"name": "files", "field-id": 4, "type": ["null", record(("path", "long"), name="g")]},
    ],
}
ENTRIES = [
    {
        "status": i,
        "file": {"path": f"p{i}", "rows": i or None, "parts": [{"lower": b"l", "nan": True}] * i, "sizes": {"a": i}},
        "files": {"path": i} if i % 2 else None,
    }
    for i in range(4)
]


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (["status"], lambda e: {"status": e["status"]}),
        (["file.path", "status"], lambda e: {"status": e["status"], "file": {"path": e["file"]["path"]}}),
        (["file.rows", "file.path"], lambda e: {"file": {"path": e["file"]["path"], "rows": e["file"]["rows"]}}),
        ([103], lambda e: {"file": {"rows": e["file"]["rows"]}}),
        (["file"], lambda e: {"file": {**e["file"], "sizes": list(e["file"]["sizes"].items())}}),
        (["file", "file.path"], lambda e: {"file": {**e["file"], "sizes": list(e["file"]["sizes"].items())}}),
        (["file.path", 2], lambda e: {"file": {**e["file"], "sizes": list(e["file"]["sizes"].items())}}),
        (["file.parts.nan"], lambda e: {"file": {"parts": [{"nan": p["nan"]} for p in e["file"]["parts"]]}}),
        (["file.sizes"], lambda e: {"file": {"sizes": list(e["file"]["sizes"].items())}}),
        (["files.path"], lambda e: {"files": e["files"]}),
        ([], lambda e: {}),
    ],
)
def test_choice_of_columns(engine: str, columns: list[str | int], shown: Any) -> None:
    data = write_container(NESTED, ENTRIES)
    assert read_columns(data, columns).to_pylist() == [shown(entry) for entry in ENTRIES]


def test_unknown_column_is_answered_with_the_nearest() -> None:
    data = write_container(NESTED, ENTRIES)
    with pytest.raises(
        SchemaError, match=r"no field 'file\.pat' in the Avro schema; the nearest is 'file\.path"
    ) as caught:
        read_columns(data, ["file.pat"], location="f.avro")
    assert caught.value.location == "f.avro"
    with pytest.raises(SchemaError, match="no field id 99 in the Avro schema"):
        read_columns(data, [99])
    assert read_columns(data, [99, "no", 0], ignore_missing=True).schema.names == ["status"]


# --- Bad records ------------------------------------------------------------------------------------------------------

PAIRS = {"type": "array", "items": record(("key", "int"), ("value", "bytes"), name="kv"), "logicalType": "map"}
LONG_PAIRS = {"type": "array", "items": record(("key", "int"), ("value", "long"), name="kv"), "logicalType": "map"}
NULLS = {"type": "array", "items": "null"}
TIME = {"type": "int", "logicalType": "time-millis"}
A_DAY = encode_long(86_400_000).hex()

BAD: list[tuple[str, Any, str, int, str, int]] = [
    ("int of 33 bits", "int", "80 80 80 80 10", 1, "field 'v': the value is beyond what its type can hold", 0),
    (
        "time of a day",
        TIME,
        encode_long(86_400_000).hex(),
        1,
        "field 'v': the value is beyond what its type can hold",
        0,
    ),
    ("time before midnight", TIME, "01", 1, "field 'v': the value is beyond what its type can hold", 0),
    ("boolean 2", "boolean", "0002", 2, "field 'v': a boolean is neither 0 nor 1", 1),
    ("enum symbol 4", SUITS, "08", 1, "field 'v': the value is beyond what its type can hold", 0),
    ("enum symbol -1", SUITS, "01", 1, "field 'v': the value is beyond what its type can hold", 0),
    ("branch 2", ["null", "int"], "04", 1, "field 'v': the union has no such branch", 0),
    ("branch -1", ["null", "int"], "01", 1, "field 'v': the union has no such branch", 0),
    ("branch 1 of 1", ["int"], "02 00", 1, "field 'v': the union has no such branch", 0),
    ("branch -1 of 1", ["int"], "01 00", 1, "field 'v': the union has no such branch", 0),
    ("float cut", "float", "000080", 1, "more records are claimed than the block can hold", 0),
    ("second float cut", "float", "0000803f 0000", 1, "the block goes on after its last record", 4),
    ("double cut", ["null", "double"], "02 00000000000000", 1, "field 'v': the block ends within the value", 1),
    ("fixed cut", ["null", FIXED4], "02 010203", 1, "field 'v': the block ends within the value", 1),
    ("items beyond", LONGS, "0a 02 02 00", 1, "more items are claimed than the block can hold", 0),
    ("items far beyond", LONGS, "feffffffffffffffff01", 1, "more items are claimed than the block can hold", 0),
    ("least items", LONGS, "ffffffffffffffffff01 00 00", 1, "more items are claimed than the block can hold", 0),
    ("no end of items", LONGS, "02 02", 1, "field 'v': the block ends within the value", 2),
    ("negative size of items", LONGS, "01 01 02 00", 1, "field 'v': the length is negative", 0),
    ("size of items beyond", LONGS, "01 7e 02 00", 1, "field 'v': the block ends within the value", 0),
    ("size of items too large", LONGS, "01 04 02 00", 1, "the items do not take the bytes that they claim", 0),
    ("size of pairs too small", PAIRS, "01 02 02 02 61 00", 1, "the items do not take the bytes that they claim", 5),
    ("pairs cut", PAIRS, "02 02 7e", 1, "field 'v.value': the block ends within the value", 2),
    ("key of 33 bits", LONG_PAIRS, "02 8080808010 02 00", 1, "field 'v.key': the value is beyond what its type", 1),
    ("decimal without bytes", DECIMAL_BYTES, "00", 1, "the decimal does not fit its type", 0),
    ("decimal of 17 bytes", DECIMAL_BYTES, "22" + "01" * 17, 1, "the decimal does not fit its type", 0),
    (
        "decimal without its sign",
        DECIMAL_BYTES,
        "22 00 ff" + "00" * 15,
        1,
        "the decimal does not fit its type",
        0,
    ),
    ("string of a surrogate", "string", "06 eda080", 1, "field 'v': the string is not UTF-8", 0),
    ("overlong string", "string", "04 c080", 1, "field 'v': the string is not UTF-8", 0),
    ("string cut in a character", "string", "04 61c3", 1, "field 'v': the string is not UTF-8", 0),
    ("string beyond Unicode", "string", "08 f4908080", 1, "field 'v': the string is not UTF-8", 0),
    ("map key not UTF-8", {"type": "map", "values": "int"}, "02 02 ff 00 00", 1, "'v.key': the string is not UTF-8", 1),
    ("trailing bytes", "int", "02 02", 1, "the block goes on after its last record", 1),
]


@pytest.mark.parametrize(
    ("kind", "encoded", "count", "message", "within"), [case[1:] for case in BAD], ids=[case[0] for case in BAD]
)
def test_bad_record(engine: str, kind: Any, encoded: str, count: int, message: str, within: int) -> None:
    schema, data = record(("v", kind), name="top"), bytes.fromhex(encoded)
    with pytest.raises(FormatError) as caught:
        read_columns(file_of(schema, data, count), location="f.avro")
    assert message in caught.value.message
    assert (caught.value.location, caught.value.rule) == ("f.avro", "Avro spec, Binary Encoding")
    assert caught.value.offset is not None
    assert caught.value.offset - body_start(schema, data, count) == within


def test_decimal_of_more_digits_than_its_type() -> None:
    data = file_of(record(("v", DECIMAL_BYTES)), bytes.fromhex("06 0186a0"))  # 100000 in a decimal of 5 digits
    with pytest.raises(FormatError, match=r"Avro field 'v': .*does not fit in precision") as caught:
        read_columns(data, location="f.avro")
    assert caught.value.location == "f.avro"


def test_longer_than_needed_decimals_are_read() -> None:
    encoded = "22 00 0000000000000000000000000000 0001" + "22" + "ff" * 17
    data = file_of(record(("v", DECIMAL_BYTES)), bytes.fromhex(encoded), 2)
    assert read_columns(data)["v"].to_pylist() == [Decimal("0.01"), Decimal("-0.01")]


@pytest.mark.parametrize(
    ("schema", "encoded", "count"),
    [
        (record(), "", 2**62),
        (record(("v", "null")), "", (1 << 24) + 1),
        (record(("v", NULLS)), "feffffffffffffffff01 00", 1),
        (record(("v", NULLS)), "ffffffffffffffffff01 00 00", 1),
        (record(("v", {"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}})), "8080808010 00", 1),
    ],
)
def test_endless_items_without_bytes_are_refused_at_once(schema: Any, encoded: str, count: int) -> None:
    for columns in (None, []):
        with pytest.raises(UnsupportedError, match="more than 16777216 items or records without bytes"):
            read_columns(file_of(schema, bytes.fromhex(encoded), count), columns)


def test_values_without_bytes_take_no_instruction() -> None:
    fields = [(f"f{i}", {"type": "fixed", "name": f"n{i}", "size": 0}) for i in range(50)]
    schema = record(*fields, ("v", ["null", record(("x", "null"), name="s")]))
    program = compile_program(json.dumps(record(*fields, ("x", "null"))))
    assert program.counting.tolist() == program.storing.tolist() == [[machine.END, 0, 0, 0, 0, 0]]
    assert read_columns(file_of(schema, b"\0\2", 2))["f49"].to_pylist() == [b"", b""]


def test_nulls_of_wide_types_do_not_take_memory_without_bound() -> None:
    """One byte in the file, a gigabyte in the column."""
    wide = {"type": "fixed", "name": "w", "size": 1 << 30}
    data = file_of(record(("v", ["null", wide]), ("n", "int")), b"\0\2" * 100, 100)
    with pytest.raises(UnsupportedError, match="Avro columns would take 107374182912 bytes") as caught:
        read_columns(data, location="f.avro")
    assert caught.value.location == "f.avro"
    assert read_columns(data, ["n"])["n"].to_pylist() == [1] * 100


EVERYTHING = record(
    ("a", "int"),
    ("b", ["null", "string"]),
    ("c", PAIRS),
    ("d", {"type": "map", "values": ["null", "double"]}),
    ("e", SUITS),
    ("f", ["null", record(("x", LONGS), ("y", DECIMAL_BYTES), ("z", "boolean"), name="inner")]),
    name="everything",
)
EVERYTHING_RECORDS = [
    {
        "a": -i,
        "b": None if i % 2 else "é" * i,
        "c": [{"key": j, "value": b"v" * j} for j in range(i)],
        "d": {"k": None, "l": float(i)},
        "e": "ABCD"[i % 4],
        "f": {"x": list(range(i)), "y": Decimal(i), "z": True} if i % 3 else None,
    }
    for i in range(6)
]


def test_every_flipped_bit_is_harmless_or_refused(engine: str) -> None:
    """The plain twin, under which a wild index is an exception, agrees with the machine code on every single flip."""
    data = write_container(EVERYTHING, EVERYTHING_RECORDS, codec="null")
    start = data.index(data[-16:]) + 16
    refused = 0
    for bit in range(start * 8, (len(data) - 16) * 8, 1 if engine == "machine code" else 7):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            read_columns(bytes(damaged)).validate(full=True)
        except (FormatError, UnsupportedError):
            refused += 1
    assert refused > 100


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=120), st.integers(0, 20))
def test_any_bytes_decode_to_sound_columns_or_are_refused(data: bytes, count: int) -> None:
    encoded = file_of(EVERYTHING, data, count)
    outcomes = []
    for run in (machine.run_program, machine.run_program.py_func):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(machine, "run_program", run)
            try:
                batch = read_columns(encoded)
                batch.validate(full=True)
                outcomes.append(repr(batch.to_pylist()))
            except (FormatError, UnsupportedError) as error:
                outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


def test_utf8_is_judged_as_by_python() -> None:
    """All of the first two bytes, with every kind of continuation."""
    for tail in (b"", b"\x80", b"\x80\x80", b"\xbf\xbf\xbf", b"a"):
        for first in range(256):
            for second in (*range(0, 256, 5), 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0):
                text = bytes([first, second]) + tail
                try:
                    text.decode()
                    sound = True
                except UnicodeDecodeError:
                    sound = False
                assert machine.is_utf8.py_func(np.frombuffer(text, np.uint8), 0, len(text)) is sound


# --- Files of Paimon --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(DATA.glob("*.avro")), ids=lambda path: path.stem)
def test_metadata_files_of_paimon(path: Path) -> None:
    data = path.read_bytes()
    header = read_header(data)
    assert header.codec == "zstandard"
    assert read_columns(data).to_pylist() == expected(data, json.loads(header.schema_json))


def test_a_root_that_is_the_union_of_null_and_a_record() -> None:
    inner = {"type": "record", "name": "q", "fields": [{"name": "c", "type": "string"}]}
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": ["null", inner]}],
    }
    records = [{"a": 1, "b": None}, {"a": 2, "b": {"c": "x"}}]
    for root, codec in ((["null", schema], "null"), ([schema, "null"], "deflate")):
        sink = io.BytesIO()
        fastavro.writer(sink, root, records, codec=codec)
        assert read_columns(sink.getvalue()).to_pylist() == records
        assert read_columns(sink.getvalue(), ["b.c"]).to_pylist() == [{"b": None}, {"b": {"c": "x"}}]
        assert read_columns(sink.getvalue(), []).num_rows == 2
        sink = io.BytesIO()
        fastavro.writer(sink, root, [*records, None], codec=codec)
        with pytest.raises(FormatError, match="record 2 is null"):
            read_columns(sink.getvalue(), ["a"])
    sink = io.BytesIO()
    fastavro.writer(sink, ["null", schema, "long"], records)
    with pytest.raises(UnsupportedError, match="only records have columns"):
        read_columns(sink.getvalue())
