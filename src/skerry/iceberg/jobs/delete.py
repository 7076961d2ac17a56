"""Delete the rows for which a condition is true, and overwrite: delete and append in one commit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from skerry.errors import SchemaError
from skerry.iceberg.jobs.rewrite import FileChange, Matches
from skerry.iceberg.jobs.row_changes import (
    POSITION,
    ChangeRequest,
    Found,
    apply_changes,
    redo_after_conflicts,
)
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.reading.scan import scan
from skerry.iceberg.writing.table_writers import write_batches
from skerry.storage import Storage
from skerry.table.arguments import Condition, Rows
from skerry.table.files.data_file import DeleteKind
from skerry.table.files.row_deletes import deleted_positions
from skerry.table.files.row_reader import RowReader
from skerry.table.files.scan_task import FileScanTask
from skerry.table.merging.rules import RowNumbers
from skerry.table.rows.incoming import conform
from skerry.table.statistics.written_file import WrittenFile
from skerry.table.summaries import RowChangeSummary

__all__ = ["PositionFinder", "delete", "overwrite"]


def delete(request: ChangeRequest, where: Condition) -> RowChangeSummary:
    """Delete rows.

    Files that cannot contain such rows are not read; files that contain only such rows are dropped unread.

    Args:
        request: The table, and how to change it.
        where: Which rows: SQL text or a PyArrow expression.

    Returns:
        What was changed.

    Raises:
        ConflictError: Other writers repeatedly changed the same rows.
        FormatError: `where` is not a condition.
        SchemaError: `where` does not fit the table's columns, or is None.
    """
    if where is None:
        raise SchemaError("delete needs a condition; 'TRUE' deletes all rows")

    def attempt(state: TableState) -> RowChangeSummary:
        return _replace(request, state, where, ())

    return redo_after_conflicts(request, attempt)


def overwrite(request: ChangeRequest, data: Rows, where: Condition | None = None) -> RowChangeSummary:
    """Replace the rows for which a condition is true.

    Args:
        request: The table, and how to change it.
        data: The new rows, anything with the Arrow C stream interface; they need not satisfy the condition.
        where: The rows to replace; all if None.

    Returns:
        What was changed.

    Raises:
        ConflictError: Other writers repeatedly changed the same rows.
        FormatError: `where` is not a condition.
        SchemaError: `where` or the data does not fit the table's columns.
    """
    state = request.table.refresh()
    scan(state, where=where, ref=request.ref)  # checks the condition before rows are written
    layout = request.table.layout(ref=request.ref)
    with layout.owned_files():
        written = write_batches(layout, conform(data, state.schema))
        return redo_after_conflicts(request, lambda state: _replace(request, state, where, written))


@dataclass(frozen=True)
class PositionFinder:
    """Finds the positions of a reader's rows in a part of a data file; picklable.

    Args:
        reader: Delivers `_pos`.
    """

    reader: RowReader

    def __call__(self, task: FileScanTask) -> RowNumbers:
        """int64[n], the positions, ascending."""
        parts = [batch.column(0).to_numpy() for batch in self.reader.batches([task])]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _replace(
    request: ChangeRequest, state: TableState, where: Condition, written: Sequence[WrittenFile]
) -> RowChangeSummary:
    """Remove rows from one state, add others, and commit."""
    looked = scan(state, [POSITION], where, ref=request.ref, threads=1)
    reader = looked.row_reader()
    by_file: dict[str, list[FileScanTask]] = {}
    for task in looked.plan(indexed=True):
        by_file.setdefault(task.data_file.location, []).append(task)
    whole = {location: tasks[0] for location, tasks in by_file.items() if all(task.matches_all for task in tasks)}
    open_ = [task for location, tasks in by_file.items() if location not in whole for task in tasks]
    positions: dict[str, list[RowNumbers]] = {}
    deleted = 0
    for number, (task, rows) in enumerate(
        zip(open_, request.executor.map(PositionFinder(reader), open_), strict=True), 1
    ):
        deleted += len(rows)
        if len(rows):
            positions.setdefault(task.data_file.location, []).append(rows)
        request.report("find", number, len(open_), deleted)
    deleted += _count_rows(state.storage, reader, whole.values())
    done = apply_changes(
        request,
        Found(
            state,
            request.table.layout(ref=request.ref, lineage=True),
            conflict_filter=looked.predicate,
            changes=[
                FileChange(tuple(by_file[location]), Matches.to_delete(np.sort(np.concatenate(found))))
                for location, found in positions.items()
            ],
            removed=list(whole),
            written=written,
        ),
    )
    return replace(done, deleted_rows=deleted, inserted_rows=sum(file.data_file.record_count for file in written))


def _count_rows(storage: Storage, reader: RowReader, tasks: Iterable[FileScanTask]) -> int:
    """The number of live rows in whole files; only files with equality deletes are read for that."""
    known, open_ = 0, []
    for task in tasks:
        kinds = {delete.kind for delete in task.deletes}
        if DeleteKind.KEYS in kinds:
            open_.append(replace(task, start_byte=0, end_byte=None))
        elif DeleteKind.POSITIONS in kinds:
            known += task.data_file.record_count - len(deleted_positions(storage, task))
        else:  # a vector names every row once
            known += task.data_file.record_count - sum(delete.record_count for delete in task.deletes)
    return known + (reader.count(open_) if open_ else 0)
