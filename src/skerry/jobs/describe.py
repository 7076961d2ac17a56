"""Describe data files that another writer (Spark) has written: metrics, partition and samples of each."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from skerry.errors import FormatError, SkerryError
from skerry.iceberg.layout import FileLayout
from skerry.table.files import WrittenFile
from skerry.table.sketching import sketch_parquet

__all__ = ["DescribeTask", "describe_file"]


@dataclass(frozen=True, slots=True)
class DescribeTask:
    """One file to describe.

    Args:
        location: The Parquet file.
        layout: The table's layout.
        is_sorted: Whether the writer has sorted the rows as the layout wants them.
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
    try:
        with layout.storage.arrow_file(location) as source:
            size = source.size()
            file = pq.ParquetFile(source)
            partition = layout.partition_of(file.metadata, lambda names: _typed(layout, file.read(names)))
            footer = file.metadata
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"not a sound Parquet file: {error}", location=location) from error
    except SkerryError as error:
        error.location = error.location or location
        raise
    sketched = sketch_parquet(layout.storage, location, layout.schema, layout.sketched)
    data_file = layout.data_file(
        location,
        footer,
        size,
        partition=partition,
        nan_value_counts=sketched.nan_value_counts,
        is_sorted=task.is_sorted,
    )
    samples = {field_id: sample.serialize() for field_id, sample in sketched.samples.items()}
    return WrittenFile(data_file, samples)


def _typed(layout: FileLayout, rows: pa.Table) -> pa.Table:
    """Columns with the table's types and field ids."""
    return rows.cast(pa.schema([layout.schema.field(name) for name in rows.column_names]))
