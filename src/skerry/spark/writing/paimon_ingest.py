"""Ingestion into Paimon tables: tasks write data files by bucket, and the driver publishes them in one commit.

Rows are gathered before they are written. Those of a bucket of a primary-key table are sent to one task, which
assigns their sequence numbers and keeps their order in the frame: the last row of a key counts, as in one
process. Those of other tables are gathered by partition and bucket, so that each becomes one file or a few instead of
one per task; Spark divides large ones. Rows of dynamic buckets wait for the driver: one writer must know all keys.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, StructField, StructType

from skerry.paimon.jobs.publish import Share, ShareLayout, write_share
from skerry.paimon.writing.routing import Router
from skerry.spark.runtime.failures import original_errors
from skerry.spark.runtime.progress import run_with_progress
from skerry.spark.runtime.settings import changed_settings
from skerry.spark.writing.arrow_writer import marked_errors
from skerry.spark.writing.incoming import check_frame, check_values
from skerry.spark.writing.sources import Source
from skerry.spark.writing.spark_writer import rebalance_settings, unused_name
from skerry.table.connector.publication import WriteMode
from skerry.table.rows.incoming import conform, open_batches
from skerry.table.work.tasks import ProgressCallback

__all__ = ["land_shares"]

_RESULT = StructType([StructField("share", BinaryType())])


def land_shares(
    source: Source, layout: ShareLayout, mode: WriteMode, *, progress: ProgressCallback | None = None
) -> list[Share]:
    """Write rows as data files of a Paimon table, or as rows that wait for the commit.

    Args:
        source: The rows.
        layout: How the table's files are written, for a job that writes nothing else.
        mode: What happens to existing rows.
        progress: Called with the progress.

    Returns:
        The results of the tasks, in order.

    Raises:
        SchemaError: Columns, types or a value do not fit. All written files are removed.
    """
    spark = source.frame.sparkSession
    try:
        with layout.files.owned_files():
            return run_with_progress(spark, lambda: _write_frame(source.frame, layout, mode, source.origin), progress)
    except BaseException as failure:
        error = source.error(failure)
        if error is None:
            raise
        raise error from None


def _write_frame(frame: DataFrame, layout: ShareLayout, mode: WriteMode, origin: Column | None) -> list[Share]:
    schema = layout.files.schema.arrow_schema
    check_frame(frame, schema)
    rows = frame if origin is None else check_values(frame, schema, origin)
    columns = rows.columns
    spark = frame.sparkSession
    settings = {}
    if not layout.rows_wait(mode):
        rows = _brought_together(rows, layout)
        settings = rebalance_settings(spark, layout.files.target_file_size)
    with changed_settings(spark, settings), original_errors():
        results = rows.mapInArrow(functools.partial(_write, layout, mode, columns), _RESULT).collect()
    return [pickle.loads(row.share) for row in results]


def _brought_together(rows: DataFrame, layout: ShareLayout) -> DataFrame:
    """Gather the rows of each bucket; columns for that are appended."""
    files = layout.files
    if not files.schema.partition_keys and files.options.bucket < 0:
        return rows
    names = files.schema.arrow_schema.names
    bucket, number = (unused_name(wanted, [*names, *rows.columns]) for wanted in ("place", "number"))
    keyed = StructType([*rows.schema, StructField(bucket, BinaryType(), nullable=False)])
    if not layout.owns_buckets:
        return rows.mapInArrow(functools.partial(_add_bucket, layout, bucket), keyed).hint("rebalance", sf.col(bucket))
    numbered = rows.withColumn(number, sf.monotonically_increasing_id())
    keyed = StructType([*numbered.schema, keyed[bucket]])
    return (
        numbered.mapInArrow(functools.partial(_add_bucket, layout, bucket), keyed)
        .repartition(sf.col(bucket))
        .sortWithinPartitions(bucket, number)
    )


def _add_bucket(layout: ShareLayout, column: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Append to every row a value that identifies its bucket."""
    files, totals = layout.files, layout.bucket_states.total_buckets
    router = Router(files, lambda partition: totals.get(partition, files.options.bucket))
    keys = {*files.schema.partition_keys, *(files.schema.bucket_keys if files.options.bucket > 0 else ())}
    schema = pa.schema([field for field in files.schema.arrow_schema if field.name in keys])
    for batch in batches:
        with marked_errors():
            given = [name for name in batch.schema.names if name in keys]
            buckets = [] if given else [b""]  # without any, all rows belong together
            of_row = np.zeros(batch.num_rows, np.int32)
            start = 0
            for rows in conform(batch.select(given), schema) if given else ():
                for bucket, _, chosen in router.split(rows):
                    of_row[start + chosen] = len(buckets)
                    buckets.append(bucket.partition + bucket.number.to_bytes(4, "big", signed=True))
                start += rows.num_rows
        values = pa.array(buckets, pa.binary()).take(pa.array(of_row))
        yield pa.RecordBatch.from_arrays([*batch.columns, values], [*batch.schema.names, column])


def _write(
    layout: ShareLayout, mode: WriteMode, columns: Sequence[str], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write a task's share of the rows."""
    reader = open_batches(batch.select(columns) for batch in batches)
    if reader is None:
        return
    with marked_errors():
        share = write_share(layout, mode, reader)
    yield pa.record_batch({"share": pa.array([pickle.dumps(share)], pa.binary())})
