"""Metrics, partition and samples of data files that another writer (Spark) wrote."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from skerry.errors import FormatError, SkerryError
from skerry.iceberg.writing.layout import FileLayout
from skerry.parquet import read_metadata
from skerry.table.files.row_reader import RowReader
from skerry.table.files.scan_task import FileScanTask
from skerry.table.statistics.row_sampling import sample_file
from skerry.table.statistics.sketching import sketch_parquet
from skerry.table.statistics.written_file import WrittenFile

__all__ = ["DescribeTask", "describe_file"]


@dataclass(frozen=True, slots=True)
class DescribeTask:
    """One file to describe.

    Args:
        location: The Parquet file.
        layout: The table's layout.
        is_sorted: Whether the writer sorted the rows in the layout's order.
    """

    location: str
    layout: FileLayout
    is_sorted: bool = False


def describe_file(task: DescribeTask) -> WrittenFile:
    """Sketch a file's columns, count its NaNs, read its footer and find its partition.

    Raises:
        FormatError: The file is corrupt.
        SchemaError: Its rows belong to several partitions.
    """
    layout, location = task.layout, task.location
    metadata = read_metadata(layout.storage, location)
    footer = metadata.arrow
    try:
        partition = layout.partition_of(footer, lambda names: _read(layout, location, names))
    except SkerryError as error:
        error.location = error.location or location
        raise
    sketched = sketch_parquet(layout.storage, location, layout.schema, layout.sketched, metadata=metadata)
    data_file = layout.data_file(
        location,
        footer,
        metadata.file_size_bytes,
        partition=partition,
        nan_value_counts=sketched.nan_value_counts,
        is_sorted=task.is_sorted,
    )
    samples = {field_id: sample.release() for field_id, sample in sketched.samples.items()}
    reader = RowReader(layout.storage, layout.schema, layout.schema)
    rows = sample_file(reader, FileScanTask(data_file), layout.sketched, metadata)
    return WrittenFile(data_file, samples, rows, layout.iceberg_schema.schema_id)


def _read(layout: FileLayout, location: str, names: list[str]) -> pa.Table:
    """Columns of the file, with the table's types and field ids."""
    try:
        with layout.storage.arrow_file(location) as source:
            rows = pq.ParquetFile(source).read(names)
        return rows.cast(pa.schema([layout.schema.field(name) for name in rows.column_names]))
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"PyArrow cannot read the file: {error}", location=location) from error
