"""The shared part of all jobs that change rows: apply the changes found, commit, and retry after conflicts.

A job reads one snapshot and determines which rows of which data files change. Copy-on-write then rewrites those files,
merge-on-read writes delete files for them. If another writer made conflicting changes in the meantime, the job is
planned and done again on the new state, so that the outcome is as if it had begun later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from skerry.errors import ConflictError, SchemaError, UnsupportedError
from skerry.iceberg.cherry_pick import WAP_ID
from skerry.iceberg.handle import IcebergHandle
from skerry.iceberg.jobs.analyze import catch_up
from skerry.iceberg.jobs.lost_values import subtract_deleted
from skerry.iceberg.jobs.rewrite import FileChange, Rewriter, UpdateRows, pack
from skerry.iceberg.manifests.manifest import ManifestEntry
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.operations import DeleteKey, OverwriteFiles, RowDelta
from skerry.iceberg.operations.change_mode import ChangeMode
from skerry.iceberg.operations.conflicts import Isolation
from skerry.iceberg.reading.scan import scan
from skerry.iceberg.writing.delete_files import write_deletion_vectors, write_position_deletes
from skerry.iceberg.writing.layout import FileLayout
from skerry.storage import Storage
from skerry.table.commit import RetryPolicy
from skerry.table.files.data_file import DeleteKind
from skerry.table.files.row_deletes import deleted_positions, distinct_positions
from skerry.table.owned_files import OwnedFiles
from skerry.table.predicate import Predicate
from skerry.table.statistics.file_groups import deletes_key
from skerry.table.statistics.table_sample import delete_name, partition_name
from skerry.table.statistics.written_file import WrittenFile
from skerry.table.summaries import RowChangeSummary
from skerry.table.work.read_ahead import default_threads
from skerry.table.work.tasks import Executor, JobProgress, ProgressCallback, ThreadExecutor

__all__ = [
    "ChangeRequest",
    "Found",
    "apply_changes",
    "redo_after_conflicts",
]

VERSION_WITH_VECTORS = 3
POSITION = "_pos"

Result = TypeVar("Result")


@dataclass(frozen=True)
class ChangeRequest:
    """Where and how a job changes rows.

    Args:
        table: The table.
        action: Selects the table properties: `delete` or `merge`, as in `write.delete.mode`.
        ref: The branch.
        properties: Further entries of the snapshot summary.
        executor: Runs the tasks that read and rewrite files.
        progress: Called with the progress.
        staged: Whether the branch does not move; `properties` then identify the snapshot by `wap.id`.
    """

    table: IcebergHandle
    action: str
    ref: str
    properties: Mapping[str, str] = field(default_factory=dict)
    executor: Executor = field(default_factory=ThreadExecutor)
    progress: ProgressCallback | None = None
    staged: bool = False

    def mode(self, state: TableState) -> ChangeMode:
        """The mode of row changes that the table's properties set.

        Raises:
            SchemaError: The property has an invalid value.
            UnsupportedError: It asks for delete files, which version 1 does not support.
        """
        mode = ChangeMode.from_properties(state.properties, self.action)
        if mode is ChangeMode.MERGE_ON_READ and state.metadata.format_version < 2:
            raise UnsupportedError(
                f"table property write.{self.action}.mode={mode.value} needs delete files, which tables of format "
                "version 1 do not support: upgrade the table to version 2",
                location=state.name,
            )
        return mode

    def isolation(self, state: TableState) -> str:
        """The isolation level: which concurrent changes the job may ignore.

        Raises:
            SchemaError: The property has an invalid value.
        """
        return Isolation.from_properties(state.properties, self.action).value

    def outcome(self, state: TableState) -> RowChangeSummary:
        """A summary with the snapshot of `state` that contains the job's changes, if any, and without counts."""
        if self.staged:
            for staged in reversed(state.metadata.snapshots):
                if staged.summary is not None and staged.summary.get(WAP_ID) == self.properties[WAP_ID]:
                    return RowChangeSummary(staged.snapshot_id)
        snapshot = state.snapshot(self.ref)
        return RowChangeSummary(snapshot.snapshot_id if snapshot is not None else None)

    def report(self, step: str, done_files: int, total_files: int, done_rows: int) -> None:
        """Report the progress of the job."""
        if self.progress is not None:
            self.progress(JobProgress(step, done_files, total_files, done_rows))


def redo_after_conflicts(request: ChangeRequest, attempt: Callable[[TableState], Result]) -> Result:
    """Run a job, and repeat it on the new state after conflicting changes by other writers.

    Args:
        request: Where to run it.
        attempt: Plans, writes and commits on a state. It removes what it wrote when it fails.

    Raises:
        ConflictError: There were conflicts in all attempts that `commit.retry.num-retries` allows.
        SchemaError: A column of the table has the name of the position column.
    """
    state = request.table.refresh()
    if POSITION in state.schema.names:
        raise SchemaError(
            f"column {POSITION!r} has a name that is reserved for row changes; rename it", location=state.name
        )
    request.mode(state), request.isolation(state)  # validated before work begins
    state = catch_up(request.table, request.ref, executor=request.executor)
    retries = RetryPolicy.from_properties(state.properties).num_retries
    for number in range(retries + 1):
        try:
            return attempt(state)
        except ConflictError as error:
            if error.retryable or number == retries:  # the commit loop has already retried what can be retried
                error.message = f"failed after {number + 1} attempts: {error.message}" if number else error.message
                raise
        state = request.table.refresh()
    raise AssertionError("unreachable")


# From what was found to a commit ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """What a job found and wrote on one state.

    Args:
        state: The state.
        layout: The layout of the files that the job writes; they share its folder.
        conflict_filter: What was read: concurrently added rows that it excludes are not a conflict.
        changes: Data files with rows to be updated or deleted.
        removed: Data files without remaining rows.
        written: Data files with new rows.
        updates: bool[actions], whether an action is an update; the others are deletes.
        update: Computes updated rows for copy-on-write; None if there are no updates, or they are written already.
    """

    state: TableState
    layout: FileLayout
    conflict_filter: Predicate
    changes: Sequence[FileChange] = ()
    removed: Sequence[str] = ()
    written: Sequence[WrittenFile] = ()
    updates: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(1, bool))
    update: UpdateRows | None = None


@dataclass(frozen=True, slots=True)
class _Replacement:
    """What is committed: added and removed files."""

    written: tuple[WrittenFile, ...]
    removed: tuple[str, ...]
    deletes: tuple[ManifestEntry, ...] = ()
    replaced_deletes: tuple[DeleteKey, ...] = ()
    referenced: tuple[str, ...] = ()
    delete_changes: Mapping[str, int] = field(default_factory=dict)


def apply_changes(request: ChangeRequest, found: Found) -> RowChangeSummary:
    """Apply changes in one commit.

    Args:
        request: Where and how to apply them.
        found: The changes.

    Returns:
        What was added and removed; the counts of rows are for the caller to fill in.

    Raises:
        ConflictError: Other writers changed the same rows (not retryable), or won every race.
        CommitUnknownError: The outcome is unknown; nothing was cleaned up.
    """
    state = found.state
    if not (found.changes or found.removed or found.written):
        return request.outcome(state)
    with found.layout.owned_files() as files:
        return _commit(request, found, files)


def _commit(request: ChangeRequest, found: Found, files: OwnedFiles) -> RowChangeSummary:
    state = found.state
    copies = request.mode(state) is ChangeMode.COPY_ON_WRITE
    made = _copied(request, found, files) if copies else _marked(found)
    changes = () if copies else [change for change in found.changes if change.location in made.delete_changes]
    thinned, resketched = subtract_deleted(
        request.executor, state, request.ref, changes, made.removed, made.delete_changes
    )
    snapshot = state.snapshot(request.ref)
    starting_snapshot_id = snapshot.snapshot_id if snapshot is not None else None
    operation: OverwriteFiles | RowDelta
    if copies:
        operation = OverwriteFiles(
            added=made.written,
            removed_files=made.removed,
            starting_snapshot_id=starting_snapshot_id,
            isolation=request.isolation(state),
            conflict_filter=found.conflict_filter,
            ref=request.ref,
            properties=request.properties,
            staged=request.staged,
            resketched=resketched,
        )
    else:
        operation = RowDelta(
            added=made.written,
            added_deletes=made.deletes,
            removed_files=made.removed,
            removed_deletes=made.replaced_deletes,
            referenced_files=made.referenced,
            delete_changes=made.delete_changes,
            thinned=thinned,
            resketched=resketched,
            starting_snapshot_id=starting_snapshot_id,
            isolation=request.isolation(state),
            conflict_filter=found.conflict_filter,
            ref=request.ref,
            properties=request.properties,
            staged=request.staged,
        )
    committed = request.table.commit(operation)
    return replace(
        request.outcome(committed),
        added_files=len(made.written),
        removed_files=len(made.removed),
        added_delete_files=len(made.deletes),
    )


def _copied(request: ChangeRequest, found: Found, owned: OwnedFiles) -> _Replacement:
    """Copy-on-write: every changed file is rewritten, unless none of its rows remain."""
    emptied = [
        change.location
        for change in found.changes
        if (found.update is None or not found.updates[change.matches.actions].any())
        and _leaves_no_row(found.state.storage, change)
    ]
    gone = set(emptied)
    changes = [change for change in found.changes if change.location not in gone]
    written = list(found.written)
    if changes:
        columns = [*found.layout.file_schema.names, POSITION]
        reader = scan(found.state, columns, ref=request.ref, threads=1).row_reader()
        rewriter = Rewriter(found.layout, reader, found.updates, found.update)
        packs = pack(changes, found.layout.target_file_size_bytes, default_threads())
        rows = 0
        for number, files in enumerate(owned.map(request.executor, rewriter, packs), 1):
            written += files
            rows += sum(file.data_file.record_count for file in files)
            request.report("rewrite", number, len(packs), rows)
    return _Replacement(tuple(written), (*found.removed, *emptied, *(change.location for change in changes)))


def _marked(found: Found) -> _Replacement:
    """Merge-on-read: delete files contain the rows, unless none of their file's rows remain."""
    storage = found.state.storage
    emptied = [change.location for change in found.changes if _leaves_no_row(storage, change)]
    gone = set(emptied)
    changes = [change for change in found.changes if change.location not in gone]
    needless: dict[str, list[DeleteKey]] = {}
    if found.state.metadata.format_version >= VERSION_WITH_VECTORS:
        deletes = []
        for change in changes:
            before = deleted_positions(storage, change.tasks[0])
            deletes.append((change.tasks[0].data_file, distinct_positions(before, change.matches.positions)))
            needless[change.location] = _of_this_file_alone(change)
        entries = write_deletion_vectors(found.layout, deletes)
    else:
        positions = [(change.tasks[0].data_file, change.matches.positions) for change in changes]
        entries = write_position_deletes(found.layout, positions)
    referenced = tuple(change.location for change in changes)
    gained = _GainedDeletes(entries)
    return _Replacement(
        tuple(found.written),
        (*found.removed, *emptied),
        tuple(entries),
        tuple(key for keys in needless.values() for key in keys),
        referenced,
        {change.location: gained.key_of(change, needless.get(change.location, ())) for change in changes},
    )


class _GainedDeletes:
    """New delete files by the data files that they concern.

    Args:
        added: The delete files: each is for one data file, or for all of a partition.
    """

    def __init__(self, added: Iterable[ManifestEntry]) -> None:
        self._by_file: dict[str, list[str]] = {}
        self._by_partition: dict[str, list[str]] = {}
        for entry in added:
            file = entry.data_file
            name = delete_name(file.location, entry.content_offset)
            if entry.referenced_data_file is None:
                self._by_partition.setdefault(partition_name(file.spec_id, file.partition), []).append(name)
            else:
                self._by_file.setdefault(entry.referenced_data_file, []).append(name)

    def key_of(self, change: FileChange, removed: Iterable[DeleteKey]) -> int:
        """The key of the deletes that a data file gains or loses."""
        file = change.tasks[0].data_file
        gained = self._by_file.get(file.location, [])
        if self._by_partition:
            gained = gained + self._by_partition.get(partition_name(file.spec_id, file.partition), [])
        return deletes_key([*gained, *(delete_name(location, offset) for location, offset in removed)])


def _of_this_file_alone(change: FileChange) -> list[DeleteKey]:
    """The delete files that a new deletion vector replaces: the previous vector, and position delete files."""
    return [
        (delete.location, delete.content_offset)
        for delete in change.tasks[0].deletes
        if delete.kind is DeleteKind.VECTOR
        or (delete.kind is DeleteKind.POSITIONS and delete.referenced_data_file == change.location)
    ]


def _leaves_no_row(storage: Storage, change: FileChange) -> bool:
    """Whether all rows of a file are either changed now or were deleted before."""
    task = change.tasks[0]
    count = task.data_file.record_count
    deleted = sum(delete.record_count for delete in task.deletes if delete.kind is not DeleteKind.KEYS)
    if len(change.matches) + deleted < count:
        return False
    return len(distinct_positions(deleted_positions(storage, task), change.matches.positions)) >= count
