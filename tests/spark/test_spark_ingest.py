"""Landing files and frames: everything in one commit, or nothing and a message that says why."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import skerry
from java_options import quick_java
from skerry.errors import ConflictError, FormatError, NotFoundError, SchemaError, UnsupportedError
from skerry.iceberg.handle import IcebergHandle
from skerry.spark import infer_schema, ingest
from skerry.spark.writing.sources import detect_format
from skerry.table.work.tasks import JobProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from skerry.catalog import Catalog, Table

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        ("when", pa.timestamp("us")),
        ("price", pa.decimal128(5, 2)),
        ("name", pa.string()),
    ]
)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return skerry.connect(tmp_path / "warehouse")


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return catalog.create_table("d.t", SCHEMA)


def rows(table: Table) -> list[dict[str, Any]]:
    return table.refresh().scan().to_arrow().to_pylist()


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def data_files(table: Table) -> list[Path]:
    folder = Path(table.location.removeprefix("file://")) / "data"
    return [path for path in folder.rglob("*") if path.is_file()]


CSV = "id,when,price,name\n1,2013-01-01 05:00:00,1.5,a\n2,,2.25,\n"
LANDED = [
    {"id": 1, "when": datetime(2013, 1, 1, 5), "price": Decimal("1.50"), "name": "a"},
    {"id": 2, "when": None, "price": Decimal("2.25"), "name": None},
]


# What arrives --------------------------------------------------------------------------------------------------------


def test_rows_and_statistics_come_in_one_commit(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    summary = ingest(spark, write(tmp_path / "in" / "a.csv", CSV), table)
    assert rows(table) == LANDED
    (snapshot,) = table.snapshots()
    assert (summary.snapshot_id, summary.rows, summary.files) == (snapshot.snapshot_id, 2, 1)
    assert summary.size_bytes == sum(path.stat().st_size for path in data_files(table))
    statistics = table.statistics()
    assert {name: column.ndv for name, column in statistics.items()} == {"id": 2, "when": 1, "price": 2, "name": 1}
    assert all(column.freshness.is_fresh for column in statistics.values())
    assert snapshot.has_statistics
    (file,) = table.files()
    assert file.split_offsets
    assert file.null_value_counts == {1: 0, 2: 1, 3: 0, 4: 1}


def test_csv_columns_in_any_order_and_optional_ones_missing(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    ingest(spark, write(tmp_path / "a.csv", "price,id\n1.5,1\n"), table)
    assert rows(table) == [{"id": 1, "when": None, "price": Decimal("1.50"), "name": None}]


def test_csv_options(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "1|01.02.2013 05:00|NA|'x|y'\n")
    options = {"header": "false", "SEP": "|", "quote": "'", "nullValue": "NA", "timestampNTZFormat": "dd.MM.yyyy HH:mm"}
    ingest(spark, path, table, format="csv", options=options)
    assert rows(table) == [{"id": 1, "when": datetime(2013, 2, 1, 5), "price": None, "name": "x|y"}]


def test_tabs_globs_and_compressed_files(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    write(tmp_path / "in put" / "a.tsv", CSV.replace(",", "\t"))
    (tmp_path / "in put" / "b.tsv.gz").write_bytes(gzip.compress(b"id\twhen\tprice\tname\n3\t\t\tc\n"))
    ingest(spark, tmp_path / "in put" / "*.tsv*", table)
    third = {"id": 3, "when": None, "price": None, "name": "c"}
    assert sorted(rows(table), key=lambda row: row["id"]) == [*LANDED, third]


def test_json(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int64()),
            ("at", pa.timestamp("us", "UTC")),
            ("place", pa.struct([("x", pa.decimal128(5, 2)), ("y", pa.string())])),
            ("tags", pa.list_(pa.string())),
            ("scores", pa.map_(pa.string(), pa.int32())),
        ]
    )
    table = catalog.create_table("d.j", schema)
    lines = [
        {"id": 1, "at": "2013-01-01T05:00:00Z", "place": {"x": 1.5}, "tags": ["a", "b"], "scores": {"k": 1}},
        {"tags": []},
    ]
    ingest(spark, write(tmp_path / "a.json", "\n".join(map(json.dumps, lines))), table)
    assert rows(table) == [
        {
            "id": 1,
            "at": datetime(2013, 1, 1, 5, tzinfo=UTC),
            "place": {"x": Decimal("1.50"), "y": None},
            "tags": ["a", "b"],
            "scores": [("k", 1)],
        },
        {"id": None, "at": None, "place": None, "tags": [], "scores": None},
    ]
    assert table.statistics()["id"].ndv == 1


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_columnar_files(spark: SparkSession, table: Table, tmp_path: Path, format: str) -> None:
    data = pa.Table.from_pylist(LANDED, schema=SCHEMA).drop_columns(["when"])
    path = tmp_path / f"a.{format}"
    pq.write_table(data, path) if format == "parquet" else pa.orc.write_table(data, path)
    ingest(spark, path, table)
    assert rows(table) == [row | {"when": None} for row in LANDED]


def test_frames_and_partitions(spark: SparkSession, catalog: Catalog) -> None:
    schema = pa.schema([("k", pa.int64()), ("day", pa.date32()), ("x", pa.float64())])
    table = catalog.create_table("d.p", schema, partition_by=["bucket(2, k)", "month(day)"], sort_by=["k desc"])
    frame = spark.range(100).selectExpr(
        "id as k", "date_add(date'2013-01-01', cast(id as int)) as day", "if(id = 7, double('NaN'), id / 4) as x"
    )
    summary = ingest(spark, frame, table)
    assert summary.rows == 100
    files = table.files()
    assert len({file.partition for file in files}) == len(files) == 8
    assert len({Path(file.location).name for file in files}) == 8  # by which Paimon would tell them apart
    assert {file.sort_order_id for file in files} == {1}
    assert sum(file.nan_value_counts[3] for file in files) == 1
    assert table.statistics()["x"].ndv == 100
    assert table.scan(where="day = '2013-02-03'").to_arrow()["k"].to_pylist() == [33]


def test_shards(spark: SparkSession, catalog: Catalog) -> None:
    table = catalog.create_table("d.shards", pa.schema([("k", pa.int64()), ("s", pa.string())]), file_format="amudai")
    ingest(spark, spark.range(1000).selectExpr("id as k", "concat('s', id % 7) as s"), table)
    assert {file.file_format for file in table.files()} == {"amudai"}
    assert sorted(table.scan(where="s = 's3'").to_arrow()["k"].to_pylist()) == list(range(3, 1000, 7))
    assert table.statistics()["s"].ndv == 7


def test_nothing_to_land(spark: SparkSession, table: Table) -> None:
    summary = ingest(spark, spark.range(0).selectExpr("cast(id as int) as id"), table)
    assert (summary.snapshot_id, summary.files, summary.rows) == (None, 0, 0)
    assert table.snapshots() == []
    assert data_files(table) == []


def test_branches_and_summaries(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    ingest(spark, spark.sql("select 1 as id"), table, snapshot_properties={"source": "test"})
    assert table.snapshots()[0].summary["source"] == "test"


def test_infer_schema(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "id,when,on,price,name\n1,2013-01-01 05:00:00,2013-01-01,1.5,a\n")
    found = infer_schema(spark, str(path))
    assert found == pa.schema(
        [
            ("id", pa.int32()),
            ("when", pa.timestamp("us")),
            ("on", pa.date32()),
            ("price", pa.float64()),
            ("name", pa.string()),
        ]
    )
    assert spark.conf.get("spark.sql.timestampType") == "TIMESTAMP_LTZ"


def test_progress_is_told_in_the_calling_thread(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    told: list[JobProgress] = []
    threads = set()

    def watch(progress: JobProgress) -> None:
        told.append(progress)
        threads.add(threading.current_thread())

    path = write(tmp_path / "a.csv", "id\n" + "".join(f"{i}\n" for i in range(20_000)))
    ingest(spark, path, table, progress=watch)
    assert threads == {threading.current_thread()}
    assert list(dict.fromkeys(p.step for p in told)) == ["write", "sketch", "commit"]
    written = [p for p in told if p.step == "write"][-1]
    assert (written.done_rows, written.done_bytes > 0) == (20_000, True)
    sketched = [p for p in told if p.step == "sketch"][-1]
    assert (sketched.done_rows, sketched.done_files, sketched.total_files) == (20_000, 1, 1)


# What does not -------------------------------------------------------------------------------------------------------

HEADER = "id,when,price,name\n"
GOOD = "1,2013-01-01 05:00:00,1.5,a\n"
BAD_ROWS = [
    (GOOD * 3 + "x,,,\n", 5, "column 'id': value 'x' does not fit int32"),
    (GOOD + "2,tomorrow,2,b\n" + GOOD, 3, "column 'when': value 'tomorrow' does not fit timestamp[us]"),
    (GOOD + "\n\n3000000000,,2,b\n", 5, "column 'id': value '3000000000' does not fit int32"),
    (GOOD + "2,,1.239,b\n", 3, "column 'price': value '1.239' does not fit decimal128(5, 2)"),
    (GOOD + "2,,1000,b\n", 3, "column 'price': value '1000' does not fit decimal128(5, 2)"),
    (GOOD + "2,,2\n", 3, "3 values instead of 4: '2,,2'"),
    (GOOD + '2,,2,"b,c",d\n', 3, "5 values instead of 4: '2,,2,\"b,c\",d'"),
    (GOOD + ",,2,b\n", 3, "column 'id' is required, but null in a row"),
    (GOOD + f"{'9' * 500},,2,b\n", 3, "column 'id': value '" + "9" * 100 + "…'"),
]


@pytest.mark.parametrize(("text", "line", "message"), BAD_ROWS)
def test_a_bad_csv_row_is_named_and_nothing_is_committed(
    spark: SparkSession, table: Table, tmp_path: Path, text: str, line: int, message: str
) -> None:
    write(tmp_path / "in" / "good.csv", HEADER + GOOD * 10)
    bad = write(tmp_path / "in" / "[b]ad %41.csv", HEADER + text)
    with pytest.raises(SchemaError) as caught:
        ingest(spark, tmp_path / "in", table, format="csv")
    assert caught.value.message.startswith(f"line {line}, {message}")
    assert caught.value.location == str(bad)
    assert table.refresh().snapshots() == []
    assert data_files(table) == []


def test_a_bad_row_of_a_file_without_header(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "x,,,\n" + GOOD)
    with pytest.raises(SchemaError, match="line 1, column 'id': value 'x' does not fit int32"):
        ingest(spark, path, table, options={"header": "false"})


def test_a_bad_row_in_a_record_over_several_lines(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", HEADER + '1,,,"two\nlines"\nx,,,"three\n\nlines"\n')
    with pytest.raises(SchemaError, match="line 4, column 'id': value 'x' does not fit int32"):
        ingest(spark, path, table, options={"multiLine": "true"})
    ingest(spark, write(tmp_path / "b.csv", HEADER + '1,,,"two\nlines"\n'), table, options={"multiLine": "true"})
    assert rows(table)[0]["name"] == "two\nlines"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"id": 1}\n{"id": "x"}\n', "line 2, column 'id': value 'x' does not fit int32"),
        ('{"id": 1}\n\n{"id": 2, "name"\n', 'line 3, not a JSON object: \'{"id": 2, "name"\''),
        ('{"id": 1}\n{"name": "b"}\n', "line 2, column 'id' is required, but null in a row"),
        ('{"id": 1}\n{"id": 2, "price": 1.239}\n', "line 2, column 'price': value '1.239'"),
        ('{"id": 1}\n{"id": 2, "nmae": "b"}\n', "the table has no column 'nmae'; did you mean 'name'?"),
    ],
)
def test_a_bad_json_record(spark: SparkSession, table: Table, tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path / "a.jsonl", text)
    with pytest.raises(SchemaError) as caught:
        ingest(spark, path, table)
    assert message in str(caught.value)
    assert caught.value.location == str(path)
    assert table.refresh().snapshots() == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"id": 1, "tags": [1]}\n{"tags": [2]}\n', "line 2, column 'id' is required, but null in a row"),
        (
            '{"id": 1}\n{"id": 2, "price": 1.239}\n',
            "line 2, column 'price': value '1.239' does not fit decimal128(5, 2)",
        ),
        ('{"id": 1}\n{"id": 2, "tags": [1, "x"]}\n', "line 2, column 'tags': value '[1,\"x\"]' does not fit"),
    ],
)
def test_a_bad_record_on_its_way_to_our_own_writer(
    spark: SparkSession, catalog: Catalog, tmp_path: Path, text: str, message: str
) -> None:
    table = catalog.create_table(
        "d.l",
        pa.schema(
            [pa.field("id", pa.int32(), nullable=False), ("price", pa.decimal128(5, 2)), ("tags", pa.list_(pa.int64()))]
        ),
    )
    path = write(tmp_path / "a.json", text)
    with pytest.raises(SchemaError) as caught:
        ingest(spark, path, table)
    assert caught.value.message.startswith(message)
    assert caught.value.location == str(path)
    assert data_files(table) == []


def test_headers(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="the table has no column 'nmae'; did you mean 'name'"):
        ingest(spark, write(tmp_path / "a.csv", "id,nmae\n1,a\n"), table)
    write(tmp_path / "b" / "1.csv", "id,name\n" + "1,a\n" * 100)
    odd = write(tmp_path / "b" / "2.csv", "name,id\na,1\n")
    with pytest.raises(SchemaError, match=r"the header has column '.*' where other files have") as caught:
        ingest(spark, tmp_path / "b", table, format="csv")
    assert caught.value.location == str(odd)
    odd.write_text("id\n1\n")
    with pytest.raises(SchemaError, match="the header has 1 columns, other files have 2") as caught:
        ingest(spark, tmp_path / "b", table, format="csv")
    assert caught.value.location == str(odd)
    assert table.refresh().snapshots() == []


def test_wrong_names_are_answered_with_the_nearest(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", CSV)
    with pytest.raises(UnsupportedError, match="there is no csv option 'hedaer'; did you mean 'header'"):
        ingest(spark, path, table, options={"hedaer": "true"})
    with pytest.raises(UnsupportedError, match="format='parqet' is not supported; did you mean 'parquet'"):
        ingest(spark, path, table, format="parqet")
    with pytest.raises(UnsupportedError, match="the csv option 'Mode' cannot be set"):
        ingest(spark, path, table, options={"Mode": "DROPMALFORMED"})
    with pytest.raises(NotFoundError, match="file does not exist"):
        ingest(spark, tmp_path / "absent.csv", table)
    with pytest.raises(UnsupportedError, match="the source's name does not show its format"):
        detect_format("s3://bucket/folder/")


def test_types_that_csv_cannot_hold(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    table = catalog.create_table("d.u", pa.schema([("u", pa.uuid()), ("s", pa.struct([("x", pa.int32())]))]))
    for name in ("u", "s"):
        with pytest.raises(UnsupportedError, match=f"column '{name}': .* cannot be read from csv"):
            ingest(spark, write(tmp_path / f"{name}.csv", f"{name}\n1\n"), table)


def test_a_corrupt_source_file(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(LANDED, schema=SCHEMA), path)
    good = path.read_bytes()
    path.write_bytes(good[:8] + bytes(len(good) - 100) + good[-92:])
    with pytest.raises(FormatError, match="the file cannot be read") as caught:
        ingest(spark, path, table)
    assert caught.value.location == str(path)
    assert table.refresh().snapshots() == []


def test_files_of_a_lost_race_are_removed(spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(*arguments: Any, **options: Any) -> Any:
        raise ConflictError("another writer was faster")

    monkeypatch.setattr(IcebergHandle, "append", lose)
    with pytest.raises(ConflictError):
        ingest(spark, spark.sql("select 1 as id"), table)
    assert data_files(table) == []


def test_an_interrupted_ingest_is_cancelled(spark: SparkSession, table: Table) -> None:
    def interrupt(progress: JobProgress) -> None:
        raise KeyboardInterrupt

    endless = spark.range(10**15).where("id % 1000000007 = 3").selectExpr("cast(id % 7 as int) as id")
    with pytest.raises(KeyboardInterrupt):
        ingest(spark, endless, table, progress=interrupt)
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
    assert data_files(table) == []
    assert table.refresh().snapshots() == []


KILLED = """
import glob, os, signal, sys
import skerry, skerry.spark

spark = skerry.spark.session(master="local[1]", config={
    "spark.driver.memory": "1g", "spark.driver.extraJavaOptions": sys.argv[1]})
table = skerry.connect("warehouse").load_table("d.t")
rows = spark.range(0, 10**9, 1, 50).selectExpr("cast(id as int) as id", "cast(uuid() as string) as name")

def kill(progress):
    if glob.glob("warehouse/d/t/data/*/_temporary/0/_temporary/*/*.parquet"):
        os.kill(os.getpid(), signal.SIGKILL)

skerry.spark.ingest(spark, rows, table, progress=kill)
"""


def test_a_killed_ingest_leaves_the_table_as_it_was(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    ingest(spark, write(tmp_path / "a.csv", CSV), table)
    before = {path: path.read_bytes() for path in Path(tmp_path / "warehouse").rglob("*") if path.is_file()}
    done = subprocess.run([sys.executable, "-c", KILLED, quick_java()], cwd=tmp_path, check=False)
    assert done.returncode == -signal.SIGKILL
    assert {path: path.read_bytes() for path in before} == before
    assert rows(table) == LANDED
    data = Path(table.location.removeprefix("file://")) / "data"
    committed = {Path(file.location.removeprefix("file://")).parent for file in table.files()}
    assert len([folder for folder in data.iterdir() if folder not in committed]) == 1


# Another engine ------------------------------------------------------------------------------------------------------


def test_sparks_own_connector_reads_rows_and_knows_the_statistics(
    spark: SparkSession, iceberg_spark: Callable[[str | Path], SparkSession], catalog: Catalog, tmp_path: Path
) -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("on", pa.date32()),
            ("name", pa.string()),
            ("place", pa.struct([("x", pa.float64()), ("y", pa.decimal128(20, 3))])),
        ]
    )
    table = catalog.create_table("d.c", schema, partition_by=["bucket(4, id)", "truncate(2, name)"])
    frame = spark.range(50).selectExpr(
        "id",
        "date_add(date'2013-01-01', cast(id as int)) as on",
        "if(id % 9 = 0, null, concat('name', id % 7)) as name",
        "named_struct('x', id / 8, 'y', cast(id as decimal(20, 3))) as place",
    )
    ingest(spark, frame, table)
    ingest(spark, frame.where("id < 10"), table)
    other = iceberg_spark(tmp_path / "warehouse")
    found = other.table("skerry.d.c")
    assert found.where("id = 33").collect() == [(33, date(2013, 2, 3), "name5", (4.125, Decimal("33.000")))]
    assert (found.count(), found.where("name is null").count()) == (60, 8)
    loaded = other._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(other._jsparkSession, "skerry.d.c")
    files = {file.snapshotId(): file for file in loaded.statisticsFiles()}
    current = files[loaded.currentSnapshot().snapshotId()]
    ndv = {blob.fields()[0]: blob.properties()["ndv"] for blob in current.blobMetadata()}
    assert ndv == {1: "50", 2: "50", 3: "7", 5: "50", 6: "50"}


def test_frames_for_several_tables_in_one_transaction(spark: SparkSession, catalog: Catalog, table: Table) -> None:
    other = catalog.create_table("d.u", pa.schema([("id", pa.int64())]))
    frame = spark.range(10)
    with catalog.transaction() as tx:
        ingest(spark, frame, tx.load_table("d.u"))
        assert other.refresh().scan().count() == 0
        tx.load_table("d.t").append(pa.table({"id": pa.array([1], pa.int32())}))
        ingest(spark, frame, tx.load_table("d.u"))
    assert (other.refresh().scan().count(), len(rows(table))) == (20, 1)
    assert other.statistics()["id"].ndv == 10
    before = data_files(other)

    def fail() -> None:
        with catalog.transaction() as tx:
            ingest(spark, frame, tx.load_table("d.u"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert data_files(other) == before
