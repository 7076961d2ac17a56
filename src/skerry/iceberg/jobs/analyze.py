"""Analyze: sketch the rows that no sample covers, and publish the sketches for the current snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from skerry.errors import UnsupportedError
from skerry.iceberg.handle import IcebergHandle
from skerry.iceberg.jobs.sketch_files import FileSample, SketchTask, sketch_file
from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.metadata.state import MAIN, TableState
from skerry.iceberg.metadata.table_metadata import data_key_bytes
from skerry.iceberg.reading.scan import scan
from skerry.iceberg.statistics.registered import freshness, latest_blobs
from skerry.iceberg.statistics.samples import deletes_of, live_files, read_sample, sample_of
from skerry.table.files.scan_task import FileScanTask
from skerry.table.owned_files import log_failures
from skerry.table.rows.schema import Leaf, leaf, leaves
from skerry.table.statistics.column_statistics import SketchPolicy
from skerry.table.statistics.file_groups import SketchedFile, key_of
from skerry.table.statistics.group_samples import GroupSamples
from skerry.table.statistics.group_sketches import group_sketch_bytes
from skerry.table.statistics.table_sample import TableSample, max_groups, sketched_file
from skerry.table.summaries import AnalyzeSummary
from skerry.table.work.tasks import Executor, JobProgress, ProgressCallback, ThreadExecutor
from skerry.theta.setops import union

__all__ = ["analyze", "catch_up"]

CATCH_UP_PROPERTY = "skerry.statistics.catch-up"
"""Table property: whether a commit first sketches what other writers added since the last one."""


def analyze(
    table: IcebergHandle,
    columns: Sequence[str] | None = None,
    *,
    executor: Executor | None = None,
    progress: ProgressCallback | None = None,
    full: bool = False,
) -> AnalyzeSummary:
    """Sketch the rows of the current snapshot that are not sketched yet, and publish sketches of all its rows.

    Files that samples cover are not read. Rows that other writers add in the meantime belong to later snapshots and are
    not included.

    Args:
        table: The table; refreshed first.
        columns: Dotted names; those that the table's properties choose if None.
        executor: Runs the sketching tasks; threads of this process by default.
        progress: Called after every file.
        full: Whether to sketch all files again, even those that samples cover.

    Raises:
        SchemaError: A column is unknown; the message suggests the nearest.
        UnsupportedError: The table or a file is encrypted, or a file uses unsupported features.
    """
    state = table.refresh()
    _check_not_encrypted(state)
    snapshot = state.snapshot()
    if columns is None:
        chosen = SketchPolicy.from_properties(state.properties).columns(state.schema, created=True)
    else:
        chosen = [leaf(state.schema, name) for name in columns]
    if snapshot is None or not chosen:
        return AnalyzeSummary(snapshot.snapshot_id if snapshot is not None else None, 0, 0, 0)
    known = TableSample() if full else sample_of(state, snapshot)
    work = _Work.plan(state, snapshot, chosen, known.groups, reads_all=full)
    if not work.tasks and not full and _is_published(state, snapshot, chosen):
        return AnalyzeSummary(snapshot.snapshot_id, len(chosen), 0, 0)
    sampled: list[FileSample] = []
    rows = size = 0
    for task, found in zip(work.tasks, (executor or ThreadExecutor()).map(sketch_file, work.tasks), strict=True):
        sampled.append(found)
        rows += task.file.data_file.record_count
        size += task.file.data_file.file_size_bytes
        if progress is not None:
            progress(JobProgress("sketch", len(sampled), len(work.tasks), rows, size))
    files = work.new_sketched_files(sampled)
    groups = work.groups_with(sampled, files, max_groups(state.properties))
    own = known.own.of(groups.groups, work.kept.groups, files, group_sketch_bytes(state.properties))
    sample = TableSample(groups, own=own)
    sketches = {field_id: sample.groups.sketch(field_id) for field_id in sample.exact_columns}
    table.publish_sketches(snapshot.snapshot_id, sketches, sample)
    return AnalyzeSummary(snapshot.snapshot_id, len(chosen), len(work.tasks), rows)


def _check_not_encrypted(state: TableState) -> None:
    if data_key_bytes(state.properties) is not None:
        raise UnsupportedError(
            "the table is encrypted, and files of statistics are not: no other engine could decrypt them",
            location=state.name,
        )


def catch_up(table: IcebergHandle, ref: str = MAIN, *, executor: Executor | None = None) -> TableState:
    """Sketch what other writers added to a table's main branch, if its property asks for that before a commit.

    Returns:
        The state to build on.
    """
    wanted = ref == MAIN and table.state.properties.get(CATCH_UP_PROPERTY, "false").strip().lower() == "true"
    wanted = wanted and data_key_bytes(table.state.properties) is None
    snapshot = table.state.snapshot() if wanted else None
    if snapshot is not None:
        with log_failures("what others have written was not sketched"):
            known = read_sample(table.state, snapshot)
            if known is None or known.missing_files:
                analyze(table, executor=executor)
    return table.state


@dataclass(frozen=True)
class _Work:
    """The sketching work to be done.

    Args:
        kept: The groups that remain valid.
        tasks: First the files of no group, with all columns; then the files of kept groups, with what those lack.
        new_files: The number of files of no group.
    """

    kept: GroupSamples
    tasks: Sequence[SketchTask]
    new_files: int

    @classmethod
    def plan(
        cls, state: TableState, snapshot: Snapshot, chosen: Sequence[Leaf], known: GroupSamples, *, reads_all: bool
    ) -> _Work:
        """Find the files that are in no group, or in one that is not exact for a requested column."""
        ids = {column.field_id for column in chosen}
        is_right = all(known.is_exact(field_id) for field_id in ids & known.columns.keys())
        exact = [row for row, group in enumerate(known.groups) if group.exact or is_right]
        kept = known.only_groups(exact)
        also = [column for column in leaves(state.schema) if column.field_id in kept.columns and kept.groups]
        all_columns = list({column.field_id: column for column in (*chosen, *also)}.values())
        lacking = [column for column in chosen if column.field_id not in kept.columns]
        covered = kept.files
        new: list[FileScanTask] = []
        old: list[FileScanTask] = []
        for file in live_files(state, snapshot):
            (old if key_of(file.data_file.location) in covered else new).append(file)
        tasks = [replace(task, reads_all=reads_all) for task in _tasks(state, new, all_columns)]
        return cls(kept, [*tasks, *(_tasks(state, old, lacking, samples_rows=False) if lacking else [])], len(new))

    def new_sketched_files(self, sampled: Sequence[FileSample]) -> list[SketchedFile]:
        """The samples of the files of no group."""
        return [
            sketched_file(
                task.file.data_file,
                found.samples,
                row_count=found.row_count,
                deletes=deletes_of(task.file),
                rows=found.rows,
            )
            for task, found in zip(self.tasks[: self.new_files], sampled, strict=False)
        ]

    def groups_with(
        self, sampled: Sequence[FileSample], files: Sequence[SketchedFile], max_groups: int
    ) -> GroupSamples:
        """The groups including the new samples.

        Args:
            sampled: The samples, task by task.
            files: The files of no group among them.
            max_groups: The maximum number of groups.
        """
        groups = self.kept
        of_old = {
            key_of(task.file.data_file.location): found
            for task, found in zip(self.tasks[self.new_files :], sampled[self.new_files :], strict=True)
        }
        for field_id in next(iter(of_old.values())).samples if of_old else ():
            parts = [union(of_old[key].samples[field_id].compact for key in group.files) for group in groups.groups]
            groups = groups.with_column(field_id, parts)
        return groups.with_files(files, max_groups=max_groups)


def _tasks(
    state: TableState, files: Sequence[FileScanTask], columns: Sequence[Leaf], *, samples_rows: bool = True
) -> list[SketchTask]:
    reader = scan(state, [column.name for column in columns], threads=1).row_reader()
    field_ids = tuple(column.field_id for column in columns)
    return [SketchTask(file, reader, field_ids, samples_rows=samples_rows) for file in files]


def _is_published(state: TableState, snapshot: Snapshot, columns: Sequence[Leaf]) -> bool:
    last = latest_blobs(state, snapshot)
    return all(freshness(state, snapshot, column, last.get(column.field_id)).is_fresh for column in columns)
