"""Finding rows of data files by their indexes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from skerry import amudai
from skerry.bitmaps.position_sets import intersection
from skerry.errors import SkerryError
from skerry.storage import Storage, file_key, join, parent
from skerry.table.files.data_file import DataFile
from skerry.table.indexes.building import WantedIndex
from skerry.table.indexes.conditions import IndexCondition
from skerry.table.indexes.registry import FOLDER, IndexedColumn, IndexedFile, registered_files
from skerry.table.work.remembered import Remembered

__all__ = ["Names", "TableIndexes"]

_open: Final[Remembered[tuple[str, str], amudai.ShardFile]] = Remembered(256)
"""Roots of indexes whose metadata were read, by storage and location. They never change."""
_KNOWN: Final = 1 << 12
"""Of how many files it is kept which index they have."""
_Rows = npt.NDArray[np.int64]
Names: TypeAlias = Mapping[int, str]
"""Names of a file's columns by field id."""


class TableIndexes:
    """The indexes of a table's data files.

    Args:
        storage: Access to the table's files.
        table: The table's folder.
        pieces: The names of the pieces of its registry.
    """

    def __init__(self, storage: Storage, table: str, pieces: Sequence[str]) -> None:
        self._storage = storage
        self._table = table
        self._files = registered_files(storage, table, pieces)
        self._known: dict[tuple[str, int, WantedIndex], tuple[tuple[IndexedFile, IndexedColumn], ...]] = {}
        self._keys: dict[str, tuple[str, str]] = {}

    def covers(self, data_file: DataFile, wanted: WantedIndex, names: Names | None = None) -> bool:
        """Whether a file has an index."""
        return any(True for _ in self._columns(data_file, wanted, names))

    def sizes_bytes(self, data_file: DataFile, wanted: WantedIndex) -> dict[str, int]:
        """The sizes of what holds an index of a file, by root; other indexes and files are among it."""
        return {entry.root: entry.size_bytes for entry, _ in self._columns(data_file, wanted)}

    def rows(
        self, data_file: DataFile, conditions: Iterable[IndexCondition], names: Names | None = None
    ) -> _Rows | None:
        """Rows of a file that may satisfy all conditions.

        Args:
            data_file: The file.
            conditions: The conditions.
            names: The names of the file's columns by field id: indexes of other columns do not count.

        Returns:
            int64[n], ascending; None if no index helps.
        """
        found: _Rows | None = None
        for each in conditions:
            if each.is_worth(data_file.record_count):
                part = self._ask(data_file, each, names)
                if part is not None:
                    found = part if found is None else intersection(found, part)
        return found

    def _columns(
        self, data_file: DataFile, wanted: WantedIndex, names: Names | None = None
    ) -> Iterable[tuple[IndexedFile, IndexedColumn]]:
        key = data_file.location, data_file.file_size_bytes, wanted
        found = self._known.get(key) if names is None else None
        if found is None:
            found = tuple(self._matching(data_file, wanted, names))
            if names is None and len(self._known) < _KNOWN:
                self._known[key] = found
        return found

    def _matching(
        self, data_file: DataFile, wanted: WantedIndex, names: Names | None
    ) -> Iterator[tuple[IndexedFile, IndexedColumn]]:
        entries = self._files.get(file_key(data_file.location), ())
        for entry in sorted(entries, key=lambda entry: entry.place is None):  # the same index helps with more files
            for column in entry.columns if entry.file_size_bytes == data_file.file_size_bytes else ():
                is_wanted = WantedIndex(column.field_id, column.kind, column.tokenizer) == wanted
                if is_wanted and (names is None or names.get(column.field_id) == column.name):
                    yield entry, column

    def _ask(self, data_file: DataFile, condition: IndexCondition, names: Names | None) -> _Rows | None:
        for entry, column in self._columns(data_file, condition.wanted, names):
            try:
                shard = self._shard(entry, data_file)
                total = int(shard.metadata.directory.total_record_count)
                first, count = (0, total) if entry.place is None else entry.place
                if count != data_file.record_count or first + count > total:
                    continue
                if entry.place is None:
                    found = condition.rows(shard, column.name)
                else:
                    ask = partial(condition.rows, shard, column.name)
                    found = _within(condition.answers.get(entry.root, column.name, ask), first, count)
            except SkerryError:
                continue  # a lost or damaged index costs time, and nothing else
            if found is not None:
                return found
        return None

    def _shard(self, entry: IndexedFile, data_file: DataFile) -> amudai.ShardFile:
        key = self._keys.get(entry.root)
        if key is None:
            location = join(self._table, FOLDER, entry.root)
            key = self._storage.identity(location), location
            if len(self._keys) < _KNOWN:
                self._keys[entry.root] = key
        found = _open.find(key)
        if found is not None:
            return found
        location = key[1]
        folder = parent(data_file.location)
        return _open.keep(key, amudai.ShardFile(location, allowed_locations=[folder], storage=self._storage))


def _within(rows: _Rows | None, first: int, count: int) -> _Rows | None:
    """The rows of a file among those of an index of several, by their positions in the file."""
    if rows is None:
        return None
    start, stop = np.searchsorted(rows, [first, first + count])
    return rows[start:stop] - first
