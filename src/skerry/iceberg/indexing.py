"""Indexes of new data files: built before a commit, and published by it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, runtime_checkable

from skerry.errors import FormatError, NotFoundError, UnsupportedError
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.operations import MetadataChange, SnapshotChange
from skerry.iceberg.operations.index import RegisteredIndexes, WithIndexes
from skerry.iceberg.reading.scan import scan
from skerry.storage import join
from skerry.table.commit import Operation
from skerry.table.files.data_file import DataFile
from skerry.table.indexes.building import IndexTask, WantedIndex, build_index, new_index_name
from skerry.table.indexes.definitions import IndexDefinition, index_definitions
from skerry.table.indexes.registry import FOLDER, IndexedFile, encode_piece, piece_names, read_piece
from skerry.table.owned_files import OwnedFiles, log_failures, owned_files
from skerry.table.rows.schema import field_id
from skerry.table.work.tasks import Executor, ThreadExecutor

__all__ = ["WritesFiles", "build_indexes", "commit_with_indexes", "index_tasks", "register", "wanted_index"]

_PARQUET = "parquet"
_GROWTH = 2
"""A piece takes in earlier ones that are at most this many times as large: few are left, and none is written often."""

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
    with owned_files(state.storage) as files:
        built: list[IndexedFile] = []
        with log_failures("new data files were not indexed"):
            built += build_indexes(state, tasks, files, ThreadExecutor())
        if not built:
            return commit(operation)
        indexes = register(state, built, files)
        committed = commit(WithIndexes(operation, indexes))
        if indexes.piece not in piece_names(committed.properties):
            files.remove()  # there was nothing to commit
        return committed


def wanted_index(state: TableState, definition: IndexDefinition) -> WantedIndex | None:
    """The index of a column; None if the column is gone, or has another type now."""
    try:
        definition.check(state.schema)
    except (NotFoundError, UnsupportedError):
        return None
    return WantedIndex(field_id(state.schema.field(definition.column)), definition.kind, definition.tokenizer)


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
    wanted = [each for definition in index_definitions(state.properties) if (each := wanted_index(state, definition))]
    if not wanted:
        return []
    names = scan(state, []).row_reader().names
    tasks = []
    for file in data_files:
        lacking = tuple(each for each in wanted if not is_covered(file, each))
        if lacking and file.file_format == _PARQUET:
            tasks.append(IndexTask(state.storage, state.metadata.location, file, lacking, names))
    return tasks


def build_indexes(
    state: TableState,
    tasks: Sequence[IndexTask],
    files: OwnedFiles,
    executor: Executor,
    done: Callable[[IndexTask], None] = lambda _task: None,
) -> list[IndexedFile]:
    """Build indexes.

    Args:
        state: The table.
        tasks: What to index.
        files: Owns what is written.
        executor: Runs the tasks.
        done: Called after every task.
    """
    built = []
    for task, found in zip(tasks, files.map(executor, build_index, tasks), strict=True):
        if found is not None:
            files.add(*_locations(state, found))
            built.append(found)
        done(task)
    return built


def register(state: TableState, built: Sequence[IndexedFile], files: OwnedFiles) -> RegisteredIndexes:
    """Write a piece of the registry, which takes in what is not much larger of the newest ones.

    Args:
        state: The table.
        built: New entries.
        files: Owns what is written.
    """
    entries, replaced = list(built), []
    for name in reversed(piece_names(state.properties)):
        try:
            earlier = read_piece(state.storage, state.metadata.location, name)
        except (FormatError, NotFoundError):
            earlier = ()
        if len(earlier) > _GROWTH * len(entries):
            break
        entries = [*earlier, *entries]
        replaced.append(name)
    piece = new_index_name(".json")
    location = join(state.metadata.location, FOLDER, piece)
    files.add(location)
    state.storage.write(location, encode_piece(entries))
    written = [location, *(one for entry in built for one in _locations(state, entry))]
    return RegisteredIndexes(piece, tuple(written), frozenset(replaced))


def _locations(state: TableState, entry: IndexedFile) -> list[str]:
    return [join(state.metadata.location, FOLDER, name) for name in (entry.root, *entry.parts)]
