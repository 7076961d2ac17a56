"""Maintenance and row-level changes on Spark: operations of `skerry.catalog.Table` with tasks on Spark's executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from skerry.catalog import Catalog, Table
from skerry.spark.runtime.executor import SparkExecutor
from skerry.spark.runtime.frame_rows import FrameRows
from skerry.spark.runtime.progress import described
from skerry.table.arguments import Age, Condition, Rows
from skerry.table.history import MAIN
from skerry.table.merging import Clauses, LocalRows
from skerry.table.summaries import (
    AnalyzeSummary,
    CompactSummary,
    DeletesSummary,
    ExpireSummary,
    MigrationSummary,
    OrphanSummary,
    RowChangeSummary,
)
from skerry.table.work.progress import Progress

__all__ = [
    "analyze",
    "compact",
    "executor",
    "expire_snapshots",
    "merge",
    "migrate",
    "remove_orphans",
    "rewrite_deletes",
]


def executor(spark: SparkSession) -> SparkExecutor:
    """Spark's executors, for the argument `executor` of tables and catalogs.

    Example:
        table.compact(executor=skerry.spark.executor(spark))

    Args:
        spark: The session, classic or Spark Connect.
    """
    return SparkExecutor(spark)


def analyze(
    spark: SparkSession, table: Table, columns: Sequence[str] | None = None, *, progress: Progress = None
) -> AnalyzeSummary:
    """Sketch the rows of a table's current snapshot on Spark's executors, and publish the sketches.

    Args:
        spark: The session, classic or Spark Connect.
        table: The table.
        columns: Dotted names; those selected by the table's properties if None.
        progress: True for a bar, or a callable that gets `JobProgress` records.

    Raises:
        SchemaError: A column is unknown; the message proposes the nearest.
        UnsupportedError: A file is encrypted, or uses a feature that is not supported.
    """
    with described(spark, f"analyze {table.name}"):
        return table.analyze(columns, executor=SparkExecutor(spark), progress=progress)


def compact(  # noqa: PLR0913  options, by name
    spark: SparkSession,
    table: Table,
    where: Condition | None = None,
    *,
    sort_by: Sequence[str] | None = None,
    z_order: Sequence[str] | None = None,
    hilbert: Sequence[str] | None = None,
    target_file_size_bytes: int | None = None,
    min_input_files: int | None = None,
    min_deletes: int | None = 1,
    full: bool = False,
    ref: str = MAIN,
    dry_run: bool = False,
    snapshot_properties: Mapping[str, str] | None = None,
    progress: Progress = None,
) -> CompactSummary:
    """Rewrite many files as a few larger ones, a group of files per task; see `Table.compact` for the arguments.

    Raises:
        ConflictError: Other writers kept changing the same rows.
        CommitUnknownError: The outcome is unknown; nothing was cleaned up.
        SchemaError: An argument is invalid.
    """
    with described(spark, f"compact {table.name}"):
        return table.compact(
            where,
            sort_by=sort_by,
            z_order=z_order,
            hilbert=hilbert,
            target_file_size_bytes=target_file_size_bytes,
            min_input_files=min_input_files,
            min_deletes=min_deletes,
            full=full,
            ref=ref,
            dry_run=dry_run,
            snapshot_properties=snapshot_properties,
            executor=SparkExecutor(spark),
            progress=progress,
        )


def expire_snapshots(
    spark: SparkSession,
    table: Table,
    *,
    keep_last: int | None = None,
    older_than: Age | None = None,
    dry_run: bool = False,
    progress: Progress = None,
) -> ExpireSummary:
    """Expire old snapshots and delete the files that only they reference; see `Table.expire_snapshots`.

    Args:
        spark: The session, classic or Spark Connect.
        table: The table.
        keep_last: How many of each branch's newest snapshots are kept, however old.
        older_than: Only snapshots from before this moment expire.
        dry_run: Whether to only report what would be done.
        progress: True for a bar, or a callable that gets `JobProgress` records.

    Raises:
        FormatError: Metadata is corrupt; nothing was changed.
        SchemaError: An argument or property is invalid.
    """
    with described(spark, f"expire snapshots of {table.name}"):
        return table.expire_snapshots(
            keep_last=keep_last,
            older_than=older_than,
            dry_run=dry_run,
            executor=SparkExecutor(spark),
            progress=progress,
        )


def remove_orphans(
    spark: SparkSession,
    table: Table,
    *,
    older_than: Age | None = None,
    older_than_days: float | None = None,
    dry_run: bool = False,
    marked: str | None = None,
    log: str | None = None,
    progress: Progress = None,
) -> OrphanSummary:
    """Delete files that nothing needs; tasks list folders and read manifests; see `Table.remove_orphans`.

    Args:
        spark: The session, classic or Spark Connect.
        table: The table.
        older_than: The grace period; younger files are kept, because their writer may be about to commit them.
        older_than_days: The same in days.
        dry_run: Whether to only report what would be done.
        marked: The log of an earlier run; only files marked in it are deleted.
        log: A folder for logs.
        progress: True for a bar, or a callable that gets `JobProgress` records.

    Raises:
        FormatError: Metadata is corrupt; nothing was deleted.
        SchemaError: An argument or property is invalid.
    """
    with described(spark, f"remove orphans of {table.name}"):
        return table.remove_orphans(
            older_than=older_than,
            older_than_days=older_than_days,
            dry_run=dry_run,
            marked=marked,
            log=log,
            executor=SparkExecutor(spark),
            progress=progress,
        )


def rewrite_deletes(
    spark: SparkSession,
    table: Table,
    *,
    min_input_files: int = 2,
    ref: str = MAIN,
    dry_run: bool = False,
    snapshot_properties: Mapping[str, str] | None = None,
    progress: Progress = None,
) -> DeletesSummary:
    """Merge the delete files of each data file, in tasks; see `Table.rewrite_deletes` for the arguments.

    Raises:
        ConflictError: Other writers kept changing the same rows.
        CommitUnknownError: The outcome is unknown; nothing was cleaned up.
    """
    with described(spark, f"rewrite deletes of {table.name}"):
        return table.rewrite_deletes(
            min_input_files=min_input_files,
            ref=ref,
            dry_run=dry_run,
            snapshot_properties=snapshot_properties,
            executor=SparkExecutor(spark),
            progress=progress,
        )


def migrate(
    spark: SparkSession,
    catalog: Catalog,
    name: str,
    folder: str | None = None,
    *,
    format: str = "iceberg",
    partition_by: Sequence[str] | None = None,
    properties: Mapping[str, str] | None = None,
    format_version: int | None = None,
    dry_run: bool = False,
    progress: Progress = None,
) -> MigrationSummary:
    """Turn a folder into a table, or a table into one of the other format, in place; see `Catalog.migrate`.

    Raises:
        AlreadyExistsError: The name is taken, or the table already has this format.
        CommitUnknownError: The outcome is unknown; nothing was cleaned up.
        ConflictError: Another writer has committed meanwhile; the table is unchanged.
        UnsupportedError: The new table cannot represent something.
    """
    with described(spark, f"migrate {name}"):
        return catalog.migrate(
            name,
            folder,
            format=format,
            partition_by=partition_by,
            properties=properties,
            format_version=format_version,
            dry_run=dry_run,
            executor=SparkExecutor(spark),
            progress=progress,
        )


def merge(
    spark: SparkSession,
    table: Table,
    data: Rows | DataFrame,
    on: str | Sequence[str],
    *,
    when_matched: Clauses = None,
    when_not_matched: Clauses = None,
    when_not_matched_by_source: Clauses = None,
    snapshot_properties: Mapping[str, str] | None = None,
    progress: Progress = None,
) -> RowChangeSummary:
    """Merge rows by key; tasks read and rewrite the table's files; see `Table.merge`.

    The tasks that compute the source's rows leave them in files beside the table's. Tasks that look for matches read
    their keys, and columns that conditions use, once per process; others write updated and inserted rows. The driver
    only learns which rows of the table change.

    Args:
        spark: The session, classic or Spark Connect.
        table: The table.
        data: The rows: a frame, or anything with the Arrow C stream interface.
        on: The key columns.
        when_matched: What happens to rows that a row of the source matches.
        when_not_matched: What happens to rows of the source without a match.
        when_not_matched_by_source: What happens to rows of the table that no row of the source matches.
        snapshot_properties: Further entries of the snapshot summary.
        progress: True for a bar, or a callable that gets `JobProgress` records.

    Raises:
        ConflictError: Other writers kept changing the same rows.
        CommitUnknownError: The outcome is unknown; nothing was cleaned up.
        SchemaError: Columns, keys or clauses do not fit.
    """
    with described(spark, f"merge into {table.name}"):
        return table.merge(
            FrameRows(data) if isinstance(data, DataFrame) else LocalRows(data),
            on,
            when_matched=when_matched,
            when_not_matched=when_not_matched,
            when_not_matched_by_source=when_not_matched_by_source,
            snapshot_properties=snapshot_properties,
            executor=SparkExecutor(spark),
            progress=progress,
        )
