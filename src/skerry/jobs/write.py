"""Writing data files from Arrow batches: split by partition, sort, roll at the target size, sketch on the way past.

One writer serves the process that appends a table and the Spark task that writes a share of a frame.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from skerry.iceberg.file_writers import FileWriter
from skerry.iceberg.layout import FileLayout
from skerry.storage import join
from skerry.table.files import WrittenFile
from skerry.table.sketching import BatchSketcher

__all__ = ["PartitionedWriter", "write_batches"]

MAX_OPEN_FILES = 128
MAX_BUFFERED_BYTES = 256 << 20


def write_batches(layout: FileLayout, batches: Iterable[pa.RecordBatch]) -> list[WrittenFile]:
    """Write batches as data files.

    Args:
        layout: How the table wants its files.
        batches: Rows with exactly the layout's file schema.

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
    """Writes rows to one open file per partition.

    Memory is bounded: rows wait in a buffer per partition until they make a row group; when all buffers together pass
    256 MiB the largest is written out, and when more than 128 files are open the one unused for longest is closed.

    Args:
        layout: How the table wants its files.

    Attributes:
        buffered_bytes: Memory of the rows that wait to be encoded.
    """

    def __init__(self, layout: FileLayout) -> None:
        self._layout = layout
        self._open: OrderedDict[tuple[Any, ...], _OpenFile] = OrderedDict()
        self.buffered_bytes = 0
        self._written: list[WrittenFile] = []

    @property
    def open_files(self) -> int:
        """Files open now."""
        return len(self._open)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows with exactly the layout's file schema."""
        for partition, rows in self._layout.split(batch):
            if not rows.num_rows:
                continue
            file = self._file(partition)
            before = file.buffered_bytes
            file.add(rows)
            self.buffered_bytes += file.buffered_bytes - before
            if file.is_full:
                self._close(partition)
        while self.buffered_bytes > MAX_BUFFERED_BYTES:
            largest = max(self._open, key=lambda key: self._open[key].buffered_bytes)
            self.buffered_bytes -= self._open[largest].buffered_bytes
            if self._layout.sorts:
                self._written.append(self._open.pop(largest).close())
            else:
                self._open[largest].flush()

    def close(self) -> list[WrittenFile]:
        """Close all files and tell what was written."""
        for partition in list(self._open):
            self._close(partition)
        return self._written

    def abort(self) -> None:
        """Remove everything that this writer has written."""
        for file in self._open.values():
            file.abort()
        self._open.clear()
        self._layout.storage.delete([file.data_file.location for file in self._written])
        self._written.clear()

    def _file(self, partition: tuple[Any, ...]) -> _OpenFile:
        file = self._open.get(partition)
        if file is None:
            if len(self._open) >= MAX_OPEN_FILES:
                self._close(next(iter(self._open)))
            file = self._open[partition] = _OpenFile(self._layout, partition)
        self._open.move_to_end(partition)
        return file

    def _close(self, partition: tuple[Any, ...]) -> None:
        file = self._open[partition]
        self.buffered_bytes -= file.buffered_bytes
        self._written.append(file.close())
        del self._open[partition]


class _OpenFile:
    """One file in the making, and the samples of its columns."""

    def __init__(self, layout: FileLayout, partition: tuple[Any, ...]) -> None:
        self._layout = layout
        self._partition = partition
        location = join(layout.partition_folder(partition), f"{uuid.uuid4()}.{layout.encoding.suffix}")
        self._buffer: list[pa.RecordBatch] = []
        self.buffered_bytes = 0
        self._sketcher = BatchSketcher(layout.schema, layout.sketched)
        self._writer = FileWriter(layout.encoding, layout.storage, location, layout.file_schema)

    @property
    def is_full(self) -> bool:
        """Whether the file has reached its target size; rows not yet encoded count with what they take in memory."""
        if self._layout.sorts:
            return self.buffered_bytes >= self._layout.target_file_size_bytes
        return self._writer.size_bytes >= self._layout.target_file_size_bytes

    def add(self, rows: pa.RecordBatch) -> None:
        """Buffer the rows; a sorted file takes all its rows before it writes the first."""
        self._buffer.append(rows)
        self.buffered_bytes += rows.nbytes
        if self.buffered_bytes >= self._layout.row_group_size_bytes and not self._layout.sorts:
            self.flush()

    def flush(self) -> None:
        """Sketch the buffered rows and write them, to a Parquet file as a row group.

        Sketching a row group at a time keeps the memory small that many open files take: a sample needs its working
        memory only while it takes in values.
        """
        if self._buffer:
            for batch in self._buffer:
                self._sketcher.update(batch)
            for sample in self._sketcher.samples.values():
                sample.settle()
            rows = pa.Table.from_batches(self._buffer, self._layout.file_schema)
            self._buffer.clear()
            self.buffered_bytes = 0
            self._writer.write(self._layout.sort(rows))

    def close(self) -> WrittenFile:
        """Finish the file; only now can it be seen under its name."""
        layout = self._layout
        try:
            self.flush()
        except BaseException:
            self.abort()
            raise
        data_file = self._writer.close(
            layout.modes,
            spec_id=layout.spec.spec_id,
            partition=self._partition,
            sort_order_id=layout.sort_order.order_id if layout.is_sorted else None,
            nan_value_counts=self._sketcher.nan_value_counts,
        )
        samples = {field_id: sample.serialize() for field_id, sample in self._sketcher.samples.items()}
        return WrittenFile(data_file, samples)

    def abort(self) -> None:
        """Give the file up."""
        self._buffer.clear()
        self._writer.abort()
