"""Finding rows of data files by their indexes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry import amudai
from skerry.bitmaps.position_sets import intersection
from skerry.errors import SkerryError
from skerry.storage import Storage, file_key, join, parent
from skerry.table.files.data_file import DataFile
from skerry.table.indexes.building import WantedIndex
from skerry.table.indexes.definitions import IndexKind
from skerry.table.indexes.registry import FOLDER, IndexedColumn, IndexedFile, registered_files
from skerry.table.predicate import Comparison, In, Operator, Predicate

__all__ = ["TableIndexes", "ValueCondition", "value_conditions"]

_OPEN_SHARDS: Final = 256
_open: dict[tuple[str, str], amudai.ShardFile] = {}
"""Roots of indexes whose metadata were read, by storage and location. They never change."""
_Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ValueCondition:
    """A column whose value is one of several.

    Args:
        field_id: The column.
        values: The values.
    """

    field_id: int
    values: tuple[Any, ...]

    def rows_in(self, shard: amudai.ShardFile, column: IndexedColumn) -> _Rows | None:
        """Rows that an index leaves; None if it does not help."""
        return shard.candidate_rows([(column.name, "in", list(self.values))])


def value_conditions(conjuncts: Iterable[Predicate]) -> tuple[ValueCondition, ...]:
    """The conditions with which hash indexes help: equality and IN of top-level columns."""
    found = []
    for each in conjuncts:
        if isinstance(each, Comparison) and each.operator is Operator.EQ:
            values: tuple[Any, ...] = (each.value,)
        elif isinstance(each, In) and not each.negated:
            values = each.values
        else:
            continue
        # values of other types have another form here than in a shard
        plain = pa.types.is_integer, pa.types.is_boolean, pa.types.is_string, pa.types.is_binary
        large = pa.types.is_large_string, pa.types.is_large_binary
        column = each.column
        if (
            column.inside is None
            and len(column.path) == 1
            and any(is_type(column.type) for is_type in (*plain, *large))
        ):
            found.append(ValueCondition(column.field_id, values))
    return tuple(found)


class TableIndexes:
    """The indexes of a table's data files.

    Args:
        storage: Access to the table's files.
        table: The table's folder.
        properties: Its properties.
    """

    def __init__(self, storage: Storage, table: str, properties: Mapping[str, str]) -> None:
        self._storage = storage
        self._table = table
        self._files = registered_files(storage, table, properties)

    def covers(self, data_file: DataFile, wanted: WantedIndex) -> bool:
        """Whether a file has an index."""
        return any(True for _ in self._columns(data_file, wanted))

    def size_bytes(self, data_file: DataFile, wanted: WantedIndex) -> int:
        """The size of what holds an index of a file, other indexes of the same file among it."""
        return sum(entry.size_bytes for entry, _ in self._columns(data_file, wanted))

    def rows_of_values(self, data_file: DataFile, conditions: Sequence[ValueCondition]) -> _Rows | None:
        """Rows of a file that may satisfy all conditions: int64[n], ascending; None if no index helps."""
        found: _Rows | None = None
        for each in conditions:
            part = self._ask(data_file, WantedIndex(each.field_id, IndexKind.HASH), each.rows_in)
            if part is not None:
                found = part if found is None else intersection(found, part)
        return found

    def rows_of_words(self, data_file: DataFile, field_id: int, tokenizer: str, query: str) -> _Rows | None:
        """Rows of a file that may match a search: int64[n], ascending; None if no index helps."""
        wanted = WantedIndex(field_id, IndexKind.TEXT, tokenizer)
        return self._ask(data_file, wanted, lambda shard, column: shard.search_candidates(column.name, query))

    def _columns(self, data_file: DataFile, wanted: WantedIndex) -> Iterator[tuple[IndexedFile, IndexedColumn]]:
        for entry in self._files.get(file_key(data_file.location), ()):
            for column in entry.columns if entry.file_size_bytes == data_file.file_size_bytes else ():
                if WantedIndex(column.field_id, column.kind, column.tokenizer) == wanted:
                    yield entry, column

    def _ask(
        self,
        data_file: DataFile,
        wanted: WantedIndex,
        ask: Callable[[amudai.ShardFile, IndexedColumn], _Rows | None],
    ) -> _Rows | None:
        for entry, column in self._columns(data_file, wanted):
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
        found = _open.get(key)
        if found is None:
            folder = parent(data_file.location)
            found = amudai.ShardFile(location, allowed_locations=[folder], storage=self._storage)
            while len(_open) >= _OPEN_SHARDS:
                _open.pop(next(iter(_open)), None)
            _open[key] = found
        return found
