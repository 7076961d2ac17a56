"""Indexes of new data files: built before a commit, and published by it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol, runtime_checkable

from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.metadata.table_metadata import data_key_bytes
from skerry.iceberg.operations import MetadataChange, SnapshotChange
from skerry.iceberg.operations.index import RegisteredIndexes, WithIndexes
from skerry.iceberg.reading.scan import scan
from skerry.table.commit import Operation
from skerry.table.files.data_file import DataFile
from skerry.table.files.evolution import prune
from skerry.table.indexes.building import INDEXED_FORMATS, IndexTask, WantedIndex, new_index_name
from skerry.table.indexes.publishing import IndexedTable, build_indexes, wanted_indexes, write_piece
from skerry.table.indexes.registry import IndexedFile, piece_names
from skerry.table.owned_files import OwnedFiles, log_failures, owned_files
from skerry.table.work.tasks import ThreadExecutor

__all__ = ["WritesFiles", "commit_with_indexes", "index_tasks", "indexed_table", "register"]

IcebergOperation = Operation[TableState, SnapshotChange | MetadataChange]


@runtime_checkable
class WritesFiles(Protocol):
    """An operation that adds data files."""

    @property
    def data_files(self) -> tuple[DataFile, ...]:
        """The files."""
        ...


def commit_with_indexes(
    state: TableState, operation: IcebergOperation, commit: Callable[[IcebergOperation], TableState]
) -> TableState:
    """Commit an operation, and the indexes of the data files that it adds with it.

    An index that cannot be built does not keep rows from being committed: its file is left to `index()`.

    Args:
        state: The newest known state, whose properties say what is indexed.
        operation: The operation.
        commit: Commits an operation.
    """
    tasks = index_tasks(state, operation.data_files) if isinstance(operation, WritesFiles) else []
    if not tasks:
        return commit(operation)
    table = indexed_table(state)
    with owned_files(state.storage) as files:
        built: list[IndexedFile] = []
        with log_failures("new data files were not indexed"):
            built += build_indexes(table, tasks, files, ThreadExecutor())
        if not built:
            return commit(operation)
        indexes = register(table, built, files)
        committed = commit(WithIndexes(operation, indexes))
        if indexes.piece.name not in piece_names(committed.properties):
            files.remove()  # there was nothing to commit
        return committed


def indexed_table(state: TableState) -> IndexedTable:
    """The table as indexing sees it."""
    properties = state.properties
    return IndexedTable(state.storage, state.metadata.location, state.schema, properties, piece_names(properties))


def index_tasks(
    state: TableState,
    data_files: Iterable[DataFile],
    is_covered: Callable[[DataFile, WantedIndex], bool] = lambda _file, _wanted: False,
) -> list[IndexTask]:
    """What is to be indexed of some data files.

    Args:
        state: The table.
        data_files: The files.
        is_covered: Whether a file has an index already.
    """
    wanted = wanted_indexes(state.schema, state.properties)
    if not wanted or data_key_bytes(state.properties) is not None:  # indexes are not encrypted
        return []
    names = scan(state, []).row_reader().names
    tasks = []
    for file in data_files:
        lacking = tuple(each for each in wanted if not is_covered(file, each))
        if lacking and file.file_format in INDEXED_FORMATS:
            columns = prune(state.schema, {each.field_id for each in lacking})
            tasks.append(IndexTask(state.storage, state.metadata.location, file, lacking, columns, names))
    return tasks


def register(
    table: IndexedTable, built: Sequence[IndexedFile], files: OwnedFiles, merged: Collection[tuple[str, str]] = ()
) -> RegisteredIndexes:
    """Write a piece of the registry; see `skerry.table.indexes.publishing.write_piece`."""
    written = write_piece(table, built, new_index_name(".json"), files, merged=merged)
    return RegisteredIndexes(written)
