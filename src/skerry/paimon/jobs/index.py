"""Index: build the indexes that data files lack, and enter them in the registry."""

from __future__ import annotations

from collections.abc import Iterator

from skerry.errors import UnsupportedError
from skerry.paimon.handle import PaimonHandle
from skerry.paimon.index_files import index_task, indexed_table, register
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.splits import SplitFile
from skerry.paimon.planning.table_indexes import forget_indexes
from skerry.paimon.reading.scan import PaimonScan
from skerry.table.files.data_file import DataFile
from skerry.table.indexes.publishing import build_missing, described_indexes, merge_small
from skerry.table.owned_files import owned_files
from skerry.table.summaries import IndexSummary, TableIndex
from skerry.table.work.tasks import Executor, ProgressCallback, ThreadExecutor

__all__ = ["index", "indexes", "merge_small_indexes"]


def index(
    table: PaimonHandle, *, executor: Executor | None = None, progress: ProgressCallback | None = None
) -> IndexSummary:
    """Build the indexes that the table's options ask for, of the data files that lack them.

    There is no new snapshot: pieces of the registry are found by a listing.

    Args:
        table: The table; refreshed first.
        executor: Runs the tasks; threads of this process by default.
        progress: Called after every file.

    Raises:
        FormatError: A data file is damaged.
        UnsupportedError: Files may have columns of the same rows.
    """
    state = table.refresh()
    if state.options.data_evolution:
        raise UnsupportedError(
            "table option data-evolution.enabled=true: files have columns of the same rows, so that a position in one "
            "is not a row",
            location=state.name,
        )
    known = indexed_table(state)
    indexes = known.indexes()
    found = (index_task(state, data_file, schema_id, indexes) for data_file, schema_id in _data_files(state))
    tasks = [task for task in found if task is not None]
    with owned_files(state.storage) as files:
        built, summary = build_missing(known, tasks, files, executor or ThreadExecutor(), progress)
        if built:
            register(known, built, files)
            forget_indexes(state)
    merge_small_indexes(state, executor)
    return summary


def merge_small_indexes(state: PaimonState, executor: Executor | None = None) -> None:
    """Merge the small indexes of the current snapshot's files, and enter what replaces them in the registry.

    Args:
        state: The table.
        executor: Runs the tasks; threads of this process by default.
    """
    known = indexed_table(state)
    if not known.pieces:
        return
    with owned_files(state.storage) as files:
        data_files = (data_file for data_file, _ in _data_files(state))
        merged = merge_small(known, data_files, files, executor or ThreadExecutor())
        if merged.new:
            register(known, merged.new, files, merged.gone)
            forget_indexes(state)


def indexes(state: PaimonState) -> list[TableIndex]:
    """The indexes of a table, and how many of the current snapshot's files have them."""
    return described_indexes(indexed_table(state), [data_file for data_file, _ in _data_files(state)])


def _data_files(state: PaimonState) -> Iterator[tuple[DataFile, int]]:
    """The files of the current snapshot, level 0 too, with the schemas that they were written with."""
    files: dict[str, SplitFile] = {}
    for split in PaimonScan(state).plan():
        files |= {file.location: file for file in split.files}
    for file in files.values():
        yield DataFile(file.location, file.file_format, file.row_count, file.file_size), file.schema_id
