"""Index: build the indexes that data files lack, and publish them in one commit."""

from __future__ import annotations

from skerry.iceberg.handle import IcebergHandle
from skerry.iceberg.indexing import build_indexes, index_tasks, register, wanted_index
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.reading.scan import scan
from skerry.table.files.data_file import DataFile
from skerry.table.indexes.building import IndexTask
from skerry.table.indexes.definitions import index_definitions
from skerry.table.indexes.finding import TableIndexes
from skerry.table.owned_files import owned_files
from skerry.table.summaries import IndexSummary, TableIndex
from skerry.table.work.tasks import Executor, JobProgress, ProgressCallback, ThreadExecutor

__all__ = ["index", "indexes"]


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
    known = TableIndexes(state.storage, state.metadata.location, state.properties)
    tasks = index_tasks(state, _data_files(state), known.covers)
    done = rows = 0

    def count(task: IndexTask) -> None:
        nonlocal done, rows
        done, rows = done + 1, rows + task.data_file.record_count
        if progress is not None:
            progress(JobProgress("index", done, len(tasks), rows, 0))

    with owned_files(state.storage) as files:
        built = build_indexes(state, tasks, files, executor or ThreadExecutor(), count)
        if built:
            table.commit(register(state, built, files))
    return IndexSummary(len(built), rows, sum(each.size_bytes for each in built))


def indexes(state: TableState) -> list[TableIndex]:
    """The indexes of a table, and how many of the current snapshot's files have them."""
    known = TableIndexes(state.storage, state.metadata.location, state.properties)
    data_files = _data_files(state)
    found = []
    for definition in index_definitions(state.properties):
        wanted = wanted_index(state, definition)
        covered = [file for file in data_files if wanted is not None and known.covers(file, wanted)]
        size = 0 if wanted is None else sum(known.size_bytes(file, wanted) for file in covered)
        tokenizer = definition.tokenizer or None
        found.append(
            TableIndex(definition.column, str(definition.kind), tokenizer, len(data_files), len(covered), size)
        )
    return found


def _data_files(state: TableState) -> list[DataFile]:
    return [task.data_file for task in scan(state, []).plan()]
