"""Single rows of open data files, with what was decoded for them kept in a bounded cache.

Of Parquet files only the pages with wanted rows are read and decoded, of shards the blocks, of others whole parts.

Spec: Parquet spec, parquet.thrift, `OffsetIndex`, `ColumnIndex`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.parquet import (
    ColumnChunk,
    PagePlaces,
    decode_pages,
    read_page_bounds,
    read_page_places,
    take_rows,
)
from skerry.table.files.evolution import plan_conversion, top_level
from skerry.table.files.parquet_file import ParquetFile
from skerry.table.files.stored_file import Part, StoredFile, TakesRows, reading
from skerry.table.predicate import Column, FieldMetrics
from skerry.table.work.read_ahead import SharedCache

__all__ = ["RowAccess", "listed_rows", "row_access"]

_Rows = npt.NDArray[np.int64]
_PLACES_BYTES: Final = 1 << 12
_AT_ONCE_BYTES: Final = 8 << 20
"""How many bytes of pages are decoded together: they share one reading of the dictionary."""


class RowAccess(Protocol):
    """Reads rows of an open file by their positions."""

    @property
    def edges(self) -> _Rows:
        """int64[blocks + 1] The first row of each block that is decoded together, with the number of rows."""
        ...

    def bounds(self, column: Column) -> tuple[pa.Array, pa.Array] | None:
        """No more than the least and no less than the greatest value of a column in each block; None if unknown.

        They are of the column's type, or for texts binary; null where unknown.
        """
        ...

    def slice(self, start: int, stop: int) -> pa.RecordBatch:
        """The rows of consecutive blocks, as `take` gives rows; what is decoded for it is not kept.

        Args:
            start: One of `edges`.
            stop: A later one.
        """
        ...

    def take(self, rows: _Rows) -> pa.RecordBatch:
        """Rows with the requested columns, as `StoredFile.batches` gives them.

        Args:
            rows: int64[n] Positions of at least one row, ascending.
        """
        ...


def row_access(stored: StoredFile, location: str, columns: object, cache: SharedCache) -> RowAccess:
    """Open a file for access to single rows.

    Args:
        stored: The file.
        location: The file, by which the cache knows it.
        columns: What distinguishes its requested columns from others.
        cache: Keeps what is decoded.
    """
    if isinstance(stored, ParquetFile) and stored.paged_columns:
        return _PagedRows(stored, cache)
    return _PartRows(stored, ("part", location, columns), cache)


def listed_rows(stored: StoredFile, columns: pa.Schema | None = None) -> Callable[[Part, _Rows], pa.RecordBatch] | None:
    """What reads rows of a part of an open file, as `RowAccess.take` does, and keeps none; None for whole parts only.

    Args:
        stored: The file.
        columns: What the rows of a Parquet file are converted to, if it has all of these columns.
    """
    if not isinstance(stored, ParquetFile):
        return stored.take if isinstance(stored, TakesRows) and stored.columns else None
    if not stored.paged_columns:
        return None
    known = stored.remembered.get(_ListedRows)
    if known is None or known.columns is not columns:
        known = stored.remembered[_ListedRows] = _ListedRows(stored, columns)
    take: Callable[[Part, _Rows], pa.RecordBatch] = known.take
    return take


# Parts --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _PartRows:
    """Reads whole parts; a `RowAccess`."""

    stored: StoredFile
    identity: tuple[object, ...]
    cache: SharedCache = field(repr=False)

    @cached_property
    def edges(self) -> _Rows:
        return np.array([*(part.first_row for part in self.stored.parts), self.stored.row_count], np.int64)

    def bounds(self, column: Column) -> tuple[pa.Array, pa.Array] | None:
        return _both(self.stored.metrics(column))

    def slice(self, start: int, stop: int) -> pa.RecordBatch:
        chosen = (part for part in self.stored.parts if start <= part.first_row < stop)
        return pa.concat_batches([batch for part in chosen for batch in self._batches(part)])

    def take(self, rows: _Rows) -> pa.RecordBatch:
        blocks = np.searchsorted(self.edges, rows, "right") - 1
        taken = []
        for block in np.unique(blocks).tolist():
            within = rows[blocks == block] - self.edges[block]
            whole = self._part(self.stored.parts[block])
            is_whole = len(within) == whole.num_rows
            taken.append(whole if is_whole else whole.take(pa.array(within)))
        return taken[0] if len(taken) == 1 else pa.concat_batches(taken)

    def _part(self, part: Part) -> pa.RecordBatch:
        def decoded() -> pa.RecordBatch:
            return pa.concat_batches(list(self._batches(part)))

        return self.cache.get((*self.identity, part.index), decoded, lambda batch: int(batch.nbytes))

    def _batches(self, part: Part) -> Iterator[pa.RecordBatch]:
        return self.stored.batches(part, max(part.row_count, 1))


def _both(metrics: FieldMetrics | None) -> tuple[pa.Array, pa.Array] | None:
    return None if metrics is None else (metrics.lower, metrics.upper)


# Pages --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _PagedRows:
    """Reads pages of a Parquet file; a `RowAccess`. Its blocks are the pages of the first requested column."""

    stored: ParquetFile
    cache: SharedCache = field(repr=False)

    @cached_property
    def edges(self) -> _Rows:
        return self._column(self._columns[0][0]).edges

    def bounds(self, column: Column) -> tuple[pa.Array, pa.Array] | None:
        position = self.stored.positions.get(column.field_id)
        of_parts = _both(self.stored.metrics(column))
        if of_parts is None or position != self._columns[0][0]:
            return None
        pages = self._column(position)
        found = [pages.bounds(group) for group in range(len(pages.chunks))]
        if all(lower.null_count == len(lower) for lower, _ in found):  # no page index: row groups have bounds
            rows = pa.array(np.repeat(np.arange(len(pages.chunks)), [len(lower) for lower, _ in found]))
            return of_parts[0].take(rows), of_parts[1].take(rows)
        return pa.concat_arrays([lower for lower, _ in found]), pa.concat_arrays([upper for _, upper in found])

    def slice(self, start: int, stop: int) -> pa.RecordBatch:
        return self._read(lambda column: column.slice(start, stop))

    def take(self, rows: _Rows) -> pa.RecordBatch:
        return self._read(lambda column: column.take(rows))

    def _read(self, values_of: Callable[[_ColumnPages], pa.Array]) -> pa.RecordBatch:
        arrays = []
        with reading(self.stored.location, "parquet"):
            for position, column in self._columns:
                values = values_of(self._column(position))
                arrays.append(values if values.type == column.type else values.cast(column.type))
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([column for _, column in self._columns]))

    @cached_property
    def _columns(self) -> Sequence[tuple[int, pa.Field]]:
        assert self.stored.paged_columns
        return self.stored.paged_columns

    def _column(self, position: int) -> _ColumnPages:
        return self.cache.get(
            ("pages", self.stored.location, position),
            lambda: _ColumnPages(self.stored, position, self.cache),
            lambda pages: _PLACES_BYTES + 4 * pages.edges.nbytes,
        )


class _ListedRows:
    """Reads rows of a Parquet file, each once: of the pages with them only these rows are decoded."""

    def __init__(self, stored: ParquetFile, columns: pa.Schema | None) -> None:
        assert stored.paged_columns
        self.columns = columns
        self._stored = stored
        self._positions = [position for position, _ in stored.paged_columns]
        self._schema = pa.schema([column for _, column in stored.paged_columns])

    @cached_property
    def _convert(self) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        wanted = self.columns
        if wanted is None or not top_level(wanted).keys() <= top_level(self._schema).keys():
            return lambda batch: batch
        return plan_conversion(self._schema, wanted)

    def take(self, part: Part, rows: _Rows) -> pa.RecordBatch:
        """The rows of a part; `rows` are positions in the file, ascending."""
        stored = self._stored
        with reading(stored.location, "parquet"):
            chunks = stored.paged_chunks(part.index, self._positions)
            found = take_rows(stored.storage, stored.location, chunks, rows - part.first_row)
            arrays = [
                values if values.type == column.type else values.cast(column.type)
                for values, column in zip(found, self._schema, strict=True)
            ]
            return self._convert(pa.RecordBatch.from_arrays(arrays, schema=self._schema))


class _ColumnPages:
    """The pages of one column of a file, in all row groups."""

    def __init__(self, stored: ParquetFile, position: int, cache: SharedCache) -> None:
        self._storage = stored.storage
        self._location = stored.location
        self._position = position
        self._cache = cache
        groups = [group.chunks[position] for group in stored.layout.row_groups]
        self.chunks: list[ColumnChunk] = groups
        self._places: list[PagePlaces] = [read_page_places(stored.storage, stored.location, chunk) for chunk in groups]
        first_rows = [
            part.first_row + found.first_rows[:-1] for part, found in zip(stored.parts, self._places, strict=True)
        ]
        self.edges: _Rows = np.concatenate([*first_rows, np.array([stored.row_count], np.int64)])
        counts = [len(found.offsets) for found in self._places]
        self._group_of: _Rows = np.repeat(np.arange(len(groups)), counts)
        self._first_page: _Rows = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(counts, np.int64))])

    def bounds(self, group: int) -> tuple[pa.Array, pa.Array]:
        """The bounds of the pages of a row group."""
        pages = len(self._places[group].offsets)
        return read_page_bounds(self._storage, self._location, self.chunks[group], pages)

    def take(self, rows: _Rows) -> pa.Array:
        """The values of rows, which are ascending."""
        page_of = np.searchsorted(self.edges, rows, "right") - 1
        wanted, starts = np.unique(page_of, return_index=True)
        pages = self._pages(wanted)
        if len(wanted) == 1 and len(rows) == len(pages[0]):
            return pages[0]
        ends = np.cumsum([len(page) for page in pages])
        shift = np.repeat(ends - [len(page) for page in pages] - self.edges[wanted], np.diff([*starts, len(rows)]))
        taken = pa.chunked_array(pages).take(pa.array(rows + shift))
        return taken.chunk(0) if taken.num_chunks == 1 else taken.combine_chunks()

    def slice(self, start: int, stop: int) -> pa.Array:
        """The values of consecutive rows; pages that are decoded for it are not kept."""
        first, last = np.searchsorted(self.edges, [start, stop - 1], "right") - 1
        values = pa.concat_arrays(self._pages(np.arange(first, last + 1), keep=False))
        return values.slice(start - int(self.edges[first]), stop - start)

    def _pages(self, wanted: _Rows, *, keep: bool = True) -> list[pa.Array]:
        """Decoded pages; missing ones of a row group are read together."""
        known = {page: self._cache.known(self._key(page)) for page in wanted.tolist()}
        missing = np.array([page for page, found in known.items() if found is None], np.int64)
        for group in np.unique(self._group_of[missing]).tolist():
            within = missing[self._group_of[missing] == group] - self._first_page[group]
            for part in _in_parts(within, self._places[group].sizes):
                decoded = decode_pages(self._storage, self._location, self.chunks[group], self._places[group], part)
                for page, values in zip((part + self._first_page[group]).tolist(), decoded, strict=True):
                    known[page] = values
                    if keep:
                        self._cache.get(self._key(page), partial(_itself, values), _size_of)
        return list(known.values())

    def _key(self, page: int) -> tuple[object, ...]:
        return "page", self._location, self._position, page


def _in_parts(pages: _Rows, sizes: _Rows) -> list[_Rows]:
    """Split pages into parts of bounded size."""
    place = (np.cumsum(sizes[pages]) - 1) // _AT_ONCE_BYTES
    return np.split(pages, np.flatnonzero(np.diff(place)) + 1)


def _itself(values: pa.Array) -> pa.Array:
    return values


def _size_of(values: pa.Array) -> int:
    return int(values.nbytes)
