"""Sort all rows of a group of files externally: by a sort order, or along a Z-curve.

Rows are distributed to ranges of a sample of their keys, each small enough to be sorted in memory; until it is sorted,
a range is kept in a temporary file. So each file that is written has its own part of the order.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.iceberg.partitioning.sorting import sort_indices
from skerry.iceberg.partitioning.z_order import ZOrder
from skerry.iceberg.writing.layout import FileLayout
from skerry.table.files.row_reader import RowReader
from skerry.table.files.scan_task import FileScanTask
from skerry.table.rows.schema import empty_batch

__all__ = ["Clustering", "clustered"]

_RANGE_BYTES = 128 << 20
_SAMPLE_ROWS = 200_000
_BATCH_BYTES = 1 << 20
_LEAST_BATCH_ROWS = 256
_SPILL = pa.ipc.IpcWriteOptions(compression="lz4")

Order = Callable[[pa.Table], npt.NDArray[np.int64]]
"""Returns int64[n], row numbers in sort order, for rows that have at least the key columns; the sort is stable."""


@dataclass(frozen=True)
class Clustering:
    """How to sort rows; picklable.

    Args:
        key_reader: Reads the key columns of the order.
        z_order: Field ids of the columns of a Z-curve; empty for the layout's sort order.
        range_bytes: Bytes of rows to sort in memory at a time.
    """

    key_reader: RowReader = field(repr=False)
    z_order: tuple[int, ...] = ()
    range_bytes: int = _RANGE_BYTES


def clustered(
    clustering: Clustering, layout: FileLayout, reader: RowReader, tasks: Sequence[FileScanTask]
) -> Iterator[pa.RecordBatch]:
    """Read files and yield their rows in sort order.

    Args:
        clustering: The order.
        layout: The layout of the files to be written, with the sort order.
        reader: Reads the rows.
        tasks: The files.
    """
    most_rows = sum(task.data_file.record_count for task in tasks)
    sample = _sample(clustering.key_reader, tasks, most_rows)
    order = _order(clustering, layout, sample)
    batches = reader.batches(tasks)
    first = next(batches, None)
    if first is None:
        return
    width = max(first.nbytes / first.num_rows, 1)
    ranges = -(-int(most_rows * width) // clustering.range_bytes)
    keys = sample.schema.names
    # files roll between batches
    length = max(_LEAST_BATCH_ROWS, int(min(_BATCH_BYTES, layout.target_file_size_bytes // 8) / width))
    if ranges <= 1:
        yield from _ordered(pa.Table.from_batches([first, *batches]), order, length)
        return
    ordered = sample.take(pa.array(order(sample)))
    bounds = ordered.take(pa.array(np.linspace(0, len(ordered), ranges + 1)[1:-1].astype(np.int64)))
    with tempfile.TemporaryDirectory(prefix="skerry-cluster-") as folder:
        spilled = _Spilled(Path(folder), first.schema, ranges)
        with spilled:
            for batch in itertools.chain((first,), batches):
                spilled.add(batch, _ranges(pa.Table.from_batches([batch]).select(keys), bounds, order))
        for number in range(ranges):
            yield from _ordered(spilled.read(number), order, length)


def _sample(reader: RowReader, tasks: Sequence[FileScanTask], most_rows: int) -> pa.Table:
    """Keys of some rows, the same in every run."""
    share = min(1.0, _SAMPLE_ROWS / max(most_rows, 1))
    random = np.random.default_rng(most_rows)
    kept = []
    for batch in reader.batches(tasks):
        chosen = batch if share == 1.0 else batch.filter(pa.array(random.random(batch.num_rows) < share))
        kept.append(chosen)
    return pa.Table.from_batches(kept, reader.schema).combine_chunks()


def _order(clustering: Clustering, layout: FileLayout, sample: pa.Table) -> Order:
    schema = layout.iceberg_schema
    if not clustering.z_order:
        return lambda rows: sort_indices(schema, layout.sort_order, rows).to_numpy().astype(np.int64)
    curve = ZOrder.of(schema, clustering.z_order, sample)
    return lambda rows: np.argsort(curve.keys(schema, rows), kind="stable")


def _ordered(rows: pa.Table, order: Order, length: int) -> Iterator[pa.RecordBatch]:
    yield from rows.take(pa.array(order(rows))).combine_chunks().to_batches(max_chunksize=length)


def _ranges(keys: pa.Table, bounds: pa.Table, order: Order) -> npt.NDArray[np.int64]:
    """int64[n] The range of each row: the number of bounds that are not above it."""
    found = order(pa.concat_tables([bounds, keys]))
    is_bound = found < len(bounds)
    numbers = np.empty(len(found), np.int64)
    numbers[found] = np.cumsum(is_bound)
    return numbers[len(bounds) :]


class _Spilled:
    """Rows of several ranges, in one temporary file per range."""

    def __init__(self, folder: Path, schema: pa.Schema, ranges: int) -> None:
        self._paths = [folder / str(number) for number in range(ranges)]
        self._schema = schema
        self._writers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._writers.values():
            writer.close()

    def add(self, batch: pa.RecordBatch, ranges: npt.NDArray[np.int64]) -> None:
        """Distribute rows to the ranges."""
        order = np.argsort(ranges, kind="stable")
        rows = batch.take(pa.array(order))
        ends = np.cumsum(np.bincount(ranges, minlength=len(self._paths)))
        start = 0
        for number, end in enumerate(ends.tolist()):
            if end > start:
                writer = self._writers.get(number)
                if writer is None:
                    writer = pa.ipc.new_file(self._paths[number], self._schema, options=_SPILL)
                    self._writers[number] = writer
                writer.write_batch(rows.slice(start, end - start))
            start = end

    def read(self, number: int) -> pa.Table:
        """The rows of a range, in the order in which they were added."""
        if number not in self._writers:
            return pa.Table.from_batches([empty_batch(self._schema)])
        with pa.OSFile(str(self._paths[number])) as file:
            return pa.ipc.open_file(file).read_all()
