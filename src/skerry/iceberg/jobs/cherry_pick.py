"""Cherry-pick staged snapshots or those of other branches, and keep the samples of their values.

A branch takes over the samples of added files if they are separate from those of others. Otherwise the files are
sampled first.
"""

from __future__ import annotations

from dataclasses import replace

from skerry.iceberg.cherry_pick import CherryPick, PublishStaged
from skerry.iceberg.handle import IcebergHandle
from skerry.iceberg.jobs.sketch_files import SketchTask, sketch_file
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.reading.scan import scan
from skerry.iceberg.statistics.samples import live_files
from skerry.table.rows.schema import leaves
from skerry.table.statistics.column_statistics import SketchPolicy
from skerry.table.statistics.file_groups import SketchedFile
from skerry.table.statistics.table_sample import sketched_file
from skerry.table.work.tasks import Executor, ThreadExecutor

__all__ = ["pick"]


def pick(
    table: IcebergHandle, operation: CherryPick | PublishStaged, *, executor: Executor | None = None
) -> TableState:
    """Apply to a branch what a snapshot added.

    Args:
        table: The table; refreshed first.
        operation: Which snapshot, and which branch.
        executor: Runs the sampling tasks; threads of this process by default.

    Raises:
        AlreadyExistsError: The branch has the snapshot's rows already.
        ConflictError: The snapshot cannot be applied to the branch as it is now.
        NotFoundError: There is no such snapshot or branch.
    """
    state = table.refresh()
    if SketchPolicy.from_properties(state.properties).enabled:
        snapshot_id, locations = operation.files_to_sample(state)
        if locations:
            found = _sample(state, snapshot_id, locations, executor or ThreadExecutor())
            operation = replace(operation, sampled=found)
    return table.commit(operation)


def _sample(
    state: TableState, snapshot_id: int, locations: frozenset[str], executor: Executor
) -> tuple[SketchedFile, ...]:
    columns = leaves(state.schema)
    reader = scan(state, [column.name for column in columns], threads=1).row_reader()
    field_ids = tuple(column.field_id for column in columns)
    snapshot = state.snapshot_by_id(snapshot_id)
    files = [task for task in live_files(state, snapshot) if task.data_file.location in locations]
    tasks = [SketchTask(task, reader, field_ids) for task in files]
    return tuple(
        sketched_file(task.data_file, sampled.samples, row_count=sampled.row_count, rows=sampled.rows)
        for task, sampled in zip(files, executor.map(sketch_file, tasks), strict=True)
    )
