"""Ingestion of change records: frames and streams become upserts and deletes, exactly once."""

from __future__ import annotations

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
from skerry.spark.change_records.refused import FAIL, keep_refused, poison_table, refuse_batch
from skerry.spark.change_records.rows import take_over_rows
from skerry.spark.runtime.failures import TaskError
from skerry.spark.runtime.jvm import is_classic
from skerry.table.history import MAIN
from skerry.table.stream_batch import StreamBatch, batch_arguments, stream_batch
from skerry.table.summaries import ChangeSummary

__all__ = ["IngestedChanges", "ingest_changes"]

_MAX_EVOLUTIONS = 8  # per batch: a new field may hide another one


@dataclass(frozen=True, slots=True)
class IngestedChanges:
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
    source: DataFrame,
    table: Table | Sequence[Table],
    *,
    format: ChangeFormat | str = "debezium",
    on: str | Sequence[str] | None = None,
    checkpoint: str | None = None,
    stream: str | None = None,
    batch: int | None = None,
    query: str | None = None,
    take_over: bool = False,
    poison: str | Table = FAIL,
    drift: str = "refuse",
    blind: bool = False,
    available_now: bool = False,
    interval: str | None = None,
    ref: str = MAIN,
    snapshot_properties: Mapping[str, str] | None = None,
    report: Callable[[IngestedChanges], None] | None = None,
) -> IngestedChanges | StreamingQuery:
    """Apply change records to a table, or to several: one snapshot per batch and table, each batch once.

    For each key the last record decides which row it has, or that it has none (`Table.apply_changes`). A record that
    cannot be read or applied ends the job with its position, column and value, or goes to a table of its own. If a
    source's rows have other fields or wider types than the table, the job ends with the difference, or the tables are
    changed accordingly.

    Example:
        records = spark.readStream.format("kafka")…load()
        query = skerry.spark.ingest_changes(spark, records, table, checkpoint="s3://…/orders", poison="shop.refused")

    Args:
        spark: The session.
        source: Records: a frame, or a streaming frame.
        table: The table, or several with the same columns; each gets all records.
        format: The format of records: a `ChangeFormat`, `debezium` (JSON in the column `value`, as Kafka's source
            returns it, ordered by `source.lsn`) or `rows` (typed columns and a column `op`).
        on: The key columns; those that identify a row of the (first) table if None.
        checkpoint: For a stream, where it stores its progress.
        stream: The name of the stream in the tables, the same after a restart; the checkpoint's location if None.
        batch: For a frame, its batch number in the stream: a batch that a table already has is not applied again.
        query: For a frame, the query that counts the batches: see `Table.apply_changes`. Spark assigns a stream's.
        take_over: Continue under a name that another query has used, for example after its checkpoint was lost.
        poison: What happens to records that cannot be applied: `fail`, or a table for them, which is created if it does
            not exist; see `skerry.spark.change_records.refused.REFUSED_RECORDS`.
        drift: What happens if a source has changed: `refuse` or `evolve`.
        blind: Write equality deletes into Iceberg tables without looking for the rows.
        available_now: For a stream, end after applying what is available now.
        interval: For a stream, how often a batch begins: `5 seconds`; after the previous one if None.
        ref: The branch.
        snapshot_properties: Further entries of the snapshot summary.
        report: Called after every batch.

    Returns:
        The result; for a streaming frame the running query.

    Raises:
        ConflictError: Other writers kept changing the same rows.
        CommitUnknownError: The outcome is unknown; nothing was cleaned up.
        SchemaError: A record, or the source, does not fit; a stream's query ends with this message.
        StreamNameError: The stream's name belongs to another query; a stream's query ends with this message.
        UnsupportedError: A table does not support changes, or the session cannot run the stream.
    """
    tables = (table,) if isinstance(table, Table) else tuple(table)
    job = _ChangeJob(
        tables,
        change_format(format),
        _key(tables, on),
        poison_table(poison, cast("Catalog", tables[0].catalog), tables[0].format),
        DriftMode.parse(drift),
        blind,
        ref,
        dict(snapshot_properties or {}),
    )
    if not source.isStreaming:
        done = job.run(source, stream_batch(stream, batch, query, take_over))
        if report is not None:
            report(done)
        return done
    if not is_classic(spark):
        raise UnsupportedError("change records need a classic session for streams; Spark Connect supports only frames")
    if checkpoint is None or batch is not None or query is not None:
        raise SchemaError(
            "a stream needs checkpoint=, where it stores its progress, and accepts neither batch= nor query="
        )
    name = StreamBatch(stream or checkpoint, 0, takes_over=take_over)
    return _start(job, source, checkpoint, name, available_now, interval, report)


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
    source: DataFrame,
    checkpoint: str,
    stream: StreamBatch,
    available_now: bool,
    interval: str | None,
    report: Callable[[IngestedChanges], None] | None,
) -> StreamingQuery:
    started: Future[str] = Future()

    def apply(frame: DataFrame, number: int) -> None:
        try:
            done = job.run(frame, replace(stream, number=number, query=started.result()))
        except SkerryError as error:
            raise TaskError(error) from error  # Spark passes its text on
        if report is not None:
            report(done)

    writer = source.writeStream.foreachBatch(apply).option("checkpointLocation", checkpoint)
    if available_now:
        writer = writer.trigger(availableNow=True)
    elif interval is not None:
        writer = writer.trigger(processingTime=interval)
    running = writer.start()  # returns before the first batch ends
    started.set_result(running.id)
    return running


@dataclass
class _ChangeJob:
    """Applies batches of records, one after the other."""

    tables: Sequence[Table]
    format: ChangeFormat
    on: tuple[str, ...]
    poison: Table | None
    drift: DriftMode
    blind: bool
    ref: str
    properties: Mapping[str, str]
    names: FieldNames = field(default_factory=FieldNames)

    def run(self, frame: DataFrame, batch: StreamBatch | None) -> IngestedChanges:
        """Apply a batch: first refused records, then each table."""
        read = self._read(frame)
        if read.refused.num_rows:
            if self.poison is None:
                raise refuse_batch(read.refused)
            keep_refused(self.poison, read.refused, batch)
        done = tuple(self._apply(table, read, batch) for table in self.tables)
        number = None if batch is None else batch.number
        return IngestedChanges(number, read.records.num_rows, read.refused.num_rows, done)

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

    def _apply(self, table: Table, read: RecordBatch, batch: StreamBatch | None) -> ChangeSummary:
        return table.apply_changes(
            read.records,
            self.on,
            op=read.op,
            order_by=read.order_by,
            before=read.before,
            blind=self.blind and table.format == "iceberg",
            ref=self.ref,
            snapshot_properties=self.properties,
            **batch_arguments(batch),
        )
