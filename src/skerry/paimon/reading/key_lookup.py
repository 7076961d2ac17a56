"""Looking up keys in the files of a bucket: which of them hold a record of a key, and the record.

Spec: docs/formats/paimon.md § 9.5, § 10.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.paimon.manifests.manifest import ManifestEntry
from skerry.paimon.merging import OrderKeys, Records, encode_order_keys, search_keys
from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.deletion_positions import Positions
from skerry.paimon.planning.file_splits import FileSplits
from skerry.paimon.planning.splits import SplitFile
from skerry.paimon.reading.data_files import SYSTEM_COLUMNS
from skerry.paimon.reading.file_rows import FileRows, WantedKeys
from skerry.paimon.reading.stored_records import as_records
from skerry.paimon.values.binary_reading import decode_rows
from skerry.table.work.read_ahead import SharedCache

__all__ = ["BucketFiles", "FoundRows", "KeyLookup", "encode_file_keys", "wanted_keys"]


def wanted_keys(schema: TableSchema, rows: pa.RecordBatch) -> tuple[WantedKeys, Positions]:
    """The distinct keys of rows.

    Args:
        schema: The table's schema.
        rows: Rows with at least the columns of the trimmed primary key, none of them null.

    Returns:
        The keys, ascending; and int64[rows]: the key of each row.
    """
    names = schema.trimmed_primary_keys
    columns = [rows.column(name) for name in names]
    keys = encode_order_keys(columns, [False] * len(columns))
    order = keys.order()
    ranks = keys.take(order).ranks()
    is_new = np.append(True, ranks[1:] != ranks[:-1]) if len(ranks) else np.zeros(0, np.bool_)
    places = np.empty(len(order), np.int64)
    places[order] = np.cumsum(is_new) - 1
    return WantedKeys.of(keys, columns, order[is_new]), places


@dataclass(frozen=True, slots=True, eq=False)
class BucketFiles:
    """Files of one bucket of a primary-key table, with their keys.

    Args:
        partition: Values of the partition keys as a row with arity.
        files: The files, in any order.
        lowest: The least key of each file.
        highest: The greatest.
    """

    partition: bytes
    files: tuple[SplitFile, ...]
    lowest: OrderKeys
    highest: OrderKeys

    @classmethod
    def of(cls, schema: TableSchema, splits: FileSplits, entries: Sequence[ManifestEntry]) -> BucketFiles:
        """Files as manifests name them.

        Args:
            schema: The table's schema.
            splits: Knows their locations and deletion vectors.
            entries: At least one, all of the same bucket.

        Raises:
            FormatError: A key does not match the columns.
        """
        return cls(
            entries[0].partition,
            tuple(map(splits.file, entries)),
            encode_file_keys(schema, [entry.file.min_key for entry in entries]),
            encode_file_keys(schema, [entry.file.max_key for entry in entries]),
        )


def encode_file_keys(schema: TableSchema, keys: Sequence[bytes] | pa.Array) -> OrderKeys:
    """Keys of manifests (`_MIN_KEY`, `_MAX_KEY`) as keys that compare.

    Raises:
        FormatError: A key does not match the columns.
    """
    columns = decode_rows([field.type for field in schema.key_fields], keys)
    return encode_order_keys(columns, [False] * len(columns))


@dataclass(frozen=True, slots=True, eq=False)
class FoundRows:
    """Records that were found, by file, those of a file in the order of their keys.

    Args:
        keys: int64[n] Index of the key of each.
        files: int64[n] Index of its file in `BucketFiles.files`.
        positions: int64[n] Position of its row in that file.
    """

    keys: Positions
    files: Positions
    positions: Positions

    def __len__(self) -> int:
        return len(self.keys)

    def only(self, chosen: npt.NDArray[np.bool_]) -> FoundRows:
        """Some of the records."""
        return FoundRows(self.keys[chosen], self.files[chosen], self.positions[chosen])

    @classmethod
    def concat(cls, parts: Sequence[FoundRows]) -> FoundRows:
        """Concatenate records found in files of the same bucket."""
        if not parts:
            nothing = np.zeros(0, np.int64)
            return cls(nothing, nothing, nothing)
        return cls(
            np.concatenate([part.keys for part in parts]),
            np.concatenate([part.files for part in parts]),
            np.concatenate([part.positions for part in parts]),
        )


@dataclass(frozen=True)
class KeyLookup:
    """Finds records by key in the files of a bucket, without reading more of them than can hold the keys.

    Example:
        wanted, key_of_row = wanted_keys(state.schema, new_rows)
        bucket = BucketFiles.of(state.schema, FileSplits(state, layout), entries)
        found = lookup.find_older(bucket, wanted)  # at most one record for each key
        older = lookup.records(bucket, found)  # that of key found.keys[i] is row i

    Args:
        state: The table, with the schema of the rows to return.
        columns: The columns of the table to return.
        cache: Keeps what was decoded: footers, keys, pages with wanted rows. Look-ups that share one share that.
        keeps_values: Whether it keeps pages with values, from which further rows may be wanted.
    """

    state: PaimonState
    columns: pa.Schema
    cache: SharedCache = field(repr=False)
    keeps_values: bool = True

    @classmethod
    def of(cls, state: PaimonState) -> KeyLookup:
        """A look-up of all columns with a cache of its own, for rows that are wanted once."""
        return cls(state, state.arrow_schema, SharedCache(state.options.lookup_cache_bytes), keeps_values=False)

    def find(self, bucket: BucketFiles, wanted: WantedKeys, *, files: Sequence[int] | None = None) -> FoundRows:
        """Find all records of keys.

        Args:
            bucket: The files.
            wanted: The keys.
            files: Only in these of the files.

        Returns:
            The records, without those that deletion vectors mark; of every kind.

        Raises:
            FormatError: A file is corrupt, or does not match the metadata.
            NotFoundError: A file is missing.
        """
        rows = self._rows(bucket.partition)
        starts, _ = search_keys(wanted.keys, bucket.lowest)
        stops, _ = search_keys(wanted.keys, bucket.highest, after=True)
        parts = []
        for number in range(len(bucket.files)) if files is None else files:
            start, stop = int(starts[number]), int(stops[number])
            if start < stop:
                keys, positions = rows.find(bucket.files[number], wanted.slice(start, stop))
                parts.append(FoundRows(keys + start, np.full(len(keys), number, np.int64), positions))
        return FoundRows.concat(parts)

    def find_older(self, bucket: BucketFiles, wanted: WantedKeys, *, above: int = 0) -> FoundRows:
        """Find what compaction by look-up merges new records of level 0 with.

        Where compaction looks keys up, a record of level 1 or higher is the complete row of its key in its level and
        all above: only the lowest level with a record counts.

        Args:
            bucket: The files; those up to level `above` are left out.
            wanted: The keys.
            above: The highest level that is not searched.

        Returns:
            At most one record for each key, without those that deletion vectors mark; of every kind.

        Raises:
            SkerryError: As `find`.
        """
        levels: dict[int, list[int]] = {}
        for number, file in enumerate(bucket.files):
            if file.level > above:
                levels.setdefault(file.level, []).append(number)
        left = np.arange(len(wanted))
        parts = []
        for level in sorted(levels):
            if not len(left):
                break
            found = self.find(bucket, wanted.take(left), files=levels[level])
            parts.append(FoundRows(left[found.keys], found.files, found.positions))
            is_left = np.full(len(left), True)
            is_left[found.keys] = False
            left = left[is_left]
        return FoundRows.concat(parts)

    def records(self, bucket: BucketFiles, found: FoundRows) -> Records:
        """Read records that were found.

        Args:
            bucket: The files in which they were found.
            found: The records.

        Returns:
            The records in the order of `found`, with the values of `columns`.

        Raises:
            SkerryError: As `find`.
        """
        return as_records(self.values(bucket, found, pa.schema([*self.columns, *SYSTEM_COLUMNS])))

    def only_adds(self, bucket: BucketFiles) -> npt.NDArray[np.bool_]:
        """bool[files] Which files have no records of kind -U and -D, as far as statistics in them show."""
        rows = self._rows(bucket.partition)
        return np.array([rows.only_adds(file) for file in bucket.files], np.bool_)

    def values(self, bucket: BucketFiles, found: FoundRows, schema: pa.Schema) -> pa.RecordBatch:
        """Read columns of records that were found.

        Args:
            bucket: The files in which they were found.
            found: The records.
            schema: Columns of the table, and system columns.

        Returns:
            The columns, in the order of `found`.

        Raises:
            SkerryError: As `find`.
        """
        rows = self._rows(bucket.partition)
        parts, order = [pa.RecordBatch.from_pylist([], schema=schema)], [np.zeros(0, np.int64)]
        for number in np.unique(found.files).tolist():
            places = np.flatnonzero(found.files == number)
            parts.append(rows.take(bucket.files[number], schema, found.positions[places]))
            order.append(places)
        together, places = pa.concat_batches(parts), np.concatenate(order)
        if (places[1:] < places[:-1]).any():
            back = np.empty(len(places), np.int64)
            back[places] = np.arange(len(places))
            together = together.take(pa.array(back))
        return together

    def _rows(self, partition: bytes) -> FileRows:
        found = self._by_partition.get(partition)
        if found is None:
            found = self._by_partition[partition] = FileRows(self.state, partition, self.cache, self.keeps_values)
        return found

    @cached_property
    def _by_partition(self) -> dict[bytes, FileRows]:
        return {}
