"""Finding rows of data files by their indexes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from skerry import amudai
from skerry.amudai.reading.shard_indexes import SoughtValues
from skerry.bitmaps.position_sets import intersection
from skerry.errors import SkerryError
from skerry.storage import Storage, file_key, join, parent
from skerry.table.files.data_file import DataFile
from skerry.table.indexes.building import WantedIndex
from skerry.table.indexes.conditions import ValueCondition
from skerry.table.indexes.definitions import IndexKind
from skerry.table.indexes.registry import FOLDER, IndexedColumn, IndexedFile, registered_files
from skerry.table.work.remembered import Remembered

__all__ = ["Names", "TableIndexes"]

_open: Final[Remembered[tuple[str, str], amudai.ShardFile]] = Remembered(256)
"""Roots of indexes whose metadata were read, by storage and location. They never change."""
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

    def covers(self, data_file: DataFile, wanted: WantedIndex, names: Names | None = None) -> bool:
        """Whether a file has an index."""
        return any(True for _ in self._columns(data_file, wanted, names))

    def size_bytes(self, data_file: DataFile, wanted: WantedIndex) -> int:
        """The size of what holds an index of a file, other indexes of the same file among it."""
        return sum(entry.size_bytes for entry, _ in self._columns(data_file, wanted))

    def rows_of_values(
        self, data_file: DataFile, conditions: Iterable[ValueCondition], names: Names | None = None
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
            if not each.is_worth(data_file.record_count):
                continue
            wanted = WantedIndex(each.field_id, IndexKind.HASH)
            part = self._ask(data_file, wanted, partial(_rows_of_values, values=each.sought), names)
            if part is not None:
                found = part if found is None else intersection(found, part)
        return found

    def rows_of_words(
        self, data_file: DataFile, field_id: int, tokenizer: str, query: str, names: Names | None = None
    ) -> _Rows | None:
        """Rows of a file that may match a search; see `rows_of_values`."""
        wanted = WantedIndex(field_id, IndexKind.TEXT, tokenizer)
        return self._ask(data_file, wanted, lambda shard, column: shard.search_candidates(column.name, query), names)

    def _columns(
        self, data_file: DataFile, wanted: WantedIndex, names: Names | None = None
    ) -> Iterator[tuple[IndexedFile, IndexedColumn]]:
        for entry in self._files.get(file_key(data_file.location), ()):
            for column in entry.columns if entry.file_size_bytes == data_file.file_size_bytes else ():
                is_wanted = WantedIndex(column.field_id, column.kind, column.tokenizer) == wanted
                if is_wanted and (names is None or names.get(column.field_id) == column.name):
                    yield entry, column

    def _ask(
        self,
        data_file: DataFile,
        wanted: WantedIndex,
        ask: Callable[[amudai.ShardFile, IndexedColumn], _Rows | None],
        names: Names | None = None,
    ) -> _Rows | None:
        for entry, column in self._columns(data_file, wanted, names):
            try:
                shard = self._shard(entry, data_file)
                if int(shard.metadata.directory.total_record_count) != data_file.record_count:
                    continue
                found = ask(shard, column)
            except SkerryError:
                continue  # a lost or damaged index costs time, and nothing else
            if found is not None:
                return found
        return None

    def _shard(self, entry: IndexedFile, data_file: DataFile) -> amudai.ShardFile:
        location = join(self._table, FOLDER, entry.root)
        key = self._storage.identity(location), location
        found = _open.find(key)
        if found is not None:
            return found
        folder = parent(data_file.location)
        return _open.keep(key, amudai.ShardFile(location, allowed_locations=[folder], storage=self._storage))


def _rows_of_values(shard: amudai.ShardFile, column: IndexedColumn, values: SoughtValues) -> _Rows | None:
    return shard.rows_of_values(column.name, values)
