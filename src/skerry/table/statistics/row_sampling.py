"""Choosing the sampled rows of a file: of batches on their way to a writer, and of files that others have written."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.table.rows.schema import Leaf, leaves
from skerry.table.statistics.row_sample import ALL_ROWS, UNKNOWN_POSITION, RowSample, is_sampled, most_rows

if TYPE_CHECKING:
    from skerry.parquet import FileMetadata
    from skerry.table.files.row_reader import RowReader
    from skerry.table.files.scan_task import FileScanTask

__all__ = ["RowSampler", "sample_file"]

_SHARE: Final = 16
"""A file has at most one of this many of its rows in its sample, except for …"""
_FEW_VALUES: Final = 1 << 12
"""… so many values, which are so few bytes that the share does not matter."""
_RUNS: Final = 16
"""Sampled rows of a file that others have written lie in so many places: reading one row means decoding a page."""
_SMALL_FILE_BYTES: Final = 1 << 18
"""A file of no more is read whole, if it must be."""
_LONG_TEXT_BYTES: Final = 64
"""Columns whose texts are longer on average are not sampled."""
_LONG_ROW_BYTES: Final = _LONG_TEXT_BYTES + 8
"""Bytes of such a text in memory, its offset included."""


def file_limit(column_count: int, row_count: int) -> int:
    """How many rows of a file are sampled at most."""
    few = _FEW_VALUES // max(column_count, 1)
    return min(most_rows(column_count), max(few, row_count // _SHARE))


class RowSampler:
    """Samples rows that come in batches.

    Args:
        columns: The columns; those of other types than `is_sampled` names, and those in structs, are left out.
        has_positions: Whether rows come in the order of the file, all of them.
    """

    def __init__(self, columns: Sequence[Leaf], *, has_positions: bool = True) -> None:
        self._columns = list(filter(_is_chosen, columns))
        self._has_positions = has_positions
        self._seed = _new_seed()
        self._most = most_rows(len(self._columns))
        self._theta = ALL_ROWS
        self._row_count = 0
        self._priorities = np.empty(0, np.uint32)
        self._positions = np.empty(0, np.int64)
        self._values: dict[int, list[pa.Array]] = {leaf.field_id: [] for leaf in self._columns}
        self._bytes: dict[int, int] = {}

    def update(self, rows: pa.RecordBatch) -> None:
        """Add rows.

        Args:
            rows: Columns with the names of the schema, dictionary-encoded or not; others are ignored.
        """
        first, count = self._row_count, rows.num_rows
        self._row_count += count
        if not self._columns:
            return
        priorities = _random_numbers(self._seed, first, count)
        chosen = np.flatnonzero(priorities < self._theta) if self._theta < ALL_ROWS else np.arange(count)
        if len(chosen) > 2 * self._most:  # of the first batch
            bound = np.partition(priorities[chosen], 2 * self._most)[2 * self._most]
            chosen = chosen[priorities[chosen] < bound]
            self._theta = int(bound)
        if not len(chosen):
            return
        self._priorities = np.concatenate((self._priorities, priorities[chosen]))
        self._positions = np.concatenate((self._positions, chosen + first))
        indices = pa.array(chosen)
        for leaf in self._columns:
            if leaf.field_id in self._values:
                self._add(leaf, _values_at(rows, leaf, indices))
        if len(self._priorities) > 2 * self._most:
            self._shrink(self._most)

    def _add(self, leaf: Leaf, values: pa.Array) -> None:
        """Keep values of a column, unless its texts take more than as many rows of the longest texts would."""
        taken = self._bytes.get(leaf.field_id, 0) + values.nbytes
        if _is_text(leaf.type) and taken > 2 * self._most * _LONG_ROW_BYTES:
            del self._values[leaf.field_id]
            return
        self._bytes[leaf.field_id] = taken
        self._values[leaf.field_id].append(values)

    def finish(self) -> RowSample:
        """The sample of all rows that came."""
        self._shrink(file_limit(len(self._columns), self._row_count))
        order = np.argsort(self._priorities, kind="stable")
        indices = pa.array(order)
        values = {
            str(field_id): pa.concat_arrays(parts).take(indices) for field_id, parts in self._values.items() if parts
        }
        positions = self._positions[order] if self._has_positions else np.full(len(order), UNKNOWN_POSITION, np.int64)
        return RowSample(
            self._theta, self._priorities[order], np.zeros(len(order), np.uint64), positions, pa.table(values)
        )

    def _shrink(self, limit: int) -> None:
        """Keep at most so many rows, and no column of long texts."""
        if len(self._priorities) > limit:
            self._theta = int(np.partition(self._priorities, limit)[limit])
            kept = np.flatnonzero(self._priorities < self._theta)
            self._priorities, self._positions = self._priorities[kept], self._positions[kept]
            indices = pa.array(kept)
            for field_id, parts in self._values.items():
                self._values[field_id] = [pa.concat_arrays(parts).take(indices)]
                self._bytes[field_id] = self._values[field_id][0].nbytes
        for field_id, parts in list(self._values.items()):
            if _is_long(parts):
                del self._values[field_id]


def _new_seed() -> int:
    return int.from_bytes(os.urandom(8), "little")


def _random_numbers(seed: int, first: int, count: int) -> npt.NDArray[np.uint32]:
    """The numbers `first` … of a sequence: SplitMix64's upper halves. Loading NumPy's generators takes longer."""
    state = np.arange(first, first + count, dtype=np.uint64)
    state += np.uint64(seed)
    state *= np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state ^= state >> np.uint64(shift)
        state *= np.uint64(factor)
    state ^= state >> np.uint64(31)
    return (state >> np.uint64(32)).astype(np.uint32)


def _values_at(rows: pa.RecordBatch, leaf: Leaf, indices: pa.Array) -> pa.Array:
    """Some of a column's values."""
    array = rows.column(leaf.name).take(indices)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array if array.type == leaf.type else array.cast(leaf.type)


def _is_text(type_: pa.DataType) -> bool:
    return pa.types.is_string(type_) or pa.types.is_large_string(type_)


def _is_long(parts: Sequence[pa.Array]) -> bool:
    if not parts or not _is_text(parts[0].type):
        return False
    return sum(part.nbytes for part in parts) > _LONG_ROW_BYTES * sum(map(len, parts))


# Files that others have written --------------------------------------------------------------------------------------


def sample_file(
    reader: RowReader, file: FileScanTask, field_ids: Collection[int], footer: FileMetadata | None = None
) -> RowSample | None:
    """Sample rows of a Parquet file that has no deleted ones: only pages that have chosen rows are read.

    A page has to be decoded for one row as for all of them. So the rows are a few runs, evenly spread, each at a random
    place.

    Args:
        reader: Reads the columns.
        file: The file.
        field_ids: The columns.
        footer: The file's. If it has no page index, a large file is not sampled, as all of it would be read; None to
            sample it nevertheless.

    Returns:
        The sample; None if there is none.
    """
    columns = [leaf for leaf in leaves(reader.schema) if leaf.field_id in field_ids and _is_chosen(leaf)]
    is_large = file.data_file.file_size_bytes > _SMALL_FILE_BYTES
    if not columns or (footer is not None and is_large and not _has_page_index(footer)):
        return None
    count = file.data_file.record_count
    positions = _positions(count, file_limit(len(columns), count))
    narrow = pa.schema([reader.schema.field(leaf.name) for leaf in columns])
    reading = replace(reader, schema=narrow, read_schema=narrow, values=())
    rows = list(reading.batches([replace(file, rows=positions, start_byte=0, end_byte=None)]))
    theta = ALL_ROWS * len(positions) // max(count, 1)
    priorities = (_random_numbers(_new_seed(), 0, len(positions)) / ALL_ROWS * theta).astype(np.uint32)
    order = np.argsort(priorities, kind="stable")
    indices = pa.array(order)
    values = {}
    for leaf in columns:
        parts = [_values_at(batch, leaf, pa.array(np.arange(batch.num_rows))) for batch in rows]
        if parts and not _is_long(parts):
            values[str(leaf.field_id)] = pa.concat_arrays(parts).take(indices)
    return RowSample(theta, priorities[order], np.zeros(len(order), np.uint64), positions[order], pa.table(values))


def _is_chosen(leaf: Leaf) -> bool:
    return len(leaf.path) == 1 and is_sampled(leaf.type)


def _has_page_index(footer: FileMetadata) -> bool:
    return all(chunk.offset_index is not None for group in footer.row_groups for chunk in group.chunks)


def _positions(row_count: int, limit: int) -> npt.NDArray[np.int64]:
    """Which rows of a file to read."""
    if limit >= row_count:
        return np.arange(row_count, dtype=np.int64)
    runs = min(_RUNS, limit)
    length = limit // runs
    edges = np.linspace(0, row_count, runs + 1).astype(np.int64)
    room = np.maximum(np.diff(edges) - length, 0)
    starts = edges[:-1] + (_random_numbers(_new_seed(), 0, runs) / ALL_ROWS * (room + 1)).astype(np.int64)
    return np.unique(starts[:, None] + np.arange(length)[None, :])
