"""Building the indexes that data files lack, and entering them in the registry: what all formats share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from skerry.errors import FormatError, NotFoundError, UnsupportedError
from skerry.storage import Storage, file_key, join
from skerry.table.files.data_file import DataFile
from skerry.table.indexes.building import IndexTask, WantedIndex, build_index
from skerry.table.indexes.definitions import IndexDefinition, index_definitions
from skerry.table.indexes.finding import TableIndexes
from skerry.table.indexes.merging import MergedIndexes, MergeTask, merge_indexes, plan_merges, without
from skerry.table.indexes.registry import FOLDER, IndexedFile, Piece, encode_piece, read_piece, registered_files
from skerry.table.owned_files import OwnedFiles
from skerry.table.summaries import IndexSummary, TableIndex
from skerry.table.work.tasks import Executor, JobProgress, ProgressCallback, ThreadExecutor

__all__ = [
    "IndexedTable",
    "WrittenPiece",
    "build_indexes",
    "build_missing",
    "described_indexes",
    "merge_small",
    "wanted_index",
    "wanted_indexes",
    "write_piece",
]

_GROWTH = 2
"""A piece takes in earlier ones that are at most this many times as large: few are left, and none is written often."""

_MANY = 16
"""So many small indexes in a piece are merged when it is written."""


@dataclass(frozen=True, slots=True)
class IndexedTable:
    """A table whose data files are indexed.

    Args:
        storage: Access to its files.
        location: Its folder.
        schema: Its columns.
        properties: Its properties, which say what is indexed.
        pieces: The names of the pieces of its registry, the newest last.
    """

    storage: Storage
    location: str
    schema: pa.Schema
    properties: Mapping[str, str]
    pieces: tuple[str, ...] = ()

    def indexes(self) -> TableIndexes:
        """The indexes that there are."""
        return TableIndexes(self.storage, self.location, self.pieces)

    def locations(self, entry: IndexedFile) -> list[str]:
        """The files of an index."""
        return [join(self.location, FOLDER, name) for name in (entry.root, *entry.parts)]


@dataclass(frozen=True, slots=True)
class WrittenPiece:
    """A piece that was written.

    Args:
        name: Its name.
        files: Locations of the piece and of the indexes that were built for it.
        replaced: Names of the pieces that it contains.
    """

    name: str
    files: tuple[str, ...]
    replaced: frozenset[str] = frozenset()


def wanted_index(schema: pa.Schema, definition: IndexDefinition) -> WantedIndex | None:
    """The index of a column; None if the column is gone, or has another type now."""
    try:
        return WantedIndex(definition.field_id(schema), definition.kind, definition.tokenizer)
    except (NotFoundError, UnsupportedError):
        return None


def wanted_indexes(schema: pa.Schema, properties: Mapping[str, str]) -> list[WantedIndex]:
    """The indexes that a table's properties ask for."""
    found = (wanted_index(schema, definition) for definition in index_definitions(properties))
    return [each for each in found if each is not None]


def build_indexes(
    table: IndexedTable,
    tasks: Sequence[IndexTask],
    files: OwnedFiles,
    executor: Executor,
    done: Callable[[IndexTask], None] = lambda _task: None,
) -> list[IndexedFile]:
    """Build indexes.

    Args:
        table: The table.
        tasks: What to index.
        files: Owns what is written.
        executor: Runs the tasks.
        done: Called after every task.
    """
    built = []
    for task, found in zip(tasks, files.map(executor, build_index, tasks), strict=True):
        if found is not None:
            files.add(*table.locations(found))
            built.append(found)
        done(task)
    return built


def build_missing(
    table: IndexedTable,
    tasks: Sequence[IndexTask],
    files: OwnedFiles,
    executor: Executor,
    progress: ProgressCallback | None,
) -> tuple[list[IndexedFile], IndexSummary]:
    """Build indexes as a job.

    Args:
        table: The table.
        tasks: What to index.
        files: Owns what is written.
        executor: Runs the tasks.
        progress: Called after every file.
    """
    done = rows = 0

    def count(task: IndexTask) -> None:
        nonlocal done, rows
        done, rows = done + 1, rows + task.data_file.record_count
        if progress is not None:
            progress(JobProgress("index", done, len(tasks), rows, 0))

    built = build_indexes(table, tasks, files, executor, count)
    return built, IndexSummary(len(built), rows, sum(each.size_bytes for each in built))


def write_piece(
    table: IndexedTable,
    built: Sequence[IndexedFile],
    name: str,
    files: OwnedFiles,
    *,
    listed: bool = False,
    merged: Collection[tuple[str, str]] = (),
) -> WrittenPiece:
    """Write a piece of the registry, which takes in what is not much larger of the newest ones.

    Many small indexes that come together so are merged.

    Args:
        table: The table.
        built: New entries.
        name: The name of the piece.
        files: Owns what is written.
        listed: Whether pieces are found by a listing, so that this one has to say which others it replaces.
        merged: Roots and data files of entries that new ones replace: their pieces are taken in, too.
    """
    entries, replaced, earlier_ones, is_larger = list[IndexedFile](), [], set[str](), False
    for earlier_name in reversed(table.pieces):
        try:
            earlier = read_piece(table.storage, table.location, earlier_name)
        except (FormatError, NotFoundError):
            earlier = Piece()
        is_larger |= len(earlier.files) > _GROWTH * (len(entries) + len(built))
        if is_larger and not any((each.root, each.file) in merged for each in earlier.files):
            continue
        entries = [*without(earlier.files, merged), *entries]
        replaced.append(earlier_name)
        earlier_ones |= earlier.replaces
    passing = merge_all(table, plan_merges(table.storage, table.location, entries, _MANY), files, ThreadExecutor())
    entries = [*without(entries, passing.gone), *passing.new, *built]
    replaces = earlier_ones.union(place.rpartition("/")[2] for place in replaced) if listed else frozenset[str]()
    location = join(table.location, FOLDER, name)
    files.add(location)
    table.storage.write(location, encode_piece(Piece(tuple(entries), frozenset(replaces))))
    new = {entry.root: entry for entry in (*built, *passing.new)}.values()
    written = [location, *(one for entry in new for one in table.locations(entry))]
    return WrittenPiece(name, tuple(written), frozenset(replaced))


def merge_all(table: IndexedTable, tasks: Sequence[MergeTask], files: OwnedFiles, executor: Executor) -> MergedIndexes:
    """Merge indexes; those that cannot be merged stay as they are.

    Args:
        table: The table.
        tasks: What to merge.
        files: Owns what is written.
        executor: Runs the tasks.
    """
    new, gone = list[IndexedFile](), set[tuple[str, str]]()
    for found in files.map(executor, merge_indexes, tasks) if tasks else ():
        for entry in {entry.root: entry for entry in found.new}.values():
            files.add(*table.locations(entry))
        new += found.new
        gone |= found.gone
    return MergedIndexes(tuple(new), frozenset(gone))


def merge_small(
    table: IndexedTable, data_files: Iterable[DataFile], files: OwnedFiles, executor: Executor
) -> MergedIndexes:
    """Merge the small indexes of some data files.

    Args:
        table: The table.
        data_files: The files.
        files: Owns what is written.
        executor: Runs the tasks.
    """
    known = registered_files(table.storage, table.location, table.pieces)
    entries = [
        each
        for file in data_files
        for each in known.get(file_key(file.location), ())
        if each.file_size_bytes == file.file_size_bytes
    ]
    return merge_all(table, plan_merges(table.storage, table.location, entries), files, executor)


def described_indexes(table: IndexedTable, data_files: Iterable[DataFile]) -> list[TableIndex]:
    """The indexes of a table, and how many of some data files have them."""
    known, found = table.indexes(), []
    files = list(data_files)
    for definition in index_definitions(table.properties):
        wanted = wanted_index(table.schema, definition)
        covered = [file for file in files if wanted is not None and known.covers(file, wanted)]
        sizes = (
            {} if wanted is None else dict(one for file in covered for one in known.sizes_bytes(file, wanted).items())
        )
        tokenizer = definition.tokenizer or None
        found.append(
            TableIndex(
                definition.column, str(definition.kind), tokenizer, len(files), len(covered), sum(sizes.values())
            )
        )
    return found
