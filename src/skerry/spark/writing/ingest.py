"""Ingestion through Spark: files or a frame become data files, and the driver commits them with their statistics.

For Iceberg tables that takes two Spark jobs and one commit. The first writes the rows, with Spark's own Parquet writer
if possible. The second reads the written files, each in a task: footers, sketches, NaNs, partition. Then the
driver publishes everything as one snapshot with one statistics file. Paimon's equivalent is
`skerry.spark.writing.paimon_ingest`.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, cast

from pyspark.sql import DataFrame, SparkSession

from skerry.catalog import Table
from skerry.iceberg.jobs.analyze import catch_up
from skerry.iceberg.metadata.state import MAIN
from skerry.iceberg.table import IcebergTable
from skerry.iceberg.writing.describe import DescribeTask, describe_file
from skerry.iceberg.writing.layout import FileLayout
from skerry.paimon.jobs.publish import ShareLayout, owned_shares, publish_shares
from skerry.paimon.manifests.live_files import delta_entries
from skerry.paimon.table import PaimonTable
from skerry.spark.runtime.executor import SparkExecutor
from skerry.spark.runtime.progress import described, run_with_progress
from skerry.spark.writing.arrow_writer import write_frame_as_arrow
from skerry.spark.writing.paimon_ingest import land_shares
from skerry.spark.writing.sources import Source, open_source
from skerry.spark.writing.spark_writer import spark_can_write, write_frame
from skerry.table.connector.publication import Publication
from skerry.table.owned_files import OwnedFiles, after_publish
from skerry.table.statistics.written_file import WrittenFile
from skerry.table.work.progress import Progress, progress_callback
from skerry.table.work.tasks import JobProgress, ProgressCallback

__all__ = ["IngestSummary", "ingest", "land"]


@dataclass(frozen=True, slots=True)
class IngestSummary:
    """The result of an ingestion.

    Args:
        snapshot_id: The new snapshot; None if there were no rows.
        files: Data files written.
        rows: Rows in them; in tables with a primary key, where the last row of a key counts, they may be fewer than
            were given.
        size_bytes: Their size.
        seconds: Duration, including the commit.
    """

    snapshot_id: int | None = None
    files: int = 0
    rows: int = 0
    size_bytes: int = 0
    seconds: float = 0.0


def ingest(
    spark: SparkSession,
    source: str | os.PathLike[str] | DataFrame,
    table: Table,
    *,
    format: str | None = None,
    options: Mapping[str, str] | None = None,
    ref: str = MAIN,
    snapshot_properties: Mapping[str, str] | None = None,
    progress: Progress = None,
) -> IngestSummary:
    """Append files or a frame to a table: all rows and the table's statistics in one commit, or nothing.

    CSV and JSON are read with the table's schema. A row that does not fit is named by file, line, column and value.

    Args:
        spark: The session, classic or Spark Connect.
        source: A file, a folder or a glob that the session can read, a table or query of a database, or a frame.
        table: The table; `skerry.spark.infer_schema` returns a schema to create one for the files.
        format: `csv`, `json`, `parquet`, `orc` or `jdbc`; by the path's extension if None.
        options: Options of Spark's reader of that format.
        ref: The branch to append to.
        snapshot_properties: Further entries of the snapshot summary.
        progress: True for a bar, or a callable that gets `JobProgress` records.

    Raises:
        NotFoundError: The file does not exist.
        SchemaError: Columns, types or a value do not fit; the table is unchanged.
        UnsupportedError: The format or an option is unknown.
        ConflictError: Other writers won every race; the files written were removed.
        CommitUnknownError: The outcome is unknown; nothing was cleaned up.
    """
    begin = time.perf_counter()
    table.refresh()
    if isinstance(source, DataFrame):
        rows = Source(source)
    else:
        rows = open_source(spark, os.fspath(source), format=format, options=options, schema=table.schema)
    publication = Publication(ref=ref, properties=snapshot_properties or {})
    with (
        described(spark, f"ingest into {table.name}"),
        progress_callback(progress, "ingest", table.location) as callback,
    ):
        landed = _LANDINGS[table.format](table, rows, publication, callback)
    return dataclasses.replace(landed, seconds=time.perf_counter() - begin)


def _into_iceberg(
    table: Table, rows: Source, publication: Publication, progress: ProgressCallback | None
) -> IngestSummary:
    inner = cast("IcebergTable", table).handle
    ref = publication.ref
    catch_up(inner, ref, executor=SparkExecutor(rows.frame.sparkSession))
    layout = inner.layout(ref=ref)
    snapshot_id = None
    with layout.owned_files():
        files = land(rows, layout, progress=progress)
        if files:
            if progress is not None:
                progress(JobProgress("commit", done_files=len(files), total_files=len(files)))
            snapshot = inner.append(files, ref=ref, properties=publication.properties).snapshot(ref)
            snapshot_id = None if snapshot is None else snapshot.snapshot_id
    return IngestSummary(
        snapshot_id=snapshot_id,
        files=len(files),
        rows=sum(file.data_file.record_count for file in files),
        size_bytes=sum(file.data_file.file_size_bytes for file in files),
    )


def _into_paimon(
    table: Table, rows: Source, publication: Publication, progress: ProgressCallback | None
) -> IngestSummary:
    inner = cast("PaimonTable", table).handle
    layout = ShareLayout.of(inner, publication, owns_buckets=True)
    shares = land_shares(rows, layout, publication.mode, progress=progress)
    if not shares:
        return IngestSummary()
    files = [file.file for share in shares for file in share.files if not file.is_changelog]
    row_count = sum(file.row_count for file in files)
    with owned_shares(layout, shares):
        if progress is not None:
            progress(JobProgress("commit", len(files), len(files), row_count, sum(file.file_size for file in files)))
        state = publish_shares(inner, layout, shares, publication)
    snapshot = state.snapshot if state is not None else None
    if state is not None and snapshot is not None and layout.rows_wait(publication.mode):
        # all files of the layout belong to the commit
        row_count = sum(file.row_count for share in shares for file in share.shuffle_files)
        with after_publish("looking at the files of the commit"):
            files = [entry.file for entry in delta_entries(state, snapshot)]
    return IngestSummary(
        snapshot_id=snapshot.id if snapshot is not None else None,
        files=len(files),
        rows=row_count,
        size_bytes=sum(file.file_size for file in files),
    )


_LANDINGS: Final = {"iceberg": _into_iceberg, "paimon": _into_paimon}


def land(
    source: Source | DataFrame, layout: FileLayout, *, progress: ProgressCallback | None = None
) -> list[WrittenFile]:
    """Write rows as data files of a table and describe them, for a commit.

    Args:
        source: The rows.
        layout: How the table's files are written; its folder must be new.
        progress: Called with the progress.

    Returns:
        The files with metrics and samples; none is empty.

    Raises:
        SchemaError: Columns, types or a value do not fit. All written files are removed.
    """
    rows = source if isinstance(source, Source) else Source(source)
    spark = rows.frame.sparkSession
    try:
        with layout.owned_files() as owned:
            if not spark_can_write(spark, layout):
                return run_with_progress(spark, lambda: write_frame_as_arrow(rows.frame, layout, rows.origin), progress)
            written = run_with_progress(spark, lambda: write_frame(rows.frame, layout, rows.origin), progress)
            return list(_described(spark, layout, written, owned, progress))
    except BaseException as failure:
        error = rows.error(failure)
        if error is None:
            raise
        raise error from None


def _described(
    spark: SparkSession, layout: FileLayout, locations: list[str], owned: OwnedFiles, progress: ProgressCallback | None
) -> Iterator[WrittenFile]:
    """Describe files in a Spark job. Spark writes a file without rows for an empty frame; it is removed."""
    done = JobProgress("sketch", total_files=len(locations))
    tasks = [DescribeTask(location, layout, is_sorted=True) for location in locations]
    for file in SparkExecutor(spark).map(describe_file, tasks):
        data = file.data_file
        done = replace(
            done,
            done_files=done.done_files + 1,
            done_rows=done.done_rows + data.record_count,
            done_bytes=done.done_bytes + data.file_size_bytes,
        )
        if progress is not None:
            progress(done)
        if data.record_count:
            yield file
        else:
            owned.remove([data.location])
