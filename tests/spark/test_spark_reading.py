"""`skerry.spark.read`: the rows that a scan gives, by Spark's own reader where it is right, with statistics."""

from __future__ import annotations

import datetime
import math
import re
import uuid
import warnings
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skerry
import skerry.spark
from skerry.errors import NotFoundError, SchemaError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from skerry.catalog import Catalog

pytestmark = pytest.mark.spark

UTC = datetime.UTC


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return skerry.connect(tmp_path / "warehouse")


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def scanned(scan: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in scan.to_arrow().to_pylist()), key=repr)


def plan(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().optimizedPlan()


def estimated_rows(frame: DataFrame) -> int:
    found = re.search(r"rowCount=([\d.E+]+)", plan(frame).stats().toString())
    assert found is not None, plan(frame).stats().toString()
    return int(Decimal(found[1]))


def column_statistics(frame: DataFrame) -> dict[str, tuple[str | None, ...]]:
    """Distinct count, min, max, nulls, average and greatest length of each column in the optimized plan."""
    found = plan(frame).stats().attributeStats().toString()
    return {
        name: tuple(None if value == "None" else value[len("Some(") : -1] for value in values.split(",")[:6])
        for name, values in re.findall(r"(\w+)#\d+L? -> ColumnStat\((.*?)\)(?=,\s\w+#|\)$)", found)
    }


def reads_natively(frame: DataFrame) -> bool:
    return "Scan parquet" in frame._jdf.queryExecution().executedPlan().toString()


def uses_python(frame: DataFrame) -> bool:
    return "Scan ExistingRDD" in frame._jdf.queryExecution().executedPlan().toString()


# Statistics ----------------------------------------------------------------------------------------------------------


def test_the_join_of_the_probe_is_estimated_within_two_percent(spark: SparkSession, catalog: Catalog) -> None:
    left = catalog.create_table("d.a", pa.schema([("k", pa.int64()), ("v", pa.int64())]))
    right = catalog.create_table("d.b", pa.schema([("k", pa.int64()), ("w", pa.int64())]))
    left.append(pa.table({"k": [number % 50_000 for number in range(100_000)], "v": range(100_000)}))
    right.append(pa.table({"k": [number % 50_000 for number in range(60_000)], "w": range(60_000)}))
    tables_before = spark.catalog.listTables()
    a, b = skerry.spark.read(spark, left), skerry.spark.read(spark, right)
    joined = a.join(b, "k").select("v", "w")
    assert joined.count() == 120_000
    assert abs(estimated_rows(joined) - 120_002) <= 0.02 * 120_002
    assert estimated_rows(a.groupBy("k").count()) == pytest.approx(50_000, rel=0.03)
    assert spark.catalog.listTables() == tables_before


TYPES = {
    "flag": (pa.bool_(), [True, False, None, True], ("2", "false", "true", "1", "1", "1")),
    "i": (pa.int32(), [1, 2, 3, None], ("3", "1", "3", "1", "4", "4")),
    "l": (pa.int64(), [2**40, 5, 5, 5], ("2", "5", str(2**40), "0", "8", "8")),
    "f": (pa.float32(), [1.5, 2.5, 1.5, None], ("2", "1.5", "2.5", "1", "4", "4")),
    "x": (pa.float64(), [-0.5, 2.5, 1.5, 1.5], ("3", "-0.5", "2.5", "0", "8", "8")),
    "p": (pa.decimal128(9, 2), [Decimal("1.50"), Decimal("-2.25"), None, None], ("2", "-2.25", "1.50", "2", "8", "8")),
    "q": (pa.decimal128(30, 2), [Decimal("1.50"), Decimal("7.00"), None, None], ("2", "1.50", "7.00", "2", "16", "16")),
    "day": (
        pa.date32(),
        [datetime.date(1969, 12, 31), datetime.date(2024, 2, 29), None, None],
        ("2", "-1", "19782", "2", "4", "4"),
    ),
    "at": (
        pa.timestamp("us", "UTC"),
        [datetime.datetime(1970, 1, 1, 0, 0, 1, 5, UTC), datetime.datetime(1970, 1, 1, 1, tzinfo=UTC), None, None],
        ("2", "1000005", "3600000000", "2", "8", "8"),
    ),
    "local": (
        pa.timestamp("us"),
        [datetime.datetime(1970, 1, 1, 0, 0, 1), datetime.datetime(2000, 1, 1), None, None],
        ("2", None, None, "2", "8", "8"),
    ),
    "s": (pa.string(), ["a", "bcd", "a", None], ("2", None, None, "1")),
    "raw": (pa.binary(), [b"a", b"bcd", b"a", None], ("2", None, None, "1")),
}


def table_of_types(catalog: Catalog) -> Any:
    schema = pa.schema([(name, type_) for name, (type_, _, _) in TYPES.items()])
    schema = schema.append(pa.field("inner", pa.struct([("n", pa.int64())])))
    table = catalog.create_table("d.types", schema)
    columns = {name: values for name, (_, values, _) in TYPES.items()}
    table.append(pa.table({**columns, "inner": [{"n": 1}, None, {"n": None}, {"n": 2}]}, schema))
    return table


def test_the_optimized_plan_has_statistics_of_every_atomic_type(spark: SparkSession, catalog: Catalog) -> None:
    table = table_of_types(catalog)
    frame = skerry.spark.read(spark, table)
    assert reads_natively(frame)
    found = column_statistics(frame)
    assert set(found) == set(TYPES)
    for name, (_, _, expected) in TYPES.items():
        assert found[name][: len(expected)] == expected, name
    assert estimated_rows(frame) == 4
    assert set(column_statistics(skerry.spark.read(spark, table, ["l", "s", "inner.n"]))) == {"l", "s"}


CONDITIONS = [
    "flag",
    "i > 1 and l <> 5",
    "i in (1, 3)",
    "i not in (1, 3)",
    "f <= 1.5 or x > 2",
    "p = 1.5",
    "q < 7",
    "day > date '1970-01-01'",
    "at >= timestamp '1970-01-01 01:00:00+00:00'",
    "local = timestamp '1970-01-01 00:00:01'",
    "s like 'b%'",
    "s not like 'b%' and raw is null",
    "raw = x'616263'",
    "isnan(x) or inner.n = 2",
    "not isnan(f)",
]


def test_conditions_keep_the_rows_that_a_scan_keeps(spark: SparkSession, catalog: Catalog) -> None:
    table = table_of_types(catalog)
    for where in CONDITIONS:
        frame = skerry.spark.read(spark, table, ["l", "x"], where)
        assert rows(frame) == scanned(table.scan(["l", "x"], where)), where
        assert not uses_python(frame)
    table.append(pa.table({"x": [float("nan"), None], "f": pa.array([float("nan"), float("inf")], pa.float32())}))
    for where in ("x > 1e300", "x <= 1e300", "x <> 2.5", "isnan(x)", "not isnan(x)", "f < 1e30"):
        found, expected = (skerry.spark.read(spark, table, ["x"], where), table.scan(["x"], where))
        assert repr(rows(found)) == repr(scanned(expected)), where


def test_a_condition_chooses_files_and_their_statistics(spark: SparkSession, catalog: Catalog) -> None:
    table = catalog.create_table("d.t", pa.schema([("k", pa.int64()), ("part", pa.int32())]), partition_by=["part"])
    for part in range(4):
        table.append(pa.table({"k": range(part * 100, part * 100 + 100), "part": pa.array([part] * 100, pa.int32())}))
    frame = skerry.spark.read(spark, table, ["k"], "part = 2")
    assert len(frame.inputFiles()) == 1
    assert estimated_rows(frame) == frame.count() == 100
    assert column_statistics(frame)["k"][:4] == ("100", "200", "299", "0")
    assert rows(skerry.spark.read(spark, table, ["k"], "part = 7")) == []


def test_many_columns_take_no_call_each(spark: SparkSession, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    from py4j.clientserver import ClientServerConnection

    def calls(width: int) -> int:
        names = [f"c{number}" for number in range(width)]
        table = catalog.create_table(f"d.wide{width}", pa.schema([(name, pa.int64()) for name in names]))
        table.append(pa.table({name: [1, 2, 3] for name in names}))
        before = len(sent)
        frame = skerry.spark.read(spark, table)
        found = len(sent) - before
        assert len(plan(frame).stats().attributeStats().toSeq().toString()) > 20 * width
        return found

    def send_command(self: Any, command: str) -> Any:
        if not command.startswith("m\n"):  # what was garbage collected here
            sent.append(command)
        return send(self, command)

    sent: list[str] = []
    send = ClientServerConnection.send_command
    monkeypatch.setattr(ClientServerConnection, "send_command", send_command)
    calls(1)  # looks up names and makes what is kept
    assert calls(2) == calls(200)


def test_stale_counts_are_not_believed(spark: SparkSession, catalog: Catalog) -> None:
    table = catalog.create_table(
        "d.t", pa.schema([("k", pa.int64())]), properties={"skerry.statistics.enabled": "false"}
    )
    table.append(pa.table({"k": [1, 1, 2]}))
    assert column_statistics(skerry.spark.read(spark, table))["k"] == (None, "1", "2", "0", "8", "8")


# Columns -------------------------------------------------------------------------------------------------------------


def test_renamed_and_added_again_columns_are_not_mistaken(spark: SparkSession, catalog: Catalog) -> None:
    table = catalog.create_table("d.t", pa.schema([("a", pa.int64()), ("b", pa.int64()), ("keep", pa.int64())]))
    table.append(pa.table({"a": [1, 2], "b": [10, 20], "keep": [7, 8]}))
    with table.update_schema() as update:
        update.rename_column("b", "c")
    with table.update_schema() as update:
        update.delete_column("a")
    with table.update_schema() as update:
        update.add_column("a", pa.int64())
    table.append(pa.table({"a": [5], "c": [50], "keep": [9]}))
    for columns in (None, ["a"], ["c", "a"], ["keep", "c"]):
        frame = skerry.spark.read(spark, table, columns)
        assert rows(frame) == scanned(table.scan(columns))
        for condition in ("keep > 0",) if columns is None else ():
            assert rows(frame.where(condition)) == scanned(table.scan(columns, condition))
    frame = skerry.spark.read(spark, table)
    # pushed into Spark's reader by name, this would skip the older file by the statistics of the dropped column
    assert frame.where("a is null").count() == table.scan(where="a is null").count() == 2
    assert not uses_python(skerry.spark.read(spark, table, ["keep", "c"]))
    assert uses_python(frame)
    assert reads_natively(frame)
    assert estimated_rows(frame) == 3


def test_a_session_that_finds_columns_by_name_is_refused_when_names_changed(
    spark: SparkSession, catalog: Catalog
) -> None:
    from skerry.spark.runtime.settings import FIELD_ID_SETTING, OPTIMIZER_SETTING

    other = spark.newSession()
    table = catalog.create_table("d.t", pa.schema([("a", pa.int64())]))
    table.append(pa.table({"a": [1]}))
    other.conf.set(FIELD_ID_SETTING, "false")
    other.conf.set(OPTIMIZER_SETTING, "false")
    with pytest.warns(UserWarning, match="ignores row counts"):
        assert rows(skerry.spark.read(other, table)) == [(1,)]
    with table.update_schema() as update:
        update.rename_column("a", "b")
    with pytest.raises(SchemaError, match=FIELD_ID_SETTING):
        skerry.spark.read(other, table)
    other.conf.unset(FIELD_ID_SETTING)
    other.conf.unset(OPTIMIZER_SETTING)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        skerry.spark.register(other)
        assert rows(skerry.spark.read(other, table)) == [(1,)]


def test_promoted_types(spark: SparkSession, catalog: Catalog) -> None:
    schema = pa.schema([("i", pa.int32()), ("f", pa.float32()), ("p", pa.decimal128(9, 2))])
    table = catalog.create_table("d.t", schema)
    table.append(pa.table({"i": [1, -7], "f": [1.5, 2.5], "p": [Decimal("1.25"), Decimal("2.00")]}, schema))
    with table.update_schema() as update:
        update.update_column("i", pa.int64())
        update.update_column("f", pa.float64())
        update.update_column("p", pa.decimal128(20, 2))
    table.append(pa.table({"i": [2**40], "f": [1e300], "p": [Decimal("123456789012.25")]}))
    numbers = skerry.spark.read(spark, table, ["i", "f"])
    assert not uses_python(numbers)
    assert rows(numbers) == scanned(table.scan(["i", "f"]))
    for condition in ("i < 3000000000", "i = 4294967289", "f > 2", "f = 1e300"):
        assert rows(numbers.where(condition)) == scanned(table.scan(["i", "f"], condition))
    everything = skerry.spark.read(spark, table)
    assert rows(everything) == scanned(table.scan())
    assert everything.where("p < 99999999999999").count() == 3


def test_defaults_and_partition_values_that_files_lack(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    table = catalog.create_table("d.t", pa.schema([("k", pa.int64())]), format_version=3)
    table.append(pa.table({"k": [1, 2]}))
    with table.update_schema() as update:
        update.add_column("v", pa.int64(), default_value=42)
    table.append(pa.table({"k": [3], "v": [7]}))
    frame = skerry.spark.read(spark, table)
    assert rows(frame) == scanned(table.scan()) == [(1, 42), (2, 42), (3, 7)]
    assert frame.where("v = 42").count() == 2
    assert not uses_python(skerry.spark.read(spark, table, ["k"]))


def test_files_without_field_ids(spark: SparkSession, catalog: Catalog) -> None:
    table = catalog.create_table("d.t", pa.schema([("k", pa.int64()), ("s", pa.string())]))
    table.append(pa.table({"k": [1], "s": ["a"]}))
    location = f"{table.location}/data/extra [1].parquet".replace("file://", "")
    pq.write_table(pa.table({"k": [2, 3], "s": ["b", "c"]}), location)
    table.add_files([location])
    frame = skerry.spark.read(spark, table)
    assert rows(frame) == [(1, "a"), (2, "b"), (3, "c")]
    assert uses_python(frame)
    assert reads_natively(frame)


def test_names_of_files_are_no_patterns(spark: SparkSession, catalog: Catalog) -> None:
    schema = pa.schema([("k", pa.int64()), ("s", pa.string())])
    table = catalog.create_table("d.t", schema, partition_by=["s"])
    table.append(pa.table({"k": [1, 2, 3, 4], "s": ["[ab]*", "{x,y}?", "a b%20", "_ü:"]}))
    frame = skerry.spark.read(spark, table)
    assert rows(frame) == scanned(table.scan())
    assert len(frame.inputFiles()) == 4


# Rows that Spark's reader does not know ------------------------------------------------------------------------------


def test_deleted_rows_are_left_out(spark: SparkSession, catalog: Catalog) -> None:
    properties = {"write.delete.mode": "merge-on-read"}
    table = catalog.create_table("d.t", pa.schema([("k", pa.int64())]), properties=properties)
    table.append(pa.table({"k": range(100)}))
    table.append(pa.table({"k": range(100, 150)}))
    table.delete("k < 10")
    assert any(task.deletes for task in table.scan().plan())
    frame = skerry.spark.read(spark, table)
    assert rows(frame) == scanned(table.scan())
    assert estimated_rows(frame) == frame.count() == 140
    assert uses_python(frame)
    assert reads_natively(frame)
    only = skerry.spark.read(spark, table, where="k < 100")
    assert (estimated_rows(only), only.count()) == (90, 90)
    assert column_statistics(only)["k"][2:4] == ("99", "0")
    assert only.join(only.withColumnRenamed("k", "other"), only.k.eqNullSafe(10)).count() == 90


def test_types_that_spark_lacks_and_other_formats(spark: SparkSession, catalog: Catalog) -> None:
    identity = uuid.uuid4()
    columns = {
        "u": (pa.uuid(), identity.bytes, bytearray(identity.bytes)),
        "n": (pa.int64(), 1, 1),
        "l": (pa.list_(pa.int64()), [1, None], [1, None]),
        "fixed": (pa.binary(2), b"ab", bytearray(b"ab")),
        "time": (pa.time64("us"), datetime.time(1, 2, 3, 4), datetime.time(1, 2, 3, 4)),
        "nanos": (pa.timestamp("ns"), 5_999, datetime.datetime(1970, 1, 1, 0, 0, 0, 5)),
        "inside": (pa.list_(pa.binary(2)), [b"ab"], [bytearray(b"ab")]),
    }
    schema = pa.schema([(name, type_) for name, (type_, _, _) in columns.items()])
    table = catalog.create_table("d.t", schema, format_version=3)
    arrays = [pa.array([value], type_) for type_, value, _ in columns.values()]
    table.append(pa.Table.from_arrays(arrays, schema=schema))
    expected = [tuple(value for _, _, value in columns.values())]
    assert rows(skerry.spark.read(spark, table)) == expected
    for name, (_, _, value) in columns.items():
        assert rows(skerry.spark.read(spark, table, [name])) == [(value,)], name
    skerry.spark.register(spark)
    source = spark.read.format("skerry").option("catalog", catalog.properties["warehouse"])
    assert rows(source.load("d.t")) == expected
    assert not uses_python(skerry.spark.read(spark, table, ["l", "n"]))
    assert rows(skerry.spark.read(spark, table, ["l", "n"])) == [([1, None], 1)]
    for file_format in ("orc", "amudai"):
        other = catalog.create_table(f"d.{file_format}", pa.schema([("k", pa.int64())]), file_format=file_format)
        other.append(pa.table({"k": [1, 2, 3]}))
        frame = skerry.spark.read(spark, other)
        assert (rows(frame), estimated_rows(frame)) == ([(1,), (2,), (3,)], 3)


# Which rows ----------------------------------------------------------------------------------------------------------


def test_snapshots_and_empty_tables(spark: SparkSession, catalog: Catalog) -> None:
    table = catalog.create_table("d.t", pa.schema([("k", pa.int64())]))
    empty = skerry.spark.read(spark, table)
    assert (rows(empty), empty.columns) == ([], ["k"])
    table.append(pa.table({"k": [1, 2]}))
    first = table.current_snapshot().snapshot_id
    table.create_tag("one")
    table.append(pa.table({"k": [3]}))
    assert rows(skerry.spark.read(spark, table, snapshot=first)) == [(1,), (2,)]
    assert rows(skerry.spark.read(spark, table, ref="one")) == [(1,), (2,)]
    assert column_statistics(skerry.spark.read(spark, table, snapshot=first))["k"][:3] == ("2", "1", "2")
    with pytest.raises(NotFoundError):
        skerry.spark.read(spark, table, snapshot=12345)


def test_a_frame_of_files_that_have_gone_says_so(spark: SparkSession, catalog: Catalog) -> None:
    table = catalog.create_table("d.t", pa.schema([("k", pa.int64())]))
    for k in range(2):
        table.append(pa.table({"k": [k]}))
    frame = skerry.spark.read(spark, table)
    table.compact(full=True)
    table.expire_snapshots(older_than=datetime.datetime.now(datetime.UTC))
    with pytest.raises(NotFoundError, match=r"a data file of table d\.t is missing: the snapshot .* has expired"):
        frame.where("k > 0").collect()


ODD_CONDITIONS = {
    "f = 0": [0, 1],
    "f = -0.0D": [0, 1],
    "f >= 0": [0, 1, 2, 3],
    "f <= -0.0D": [0, 1],
    "f in (0, 9)": [0, 1],
    "f > 100": [3],
    "f = double('NaN')": [3],
    "f < 100": [0, 1, 2],
    "s.f = 0": [0, 1],
    "d = date '1582-10-04'": [0],
    "d = date '1582-10-10'": [1],
    "d > date '1582-10-12'": [2, 3],
    "d <= date '1582-10-14'": [0, 1],
    "t = timestamp '1582-10-10 01:00:00+00:00'": [1],
    "t > timestamp '1582-10-12 01:00:00+00:00'": [2, 3],
    "t <= timestamp '1883-11-18 17:00:00+00:00'": [0, 1, 2, 3],
}


@pytest.mark.parametrize("format", ["iceberg", "paimon"])
def test_values_that_parquets_filters_mistake_are_found(spark: SparkSession, catalog: Catalog, format: str) -> None:
    """Zeros with a sign, NaN, and days that an older calendar lacks: alone in a file, and among others."""
    instants = [datetime.datetime(1582, 10, day, 1, tzinfo=datetime.UTC) for day in (4, 10, 15)]
    instants.append(datetime.datetime(1883, 11, 18, 17, tzinfo=datetime.UTC))
    numbers = [0.0, -0.0, 7.5, math.nan]
    values = pa.table(
        {
            "id": range(4),
            "f": numbers,
            "s": [{"f": number} for number in numbers],
            "d": [instant.date() for instant in instants],
            "t": pa.array(instants, pa.timestamp("us", "UTC")),
        }
    )
    table = catalog.create_table("d.odd", values.schema, format=format)
    for number in range(4):
        table.append(values.slice(number, 1))
    table.append(values)
    frame = skerry.spark.read(spark, table)
    assert reads_natively(frame)
    for condition, expected in ODD_CONDITIONS.items():
        found = [id for (id,) in rows(frame.where(condition).select("id"))]
        assert found == sorted(expected * 2), condition
        query = f"select id from d.odd where {condition}"
        assert [id for (id,) in rows(skerry.spark.sql(spark, query, catalog))] == found, condition


def test_a_missing_file_is_named(spark: SparkSession, catalog: Catalog) -> None:
    table = catalog.create_table("d.t", pa.schema([("k", pa.int64())]))
    table.append(pa.table({"k": [1]}))
    location = table.files()[0].location.removeprefix("file://")
    Path(location).unlink()
    with pytest.raises(NotFoundError, match=re.escape(Path(location).name)):
        skerry.spark.read(spark, table)


def test_analyze_on_spark(spark: SparkSession, catalog: Catalog) -> None:
    table = catalog.create_table(
        "d.t", pa.schema([("k", pa.int64())]), properties={"skerry.statistics.enabled": "false"}
    )
    for start in range(3):
        table.append(pa.table({"k": range(start, start + 100)}))
    table.set_properties({"skerry.statistics.enabled": "true"})
    seen = []
    summary = skerry.spark.analyze(spark, table, progress=seen.append)
    assert (summary.files, summary.rows) == (3, 300)
    assert seen
    assert table.statistics()["k"].ndv == 102


def test_without_a_jvm_rows_are_the_same_and_small_tables_have_a_hint(
    spark: SparkSession, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skerry.spark.reading.native_scan.is_classic", lambda spark: False)  # as on Spark Connect
    properties = {"write.delete.mode": "merge-on-read"}
    table = catalog.create_table("d.t", pa.schema([("k", pa.int64()), ("s", pa.string())]), properties=properties)
    table.append(pa.table({"k": range(100), "s": [str(number) for number in range(100)]}))
    table.append(pa.table({"k": range(100, 150), "s": ["x"] * 50}))
    table.delete("k < 10")
    frame = skerry.spark.read(spark, table, ["s"], "k >= 5 and k < 120")
    assert rows(frame) == scanned(table.scan(["s"], "k >= 5 and k < 120"))
    small = skerry.spark.read(spark, table, where="k >= 100")
    assert "ResolvedHint (strategy=broadcast)" in small._jdf.queryExecution().analyzed().toString()
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "1k")
    try:
        large = skerry.spark.read(spark, table, where="k < 100")
        assert "Hint" not in large._jdf.queryExecution().analyzed().toString()
        # by the size of what the workers are started with, this would be broadcast
        assert plan(large).stats().sizeInBytes() > 1024
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
