"""File indexes: which rows of a data file may satisfy a condition, before the file is opened.

An index only ever says that rows need not be read: what it does not cover, and index types that are not known here,
exclude nothing. It describes the file in the file's own schema; columns whose type has changed since are skipped.

Spec: docs/formats/paimon.md § 12.2; Paimon spec, File Index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import numpy.typing as npt

from skerry.paimon.file_index import bitmap, bloom, bsi, range_bitmap
from skerry.paimon.file_index.bloom import BloomFilter
from skerry.paimon.file_index.container import decode_container, encode_container
from skerry.paimon.file_index.cursor import Cursor
from skerry.paimon.file_index.keys import Leaf, loosened
from skerry.paimon.file_index.row_sets import ALL_ROWS, NO_ROWS, RowSet, intersection, union
from skerry.paimon.values.types import AtomicType
from skerry.table.predicate import And, Constant, Holds, IntersectsExtent, IsNull, Or, Predicate

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["FileIndex", "IndexedColumn", "RowSet", "decode_container", "encode_container"]


@dataclass(frozen=True, slots=True)
class IndexedColumn:
    """What a column of the table was when a file was written.

    Args:
        name: Its name then.
        type: Its type, then and now.
    """

    name: str
    type: AtomicType


class _RowIndex(Protocol):
    """An index that knows which rows have which keys."""

    def select(self, leaf: Leaf) -> npt.NDArray[np.int64]: ...


@dataclass(frozen=True, slots=True)
class _Kind:
    """A type of index: which columns can have it, and how it is read."""

    can_index: Callable[[AtomicType], bool]
    decode: Callable[[Cursor, AtomicType, int], _RowIndex | BloomFilter]


_KINDS: Final[Mapping[str, _Kind]] = {
    bloom.TYPE: _Kind(bloom.can_index, lambda cursor, type_, _: bloom.BloomFilter.decode(cursor, type_)),
    bitmap.TYPE: _Kind(bitmap.can_index, bitmap.BitmapIndex.decode),
    bsi.TYPE: _Kind(bsi.can_index, bsi.BitSlicedIndex.decode),
    range_bitmap.TYPE: _Kind(range_bitmap.can_index, range_bitmap.RangeBitmapIndex.decode),
}


@dataclass(frozen=True, slots=True)
class FileIndex:
    """The indexes of one data file; each is decoded when a condition needs it.

    Args:
        columns: The indexes by type for each column, by the column's name in the file's schema.
        row_count: Rows of the data file.
    """

    columns: Mapping[str, Mapping[str, Cursor | None]]
    row_count: int
    _decoded: dict[tuple[str, str], _RowIndex | BloomFilter] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def decode(cls, data: Buffer, row_count: int, *, location: str | None = None) -> FileIndex:
        """Find the indexes of a data file.

        Args:
            data: Its index file, or the index embedded in the manifest.
            row_count: Rows of the data file.
            location: The index file, for messages.

        Raises:
            FormatError: The bytes are not a valid file index.
            UnsupportedError: Its version is unknown.
        """
        return cls(decode_container(data, location=location), row_count)

    def select(self, predicate: Predicate, columns: Mapping[int, IndexedColumn]) -> RowSet:
        """The rows that may satisfy a condition.

        Args:
            predicate: The condition.
            columns: What the columns of the table are in the file, by field id; those whose type has changed, and those
                within others, are left out.

        Returns:
            int64[n] Positions, ascending; none if the file need not be read. None where the indexes leave all rows.

        Raises:
            FormatError: An index is corrupt, or is of another number of rows.
            UnsupportedError: An index has an unknown version.
        """
        match predicate:
            case Constant(value):
                return ALL_ROWS if value else NO_ROWS
            case And(children):
                return intersection(self.select(child, columns) for child in children)
            case Or(children):
                return union(self.select(child, columns) for child in children)
            case IntersectsExtent() | Holds():
                return ALL_ROWS  # Paimon has no columns of shapes, and no index of computed values
        column = columns.get(predicate.column.field_id)
        return ALL_ROWS if column is None else self._of_column(predicate, column)

    def _of_column(self, leaf: Leaf, column: IndexedColumn) -> RowSet:
        on_keys = loosened(leaf, column.type)
        return intersection(self._of_index(index, on_keys) for index in self._indexes(column))

    def _of_index(self, index: _RowIndex | BloomFilter | None, leaf: Leaf) -> RowSet:
        if index is None:
            return ALL_ROWS if isinstance(leaf, IsNull) and not leaf.negated else NO_ROWS
        if isinstance(index, BloomFilter):
            return ALL_ROWS if index.may_match(leaf) else NO_ROWS
        return index.select(leaf)

    def _indexes(self, column: IndexedColumn) -> Iterator[_RowIndex | BloomFilter | None]:
        for type_, cursor in self.columns.get(column.name, {}).items():
            kind = _KINDS.get(type_)
            if kind is None or not kind.can_index(column.type):
                continue
            if cursor is None:
                yield None
                continue
            key = (column.name, type_)
            if key not in self._decoded:
                self._decoded[key] = kind.decode(cursor.rest(), column.type, self.row_count)
            yield self._decoded[key]
