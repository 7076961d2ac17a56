"""What a commit of row-level changes leaves behind: manifests looked into, rows read back by PyIceberg."""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from changed_tables import ChangedTable, changed_table, rows

import skerry
from skerry.errors import CommitUnknownError, ConflictError, SchemaError, StorageError
from skerry.iceberg.catalogs.metadata_files import write_metadata
from skerry.iceberg.catalogs.pyiceberg_models import py_schema
from skerry.iceberg.manifests.manifest import EntryStatus
from skerry.iceberg.manifests.manifest_list import FieldSummary, ManifestContent
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.types import LongType, NestedField
from skerry.iceberg.operations import OverwriteFiles, RewriteFiles, RowDelta
from skerry.storage import Storage
from skerry.table.statistics.column_statistics import FreshnessState

DELETES = ManifestContent.DELETES


def keys(*parts: range) -> list[int]:
    return [key for part in parts for key in part]


@pytest.mark.parametrize("version", [2, 3])
def test_deletes_lie_apart_and_leave_data_manifests_alone(tmp_path, version):
    t = changed_table(tmp_path, version)
    before, started = t.manifests(), t.snapshot_id
    t.table.commit(RowDelta((), tuple(t.delete_rows((t.a, [1, 3]), (t.b, [0]))), starting_snapshot_id=started))
    assert t.by_pyiceberg() == [0, 2, 4, 11, 12, 13, 14]
    assert t.manifests() == before
    (manifest,) = t.manifests(DELETES)
    assert (manifest.added_files_count, manifest.added_rows_count, manifest.existing_files_count) == (2, 3, 0)
    assert (manifest.sequence_number, manifest.min_sequence_number) == (3, 3)
    assert manifest.partitions == (FieldSummary(False, False, (0).to_bytes(8, "little"), (1).to_bytes(8, "little")),)
    assert {entry.referenced_data_file for entry in t.entries(DELETES).values()} == {t.a.location, t.b.location}
    assert t.summary["operation"] == "delete"
    assert t.summary["added-position-deletes"] == "3"
    assert t.summary["added-dvs" if version == 3 else "added-position-delete-files"] == "2"
    assert (t.summary["total-delete-files"], t.summary["total-records"]) == ("2", "10")


@pytest.mark.parametrize("version", [2, 3])
def test_an_update_by_delta(tmp_path, version):
    t = changed_table(tmp_path, version)
    new = t.write(rows([1, 3], 0, "new"))
    t.table.commit(RowDelta(tuple(new), tuple(t.delete_rows((t.a, [1, 3]))), starting_snapshot_id=t.snapshot_id))
    assert t.by_pyiceberg() == keys(range(5), range(10, 15))
    assert t.summary["operation"] == "overwrite"
    assert (t.summary["added-records"], t.summary["added-position-deletes"]) == ("2", "2")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_only_the_manifest_with_the_removed_file_is_rewritten(tmp_path, version):
    t = changed_table(tmp_path, version)
    both = t.write(pa.concat_tables([rows([20], 0), rows([30], 1)]))
    t.table.append(both)
    together, of_b, of_a = t.manifests()
    old, gone = t.entries(), both[0].data_file.location
    t.table.commit(RowDelta(removed_files=(gone,), starting_snapshot_id=t.snapshot_id))
    assert t.by_pyiceberg() == [*keys(range(5), range(10, 15)), 30]
    rewritten, *untouched = t.manifests()
    assert untouched == [of_b, of_a]
    assert rewritten.manifest_path != together.manifest_path
    assert (rewritten.added_files_count, rewritten.existing_files_count, rewritten.deleted_files_count) == (0, 1, 1)
    assert (rewritten.existing_rows_count, rewritten.deleted_rows_count) == (1, 1)
    new, stays = t.entries(), both[1].data_file.location
    assert new[gone] == dataclasses.replace(old[gone], status=EntryStatus.DELETED, snapshot_id=t.snapshot_id)
    assert new[stays] == dataclasses.replace(old[stays], status=EntryStatus.EXISTING)
    if version > 1:
        assert rewritten.sequence_number == 4
        assert rewritten.min_sequence_number == new[stays].sequence_number == 3
    assert (t.summary["operation"], t.summary["deleted-records"]) == ("delete", "1")
    # what one snapshot deleted is of no interest to the next
    t.table.append(t.write(rows([40], 0)))
    assert gone in t.entries()
    t.table.commit(RowDelta(removed_files=(stays,), starting_snapshot_id=t.snapshot_id))
    assert gone not in t.entries()
    t.table.append(t.write(rows([50], 0)))
    assert stays not in t.entries()


def test_rows_keep_their_ids_in_rewritten_manifests(tmp_path):
    t = changed_table(tmp_path, 3)
    both = t.write(pa.concat_tables([rows([20, 21], 0), rows([30], 1)]))
    t.table.append(both)
    gone, stays = (file.data_file.location for file in both)
    assert [t.entries()[path].first_row_id for path in (t.a.location, t.b.location, gone, stays)] == [0, 5, 10, 12]
    t.table.commit(RowDelta(removed_files=(gone,), starting_snapshot_id=t.snapshot_id))
    added = t.write(rows([40], 0))
    t.table.append(added)
    ids = {path: entry.first_row_id for path, entry in t.entries().items()}
    assert ids[t.a.location] == 0
    assert ids[stays] == 12
    # the rewritten manifest takes row ids too, which nobody needs: counts of rows are an upper bound
    assert ids[added[0].data_file.location] == t.table.state.metadata.next_row_id - 1 > 12


def test_a_vector_replaces_the_one_before(tmp_path):
    t = changed_table(tmp_path, 3)
    t.table.commit(RowDelta((), tuple(t.delete_rows((t.a, [1]), (t.b, [0]))), starting_snapshot_id=t.snapshot_id))
    old = {entry.referenced_data_file: entry for entry in t.entries(DELETES).values()}
    of_a = old[t.a.location]
    t.table.commit(
        RowDelta(
            added_deletes=tuple(t.delete_rows((t.a, [1, 2]))),
            removed_deletes=((of_a.data_file.location, of_a.content_offset),),
            starting_snapshot_id=t.snapshot_id,
        )
    )
    assert t.by_pyiceberg() == [0, 3, 4, 11, 12, 13, 14]
    live = [entry for entry in t.entries(DELETES).values() if entry.is_live]
    assert sorted((entry.referenced_data_file, entry.data_file.record_count) for entry in live) == sorted(
        [(t.a.location, 2), (t.b.location, 1)]
    )
    # both vectors lay in one file, and only one of them is gone
    (deleted,) = (entry for entry in t.entries(DELETES).values() if not entry.is_live)
    assert (deleted.data_file.location, deleted.content_offset) == (of_a.data_file.location, of_a.content_offset)
    assert (t.summary["removed-dvs"], t.summary["total-delete-files"]) == ("1", "2")


@pytest.mark.parametrize("version", [2, 3])
def test_deletes_go_with_the_only_data_file_that_needs_them(tmp_path, version):
    t = changed_table(tmp_path, version)
    t.table.commit(RowDelta((), tuple(t.delete_rows((t.a, [1]), (t.b, [0]))), starting_snapshot_id=t.snapshot_id))
    t.table.commit(OverwriteFiles(tuple(t.write(rows([2], 0))), (t.a.location,), t.snapshot_id))
    assert t.by_pyiceberg() == [2, 11, 12, 13, 14]
    live = [entry.referenced_data_file for entry in t.entries(DELETES).values() if entry.is_live]
    assert live == [t.b.location]
    assert t.summary["removed-position-deletes"] == "1"


def test_rewritten_files_keep_their_data_sequence_number(tmp_path):
    """A key deleted while the rewrite ran stays deleted: the deletes are younger than the new file's rows."""
    t = changed_table(tmp_path)
    started = t.snapshot_id
    new = t.write(rows(range(5), 0))
    t.table.commit(RowDelta((), tuple(t.delete_keys([2], 0)), isolation="snapshot"))
    t.table.commit(RewriteFiles(tuple(new), (t.a.location,), sequence_number=2, starting_snapshot_id=started))
    entry = t.entries()[new[0].data_file.location]
    assert (entry.sequence_number, entry.file_sequence_number) == (2, 4)
    (deletes,) = t.entries(DELETES).values()
    assert deletes.sequence_number == 3 > entry.sequence_number
    assert (t.manifests()[0].sequence_number, t.manifests()[0].min_sequence_number) == (4, 2)
    assert t.summary["operation"] == "replace"
    assert skerry.connect(tmp_path).load_table("d.t").scan().count() == 9


def test_a_rewrite_adds_nothing_of_its_own(tmp_path):
    t = changed_table(tmp_path)
    with pytest.raises(SchemaError, match="a rewrite can only replace files"):
        t.table.commit(RewriteFiles(tuple(t.write(rows([1], 0)))))


def test_a_sequence_number_that_is_still_to_come(tmp_path):
    t = changed_table(tmp_path)
    rewrite = RewriteFiles(tuple(t.write(rows([1], 0))), (t.a.location,), sequence_number=3)
    with pytest.raises(SchemaError, match="cannot keep sequence number 3: the table's last is 2"):
        t.table.commit(rewrite)


def test_delete_manifests_merge_with_their_kind(tmp_path):
    t = changed_table(tmp_path, 3, **{"commit.manifest.min-count-to-merge": "2"})
    known = {}
    for file, row in ((t.a, 1), (t.b, 2)):
        t.table.commit(RowDelta((), tuple(t.delete_rows((file, [row]))), starting_snapshot_id=t.snapshot_id))
        assert len(t.manifests()) == len(t.manifests(DELETES)) == 1
        entries = t.entries(DELETES)
        assert {path: dataclasses.replace(entries[path], status=EntryStatus.ADDED) for path in known} == known
        known = entries
    assert t.by_pyiceberg() == [0, 2, 3, 4, 10, 11, 13, 14]


def test_nothing_to_do_makes_no_snapshot(tmp_path):
    t = changed_table(tmp_path)
    before = t.snapshot_id
    for operation in (RowDelta(), OverwriteFiles(), RewriteFiles()):
        t.table.commit(operation)
    assert t.snapshot_id == before


def test_changes_on_a_branch_leave_main_alone(tmp_path):
    catalog = skerry.connect(tmp_path)
    t = changed_table(tmp_path)
    catalog.load_table("d.t").create_branch("audit")
    main = t.table.refresh().snapshot().snapshot_id
    t.table.commit(RowDelta(removed_files=(t.a.location,), starting_snapshot_id=t.snapshot_id, ref="audit"))
    assert t.snapshot_id == main
    assert sorted(catalog.load_table("d.t").scan(["k"], ref="audit").to_arrow()["k"].to_pylist()) == keys(range(10, 15))
    t.table.commit(RowDelta(removed_files=(t.b.location,), starting_snapshot_id=t.snapshot_id, staged=True))
    assert t.snapshot_id == main
    assert len(t.table.state.metadata.snapshots) == 4


# Statistics ----------------------------------------------------------------------------------------------------------


def sketched(t: ChangedTable) -> dict[str, tuple[float | None, FreshnessState]]:
    found = skerry.connect(t.table.catalog.properties["warehouse"].removeprefix("file://")).load_table("d.t")
    return {name: (column.ndv, column.freshness.state) for name, column in found.statistics().items()}


def with_sketches(folder: Any, version: int = 2) -> ChangedTable:
    return changed_table(folder, version, skerry__statistics__enabled="true")


FRESH, UPPER_BOUND = FreshnessState.FRESH, FreshnessState.UPPER_BOUND


def test_a_delta_that_only_adds_is_an_append(tmp_path):
    t = with_sketches(tmp_path)
    t.table.commit(RowDelta(tuple(t.write(rows([77], 5))), starting_snapshot_id=t.snapshot_id))
    assert t.summary["operation"] == "append"
    assert sketched(t) == {"k": (11, FRESH), "p": (3, FRESH), "v": (1, FRESH)}


def published(t: ChangedTable) -> set[int]:
    """Field ids of the sketches that the current snapshot publishes."""
    files = [file for file in t.table.state.metadata.statistics if file.snapshot_id == t.snapshot_id]
    return {field_id for file in files for blob in file.blob_metadata for field_id in blob.fields}


def test_rows_deleted_unseen_leave_an_upper_bound_and_what_others_hold_too_stays_exact(tmp_path):
    t = with_sketches(tmp_path)
    t.table.commit(RowDelta((), tuple(t.delete_rows((t.a, [1]))), starting_snapshot_id=t.snapshot_id))
    assert sketched(t) == {"k": (10, UPPER_BOUND), "p": (2, UPPER_BOUND), "v": (1, FRESH)}
    assert published(t) == {t.field_id("v")}
    t.table.append(t.write(rows([1], 0)))  # the key that was deleted
    assert sketched(t) == {"k": (10, UPPER_BOUND), "p": (2, FRESH), "v": (1, FRESH)}
    t.table.commit(OverwriteFiles(tuple(t.write(rows([2], 0))), (t.a.location,), t.snapshot_id))
    assert sketched(t) == {"k": (7, FRESH), "p": (2, FRESH), "v": (1, FRESH)}
    t.table.commit(RowDelta(removed_files=(t.b.location,), starting_snapshot_id=t.snapshot_id))
    assert sketched(t) == {"k": (2, FRESH), "p": (1, FRESH), "v": (1, FRESH)}
    assert published(t) == {t.field_id(name) for name in "kpv"}


def test_keys_deleted_unseen_leave_an_upper_bound_in_their_partition(tmp_path):
    t = with_sketches(tmp_path)
    t.table.commit(RowDelta((), tuple(t.delete_keys([1], 0)), starting_snapshot_id=t.snapshot_id))
    assert sketched(t) == {"k": (10, UPPER_BOUND), "p": (2, UPPER_BOUND), "v": (1, FRESH)}
    t.table.commit(RowDelta(removed_files=(t.a.location,), starting_snapshot_id=t.snapshot_id))
    assert sketched(t) == {"k": (5, FRESH), "p": (1, FRESH), "v": (1, FRESH)}


def test_an_overwrite_of_everything_is_sketched(tmp_path):
    t = with_sketches(tmp_path)
    new = t.write(rows([2, 3], 0, "new"))
    t.table.commit(OverwriteFiles(tuple(new), (t.a.location, t.b.location), t.snapshot_id))
    assert sketched(t) == {"k": (2, FRESH), "p": (1, FRESH), "v": (1, FRESH)}


def test_a_rewrite_carries_fresh_sketches_over(tmp_path):
    t = with_sketches(tmp_path)
    t.table.commit(RewriteFiles(tuple(t.write(rows(range(5), 0))), (t.a.location,), starting_snapshot_id=t.snapshot_id))
    assert sketched(t) == {"k": (10, FRESH), "p": (2, FRESH), "v": (1, FRESH)}
    t.table.commit(RowDelta((), tuple(t.delete_rows((t.b, [1]))), starting_snapshot_id=t.snapshot_id))
    new = t.write(rows([10, 12, 13, 14], 1))
    t.table.commit(RewriteFiles(tuple(new), (t.b.location,), starting_snapshot_id=t.snapshot_id))
    assert sketched(t) == {"k": (9, FRESH), "p": (2, FRESH), "v": (1, FRESH)}
    assert t.by_pyiceberg() == [*range(5), 10, 12, 13, 14]


# Row lineage ---------------------------------------------------------------------------------------------------------


def test_rewritten_rows_take_their_ids_along(tmp_path):
    t = changed_table(tmp_path, 3)
    moved = (
        rows([1, 3], 0)
        .append_column("_row_id", pa.array([1, 3]))
        .append_column("_last_updated_sequence_number", pa.array([1, None], pa.int64()))
    )
    (file,) = t.write(moved, lineage=True)
    footer = pq.read_metadata(file.data_file.location.removeprefix("file://"))
    ids = {field.name: field.metadata[b"PARQUET:field_id"] for field in footer.schema.to_arrow_schema()}
    assert ids == {
        "k": b"1",
        "p": b"2",
        "v": b"3",
        "_row_id": b"2147483540",
        "_last_updated_sequence_number": b"2147483539",
    }
    assert set(file.data_file.lower_bounds) == {1, 2, 3}
    t.table.commit(RewriteFiles((file,), (t.a.location,), starting_snapshot_id=t.snapshot_id))
    assert t.by_pyiceberg() == [1, 3, *range(10, 15)]


def test_older_versions_have_no_lineage(tmp_path):
    assert changed_table(tmp_path).table.layout(lineage=True).file_schema.names == ["k", "p", "v"]


def test_a_column_in_the_way_of_lineage(tmp_path):
    catalog = skerry.connect(tmp_path)
    schema = Schema(NestedField(1, "_row_id", LongType(), required=False))  # only others make it
    catalog.create_table("d.other", pa.schema([("id", pa.int64())]))
    inner = catalog.iceberg_catalog
    inner.create_table(("d", "t"), py_schema(schema), properties={"format-version": "3"})
    table = catalog.load_table("d.t")
    with pytest.raises(SchemaError, match="column '_row_id' has a name that is reserved for row lineage"):
        table.handle.layout(lineage=True)


def test_nanoseconds(tmp_path):
    schema = pa.schema([("at", pa.timestamp("ns")), ("utc", pa.timestamp("ns", "UTC"))])
    table = skerry.connect(tmp_path).create_table("d.t", schema, format_version=3)
    data = pa.table(
        {"at": pa.array([1, None, 3], schema.field(0).type), "utc": pa.array([4, 5, None], schema.field(1).type)}
    )
    table.append(data)
    read = table.scan().to_arrow()
    assert read.schema.types == schema.types
    assert read.to_pydict() == data.to_pydict()
    assert table.files()[0].upper_bounds == {1: (3).to_bytes(8, "little"), 2: (5).to_bytes(8, "little")}


# Failures ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["-m0.avro", "-m1.avro", "snap-"])
def test_a_write_that_fails_leaves_nothing_behind(tmp_path, monkeypatch, name):
    t = changed_table(tmp_path, 3)
    change = RowDelta(
        tuple(t.write(rows([1], 0))), tuple(t.delete_rows((t.a, [1]))), starting_snapshot_id=t.snapshot_id
    )
    before = set((tmp_path / "d" / "t" / "metadata").iterdir())
    write = Storage.write

    def failing(self: Storage, location: str, data: Any, **options: Any) -> None:
        if name in location:
            raise StorageError("no space left", location=location)
        write(self, location, data, **options)

    monkeypatch.setattr(Storage, "write", failing)
    with pytest.raises(StorageError):
        t.table.commit(change)
    assert set((tmp_path / "d" / "t" / "metadata").iterdir()) == before


@pytest.mark.parametrize("happened", [True, False])
def test_after_an_unknown_outcome_nothing_is_removed(tmp_path, monkeypatch, happened):
    t = changed_table(tmp_path, 3)
    change = RowDelta((), tuple(t.delete_rows((t.a, [1]))), starting_snapshot_id=t.snapshot_id)
    before, tip = set((tmp_path / "d" / "t" / "metadata").iterdir()), t.snapshot_id
    publish = t.table.catalog.commit_table

    def failing(table: Any, requirements: Any, updates: Any, write: Any) -> Any:
        if happened:
            publish(table, requirements, updates, write)
        else:
            write_metadata(Storage(), f"{table.metadata.location}/metadata/lost.metadata.json", table.metadata)
            write.may_have_effect = True
        raise CommitUnknownError("the answer was lost")

    monkeypatch.setattr(t.table.catalog, "commit_table", failing)
    if happened:
        t.table.commit(change)
        assert t.by_pyiceberg() == [0, 2, 3, 4, *range(10, 15)]
        return
    with pytest.raises(CommitUnknownError, match="the answer was lost"):
        t.table.commit(change)
    assert t.table.refresh().snapshot().snapshot_id == tip
    left = {file.name for file in set((tmp_path / "d" / "t" / "metadata").iterdir()) - before}
    assert {name.split("-")[0] for name in left if name.startswith("snap")} == {"snap"}
    assert any(name.endswith("-m0.avro") for name in left)


def test_a_conflict_that_helps_no_retry_survives_pickling():
    import pickle

    error = pickle.loads(pickle.dumps(ConflictError("no", retryable=False, location="d.t")))
    assert (str(error), error.retryable) == ("no (in d.t)", False)
    assert ConflictError("x").retryable
