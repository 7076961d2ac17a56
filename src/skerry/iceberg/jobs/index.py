"""Index: build the indexes that data files lack, and publish them in one commit."""

from __future__ import annotations

from skerry.iceberg.handle import IcebergHandle
from skerry.iceberg.indexing import index_tasks, indexed_table, register
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.reading.scan import scan
from skerry.table.files.data_file import DataFile
from skerry.table.indexes.publishing import build_missing, described_indexes, merge_small
from skerry.table.owned_files import owned_files
from skerry.table.summaries import IndexSummary, TableIndex
from skerry.table.work.tasks import Executor, ProgressCallback, ThreadExecutor

__all__ = ["index", "indexes", "merge_small_indexes"]


def index(
    table: IcebergHandle, *, executor: Executor | None = None, progress: ProgressCallback | None = None
) -> IndexSummary:
    """Build the indexes that the table's properties ask for, of the data files that lack them.

    Args:
        table: The table; refreshed first.
        executor: Runs the tasks; threads of this process by default.
        progress: Called after every file.

    Raises:
        ConflictError: Other writers won every race; the files written were removed.
        CommitUnknownError: The outcome is unknown; nothing was cleaned up.
        FormatError: A data file is damaged.
    """
    state = table.refresh()
    known = indexed_table(state)
    tasks = index_tasks(state, _data_files(state), known.indexes().covers)
    with owned_files(state.storage) as files:
        built, summary = build_missing(known, tasks, files, executor or ThreadExecutor(), progress)
        if built:
            table.commit(register(known, built, files))
    merge_small_indexes(table, executor)
    return summary


def merge_small_indexes(table: IcebergHandle, executor: Executor | None = None) -> None:
    """Merge the small indexes of the current snapshot's files, and publish what replaces them.

    Args:
        table: The table.
        executor: Runs the tasks; threads of this process by default.
    """
    known = indexed_table(table.state)
    if not known.pieces:
        return
    with owned_files(known.storage) as files:
        merged = merge_small(known, _data_files(table.state), files, executor or ThreadExecutor())
        if merged.new:
            table.commit(register(known, merged.new, files, merged.gone))


def indexes(state: TableState) -> list[TableIndex]:
    """The indexes of a table, and how many of the current snapshot's files have them."""
    return described_indexes(indexed_table(state), _data_files(state))


def _data_files(state: TableState) -> list[DataFile]:
    return [task.data_file for task in scan(state, []).plan()]
