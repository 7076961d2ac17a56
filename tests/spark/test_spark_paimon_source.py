"""`format("skerry")` on Paimon tables: ways to write, merging reads, streams both ways; Paimon Java is a witness."""

from __future__ import annotations

import importlib.util
import json
import pickle
import sys
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import skerry
import skerry.spark
from skerry.spark.data_source.frame_writer import _Written
from skerry.spark.data_source.source import SkerryDataSource
from skerry.spark.schema import to_spark_schema

pytestmark = pytest.mark.spark

PEERS = Path(__file__).parents[1] / "paimon" / "paimon_peers.py"
SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("s", pa.string()), pa.field("p", pa.int32(), False)])
COLUMNS = ["id as k", "concat('s', id % 7) as s", "cast(id % 3 as int) as p"]
KEYED = {"primary_key": ["k", "p"], "partition_by": ["p", "bucket(2)"]}


@pytest.fixture
def catalog(tmp_path):
    return skerry.connect(tmp_path / "warehouse")


@pytest.fixture
def session(spark):
    skerry.spark.register(spark)
    return spark


@pytest.fixture(scope="module")
def java_paimon(spark, tmp_path_factory):
    spec = importlib.util.spec_from_file_location("paimon_peers", PEERS)
    module = sys.modules.get("paimon_peers")
    if module is None:
        module = sys.modules["paimon_peers"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module.JavaPaimon(spark, tmp_path_factory.mktemp("java-paimon"))


def make(catalog, name="d.t", *, properties=None, **how):
    return catalog.create_table(name, SCHEMA, format="paimon", properties=properties or {}, **how)


def rows(*keys, s="a"):
    return pa.table({"k": list(keys), "s": [s] * len(keys), "p": [k % 3 for k in keys]}, SCHEMA)


def write(frame, tmp_path, mode="append", table="d.t", **options):
    writer = frame.write.format("skerry").mode(mode).option("catalog", str(tmp_path / "warehouse"))
    writer.options(**options).save(table)


def read(session, tmp_path, table="d.t", **options):
    return session.read.format("skerry").option("catalog", str(tmp_path / "warehouse")).options(**options).load(table)


def content(table, **scan):
    return sorted((row["k"], row["s"]) for row in table.refresh().scan(["k", "s"], **scan).to_arrow().to_pylist())


def in_spark(frame):
    return sorted((row["k"], row["s"]) for row in frame.collect())


def data_below(tmp_path):
    found = (path for path in (tmp_path / "warehouse").rglob("*") if path.is_file())
    return {path for path in found if path.suffix in (".parquet", ".orc", ".avro", ".arrow", ".shard", ".amudai")}


TABLES = {"append in buckets": {"partition_by": ["p", "bucket(2, k)"]}, "key": KEYED}


@pytest.mark.parametrize("how", TABLES.values(), ids=TABLES)
def test_ways_to_write_are_read_alike_by_spark_by_us_and_by_paimon_java(session, catalog, tmp_path, java_paimon, how):
    table = make(catalog, **how)
    key = {} if "primary_key" in how else {"on": "k,p"}
    write(session.range(0, 300, 1, 3).selectExpr(*COLUMNS), tmp_path)
    expected = {k: f"s{k % 7}" for k in range(300)}
    assert len(table.refresh().snapshots()) == 1
    assert {name: (found.ndv, str(found.freshness)) for name, found in table.statistics().items()} == {
        "k": (300, "fresh"),
        "s": (7, "fresh"),
        "p": (3, "fresh"),
    }
    changed = session.range(3, 310, 100).selectExpr("id as k", "'new' as s", "cast(id % 3 as int) as p")
    write(changed, tmp_path, operation="upsert", **key, **{"snapshot-property.by": "me"})
    expected |= dict.fromkeys((3, 103, 203, 303), "new")
    assert table.refresh().current_snapshot().summary["by"] == "me"
    assert content(table) == sorted(expected.items())
    second = session.range(1000, 1004).selectExpr(*COLUMNS).where("p = 1")
    write(second, tmp_path, "overwrite", operation="overwrite-partitions")
    expected = {k: s for k, s in expected.items() if k % 3 != 1} | {k: f"s{k % 7}" for k in (1000, 1003)}
    assert content(table) == sorted(expected.items())
    assert in_spark(read(session, tmp_path)) == sorted(expected.items())
    location = table.location.removeprefix("file://")
    assert sorted((row[0], row[1]) for row in java_paimon.read(location)) == sorted(expected.items())
    write(session.range(2).selectExpr(*COLUMNS), tmp_path, "overwrite")
    assert content(table) == [(0, "s0"), (1, "s1")]
    assert not [path for path in data_below(tmp_path) if path.suffix == ".arrow"]


def test_rows_written_by_java_and_by_spark_in_turn(session, catalog, tmp_path, java_paimon):
    table = make(catalog, properties={"dynamic-bucket.target-row-num": "2"}, primary_key=["k", "p"], partition_by=["p"])
    location = table.location.removeprefix("file://")
    java_paimon.write(location, [[1, "java", 1], [2, "java", 2]])
    write(session.createDataFrame([(2, "spark", 2), (3, "spark", 0)], "k long, s string, p int"), tmp_path)
    java_paimon.write(location, [[3, "java", 0], [1, None, 1]], kinds=["+I", "-D"])
    assert in_spark(read(session, tmp_path)) == [(2, "spark"), (3, "java")]
    assert sorted(map(tuple, java_paimon.read(location))) == [(2, "spark", 2), (3, "java", 0)]


@pytest.mark.parametrize("file_format", ["orc", "amudai"])
def test_file_formats(session, catalog, tmp_path, file_format):
    table = make(catalog, file_format=file_format, **KEYED)
    table.append(rows(*range(10)))
    write(session.range(5, 15, 1, 2).selectExpr(*COLUMNS), tmp_path)
    found = in_spark(read(session, tmp_path, columns="k,s", where="k >= 3"))
    assert found == [(3, "a"), (4, "a"), *((k, f"s{k % 7}") for k in range(5, 15))]


def test_columns_snapshots_branches_and_deletion_vectors(session, catalog, tmp_path):
    table = make(catalog, properties={"deletion-vectors.enabled": "true"})
    table.append(rows(1, 2))
    table.create_branch("b")
    table.append(rows(3, 4, s="b"))
    table.delete("k = 3")
    frame = read(session, tmp_path, columns="s", where="k >= 2")
    assert frame.columns == ["s"]
    assert sorted(row["s"] for row in frame.collect()) == ["a", "b"]
    assert read(session, tmp_path, snapshot="2").count() == 4
    write(session.range(9, 10).selectExpr(*COLUMNS), tmp_path, ref="b")
    assert in_spark(read(session, tmp_path, ref="b")) == [(1, "a"), (2, "a"), (9, "s2")]
    assert content(table) == [(1, "a"), (2, "a"), (4, "b")]


def test_an_empty_table_and_an_empty_frame(session, catalog, tmp_path):
    table = make(catalog, **KEYED)
    assert read(session, tmp_path).collect() == []
    write(session.range(0).selectExpr(*COLUMNS), tmp_path)
    assert table.refresh().current_snapshot() is None


@pytest.mark.parametrize(
    ("options", "overwrite", "message"),
    [
        ({"operation": "upsert", "blind": "true"}, False, "no blind upserts"),
        ({"operation": "upsert", "on": "k"}, False, "upserted by that key only, not by k"),
        ({"operation": "upsert", "on": "kk"}, False, "kk"),
        ({"operation": "upsert"}, True, "operation upsert goes with mode"),
        ({"ref": "mian"}, False, "no branch 'mian'; did you mean 'main'"),
    ],
)
def test_what_does_not_fit_is_named_before_anything_is_written(catalog, tmp_path, options, overwrite, message):
    table = make(catalog, **KEYED)
    frame = to_spark_schema(table.schema)
    source = SkerryDataSource({"catalog": str(tmp_path / "warehouse"), "path": "d.t", **options})
    with pytest.raises(skerry.errors.SkerryError, match=message):
        source.writer(frame, overwrite)
    assert not data_below(tmp_path)


def test_upserts_need_all_columns(catalog, tmp_path):
    table = make(catalog, **KEYED)
    options = {"catalog": str(tmp_path / "warehouse"), "path": "d.t", "operation": "upsert"}
    frame = to_spark_schema(pa.schema([table.schema.field("k"), table.schema.field("p")]))
    with pytest.raises(skerry.errors.SchemaError, match="the frame has no column 's'"):
        SkerryDataSource(options).writer(frame, overwrite=False)
    make(catalog, "d.partial", properties={"merge-engine": "partial-update"}, **KEYED)
    assert SkerryDataSource({**options, "path": "d.partial"}).writer(frame, overwrite=False) is not None


def test_a_failed_task_leaves_the_table_and_its_folder_as_they_were(session, catalog, tmp_path):
    bad = session.range(0, 100, 1, 2).selectExpr(
        "if(id = 99, raise_error('the source broke'), id) as k", "'s' as s", "1 as p"
    )
    for name, how in (("d.keyed", KEYED), ("d.append", {})):
        table = make(catalog, name, **how)
        table.append(rows(1))
        before = data_below(tmp_path)
        with pytest.raises(Exception, match="the source broke"):
            write(bad, tmp_path, table=name)
        assert data_below(tmp_path) == before
        assert len(table.refresh().snapshots()) == 1


# Streams --------------------------------------------------------------------------------------------------------------


def reading(session, tmp_path, name, **options):
    stream = session.readStream.format("skerry").option("catalog", str(tmp_path / "warehouse"))
    return stream.options(**options).load(name)


def write_all(frame, tmp_path, name, *, checkpoint="checkpoint", **options):
    """Run a stream until all that is there has been written."""
    writer = frame.writeStream.format("skerry").outputMode("append").option("catalog", str(tmp_path / "warehouse"))
    writer = writer.option("checkpointLocation", str(tmp_path / checkpoint)).options(**options)
    query = writer.option("table", name).start()
    try:
        query.processAllAvailable()
        return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]
    finally:
        query.stop()


def test_a_table_into_another_through_restarts(session, catalog, tmp_path):
    source = make(catalog, "d.source")
    sink = make(catalog, "d.sink", **KEYED)
    for k in range(3):
        source.append(rows(k))
    limits = {"max-files-per-batch": "1", "checkpointLocation": str(tmp_path / "checkpoint")}
    assert write_all(reading(session, tmp_path, "d.source", **limits), tmp_path, "d.sink") == [1, 1, 1]
    for k in (3, 4):
        source.append(rows(k))
    source.compact(full=True)
    source.append(rows(5, 6))
    frame = reading(session, tmp_path, "d.source", **limits)
    assert write_all(frame, tmp_path, "d.sink") == [1, 1, 2], "limits hold after a restart, too"
    assert content(sink) == [(k, "a") for k in range(7)]
    numbers = [snapshot.commit_identifier for snapshot in sink.handle.snapshots()]
    assert numbers == sorted(set(numbers))
    assert len({snapshot.commit_user for snapshot in sink.handle.snapshots()}) == 1
    # a batch that was committed comes again after a restart, when its snapshot has expired
    last = max(int(path.name) for path in (tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    for name in (f"{last}", f".{last}.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    sink.append(rows(100))
    sink.expire_snapshots(keep_last=1, older_than=timedelta(0))
    sink.delete("k = 5")
    assert write_all(reading(session, tmp_path, "d.source", **limits), tmp_path, "d.sink") == [2]
    assert content(sink) == [(k, "a") for k in (0, 1, 2, 3, 4, 6, 100)], "it was not committed again"


def test_changes_of_primary_key_tables(session, catalog, tmp_path):
    """Changelog files, then compared states after an overwrite, told by Spark and put into another table."""
    source = make(catalog, "d.source", properties={"changelog-producer": "input"}, **KEYED)
    source.append(rows(1, 2, 3))
    source.upsert(rows(2, 4, s="b"))
    found = []

    def tell(batch, number):
        found.extend((number, row["_change_type"], row["k"], row["s"]) for row in batch.collect())

    changes = reading(session, tmp_path, "d.source", changes="true", start="1", **{"max-snapshots-per-batch": "1"})
    query = changes.writeStream.foreachBatch(tell).option("checkpointLocation", str(tmp_path / "told")).start()
    query.processAllAvailable()
    source.compact(full=True)
    source.delete("k = 1")
    source.overwrite(rows(3, s="b"), "p = 0")
    query.processAllAvailable()
    query.stop()
    assert [number for number, *_ in found] == sorted(number for number, *_ in found)
    batches = {}
    for number, *change in found:
        batches.setdefault(number, []).append(tuple(change))
    assert [sorted(batch) for batch in batches.values()] == [
        [("INSERT", 2, "b"), ("INSERT", 4, "b")],
        [("DELETE", 1, "a")],
        [("UPDATE_AFTER", 3, "b"), ("UPDATE_BEFORE", 3, "a")],
    ]
    sink = make(catalog, "d.sink", **KEYED)
    upserts = reading(session, tmp_path, "d.source", changes="true").select("k", "s", "p")
    write_all(upserts, tmp_path, "d.sink", checkpoint="other", stream="copy")
    assert content(sink) == content(source) == [(2, "b"), (3, "b"), (4, "b")]


def test_expiry_ends_a_stream_that_names_no_consumer(session, catalog, tmp_path):
    source = make(catalog, "d.source")
    make(catalog, "d.sink", **KEYED)
    source.append(rows(1))
    write_all(reading(session, tmp_path, "d.source", consumer="me"), tmp_path, "d.sink")
    consumer = next((tmp_path / "warehouse").rglob("consumer-me"))
    assert json.loads(consumer.read_text()) == {"nextSnapshot": 1}, "what is being read stays"
    source.append(rows(2))
    source.append(rows(3))
    assert not source.expire_snapshots(keep_last=1, older_than=timedelta(0)).snapshot_ids
    consumer.unlink()
    source.expire_snapshots(keep_last=1, older_than=timedelta(0))
    with pytest.raises(Exception, match="snapshot 2, which the stream has not read yet, has expired"):
        write_all(reading(session, tmp_path, "d.source"), tmp_path, "d.sink")


def test_an_aborted_batch_leaves_nothing_and_takes_nothing_of_others(catalog, tmp_path):
    for name, how in (("d.keyed", KEYED), ("d.append", {})):
        table = make(catalog, name, **how)
        options = {"catalog": str(tmp_path / "warehouse"), "table": name, "stream": "s"}
        writer = SkerryDataSource(options).streamWriter(to_spark_schema(table.schema), overwrite=False)
        batch = writer._write.of_batch(0).share(rows(1, 2).to_batches())
        writer.commit([_Written(batch)], 0)
        before = data_below(tmp_path)
        pickle.loads(pickle.dumps(writer._write)).of_batch("1").share(rows(3, 4).to_batches())
        assert data_below(tmp_path) != before
        writer.abort([None], 1)
        assert data_below(tmp_path) == before
        assert content(table) == [(1, "a"), (2, "a")]


def test_streams_that_make_no_sense(catalog, tmp_path):
    make(catalog, "d.keyed", **KEYED)
    catalog.create_table("d.iceberg", SCHEMA)
    options = {"catalog": str(tmp_path / "warehouse")}
    columns = to_spark_schema(catalog.load_table("d.keyed").schema)
    keyed = SkerryDataSource({**options, "path": "d.keyed"})
    with pytest.raises(skerry.errors.UnsupportedError, match="a table with a primary key change"):
        keyed.streamReader(columns).latestOffset()
    with pytest.raises(skerry.errors.SchemaError, match="a stream needs"):
        keyed.streamWriter(columns, overwrite=False)
    iceberg = SkerryDataSource({**options, "path": "d.iceberg", "changes": "true", "consumer": "me"})
    with pytest.raises(skerry.errors.UnsupportedError, match="Iceberg tables have no consumers"):
        iceberg.schema()
