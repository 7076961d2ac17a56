"""Statistics stay fresh through everything that is done to a table, at the cost of what is done.

Every step is checked against a brute-force count; what is read is asserted in bytes and files.
"""

from __future__ import annotations

import datetime as dt
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import skerry
from skerry import puffin
from skerry.errors import SchemaError
from skerry.iceberg.statistics.earlier import earlier_statistics
from skerry.iceberg.statistics.samples import read_sample
from skerry.storage import Storage
from skerry.table.statistics.column_statistics import FreshnessState
from skerry.table.statistics.pieces import known_sample
from skerry.table.statistics.pieces.chain import SAMPLE_PROPERTIES

FRESH, UPPER_BOUND = FreshnessState.FRESH, FreshnessState.UPPER_BOUND
SCHEMA = pa.schema([("k", pa.int64()), ("p", pa.int32()), ("s", pa.string())])


def rows(start, stop, p=None):
    keys = np.arange(start, stop)
    parts = keys % 10 if p is None else np.full(len(keys), p)
    return pa.table({"k": keys, "p": parts.astype(np.int32), "s": [f"s{key % 97}" for key in keys]}, SCHEMA)


def heavy(start, stop, p=None):
    """Rows that take room: beside them the ends of files, which are read twice, count for little."""
    keys = np.arange(start, stop)
    parts = keys % 4 if p is None else np.full(len(keys), p)
    scattered = (keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(2)).astype(np.int64)
    return pa.table({"k": scattered, "p": parts.astype(np.int32), "s": [f"s{key % 97}" for key in keys]}, SCHEMA)


@pytest.fixture
def catalog(tmp_path):
    return skerry.connect(tmp_path / "warehouse")


def peer(tmp_path):
    """PyIceberg on the same catalog file."""
    warehouse = tmp_path / "warehouse"
    return SqlCatalog("skerry", uri=f"sqlite:///{warehouse}/catalog.db", warehouse=f"file://{warehouse}")


def states(table):
    return {name: found.freshness.state for name, found in table.refresh().statistics().items()}


def check(table, **expected):
    """Every column's count is fresh, published, and right; or of the state that is expected."""
    content = table.refresh().scan().to_arrow()
    statistics = table.statistics()
    for name, found in statistics.items():
        distinct = len(set(content[name].drop_null().to_pylist()))
        assert found.freshness.state is expected.get(name, FRESH), (name, str(found.freshness))
        assert found.lower <= distinct <= found.upper, (name, distinct, found)
        assert bool(found.freshness.reason) is (found.freshness.state is not FRESH)
    assert {name: found.freshness for name, found in statistics.items()} == table.freshness()


def published(table):
    metadata = table.handle.state.metadata
    snapshot = table.current_snapshot()
    files = [file for file in metadata.statistics if file.snapshot_id == snapshot.snapshot_id]
    return {field_id for file in files for blob in file.blob_metadata for field_id in blob.fields}


class CountingFile(io.FileIO):
    """A local file that counts the bytes that are read of it."""

    def __init__(self, path, reads):
        super().__init__(path)
        self.reads = reads

    def read(self, size=-1):
        data = super().read(size)
        self.reads.append(len(data))
        return data


@pytest.fixture
def counted(monkeypatch):
    """Runs an action, and tells what it gives and how many bytes of data files it reads."""
    reads = []

    def arrow_file(self, location):
        return pa.PythonFile(CountingFile(location.removeprefix("file://"), reads), "r")

    def counting(real):
        def read(self, location, *args):
            found = real(self, location, *args)
            if location.endswith(".parquet"):
                data = found[0] if isinstance(found, tuple) else found
                reads.append(sum(map(len, data)) if isinstance(data, list) else len(data))
            return found

        return read

    monkeypatch.setattr(Storage, "arrow_file", arrow_file)
    for name in ("read", "read_range", "read_ranges", "read_tail"):
        monkeypatch.setattr(Storage, name, counting(getattr(Storage, name)))

    def run(table, act):
        reads.clear()
        found = act()
        table.refresh()
        return found, sum(reads)

    return run


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("max_groups", ["128", "3"])
def test_every_operation_of_ours_leaves_fresh_published_sketches(catalog, version, mode, max_groups):
    if version == 1 and mode == "merge-on-read":
        return
    table = catalog.create_table(
        "d.t",
        SCHEMA,
        partition_by=["p"],
        format_version=version,
        properties={
            "write.delete.mode": mode,
            "write.merge.mode": mode,
            "skerry.statistics.max-groups": max_groups,
        },
    )
    table.append(rows(0, 1000))
    check(table)
    table.delete("k = 17 OR k = 503")
    check(table)
    table.delete("p = 3")
    check(table)
    table.overwrite(rows(5000, 5040, p=4), "p = 4")
    check(table)
    table.upsert(rows(30, 40), "k")
    check(table)
    table.merge(rows(60, 70), "k", when_matched="delete", when_not_matched="insert")
    check(table)
    table.compact(min_input_files=2)
    check(table)
    table.update_schema().add_column("extra", pa.int32()).rename_column("s", "word").commit()
    check(table)
    table.append(
        pa.table({"k": [1], "p": pa.array([1], pa.int32()), "word": ["w"], "extra": pa.array([5], pa.int32())})
    )
    check(table)
    table.update_schema().delete_column("word").commit()
    check(table)
    table.create_branch("work")
    picked = table.append(pa.table({"k": [90_000], "p": pa.array([1], pa.int32())}), ref="work")
    table.append(pa.table({"k": [90_001], "p": pa.array([2], pa.int32())}))
    table.cherry_pick(picked.snapshot_id)
    check(table)
    assert published(table) == {1, 2, 4}
    first = table.history()[0][1]
    table.rollback(first)
    table.expire_snapshots(keep_last=1, older_than=dt.datetime.now(dt.UTC) + dt.timedelta(days=1))
    check(table)
    table.append(pa.table({"k": [7_000_000], "p": pa.array([1], pa.int32())}))
    check(table)


def test_rows_deleted_are_an_upper_bound_if_the_table_wants_nothing_read(catalog):
    table = catalog.create_table(
        "d.t",
        SCHEMA,
        partition_by=["p"],
        properties={"write.delete.mode": "merge-on-read", "skerry.statistics.row-deletes": "upper-bound"},
    )
    table.append(rows(0, 100))
    table.delete("k = 17")
    check(table, k=UPPER_BOUND, s=UPPER_BOUND, p=UPPER_BOUND)
    assert published(table) == set()
    reason = str(table.statistics()["k"].freshness)
    assert reason == "upper bound: 1 of 10 groups of files have lost rows since they were sketched; run analyze"
    assert table.analyze().files == 1
    check(table)
    with pytest.raises(SchemaError, match=r"skerry\.statistics\.row-deletes is 'lower-bound'"):
        table.set_properties({"skerry.statistics.row-deletes": "lower-bound"})
    with catalog.iceberg_catalog.load_table("d.t").transaction() as transaction:
        transaction.set_properties({"skerry.statistics.row-deletes": "lower-bound"})
    with pytest.raises(SchemaError, match=r"skerry\.statistics\.row-deletes is 'lower-bound'"):
        table.delete("k = 18")


def test_keys_deleted_blindly_are_an_upper_bound_until_analyzed(catalog):
    table = catalog.create_table("d.t", SCHEMA, partition_by=["bucket(4, k)"])
    table.append(rows(0, 100))
    table.upsert(rows(17, 18), "k", blind=True)
    check(table, k=UPPER_BOUND, s=UPPER_BOUND)
    assert "1 of 5 groups" in str(table.statistics()["k"].freshness)
    assert table.analyze().files == 1
    check(table)


def test_analyze_reads_only_what_another_writer_added(catalog, tmp_path, counted):
    table = catalog.create_table("d.t", SCHEMA, partition_by=["p"])
    table.append(heavy(0, 600_000))
    ours = {file.location for file in table.files()}
    other = peer(tmp_path).load_table("d.t")
    other.append(heavy(600_000, 750_000, p=1))
    stale = str(table.refresh().statistics()["k"].freshness)
    assert stale.startswith("stale: 1 snapshot by another writer since ")
    assert stale.endswith(", 20.0 % of rows not covered")
    (new,) = (file.file_size_bytes for file in table.files() if file.location not in ours)
    summary, read = counted(table, table.analyze)
    assert (summary.files, summary.rows) == (1, 150_000)
    assert 0 < read <= 1.1 * new
    check(table)
    summary, read = counted(table, table.analyze)
    assert (summary.files, read) == (0, 0)


@pytest.mark.parametrize("version", [2, 3])
def test_a_row_level_delete_reads_the_touched_file_once(catalog, version, counted):
    table = catalog.create_table(
        "d.t", SCHEMA, partition_by=["p"], format_version=version, properties={"write.delete.mode": "merge-on-read"}
    )
    table.append(heavy(0, 600_000))
    (touched,) = (task.data_file for task in table.scan(where="p = 3").plan())
    _, read = counted(table, lambda: table.delete("p = 3 AND s = 's5'"))
    check(table)
    table.set_properties({"skerry.statistics.row-deletes": "upper-bound"})
    _, found = counted(table, lambda: table.delete("p = 3 AND s = 's6'"))
    assert 0 < read - found <= 1.1 * touched.file_size_bytes


def test_an_append_and_an_overwrite_read_no_data(catalog, counted):
    table = catalog.create_table("d.t", SCHEMA, partition_by=["p"])
    table.append(rows(0, 20_000))
    assert counted(table, lambda: table.append(rows(20_000, 20_200)))[1] == 0
    assert counted(table, lambda: table.overwrite(rows(0, 200, p=4), "p = 4"))[1] == 0
    assert counted(table, lambda: table.delete("p = 5"))[1] == 0
    check(table)


def test_partitions_that_another_writer_dropped_need_no_rescan(catalog, tmp_path):
    table = catalog.create_table("d.t", SCHEMA, partition_by=["p"])
    table.append(rows(0, 1000))
    peer(tmp_path).load_table("d.t").delete("p = 3")
    check(table)
    assert published(table) == set()
    assert table.analyze().files == 0
    check(table)
    assert published(table) == {1, 2, 3}


def test_our_commit_on_top_of_anothers_keeps_what_it_knows(catalog, tmp_path):
    table = catalog.create_table("d.t", SCHEMA, partition_by=["p"])
    table.append(rows(0, 1000))
    peer(tmp_path).load_table("d.t").append(rows(1000, 1100, p=1))
    table.refresh().append(rows(2000, 2100, p=2))
    assert set(states(table).values()) == {FreshnessState.STALE}
    assert str(table.statistics()["k"].freshness).endswith("8.3 % of rows not covered")
    assert table.analyze().files == 1
    check(table)


def test_a_commit_catches_up_first_if_the_table_wants_that(catalog, tmp_path):
    table = catalog.create_table("d.t", SCHEMA, properties={"skerry.statistics.catch-up": "true"})
    table.append(rows(0, 1000))
    other = peer(tmp_path).load_table("d.t")
    other.append(rows(1000, 1100))
    table.refresh().append(rows(2000, 2100))
    check(table)
    other.refresh().append(rows(3000, 3100))
    table.refresh().delete("k = 5")
    check(table)


def test_a_lost_sample_costs_time_and_never_truth(catalog, monkeypatch):
    table = catalog.create_table("d.t", SCHEMA, partition_by=["p"])
    table.append(rows(0, 1000))
    state = table.handle.state
    (file,) = state.metadata.statistics
    assert read_sample(state, state.snapshot()).groups.columns.keys() == {1, 2, 3}
    path = file.statistics_path.removeprefix("file://")
    data = bytearray(Path(path).read_bytes())
    properties = puffin.read(path).properties
    assert set(SAMPLE_PROPERTIES) <= set(properties)
    offset, length = (int(properties[name]) for name in SAMPLE_PROPERTIES[:2])
    data[offset + length // 2] ^= 1
    Path(path).write_bytes(data)
    assert read_sample(state, state.snapshot()) is None
    check(table)
    known_sample._REMEMBERED.clear()  # as another process
    table.append(rows(1000, 1100))  # united with the published sketches
    check(table)
    table.delete("p = 3")
    assert set(states(table).values()) == {FreshnessState.STALE}
    assert table.analyze().files == 9
    check(table)


def test_a_promoted_column_is_sketched_again_alone(catalog):
    table = catalog.create_table("d.t", SCHEMA, partition_by=["bucket(3, k)"])
    table.append(rows(0, 100))
    table.update_schema().update_column("p", pa.int64()).commit()
    assert str(table.statistics()["p"].freshness) == "absent: sketched before the column became int64; run analyze"
    assert states(table) == {"k": FRESH, "p": FreshnessState.ABSENT, "s": FRESH}
    assert table.analyze().files == 3
    check(table)
    table.append(rows(100, 110).cast(table.schema))
    check(table)


def test_defaults_of_added_columns_count_at_once(catalog):
    table = catalog.create_table("d.t", SCHEMA, format_version=3)
    table.append(rows(0, 10))
    table.update_schema().add_column("w", pa.int32(), default_value=7).commit()
    check(table)
    assert table.statistics()["w"].ndv == 1
    table.append(pa.table({"k": [1], "w": pa.array([8], pa.int32())}))
    check(table)
    assert table.statistics()["w"].ndv == 2


def test_only_the_standard_blob_types_and_plain_properties(catalog):
    table = catalog.create_table("d.t", SCHEMA)
    table.append(rows(0, 10))
    snapshot = table.current_snapshot()
    (file,) = table.handle.state.metadata.statistics
    reader = puffin.read(file.statistics_path)
    assert {blob.type for blob in (*reader.blobs, *file.blob_metadata)} == {"apache-datasketches-theta-v1"}
    for blob in (*reader.blobs, *file.blob_metadata):  # what Bodo and Trino look for
        assert (blob.snapshot_id, blob.sequence_number) == (snapshot.snapshot_id, snapshot.sequence_number)
        assert blob.properties["ndv"].isdecimal()
        assert len(blob.fields) == 1


# Parts of a table ----------------------------------------------------------------------------------------------------


def test_statistics_of_partitions_come_from_samples_alone(catalog):
    table = catalog.create_table("d.t", SCHEMA, partition_by=["p"])
    table.append(rows(0, 50_000))
    for where, expected in (
        ("p = 3", lambda row: row["p"] == 3),
        ("p IN (1, 2, 7)", lambda row: row["p"] in (1, 2, 7)),
        ("p <> 4", lambda row: row["p"] != 4),
        ("p = 77", lambda row: False),
    ):
        content = [row for row in table.scan().to_arrow().to_pylist() if expected(row)]
        for name, found in table.statistics(where).items():
            distinct = len({row[name] for row in content})
            assert found.freshness.state is FRESH, (where, name, str(found.freshness))
            assert found.lower <= distinct <= found.upper, (where, name, distinct, found)
            assert found.null_count == 0


def test_what_metadata_leaves_open_widens_the_bounds(catalog):
    table = catalog.create_table("d.t", SCHEMA, partition_by=["p"])
    table.append(rows(0, 1000))
    found = table.statistics("p = 3 OR (p = 4 AND k < 100)")
    k = found["k"]
    assert k.freshness.state is UPPER_BOUND
    assert str(k.freshness) == "upper bound: 1 of 2 groups of files may also contain other rows"
    assert (k.lower, k.ndv, k.upper) == (100, 200, 200)
    assert k.null_count is None
    assert k.lower <= 110 <= k.upper
    assert found["p"].upper == 2


def test_parts_that_nobody_sampled_are_stale(catalog, tmp_path):
    table = catalog.create_table("d.t", SCHEMA, partition_by=["p"])
    table.append(rows(0, 1000))
    peer(tmp_path).load_table("d.t").append(rows(1000, 1100, p=1))
    assert str(table.refresh().statistics("p = 1")["k"].freshness) == "stale: 50.0 % of rows not covered; run analyze"
    assert table.statistics("p = 2")["k"].freshness.state is FRESH


# Files ---------------------------------------------------------------------------------------------------------------


def statistics_below(folder):
    return {str(path) for path in Path(folder).rglob("*.stats")}


def test_a_statistics_file_that_another_took_the_place_of_goes_with_expiry(catalog, tmp_path):
    table = catalog.create_table("d.t", SCHEMA)
    table.append(rows(0, 100))
    thinned = statistics_below(tmp_path)
    table.append(rows(100, 200))
    table.analyze(full=True)
    live = thinned | {file.statistics_path.removeprefix("file://") for file in table.handle.state.metadata.statistics}
    assert len(statistics_below(tmp_path)) == 3
    dead = statistics_below(tmp_path) - live
    done = table.expire_snapshots(keep_last=5)
    assert {file.location.removeprefix("file://") for file in done.files} == dead
    assert statistics_below(tmp_path) == live
    check(table)
    assert table.expire_snapshots(keep_last=5).files == ()
    table.analyze(full=True)
    catalog.drop_table("d.t", purge=True)
    assert statistics_below(tmp_path) == set()


@pytest.mark.parametrize("job", ["compact", "add_files", "overwrite", "upsert", "blind upsert"])
def test_every_job_catches_up_first_if_the_table_wants_that(catalog, tmp_path, job):
    properties = {"skerry.statistics.catch-up": "true", "skerry.statistics.row-deletes": "sketch"}
    table = catalog.create_table("d.t", SCHEMA, properties=properties)
    table.append(rows(0, 1000))
    peer(tmp_path).load_table("d.t").append(rows(1000, 1100))
    path = Path(table.location.removeprefix("file://")) / "data" / "extra.parquet"
    pq.write_table(rows(5000, 5010), path)
    jobs = {
        "compact": lambda: table.compact(full=True),
        "add_files": lambda: table.add_files([str(path)]),
        "overwrite": lambda: table.overwrite(rows(0, 10), "k < 500"),
        "upsert": lambda: table.upsert(rows(990, 1010), on=["k"]),
        "blind upsert": lambda: table.upsert(rows(990, 1010), on=["k"], blind=True),
    }
    jobs[job]()
    expected = {UPPER_BOUND} if job == "blind upsert" else {FRESH}
    assert expected <= set(states(table.refresh()).values()) <= {FRESH, *expected}
    state = table.handle.state
    caught = [snapshot_id for snapshot_id, _ in earlier_statistics(state)]
    assert state.snapshot().parent_snapshot_id in caught, "what the other writer added was sketched for its snapshot"


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b"x" * 50)])
@pytest.mark.parametrize("change", ["append", "delete", "upsert", "rollback", "compact", "expire_snapshots"])
def test_a_lost_statistics_file_holds_up_no_change(catalog, change, damage):
    """Iceberg spec, Table Statistics: they are informational."""
    table = catalog.create_table("d.t", SCHEMA)
    table.append(rows(0, 20))
    table.append(rows(20, 40))
    first = table.snapshots()[0].snapshot_id
    for file in table.handle.state.metadata.statistics:
        damage(Path(file.statistics_path.removeprefix("file://")))
    known_sample._REMEMBERED.clear()  # as another process
    for column in table.statistics().values():
        assert (column.ndv, column.freshness.state) == (None, FreshnessState.ABSENT)
        assert column.freshness.reason.startswith("the statistics file cannot be read; run analyze: ")
    expected = {
        "append": (lambda: table.append(rows(40, 45)), 45),
        "delete": (lambda: table.delete("k < 5"), 35),
        "upsert": (lambda: table.upsert(rows(39, 42), on="k"), 42),
        "rollback": (lambda: table.rollback(first), 20),
        "compact": (lambda: table.compact(full=True), 40),
        "expire_snapshots": (lambda: table.expire_snapshots(keep_last=1, older_than=dt.datetime.now(dt.UTC)), 40),
    }
    run, count = expected[change]
    run()
    assert table.scan().count() == count
    found = table.statistics()["k"]
    assert found.ndv == count if found.freshness.is_fresh else "fresh" not in str(found.freshness)
    table.analyze()
    assert set(states(table).values()) == {FRESH}
    assert table.statistics()["k"].ndv == count
