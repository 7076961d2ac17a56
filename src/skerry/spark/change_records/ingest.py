"""Ingestion of change records: frames and streams become upserts and deletes, exactly once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from skerry.catalog import Catalog, Table
from skerry.errors import SchemaError, SkerryError, UnsupportedError
from skerry.jobs.record_fields import FieldNames
from skerry.spark.change_records.batches import RecordBatch, take_over
from skerry.spark.change_records.drift import DriftMode, evolve, find_drift
from skerry.spark.change_records.format import ChangeFormat, change_format
from skerry.spark.change_records.parsing import RecordParser
from skerry.spark.change_records.refused import FAIL, keep_refused, refuse_batch, refused_table
from skerry.spark.change_records.rows import take_over_rows
from skerry.spark.runtime.failures import TaskError
from skerry.spark.runtime.jvm import is_classic
from skerry.table.history import MAIN
from skerry.table.stream_batch import StreamBatch, batch_arguments, stream_batch
from skerry.table.summaries import ChangeSummary
from skerry.table.work.progress import Progress, progress_callback
from skerry.table.work.tasks import ProgressCallback

__all__ = ["ChangeIngestSummary", "ingest_change_stream", "ingest_changes"]

_MAX_EVOLUTIONS = 8  # per batch: a new field may hide another one


@dataclass(frozen=True, slots=True)
class ChangeIngestSummary:
    """The result of a batch of change records.

    Args:
        batch: Its number in its stream; None without a stream.
        records: Records that were applied, including those superseded by later ones of the same key.
        refused: Records that were refused.
        tables: The result for each table, in order.
    """

    batch: int | None
    records: int
    refused: int
    tables: tuple[ChangeSummary, ...]


def ingest_changes(  # noqa: PLR0913  options, by name
    spark: SparkSession,
    frame: DataFrame,
    table: Table | Sequence[Table],
    *,
    format: ChangeFormat | str = "debezium",
    on: str | Sequence[str] | None = None,
    stream: str | None = None,
    batch: int | None = None,
    query: str | None = None,
    take_over: bool = False,
    on_bad_record: str | Table = FAIL,
    drift: str = "refuse",
    blind: bool = False,
    ref: str = MAIN,
    snapshot_properties: Mapping[str, str] | None = None,
    progress: Progress = None,
) -> ChangeIngestSummary:
    """Apply the change records of a frame to a table, or to several: one snapshot per table.

    For each key the last record decides which row it has, or that it has none (`Table.apply_changes`). A record that
    cannot be read or applied ends the job with its position, column and value, or goes to a table of its own. If a
    source's rows have other fields or wider types than the table, the job ends with the difference, or the tables are
    changed accordingly. `ingest_change_stream` does the same for each batch of a stream.

    Example:
        records = spark.read.parquet("s3://…/records/2024-05-01")
        skerry.spark.ingest_changes(spark, records, table, on_bad_record="shop.refused")

    Args:
        spark: The session.
        frame: Records.
        table: The table, or several with the same columns; each gets all records.
        format: The format of records: a `ChangeFormat`, `debezium` (JSON in the column `value`, as Kafka's source
            returns it, ordered by `source.lsn`) or `rows` (typed columns and a column `op`).
        on: The key columns; those that identify a row of the (first) table if None.
        stream: The stream that the frame is a batch of; the same name after a restart.
        batch: Its batch number in the stream: a batch that a table already has is not applied again.
        query: The query that counts the batches: see `Table.apply_changes`.
        take_over: Continue under a name that another query has used.
        on_bad_record: What happens to records that cannot be applied: `fail`, or a table for them, which is created if
            it does not exist; see `skerry.spark.change_records.refused.REFUSED_RECORDS`.
        drift: What happens if a source has changed: `refuse` or `evolve`.
        blind: Write equality deletes into Iceberg tables without looking for the rows.
        ref: The branch.
        snapshot_properties: Further entries of the snapshot summary.
        progress: True for a bar, or a callable that gets `JobProgress` records.

    Raises:
        ConflictError: Other writers kept changing the same rows.
        CommitUnknownError: The outcome is unknown; nothing was cleaned up.
        SchemaError: A record, or the source, does not fit; or the frame is a stream.
        StreamNameError: The stream's name belongs to another query.
        UnsupportedError: A table does not support changes.
    """
    if frame.isStreaming:
        raise SchemaError("ingest_changes takes a frame, found a streaming frame; use ingest_change_stream")
    job = _change_job(table, format, on, on_bad_record, drift, blind, ref, snapshot_properties)
    with progress_callback(progress, "ingest changes", *(target.location for target in job.tables)) as callback:
        return job.run(frame, stream_batch(stream, batch, query, take_over), callback)


def ingest_change_stream(  # noqa: PLR0913  options, by name
    spark: SparkSession,
    frame: DataFrame,
    table: Table | Sequence[Table],
    *,
    checkpoint: str,
    format: ChangeFormat | str = "debezium",
    on: str | Sequence[str] | None = None,
    stream: str | None = None,
    take_over: bool = False,
    on_bad_record: str | Table = FAIL,
    drift: str = "refuse",
    blind: bool = False,
    available_now: bool = False,
    interval: str | None = None,
    ref: str = MAIN,
    snapshot_properties: Mapping[str, str] | None = None,
    progress: bool | Callable[[ChangeIngestSummary], None] | None = None,
) -> StreamingQuery:
    """Apply a stream of change records to a table, or to several: one snapshot per batch and table, each batch once.

    Each batch is applied as `ingest_changes` applies a frame; Spark numbers the batches.

    Example:
        records = spark.readStream.format("kafka")…load()
        query = skerry.spark.ingest_change_stream(spark, records, table, checkpoint="s3://…/orders")

    Args:
        spark: The session; classic, as Spark Connect cannot run the batches here.
        frame: Records: a streaming frame.
        table: The table, or several with the same columns; each gets all records.
        checkpoint: Where the stream stores its progress.
        format: The format of records; see `ingest_changes`.
        on: The key columns; those that identify a row of the (first) table if None.
        stream: The name of the stream in the tables, the same after a restart; the checkpoint's location if None.
        take_over: Continue under a name that another query has used, for example after its checkpoint was lost.
        on_bad_record: What happens to records that cannot be applied: `fail`, or a table for them; see
            `ingest_changes`.
        drift: What happens if a source has changed: `refuse` or `evolve`.
        blind: Write equality deletes into Iceberg tables without looking for the rows.
        available_now: End after applying what is available now.
        interval: How often a batch begins: `5 seconds`; after the previous one if None.
        ref: The branch.
        snapshot_properties: Further entries of the snapshot summary.
        progress: True for a line on standard error after each batch, or a callable that gets the batch's summary.

    Returns:
        The running query. It ends with the errors that `ingest_changes` raises, as its message.

    Raises:
        SchemaError: The frame is not a stream, or an argument does not fit the tables.
        UnsupportedError: The session cannot run the stream.
    """
    if not frame.isStreaming:
        raise SchemaError("ingest_change_stream takes a streaming frame, found a frame; use ingest_changes")
    if not is_classic(spark):
        raise UnsupportedError("change records need a classic session for streams; Spark Connect supports only frames")
    job = _change_job(table, format, on, on_bad_record, drift, blind, ref, snapshot_properties)
    name = StreamBatch(stream or checkpoint, 0, takes_over=take_over)
    report = _print_batch if progress is True else progress or None
    return _start(job, frame, checkpoint, name, available_now, interval, report)


def _change_job(
    table: Table | Sequence[Table],
    format: ChangeFormat | str,
    on: str | Sequence[str] | None,
    on_bad_record: str | Table,
    drift: str,
    blind: bool,
    ref: str,
    snapshot_properties: Mapping[str, str] | None,
) -> _ChangeJob:
    """The job that the arguments describe, which both functions take."""
    tables = (table,) if isinstance(table, Table) else tuple(table)
    key = _key(tables, on)
    return _ChangeJob(
        tables,
        change_format(format),
        key,
        refused_table(on_bad_record, cast("Catalog", tables[0].catalog), tables[0].format),
        DriftMode.parse(drift),
        blind,
        ref,
        dict(snapshot_properties or {}),
    )


def _key(tables: Sequence[Table], on: str | Sequence[str] | None) -> tuple[str, ...]:
    if not tables:
        raise SchemaError("there is no table to write to")
    key = tuple(tables[0].primary_key) if on is None else (on,) if isinstance(on, str) else tuple(on)
    if not key:
        raise SchemaError("the table has no key: change records need on=", location=tables[0].name)
    for name in key:
        if name not in tables[0].schema.names:
            raise SchemaError(f"the table has no column {name!r}", location=tables[0].name)
    return key


def _start(
    job: _ChangeJob,
    frame: DataFrame,
    checkpoint: str,
    stream: StreamBatch,
    available_now: bool,
    interval: str | None,
    report: Callable[[ChangeIngestSummary], None] | None,
) -> StreamingQuery:
    started: Future[str] = Future()

    def apply(records: DataFrame, number: int) -> None:
        try:
            done = job.run(records, replace(stream, number=number, query=started.result()))
        except SkerryError as error:
            raise TaskError(error) from error  # Spark passes its text on
        if report is not None:
            report(done)

    writer = frame.writeStream.foreachBatch(apply).option("checkpointLocation", checkpoint)
    if available_now:
        writer = writer.trigger(availableNow=True)
    elif interval is not None:
        writer = writer.trigger(processingTime=interval)
    running = writer.start()  # returns before the first batch ends
    started.set_result(running.id)
    return running


def _print_batch(done: ChangeIngestSummary) -> None:
    refused = f", {done.refused:,} refused" if done.refused else ""
    sys.stderr.write(f"batch {done.batch}: {done.records:,} records{refused}\n")


@dataclass
class _ChangeJob:
    """Applies batches of records, one after the other."""

    tables: Sequence[Table]
    format: ChangeFormat
    on: tuple[str, ...]
    refused: Table | None
    drift: DriftMode
    blind: bool
    ref: str
    properties: Mapping[str, str]
    names: FieldNames = field(default_factory=FieldNames)

    def run(
        self, frame: DataFrame, batch: StreamBatch | None, progress: ProgressCallback | None = None
    ) -> ChangeIngestSummary:
        """Apply a batch: first refused records, then each table."""
        read = self._read(frame)
        if read.refused.num_rows:
            if self.refused is None:
                raise refuse_batch(read.refused)
            keep_refused(self.refused, read.refused, batch)
        done = tuple(self._apply(table, read, batch, progress) for table in self.tables)
        number = None if batch is None else batch.number
        return ChangeIngestSummary(number, read.records.num_rows, read.refused.num_rows, done)

    def _read(self, frame: DataFrame) -> RecordBatch:
        """The records, after the tables were changed for them if necessary."""
        for _ in range(_MAX_EVOLUTIONS):
            schema = self._schema()
            read = self._take_over(frame, schema)
            drift = find_drift(schema, read)
            if not drift:
                return read
            if self.drift is DriftMode.REFUSE:
                raise SchemaError(f"the source has changed: {drift.describe(schema)}", location=self.tables[0].name)
            changed = [evolve(table, drift, self.on) for table in self.tables]
            if not any(changed):  # missing fields are null, and new ones have no values yet
                return read
        raise SchemaError(f"the source has changed: {drift.describe(schema)}", location=self.tables[0].name)

    def _take_over(self, frame: DataFrame, schema: pa.Schema) -> RecordBatch:
        if self.format.value is None:
            return take_over_rows(frame, self.format, schema, self.on)
        return take_over(RecordParser(self.format, schema, self.on), frame, self.names)

    def _schema(self) -> pa.Schema:
        """The columns of all tables.

        Raises:
            SchemaError: They differ.
        """
        first, *others = (table.refresh().schema for table in self.tables)
        for table, schema in zip(self.tables[1:], others, strict=True):
            different = sorted(set(first.names) ^ set(schema.names))
            if different:
                raise SchemaError(
                    f"tables of one source must have the same columns; {different[0]!r} is only in one of them",
                    location=table.name,
                )
        return first

    def _apply(
        self, table: Table, read: RecordBatch, batch: StreamBatch | None, progress: ProgressCallback | None
    ) -> ChangeSummary:
        return table.apply_changes(
            read.records,
            self.on,
            op=read.op,
            order_by=read.order_by,
            before=read.before,
            blind=self.blind and table.format == "iceberg",
            ref=self.ref,
            snapshot_properties=self.properties,
            progress=progress,
            **batch_arguments(batch),
        )
