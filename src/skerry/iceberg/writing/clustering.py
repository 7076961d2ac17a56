"""Sort all rows of a group of files: by a sort order, or along a curve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from skerry.iceberg.partitioning.partitions import column_of
from skerry.iceberg.partitioning.sorting import sort_indices
from skerry.iceberg.writing.layout import FileLayout
from skerry.table.files.row_reader import RowReader
from skerry.table.files.scan_task import FileScanTask
from skerry.table.rows.external_sort import RANGE_BYTES, Order, sorted_batches
from skerry.table.rows.z_order import ZOrder

__all__ = ["Clustering", "clustered"]


@dataclass(frozen=True)
class Clustering:
    """How to sort rows; picklable.

    Args:
        key_reader: Reads the key columns of the order.
        curve: Field ids of the columns of a curve; empty for the layout's sort order.
        range_bytes: Bytes of rows to sort in memory at a time.
        is_hilbert: Whether it is a Hilbert curve instead of a Z-curve.
    """

    key_reader: RowReader = field(repr=False)
    curve: tuple[int, ...] = ()
    range_bytes: int = RANGE_BYTES
    is_hilbert: bool = False


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
    return sorted_batches(
        clustering.key_reader.batches(tasks),
        reader.batches(tasks),
        lambda sample: _order(clustering, layout, sample),
        key_schema=clustering.key_reader.schema,
        most_rows=sum(task.data_file.record_count for task in tasks),
        file_bytes=layout.target_file_size_bytes,
        range_bytes=clustering.range_bytes,
        is_encrypted=layout.key_bytes is not None,
    )


def _order(clustering: Clustering, layout: FileLayout, sample: pa.Table) -> Order:
    schema, ids = layout.iceberg_schema, clustering.curve
    if not ids:
        return lambda rows: sort_indices(schema, layout.sort_order, rows).to_numpy().astype(np.int64)
    columns = [column_of(schema, field_id, sample) for field_id in ids]
    curve = ZOrder.of(columns, is_hilbert=clustering.is_hilbert)
    return lambda rows: np.argsort(curve.keys([column_of(schema, field_id, rows) for field_id in ids]), kind="stable")
