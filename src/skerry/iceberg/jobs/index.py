"""Index: build the indexes that data files lack, and publish them in one commit."""

from __future__ import annotations

from skerry.errors import SkerryError
from skerry.iceberg.handle import IcebergHandle
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.operations.index import RegisterIndexes
from skerry.iceberg.reading.scan import scan
from skerry.storage import file_key, join
from skerry.table.files.data_file import DataFile
from skerry.table.indexes.building import IndexTask, WantedIndex, build_index, new_index_name
from skerry.table.indexes.definitions import IndexDefinition, IndexKind, index_definitions
from skerry.table.indexes.finding import TableIndexes
from skerry.table.indexes.registry import (
    FOLDER,
    IndexedFile,
    encode_piece,
    piece_names,
    read_piece,
    registered_files,
)
from skerry.table.owned_files import owned_files
from skerry.table.rows.schema import field_id
from skerry.table.summaries import IndexSummary, TableIndex
from skerry.table.work.tasks import Executor, JobProgress, ProgressCallback, ThreadExecutor

__all__ = ["index", "indexes"]

_PARQUET = "parquet"
_PIECES = 8
"""Pieces of the registry from which on they are put together."""


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
    tasks = _tasks(state)
    names = piece_names(state.properties)
    if not tasks and len(names) < _PIECES:
        return IndexSummary()
    folder = join(state.metadata.location, FOLDER)
    built: list[IndexedFile] = []
    locations: list[str] = []
    done = rows = 0
    with owned_files(state.storage) as files:
        for task, found in zip(tasks, files.map(executor or ThreadExecutor(), build_index, tasks), strict=True):
            if found is not None:
                new = [join(folder, name) for name in (found.root, *found.parts)]
                files.add(*new)
                locations += new
                built.append(found)
            done, rows = done + 1, rows + task.data_file.record_count
            if progress is not None:
                progress(JobProgress("index", done, len(tasks), rows, 0))
        kept = _entries_of(state, names) if len(names) + 1 > _PIECES else []
        if built or kept:
            piece = new_index_name(".json")
            locations.append(join(folder, piece))
            files.add(locations[-1])
            state.storage.write(locations[-1], encode_piece([*kept, *built]))
            table.commit(RegisterIndexes(piece, tuple(locations), frozenset(names if kept else ())))
    return IndexSummary(len(built), rows, sum(each.size_bytes for each in built))


def indexes(state: TableState) -> list[TableIndex]:
    """The indexes of a table, and how many of the current snapshot's files have them."""
    found = TableIndexes(state.storage, state.metadata.location, state.properties)
    registered = registered_files(state.storage, state.metadata.location, state.properties)
    data_files = _data_files(state)
    shown = []
    for definition in index_definitions(state.properties):
        wanted = _wanted(state, definition)
        covered = [file for file in data_files if wanted is not None and found.covers(file, wanted)]
        size = sum(entry.size_bytes for file in covered for entry in registered.get(file_key(file.location), ()))
        shown.append(
            TableIndex(
                definition.column,
                str(definition.kind),
                definition.tokenizer or None,
                len(data_files),
                len(covered),
                size,
            )
        )
    return shown


def _tasks(state: TableState) -> list[IndexTask]:
    """The files that lack an index, and which."""
    wanted = [each for definition in index_definitions(state.properties) if (each := _wanted(state, definition))]
    found = TableIndexes(state.storage, state.metadata.location, state.properties)
    names = scan(state, []).row_reader().names
    tasks = []
    for file in _data_files(state):
        lacking = tuple(each for each in wanted if not found.covers(file, each))
        if lacking and file.file_format == _PARQUET:
            tasks.append(IndexTask(state.storage, state.metadata.location, file, lacking, names))
    return tasks


def _wanted(state: TableState, definition: IndexDefinition) -> WantedIndex | None:
    """The index of a column; None if the column is gone, or has another type now."""
    try:
        definition.check(state.schema)
    except SkerryError:
        return None
    number = field_id(state.schema.field(definition.column))
    return WantedIndex(number, IndexKind(definition.kind), definition.tokenizer)


def _data_files(state: TableState) -> list[DataFile]:
    return [task.data_file for task in scan(state, []).plan()]


def _entries_of(state: TableState, names: tuple[str, ...]) -> list[IndexedFile]:
    """What pieces say of files that snapshots may still have; those that cannot be read say nothing."""
    found: list[IndexedFile] = []
    for name in names:
        try:
            found += read_piece(state.storage, state.metadata.location, name)
        except SkerryError:
            continue
    return found
