"""Upkeep and row-level change on Spark: the jobs of `skerry.catalog.Table`, their tasks on Spark's executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from skerry.catalog import Catalog, Table
from skerry.spark.runtime.executor import SparkExecutor
from skerry.table.merging import Clauses
from skerry.table.reachability import DEFAULT_GRACE_DAYS
from skerry.table.summaries import (
    CompactSummary,
    DeletesSummary,
    ExpireSummary,
    MigrationSummary,
    OrphanSummary,
    RowChanges,
)
from skerry.table.tasks import Watcher

__all__ = ["compact", "expire_snapshots", "merge", "migrate", "remove_orphans", "rewrite_deletes"]


def compact(
    spark: SparkSession,
    table: Table,
    where: str | Any = None,
    *,
    sort_by: Sequence[str] | None = None,
    z_order: Sequence[str] | None = None,
    progress: Watcher | None = None,
    **options: Any,
) -> CompactSummary:
    """Write few files of a good size in place of many, a group of files per task; see `Table.compact`.

    Args:
        spark: The session, classic or Spark Connect.
        table: The table.
        where: Only files that can hold rows for which this is true.
        sort_by: Write all files anew, sorted like this.
        z_order: Write all files anew, rows along a Z-curve of these columns.
        progress: Called with the progress.
        options: Further arguments of `Table.compact`.

    Raises:
        ConflictError: Other writers changed the same rows again and again.
        CommitUnknownError: The outcome is unknown; nothing was cleaned up.
        SchemaError: An argument does not fit.
    """
    executor = SparkExecutor(spark)
    return table.compact(where, sort_by=sort_by, z_order=z_order, executor=executor, watcher=progress, **options)


def expire_snapshots(
    spark: SparkSession,
    table: Table,
    *,
    keep_last: int | None = None,
    older_than: datetime | None = None,
    dry_run: bool = False,
    progress: Watcher | None = None,
) -> ExpireSummary:
    """Forget old snapshots and delete what only they reach, manifests read by tasks; see `Table.expire_snapshots`.

    Args:
        spark: The session, classic or Spark Connect.
        table: The table.
        keep_last: So many of each branch's newest snapshots stay, however old.
        older_than: Only snapshots from before this moment go.
        dry_run: Whether to tell only what would be done.
        progress: Called with the progress.

    Raises:
        FormatError: Metadata is corrupt; nothing was changed.
        SchemaError: An argument or property makes no sense.
    """
    return table.expire_snapshots(
        keep_last=keep_last,
        older_than=older_than,
        dry_run=dry_run,
        executor=SparkExecutor(spark),
        watcher=progress,
    )


def remove_orphans(
    spark: SparkSession,
    table: Table,
    *,
    older_than_days: float = DEFAULT_GRACE_DAYS,
    dry_run: bool = False,
    marked: str | None = None,
    log: str | None = None,
    progress: Watcher | None = None,
) -> OrphanSummary:
    """Delete files that nothing needs, folders listed and manifests read by tasks; see `Table.remove_orphans`.

    Args:
        spark: The session, classic or Spark Connect.
        table: The table.
        older_than_days: Younger files stay: their writer may be about to commit them.
        dry_run: Whether to tell only what would be done.
        marked: The log of an earlier run, beyond which nothing is deleted.
        log: A folder for logs.
        progress: Called with the progress.

    Raises:
        FormatError: Metadata is corrupt; nothing was deleted.
        SchemaError: An argument or property makes no sense.
    """
    return table.remove_orphans(
        older_than_days=older_than_days,
        dry_run=dry_run,
        marked=marked,
        log=log,
        executor=SparkExecutor(spark),
        watcher=progress,
    )


def rewrite_deletes(
    spark: SparkSession, table: Table, *, progress: Watcher | None = None, **options: Any
) -> DeletesSummary:
    """Put delete files together anew, in tasks; see `Table.rewrite_deletes`.

    Args:
        spark: The session, classic or Spark Connect.
        table: The table.
        progress: Called with the progress.
        options: Further arguments of `Table.rewrite_deletes`.

    Raises:
        ConflictError: Other writers changed the same rows again and again.
        CommitUnknownError: The outcome is unknown; nothing was cleaned up.
    """
    return table.rewrite_deletes(executor=SparkExecutor(spark), watcher=progress, **options)


def migrate(
    spark: SparkSession,
    catalog: Catalog,
    name: str,
    folder: str | None = None,
    *,
    format: str = "iceberg",
    progress: Watcher | None = None,
    **options: Any,
) -> MigrationSummary:
    """Make a table of a folder, or a table one of another format, its files looked at by tasks; see `Catalog.migrate`.

    Args:
        spark: The session, classic or Spark Connect.
        catalog: Where the table is, or will be.
        name: `namespace.table`.
        folder: The folder; None if `name` is a table already.
        format: What it becomes: `iceberg` or `paimon`.
        progress: Called with the progress.
        options: Further arguments of `Catalog.migrate`.

    Raises:
        AlreadyExistsError: There is a table of that name, or of that format already.
        CommitUnknownError: The outcome is unknown; nothing was cleaned up.
        ConflictError: Another writer has committed meanwhile; the table is what it was.
        UnsupportedError: There is something that the new table cannot have.
    """
    return catalog.migrate(name, folder, format=format, executor=SparkExecutor(spark), watcher=progress, **options)


def merge(
    spark: SparkSession,
    table: Table,
    data: Any,
    on: str | Sequence[str],
    *,
    when_matched: Clauses = None,
    when_not_matched: Clauses = None,
    when_not_matched_by_source: Clauses = None,
    snapshot_properties: Mapping[str, str] | None = None,
    progress: Watcher | None = None,
) -> RowChanges:
    """Merge rows by key, the table's files read and rewritten by tasks; see `Table.merge`.

    The rows that come are gathered on the driver, which makes an index of their keys and gives it to every task. They
    may be many, but must fit there; the table may be of any size.

    Args:
        spark: The session, classic or Spark Connect.
        table: The table.
        data: The rows: a frame, or anything with the Arrow C stream interface.
        on: The key columns.
        when_matched: What becomes of rows that a row of the source matches.
        when_not_matched: What becomes of rows of the source that match none.
        when_not_matched_by_source: What becomes of rows of the table that no row of the source matches.
        snapshot_properties: Further entries of the snapshot summary.
        progress: Called with the progress.

    Raises:
        ConflictError: Other writers changed the same rows again and again.
        CommitUnknownError: The outcome is unknown; nothing was cleaned up.
        SchemaError: Columns, keys or clauses do not fit.
    """
    return table.merge(
        gathered(data),
        on,
        when_matched=when_matched,
        when_not_matched=when_not_matched,
        when_not_matched_by_source=when_not_matched_by_source,
        snapshot_properties=snapshot_properties,
        executor=SparkExecutor(spark),
        watcher=progress,
    )


def gathered(data: Any) -> Any:
    """The rows of a frame on the driver, as Arrow; whatever is no frame as it is."""
    if not isinstance(data, DataFrame):
        return data
    rows: pa.Table = data.toArrow()
    return rows
