"""What others commit while a job runs: every kind of change against every operation, in every isolation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from changed_tables import ChangedTable, Raced, changed_table, rows

from skerry.errors import ConflictError, SchemaError
from skerry.iceberg.handle import IcebergHandle
from skerry.iceberg.manifests.manifest_list import ManifestContent
from skerry.iceberg.operations import OverwriteFiles, RewriteFiles, RowDelta
from skerry.iceberg.operations.conflicts import Isolation

# What jobs do that have read `k < 10`, which is file a ---------------------------------------------------------------


def delete_by_delta(t: ChangedTable, **options: Any) -> RowDelta:
    return RowDelta(added_deletes=tuple(t.delete_rows((t.a, [1]))), **options)


def update_by_delta(t: ChangedTable, **options: Any) -> RowDelta:
    return RowDelta(
        added=tuple(t.write(rows([1], 0, "new"))), added_deletes=tuple(t.delete_rows((t.a, [1]))), **options
    )


def overwrite(t: ChangedTable, **options: Any) -> OverwriteFiles:
    return OverwriteFiles(tuple(t.write(rows([0, 2, 3, 4], 0))), (t.a.location,), **options)


def drop_by_delta(t: ChangedTable, **options: Any) -> RowDelta:
    return RowDelta(removed_files=(t.a.location,), **options)


def rewrite(t: ChangedTable, **options: Any) -> RewriteFiles:
    return RewriteFiles(tuple(t.write(rows(range(5), 0))), (t.a.location,), **options)


def rewrite_keeping_number(t: ChangedTable, **options: Any) -> RewriteFiles:
    return rewrite(t, sequence_number=t.table.state.metadata.last_sequence_number, **options)


# What rivals do ------------------------------------------------------------------------------------------------------


def append_matching(t: ChangedTable, base: IcebergHandle) -> None:
    base.append(t.write(rows([3], 0, "rival")))


def append_other_keys(t: ChangedTable, base: IcebergHandle) -> None:
    base.append(t.write(rows([30], 0, "rival")))


def delete_rows_of_a(t: ChangedTable, base: IcebergHandle) -> None:
    base.commit(RowDelta(added_deletes=tuple(t.delete_rows((t.a, [2]))), isolation="snapshot"))


def delete_keys_of_a(t: ChangedTable, base: IcebergHandle) -> None:
    base.commit(RowDelta(added_deletes=tuple(t.delete_keys([2], 0)), isolation="snapshot"))


def delete_keys_of_b(t: ChangedTable, base: IcebergHandle) -> None:
    base.commit(RowDelta(added_deletes=tuple(t.delete_keys([12], 1)), isolation="snapshot"))


def remove_a(t: ChangedTable, base: IcebergHandle) -> None:
    base.commit(drop_by_delta(t, starting_snapshot_id=t.snapshot_id))


def replace_a(t: ChangedTable, base: IcebergHandle) -> None:
    base.commit(OverwriteFiles(tuple(t.write(rows(range(5), 0, "rival"))), (t.a.location,), t.snapshot_id))


def compact_a(t: ChangedTable, base: IcebergHandle) -> None:
    base.commit(RewriteFiles(tuple(t.write(rows(range(5), 0))), (t.a.location,), starting_snapshot_id=t.snapshot_id))


def do_other_things(t: ChangedTable, base: IcebergHandle) -> None:
    """Everything at once that is none of the job's business."""
    base.append(t.write(rows([20], 1, "rival")))
    append_other_keys(t, base)
    base.commit(
        RewriteFiles(tuple(t.write(rows(range(10, 15), 1))), (t.b.location,), starting_snapshot_id=t.snapshot_id)
    )
    delete_keys_of_b(t, base)


def delete_rows_of_another_file(t: ChangedTable, base: IcebergHandle) -> None:
    base.commit(RowDelta(added_deletes=tuple(t.delete_rows((t.b, [2]))), isolation="snapshot"))


Build = Callable[..., Any]
OPERATIONS: dict[str, tuple[Build, dict[str, str]]] = {
    "delete, serializable": (delete_by_delta, {"isolation": "serializable"}),
    "delete, snapshot": (delete_by_delta, {"isolation": "snapshot"}),
    "update, serializable": (update_by_delta, {"isolation": "serializable"}),
    "update, snapshot": (update_by_delta, {"isolation": "snapshot"}),
    "overwrite, serializable": (overwrite, {"isolation": "serializable"}),
    "overwrite, snapshot": (overwrite, {"isolation": "snapshot"}),
    "drop file, serializable": (drop_by_delta, {"isolation": "serializable"}),
    "drop file, snapshot": (drop_by_delta, {"isolation": "snapshot"}),
    "rewrite": (rewrite, {}),
    "rewrite, number kept": (rewrite_keeping_number, {}),
}
ALL = set(OPERATIONS)
SERIALIZABLE = {name for name in ALL if "serializable" in name}
REWRITING = {name for name in ALL if not name.startswith(("delete", "drop"))}

RIVALS: dict[str, tuple[Callable[[ChangedTable, IcebergHandle], None], set[str], str]] = {
    "appends rows that match": (append_matching, SERIALIZABLE, "added data file"),
    "deletes rows of the file": (delete_rows_of_a, REWRITING, "deleted rows of data files"),
    "deletes rows of another file": (delete_rows_of_another_file, set(), ""),
    "deletes keys of the partition": (delete_keys_of_a, REWRITING - {"rewrite, number kept"}, "deleted rows of data"),
    # the rows that a delete would delete are gone with the file
    "removes the file": (
        remove_a,
        ALL - {"delete, serializable", "delete, snapshot"},
        "removed data file|which this commit removes",
    ),
    "overwrites the file": (replace_a, ALL, "removed data file"),
    "compacts the file": (compact_a, ALL, "removed data file"),
    "does other things": (do_other_things, set(), ""),
}


@pytest.mark.parametrize("rival", RIVALS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_rival_between_decision_and_publication(tmp_path, operation, rival):
    """The first attempt is decided on the old state and loses the race; the second one must see what the rival did."""
    t = changed_table(tmp_path)
    build, options = OPERATIONS[operation]
    commit_rival, refused, message = RIVALS[rival]
    other = IcebergHandle(t.table.catalog, t.table.identifier)
    started = t.snapshot_id
    filtered = {} if operation.startswith("rewrite") else {"conflict_filter": t.where("k < 10 AND p = 0")}
    raced = Raced(build(t, starting_snapshot_id=started, **options, **filtered), lambda: commit_rival(t, other))
    if operation not in refused:
        t.table.commit(raced)
        assert raced.attempts == 2
        return
    with pytest.raises(ConflictError, match=message) as caught:
        t.table.commit(raced)
    assert raced.attempts == 2
    assert not caught.value.retryable
    assert t.table.refresh().snapshot().snapshot_id == other.refresh().snapshot().snapshot_id


V3_RIVALS: dict[str, tuple[Callable[[ChangedTable, IcebergHandle], None], set[str]]] = {
    "puts a vector on the file": (delete_rows_of_a, ALL),
    "puts a vector on another file": (delete_rows_of_another_file, set()),
}


@pytest.mark.parametrize("rival", V3_RIVALS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_vectors_of_rivals(tmp_path, operation, rival):
    t = changed_table(tmp_path, 3)
    build, options = OPERATIONS[operation]
    commit_rival, refused = V3_RIVALS[rival]
    other = IcebergHandle(t.table.catalog, t.table.identifier)
    raced = Raced(build(t, starting_snapshot_id=t.snapshot_id, **options), lambda: commit_rival(t, other))
    if operation in refused:
        with pytest.raises(ConflictError, match=r"added a deletion vector to|deleted rows of data files") as caught:
            t.table.commit(raced)
        assert not caught.value.retryable
    else:
        t.table.commit(raced)
        live = [entry for entry in t.entries(ManifestContent.DELETES).values() if entry.is_live]
        named = [entry.referenced_data_file for entry in live]
        assert len(named) == len(set(named))


def test_positions_of_several_files_conflict_by_their_bounds(tmp_path):
    """A file of positions of a whole partition names no data file; the bounds of its paths tell which it may be of."""
    t = changed_table(tmp_path, write__delete__granularity="partition")
    c = t.add(rows(range(5, 9), 0))
    other = IcebergHandle(t.table.catalog, t.table.identifier)
    started = t.snapshot_id
    deletes = t.delete_rows((t.a, [0]), (c, [0]))
    assert [entry.referenced_data_file for entry in deletes] == [None]
    other.commit(
        RowDelta(
            added_deletes=tuple(deletes), referenced_files=(t.a.location, c.location), starting_snapshot_id=started
        )
    )
    options = {"starting_snapshot_id": started, "isolation": "snapshot"}
    with pytest.raises(ConflictError, match="deleted rows of data files"):
        t.table.commit(OverwriteFiles(tuple(t.write(rows([7], 0))), (c.location,), **options))
    t.table.commit(OverwriteFiles(tuple(t.write(rows([17], 1))), (t.b.location,), **options))


def test_files_that_deletes_are_of_must_be_told_if_entries_do_not(tmp_path):
    t = changed_table(tmp_path, write__delete__granularity="partition")
    c = t.add(rows(range(5, 9), 0))
    started = t.snapshot_id
    update = RowDelta(
        added=tuple(t.write(rows([0, 5], 0, "new"))),
        added_deletes=tuple(t.delete_rows((t.a, [0]), (c, [0]))),
        referenced_files=(t.a.location, c.location),
        starting_snapshot_id=started,
    )
    remove_a(t, IcebergHandle(t.table.catalog, t.table.identifier))
    with pytest.raises(ConflictError, match=f"removed data file {t.a.location}"):
        t.table.commit(update)


def test_keys_of_an_unpartitioned_spec_are_of_all_partitions(tmp_path):
    t = changed_table(tmp_path, partitioned=False)
    other = IcebergHandle(t.table.catalog, t.table.identifier)
    started = t.snapshot_id
    delete_keys_of_b(t, other)
    with pytest.raises(ConflictError, match="deleted rows of data files"):
        t.table.commit(overwrite(t, starting_snapshot_id=started, isolation="snapshot"))


def test_metrics_tell_whether_new_rows_match(tmp_path):
    """Without partitions, too: the new file's bounds exclude what was read."""
    t = changed_table(tmp_path, partitioned=False)
    other = IcebergHandle(t.table.catalog, t.table.identifier)
    started = t.snapshot_id
    append_other_keys(t, other)
    t.table.commit(overwrite(t, starting_snapshot_id=started, conflict_filter=t.where("k < 10")))
    again = {"starting_snapshot_id": started, "conflict_filter": t.where("k BETWEEN 29 AND 31")}
    with pytest.raises(ConflictError, match="which may contain rows of"):
        t.table.commit(RowDelta(removed_files=(t.b.location,), **again))


def test_a_blind_change_needs_no_history(tmp_path):
    """A stream of keys has read nothing, so that nothing others do is in its way."""
    t = changed_table(tmp_path)
    t.table.commit(RowDelta(tuple(t.write(rows([1], 0, "new"))), tuple(t.delete_keys([1], 0)), isolation="snapshot"))
    assert t.summary["operation"] == "overwrite"


def test_a_branch_that_lost_the_starting_snapshot(tmp_path):
    t = changed_table(tmp_path)
    started = t.snapshot_id
    with pytest.raises(ConflictError, match="does not descend from snapshot 77") as caught:
        t.table.commit(overwrite(t, starting_snapshot_id=77))
    assert not caught.value.retryable
    empty = changed_table(tmp_path / "other")
    with pytest.raises(ConflictError, match="does not descend from"):
        empty.table.commit(overwrite(empty, starting_snapshot_id=started))


def test_what_is_to_be_removed_must_be_there(tmp_path):
    t = changed_table(tmp_path)
    with pytest.raises(ConflictError, match="data file file:///nowhere, which this commit removes") as caught:
        t.table.commit(RowDelta(removed_files=("file:///nowhere",), starting_snapshot_id=t.snapshot_id))
    assert not caught.value.retryable
    with pytest.raises(ConflictError, match="delete file file:///nowhere, which this commit removes"):
        t.table.commit(RowDelta(removed_deletes=(("file:///nowhere", None),), starting_snapshot_id=t.snapshot_id))


def test_delete_files_of_another_version(tmp_path):
    old, new = changed_table(tmp_path / "2"), changed_table(tmp_path / "3", 3)
    positions, vectors = old.delete_rows((old.a, [0])), new.delete_rows((new.a, [0]))
    with pytest.raises(ConflictError, match="version 3 adds deletion vectors, not position delete files"):
        new.table.commit(RowDelta(added_deletes=tuple(positions), starting_snapshot_id=new.snapshot_id))
    with pytest.raises(ConflictError, match="deletion vectors need version 3"):
        old.table.commit(RowDelta(added_deletes=tuple(vectors), starting_snapshot_id=old.snapshot_id))
    first = changed_table(tmp_path / "1", 1)
    with pytest.raises(ConflictError, match="delete files need version 2"):
        first.table.commit(RowDelta(added_deletes=tuple(positions), starting_snapshot_id=first.snapshot_id))


def test_a_second_vector_must_replace_the_first(tmp_path):
    t = changed_table(tmp_path, 3)
    first = t.delete_rows((t.a, [0]))
    t.table.commit(RowDelta(added_deletes=tuple(first), starting_snapshot_id=t.snapshot_id))
    second = RowDelta(added_deletes=tuple(t.delete_rows((t.a, [0, 1]))), starting_snapshot_id=t.snapshot_id)
    with pytest.raises(ConflictError, match=f"data file {t.a.location} has a deletion vector already"):
        t.table.commit(second)


def test_isolation_levels():
    assert Isolation.parse(" Snapshot ") is Isolation.SNAPSHOT
    with pytest.raises(SchemaError, match="no isolation level 'serialisable'; did you mean 'serializable'"):
        Isolation.parse("serialisable")


def test_a_conflict_leaves_no_files(tmp_path):
    """The first attempt staged manifests before it lost the race."""
    t = changed_table(tmp_path)
    other = IcebergHandle(t.table.catalog, t.table.identifier)
    operation = overwrite(t, starting_snapshot_id=t.snapshot_id)
    before: set[Any] = set()

    def rival() -> None:
        append_matching(t, other)
        before.update((tmp_path / "d" / "t" / "metadata").iterdir())

    with pytest.raises(ConflictError):
        t.table.commit(Raced(operation, rival))
    assert set((tmp_path / "d" / "t" / "metadata").iterdir()) == before
