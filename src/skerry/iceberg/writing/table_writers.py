"""Writing of data files from Arrow batches: split by partition, sort, roll at the target size, sketch.

The same writer is used for appends in one process and for Spark tasks.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skerry.iceberg.writing.file_writers import FileWriter
from skerry.iceberg.writing.layout import FileLayout
from skerry.storage import join
from skerry.table.owned_files import give_up
from skerry.table.rows.spill_file import SpillFile
from skerry.table.statistics.sketching import BatchSketcher
from skerry.table.statistics.written_file import WrittenFile

if TYPE_CHECKING:
    from skerry.table.indexes.collecting import KeyCollector

__all__ = ["PartitionedWriter", "write_batches"]

MAX_OPEN_FILES = 16  # on object stores a file buffers up to 32 MiB before it is uploaded in parts
MAX_BUFFERED_BYTES = 256 << 20
_FEW_ROWS = 4096  # per batch: smaller ones are combined, because each batch has a cost


def write_batches(layout: FileLayout, batches: Iterable[pa.RecordBatch]) -> list[WrittenFile]:
    """Write batches as data files.

    Args:
        layout: The table's layout. batches: Rows with exactly the layout's file schema.

    Returns:
        The files with metrics and samples, in the order in which they were closed. They belong to no table until a
        commit names them; if writing fails, the files written so far are removed.
    """
    writer = PartitionedWriter(layout)
    try:
        for batch in batches:
            writer.write(batch)
        return writer.close()
    except BaseException:
        writer.abort()
        raise


class PartitionedWriter:
    """Writes rows in any order to as few files per partition as the target size allows.

    Memory is bounded for any number of partitions and width of rows: rows are buffered per partition until they fill a
    row group. When all buffers together exceed 256 MiB, the largest are written out. At most 16 files are open at a
    time; rows of other partitions, and rows that must be sorted, are spilled to disk.

    Args:
        layout: The table's layout.

    Attributes:
        buffered_bytes: Memory of the rows that are not encoded yet.
    """

    def __init__(self, layout: FileLayout) -> None:
        self._layout = layout
        self._partitions: dict[tuple[Any, ...], _Partition] = {}
        self._open: dict[tuple[Any, ...], _Partition] = {}
        self._spool: SpillFile | None = None
        self.buffered_bytes = 0
        self._freed_bytes = 0  # of rows that were written out while others of the same batches are still buffered
        self._taken_bytes = 0
        self._written: list[WrittenFile] = []

    @property
    def open_files(self) -> int:
        """The number of open files."""
        return len(self._open)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows with exactly the layout's file schema."""
        parts = self._layout.split(batch)
        for values, whole in parts:
            for rows in _slices(whole, self._layout.row_group_size_bytes):
                partition = self._partitions.get(values)
                if partition is None:
                    partition = self._partitions[values] = _Partition(self._layout, values)
                size = partition.add(rows, is_shared=len(parts) > 1)
                self.buffered_bytes += size
                self._taken_bytes += size
                partition.seen_at = self._taken_bytes
                if not self._layout.sorts and partition.buffered_bytes >= self._layout.row_group_size_bytes:
                    self._flush(partition)
                if self._size_bytes(partition) >= self._capacity_bytes:
                    self._close(partition)
        if self.buffered_bytes + self._freed_bytes > MAX_BUFFERED_BYTES:
            self._make_room()

    def take_small(self, most_bytes: int) -> list[pa.RecordBatch]:
        """Take back rows that have no file yet, of the partitions with the fewest rows, up to a number of bytes.

        They would become small files. The driver, which has the rows of all writers, can write fewer files.
        """
        taken: list[pa.RecordBatch] = []
        for partition in sorted(self._partitions.values(), key=lambda partition: partition.buffered_bytes):
            most_bytes -= partition.buffered_bytes
            if most_bytes < 0:
                break
            if not (partition.is_open or partition.spooled_bytes):
                self.buffered_bytes -= partition.buffered_bytes
                taken += _gathered(partition.take(), self._layout.file_schema)
                del self._partitions[partition.values]
        return taken

    def close(self) -> list[WrittenFile]:
        """Close all files and return what was written."""
        for partition in list(self._partitions.values()):
            self._close(partition)
        self._remove_spool()
        return self._written

    def abort(self) -> None:
        """Remove everything that this writer has written."""
        for partition in self._partitions.values():
            partition.abort()
        self._partitions.clear()
        self._open.clear()
        self._remove_spool()
        give_up(self._layout.storage, (file.data_file.location for file in self._written))
        self._written.clear()

    @property
    def _capacity_bytes(self) -> int:
        """The size at which a file is full; for sorted files as size in memory."""
        target = self._layout.target_file_size_bytes
        return min(target, MAX_BUFFERED_BYTES) if self._layout.sorts else target

    def _size_bytes(self, partition: _Partition) -> int:
        """The size of a file: bytes written, or the memory of rows that are still to be sorted."""
        if self._layout.sorts:
            return partition.spooled_bytes + partition.buffered_bytes
        return partition.written_bytes + (0 if self._spool is None else self._spool.size_bytes(partition.values))

    def _make_room(self) -> None:
        """Write out the largest buffers, and copy the few rows of others so that whole batches can be released."""
        largest_first = sorted(self._partitions.values(), key=lambda partition: -partition.buffered_bytes)
        for partition in largest_first:
            if self.buffered_bytes <= MAX_BUFFERED_BYTES // 4:
                break
            if partition.buffered_bytes:  # unless it was already closed to make room for an earlier one
                self._flush(partition)
        for partition in self._partitions.values():
            partition.own()
        self._freed_bytes = 0

    def _flush(self, partition: _Partition) -> None:
        """Write a buffer to its partition's file if that is open or can be opened, otherwise to a spill file."""
        self.buffered_bytes -= partition.buffered_bytes
        self._freed_bytes += partition.shared_bytes
        rows = partition.take()
        if self._layout.sorts or not self._may_open(partition):
            if self._spool is None:
                self._spool = SpillFile(self._layout.file_schema, is_encrypted=self._layout.key_bytes is not None)
            for batch in _gathered(rows, self._layout.file_schema):
                self._spool.add(partition.values, batch)
                partition.spooled_bytes += batch.nbytes
            return
        partition.write(rows)
        self._open[partition.values] = partition

    def _may_open(self, partition: _Partition) -> bool:
        """Whether a partition has a file, or can get one by closing a file that has not received rows for long."""
        if partition.spooled_bytes:  # rows stay in order
            return False
        if partition.is_open or len(self._open) < MAX_OPEN_FILES:
            return True
        idle = min(self._open.values(), key=lambda other: other.seen_at)
        if self._taken_bytes - idle.seen_at < MAX_BUFFERED_BYTES:
            return False
        self._close(idle)
        return True

    def _close(self, partition: _Partition) -> None:
        """Finish a partition's file with all its buffered rows."""
        self.buffered_bytes -= partition.buffered_bytes
        self._freed_bytes += partition.shared_bytes
        spooled = iter(()) if self._spool is None else self._spool.take(partition.values)
        # removed last, so that `abort` finds it after any failure
        self._written.append(partition.close(itertools.chain(spooled, partition.take())))
        del self._partitions[partition.values]
        self._open.pop(partition.values, None)

    def _remove_spool(self) -> None:
        spool, self._spool = self._spool, None
        if spool is not None:
            spool.close()


def _slices(rows: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Rows in parts of about the given number of bytes, none of them empty."""
    step = max(rows.num_rows // max(-(-rows.nbytes // most_bytes), 1), 1)
    for start in range(0, rows.num_rows, step):
        yield rows.slice(start, step)


def _gathered(rows: Sequence[pa.RecordBatch], schema: pa.Schema) -> list[pa.RecordBatch]:
    """Rows in as few batches as possible, in memory of their own."""
    if len(rows) == 1:
        return [rows[0].take(pa.array(np.arange(rows[0].num_rows)))]
    batches: list[pa.RecordBatch] = pa.Table.from_batches(rows, schema).combine_chunks().to_batches()
    return batches


class _Partition:
    """The buffered rows of one partition, and its file.

    Args:
        layout: The table's layout.
        values: The partition.

    Attributes:
        buffered_bytes: Memory of the buffered rows.
        shared_bytes: Memory of those that share a batch with rows of other partitions.
        spooled_bytes: Size in memory of the rows that were spilled to disk.
        seen_at: Bytes received by the writer up to the partition's last rows.
    """

    def __init__(self, layout: FileLayout, values: tuple[Any, ...]) -> None:
        self.values = values
        self.buffered_bytes = 0
        self.shared_bytes = 0
        self.spooled_bytes = 0
        self.seen_at = 0
        self._layout = layout
        self._rows: list[pa.RecordBatch] = []
        self._file: _OpenFile | None = None

    @property
    def is_open(self) -> bool:
        """Whether it has a file."""
        return self._file is not None

    @property
    def written_bytes(self) -> int:
        """The bytes written to its file."""
        return 0 if self._file is None else self._file.size_bytes

    def add(self, rows: pa.RecordBatch, *, is_shared: bool) -> int:
        """Buffer rows in memory; returns their size."""
        size = int(rows.nbytes)
        self._rows.append(rows)
        self.buffered_bytes += size
        self.shared_bytes += size if is_shared else 0
        return size

    def take(self) -> list[pa.RecordBatch]:
        """Take all buffered rows."""
        rows, self._rows, self.buffered_bytes, self.shared_bytes = self._rows, [], 0, 0
        return rows

    def own(self) -> None:
        """Copy rows that share a batch with rows of other partitions, so that the batch can be released."""
        if self.shared_bytes:
            self._rows, self.shared_bytes = _gathered(self._rows, self._layout.file_schema), 0

    def write(self, rows: list[pa.RecordBatch]) -> None:
        """Write rows to its file, as a row group."""
        if self._file is None:
            self._file = _OpenFile(self._layout, self.values)
        self._file.write(rows)

    def close(self, rows: Iterable[pa.RecordBatch]) -> WrittenFile:
        """Write all rows that are left, and finish the file."""
        waiting: list[pa.RecordBatch] = []
        size_bytes = 0
        for batch in rows:
            waiting.append(batch)
            size_bytes += batch.nbytes
            if size_bytes >= self._layout.row_group_size_bytes and not self._layout.sorts:
                self.write(waiting)
                waiting, size_bytes = [], 0
        if waiting:
            self.write(waiting)
        assert self._file is not None
        return self._file.close()

    def abort(self) -> None:
        """Discard rows and file."""
        self._rows.clear()
        if self._file is not None:
            self._file.abort()


class _OpenFile:
    """A file that is being written, and the samples of its columns."""

    def __init__(self, layout: FileLayout, partition: tuple[Any, ...]) -> None:
        self._layout = layout
        self._partition = partition
        self._location = join(layout.partition_folder(partition), f"{uuid.uuid4()}.{layout.encoding.suffix}")
        self._sketcher = BatchSketcher(layout.schema, layout.sketched, samples_rows=True)
        self._writer = FileWriter(layout.encoding, layout.storage, self._location, layout.file_schema)
        self._keys: KeyCollector | None = None
        if layout.hashed:
            from skerry.table.indexes.collecting import KeyCollector  # imports shards, which few tables need

            self._keys = KeyCollector(layout.hashed)

    @property
    def size_bytes(self) -> int:
        """The bytes written so far."""
        return self._writer.size_bytes

    def write(self, batches: list[pa.RecordBatch]) -> None:
        """Sketch rows and write them, to a Parquet file as a row group."""
        rows = pa.Table.from_batches(batches, self._layout.file_schema)
        if rows.num_rows < _FEW_ROWS * len(batches):
            rows = rows.combine_chunks()
        rows = self._layout.sort(rows)
        self._sketcher.update_once(rows.to_batches())
        if self._keys is not None:
            self._keys.add(rows)
        self._writer.write(rows)

    def close(self) -> WrittenFile:
        """Finish the file, which makes it visible."""
        layout = self._layout
        data_file = self._writer.close(
            layout.modes,
            spec_id=layout.spec.spec_id,
            partition=self._partition,
            sort_order_id=layout.sort_order.order_id if layout.is_sorted else None,
            nan_value_counts=self._sketcher.nan_value_counts,
        )
        if self._keys is not None:
            self._keys.finish(self._location)
        schema_id = layout.iceberg_schema.schema_id
        return WrittenFile(data_file, self._sketcher.samples, self._sketcher.row_sample(), schema_id)

    def abort(self) -> None:
        """Discard the file."""
        if self._keys is not None:
            self._keys.abandon()
        self._writer.abort()
