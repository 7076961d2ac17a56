"""Compaction: fewer files, no row more or less, and everything that hangs on the rows stays what it was."""

from __future__ import annotations

import dataclasses
import datetime as dt
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

import skerry
from skerry.errors import CommitUnknownError, ConflictError, NotFoundError, SchemaError
from skerry.iceberg.commit import IcebergTarget
from skerry.iceberg.jobs import compact
from skerry.iceberg.operations import RowDelta
from skerry.iceberg.writing.delete_files import write_deletion_vectors, write_equality_deletes, write_position_deletes
from skerry.table.rows.incoming import conform
from skerry.table.work.tasks import ThreadExecutor

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])


def rows(*keys):
    return pa.table({"k": list(keys), "v": [f"v{k}" for k in keys]}, SCHEMA)


@pytest.fixture
def catalog(tmp_path):
    return skerry.connect(tmp_path / "warehouse")


def make(catalog, **options):
    return catalog.create_table("d.t", SCHEMA, **{"format_version": 2, **options})


def keys(table):
    return sorted(table.refresh().scan(["k"]).to_arrow().column("k").to_pylist())


def files_on_disk(table):
    return {str(path) for path in Path(table.location.removeprefix("file://")).rglob("*.parquet")}


def delete_positions(table, positions_of_file):
    implementation = table.handle
    state = implementation.refresh()
    data = {file.location: file for file in table.refresh().files()}
    write = write_deletion_vectors if table.format_version == 3 else write_position_deletes
    deletes = write(implementation.layout(), [(data[name], np.array(at)) for name, at in positions_of_file.items()])
    implementation.commit(RowDelta((), tuple(deletes), starting_snapshot_id=state.snapshot().snapshot_id))


def delete_keys(table, *deleted, spec=None):
    implementation = table.handle
    state = implementation.refresh()
    batches = list(conform(rows(*deleted), state.schema))
    deletes = write_equality_deletes(implementation.layout(), batches, [1], spec=spec)
    implementation.commit(RowDelta((), tuple(deletes), starting_snapshot_id=state.snapshot().snapshot_id))


def file_of(table, key):
    return table.refresh().scan(["_file"], f"k = {key}").to_arrow().column(0)[0].as_py()


@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_many_files_become_one_and_statistics_stay(catalog, format_version):
    table = make(catalog, format_version=format_version)
    for k in range(6):
        table.append(rows(k, k + 100))
    before, statistics = table.current_snapshot(), table.statistics()
    summary = table.compact()
    assert (summary.rewritten_files, summary.added_files, summary.rows, summary.groups) == (6, 1, 12, 1)
    assert summary.reasons == {"many small files": 1}
    assert summary.snapshot_id == table.current_snapshot().snapshot_id
    assert table.current_snapshot().operation == "replace"
    assert keys(table) == sorted([*range(6), *range(100, 106)])
    assert len(table.files()) == 1
    after = table.statistics()
    assert [str(found.freshness) for found in after.values()] == ["fresh", "fresh"]
    assert [found.ndv for found in after.values()] == [found.ndv for found in statistics.values()] == [12, 12]
    assert table.changes(before.snapshot_id).to_arrow().num_rows == 0
    assert StaticTable.from_metadata(table.metadata_location).scan().to_arrow().num_rows == 12
    again = table.compact()
    assert (again.groups, again.snapshot_id) == (0, summary.snapshot_id), "nothing left to do makes no snapshot"


def test_nothing_to_do_on_an_empty_table(catalog):
    table = make(catalog)
    assert table.compact().snapshot_id is None
    assert table.compact(dry_run=True).groups == 0


def test_a_dry_run_tells_and_does_nothing(catalog):
    table = make(catalog)
    for k in range(6):
        table.append(rows(k))
    delete_positions(table, {file_of(table, 3): [0]})
    before = table.refresh().current_snapshot().snapshot_id
    planned = table.compact(dry_run=True)
    assert planned.dry_run
    assert (planned.rewritten_files, planned.removed_delete_files, planned.added_files) == (6, 1, 0)
    assert planned.snapshot_id == table.refresh().current_snapshot().snapshot_id == before
    done = table.compact()
    assert (done.rewritten_files, done.removed_delete_files, done.rows) == (6, 1, 5)


@pytest.mark.parametrize("format_version", [2, 3])
def test_deletes_are_folded_in_and_their_files_removed(catalog, format_version):
    table = make(catalog, format_version=format_version)
    table.append(rows(1, 2, 3))
    table.append(rows(4, 5, 6))
    table.append(rows(7, 8, 9))
    delete_positions(table, {file_of(table, 1): [0], file_of(table, 4): [1]})
    delete_keys(table, 6)
    untouched = file_of(table, 7)
    summary = table.compact()
    assert (summary.rewritten_files, summary.removed_delete_files) == (3, 3) if format_version == 2 else (3, 2)
    assert keys(table) == [2, 3, 4, 7, 8, 9]
    assert all(not task.deletes for task in table.scan().plan())
    assert table.current_snapshot().summary["total-delete-files"] == "0"
    assert untouched not in {file.location for file in table.files()}, "the key might have been in it"


def test_deletes_that_other_files_need_stay(catalog):
    table = make(catalog)
    with table.update_spec() as spec:
        spec.add_field("k")
    table.refresh().append(rows(1, 2))
    delete_keys(table, 1, 2, spec=table.handle.refresh().metadata.specs()[0])
    assert keys(table) == []
    table.append(rows(1))
    table.compact("k = 1")
    assert keys(table) == [1]
    assert [len(task.deletes) for task in table.scan().plan()].count(1) == 1, "the file of k = 2 still needs it"
    table.compact()
    assert keys(table) == [1]
    assert table.current_snapshot().summary["total-delete-files"] == "0"


def test_row_ids_and_their_history_stay(catalog):
    table = make(catalog, format_version=3)
    for k in range(5):
        table.append(rows(k, k + 10))
    columns = ["k", "_row_id", "_last_updated_sequence_number"]
    before = table.scan(columns).to_arrow().sort_by("k")
    delete_positions(table, {file_of(table, 2): [0]})
    table.refresh().compact()
    assert table.scan(columns).to_arrow().sort_by("k").equals(before.filter(pa.compute.not_equal(before["k"], 2)))
    table.append(rows(99))
    assert len(set(table.scan(["_row_id"]).to_arrow().column(0).to_pylist())) == 10


def test_partitions_and_sort_order_are_kept(catalog):
    table = make(catalog, partition_by=["truncate(10, k)"], sort_by=["v desc"])
    for k in range(6):
        table.append(rows(k, 10 + k))
    table.compact()
    assert sorted(file.partition for file in table.files()) == [(0,), (10,)]
    for file in table.files():
        found = pq.read_table(file.location.removeprefix("file://"))["v"].to_pylist()
        assert found == sorted(found, reverse=True)
        assert file.sort_order_id == 1


def test_sort_by_another_order_writes_everything_anew(catalog):
    table = make(catalog)
    table.append(rows(3, 1, 2))
    summary = table.compact(sort_by=["k desc"])
    assert summary.reasons == {"asked for": 1}
    (file,) = table.files()
    assert pq.read_table(file.location.removeprefix("file://"))["k"].to_pylist() == [3, 2, 1]
    assert file.sort_order_id in (None, 0), "the table has no such order"


def test_only_some_partitions(catalog):
    table = make(catalog, partition_by=["truncate(10, k)"])
    for k in range(5):
        table.append(rows(k, 10 + k))
    assert table.compact("k >= 10").rewritten_files == 5
    assert sorted(file.partition for file in table.files()) == [*[(0,)] * 5, (10,)]


def test_a_large_file_is_taken_apart(catalog):
    table = make(catalog, properties={"write.parquet.row-group-size-bytes": "20000"})
    random = np.random.default_rng(1)
    parts = [
        pa.table({"k": range(n, n + 500), "v": [random.bytes(30).hex() for _ in range(500)]}, SCHEMA)
        for n in range(0, 5000, 500)
    ]
    table.append(pa.concat_tables(parts))
    (large,) = table.files()
    summary = table.compact(target_file_size_bytes=large.file_size_bytes // 4)
    assert summary.reasons == {"too large": 1}
    assert 3 <= len(table.files()) <= 5
    assert keys(table) == list(range(5000))


def test_tasks_can_run_elsewhere(catalog):
    table = make(catalog)
    for k in range(6):
        table.append(rows(k))

    class Elsewhere:
        def map(self, function, tasks):
            for task in tasks:
                yield pickle.loads(pickle.dumps(function))(pickle.loads(pickle.dumps(task)))

    seen = []
    assert table.compact(executor=Elsewhere(), progress=seen.append).added_files == 1
    assert [(p.step, p.done_files, p.total_files, p.done_rows) for p in seen] == [("compact", 6, 6, 6)]


def test_rows_that_others_append_meanwhile_stay(catalog, monkeypatch):
    table = make(catalog)
    for k in range(5):
        table.append(rows(k))
    other = catalog.load_table("d.t")
    with monkeypatch.context() as patched:
        interfere_after_writing(patched, lambda: other.append(rows(77)))
        summary = table.compact()
    assert summary.conflicts == 0
    assert keys(table) == [0, 1, 2, 3, 4, 77]
    assert len(table.files()) == 2
    assert table.statistics()["k"].ndv == 6


def interfere_after_writing(monkeypatch, act):
    """Let another writer act once, when a compaction has written its files and is about to commit."""
    from skerry.iceberg.handle import IcebergHandle

    commit = IcebergHandle.commit
    once = iter([act])

    def commit_late(self, operation):
        if type(operation).__name__ == "RewriteFiles":
            for other in once:
                other()
        return commit(self, operation)

    monkeypatch.setattr(IcebergHandle, "commit", commit_late)


@pytest.mark.parametrize("format_version", [2, 3])
def test_a_group_that_others_changed_is_done_again_and_the_others_are_not(catalog, monkeypatch, format_version):
    table = make(catalog, partition_by=["truncate(10, k)"], format_version=format_version)
    for k in range(5):
        table.append(rows(k, 10 + k))
    other = catalog.load_table("d.t")
    written = []
    with monkeypatch.context() as patched:
        interfere_after_writing(patched, lambda: delete_positions(other, {file_of(other, 3): [0]}))
        summary = table.compact(progress=lambda progress: written.append(progress.done_files))
    assert keys(table) == [0, 1, 2, 4, *range(10, 15)]
    assert len(table.files()) == 2
    assert (summary.groups, summary.rewritten_files, summary.conflicts) == (2, 10, 0)
    assert written == [5, 10, 5], "both partitions, then one of them again"


def test_keys_deleted_meanwhile_are_deleted_in_the_new_files_too(catalog, monkeypatch):
    table = make(catalog)
    for k in range(5):
        table.append(rows(k))
    other = catalog.load_table("d.t")
    with monkeypatch.context() as patched:
        interfere_after_writing(patched, lambda: delete_keys(other, 2))
        assert table.compact().conflicts == 0
    assert len(table.refresh().files()) == 1
    assert keys(table) == [0, 1, 3, 4]


def test_files_of_lost_groups_are_removed(catalog, monkeypatch):
    table = make(catalog, properties={"commit.retry.num-retries": "0"})
    for k in range(5):
        table.append(rows(k))
    before = files_on_disk(table)
    other = catalog.load_table("d.t")
    with monkeypatch.context() as patched:
        interfere_after_writing(patched, lambda: other.delete("k = 3"))
        with pytest.raises(ConflictError):
            table.compact()
    assert keys(table) == [0, 1, 2, 4]
    assert files_on_disk(table) - before == set(), "the other writer only removed a file"


def test_failure_removes_what_was_written_and_an_unknown_outcome_does_not(catalog, monkeypatch):
    table = make(catalog, partition_by=["truncate(10, k)"])
    for k in range(5):
        table.append(rows(k, 10 + k))
    before = files_on_disk(table)

    class Breaking:
        def map(self, function, tasks):
            yield function(tasks[0])
            function(tasks[1])
            raise SchemaError("broken")

    with pytest.raises(SchemaError, match="broken"):
        table.compact(executor=Breaking())
    assert files_on_disk(table) == before

    def lost(self, staged):
        raise CommitUnknownError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(IcebergTarget, "publish", lost)
        patched.setattr(IcebergTarget, "find_published", lambda self, staged: None)
        with pytest.raises(CommitUnknownError):
            table.compact()
    assert len(files_on_disk(table) - before) == 2


def test_a_snapshot_that_others_expire_meanwhile_is_compacted_as_it_is_now(catalog, monkeypatch):
    table = catalog.create_table("d.t", pa.schema([("k", pa.int64())]))
    for number in range(6):
        table.append(pa.table({"k": [number]}))
    rival, plan, calls = catalog.load_table("d.t"), compact._Compaction._tasks, []

    def late(self, state):
        calls.append(state)
        if len(calls) == 1:
            rival.append(pa.table({"k": [6]}))
            rival.expire_snapshots(keep_last=1, older_than=dt.datetime.now(dt.UTC))
        return plan(self, state)

    monkeypatch.setattr(compact._Compaction, "_tasks", late)
    assert table.compact(full=True).rows == 7
    assert len(calls) == 2
    monkeypatch.setattr(compact._Compaction, "_tasks", missing)
    with pytest.raises(NotFoundError, match="gone for good"):
        table.compact(full=True)


def missing(*_):
    raise NotFoundError("gone for good")


def test_arguments_that_do_not_fit(catalog):
    table = make(catalog)
    table.append(rows(1))
    with pytest.raises(SchemaError, match="min_input_files must be a whole number above 1, found 1"):
        table.compact(min_input_files=1)
    with pytest.raises(SchemaError, match="no column 'q'"):
        table.compact(sort_by=["q"])
    with pytest.raises(SchemaError, match="no column 'q'"):
        table.compact("q = 1")


def test_one_worker_is_enough(catalog):
    table = make(catalog)
    for k in range(5):
        table.append(rows(k))
    summary = table.compact(executor=ThreadExecutor(1))
    assert dataclasses.replace(summary, snapshot_id=None).added_files == 1
