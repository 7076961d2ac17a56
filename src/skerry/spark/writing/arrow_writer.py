"""Writing a frame as data files of a table with skerry's own writer, inside Spark's tasks.

For types that Spark's Parquet writer cannot write, for storage that Hadoop has no client or no credentials for, and for
Spark Connect. Every row passes through a Python worker, at about half the speed of Spark's writer; but the files need
no second read: their metrics and samples are computed on the way.
"""

from __future__ import annotations

import contextlib
import functools
import pickle
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from skerry.errors import SkerryError
from skerry.iceberg.writing.layout import FileLayout
from skerry.iceberg.writing.table_writers import write_batches
from skerry.spark.runtime.failures import TaskError, original_errors
from skerry.spark.runtime.settings import changed_settings
from skerry.spark.writing.incoming import check_frame, check_values
from skerry.spark.writing.spark_writer import unused_name, write_settings
from skerry.table.rows.incoming import conform, open_batches
from skerry.table.statistics.written_file import WrittenFile

__all__ = ["marked_errors", "write_frame_as_arrow"]

_RESULT = StructType([StructField("file", BinaryType())])


def write_frame_as_arrow(frame: DataFrame, layout: FileLayout, origin: Column | None = None) -> list[WrittenFile]:
    """Write a frame with skerry's own writer.

    Rows of a partitioned table are first gathered by partition, as in
    `skerry.spark.writing.spark_writer.write_frame`.

    Args:
        frame: Rows that fit the table's schema.
        layout: How the table's files are written.
        origin: The file that a row comes from, for messages.

    Returns:
        The files, ordered by location. Files that repeated or killed tasks have left in the
        layout's folder is removed.

    Raises:
        SchemaError: Columns, types or a value do not fit.
    """
    check_frame(frame, layout.schema)
    rows = frame if origin is None else check_values(frame, layout.schema, origin)
    columns = rows.columns
    if layout.is_partitioned:
        key = unused_name("partition", columns)
        keyed = StructType([*rows.schema, StructField(key, StringType())])
        rows = rows.mapInArrow(functools.partial(_add_key, layout, key), keyed).hint("rebalance", sf.col(f"`{key}`"))
    spark = frame.sparkSession
    with changed_settings(spark, write_settings(spark, layout)), original_errors():
        results = rows.mapInArrow(functools.partial(_write, layout, columns), _RESULT).collect()
    files = sorted((pickle.loads(row.file) for row in results), key=lambda file: file.data_file.location)
    kept = {file.data_file.location for file in files}
    found = [status.location for status in layout.storage.list(layout.folder)]
    layout.storage.delete([location for location in found if location not in kept])
    return files


def _add_key(layout: FileLayout, key: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Append a text to every row that identifies its partition; the order of the rows changes."""
    number = unused_name("number", layout.schema.names)
    for batch in batches:
        with marked_errors():
            rows = conform(pa.Table.from_batches([batch]), layout.schema).read_all()
            rows = rows.append_column(number, pa.array(range(batch.num_rows), pa.int64())).combine_chunks()
            parts = [part for whole in rows.to_batches() for part in layout.split(whole)]
        for partition, part in parts:
            positions = part.column(number)
            columns = [*batch.take(positions).columns, pa.repeat(repr(partition), len(positions))]
            yield pa.RecordBatch.from_arrays(columns, [*batch.schema.names, key])


def _write(layout: FileLayout, columns: Sequence[str], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write a task's share of the rows."""
    reader = open_batches(batch.select(columns) for batch in batches)
    if reader is None:
        return
    with marked_errors():
        files: list[WrittenFile] = write_batches(layout, conform(reader, layout.schema))
    yield pa.record_batch({"file": pa.array([pickle.dumps(file) for file in files], pa.binary())})


@contextlib.contextmanager
def marked_errors() -> Iterator[None]:
    """Pass skerry's errors out of the Python worker."""
    try:
        yield
    except SkerryError as error:
        raise TaskError(error) from error
