"""Tables as frames: planned by skerry, read by Spark's own Parquet reader if possible, with statistics in the plan.

A frame is bound to the snapshot that the table had when it was created.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from skerry.catalog import Table
from skerry.spark.reading.iceberg import IcebergRead
from skerry.spark.reading.lost_files import explain_lost_files
from skerry.spark.reading.paimon import PaimonRead
from skerry.spark.reading.relations import is_relation
from skerry.spark.runtime.jvm import is_classic
from skerry.table.arguments import Condition
from skerry.table.statistics.histogram import SampledRows
from skerry.table.table_scan import TableScan

__all__ = ["TableFrame", "read", "read_candidates", "version_of"]


def read(
    spark: SparkSession,
    table: Table,
    columns: Sequence[str] | None = None,
    where: Condition | None = None,
    *,
    snapshot: int | None = None,
    ref: str | None = None,
    as_of: datetime | None = None,
) -> DataFrame:
    """Read a table as a frame whose plan has the table's statistics.

    Files are selected by partitions and bounds. Spark's own vectorised reader reads those that it reads correctly;
    those with deleted rows, without field ids, in other formats, or of a schema that Spark misreads, and Paimon
    tables that need merging, are read by Python workers. On a classic session the plan has row counts and, for
    selected atomic columns, counts of distinct values and nulls, bounds and lengths; on Spark Connect a small table has
    a broadcast hint.

    Args:
        spark: The session, classic or Spark Connect.
        table: The table, at its loaded state.
        columns: Names of the columns to read, nested ones dotted; all if None.
        where: Only rows for which this is true: SQL text, a PyArrow expression or filters. Unlike conditions on the
            frame, it selects files.
        snapshot: Read this snapshot.
        ref: Read the tip of this branch or tag.
        as_of: Read the table as of this time.

    Raises:
        NotFoundError: The snapshot or reference does not exist, or a file is missing.
        SchemaError: Columns or the condition do not fit; or the session finds Parquet columns by name, and names have
            changed.
    """
    scan = table.scan(columns, where, snapshot=snapshot, ref=ref, as_of=as_of)
    return _reading(spark, table, scan).frame()


@dataclass(frozen=True, slots=True, eq=False)
class TableFrame:
    """A table as a frame.

    Args:
        frame: The rows.
        outline: The frame from which Spark's optimizer finds the conditions on the table: the frame itself if it
            is one relation of files, otherwise a relation without files with the table's name.
        file_count: Number of data files to read.
        row_count: Rows in them, as far as metadata gives them.
        sampled: The table's sampled rows, if it has any.
    """

    frame: DataFrame
    outline: DataFrame
    file_count: int
    row_count: int
    sampled: SampledRows | None


def read_candidates(spark: SparkSession, table: Table, where: str | None, row_factor: float = 1.0) -> TableFrame:
    """Read the files of a table that may contain rows for a condition; other rows may be included.

    Args:
        spark: A classic session.
        table: The table, at its loaded state.
        where: The condition as SQL; None for all files.
        row_factor: How many times the rows the plan is told.

    Raises:
        NotFoundError: A file is missing.
        SchemaError: The session finds Parquet columns by name, and names have changed.
    """
    reading = _reading(spark, table, table.scan(where=where), tests_rows=False, row_factor=row_factor)
    frame, count = reading.frame(), reading.file_count
    is_planned_over = not count or is_relation(frame._jdf.queryExecution().analyzed())
    outline = frame if is_planned_over else reading.outline()
    return TableFrame(frame, outline, count, reading.row_count, reading.sampled)


def version_of(table: Table) -> str:
    """Distinguishes the loaded state of a table from others: other rows or columns are another version."""
    return f"{table.location} {table.version}"


_READERS: Final[dict[str, Callable[[SparkSession, Any, bool, float], IcebergRead | PaimonRead]]] = {
    "iceberg": IcebergRead,
    "paimon": PaimonRead,
}
"""Creates frames of scans, by table format."""


def _reading(
    spark: SparkSession, table: Table, scan: TableScan, *, tests_rows: bool = True, row_factor: float = 1.0
) -> IcebergRead | PaimonRead:
    if is_classic(spark):
        explain_lost_files(table.location, table.name)
    reader = _READERS[table.format]
    return reader(spark, scan, tests_rows, row_factor)
