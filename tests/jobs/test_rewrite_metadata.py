"""Rewriting manifests and delete files, and forgetting metadata files: nothing that anybody reads changes."""

from __future__ import annotations

import dataclasses
import itertools
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

import skerry
from skerry.errors import CommitUnknownError, ConflictError, FormatError, SchemaError
from skerry.iceberg.commit import IcebergTarget
from skerry.iceberg.manifests.manifest_list import read_manifest_list
from skerry.iceberg.manifests.reader import read_manifest
from skerry.iceberg.operations import RowDelta
from skerry.iceberg.writing.delete_files import write_deletion_vectors, write_equality_deletes, write_position_deletes
from skerry.storage import Storage
from skerry.table.rows.incoming import conform

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])


def rows(*keys):
    return pa.table({"k": list(keys), "v": [f"v{k}" for k in keys]}, SCHEMA)


@pytest.fixture
def catalog(tmp_path):
    return skerry.connect(tmp_path / "warehouse")


def make(catalog, **options):
    properties = {"commit.retry.min-wait-ms": "1", "commit.manifest-merge.enabled": "false"}
    return catalog.create_table(
        "d.t", SCHEMA, **{"format_version": 2, **options, "properties": properties | options.get("properties", {})}
    )


def keys(table, **scan):
    return sorted(table.refresh().scan(["k"], **scan).to_arrow().column("k").to_pylist())


def manifests(table):
    state = table.refresh().handle.state
    return read_manifest_list(state.storage, state.snapshot().manifest_list)


def entries(table):
    """What all manifests say of all files, but for where they say it."""
    state = table.refresh().handle.state
    found = [
        dataclasses.replace(entry, status=0)
        for manifest in manifests(table)
        for entry in read_manifest(state.storage, manifest).entries(
            spec=state.metadata.specs()[manifest.partition_spec_id]
        )
        if entry.is_live
    ]
    return sorted(map(repr, found))


def delete_positions(table, *at, vectors=False, by_partition=False):
    """Delete the first rows of files, with one delete file."""
    implementation = table.handle
    state = implementation.refresh()
    files = sorted(table.refresh().files(), key=lambda file: file.location)
    write = write_deletion_vectors if vectors else write_position_deletes
    layout = dataclasses.replace(implementation.layout(), deletes_by_partition=by_partition)
    deletes = write(layout, [(files[index], np.array([position])) for index, position in at])
    named = tuple(files[index].location for index, _ in at)
    implementation.commit(
        RowDelta((), tuple(deletes), starting_snapshot_id=state.snapshot().snapshot_id, referenced_files=named)
    )


def delete_keys(table, *deleted):
    implementation = table.handle
    state = implementation.refresh()
    batches = list(conform(rows(*deleted), state.schema))
    deletes = write_equality_deletes(implementation.layout(), batches, [1])
    implementation.commit(RowDelta((), tuple(deletes), starting_snapshot_id=state.snapshot().snapshot_id))


def delete_files(table):
    state = table.refresh().handle.state
    found = set()
    for task in table.scan().plan():
        found |= {(delete.kind.value, delete.location, delete.content_offset) for delete in task.deletes}
    assert state.snapshot() is not None
    return found


def freshness(table):
    return {name: (str(found.freshness), found.ndv) for name, found in table.refresh().statistics().items()}


def lose_once(monkeypatch, action):
    """Another writer commits between plan and commit, once."""
    stage = IcebergTarget.stage

    def stage_late(self, base, change, files):
        monkeypatch.setattr(IcebergTarget, "stage", stage)
        action()
        return stage(self, base, change, files)

    monkeypatch.setattr(IcebergTarget, "stage", stage_late)


# Manifests -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("partition_by", [[], ["k"], ["truncate(1, v)", "bucket(2, k)"]])
def test_many_manifests_become_one_and_entries_stay(catalog, version, partition_by):
    table = make(catalog, format_version=version, partition_by=partition_by)
    for k in range(5):
        table.append(rows(k, k + 10))
    first = table.current_snapshot().snapshot_id
    before, statistics = entries(table), freshness(table)
    told = table.rewrite_manifests(dry_run=True)
    assert (told.rewritten_manifests, told.added_manifests, told.snapshot_id) == (5, 0, first)
    done = table.rewrite_manifests(snapshot_properties={"by": "me"})
    assert (done.rewritten_manifests, done.added_manifests, done.kept_manifests) == (5, 1, 0)
    assert [done.added_bytes] == [manifest.manifest_length for manifest in manifests(table)]
    snapshot = table.current_snapshot()
    assert (snapshot.snapshot_id, snapshot.operation) == (done.snapshot_id, "replace")
    said = {name: snapshot.summary[name] for name in snapshot.summary if name.startswith(("manifests", "entries"))}
    assert said == {
        "manifests-created": "1",
        "manifests-kept": "0",
        "manifests-replaced": "5",
        "entries-processed": str(len(before)),
    }
    assert snapshot.summary["by"] == "me"
    assert snapshot.summary["total-records"] == "10"
    assert entries(table) == before
    assert freshness(table) == statistics
    assert keys(table) == sorted([*range(5), *range(10, 15)])
    assert table.changes(first).to_arrow().num_rows == 0
    if version < 3:
        assert StaticTable.from_metadata(table.metadata_location).scan().to_arrow().num_rows == 10
    assert table.rewrite_manifests().rewritten_manifests == 0
    assert table.refresh().current_snapshot().snapshot_id == done.snapshot_id
    assert table.rewrite_manifests(full=True).rewritten_manifests == 1


def test_row_ids_stay(catalog):
    table = make(catalog, format_version=3)
    for k in range(4):
        table.append(rows(k, k + 10))
    columns = ["k", "_row_id", "_last_updated_sequence_number"]
    before = sorted(table.scan(columns).to_arrow().to_pylist(), key=repr)
    table.rewrite_manifests()
    assert sorted(table.refresh().scan(columns).to_arrow().to_pylist(), key=repr) == before
    table.append(rows(99))
    (new,) = table.scan(["_row_id"], "k = 99").to_arrow()["_row_id"].to_pylist()
    assert new not in {row["_row_id"] for row in before}


def test_partitions_lie_side_by_side_and_manifests_keep_their_size(catalog):
    table = make(catalog, partition_by=["truncate(1, v)", "k"])
    for start in range(8):
        table.append(rows(*range(start, 80, 8)))
    table.set_properties({"commit.manifest.target-size-bytes": str(manifests(table)[0].manifest_length * 2 // 3)})
    before = entries(table)
    done = table.rewrite_manifests(full=True)
    assert done.rewritten_manifests == 8
    assert done.added_manifests > 1
    assert entries(table) == before
    spans = [manifest.partitions[1] for manifest in manifests(table)]
    bounds = sorted((int.from_bytes(s.lower_bound, "little"), int.from_bytes(s.upper_bound, "little")) for s in spans)
    assert all(left[1] < right[0] for left, right in itertools.pairwise(bounds)), "they do not overlap"
    assert table.rewrite_manifests().rewritten_manifests == 0


def test_data_deletes_and_partition_specs_stay_apart(catalog):
    table = make(catalog)
    table.append(rows(1, 2, 3))
    table.append(rows(4, 5, 6))
    delete_positions(table, (0, 0))
    delete_positions(table, (1, 1))
    table.update_spec().add_field("bucket(4, k)").commit()
    table.append(rows(7))
    before, read = entries(table), keys(table)
    done = table.rewrite_manifests()
    assert (done.rewritten_manifests, done.added_manifests, done.kept_manifests) == (4, 2, 1)
    found = [(manifest.content.value, manifest.partition_spec_id) for manifest in manifests(table)]
    assert len(set(found)) == len(found) == 3
    assert (entries(table), keys(table)) == (before, read)


def test_rows_that_others_append_meanwhile_stay(catalog, monkeypatch):
    table = make(catalog)
    for k in range(3):
        table.append(rows(k))
    rival = catalog.load_table("d.t")
    lose_once(monkeypatch, lambda: rival.append(rows(9)))
    table.rewrite_manifests()
    assert keys(table) == [0, 1, 2, 9]
    assert set(freshness(table).values()) == {("fresh", 4.0)}
    assert len(manifests(table)) == 1, "the second attempt rewrote the rival's, too"


def test_nothing_to_do(catalog):
    table = make(catalog)
    assert table.rewrite_manifests().snapshot_id is None
    table.append(rows(1))
    assert table.rewrite_manifests().rewritten_manifests == 0
    table.create_branch("b").append(rows(2), ref="b")
    assert table.rewrite_manifests(ref="b").rewritten_manifests == 2
    assert keys(table, ref="b") == [1, 2]
    table.create_tag("x")
    with pytest.raises(SchemaError, match="is a tag"):
        table.rewrite_manifests(ref="x")


# Delete files --------------------------------------------------------------------------------------------------------


def test_several_files_of_positions_become_one(catalog):
    table = make(catalog)
    table.append(rows(*range(10)))
    table.append(rows(*range(10, 20)))
    for position in (0, 3, 3, 5):
        delete_positions(table, (0, position))
    delete_positions(table, (1, 2))
    table.analyze()
    before, statistics = keys(table), freshness(table)
    assert set(statistics.values()) == {("fresh", 16.0)}
    told = table.rewrite_deletes(dry_run=True)
    assert (told.data_files, told.rewritten_delete_files, told.added_delete_files, told.dry_run) == (1, 4, 0, True)
    done = table.rewrite_deletes()
    assert (done.data_files, done.rewritten_delete_files, done.added_delete_files) == (1, 4, 1)
    assert len(delete_files(table)) == 2
    assert table.current_snapshot().operation == "replace"
    assert table.current_snapshot().summary["total-position-deletes"] == "4"
    assert (keys(table), freshness(table)) == (before, statistics)
    assert StaticTable.from_metadata(table.metadata_location).scan().to_arrow().num_rows == len(before)
    assert table.rewrite_deletes().data_files == 0
    assert table.rewrite_deletes().snapshot_id == done.snapshot_id


def test_files_of_positions_become_vectors_in_version_3(catalog):
    table = make(catalog)
    table.append(rows(*range(10)))
    table.append(rows(*range(10, 20)))
    delete_positions(table, (0, 0), (1, 1), by_partition=True)
    delete_positions(table, (1, 2))
    table.upgrade(3)
    before = keys(table)
    done = table.rewrite_deletes()
    assert (done.data_files, done.rewritten_delete_files, done.added_delete_files) == (2, 2, 2)
    assert {kind for kind, _, _ in delete_files(table)} == {"vector"}
    assert keys(table) == before
    assert table.rewrite_deletes().data_files == 0
    assert table.delete("k = 5").deleted_rows == 1
    assert keys(table) == [k for k in before if k != 5]


def test_a_file_of_positions_goes_only_if_no_data_file_needs_it(catalog):
    table = make(catalog)
    for start in (0, 10, 20):
        table.append(rows(*range(start, start + 10)))
    delete_positions(table, (0, 0), (1, 1), by_partition=True)
    delete_positions(table, (1, 2), (2, 3), by_partition=True)
    before = keys(table)
    done = table.rewrite_deletes()
    assert done.rewritten_delete_files == 2
    assert done.added_delete_files == 3
    assert (keys(table), len(delete_files(table))) == (before, 3)


def test_keys_stay_and_dangling_files_are_dropped(catalog):
    table = make(catalog, properties={"write.merge.mode": "merge-on-read"})
    table.append(rows(*range(10)))
    delete_positions(table, (0, 0))
    delete_positions(table, (0, 1))
    delete_keys(table, 5)
    delete_keys(table, 77)
    table.append(rows(100))
    before = keys(table)
    done = table.rewrite_deletes()
    assert (done.rewritten_delete_files, done.added_delete_files, done.removed_delete_files) == (2, 1, 1)
    assert {kind for kind, _, _ in delete_files(table)} == {"keys", "positions"}
    assert keys(table) == before
    table.compact(min_deletes=1)
    delete_keys(table, 500)
    table.overwrite(rows(1))
    assert table.rewrite_deletes(dry_run=True).removed_delete_files == 1
    assert table.rewrite_deletes().removed_delete_files == 1
    assert table.current_snapshot().summary["total-delete-files"] == "0"
    assert keys(table) == [1]


def test_what_others_delete_meanwhile_stays_deleted(catalog, monkeypatch):
    for version in (2, 3):
        table = make(catalog, format_version=2, properties={"write.delete.mode": "merge-on-read"})
        table.append(rows(*range(10)))
        delete_positions(table, (0, 0))
        delete_positions(table, (0, 1))
        table.upgrade(version)
        rival = catalog.load_table("d.t")
        lose_once(monkeypatch, lambda rival=rival: rival.delete("k = 7"))
        table.rewrite_deletes()
        assert keys(table) == [2, 3, 4, 5, 6, 8, 9]
        catalog.drop_table("d.t")


def test_a_data_file_that_others_rewrote_is_planned_again(catalog, monkeypatch):
    table = make(catalog)
    table.append(rows(*range(10)))
    table.append(rows(*range(10, 20)))
    for index in (0, 1):
        delete_positions(table, (index, 0))
        delete_positions(table, (index, 1))
    before = keys(table)
    rival = catalog.load_table("d.t")
    lose_once(monkeypatch, lambda: rival.compact("k < 10"))
    done = table.rewrite_deletes()
    assert (done.data_files, keys(table)) == (1, before)


def test_failures_leave_nothing_behind_and_unknown_outcomes_everything(catalog, monkeypatch):
    table = make(catalog)
    table.append(rows(*range(10)))
    delete_positions(table, (0, 0))
    delete_positions(table, (0, 1))

    def files():
        return {str(path) for path in Path(table.location.removeprefix("file://"), "data").rglob("*.parquet")}

    before = files()
    for error, stays in ((ConflictError("no", retryable=False), 0), (CommitUnknownError("who knows"), 1)):
        with monkeypatch.context() as patch:

            def fail(self, staged, error=error):
                raise error

            patch.setattr(IcebergTarget, "publish", fail)
            with pytest.raises(type(error)):
                table.rewrite_deletes()
        assert len(files() - before) == stays
    path = Path(next(iter(delete_files(table)))[1].removeprefix("file://"))
    path.write_bytes(path.read_bytes()[:50])
    before, snapshot = files(), table.refresh().current_snapshot().snapshot_id
    with pytest.raises(FormatError):
        table.rewrite_deletes()
    assert (files(), table.refresh().current_snapshot().snapshot_id) == (before, snapshot)


def test_tasks_can_run_elsewhere_and_arguments_are_checked(catalog):
    table = make(catalog)
    assert table.rewrite_deletes().snapshot_id is None
    table.append(rows(*range(10)))
    delete_positions(table, (0, 0))
    delete_positions(table, (0, 1))

    class Elsewhere:
        def map(self, function, tasks):
            for task in tasks:
                there, given = pickle.loads(pickle.dumps((function, task)))
                yield pickle.loads(pickle.dumps(there(given)))

    told = []
    assert table.rewrite_deletes(min_input_files=3).data_files == 0
    assert table.rewrite_deletes(executor=Elsewhere(), progress=told.append).added_delete_files == 1
    assert [progress.done_files for progress in told] == [1]
    with pytest.raises(SchemaError, match="min_input_files must be a whole number above 1, found 1"):
        table.rewrite_deletes(min_input_files=1)


# Metadata files ------------------------------------------------------------------------------------------------------


def metadata_files(table):
    return {path.name for path in Path(table.location.removeprefix("file://"), "metadata").glob("*.metadata.json")}


def test_metadata_files_that_the_log_forgets_are_deleted_unless_the_table_forbids_it(catalog, monkeypatch):
    properties = {
        "write.metadata.previous-versions-max": "2",
        "write.metadata.delete-after-commit.enabled": "false",
    }
    table = make(catalog, properties=properties)
    for k in range(4):
        table.append(rows(k))
    assert len(metadata_files(table)) == 5, "the table wants them to stay"
    table.remove_properties("write.metadata.delete-after-commit.enabled")
    for k in range(4, 7):
        table.append(rows(k))
    state = table.refresh().handle.state
    logged = {Path(entry.metadata_file).name for entry in state.metadata.metadata_log}
    assert len(logged) == 2
    assert logged | {Path(table.metadata_location).name} < metadata_files(table)
    assert len(metadata_files(table)) == 2 + 3, "two were forgotten before, and are orphans"
    table.set_properties({"gc.enabled": "false"})
    table.append(rows(7))
    assert len(metadata_files(table)) == 2 + 3 + 2
    table.set_properties({"gc.enabled": "true"})
    assert len(metadata_files(table)) == 2 + 3 + 2

    def fail(self, locations):
        raise skerry.errors.StorageError("no")

    with monkeypatch.context() as patch:
        patch.setattr(Storage, "delete", fail)
        table.append(rows(8))
    assert keys(table) == [*range(9)]
