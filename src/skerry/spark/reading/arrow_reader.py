"""Frames whose rows are read by Python workers, for files that Spark's own reader cannot read."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from skerry.errors import SkerryError
from skerry.spark.outgoing import for_spark
from skerry.spark.runtime.failures import TaskError

__all__ = ["ShareReader", "read_through_arrow"]

Share = TypeVar("Share")
ShareIn = TypeVar("ShareIn", contravariant=True)


class ShareReader(Protocol[ShareIn]):
    """Reads the rows of shares; picklable."""

    def batches(self, tasks: Sequence[ShareIn], /) -> Iterable[pa.RecordBatch]:
        """The rows of some shares, in order."""
        ...


def read_through_arrow(
    spark: SparkSession, reader: ShareReader[Share], shares: Sequence[Share], schema: StructType, row_count: int
) -> DataFrame:
    """A frame with one task per share.

    Spark estimates the size of such a frame from the rows that the workers are started with. They are therefore started
    by a range as long as the result, filtered to one number per task before it gets to a worker.

    Args:
        spark: The session, classic or Spark Connect.
        reader: Reads the rows.
        shares: Files or parts of files.
        schema: The columns of the reader in Spark's types.
        row_count: Approximate number of rows.
    """
    step = max(1, -(-row_count // len(shares)))
    starts = spark.range(0, step * len(shares), 1, len(shares)).where(f"id % {step} = 0")
    return starts.mapInArrow(functools.partial(_read, reader, list(shares), step), schema)


def _read(
    reader: ShareReader[Share],
    shares: list[Share],
    step: int,
    starts: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    try:
        for batch in starts:
            for start in batch.column(0).to_pylist():
                yield from for_spark(reader.batches([shares[start // step]]))
    except SkerryError as error:
        raise TaskError(error) from error
