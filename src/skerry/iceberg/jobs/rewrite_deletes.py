"""Rewrite delete files: one per data file instead of several, deletion vectors instead of position deletes.

Rows do not change. A data file with many small delete files is left with one: in tables of version 2 one file of its
positions, from version 3 on its deletion vector. Delete files that no data file needs are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from skerry.arguments import check_whole_number
from skerry.errors import ConflictError
from skerry.iceberg.handle import IcebergHandle
from skerry.iceberg.manifests.manifest import ManifestEntry
from skerry.iceberg.metadata.state import MAIN, TableState
from skerry.iceberg.operations import DeleteKey, RewriteFiles
from skerry.iceberg.planning.live_files import needless_deletes
from skerry.iceberg.reading.scan import scan
from skerry.iceberg.writing.delete_files import write_deletion_vectors, write_position_deletes
from skerry.iceberg.writing.layout import FileLayout
from skerry.storage import join
from skerry.table.commit import RetryPolicy
from skerry.table.files.data_file import DeleteFile, DeleteKind
from skerry.table.files.row_deletes import RowDeletes
from skerry.table.files.scan_task import FileScanTask
from skerry.table.statistics.file_groups import deletes_key
from skerry.table.statistics.table_sample import delete_name
from skerry.table.summaries import DeletesSummary
from skerry.table.work.tasks import Executor, JobProgress, ProgressCallback, ThreadExecutor

__all__ = ["DeletesTask", "rewrite_deletes", "write_deletes"]

_VERSION_WITH_VECTORS = 3
_FILES_OF_TASK = 64


@dataclass(frozen=True)
class DeletesTask:
    """Data files whose deletes are to be rewritten; picklable.

    Args:
        tasks: The data files, with all their deletes.
        layout: The layout of delete files.
        as_vectors: Whether to write deletion vectors.
    """

    tasks: tuple[FileScanTask, ...]
    layout: FileLayout = field(repr=False)
    as_vectors: bool


def write_deletes(task: DeletesTask) -> list[ManifestEntry]:
    """Write one delete file, or vector, for each data file with deleted positions.

    Raises:
        FormatError: A delete file is corrupt.
        NotFoundError: One is missing.
    """
    deletes = RowDeletes(task.layout.storage)
    found = ((one.data_file, deletes.positions(one)) for one in task.tasks)
    return (write_deletion_vectors if task.as_vectors else write_position_deletes)(task.layout, found)


def rewrite_deletes(
    table: IcebergHandle,
    *,
    min_input_files: int = 2,
    ref: str = MAIN,
    dry_run: bool = False,
    properties: Mapping[str, str] | None = None,
    executor: Executor | None = None,
    progress: ProgressCallback | None = None,
) -> DeletesSummary:
    """Merge the position deletes of data files, and drop delete files that are not needed.

    Args:
        table: The table; refreshed first.
        min_input_files: Data files with this many position delete files are rewritten; from version 3 on every position
            delete file becomes part of a vector.
        ref: The branch.
        dry_run: Only plan.
        properties: Further entries of the snapshot summary.
        executor: Runs the tasks that read and write delete files; threads of this process by default.
        progress: Called with the progress.

    Raises:
        ConflictError: Other writers repeatedly changed the same rows.
        CommitUnknownError: The outcome is unknown; nothing was cleaned up.
        FormatError: A delete file is corrupt; nothing was changed.
        SchemaError: An argument is invalid, or the reference is a tag.
    """
    check_whole_number("min_input_files", min_input_files, 2)
    state = table.refresh()
    runner = executor or ThreadExecutor()
    for left in reversed(range(RetryPolicy.from_properties(state.properties).num_retries + 1)):
        plan = _plan(state, ref, min_input_files)
        if dry_run or not (plan.chosen or plan.dropped):
            return plan.summary(state, ref, dry_run=dry_run)
        try:
            return _rewrite(table, plan, ref, properties or {}, runner, progress)
        except ConflictError as conflict:
            if conflict.retryable or not left:
                raise
        state = table.refresh()
    raise AssertionError("the last attempt returns or raises")


@dataclass(frozen=True)
class _Plan:
    """The plan of one attempt.

    Args:
        chosen: Data files whose deletes are rewritten.
        dropped: Delete files that no data file needs.
    """

    chosen: tuple[FileScanTask, ...]
    dropped: tuple[DeleteKey, ...]

    @property
    def rewritten(self) -> dict[DeleteKey, DeleteFile]:
        """The deletes that are rewritten."""
        return {
            (delete.location, delete.content_offset): delete
            for task in self.chosen
            for delete in task.deletes
            if delete.kind is not DeleteKind.KEYS
        }

    def summary(self, state: TableState, ref: str, *, added: int = 0, dry_run: bool = False) -> DeletesSummary:
        snapshot = state.branch(ref)
        return DeletesSummary(
            None if snapshot is None else snapshot.snapshot_id,
            len(self.chosen),
            len(self.rewritten),
            added,
            len(self.dropped),
            dry_run,
        )


def _plan(state: TableState, ref: str, min_input_files: int) -> _Plan:
    snapshot = state.branch(ref)
    if snapshot is None:
        return _Plan((), ())
    tasks = scan(state, ref=ref).plan()
    vectors = state.metadata.format_version >= _VERSION_WITH_VECTORS
    least = 1 if vectors else min_input_files
    with_positions = [
        (task, of_positions)
        for task in tasks
        if (of_positions := {one.location for one in task.deletes if one.kind is DeleteKind.POSITIONS})
    ]
    chosen = {index for index, (_, names) in enumerate(with_positions) if len(names) >= least}
    # a position delete file can be dropped only if the deletes of all its data files are rewritten
    going: set[str] = set()
    while True:
        named = {name for index in chosen for name in with_positions[index][1]}
        if named == going:
            break
        going = named
        chosen |= {index for index, (_, names) in enumerate(with_positions) if not names.isdisjoint(going)}
    return _Plan(
        tuple(with_positions[index][0] for index in sorted(chosen)),
        tuple(needless_deletes(state, snapshot, tasks)),
    )


def _rewrite(
    table: IcebergHandle,
    plan: _Plan,
    ref: str,
    properties: Mapping[str, str],
    executor: Executor,
    progress: ProgressCallback | None,
) -> DeletesSummary:
    state = table.state
    snapshot = state.branch(ref)
    layout = replace(table.layout(ref=ref), deletes_by_partition=False)
    vectors = state.metadata.format_version >= _VERSION_WITH_VECTORS
    todo = [
        DeletesTask(plan.chosen[start : start + _FILES_OF_TASK], replace(layout, folder=folder), vectors)
        for start in range(0, len(plan.chosen), _FILES_OF_TASK)
        for folder in [join(layout.folder, str(start))]
    ]
    entries: list[ManifestEntry] = []
    with layout.owned_files() as files:
        for number, written in enumerate(files.map(executor, write_deletes, todo), 1):
            entries += written
            if progress is not None:
                progress(
                    JobProgress("rewrite deletes", min(number * _FILES_OF_TASK, len(plan.chosen)), len(plan.chosen))
                )
        committed = table.commit(
            RewriteFiles(
                removed_deletes=(*plan.rewritten, *plan.dropped),
                added_deletes=tuple(entries),
                starting_snapshot_id=snapshot.snapshot_id if snapshot is not None else None,
                ref=ref,
                properties=properties,
                delete_changes=_delete_changes(plan.chosen, entries),
            )
        )
    return plan.summary(committed, ref, added=len(entries))


def _delete_changes(tasks: Sequence[FileScanTask], entries: Sequence[ManifestEntry]) -> dict[str, int]:
    """The keys of the deletes that data files gain or lose."""
    changes = {
        task.data_file.location: deletes_key(
            delete_name(delete.location, delete.content_offset)
            for delete in task.deletes
            if delete.kind is not DeleteKind.KEYS
        )
        for task in tasks
    }
    for entry in entries:
        location = str(entry.referenced_data_file)
        changes[location] ^= deletes_key([delete_name(entry.data_file.location, entry.content_offset)])
    return changes
