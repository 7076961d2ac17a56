"""Landing rows in an Iceberg table: the statistics arrive in the same commit, and say how far they may be believed."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import json
import sqlite3
import uuid
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import skerry
from skerry import puffin, theta
from skerry.databases.sql_database import SqlConnection
from skerry.errors import CommitUnknownError, ConflictError, NotFoundError, SchemaError, SkerryError, StorageError
from skerry.iceberg.catalogs.sql_tables import SqlTables
from skerry.iceberg.commit import IcebergTarget

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string()), ("x", pa.float64())])


def rows(start, stop, words=50):
    ks = range(start, stop)
    return pa.table({"k": list(ks), "s": [f"word {k % words}" for k in ks], "x": [k / 4 for k in ks]}, schema=SCHEMA)


@pytest.fixture
def catalog(tmp_path):
    return skerry.connect(tmp_path / "warehouse")


def peer(tmp_path) -> SqlCatalog:
    """PyIceberg on the same catalog file: another writer, which knows nothing of statistics."""
    folder = tmp_path / "warehouse"
    return SqlCatalog("skerry", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_totals_stay_unknown_after_a_snapshot_without_summary(catalog):
    table = catalog.create_table("d.t", SCHEMA, properties={"write.metadata.compression-codec": "none"})
    table.append(rows(0, 10))
    old = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(old.read_text())
    del metadata["snapshots"][0]["summary"]
    new = old.with_name("00009-without-summary.metadata.json")
    new.write_text(json.dumps(metadata))
    table = catalog.register_table("d.again", str(new))
    snapshot = table.append(rows(10, 15))
    assert snapshot.summary["added-records"] == "5"
    assert "total-records" not in snapshot.summary
    assert table.scan().count() == 15


def test_rows_and_statistics_arrive_in_one_commit(catalog, tmp_path):
    table = catalog.create_table("d.t", SCHEMA)
    snapshot = table.append(rows(0, 1000))
    assert snapshot.operation == "append"
    assert snapshot.has_statistics
    statistics = table.statistics()
    assert [(c.column, c.ndv, c.null_count, str(c.freshness)) for c in statistics.values()] == [
        ("k", 1000, 0, "fresh"),
        ("s", 50, 0, "fresh"),
        ("x", 1000, 0, "fresh"),
    ]
    assert (statistics["k"].min, statistics["k"].max) == (0, 999)

    loaded = peer(tmp_path).load_table("d.t")
    assert len(loaded.metadata.metadata_log) == 1, "one catalog update after creation"
    (registered,) = loaded.metadata.statistics
    assert registered.snapshot_id == loaded.metadata.current_snapshot_id
    assert Path(registered.statistics_path.removeprefix("file://")).parent.name == "metadata"
    reader = puffin.read(registered.statistics_path)
    assert reader.file_size == registered.file_size_in_bytes
    assert reader.footer_size == registered.file_footer_size_in_bytes
    for blob, entry, ndv in zip(reader.blobs, registered.blob_metadata, ("1000", "50", "1000"), strict=True):
        assert blob.type == entry.type == "apache-datasketches-theta-v1"
        assert list(blob.fields) == entry.fields
        assert blob.snapshot_id == entry.snapshot_id == registered.snapshot_id
        assert blob.sequence_number == entry.sequence_number == 1
        assert blob.properties["ndv"] == entry.properties["ndv"] == ndv
        assert blob.compression_codec == "zstd"
        assert theta.ThetaSketch.deserialize(reader.read_blob(blob)).estimate() == int(ndv)
    assert loaded.scan().to_arrow().sort_by("k") == rows(0, 1000).cast(loaded.scan().to_arrow().schema)


def test_a_second_append_unites_and_stays_fresh(catalog):
    table = catalog.create_table("d.t", SCHEMA)
    table.append(rows(0, 60_000))
    table.append(rows(30_000, 90_000, words=70))
    statistics = table.statistics()
    assert all(column.freshness.is_fresh for column in statistics.values())
    assert statistics["s"].ndv == 120 - 50  # words 0…49 of the first append are among words 0…69 of the second
    k = statistics["k"]
    assert k.lower <= 90_000 <= k.upper
    assert k.ndv == pytest.approx(90_000, rel=0.05)


def test_the_published_sketch_does_not_depend_on_how_rows_were_cut_into_appends(catalog):
    table = catalog.create_table("d.whole", SCHEMA)
    table.append(rows(0, 40_000))
    pieces = catalog.create_table("d.pieces", SCHEMA)
    for start in (30_000, 0, 20_000, 10_000):
        pieces.append(rows(start, start + 10_000))
    for name in ("k", "s", "x"):
        assert table.statistics()[name].sketch.serialize() == pieces.statistics()[name].sketch.serialize()


def test_a_rival_commit_between_build_and_commit_is_covered(catalog, monkeypatch, tmp_path):
    table = catalog.create_table("d.t", SCHEMA)
    table.append(rows(0, 10_000))
    rival = skerry.connect(tmp_path / "warehouse").load_table("d.t")
    stage = IcebergTarget.stage
    staged = []

    def stage_then_lose(self, base, change, files):
        result = stage(self, base, change, files)
        staged.append(result)
        if len(staged) == 1:
            rival.append(rows(10_000, 30_000))
        return result

    monkeypatch.setattr(IcebergTarget, "stage", stage_then_lose)
    table.append(rows(30_000, 60_000))
    metadata = table.handle.state.metadata
    current = metadata.current_snapshot()
    assert current.sequence_number == 3
    file = next(file for file in metadata.statistics if file.snapshot_id == current.snapshot_id)
    reader = puffin.read(file.statistics_path)
    assert {(blob.snapshot_id, blob.sequence_number) for blob in (*reader.blobs, *file.blob_metadata)} == {
        (current.snapshot_id, 3)
    }
    k = table.statistics()["k"]
    assert str(k.freshness) == "fresh"
    assert k.lower <= 60_000 <= k.upper
    assert table.scan().count() == 60_000
    lost = (staged[0].snapshot.manifest_list, staged[0].metadata_write.location)
    assert not any(Path(name.removeprefix("file://")).exists() for name in lost if name), "the loser cleans up"


def test_a_race_lost_at_the_compare_itself_leaves_no_metadata_file(catalog, monkeypatch, tmp_path):
    table = catalog.create_table("d.t", SCHEMA, properties={"commit.retry.min-wait-ms": "1"})
    rival = skerry.connect(tmp_path / "warehouse").load_table("d.t")
    replace = SqlTables.replace_locations
    written = []

    def lose_then_replace(self, changes, sending):
        written.append(changes[0].new)
        if len(written) == 1:
            rival.append(rows(0, 10))
        replace(self, changes, sending)

    monkeypatch.setattr(SqlTables, "replace_locations", lose_then_replace)
    table.append(rows(10, 30))
    lost, rivals, won = (Path(location.removeprefix("file://")) for location in written)
    assert rivals.exists()
    assert not lost.exists()
    assert won.exists()
    assert table.scan().count() == 30
    assert table.statistics()["k"].ndv == 30


def test_every_file_below_the_table_is_reachable_after_lost_races(catalog, monkeypatch, tmp_path):
    table = catalog.create_table("d.t", SCHEMA)
    publish = IcebergTarget.publish
    lost = iter([True, True, False])

    def publish_after_losing(self, staged):
        if next(lost, False):
            raise ConflictError("another writer was first")
        return publish(self, staged)

    monkeypatch.setattr(IcebergTarget, "publish", publish_after_losing)
    table.append(rows(0, 10))
    kinds = sorted(Path(name).suffix for name in files_below(tmp_path / "warehouse") if "catalog.db" not in name)
    # two metadata files (created, appended), one manifest, one manifest list, one statistics file, one data file
    assert kinds == [".avro", ".avro", ".json", ".json", ".parquet", ".stats"]


def test_a_foreign_append_makes_statistics_stale_and_ours_then_claims_nothing(catalog, tmp_path):
    table = catalog.create_table("d.t", SCHEMA)
    table.append(rows(0, 900))
    peer(tmp_path).load_table("d.t").append(rows(900, 1000))
    k = table.refresh().statistics()["k"]
    assert str(k.freshness).startswith("stale: 1 snapshot by another writer since ")
    assert str(k.freshness).endswith(", 10.0 % of rows not covered")
    assert k.sketch is None
    table.append(rows(1000, 1100))
    assert not table.current_snapshot().has_statistics
    assert str(table.statistics()["k"].freshness).startswith("stale: 2 snapshots since ")


def test_an_append_to_rows_that_were_never_sketched_is_absent_until_analyzed(catalog, tmp_path, monkeypatch):
    catalog.create_table("d.t", SCHEMA)
    peer(tmp_path).load_table("d.t").append(rows(0, 100))
    table = catalog.load_table("d.t")
    table.append(rows(100, 200))
    assert str(table.statistics()["k"].freshness) == "absent: never sketched over all rows; run analyze"
    assert table.statistics()["k"].ndv is None
    with monkeypatch.context() as without_manifests:  # `skerry ls` asks for this of large tables
        without_manifests.delattr("skerry.iceberg.statistics.samples.live_files")
        assert str(catalog.load_table("d.t").freshness()["k"]).startswith("absent: never sketched")
    table.analyze()
    assert (table.statistics()["k"].ndv, str(table.statistics()["k"].freshness)) == (200, "fresh")
    table.append(rows(200, 300))
    assert (table.statistics()["k"].ndv, str(table.statistics()["k"].freshness)) == (300, "fresh")


def test_blobs_of_another_snapshot_or_sequence_number_are_stale(catalog):
    table = catalog.create_table("d.t", SCHEMA)
    table.append(rows(0, 100))
    state = table.handle.state
    (file,) = state.metadata.statistics
    reader = puffin.PuffinReader(file.statistics_path, storage=state.storage)
    writer = puffin.PuffinWriter()  # as an engine would that knows nothing of samples
    for blob, data in zip(reader.blobs, reader.read_blobs(reader.blobs), strict=True):
        ids = {"snapshot_id": blob.snapshot_id, "sequence_number": blob.sequence_number}
        writer.add_blob(blob.type, data, fields=blob.fields, properties=blob.properties, **ids)
    size, footer_size = writer.write(file.statistics_path, storage=state.storage, overwrite=True)
    sizes = {"file_size_in_bytes": size, "file_footer_size_in_bytes": footer_size}
    for change in ({"snapshot_id": 5}, {"sequence_number": 7}):
        blobs = tuple(msgspec.structs.replace(blob, **change) for blob in file.blob_metadata)
        changed = msgspec.structs.replace(file, blob_metadata=blobs, **sizes)
        metadata = dataclasses.replace(state.metadata, statistics=(changed,))
        table.handle.state = type(state)(state.name, metadata, state.metadata_location, state.storage)
        freshness = table.statistics()["k"].freshness
        assert str(freshness).startswith("stale: computed from snapshot")


def test_switched_off_no_statistics_file_is_written(catalog, tmp_path, monkeypatch):
    table = catalog.create_table("d.off", SCHEMA, properties={"skerry.statistics.enabled": "false"})
    table.append(rows(0, 10))
    monkeypatch.setenv("BODO_ENABLE_THETA_SKETCHES", "0")
    other = catalog.create_table("d.env", SCHEMA)
    other.append(rows(0, 10))
    assert not any(name.endswith(".stats") for name in files_below(tmp_path / "warehouse"))
    assert str(other.statistics()["k"].freshness) == "absent: never sketched over all rows; run analyze"


def test_a_list_of_columns_and_its_misspelling(catalog):
    table = catalog.create_table("d.t", SCHEMA, properties={"skerry.statistics.columns": "s"})
    table.append(rows(0, 10))
    assert [c.column for c in table.statistics().values() if c.freshness.is_fresh] == ["s"]
    with pytest.raises(SchemaError, match="names 'kk', which is not a primitive column"):
        catalog.create_table("d.u", SCHEMA, properties={"skerry.statistics.columns": "kk"})
    assert not catalog.table_exists("d.u")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_format_version_every_primitive_type(catalog, version, tmp_path):
    values = {
        "flag": (pa.bool_(), [True, False, None]),
        "i": (pa.int32(), [1, 2, None]),
        "l": (pa.int64(), [1, 2, 1 << 40]),
        "f": (pa.float32(), [0.5, float("nan"), None]),
        "d": (pa.float64(), [0.5, float("nan"), -0.0]),
        "dec": (pa.decimal128(20, 3), [decimal.Decimal("1.5"), decimal.Decimal("-2.125"), None]),
        "day": (pa.date32(), [dt.date(1969, 12, 31), dt.date(2024, 2, 29), None]),
        "at": (pa.time64("us"), [dt.time(1, 2, 3, 4), None, None]),
        "ts": (pa.timestamp("us"), [dt.datetime(1960, 1, 1), dt.datetime(2024, 1, 1, 0, 0, 0, 1), None]),
        "tz": (pa.timestamp("us", "UTC"), [dt.datetime(2024, 1, 1, tzinfo=dt.UTC), None, None]),
        "s": (pa.string(), ["a", "ä", None]),
        "b": (pa.binary(), [b"a", b"\x00", None]),
        "fix": (pa.binary(4), [b"abcd", b"abce", None]),
        "u": (pa.uuid(), [uuid.UUID(int=1).bytes, uuid.UUID(int=2).bytes, None]),
    }
    data = pa.table({name: pa.array(column, type_) for name, (type_, column) in values.items()})
    table = catalog.create_table("d.t", data.schema, format_version=version)
    table.append(data)
    table.append(data)
    assert table.format_version == version
    statistics = table.statistics()
    for name, (_, column) in values.items():
        assert statistics[name].freshness.is_fresh, name
        assert statistics[name].ndv == len({repr(value) for value in column if value is not None}), name
        assert statistics[name].null_count == 2 * sum(value is None for value in column), name
    assert (statistics["day"].min, statistics["day"].max) == (dt.date(1969, 12, 31), dt.date(2024, 2, 29))
    assert statistics["ts"].max == dt.datetime(2024, 1, 1, 0, 0, 0, 1)
    assert statistics["tz"].min == dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    assert statistics["dec"].min == decimal.Decimal("-2.125")
    assert table.scan().count() == 6
    if version < 3:
        assert peer(tmp_path).load_table("d.t").scan().to_arrow().num_rows == 6


@pytest.mark.parametrize(
    "partition_by",
    [["k"], ["bucket(4, s)"], ["truncate(1, s)", "bucket(2, k)"], ["day(ts)"], ["void(k)", "month(ts)"], ["year(ts)"]],
)
def test_partitioned_appends_are_read_back_by_pyiceberg(catalog, partition_by, tmp_path):
    start = dt.datetime(1969, 12, 30)
    data = pa.table(
        {
            "k": [None, 1, 2, 3, 1],
            "s": ["", None, "a/b", "é", "a"],
            "ts": pa.array([start + dt.timedelta(days=n) for n in (0, 1, 2, 40)] + [None], pa.timestamp("us")),
        }
    )
    table = catalog.create_table("d.t", data.schema, partition_by=partition_by)
    table.append(data)
    assert table.partition_by == partition_by
    seen = peer(tmp_path).load_table("d.t").scan().to_arrow()
    assert sorted(map(str, seen.to_pylist())) == sorted(map(str, data.to_pylist()))
    assert sum(file.record_count for file in table.files()) == 5
    assert table.statistics()["s"].ndv == 3  # the empty string does not count, as in DataSketches


def test_sort_order_is_recorded_and_obeyed(catalog):
    table = catalog.create_table("d.t", SCHEMA, sort_by=["s desc", "k"])
    table.append(rows(0, 500))
    (file,) = table.files()
    assert file.sort_order_id == table.handle.state.metadata.default_sort_order_id != 0
    stored = pq.read_table(file.location.removeprefix("file://"))
    assert stored.sort_by([("s", "descending"), ("k", "ascending")]) == stored
    assert table.sort_by == ["s desc nulls last", "k asc nulls first"]


def test_data_that_does_not_fit_writes_nothing(catalog, tmp_path):
    table = catalog.create_table("d.t", SCHEMA)
    before = files_below(tmp_path / "warehouse")
    with pytest.raises(SchemaError, match="did you mean 'k'"):
        table.append(pa.table({"K2": [1]}))
    with pytest.raises(SchemaError, match="'k'"):
        table.append(pa.table({"k": ["one"], "s": ["a"], "x": [1.0]}))
    assert files_below(tmp_path / "warehouse") == before
    assert table.current_snapshot() is None


def test_a_failure_in_the_middle_of_the_data_leaves_the_old_state_and_no_file(catalog, tmp_path):
    table = catalog.create_table("d.t", SCHEMA)
    table.append(rows(0, 10))
    before = files_below(tmp_path / "warehouse")

    def batches():
        yield rows(10, 20).to_batches()[0]
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        table.append(pa.RecordBatchReader.from_batches(SCHEMA, batches()))
    assert files_below(tmp_path / "warehouse") == before
    assert table.refresh().scan().count() == 10


def test_a_database_error_at_the_commit_is_unknown_and_nothing_is_cleaned_up(catalog, monkeypatch, tmp_path):
    table = catalog.create_table("d.t", SCHEMA)

    def commit(connection):
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(SqlConnection, "commit", commit)
    with pytest.raises(CommitUnknownError, match="may or may not have applied the change: OperationalError: disk I/O"):
        table.append(rows(0, 10))
    kinds = sorted(Path(name).suffix for name in files_below(tmp_path / "warehouse") if "catalog.db" not in name)
    assert kinds == [".avro", ".avro", ".json", ".json", ".parquet", ".stats"]


@pytest.mark.parametrize("statement", ["SELECT metadata_location", "BEGIN IMMEDIATE", "UPDATE"])
def test_a_database_error_before_the_commit_is_a_plain_failure_and_cleaned_up(
    catalog, monkeypatch, tmp_path, statement
):
    table = catalog.create_table("d.t", SCHEMA)
    before = files_below(tmp_path / "warehouse")
    execute, base = SqlConnection.execute, table.handle.state

    def fail(connection, text, parameters=()):
        if text.startswith(statement):
            raise sqlite3.OperationalError("disk I/O error")
        return execute(connection, text, parameters)

    monkeypatch.setattr(SqlConnection, "execute", fail)
    monkeypatch.setattr(IcebergTarget, "load", lambda _: base)
    with pytest.raises(StorageError, match="database failed: OperationalError: disk I/O error"):
        table.append(rows(0, 10))
    assert files_below(tmp_path / "warehouse") == before


def test_an_answer_lost_on_its_way_back_is_found_by_reading_back(catalog, monkeypatch):
    table = catalog.create_table("d.t", SCHEMA)
    commit_table = table.handle.catalog.commit_table

    def commit_and_lose_the_answer(*arguments):
        commit_table(*arguments)
        raise CommitUnknownError("504")

    monkeypatch.setattr(table.handle.catalog, "commit_table", commit_and_lose_the_answer)
    table.append(rows(0, 10))
    assert table.scan().count() == 10
    assert table.statistics()["k"].freshness.is_fresh


def test_retries_obey_the_table_property(catalog, monkeypatch):
    table = catalog.create_table(
        "d.t", SCHEMA, properties={"commit.retry.num-retries": "2", "commit.retry.min-wait-ms": "1"}
    )
    attempts = []

    def always_lost(base, requirements, updates, write):
        attempts.append(base)
        raise ConflictError("lost")

    monkeypatch.setattr(table.handle.catalog, "commit_table", always_lost)
    with pytest.raises(ConflictError, match="gave up after 3 attempts"):
        table.append(rows(0, 10))
    assert len(attempts) == 3


def test_a_table_that_was_replaced_under_us_is_not_appended_to(catalog):
    table = catalog.create_table("d.t", SCHEMA)
    catalog.drop_table("d.t")
    catalog.create_table("d.t", SCHEMA)
    with pytest.raises(NotFoundError, match="was replaced by another one of that name"):
        table.append(rows(0, 10))


@pytest.mark.parametrize("source", ["polars", "pandas", "duckdb", "reader", "batch"])
def test_anything_with_the_arrow_c_stream_interface(catalog, source):
    table = catalog.create_table("d.t", SCHEMA)
    data = rows(0, 100)
    if source == "polars":
        import polars

        data = polars.from_arrow(data)
    elif source == "pandas":
        data = data.to_pandas()
    elif source == "duckdb":
        import duckdb

        arrow = data  # noqa: F841  duckdb finds it by its name
        data = duckdb.sql("select * from arrow")
    elif source == "reader":
        data = data.to_reader(7)
    elif source == "batch":
        data = data.to_batches()[0]
    table.append(data)
    assert table.scan().to_arrow().sort_by("k").to_pylist() == rows(0, 100).to_pylist()
    assert table.statistics()["k"].ndv == 100


def test_threads_and_two_catalog_objects_append_at_once_and_nobody_is_lost(catalog, tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    catalog.create_table("d.t", SCHEMA, properties={"commit.retry.num-retries": "50", "commit.retry.min-wait-ms": "5"})

    def append(number):
        table = skerry.connect(tmp_path / "warehouse").load_table("d.t")
        table.append(rows(number * 1000, number * 1000 + 1000))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, range(8)))
    table = catalog.load_table("d.t")
    assert table.scan().count() == 8000
    k = table.statistics()["k"]
    assert k.freshness.is_fresh
    assert k.lower <= 8000 <= k.upper


def test_freshness_is_told_without_reading_a_file(catalog, tmp_path):
    table = catalog.create_table("ns.t", rows(0, 1).schema)
    assert {str(freshness) for freshness in table.freshness().values()} == {"absent: the table has no snapshot"}
    table.append(rows(0, 100))
    storage = table.handle.state.storage
    before = storage.metrics.counts()
    assert {str(freshness) for freshness in table.freshness().values()} == {"fresh"}
    assert (storage.metrics.counts() - before).requests == 0
    assert {name: column.freshness for name, column in table.statistics().items()} == table.freshness()


def test_a_lost_attempt_that_cannot_be_cleaned_up_does_not_stop_the_commit(catalog, monkeypatch):
    table = catalog.create_table("d.t", SCHEMA, properties={"commit.retry.min-wait-ms": "1"})
    publish = IcebergTarget.publish
    lost = iter([True])

    def publish_after_losing(self, staged):
        if next(lost, False):
            monkeypatch.setattr(
                type(staged.base.storage),
                "delete",
                lambda self, locations: (_ for _ in ()).throw(SkerryError("denied")),
            )
            raise ConflictError("another writer was first")
        return publish(self, staged)

    monkeypatch.setattr(IcebergTarget, "publish", publish_after_losing)
    table.append(rows(0, 10))
    assert table.statistics()["k"].ndv == 10


@pytest.mark.parametrize("name", ["with space", "100%", "a#b", "ünï", "a%20b", "semi;colon", "a&b=c", "why?"])
def test_a_warehouse_of_any_name(tmp_path, name):
    table = skerry.connect(tmp_path / name).create_table("d.t", SCHEMA, partition_by=["s"])
    table.append(rows(0, 10))
    assert skerry.connect(tmp_path / name).load_table("d.t").scan().count() == 10
    assert table.statistics()["k"].freshness.is_fresh
    assert (tmp_path / name / "catalog.db").is_file()
