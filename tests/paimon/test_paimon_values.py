"""Values at the limits of Paimon's types, alone and inside others: what files, folders and Java make of them."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from paimon_peers import JavaPaimon

from skerry.errors import SchemaError, UnsupportedError
from skerry.paimon.metadata.partition_names import partition_texts
from skerry.paimon.table import PaimonTable
from skerry.paimon.values.arrow_types import arrow_type
from skerry.paimon.values.binary_row import encode_rows
from skerry.paimon.values.types import DataField, decode_type
from skerry.storage import Storage

NS = pa.timestamp("ns")
LATE = datetime.datetime(9999, 12, 31)
NUMBER = 1234567890123456789


def make(path: Path, schema: pa.Schema, **how: Any) -> PaimonTable:
    return PaimonTable.create(Storage(), str(path), schema, **how)


def data_files(table: PaimonTable) -> list[str]:
    return sorted(map(str, Path(table.location).rglob("*.parquet")))


# ---- nanoseconds in Parquet ----

NESTED = pa.schema(
    [
        ("id", pa.int64()),
        ("array", pa.list_(NS)),
        ("row", pa.struct([("x", NS), ("y", pa.timestamp("us", "UTC"))])),
        ("map", pa.map_(pa.timestamp("ms"), NS)),
        ("late", pa.timestamp("us")),
        ("seconds", pa.timestamp("s")),
    ]
)


def nested(ids: range) -> pa.Table:
    rows = [
        {
            "id": i,
            "array": [NUMBER + i, None],
            "row": {"x": -NUMBER - i, "y": i},
            "map": [(i, NUMBER + i)],
            "late": LATE,
            "seconds": i,
        }
        for i in ids
    ]
    return pa.Table.from_pylist(rows, NESTED)


def test_nested_nanoseconds_are_read_whatever_else_is(tmp_path: Path) -> None:
    table = make(tmp_path / "t", NESTED)
    for first in (0, 3):
        table.append(nested(range(first, first + 3)))
    expected = nested(range(6))
    for compacted in (False, True):
        if compacted:
            table.compact(full=True)
        assert table.scan().to_arrow().sort_by("id") == expected
        for name in NESTED.names:
            assert table.scan(["id", name] if name != "id" else ["id"]).to_arrow().sort_by("id") == expected.select(
                ["id", name] if name != "id" else ["id"]
            )
    assert table.scan(where="late = '9999-12-31'").count() == 6


def test_only_nanoseconds_are_int96(tmp_path: Path) -> None:
    table = make(tmp_path / "t", NESTED)
    table.append(nested(range(2)))
    (path,) = data_files(table)
    columns = pq.ParquetFile(path).schema
    types = {columns.column(i).path: columns.column(i) for i in range(len(columns))}
    assert {name for name, column in types.items() if column.physical_type == "INT96"} == {
        "array.list.element",
        "row.x",
        "map.key_value.value",
    }
    assert "milliseconds" in str(types["seconds"].logical_type)
    assert "isAdjustedToUTC=true, timeUnit=microseconds" in str(types["row.y"].logical_type)
    assert pq.read_metadata(path).row_group(0).column(6).statistics.max == LATE


def test_nested_nanoseconds_are_counted(tmp_path: Path) -> None:
    zoned = pa.timestamp("ns", "UTC")
    schema = pa.schema([("s", pa.struct([("x", NS), ("z", zoned)])), ("z", zoned)])
    table = make(tmp_path / "t", schema)
    table.append(pa.table({"s": [{"x": NUMBER + i, "z": i} for i in range(50)], "z": range(50)}, schema=schema))
    table.analyze(full=True)
    found = table.statistics()
    assert {name: found[name].ndv for name in ("s.x", "s.z", "z")} == {"s.x": 50, "s.z": 50, "z": 50}


@pytest.mark.spark
def test_java_and_nanoseconds(tmp_path: Path, java_paimon: JavaPaimon) -> None:
    schema = pa.schema(
        [("id", pa.int32()), ("t3", pa.timestamp("ms")), ("ns", NS), ("l", pa.list_(pa.struct([("x", NS)])))]
    )
    table = make(tmp_path / "t", schema)
    row = [1, [253402214400000, 0], [0, 1], [[[1234567890123, 456789]]]]
    # before 1970 Java writes negative nanoseconds of a later day
    early = [2, None, [-1, 999999], [[[-1, 999999]], [[-86400000, 1]]]]
    java_paimon.write(table.location, [row, early])
    table.handle.refresh()
    numbers = [1, 1234567890123456789]
    rows = table.scan().to_arrow()
    assert rows["ns"].cast(pa.int64()).to_pylist() == [1, -1]
    inner = rows["l"].combine_chunks().flatten().field("x").cast(pa.int64()).to_pylist()
    assert inner == [numbers[1], -1, -86400000 * 10**6 + 1]
    table.compact(full=True)
    assert sorted(java_paimon.read(table.location)) == [row, early]
    assert java_paimon.read(table.location, equal={"t3": LATE}) == [row]
    java_paimon.write(table.location, [[3, None, [253402214400000, 0], None]])
    table.handle.refresh()
    assert table.scan(["id"]).to_arrow()["id"].to_pylist() == [1, 2, 3]
    with pytest.raises(UnsupportedError, match=r"column ns has a time 2932896 days from 1970, .* cannot hold"):
        table.scan(["ns"]).to_arrow()


# ---- decimals ----


def test_wide_decimals_have_no_dictionaries(tmp_path: Path) -> None:
    wide = pa.decimal128(19, 2)
    table = make(
        tmp_path / "t",
        pa.schema([("a", pa.decimal128(18, 2)), ("b", wide), ("c", pa.list_(wide)), ("d", pa.list_(pa.string()))]),
    )
    table.append(pa.table({"a": [Decimal(1)], "b": [Decimal(1)], "c": [[Decimal(1)]], "d": [["x"]]}))
    group = pq.read_metadata(data_files(table)[0]).row_group(0)
    assert [group.column(i).has_dictionary_page for i in range(4)] == [True, False, False, True]


@pytest.mark.spark
@pytest.mark.parametrize("keys", [{}, {"primary_key": ["id"], "properties": {"bucket": "1"}}], ids=["append", "key"])
def test_java_finds_values(tmp_path: Path, java_paimon: JavaPaimon, keys: dict[str, Any]) -> None:
    types = {
        "d18": pa.decimal128(18, 2),
        "d19": pa.decimal128(19, 2),
        "d38": pa.decimal128(38, 10),
        "text": pa.string(),
        "bytes": pa.binary(),
        "float": pa.float32(),
        "double": pa.float64(),
        "time": pa.time32("ms"),
        "date": pa.date32(),
        "t3": pa.timestamp("ms"),
        "t6": pa.timestamp("us", "UTC"),
    }
    values = {
        "d18": [Decimal("1.50"), Decimal("-9999999999999999.99")],
        "d19": [Decimal("1.50"), Decimal("-99999999999999999.99")],
        "d38": [Decimal("0.1000000000"), Decimal("-" + "9" * 28 + ".9999999999")],
        "text": ["", "\U0010ffff"],
        "bytes": [b"", b"\xff\x00"],
        "float": [-0.0, 1.401298464324817e-45],
        "double": [float("inf"), 5e-324],
        "time": [datetime.time(0), datetime.time(23, 59, 59, 999000)],
        "date": [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)],
        "t3": [datetime.datetime(1, 1, 1), LATE],
        "t6": [datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), LATE],
    }
    schema = pa.schema([pa.field("id", pa.int32(), nullable=False), *types.items()])
    table = make(tmp_path / "t", schema, **keys)
    table.append(pa.table({"id": [0, 1], **values}, schema=schema))
    for name, pair in values.items():
        found = [[row[0] for row in java_paimon.read(table.location, equal={name: value})] for value in pair]
        assert found == [[0], [1]], name


# ---- names of partitions ----

T = datetime.time
PARTITIONS: list[tuple[str, bool, Any, str]] = [
    ("TIME(0)", False, T(1, 2, 3), "01:02:03"),
    ("TIME(1)", False, T(1, 2, 3), "01:02:03.0"),
    ("TIME(3)", False, T(1, 2, 3), "01:02:03.0"),
    ("TIME(3)", False, T(1, 2, 3, 40000), "01:02:03.04"),
    ("TIME(9)", False, T(23, 59, 59, 999000), "23:59:59.999"),
    ("TIME(2)", False, T(0, 0, 0, 999000), "00:00:00.99"),
    ("TIME(3)", True, T(1, 2, 3), "3723000"),
    ("DOUBLE", False, 5e-324, "4.9E-324"),
    ("DOUBLE", True, 5e-324, "4.9E-324"),
    ("DOUBLE", True, 2e-5, "2.0E-5"),
    ("DOUBLE", True, -0.0, "-0.0"),
    ("DOUBLE", True, 1e7, "1.0E7"),
    ("DOUBLE", True, 9999999.5, "9999999.5"),
    ("DOUBLE", True, 1.7976931348623157e308, "1.7976931348623157E308"),
    ("DOUBLE", True, float("nan"), "NaN"),
    ("DOUBLE", True, float("-inf"), "-Infinity"),
    ("FLOAT", False, 1.401298464324817e-45, "1.4E-45"),
    ("FLOAT", False, 0.001, "0.001"),
    ("FLOAT", False, 3.4028234663852886e38, "3.4028235E38"),
    ("BYTES", False, b"a\xff", "a\ufffd"),
    ("BINARY(2)", False, b"ab", "ab"),
]


@pytest.mark.parametrize(("type_", "legacy", "value", "text"), PARTITIONS)
def test_partition_texts(type_: str, legacy: bool, value: Any, text: str) -> None:
    field = DataField(0, "p", decode_type(type_))
    row = encode_rows([field.type], [pa.array([value], arrow_type(field.type))]).to_list()
    assert partition_texts([field], row, legacy=legacy) == [(text,)]


@pytest.mark.spark
def test_partition_folders_are_those_of_java(tmp_path: Path, java_paimon: JavaPaimon) -> None:
    schema = pa.schema(
        [("id", pa.int32()), ("time", pa.time32("ms")), ("double", pa.float64()), ("bytes", pa.binary())]
    )
    partitions = [(T(1, 2, 3), 5e-324, b"a"), (T(1, 2, 3, 450000), -0.0, b"\xff"), (T(0), float("nan"), b"")]
    rows = [[number, *values] for number, values in enumerate(partitions)]
    names = {}
    for writer in ("java", "skerry"):
        how = {"partition_by": ["time", "double", "bytes"], "properties": {"partition.legacy-name": "false"}}
        table = make(tmp_path / writer, schema, **how)
        if writer == "java":
            java_paimon.write(table.location, rows)
        else:
            columns = zip(*rows, strict=True)
            table.append(pa.table(dict(zip(schema.names, map(list, columns), strict=True)), schema=schema))
        names[writer] = {str(path.relative_to(table.location)) for path in Path(table.location).glob("time=*/*/*")}
        table.handle.refresh()
        assert len(java_paimon.read(table.location)) == table.scan().count() == len(table.scan().to_arrow()) == 3
    assert names["java"] == names["skerry"]


# ---- limits of types, and defaults ----


def with_types(table: PaimonTable, defaults: dict[str, str] | None = None, **types: Any) -> PaimonTable:
    path = Path(table.location) / "schema" / "schema-0"
    schema = json.loads(path.read_text())
    for field in schema["fields"]:
        field["type"] = types.get(field["name"], field["type"])
        if defaults and field["name"] in defaults:
            field["defaultValue"] = defaults[field["name"]]
    path.write_text(json.dumps(schema))
    return PaimonTable.open(Storage(), table.location)


LIMITS: list[tuple[str, pa.DataType, list[Any], Any, str]] = [
    ("CHAR(3)", pa.string(), ["äöü", "a", None], "abcd", "it has 4 characters, the column's limit is 3"),
    ("VARCHAR(2)", pa.string(), ["\U0001f600x", ""], "xyz", "it has 3 characters, the column's limit is 2"),
    ("BINARY(4)", pa.binary(), [b"1234", b""], b"12345", "it has 5 bytes, the column's limit is 4"),
    ("VARBINARY(1)", pa.binary(), [b"\xff"], "é".encode(), "it has 2 bytes, the column's limit is 1"),
    ("TIME(0)", pa.time32("ms"), [T(23, 59, 59)], T(1, 2, 3, 4000), "has 0 fractional digits of a second"),
    ("TIME(2)", pa.time32("ms"), [T(1, 2, 3, 40000)], T(1, 2, 3, 4000), "has 2 fractional digits of a second"),
    ("TIMESTAMP(1)", pa.timestamp("ms"), [-100, 0], -1, "has 1 fractional digits of a second"),
    ("TIMESTAMP(5)", pa.timestamp("us"), [10], 1, "has 5 fractional digits of a second"),
    ("TIMESTAMP(8) WITH LOCAL TIME ZONE", pa.timestamp("ns", "UTC"), [-10], 1, "has 8 fractional digits of a second"),
]


@pytest.mark.parametrize(("type_", "arrow", "good", "bad", "message"), LIMITS, ids=[case[0] for case in LIMITS])
def test_values_beyond_their_type(
    tmp_path: Path, type_: str, arrow: pa.DataType, good: list[Any], bad: Any, message: str
) -> None:
    nested = pa.struct([("l", pa.list_(arrow))])
    table = make(tmp_path / "t", pa.schema([("x", arrow), ("s", nested)]))
    member = {"id": 2, "name": "l", "type": {"type": "ARRAY", "element": type_}}
    table = with_types(table, x=type_, s={"type": "ROW", "fields": [member]})
    values, lists = pa.array(good, arrow), pa.array([{"l": good}] * len(good), nested)
    table.append(pa.table({"x": values, "s": lists}))
    assert table.scan().to_arrow()["x"].combine_chunks() == values
    with pytest.raises(SchemaError, match=f"column 'x', row {len(good)}: value .* does not fit: .*{message}"):
        table.append(pa.table({"x": pa.array([*good, bad], arrow)}))
    with pytest.raises(SchemaError, match=f"column 's', row 0: value .* does not fit: .*{message}"):
        table.append(pa.table({"s": pa.array([{"l": [*good, bad]}], nested)}))


DEFAULTED = pa.schema([("id", pa.int32()), ("s", pa.string()), ("d", pa.decimal128(5, 2)), ("t", pa.timestamp("us"))])


@pytest.mark.spark
def test_defaults_take_the_place_of_nulls(tmp_path: Path, java_paimon: JavaPaimon) -> None:
    table = make(tmp_path / "t", DEFAULTED)
    table = with_types(table, {"s": "zz", "d": "1.50", "t": "2020-01-02 03:04:05"})
    table.append(pa.table({"id": [1, 2, 3], "s": [None, "", "x"], "d": [None, Decimal(7), None]}))
    java_paimon.write(table.location, [[4, None, None, None]])
    rows = sorted(java_paimon.read(table.location))
    assert [row[1:3] for row in rows] == [["zz", "1.50"], ["", "7.00"], ["x", "1.50"], ["zz", "1.50"]]
    assert {tuple(row[3]) for row in rows} == {(1577934245000, 0)}


# ---- statistics and conditions ----


def test_bounds_and_conditions_of_nanoseconds(tmp_path: Path) -> None:
    schema = pa.schema([("v", NS), ("z", pa.timestamp("ns", "UTC")), ("d", pa.timestamp("us"))])
    table = make(tmp_path / "t", schema, properties={"file.format": "orc"})
    table.append(pa.table({"v": [1, NUMBER], "z": [1000, 2000], "d": [0, 1]}, schema=schema))
    found = table.statistics()
    # without pandas, what Python's types do not hold stays a number
    assert [pa.scalar(bound, NS).value for bound in (found["v"].min, found["v"].max)] == [1, NUMBER]
    assert pa.scalar(found["z"].max, NS).value == 2000
    assert found["d"].min == datetime.datetime(1970, 1, 1)
    for column, value in (("v", NUMBER), ("z", 2000)):
        literal = pa.scalar(value, schema.field(column).type)
        assert table.scan(where=pc.field(column) == literal).to_arrow()["d"].cast(pa.int64()).to_pylist() == [1]
