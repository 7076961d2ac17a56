"""Streams of `format("skerry")`: every row once through restarts, limits and changes, from one table into another."""

from __future__ import annotations

import json
import shutil

import pyarrow as pa
import pytest

import skerry
import skerry.spark

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string())])


@pytest.fixture
def catalog(tmp_path):
    return skerry.connect(tmp_path / "warehouse")


@pytest.fixture
def session(spark):
    skerry.spark.register(spark)
    return spark


def rows(*keys, s="a"):
    return pa.table({"k": list(keys), "s": [s] * len(keys)}, SCHEMA)


def reading(session, tmp_path, name, **options):
    stream = session.readStream.format("skerry").option("catalog", str(tmp_path / "warehouse"))
    return stream.options(**options).load(name)


def write_all(frame, tmp_path, name, *, checkpoint="checkpoint", mode="append", **options):
    """Run a stream until all that is there has been written."""
    writer = frame.writeStream.format("skerry").outputMode(mode).option("catalog", str(tmp_path / "warehouse"))
    writer = writer.option("checkpointLocation", str(tmp_path / checkpoint)).options(**options)
    query = writer.option("table", name).start()
    try:
        query.processAllAvailable()
        return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]
    finally:
        query.stop()


def content(table):
    return sorted(map(tuple, (row.values() for row in table.refresh().scan(["k", "s"]).to_arrow().to_pylist())))


def test_a_table_into_another_through_restarts(session, catalog, tmp_path):
    source = catalog.create_table("d.source", SCHEMA)
    sink = catalog.create_table("d.sink", SCHEMA)
    for k in range(4):
        source.append(rows(k))
    limits = {"max-files-per-batch": "1", "checkpointLocation": str(tmp_path / "checkpoint")}
    frame = reading(session, tmp_path, "d.source", **limits)
    assert frame.columns == ["k", "s"]
    assert write_all(frame, tmp_path, "d.sink") == [1, 1, 1, 1]
    for k in range(4, 7):
        source.append(rows(k))
    source.compact(full=True)
    source.append(rows(7, 8))
    frame = reading(session, tmp_path, "d.source", **limits)
    assert write_all(frame, tmp_path, "d.sink") == [1, 1, 1, 2], "limits hold after a restart, too"
    assert content(sink) == [(k, "a") for k in range(9)]
    numbers = [snapshot.summary["skerry.batch-id"] for snapshot in sink.snapshots()]
    assert numbers == sorted(set(numbers), key=int)
    assert str(sink.statistics()["k"].freshness) == "fresh"
    assert write_all(reading(session, tmp_path, "d.source", **limits), tmp_path, "d.sink") == []


def test_a_batch_that_was_committed_is_not_committed_again(session, catalog, tmp_path):
    """Spark dies after our commit and before it has noted it: it sends the batch again."""
    source = catalog.create_table("d.source", SCHEMA)
    sink = catalog.create_table("d.sink", SCHEMA)
    source.append(rows(1, 2, 3))
    write_all(reading(session, tmp_path, "d.source"), tmp_path, "d.sink")
    query = json.loads((tmp_path / "checkpoint" / "metadata").read_text())["id"]
    mark = f"skerry.stream-query.{tmp_path / 'checkpoint'}"
    assert sink.refresh().properties[mark] == sink.current_snapshot().summary["skerry.query-id"] == query
    sink.remove_properties(mark)  # as versions left it that noted no query
    (tmp_path / "checkpoint" / "commits" / "0").unlink()
    (tmp_path / "checkpoint" / "commits" / ".0.crc").unlink(missing_ok=True)
    source.append(rows(4))
    before = sink.refresh().current_snapshot().snapshot_id
    write_all(reading(session, tmp_path, "d.source"), tmp_path, "d.sink")
    assert content(sink) == [(k, "a") for k in (1, 2, 3, 4)]
    assert [snapshot.parent_id for snapshot in sink.snapshots()] == [None, before]
    data = list((tmp_path / "warehouse" / "d" / "sink" / "data").rglob("*.parquet"))
    assert len(data) == len(sink.files()), "what was written again is removed"


@pytest.mark.parametrize("format", ["iceberg", "paimon"])
def test_a_stream_whose_checkpoint_is_lost_drops_nothing_unsaid(session, catalog, tmp_path, format):
    source = catalog.create_table("d.source", SCHEMA)
    sink = catalog.create_table("d.sink", SCHEMA, format=format)
    source.append(rows(1, 2))
    write_all(reading(session, tmp_path, "d.source"), tmp_path, "d.sink")
    shutil.rmtree(tmp_path / "checkpoint")
    source.append(rows(3))
    with pytest.raises(Exception, match="Continue from the old checkpoint; or rename the stream"):
        write_all(reading(session, tmp_path, "d.source"), tmp_path, "d.sink")
    assert content(sink) == [(1, "a"), (2, "a")]
    write_all(reading(session, tmp_path, "d.source", start="latest"), tmp_path, "d.sink", **{"take-over": "true"})
    source.append(rows(4))
    write_all(reading(session, tmp_path, "d.source", start="latest"), tmp_path, "d.sink")
    assert [row for row in content(sink) if row[0] > 3] == [(4, "a")]


def test_frames_of_foreach_batch_are_committed_once(session, catalog, tmp_path):
    """Each batch is written twice, as when a query dies between its commit and Spark's note of it."""
    source = catalog.create_table("d.source", SCHEMA)
    sink = catalog.create_table("d.sink", SCHEMA)
    options = {"catalog": str(tmp_path / "warehouse"), "stream": "s"}

    def write_twice(frame, number):
        for _ in range(2):
            frame.write.format("skerry").mode("append").options(**options, batch=number).save("d.sink")

    def run(checkpoint):
        frame = reading(session, tmp_path, "d.source")
        query = frame.writeStream.foreachBatch(write_twice).option("checkpointLocation", str(tmp_path / checkpoint))
        query = query.start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    source.append(rows(1, 2))
    run("checkpoint")
    assert content(sink) == [(1, "a"), (2, "a")]
    assert len(sink.snapshots()) == 1
    with pytest.raises(Exception, match=r"batch 0 of stream 's' of query .* is refused"):
        run("another")
    assert content(sink) == [(1, "a"), (2, "a")]


def test_changes_and_upserts(session, catalog, tmp_path):
    source = catalog.create_table("d.source", SCHEMA, format_version=3)
    sink = catalog.create_table("d.sink", SCHEMA)
    source.append(rows(1, 2, 3))
    changes = reading(session, tmp_path, "d.source", changes="true", on="k")
    assert changes.columns == ["k", "s", "_change_type", "_change_ordinal", "_commit_snapshot_id"]
    upserts = changes.where("_change_type in ('INSERT', 'UPDATE_AFTER')").select("k", "s")
    how = {"operation": "upsert", "on": "k", "stream": "copy"}
    write_all(upserts, tmp_path, "d.sink", **how)
    source.upsert(rows(2, 4, s="b"), on=["k"])
    write_all(upserts, tmp_path, "d.sink", **how)
    assert content(sink) == [(1, "a"), (2, "b"), (3, "a"), (4, "b")]
    assert sink.current_snapshot().summary["skerry.stream-id"] == "copy"
    told = []

    def tell(batch, number):
        told.extend((row["_change_type"], row["k"]) for row in batch.collect())

    query = changes.writeStream.foreachBatch(tell).option("checkpointLocation", str(tmp_path / "other")).start()
    query.processAllAvailable()
    query.stop()
    assert sorted(told) == [("INSERT", k) for k in (1, 2, 3, 4)], "what was there at first is told as it is now"


def test_what_makes_no_sense_is_said(session, catalog, tmp_path):
    source = catalog.create_table("d.source", SCHEMA)
    catalog.create_table("d.sink", SCHEMA)
    source.append(rows(1))
    stream = reading(session, tmp_path, "d.source")
    write_all(stream, tmp_path, "d.sink")
    source.delete("k = 1")
    with pytest.raises(Exception, match="deleted or changed rows"):
        write_all(reading(session, tmp_path, "d.source"), tmp_path, "d.sink")
    skipping = reading(session, tmp_path, "d.source", **{"skip-changes": "true"})
    source.append(rows(5))
    assert write_all(skipping, tmp_path, "d.sink") == [1]
    offsets = sorted((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    last = json.loads(offsets[-1].read_text().splitlines()[-1])
    assert last["snapshot"] == source.refresh().current_snapshot().snapshot_id
    with pytest.raises(Exception, match="max-files-per-batch must be a whole number above 0"):
        write_all(
            reading(session, tmp_path, "d.source", **{"max-files-per-batch": "0"}), tmp_path, "d.sink", checkpoint="c"
        )
