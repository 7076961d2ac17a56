"""Jobs of upkeep and row-level change with their tasks on Spark's executors: the same outcome as in one process."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import pyarrow as pa
import pytest

import skerry
import skerry.spark

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string()), ("p", pa.int32())])


def rows(start, stop):
    return pa.table(
        {"k": range(start, stop), "s": [f"s{k}" for k in range(start, stop)], "p": [k % 3 for k in range(start, stop)]},
        SCHEMA,
    )


@pytest.fixture
def table(tmp_path):
    catalog = skerry.connect(tmp_path / "warehouse")
    made = catalog.create_table(
        "d.t", SCHEMA, partition_by=["p"], properties={"write.delete.mode": "merge-on-read", "format-version": "2"}
    )
    for start in range(0, 60, 10):
        made.append(rows(start, start + 10))
    return made


def keys(table):
    return sorted(table.refresh().scan(["k"]).to_arrow()["k"].to_pylist())


def test_upkeep(spark, table):
    table.delete("k = 3")
    table.delete("k = 9")
    told = []
    deletes = skerry.spark.rewrite_deletes(spark, table)
    assert (deletes.data_files, deletes.rewritten_delete_files, deletes.added_delete_files) == (1, 2, 1)
    done = skerry.spark.compact(spark, table, z_order=["k", "s"], progress=told.append)
    assert (done.groups, done.rows) == (3, 58)
    assert told[-1].done_files == told[-1].total_files
    assert str(table.statistics()["k"].freshness) == "fresh"
    expired = skerry.spark.expire_snapshots(spark, table, older_than=dt.datetime.now(dt.UTC))
    assert len(expired.files) > 10
    dead = Path(table.location.removeprefix("file://")) / "data" / "p=7" / "dead.parquet"
    dead.parent.mkdir(parents=True)
    dead.write_bytes(b"1")
    os.utime(dead, (0, 0))
    orphans = skerry.spark.remove_orphans(spark, table)
    assert [Path(file.location).name for file in orphans.files] == ["dead.parquet"]
    assert keys(table) == [k for k in range(60) if k not in (3, 9)]


def test_merge_takes_frames(spark, table):
    frame = spark.range(55, 65).selectExpr("id as k", "'new' as s", "cast(id % 3 as int) as p")
    done = skerry.spark.merge(
        spark, table, frame, on="k", when_matched=skerry.Update(), when_not_matched=skerry.Insert()
    )
    assert (done.inserted_rows, done.updated_rows) == (5, 5)
    assert keys(table) == [*range(65)]
    assert table.scan(where="s = 'new'").count() == 10
    gone = pa.table({"k": [0, 1]})
    names = set()

    def note(progress):
        names.add(spark.sparkContext.getLocalProperty("spark.job.description"))

    assert skerry.spark.merge(spark, table, gone, on="k", when_matched=skerry.Delete(), progress=note).deleted_rows == 2
    assert names == {"skerry: merge into d.t"}
    assert spark.sparkContext.getLocalProperty("spark.job.description") is None
    assert keys(table) == [*range(2, 65)]


def test_migrations_look_at_files_in_tasks(spark, table):
    table.delete("k = 3")
    left = [k for k in range(60) if k != 3]
    told = []
    done = skerry.spark.migrate(spark, table.catalog, "d.t", format="paimon", progress=told.append)
    assert (told[-1].done_files, done.partition_by) == (done.files, ("p",))
    paimon = table.catalog.load_table("d.t")
    assert (paimon.format, keys(paimon)) == ("paimon", left)
    assert skerry.spark.migrate(spark, table.catalog, "d.t").files == done.files
    iceberg = table.catalog.load_table("d.t")
    assert (iceberg.format, keys(iceberg)) == ("iceberg", left)
    assert str(iceberg.statistics()["k"].freshness) == "fresh"
