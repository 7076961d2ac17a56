"""BLOB columns in files of their own: values as descriptors, or as bytes where a table asks for them.

Spec: docs/formats/paimon.md § 8.11.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from skerry.errors import FormatError
from skerry.paimon.planning.splits import SplitFile
from skerry.paimon.values.blob_layout import (
    BLOB_MAGIC,
    FOOTER_BYTES,
    OVERHEAD_BYTES,
    PLACEHOLDER_LENGTH,
    RULE,
    TRAILER,
    decode_index,
    decode_index_length,
    descriptors,
)
from skerry.paimon.values.byte_spans import Longs
from skerry.storage import Storage

__all__ = ["BlobColumn"]

_TAIL_BYTES: Final = 64 << 10
_BATCH_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class BlobColumn:
    """The values of a BLOB column for a range of rows.

    Args:
        storage: Access to the files.
        files: The files that have some of them.
        file_of: int64[rows] The file of each value; -1 for null.
        offsets: int64[rows] Where the record of a value begins.
        lengths: int64[rows] Its length.
        as_descriptors: Whether values are read as descriptors.
    """

    storage: Storage
    files: tuple[SplitFile, ...]
    file_of: Longs
    offsets: Longs
    lengths: Longs
    as_descriptors: bool

    @classmethod
    def open(
        cls, storage: Storage, files: Sequence[SplitFile], first_row_id: int, row_count: int, *, as_descriptors: bool
    ) -> BlobColumn:
        """Read the indexes of files.

        Args:
            storage: Access to them.
            files: The files of one column, in any order; newer ones have priority, except for their placeholders.
            first_row_id: The id of the first row.
            row_count: Rows.
            as_descriptors: Whether values are read as descriptors.

        Raises:
            FormatError: A file is corrupt, or a value is only a placeholder.
            NotFoundError: A file is missing.
            UnsupportedError: The version of a file is unknown.
        """
        file_of, offsets, lengths = (np.full(row_count, -1, np.int64) for _ in range(3))
        known, awaited = np.zeros(row_count, np.bool_), np.zeros(row_count, np.bool_)
        ordered = sorted(files, key=lambda file: (file.max_sequence_number, file.location))
        for number, file in enumerate(ordered):
            assert file.first_row_id is not None
            start = file.first_row_id - first_row_id
            rows = slice(start, start + file.row_count)
            found_offsets, found_lengths = _read_index(storage, file)
            own = found_lengths != PLACEHOLDER_LENGTH
            known[rows] |= own
            awaited[rows] |= ~own
            file_of[rows] = np.where(own, np.where(found_lengths >= 0, number, -1), file_of[rows])
            offsets[rows] = np.where(own, found_offsets, offsets[rows])
            lengths[rows] = np.where(own, found_lengths, lengths[rows])
        if (awaited & ~known).any():
            raise FormatError(
                "a value of a BLOB column is in an older file, which does not exist",
                location=ordered[-1].location,
                rule=RULE,
            )
        return cls(storage, tuple(ordered), file_of, offsets, lengths, as_descriptors)

    def size_bytes(self, first: int, count: int) -> int:
        """Approximate memory of the values of some rows."""
        if self.as_descriptors:
            return count * (FOOTER_BYTES + max((len(file.location) for file in self.files), default=0) + 24)
        return int(np.maximum(self.lengths[first : first + count], 0).sum())

    def batches(self, first: int, count: int, batch_rows: int) -> Iterator[pa.Array]:
        """The values of some rows; if they are read as bytes, batches are bounded by their size too."""
        row, end = first, first + count
        while row < end:
            stop = min(row + batch_rows, end)
            if not self.as_descriptors:
                sizes = np.cumsum(np.maximum(self.lengths[row:stop], 0))
                stop = row + max(int(np.searchsorted(sizes, _BATCH_BYTES, side="right")), 1)
            yield self._described(row, stop) if self.as_descriptors else self._bytes(row, stop)
            row = stop

    def _described(self, first: int, end: int) -> pa.Array:
        file_of = self.file_of[first:end]
        offsets = self.offsets[first:end] + len(BLOB_MAGIC)
        lengths = self.lengths[first:end] - OVERHEAD_BYTES
        numbers = np.unique(file_of[file_of >= 0]).tolist()
        if len(numbers) == 1:
            return descriptors(self.files[numbers[0]].location, offsets, lengths, file_of >= 0)
        parts = [pa.nulls(1, pa.large_binary())]
        places, taken = np.zeros(end - first, np.int64), 1
        for number in numbers:
            rows = np.flatnonzero(file_of == number)
            whole = np.ones(len(rows), np.bool_)
            parts.append(descriptors(self.files[number].location, offsets[rows], lengths[rows], whole))
            places[rows] = taken + np.arange(len(rows))
            taken += len(rows)
        return pa.concat_arrays(parts).take(pa.array(places))

    def _bytes(self, first: int, end: int) -> pa.Array:
        values: list[memoryview | None] = [None] * (end - first)
        file_of = self.file_of[first:end]
        for number in np.unique(file_of[file_of >= 0]).tolist():
            rows = np.flatnonzero(file_of == number)
            location = self.files[number].location
            offsets, lengths = self.offsets[first + rows].tolist(), self.lengths[first + rows].tolist()
            records = self.storage.read_ranges(location, offsets, lengths)
            for row, record in zip(rows.tolist(), records, strict=True):
                values[row] = _value(record, location)
        return pa.array(values, pa.large_binary())


def _read_index(storage: Storage, file: SplitFile) -> tuple[Longs, Longs]:
    """Where the records of a file begin, and how long they are: int64[rows] each."""
    tail, size = storage.read_tail(file.location, _TAIL_BYTES)
    if size != file.file_size:
        raise FormatError(
            f"the file has {size} bytes, the table's metadata says {file.file_size}", location=file.location
        )
    length = decode_index_length(bytes(tail[-FOOTER_BYTES:]), size, location=file.location)
    end = size - FOOTER_BYTES - length
    first = size - len(tail)
    data = bytes(tail[end - first : len(tail) - FOOTER_BYTES]) if end >= first else b""
    if end < first:
        data = storage.read_range(file.location, end, length)
    return decode_index(data, file.row_count, end, location=file.location)


def _value(record: memoryview, location: str) -> memoryview:
    """The bytes of a value, checked.

    Raises:
        FormatError: The record is corrupt.
    """
    length, crc = TRAILER.unpack(record[-TRAILER.size :])
    if record[: len(BLOB_MAGIC)] != BLOB_MAGIC or length != len(record) or zlib.crc32(record[:-4]) != crc:
        raise FormatError("a value of a BLOB file is corrupt", location=location, rule=RULE)
    return record[len(BLOB_MAGIC) : -TRAILER.size]
