"""Sketching a table on Spark: each task looks at one data file, and the driver publishes."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from skerry.catalog import Table
from skerry.spark.runtime.executor import SparkExecutor
from skerry.table.summaries import AnalyzeSummary
from skerry.table.tasks import Watcher

__all__ = ["analyze"]


def analyze(
    spark: SparkSession, table: Table, columns: Sequence[str] | None = None, *, progress: Watcher | None = None
) -> AnalyzeSummary:
    """Sketch the rows of a table's current snapshot on Spark's executors, and publish the sketches for it.

    Args:
        spark: The session, classic or Spark Connect.
        table: The table.
        columns: Dotted names; those that the table's properties choose if None.
        progress: Called with the progress.

    Raises:
        SchemaError: A column is unknown; the message proposes the nearest.
        UnsupportedError: A file is encrypted, or uses what is not read.
    """
    return table.analyze(columns, executor=SparkExecutor(spark), watcher=progress)
