"""Compact: rewrite many files as few, with deletes applied and without changing rows.

Plan, write, commit: groups of files are planned on one snapshot, each is written by a task of its own, and all are
committed at once. If another writer has changed rows of a group in the meantime, the other groups are committed one by
one, and that group's partition is planned and written again.

Row ids and the sequence numbers of the rows' last change are kept (version 3). The new files take the data sequence
number of the snapshot that was read, so that later equality deletes still apply to them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skerry.errors import CommitUnknownError, ConflictError, NotFoundError
from skerry.iceberg.handle import IcebergHandle
from skerry.iceberg.jobs.analyze import catch_up
from skerry.iceberg.jobs.compact_plan import CompactRules, FileGroup, compact_rules, plan_groups
from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.metadata.sort_order import UNSORTED_SORT_ORDER, UNSORTED_SORT_ORDER_ID, SortOrder
from skerry.iceberg.metadata.state import MAIN, TableState
from skerry.iceberg.operations import RewriteFiles
from skerry.iceberg.partitioning.sorting import sort_order, z_order_columns
from skerry.iceberg.planning.live_files import live_data_files, needless_deletes
from skerry.iceberg.reading.scan import scan
from skerry.iceberg.writing.clustering import Clustering, clustered
from skerry.iceberg.writing.layout import FileLayout
from skerry.iceberg.writing.table_writers import write_batches
from skerry.storage import join
from skerry.table.arguments import Condition
from skerry.table.commit import RetryPolicy
from skerry.table.files.row_reader import RowReader
from skerry.table.files.scan_task import FileScanTask
from skerry.table.indexes.definitions import PIECES_PROPERTY
from skerry.table.owned_files import OwnedFiles, after_publish, log_after_publish
from skerry.table.rows.schema import leaves
from skerry.table.rows.values import decode_value
from skerry.table.statistics.written_file import WrittenFile
from skerry.table.summaries import CompactOptions, CompactSummary
from skerry.table.work.tasks import Executor, JobProgress, ProgressCallback, ThreadExecutor

__all__ = ["CompactTask", "compact", "compact_group"]


@dataclass(frozen=True)
class CompactTask:
    """Rewrite a group of files; small and picklable.

    Args:
        group: The files.
        reader: Reads their live rows, with row ids if the table has them.
        layout: The layout of the new files.
        clustering: The order of all rows of the group; None to keep their order.
    """

    group: FileGroup
    reader: RowReader
    layout: FileLayout
    clustering: Clustering | None = None


def compact_group(task: CompactTask) -> list[WrittenFile]:
    """Write the live rows of a group of files to new files; if that fails, what was written is removed."""
    if task.clustering is None:
        return write_batches(task.layout, task.reader.batches(task.group.tasks))
    return write_batches(task.layout, clustered(task.clustering, task.layout, task.reader, task.group.tasks))


def compact(
    table: IcebergHandle,
    where: Condition | None = None,
    options: CompactOptions | None = None,
    *,
    ref: str = MAIN,
    properties: Mapping[str, str] | None = None,
    executor: Executor | None = None,
    progress: ProgressCallback | None = None,
) -> CompactSummary:
    """Rewrite data files that are small, too large or have many deletes.

    Args:
        table: The table; refreshed first.
        where: Only files that may contain rows for which this condition is true.
        options: What to compact, and how. Without an order, each file is sorted in the table's sort order.
        ref: The branch.
        properties: Further entries of the snapshot summary.
        executor: Runs the tasks that write groups; threads of this process by default.
        progress: Called after every group.

    Raises:
        ConflictError: Other writers repeatedly changed the rows of all groups.
        CommitUnknownError: The outcome is unknown; nothing was cleaned up.
        SchemaError: An argument does not fit.
    """
    options = options or CompactOptions()
    state = table.refresh()
    rules = compact_rules(options, table.layout(ref=ref).target_file_size_bytes)
    job = _Compaction(table, where, options, rules, ref, properties or {}, executor or ThreadExecutor(), progress)
    summary = CompactSummary(_id(state.snapshot(ref)), dry_run=options.dry_run)
    if state.snapshot(ref) is None:
        return summary
    if options.dry_run:
        return job.planned(state)
    state = catch_up(table, ref, executor=executor)
    affected: set[Any] | None = None
    lost: tuple[FileGroup, ...] = ()
    for left in reversed(range(RetryPolicy.from_properties(state.properties).num_retries + 1)):
        try:
            round_ = job.run(state, job.layout(state), affected)
            summary, lost = _added(summary, round_.summary), round_.lost
            if not lost:
                return summary
            affected = {_partition(group) for group in lost}
            state = table.refresh()
        except CommitUnknownError:
            raise
        except Exception as error:
            if summary.groups:  # these are committed
                log_after_publish("compacting the other groups", error)
                break
            if not isinstance(error, NotFoundError):
                raise
            newest = table.refresh()  # other writers may have expired the snapshot to be compacted
            if not left or newest.metadata_location == state.metadata_location:
                raise
            state = newest
    if not summary.groups:
        raise round_.conflict or ConflictError("other writers changed the rows of all groups", location=state.name)
    return dataclasses.replace(summary, conflicts=len(lost))


def merge_compacted(table: IcebergHandle, options: CompactOptions, executor: Executor | None) -> None:
    """Merge the small indexes of a table that was compacted; see `skerry.iceberg.jobs.index.merge_small_indexes`."""
    if PIECES_PROPERTY not in table.state.properties or options.dry_run:
        return
    from skerry.iceberg.jobs.index import merge_small_indexes  # imports shards, which few tables need

    with after_publish("merging small indexes"):
        merge_small_indexes(table, executor)


@dataclass(frozen=True, slots=True)
class _Round:
    """The result of one attempt.

    Args:
        summary: What was committed.
        lost: Groups whose rows were changed by other writers.
        conflict: The error that showed it.
    """

    summary: CompactSummary
    lost: tuple[FileGroup, ...] = ()
    conflict: ConflictError | None = None


@dataclass(frozen=True, slots=True)
class _Written:
    """A group and the files that replace it."""

    group: FileGroup
    files: tuple[WrittenFile, ...] = ()

    @property
    def locations(self) -> list[str]:
        return [file.data_file.location for file in self.files]


@dataclass(frozen=True)
class _Compaction:
    """One call of `compact`."""

    table: IcebergHandle
    where: Condition | None
    options: CompactOptions
    rules: CompactRules
    ref: str
    properties: Mapping[str, str]
    executor: Executor
    progress: ProgressCallback | None

    def layout(self, state: TableState) -> FileLayout:
        """The layout of new files."""
        layout = self.table.layout(ref=self.ref, lineage=True)
        layout = dataclasses.replace(layout, target_file_size_bytes=self.rules.target_file_size_bytes)
        if self.options.curve is not None:
            z_order_columns(layout.iceberg_schema, self.options.curve)
            return dataclasses.replace(layout, sort_order=UNSORTED_SORT_ORDER)
        if self.options.sort_by is None:
            return layout
        wanted = sort_order(state.metadata.schema(), self.options.sort_by)
        # files may follow an order that the table does not have, but not declare it
        known = [order.order_id for order in state.metadata.sort_orders if order.fields == wanted.fields]
        order = SortOrder(*wanted.fields, order_id=known[0] if known else UNSORTED_SORT_ORDER_ID)
        return dataclasses.replace(layout, sort_order=order, presorted=True)

    def clustering(self, state: TableState, layout: FileLayout) -> Clustering | None:
        """The order of all rows of a group, if one was asked for.

        Raises:
            SchemaError: A column does not fit.
        """
        if self.options.curve is not None:
            ids = z_order_columns(layout.iceberg_schema, self.options.curve)
        elif layout.is_sorted and self.options.sort_by is not None:
            ids = ()
        else:
            return None
        looked_at = ids or [item.source_id for item in layout.sort_order.fields]
        names = [str(layout.iceberg_schema.find_column_name(field_id)) for field_id in looked_at]
        columns = [name for name in layout.schema.names if any(f"{one}.".startswith(f"{name}.") for one in names)]
        reader = scan(state, columns, ref=self.ref, threads=1).row_reader()
        return Clustering(reader, ids, is_hilbert=self.options.hilbert is not None)

    # ---- planning ----

    def planned(self, state: TableState) -> CompactSummary:
        """Summarise what would be done."""
        tasks = self._tasks(state)
        groups = self._groups(state, tasks, self.layout(state))
        gone = {location for group in groups for location in group.locations}
        return dataclasses.replace(
            _summary(_id(state.snapshot(self.ref)), [_Written(group) for group in groups]),
            removed_delete_files=len(needless_deletes(state, state.snapshot(self.ref), tasks, gone)),
            dry_run=True,
        )

    def _tasks(self, state: TableState) -> Sequence[FileScanTask]:
        """All files of the branch, because only they show which deletes are still needed."""
        return scan(state, ref=self.ref).plan()

    def _groups(self, state: TableState, tasks: Sequence[FileScanTask], layout: FileLayout) -> list[FileGroup]:
        snapshot = state.snapshot(self.ref)
        order = _by_lower_bound(state, snapshot, layout) if layout.is_sorted and snapshot is not None else None
        if self.where is None:
            return plan_groups(tasks, self.rules, order)
        chosen = {task.data_file.location for task in scan(state, where=self.where, ref=self.ref).plan()}
        return plan_groups((task for task in tasks if task.data_file.location in chosen), self.rules, order)

    # ---- doing ----

    def run(self, state: TableState, layout: FileLayout, partitions: set[Any] | None) -> _Round:
        """Plan, write and commit once.

        Args:
            state: The newest state.
            layout: The layout of new files.
            partitions: Only groups of these partitions; all if None.
        """
        tasks = self._tasks(state)
        groups = [
            group
            for group in self._groups(state, tasks, layout)
            if partitions is None or _partition(group) in partitions
        ]
        reader = scan(state, layout.file_schema.names, ref=self.ref, threads=1).row_reader()
        clustering = self.clustering(state, layout)
        todo = [
            CompactTask(group, reader, dataclasses.replace(layout, folder=join(layout.folder, str(number))), clustering)
            for number, group in enumerate(groups)
        ]
        with layout.owned_files() as files:
            return self._commit(state, tasks, list(self._write(todo, files)), files)

    def _write(self, tasks: Sequence[CompactTask], owned: OwnedFiles) -> Iterator[_Written]:
        rows = size = done = 0
        total = sum(len(task.group.tasks) for task in tasks)
        for task, files in zip(tasks, owned.map(self.executor, compact_group, tasks), strict=True):
            yield _Written(task.group, tuple(files))
            done += len(task.group.tasks)
            rows += sum(file.data_file.record_count for file in files)
            size += task.group.size_bytes
            if self.progress is not None:
                self.progress(JobProgress("compact", done, total, rows, size))

    def _commit(
        self, state: TableState, tasks: Sequence[FileScanTask], written: Sequence[_Written], owned: OwnedFiles
    ) -> _Round:
        """Commit all groups at once, or one by one after a conflict."""
        try:
            return _Round(self._replace(state, tasks, written))
        except ConflictError as conflict:
            if conflict.retryable or not written:
                raise
            if len(written) == 1:
                owned.remove(written[0].locations)
                return _Round(CompactSummary(None), (written[0].group,), conflict)
            return self._commit_each(state, tasks, written, owned, conflict)

    def _commit_each(
        self,
        state: TableState,
        tasks: Sequence[FileScanTask],
        written: Sequence[_Written],
        owned: OwnedFiles,
        conflict: ConflictError,
    ) -> _Round:
        """Commit every group separately; once one is committed, groups that cannot follow it are given up."""
        done = _Round(CompactSummary(None), (), conflict)
        for number, one in enumerate(written):
            try:
                round_ = self._commit(state, tasks, [one], owned)
            except CommitUnknownError:
                raise
            except Exception as error:
                if not done.summary.groups:
                    raise
                log_after_publish("committing the other groups", error)
                owned.remove(location for other in written[number:] for location in other.locations)
                return dataclasses.replace(done, lost=(*done.lost, *(other.group for other in written[number:])))
            done = _Round(_added(done.summary, round_.summary), (*done.lost, *round_.lost), conflict)
        return done

    def _replace(self, state: TableState, tasks: Sequence[FileScanTask], written: Sequence[_Written]) -> CompactSummary:
        snapshot = state.snapshot(self.ref)
        gone = [location for one in written for location in one.group.locations]
        needless = needless_deletes(state, snapshot, tasks, set(gone))
        if snapshot is None or not (gone or needless):
            return CompactSummary(_id(snapshot))
        committed = self.table.commit(
            RewriteFiles(
                added=tuple(file for one in written for file in one.files),
                removed_files=tuple(gone),
                removed_deletes=tuple(needless),
                sequence_number=snapshot.sequence_number,
                starting_snapshot_id=snapshot.snapshot_id,
                ref=self.ref,
                properties=self.properties,
            )
        )
        done = _summary(_id(committed.snapshot(self.ref)), written)
        return dataclasses.replace(done, removed_delete_files=len(needless))


# Summaries -----------------------------------------------------------------------------------------------------------


def _id(snapshot: Snapshot | None) -> int | None:
    return None if snapshot is None else int(snapshot.snapshot_id)


def _summary(snapshot_id: int | None, written: Sequence[_Written]) -> CompactSummary:
    files = [file.data_file for one in written for file in one.files]
    reasons: dict[str, int] = {}
    for one in written:
        reasons[one.group.reason.value] = reasons.get(one.group.reason.value, 0) + 1
    return CompactSummary(
        snapshot_id,
        groups=len(written),
        rewritten_files=sum(len(one.group.tasks) for one in written),
        rewritten_bytes=sum(one.group.size_bytes for one in written),
        added_files=len(files),
        added_bytes=sum(file.file_size_bytes for file in files),
        rows=sum(file.record_count for file in files),
        reasons=reasons,
    )


def _added(left: CompactSummary, right: CompactSummary) -> CompactSummary:
    """The sum of two summaries."""
    counts = (
        "groups",
        "rewritten_files",
        "rewritten_bytes",
        "added_files",
        "added_bytes",
        "rows",
        "removed_delete_files",
    )
    reasons = {why: left.reasons.get(why, 0) + right.reasons.get(why, 0) for why in {**left.reasons, **right.reasons}}
    return dataclasses.replace(
        left,
        snapshot_id=right.snapshot_id or left.snapshot_id,
        reasons=reasons,
        **{name: getattr(left, name) + getattr(right, name) for name in counts},
    )


# Groups --------------------------------------------------------------------------------------------------------------


def _partition(group: FileGroup) -> tuple[Any, ...]:
    file = group.tasks[0].data_file
    return (file.spec_id, *map(repr, file.partition))


def _by_lower_bound(
    state: TableState, snapshot: Snapshot, layout: FileLayout
) -> Callable[[FileScanTask], tuple[Any, ...]] | None:
    """Orders files by their minimum of the first sort column; None if it is unknown."""
    first = layout.sort_order.fields[0]
    column = next((leaf for leaf in leaves(layout.schema) if leaf.field_id == first.source_id), None)
    if column is None or not first.transform.preserves_order:
        return None
    bounds = {
        file.location: decode_value(column.type, bound)
        for file in live_data_files(state, snapshot)
        if (bound := file.lower_bounds.get(first.source_id)) is not None
    }

    def key(task: FileScanTask) -> tuple[Any, ...]:
        location = task.data_file.location
        return (True, bounds[location]) if location in bounds else (False,)

    return key
