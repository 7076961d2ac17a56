"""Rows by primary key: keys are routed to their buckets, looked up in the files there, and merged.

What is known about a snapshot's files and what was decoded of them stays in memory, so that the next look-up of the
same table finds it.

Spec: docs/formats/paimon.md § 7, § 9.4, § 9.5, § 10.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.errors import SchemaError, UnsupportedError
from skerry.paimon.manifests.hash_index import read_hashes
from skerry.paimon.manifests.index_manifest import HASH, IndexManifestEntry
from skerry.paimon.manifests.live_files import index_entries
from skerry.paimon.merging import MergeFunction, MergeOrder, OrderKeys, Records, lowest_level_only, sort_records
from skerry.paimon.metadata.buckets import assign_buckets
from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.deletion_positions import Positions
from skerry.paimon.planning.entry_columns import same_type
from skerry.paimon.planning.planned_splits import PlannedSplits
from skerry.paimon.reading.key_lookup import (
    BucketFiles,
    FoundRows,
    KeyLookup,
    encode_file_keys,
    wanted_keys,
)
from skerry.paimon.reading.rows import SplitReader
from skerry.paimon.reading.scan import PaimonScan
from skerry.paimon.values.binary_row import encode_rows
from skerry.paimon.writing.routing import split_partitions
from skerry.table.arguments import Keys
from skerry.table.files.evolution import plan_conversion
from skerry.table.rows.incoming import conform, open_stream
from skerry.table.work.read_ahead import SharedCache

__all__ = ["TableLookup"]

_NO_ROWS: Final = np.zeros(0, np.int64)
_Bucket: TypeAlias = tuple[bytes, int]


class TableLookup:
    """Look-ups in one table.

    Args:
        cache_bytes: How much of what was decoded is kept.
    """

    def __init__(self, cache_bytes: int) -> None:
        self._cache = SharedCache(cache_bytes)
        self._known: tuple[str, tuple[_SnapshotFiles, ...]] = ("", ())

    def rows(self, scan: PaimonScan, keys: Keys) -> pa.Table:
        """Look up rows.

        Args:
            scan: The snapshot and the columns; without a condition.
            keys: Values of the primary key.

        Returns:
            The columns of the scan: for each key that has a row that row, in the order of the keys.

        Raises:
            FormatError: A file is corrupt, or does not match the metadata.
            NotFoundError: A file is missing.
            SchemaError: The table has no primary key, or keys do not fit it.
            UnsupportedError: The columns are not only columns of the table, but values inside of variants.
        """
        schema = scan.state.schema
        if not schema.primary_keys:
            raise SchemaError("rows are looked up by primary key, and the table has none", location=scan.state.name)
        if any(reader.values for reader in scan.readers()):
            raise UnsupportedError("values inside of variants are not looked up: look up the column of variants")
        wanted = pa.schema([scan.state.arrow_schema.field(name) for name in schema.primary_keys])
        asked = conform(_as_stream(keys, wanted), wanted)
        files = self._files(scan)
        return pa.Table.from_batches((self._found(scan, files, batch) for batch in asked), scan.schema)

    def _files(self, scan: PaimonScan) -> tuple[_SnapshotFiles, ...]:
        """What is known about the files of the scan's snapshot, of each branch that is read."""
        version, files = self._known
        if version != scan.version:
            files = tuple(_SnapshotFiles(reader.state, splits) for reader, splits in scan.reads())
            self._known = (scan.version, files)
        return files

    def _found(self, scan: PaimonScan, files: tuple[_SnapshotFiles, ...], asked: pa.RecordBatch) -> pa.RecordBatch:
        rows, batches = [], []
        for known, reader in zip(files, scan.readers(), strict=True) if asked.num_rows else ():
            of_row, batch = known.look_up(reader, asked, self._cache)
            rows.append(of_row)
            batches.append(plan_conversion(batch.schema, scan.schema)(batch))
        if not rows:
            return pa.RecordBatch.from_pylist([], schema=scan.schema)
        order = np.argsort(np.concatenate(rows), kind="stable")
        return pa.concat_batches(batches).take(pa.array(order))


def _as_stream(keys: Keys, wanted: pa.Schema) -> pa.RecordBatchReader:
    """Keys as columns.

    Raises:
        SchemaError: They are of another form than the primary key.
    """
    if any(hasattr(keys, name) for name in ("__arrow_c_stream__", "__arrow_c_array__", "to_reader")):
        reader = open_stream(keys)
        present = [name for name in wanted.names if name in reader.schema.names]
        only = pa.schema([reader.schema.field(name) for name in present])
        return pa.RecordBatchReader.from_batches(only, (batch.select(present) for batch in reader))
    if isinstance(keys, str | bytes | Mapping) or not isinstance(keys, Iterable):
        raise SchemaError(f"keys must be a list of keys or an Arrow table, found {type(keys).__name__}: {keys!r:.80}")
    told = list(keys)
    rows = [_as_tuple(key, wanted.names) for key in told]
    columns = []
    for number, field in enumerate(wanted):
        try:
            columns.append(pa.array([row[number] for row in rows], field.type))
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise SchemaError(f"a key does not fit column {field.name!r} of type {field.type}: {error}") from error
    return pa.table(columns, names=wanted.names).to_reader()


def _as_tuple(key: Any, names: list[str]) -> tuple[Any, ...]:
    if isinstance(key, Mapping):
        if set(key) != set(names):
            raise SchemaError(f"a key has the fields {', '.join(names)}, found {key!r:.80}")
        return tuple(key[name] for name in names)
    values = tuple(key) if isinstance(key, tuple | list) else (key,)
    if len(values) != len(names):
        raise SchemaError(f"a key has the fields {', '.join(names)}, found {key!r:.80}")
    return values


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """Rows that were found.

    Args:
        keys: int64[n] The key of each, part by part.
        values: Their values.
    """

    keys: list[Positions]
    values: list[pa.RecordBatch]

    def add(self, keys: Positions, values: pa.RecordBatch) -> None:
        """Add a part."""
        self.keys.append(keys)
        self.values.append(values)


def _row_values(
    lookup: KeyLookup, bucket: BucketFiles, found: FoundRows, asked: pa.RecordBatch, schema: pa.Schema
) -> pa.RecordBatch:
    """The values of rows, those of the key from what was asked for; 0.0 and -0.0 are one key, and are read."""
    known = [name for name in asked.schema.names if not pa.types.is_floating(asked.schema.field(name).type)]
    unknown = pa.schema([column for column in schema if column.name not in known])
    values = lookup.values(bucket, found, unknown) if len(unknown) else asked
    columns = [(asked if column.name in known else values).column(column.name) for column in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema) if columns else asked.select([])


class _SnapshotFiles:
    """The files of one snapshot of a branch, by bucket.

    Args:
        state: The branch with its snapshot.
        splits: What a scan without a condition reads.
    """

    def __init__(self, state: PaimonState, splits: PlannedSplits) -> None:
        self._state = state
        self._files = splits.files
        entries = splits.files.entries
        buckets = zip(entries.column("_PARTITION").to_pylist(), entries.column("_BUCKET").to_pylist(), strict=True)
        rows: dict[_Bucket, list[int]] = {}
        for row, bucket in enumerate(buckets):
            rows.setdefault(bucket, []).append(row)
        self._rows = {bucket: np.array(found, np.int64) for bucket, found in rows.items()}
        self._numbers: dict[bytes, list[int]] = {}
        for partition, number in self._rows:
            self._numbers.setdefault(partition, []).append(number)
        self._buckets: dict[_Bucket, BucketFiles] = {}

    def look_up(
        self, reader: SplitReader, asked: pa.RecordBatch, cache: SharedCache
    ) -> tuple[Positions, pa.RecordBatch]:
        """Look up keys.

        Args:
            reader: Knows the columns.
            asked: Values of the primary key.
            cache: Keeps what is decoded.

        Returns:
            int64[n]: which of the keys have a row; and the rows, with at least the columns of the reader.
        """
        lookup = KeyLookup(self._state, reader.merge_columns, cache)
        asked_rows, asked_keys = [_NO_ROWS], [_NO_ROWS]
        alone = _Found([_NO_ROWS], [pa.RecordBatch.from_pylist([], schema=reader.read_schema)])
        several: list[tuple[Positions, Records, Positions]] = []
        count = 0
        for bucket, rows in self._routes(asked, cache):
            part = asked.take(pa.array(rows))
            wanted, places = wanted_keys(self._state.schema, part)
            found = lookup.find(bucket, wanted)
            is_row = lookup.only_adds(bucket)[found.files] & (np.bincount(found.keys, minlength=1)[found.keys] == 1)
            singles, rest = found.only(is_row), found.only(~is_row)
            if len(singles):
                first = np.empty(len(wanted), np.int64)
                first[places[::-1]] = np.arange(len(places))[::-1]
                known = part.take(pa.array(first[singles.keys]))
                alone.add(count + singles.keys, _row_values(lookup, bucket, singles, known, reader.read_schema))
            if len(rest):
                levels = np.array([file.level for file in bucket.files], np.int64)[rest.files]
                several.append((count + rest.keys, lookup.records(bucket, rest), levels))
            asked_rows.append(rows)
            asked_keys.append(count + places)
            count += len(wanted)
        if several:
            keys, records, levels_of = zip(*several, strict=True)
            together = Records.concat(records)
            of_key, values = _merged(self._state.schema, together, np.concatenate(keys), np.concatenate(levels_of))
            alone.add(of_key, values.select(reader.read_schema.names))
        of_key, values = np.concatenate(alone.keys), pa.concat_batches(alone.values)
        row_of = np.full(count, -1, np.int64)
        row_of[of_key] = np.arange(len(of_key))
        chosen = row_of[np.concatenate(asked_keys)]
        return np.concatenate(asked_rows)[chosen >= 0], values.take(pa.array(chosen[chosen >= 0]))

    # ---- from keys to buckets ----

    def _routes(self, asked: pa.RecordBatch, cache: SharedCache) -> Iterator[tuple[BucketFiles, Positions]]:
        """The buckets that can hold keys, each with int64[n] these keys."""
        schema = self._state.schema
        if schema.is_cross_partition:  # the key does not say in which partition its row is
            everything = np.arange(asked.num_rows)
            partitions: Iterable[tuple[bytes, Positions]] = ((partition, everything) for partition in self._numbers)
        else:
            partitions = split_partitions(schema, asked)
        for partition, rows in partitions:
            numbers = self._numbers.get(partition)
            if numbers is None or not len(rows):
                continue
            for number, chosen in self._in_buckets(partition, numbers, asked.take(pa.array(rows)), cache):
                if chosen is None:
                    yield self._bucket((partition, number)), rows
                elif chosen.any():
                    yield self._bucket((partition, number)), rows[chosen]

    def _in_buckets(
        self, partition: bytes, numbers: Iterable[int], part: pa.RecordBatch, cache: SharedCache
    ) -> Iterator[tuple[int, npt.NDArray[np.bool_] | None]]:
        """The buckets of a partition, each with bool[keys]: which keys can be in it; None if nothing is known."""
        schema = self._state.schema
        fields = schema.fields_of(schema.bucket_keys)
        types, columns = [field.type for field in fields], [part.column(field.name) for field in fields]
        total = self._totals[partition]
        if total > 0:
            function = self._state.options.bucket_function
            assigned = assign_buckets(function, types, columns, total) if self._hashes_alike else None
            yield from ((number, None if assigned is None else assigned == number) for number in numbers)
            return
        hashes = encode_rows(types, columns).hashes() if self._hash_indexes else np.zeros(0, np.int32)
        for number in numbers:
            entry = self._hash_indexes.get((partition, number))
            yield number, None if entry is None else np.isin(hashes, self._hashes(entry, cache))

    def _hashes(self, entry: IndexManifestEntry, cache: SharedCache) -> npt.NDArray[np.int32]:
        """The hashes of the keys of a dynamic bucket."""
        folder = self._files.folders[int(self._files.folder_of[self._rows[entry.partition, entry.bucket][0]])]
        location = self._state.paths.index_file(entry.file_name, folder)
        return cache.get(
            ("hashes", location),
            lambda: read_hashes(self._state.storage, location, entry),
            lambda hashes: int(hashes.nbytes),
        )

    @cached_property
    def _totals(self) -> Mapping[bytes, int]:
        """The number of buckets of each partition; planning has checked that its files agree."""
        totals = self._files.entries.column("_TOTAL_BUCKETS")
        return {partition: totals[int(rows[0])].as_py() for (partition, _), rows in self._rows.items()}

    @cached_property
    def _hashes_alike(self) -> bool:
        """Whether all files were put into buckets by keys of the present types."""
        return all(
            field.id in then and same_type(then[field.id], field.type)
            for number in np.unique(np.asarray(self._files.entries.column("_SCHEMA_ID"))).tolist()
            for then in [{field.id: field.type for field in self._state.schema_by_id(number).fields}]
            for field in self._state.schema.fields_of(self._state.schema.bucket_keys)
        )

    @cached_property
    def _hash_indexes(self) -> Mapping[_Bucket, IndexManifestEntry]:
        entries = index_entries(self._state)
        return {(entry.partition, entry.bucket): entry for entry in entries if entry.index_type == HASH}

    def _bucket(self, bucket: _Bucket) -> BucketFiles:
        found = self._buckets.get(bucket)
        if found is None:
            rows, schema = self._rows[bucket], self._state.schema
            lowest, highest = (
                encode_file_keys(schema, self._files.entries.column(name).take(pa.array(rows)))
                for name in ("_MIN_KEY", "_MAX_KEY")
            )
            files = tuple(self._files.records(rows))
            found = self._buckets[bucket] = BucketFiles(bucket[0], files, lowest, highest)
        return found


def _merged(
    schema: TableSchema, records: Records, keys: Positions, levels: Positions
) -> tuple[Positions, pa.RecordBatch]:
    """Merge records.

    Args:
        schema: The table's schema.
        records: The records.
        keys: int64[records] A number for the key of each.
        levels: int64[records] The level of each.

    Returns:
        int64[n]: the keys that have a row; and the rows.
    """
    function = MergeFunction(schema)
    nothing = np.zeros(0, np.int64)
    by_key = OrderKeys(keys.astype(np.uint64), nothing.astype(np.uint8), nothing)
    order = sort_records(by_key, records.numbers, function.sequence_keys(records.values))
    if function.has_whole_rows:
        order = lowest_level_only(order, levels)
    merged = function.merge(records, order)
    of_key = keys[order.rows[order.starts[:-1]]]
    if len(merged) < len(of_key):
        of_key = of_key[_has_effect(records, order)]
    adds = np.flatnonzero((merged.kinds & 1) == 0)
    return of_key[adds], merged.values.take(pa.array(adds))


def _has_effect(records: Records, order: MergeOrder) -> npt.NDArray[np.bool_]:
    """bool[keys] Which keys merging keeps if deletes are ignored: not those that have several of them only."""
    adds = np.add.reduceat((records.kinds[order.rows] & 1) == 0, order.starts[:-1], dtype=np.int64)
    return (adds > 0) | (np.diff(order.starts) == 1)
