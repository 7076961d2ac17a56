"""Jobs on Paimon tables with their tasks on Spark's executors: what one process does, and what Paimon's Java reads."""

from __future__ import annotations

import datetime as dt
import os
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skerry
import skerry.spark
from skerry.errors import SchemaError, UnsupportedError
from skerry.paimon.manifests.live_files import live_entries
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage

sys.path.insert(0, str(Path(__file__).parents[1] / "paimon"))

from paimon_peers import JavaPaimon, java_rows

from torture import few_of

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("k", pa.int64()), ("p", pa.int32()), ("s", pa.string())])

KINDS = {
    "append": {},
    "partitions": {"partition_by": ["p"]},
    "buckets": {"partition_by": ["bucket(3, k)"]},
    "keys": {"primary_key": ["k"], "partition_by": ["bucket(3, k)"]},
    "keys in partitions": {"primary_key": ["k", "p"], "partition_by": ["p", "bucket(2, k)"]},
    "dynamic buckets": {"primary_key": ["k"]},
}


def data(keys, text="s"):
    keys = list(keys)
    return pa.table({"k": keys, "p": [k % 3 for k in keys], "s": [f"{text}{k}" for k in keys]}, SCHEMA)


def plain(table):
    return sorted(tuple(row.values()) for row in table.refresh().scan().to_arrow().to_pylist())


@pytest.fixture(scope="session")
def java(spark, tmp_path_factory):
    return JavaPaimon(spark, tmp_path_factory.mktemp("java-paimon-jobs"))


@pytest.fixture
def catalog(tmp_path):
    return skerry.connect(tmp_path / "warehouse")


def entries(table):
    return live_entries(table.refresh().handle.state)


def stray_files(table):
    """Files of rows in the folder that no snapshot names."""
    named = set()
    for snapshot in table.handle.snapshots():
        named |= {entry.file.file_name for entry in live_entries(table.handle.state.at(snapshot))}
    found = {path.name for path in Path(table.location.removeprefix("file://")).rglob("*.*") if path.is_file()}
    return {name for name in found if name.endswith((".parquet", ".arrow"))} - named


# Landing -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", few_of(KINDS, "append", "buckets", "keys in partitions"))
def test_ingest_equals_append(spark, java, catalog, kind):
    how = KINDS[kind]
    landed = catalog.create_table("d.landed", SCHEMA, format="paimon", **how)
    appended = catalog.create_table("d.appended", SCHEMA, format="paimon", **how)
    told = []
    for number, keys in enumerate((range(300), [*range(100, 200), *range(150, 160), *range(400, 500)])):
        rows = data(keys, f"{number}-")
        appended.append(rows)
        frame = spark.createDataFrame(rows).repartitionByRange(4, "k")
        done = skerry.spark.ingest(spark, frame, landed, progress=told.append)
    assert done.snapshot_id == 2
    assert done.rows == (200 if "primary_key" in how and "partition_by" in how else 210)
    assert plain(landed) == plain(appended)
    assert sorted(java.read(landed.location.removeprefix("file://"))) == sorted(java_rows(landed.scan().to_arrow()))
    for name, column in landed.statistics().items():
        mine = appended.statistics()[name]
        assert (column.ndv, column.min, column.max) == (mine.ndv, mine.min, mine.max)
        assert str(column.freshness) == str(mine.freshness)
    assert stray_files(landed) == set()
    assert told[-1].step == "commit"


def test_partitions_do_not_explode(spark, catalog):
    """A frame of many tasks with all partitions in each: a file per partition, not one per task and partition."""
    table = catalog.create_table("d.t", SCHEMA, format="paimon", partition_by=["p"])
    frame = spark.createDataFrame(data(range(600))).repartition(8)
    assert skerry.spark.ingest(spark, frame, table).files == 3
    assert sorted(entry.file.row_count for entry in entries(table)) == [200, 200, 200]


def test_the_last_row_of_a_key_counts(spark, catalog):
    """Whatever task a row was in, and however rows are moved: the order of the frame decides."""
    table = catalog.create_table("d.t", SCHEMA, format="paimon", primary_key=["k"], properties={"bucket": "2"})
    rows = pa.concat_tables([data(range(50), f"{number}-") for number in range(6)])
    frame = spark.createDataFrame(rows.to_pandas()).repartitionByRange(6, "s").orderBy("s")
    done = skerry.spark.ingest(spark, frame, table)
    assert (done.rows, done.files) == (50, 2)
    assert plain(table) == [(k, k % 3, f"5-{k}") for k in range(50)]
    highest = {entry.bucket: entry.file.max_sequence_number for entry in entries(table)}
    assert sum(highest.values()) == 300 - 2  # each bucket counts its records from 0


def test_files_land_and_bad_values_leave_nothing(spark, catalog, tmp_path):
    schema = pa.schema([("k", pa.int32()), ("tiny", pa.int8()), ("at", pa.timestamp("ms")), ("s", pa.string())])
    table = catalog.create_table("d.t", schema, format="paimon", properties={"bucket": "2", "bucket-key": "k"})
    (tmp_path / "a.csv").write_text("k,tiny,at,s\n1,7,2024-05-06 07:08:09.123,a\n2,,,b\n")
    assert skerry.spark.ingest(spark, tmp_path / "a.csv", table).rows == 2
    assert plain(table) == [(1, 7, dt.datetime(2024, 5, 6, 7, 8, 9, 123000), "a"), (2, None, None, "b")]
    (tmp_path / "b.csv").write_text("k,tiny,at,s\n" + "3,1,,c\n" * 50 + "4,300,,d\n")
    with pytest.raises(SchemaError, match=r"column 'tiny'.*300"):
        skerry.spark.ingest(spark, tmp_path / "b.csv", table)
    assert len(plain(table)) == 2
    assert stray_files(table) == set()


def test_what_is_not_written_is_refused_by_name(spark, catalog):
    how = {"primary_key": ["k"], "properties": {"bucket": "1", "commit.callbacks": "com.example.Watch"}}
    watched = catalog.create_table("d.watched", SCHEMA, format="paimon", **how)
    for job in (skerry.spark.compact, lambda spark, table: skerry.spark.ingest(spark, spark.range(1), table)):
        with pytest.raises(UnsupportedError, match=r"commit\.callbacks=com\.example\.Watch"):
            job(spark, watched)


# Upkeep --------------------------------------------------------------------------------------------------------------


def test_upkeep(spark, java, catalog):
    how = {"primary_key": ["k"], "partition_by": ["bucket(3, k)"], "properties": {"write-only": "true"}}
    table = catalog.create_table("d.t", SCHEMA, format="paimon", **how)
    for number in range(5):
        table.append(data(range(number * 5, 60), f"{number}-"))
    expected = [(k, k % 3, f"{min(k // 5, 4)}-{k}") for k in range(60)]
    rival = PaimonTable.open(Storage(), table.location)

    planned = skerry.spark.compact(spark, table, dry_run=True)
    assert (planned.groups, planned.rewritten_files, planned.reasons) == (3, 15, {"many sorted runs": 3})

    told = []

    def watch(progress):
        if not told:
            rival.append(data([1], "late"))
            rival.compact(full=True)  # of all buckets, when one task is done: all must be done again
        told.append(progress)

    done = skerry.spark.compact(spark, table, full=True, progress=watch)
    assert (told[2].step, told[2].done_files, told[2].total_files, told[2].done_rows) == ("compact", 15, 15, 60)
    assert (done.groups, done.conflicts) == (0, 0)  # the rival has left nothing to do
    expected[1] = (1, 1, "late1")
    assert plain(table) == expected
    table.append(data([2, 3], "new"))
    expected[2:4] = [(2, 2, "new2"), (3, 0, "new3")]
    done = skerry.spark.compact(spark, table, full=True)
    assert done.rows == sum(done.groups * [20]) or done.groups < 3
    assert {entry.file.level for entry in entries(table)} == {5}
    assert sorted(map(tuple, java.read(table.location.removeprefix("file://")))) == plain(table) == expected

    counted = skerry.spark.analyze(spark, table, progress=told.append)
    assert counted.snapshot_id == table.refresh().current_snapshot().snapshot_id
    exact = {name: pc.count_distinct(table.scan().to_arrow()[name]).as_py() for name in SCHEMA.names}
    assert {name: (column.ndv, str(column.freshness)) for name, column in table.statistics().items()} == {
        name: (count, "fresh") for name, count in exact.items()
    }

    expired = skerry.spark.expire_snapshots(spark, table, older_than=dt.datetime.now(dt.UTC), progress=told.append)
    assert (told[-1].step, told[-1].done_files) == ("delete", len(expired.files))
    assert len(expired.files) > 15
    folder = Path(table.location.removeprefix("file://"))
    dead = folder / "bucket-0" / "data-dead-0.parquet"
    dead.write_bytes(b"1")
    os.utime(dead, (0, 0))
    marked = skerry.spark.remove_orphans(spark, table, dry_run=True, log=str(folder.parent / "logs"))
    assert dead.exists()
    orphans = skerry.spark.remove_orphans(spark, table, marked=marked.logs[0])
    assert [Path(file.location).name for file in orphans.files] == ["data-dead-0.parquet"]
    assert plain(table) == expected


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_compaction_writes_the_changelog(spark, java, catalog, producer):
    how = {"primary_key": ["k"], "partition_by": ["bucket(2, k)"], "properties": {"changelog-producer": producer}}
    table = catalog.create_table("d.t", SCHEMA, format="paimon", **how)
    for keys, text in ((range(6), "a"), (range(3, 9), "b")):
        rows = data(keys, text)
        skerry.spark.ingest(spark, spark.createDataFrame(rows.to_pandas(), "k long, p int, s string"), table)
        assert table.refresh().changes(table.current_snapshot().snapshot_id - 1).to_arrow().num_rows == 0
        skerry.spark.compact(spark, table.refresh(), full=producer == "full-compaction")
    found = table.refresh().changes().to_arrow().select(["_change_type", "k", "s"]).to_pylist()
    expected = [("INSERT", k, f"a{k}") for k in range(6)] + [("INSERT", k, f"b{k}") for k in range(6, 9)]
    expected += [(f"UPDATE_{when}", k, f"{s}{k}") for k in range(3, 6) for when, s in (("BEFORE", "a"), ("AFTER", "b"))]
    assert sorted(tuple(row.values()) for row in found) == sorted(expected)
    kinds = {"+I": "INSERT", "-U": "UPDATE_BEFORE", "+U": "UPDATE_AFTER"}
    theirs = [(kinds[kind], k, s) for _, kind, k, _, s in java.changelog(table.location)]
    assert sorted(theirs) == sorted(expected)


def test_compaction_folds_deletes_in(spark, java, catalog):
    properties = {"deletion-vectors.enabled": "true"}
    table = catalog.create_table("d.t", SCHEMA, format="paimon", partition_by=["p"], properties=properties)
    for start in range(0, 60, 10):
        table.append(data(range(start, start + 10)))
    table.delete("k in (3, 4, 33)")
    done = skerry.spark.compact(spark, table)
    assert (done.groups, done.added_files, done.removed_delete_files) == (3, 3, 3)
    assert done.reasons == {"deletes": 2, "many small files": 1} or sum(done.reasons.values()) == 3
    left = [k for k in range(60) if k not in (3, 4, 33)]
    assert [row[0] for row in plain(table)] == left
    assert sorted(row[0] for row in java.read(table.location.removeprefix("file://"))) == left
    assert all(column.freshness.is_fresh for column in table.statistics().values())


# Rows ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["append", "partitions", "keys", "dynamic buckets"])
def test_merge_equals_merge(spark, java, catalog, kind):
    here = catalog.create_table("d.here", SCHEMA, format="paimon", **KINDS[kind])
    there = catalog.create_table("d.there", SCHEMA, format="paimon", **KINDS[kind])
    for table in (here, there):
        table.append(data(range(40)))
        table.append(data(range(40, 80)))
    rows = spark.range(70, 90).selectExpr("id as k", "cast(id % 3 as int) as p", "concat('new', id) as s")
    clauses = {
        "when_matched": [skerry.Delete("source.k = 75"), skerry.Update()],
        "when_not_matched": skerry.Insert(),
        "when_not_matched_by_source": skerry.Delete("target.k < 5"),
    }
    told = []
    done = skerry.spark.merge(spark, there, rows, on="k", progress=told.append, **clauses)
    alone = here.merge(rows.toArrow(), on="k", **clauses)
    counts = ("inserted_rows", "updated_rows", "deleted_rows")
    assert [getattr(done, name) for name in counts] == [getattr(alone, name) for name in counts] == [10, 9, 6]
    assert told[-1].done_files == told[-1].total_files
    assert plain(there) == plain(here)
    assert len(plain(there)) == 84
    assert sorted(map(tuple, java.read(there.location.removeprefix("file://")))) == plain(there)
    from skerry.spark.runtime.executor import SparkExecutor

    gone = there.delete("s like 'new8%'", executor=SparkExecutor(spark))
    assert gone.deleted_rows == 10
    assert plain(there) == [row for row in plain(here) if not row[2].startswith("new8")]
    assert stray_files(there) == set()


# Reading -------------------------------------------------------------------------------------------------------------


def scans(frame):
    """What a plan reads by Spark's own scan, and what through Python."""
    plan = frame._jdf.queryExecution().executedPlan().toString()
    return ("FileScan" in plan, "ExistingRDD" in plan or "InArrow" in plan)


def spark_rows(frame):
    return sorted(tuple(row) for row in frame.collect())


def test_reading_by_spark_and_through_arrow(spark, catalog):
    table = catalog.create_table("d.t", SCHEMA, format="paimon", primary_key=["k"], properties={"bucket": "2"})
    table.append(data(range(300)))
    table.compact(full=True)
    frame = skerry.spark.read(spark, table)
    assert scans(frame) == (True, False)
    assert spark_rows(frame) == plain(table)
    found = frame._jdf.queryExecution().optimizedPlan().stats()
    assert found.rowCount().get() == 300
    wanted = frame.where("p = 1")._jdf.queryExecution().optimizedPlan().stats()
    assert wanted.rowCount().get() == pytest.approx(100, rel=0.05)  # a third; Spark counts buckets of a histogram
    table.append(data(range(290, 310), "new"))
    table.delete("k = 5")
    merged = skerry.spark.read(spark, table.refresh(), ["s", "k"], "k >= 2")
    assert spark_rows(merged) == [(s, k) for s, k in sorted((row[2], row[0]) for row in plain(table)) if k >= 2]
    assert spark_rows(skerry.spark.read(spark, table, snapshot=1)) == spark_rows(frame)


def test_records_that_delete_are_no_rows(spark, catalog):
    table = catalog.create_table("d.t", SCHEMA, format="paimon", primary_key=["k"], properties={"bucket": "1"})
    table.append(data(range(10)))
    table.delete("k >= 5")
    table.compact(full=True)
    table.append(data([20]))
    table.delete("k = 20")  # a file of its own key range that only deletes is merged with the one before it
    frame = skerry.spark.read(spark, table.refresh())
    assert spark_rows(frame) == plain(table) == [(k, k % 3, f"s{k}") for k in range(5)]


def test_evolved_and_nested_columns(spark, catalog):
    point = pa.struct([("x", pa.int32()), ("y", pa.string())])
    columns = [("k", pa.int32()), ("b", pa.int8()), ("at", pa.timestamp("ms")), ("point", point)]
    schema = pa.schema([*columns, ("tags", pa.list_(pa.string())), ("m", pa.map_(pa.string(), pa.int32()))])
    table = catalog.create_table("d.t", schema, format="paimon")
    at = dt.datetime(2024, 5, 6, 7, 8, 9, 123000)
    row = {"k": 1, "b": -7, "at": at, "point": {"x": 1, "y": "a"}, "tags": ["t", None], "m": [("a", 1)]}
    table.append(pa.Table.from_pylist([row], schema))
    frame = skerry.spark.read(spark, table)
    assert scans(frame) == (True, False)
    (found,) = frame.collect()
    assert (found.k, found.b, found.at, found.point.y, found.tags, found.m) == (1, -7, at, "a", ["t", None], {"a": 1})
    assert skerry.spark.read(spark, table, ["point.y"]).collect()[0].point.asDict() == {"y": "a"}
    with table.update_schema() as change:
        change.rename_column("k", "id")
        change.add_column("k", pa.string())
    frame = skerry.spark.read(spark, table, ["id", "k"])
    assert scans(frame)[0] is False  # by name Spark would take the old column for the new one
    assert [tuple(row) for row in frame.collect()] == [(1, None)]


def test_sql(spark, catalog):
    table = catalog.create_table("d.t", SCHEMA, format="paimon", partition_by=["p"])
    table.append(data(range(90)))
    keyed = catalog.create_table("d.keyed", SCHEMA, format="paimon", primary_key=["k"], properties={"bucket": "1"})
    keyed.append(data(range(0, 90, 2)))
    keyed.append(data(range(20), "new"))
    query = "select count(*), min(l.s) from d.t l join d.keyed r on l.k = r.k where l.p = 1 and r.s like 'new%'"
    assert [tuple(row) for row in skerry.spark.sql(spark, query, catalog).collect()] == [(7, "s1")]
    plan = skerry.spark.sql(spark, "select s from d.t where p = 2", catalog)._jdf.queryExecution()
    assert plan.optimizedPlan().stats().rowCount().get() == 30
