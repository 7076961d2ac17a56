"""Tables as frames: planned here, read by Spark's own Parquet reader where that reads right, with our statistics.

A frame is bound to the snapshot that its table showed when it was made.
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

__all__ = ["TableFrame", "read", "read_candidates", "version_of"]


def read(
    spark: SparkSession,
    table: Table,
    columns: Sequence[str] | None = None,
    where: str | Any = None,
    *,
    snapshot: int | None = None,
    ref: str | None = None,
    as_of: datetime | None = None,
) -> DataFrame:
    """Read a table as a frame whose plan knows the table's statistics.

    Files are found here, by partitions and bounds. Spark's own vectorised reader reads those that it reads right; those
    with deleted rows, without field ids, in other formats, or of a schema that Spark mistakes, and those of Paimon
    tables that must be merged, come through Python workers. On a classic session the plan holds row counts and, for
    selected atomic columns, counts of distinct values and nulls, bounds and lengths; on Spark Connect a small table has
    a broadcast hint.

    Args:
        spark: The session, classic or Spark Connect.
        table: The table, in the state that it shows.
        columns: Names of the columns to read, nested ones dotted; all if None.
        where: Only rows for which this is true: SQL text or a PyArrow expression. It chooses files, which
            conditions put on the frame cannot.
        snapshot: Read this snapshot.
        ref: Read the tip of this branch or tag.
        as_of: Read what was current at this time.

    Raises:
        NotFoundError: There is no such snapshot or reference, or a file is missing.
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
        outline: What Spark's optimizer can plan a query over, to tell what it asks of the table: the frame itself if it
            is one relation of files, else a relation without files by the table's name.
        file_count: How many data files are read.
    """

    frame: DataFrame
    outline: DataFrame
    file_count: int


def read_candidates(spark: SparkSession, table: Table, where: str | None) -> TableFrame:
    """Read the files of a table that can hold rows which a condition wants; rows that it does not want may be there.

    Args:
        spark: A classic session.
        table: The table, in the state that it shows.
        where: The condition as SQL; None for all files.

    Raises:
        NotFoundError: A file is missing.
        SchemaError: The session finds Parquet columns by name, and names have changed.
    """
    reading = _reading(spark, table, table.scan(where=where), tests_rows=False)
    frame, count = reading.frame(), reading.file_count
    is_planned_over = not count or is_relation(frame._jdf.queryExecution().analyzed())
    return TableFrame(frame, frame if is_planned_over else reading.outline(), count)


def version_of(table: Table) -> str:
    """What distinguishes the state that a table shows from others: other rows or columns are another version."""
    return f"{table.location} {table.version}"


_READERS: Final[dict[str, Callable[[SparkSession, Any, bool], IcebergRead | PaimonRead]]] = {
    "iceberg": IcebergRead,
    "paimon": PaimonRead,
}
"""What makes frames of scans, by table format."""


def _reading(spark: SparkSession, table: Table, scan: Any, *, tests_rows: bool = True) -> IcebergRead | PaimonRead:
    if is_classic(spark):
        explain_lost_files(table.location, table.name)
    reader = _READERS[table.format]
    return reader(spark, scan, tests_rows)
