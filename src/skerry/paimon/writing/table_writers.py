"""Writers of a table's rows: split by partition and bucket, sorted if the table has keys, and sketched.

Memory is bounded: rows are buffered per bucket; when all together exceed a limit, buckets are written. If an append
table has more of them than files may be open at a time, rows are spilled to disk, so that a bucket still gets one file.

Spec: docs/formats/paimon.md § 7, § 8.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import SchemaError
from skerry.paimon.manifests.index_manifest import IndexManifestEntry
from skerry.paimon.merging import MergeFunction, Records
from skerry.paimon.metadata.options import ChangelogProducer
from skerry.paimon.metadata.paths import POSTPONE_BUCKET
from skerry.paimon.recent_runs import RecentRows
from skerry.paimon.values.binary_row import encode_rows
from skerry.paimon.writing.bucket_states import BucketStates
from skerry.paimon.writing.cross_partition import CrossPartitionKeys
from skerry.paimon.writing.data_files import BucketFiles, BucketLocation, WrittenDataFile
from skerry.paimon.writing.dynamic_buckets import KeyBuckets
from skerry.paimon.writing.key_sorting import file_rows, order_records
from skerry.paimon.writing.layout import WriteLayout
from skerry.paimon.writing.routing import BUCKET_COLUMN, Router, split_partitions
from skerry.table.owned_files import give_up
from skerry.table.rows.spill_file import SpillFile

__all__ = ["KIND_COLUMN", "AppendWriter", "KeyedWriter", "WaitingWriter", "WrittenRows", "write_rows", "write_waiting"]

KIND_COLUMN: Final = "_kind"
"""A column after those of the table with the kind of each row: int8 0 +I, 1 -U, 2 +U, 3 -D."""

_MAX_OPEN_FILES: Final = 16  # in object stores a file buffers up to 32 MiB before it is uploaded in parts
_MAX_BUFFERED_BYTES: Final = 512 << 20
_Bucket: TypeAlias = tuple[bytes, int]
_KINDS: Final = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """The result of a writer; small and picklable.

    Args:
        files: Data files and changelog files.
        indexes: New index files of dynamic buckets.
        row_count: Number of input rows.
    """

    files: tuple[WrittenDataFile, ...] = ()
    indexes: tuple[IndexManifestEntry, ...] = ()
    row_count: int = 0


def write_rows(
    layout: WriteLayout,
    batches: Iterable[pa.RecordBatch],
    bucket_states: BucketStates,
    indexes: KeyBuckets | CrossPartitionKeys | None,
) -> WrittenRows:
    """Write batches as data files.

    Args:
        layout: Layout of the table's files.
        batches: Rows with the table's columns; in primary-key tables optionally followed by a column `KIND_COLUMN`.
        bucket_states: The buckets that exist.
        indexes: The keys of dynamic buckets, or of all partitions; None for other tables.

    Returns:
        The files. No table has them until a commit names them; if writing fails they are removed.
    """
    if not layout.has_keys:
        return _written(AppendWriter(layout, bucket_states), batches)
    return _written(KeyedWriter(layout, bucket_states, indexes), batches)


def write_waiting(layout: WriteLayout, batches: Iterable[pa.RecordBatch]) -> WrittenRows:
    """Write batches, as `write_rows` takes them, to files where they wait for their buckets."""
    return _written(WaitingWriter(layout), batches)


def _written(writer: AppendWriter | KeyedWriter | WaitingWriter, batches: Iterable[pa.RecordBatch]) -> WrittenRows:
    try:
        for batch in batches:
            writer.write(batch)
        return writer.close()
    except BaseException:
        writer.abort()
        raise


class AppendWriter:
    """Writes rows of an append table.

    Args:
        layout: Layout of the table's files.
        bucket_states: The buckets that exist.
    """

    def __init__(self, layout: WriteLayout, bucket_states: BucketStates) -> None:
        self._layout = layout
        bucket = layout.options.bucket
        self._router = Router(layout, lambda partition: bucket_states.total_buckets.get(partition, bucket))
        self._buckets: dict[_Bucket, BucketFiles] = {}
        self._open: dict[_Bucket, int] = {}  # total bytes received when the bucket's last rows arrived
        self._taken_bytes = 0
        self._spool: SpillFile | None = None
        self._spooled: set[_Bucket] = set()
        self._written: list[WrittenDataFile] = []
        self._row_count = 0
        self._buffered_bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows with the table's columns."""
        self._row_count += batch.num_rows
        if not batch.num_rows:
            return
        for bucket, rows, _ in self._router.split(batch):
            files = self._buckets.get(bucket.key)
            if files is None:
                files = self._buckets[bucket.key] = BucketFiles(self._layout, bucket)
            before = files.buffered_bytes
            files.write(pa.Table.from_batches([rows]), holds=not self._may_open(files))
            self._buffered_bytes += files.buffered_bytes - before
            self._taken_bytes += rows.nbytes
            if files.is_full:
                self._flush(files)
            self._note(files)
        if self._buffered_bytes > _MAX_BUFFERED_BYTES:
            self._make_room()

    def close(self) -> WrittenRows:
        """Finish all files."""
        for key, files in list(self._buckets.items()):
            waiting = files.take()
            for batch in self._spool.take(key) if self._spool is not None else ():
                files.write(pa.Table.from_batches([batch]))
            for rows in waiting:
                files.write(rows)
            self._written += files.close()
            del self._buckets[key]
        self._remove_spool()
        return WrittenRows(tuple(self._written), (), self._row_count)

    def abort(self) -> None:
        """Remove everything that was written."""
        for files in self._buckets.values():
            files.abort()
        self._buckets.clear()
        self._remove_spool()
        give_up(self._layout.storage, (location for file in self._written for location in file.locations))

    def _make_room(self) -> None:
        """Write out the largest buffers."""
        for files in sorted(self._buckets.values(), key=lambda files: -files.buffered_bytes):
            if self._buffered_bytes <= _MAX_BUFFERED_BYTES // 4:
                break
            if files.buffered_bytes:  # it was not closed to make room for one before it
                self._flush(files)

    def _flush(self, files: BucketFiles) -> None:
        """Write a buffer to its bucket's file if that is open or may be opened, else to disk."""
        self._buffered_bytes -= files.buffered_bytes
        if self._may_open(files):
            files.flush()
            self._note(files)
        elif waiting := files.take():
            if self._spool is None:
                self._spool = SpillFile(waiting[0].schema)
            for batch in pa.concat_tables(waiting).combine_chunks().to_batches():
                self._spool.add(files.bucket.key, batch)
            self._spooled.add(files.bucket.key)

    def _may_open(self, files: BucketFiles) -> bool:
        """Whether a bucket has a file, or can get one; the file that was idle longest is closed for it."""
        if files.is_open:
            return True
        if files.bucket.key in self._spooled:  # keeps the order of rows
            return False
        if len(self._open) >= _MAX_OPEN_FILES:
            idle = min(self._open, key=self._open.__getitem__)
            if self._taken_bytes - self._open[idle] < _MAX_BUFFERED_BYTES:
                return False
            done = self._buckets.pop(idle)
            self._buffered_bytes -= done.buffered_bytes
            self._written += done.close()
            del self._open[idle]
        return True

    def _note(self, files: BucketFiles) -> None:
        if files.is_open:
            self._open[files.bucket.key] = self._taken_bytes
        else:
            self._open.pop(files.bucket.key, None)

    def _remove_spool(self) -> None:
        spool, self._spool = self._spool, None
        if spool is not None:
            spool.close()


class _Buffer:
    """Buffered rows of one bucket, yet to be sorted."""

    def __init__(self, bucket: BucketLocation) -> None:
        self.bucket = bucket
        self.rows: list[pa.RecordBatch] = []
        self.kinds: list[npt.NDArray[np.int8]] = []
        self.size_bytes = 0

    def add(self, rows: pa.RecordBatch, kinds: npt.NDArray[np.int8]) -> None:
        self.rows.append(rows)
        self.kinds.append(kinds)
        self.size_bytes += rows.nbytes


class KeyedWriter:
    """Writes rows of a primary-key table to files of level 0.

    Args:
        layout: Layout of the table's files.
        bucket_states: The buckets that exist.
        indexes: The keys of dynamic buckets; None for other tables.
    """

    def __init__(
        self, layout: WriteLayout, bucket_states: BucketStates, indexes: KeyBuckets | CrossPartitionKeys | None
    ) -> None:
        self._layout = layout
        self._bucket_states = bucket_states
        self._function = MergeFunction(layout.schema)
        self._function.check()
        self._moves = indexes if isinstance(indexes, CrossPartitionKeys) else None
        self._indexes = None if isinstance(indexes, CrossPartitionKeys) else indexes
        bucket = layout.options.bucket
        self._router = Router(
            layout,
            lambda partition: bucket_states.total_buckets.get(partition, bucket),
            None if indexes is None else self._choose,
        )
        self._buffers: dict[tuple[bytes, int], _Buffer] = {}
        self._next: dict[tuple[bytes, int], int] = {}
        self._written: list[WrittenDataFile] = []
        self._row_count = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows with the table's columns, followed by `KIND_COLUMN` if they are not all inserts."""
        self._row_count += batch.num_rows
        rows, kinds = records_of(self._layout, batch)
        if not rows.num_rows:
            return
        names = self._layout.schema.arrow_schema.names
        for placed, of_kind in [(rows, kinds)] if self._moves is None else self._moves.assign(rows, kinds):
            for bucket, part, chosen in self._router.split(placed) if placed.num_rows else ():
                buffer = self._buffers.get(bucket.key)
                if buffer is None:
                    buffer = self._buffers[bucket.key] = _Buffer(bucket)
                buffer.add(part.select(names), of_kind[chosen])
        if sum(buffer.size_bytes for buffer in self._buffers.values()) > _MAX_BUFFERED_BYTES:
            self._flush()

    def close(self) -> WrittenRows:
        """Write the buffered rows, and the new index files."""
        self._flush()
        indexes = self._indexes.write(self._layout) if self._indexes is not None else ()
        return WrittenRows(tuple(self._written), indexes, self._row_count)

    def abort(self) -> None:
        """Remove everything that was written."""
        self._buffers.clear()
        give_up(self._layout.storage, (location for file in self._written for location in file.locations))

    def _flush(self) -> None:
        """Write all buckets in parallel: sorting, encoding and sketching release the GIL."""
        buffers = list(self._buffers.values())
        self._buffers.clear()
        if len(buffers) == 1:
            self._written += self._write_bucket(buffers[0])
        elif buffers:
            with ThreadPoolExecutor(min(len(buffers), os.cpu_count() or 1)) as pool:
                futures = [pool.submit(self._write_bucket, buffer) for buffer in buffers]
                failures = [future.exception() for future in futures]
                for future, failure in zip(futures, failures, strict=True):
                    if failure is None:
                        self._written += future.result()
                for failure in failures:
                    if failure is not None:
                        raise failure

    def _write_bucket(self, buffer: _Buffer) -> list[WrittenDataFile]:
        layout, bucket = self._layout, buffer.bucket
        kinds = np.concatenate(buffer.kinds)
        first = self._next.get(bucket.key, self._bucket_states.next_sequence(*bucket.key))
        self._next[bucket.key] = first + len(kinds)
        values = pa.concat_batches(buffer.rows)
        records = Records(values, kinds, np.arange(first, first + len(kinds)))
        order = order_records(layout, self._function, records)
        written = []
        if layout.options.changelog_producer is ChangelogProducer.INPUT:
            changes = BucketFiles(layout, bucket, is_changelog=True)
            changes.write(file_rows(layout, records.take(order.rows)))
            written += changes.close()
        files = BucketFiles(layout, bucket)
        rows = file_rows(layout, self._function.merge(records, order))
        files.write(rows)
        recent = RecentRows(layout.options)
        recent.add(rows)
        new = files.close()
        recent.keep((file.location, file.file.row_count) for file in new)
        return written + new

    def _choose(self, partition: bytes, rows: pa.RecordBatch) -> npt.NDArray[np.int32]:
        """int32[rows] The bucket of each row of a partition."""
        if self._indexes is None:
            return np.asarray(rows.column(BUCKET_COLUMN))
        return self._indexes.assign(partition, self._key_hashes(rows))

    def _key_hashes(self, rows: pa.RecordBatch) -> npt.NDArray[np.int32]:
        fields = self._layout.schema.key_fields
        return encode_rows([field.type for field in fields], [rows.column(field.name) for field in fields]).hashes()


class WaitingWriter:
    """Writes records of a primary-key table to files where they wait for their buckets, in order.

    Args:
        layout: Layout of the table's files.

    Spec: docs/formats/paimon.md § 7.7.
    """

    def __init__(self, layout: WriteLayout) -> None:
        MergeFunction(layout.schema).check()
        self._layout = layout.waiting
        self._files: dict[bytes, BucketFiles] = {}
        self._written: list[WrittenDataFile] = []
        self._row_count = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows with the table's columns, followed by `KIND_COLUMN` if they are not all inserts."""
        self._row_count += batch.num_rows
        rows, kinds = records_of(self._layout, batch)
        for partition, chosen in split_partitions(self._layout.schema, rows) if rows.num_rows else ():
            if partition not in self._files:
                if len(self._files) >= _MAX_OPEN_FILES:
                    self._finish(next(iter(self._files)))
                folder = self._layout.new_bucket_folder(partition, POSTPONE_BUCKET)
                bucket = BucketLocation(partition, POSTPONE_BUCKET, POSTPONE_BUCKET, folder)
                self._files[partition] = BucketFiles(self._layout, bucket, sketches=False)
            records = Records(rows.take(pa.array(chosen)), kinds[chosen], np.full(len(chosen), -1, np.int64))
            self._files[partition].write(file_rows(self._layout, records))

    def close(self) -> WrittenRows:
        """Finish all files."""
        for partition in list(self._files):
            self._finish(partition)
        return WrittenRows(tuple(self._written), (), self._row_count)

    def abort(self) -> None:
        """Remove everything that was written."""
        for files in self._files.values():
            files.abort()
        self._files.clear()
        give_up(self._layout.storage, (location for file in self._written for location in file.locations))

    def _finish(self, partition: bytes) -> None:
        self._written += self._files[partition].close()
        del self._files[partition]


def records_of(layout: WriteLayout, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, npt.NDArray[np.int8]]:
    """The rows of a batch that a table does not ignore, and int8[n] their kinds."""
    options = layout.options
    if options.rowkind_field is not None:
        kinds = _kinds_of_texts(options.rowkind_field, batch.column(options.rowkind_field))
    elif KIND_COLUMN in batch.schema.names:
        kinds = np.asarray(batch.column(KIND_COLUMN)).astype(np.int8)
    else:
        kinds = np.zeros(batch.num_rows, np.int8)
    rows = batch.select(layout.schema.arrow_schema.names)
    skipped = np.zeros(len(kinds), np.bool_)
    if options.ignore_delete:
        skipped |= (kinds == 1) | (kinds == 3)
    if options.ignore_update_before:
        skipped |= kinds == 1
    if skipped.any():
        rows, kinds = rows.filter(pa.array(~skipped)), kinds[~skipped]
    return rows, kinds


def _kinds_of_texts(column: str, texts: pa.Array) -> npt.NDArray[np.int8]:
    encoded = pc.dictionary_encode(texts, null_encoding="encode")
    found = []
    for text in encoded.dictionary.to_pylist():
        if text not in _KINDS:
            raise SchemaError(f"column {column!r} (option rowkind.field) must be +I, -U, +U or -D, found {text!r}")
        found.append(_KINDS[text])
    return np.array(found, np.int8)[np.asarray(encoded.indices)] if found else np.zeros(0, np.int8)
