"""Following a source of changes: frames and streams of change records become upserts and deletes, exactly once."""

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

_MAX_EVOLUTIONS = 8  # of one batch: a new field may hide another one


@dataclass(frozen=True, slots=True)
class IngestedChanges:
    """What a batch of change records has done.

    Args:
        batch: Its number in its stream; None if it is of none.
        records: Records that were applied, those that others of the same key have overtaken included.
        refused: Records that were not.
        tables: What was done to each table, in their order.
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

    Per key the last record by order says what row it has, or that it has none (`Table.apply_changes`). A record that
    cannot be read or applied ends the job with its place, column and value, or goes to a table of its own. A source
    whose rows have other fields or wider types than the table ends the job with the difference, or the tables follow.

    Example:
        records = spark.readStream.format("kafka")…load()
        query = skerry.spark.ingest_changes(spark, records, table, checkpoint="s3://…/orders", poison="shop.refused")

    Args:
        spark: The session.
        source: Records: a frame, or a streaming frame.
        table: The table, or several with the same columns; each gets all records.
        format: What records look like: a `ChangeFormat`, `debezium` (JSON in the column `value`, as Kafka's source
            gives it, ordered by `source.lsn`) or `rows` (typed columns and a column `op`).
        on: The key columns; those that identify a row of the (first) table if None.
        checkpoint: For a stream, where it keeps how far it is.
        stream: What names the stream in the tables, the same after a restart; the checkpoint's location if None.
        batch: For a frame, which batch of the stream it is: a batch that a table has is not applied to it again.
        query: For a frame, who counts the batches: see `Table.apply_changes`. A stream has the id that Spark gives it.
        take_over: Go on under a name that another query has used, as one does whose checkpoint is lost.
        poison: What becomes of records that cannot be applied: `fail`, or a table for them, which is made if it does
            not exist; see `skerry.spark.change_records.refused.REFUSED_RECORDS`.
        drift: What becomes of a source that has changed: `refuse` or `evolve`.
        blind: Write equality deletes into Iceberg tables without looking for the rows.
        available_now: For a stream, end when what is there now is applied.
        interval: For a stream, how often a batch begins: `5 seconds`; when the one before is done if None.
        ref: The branch.
        snapshot_properties: Further entries of the snapshot summary.
        report: Called after every batch.

    Returns:
        What was done; of a streaming frame the running query.

    Raises:
        ConflictError: Others changed the same rows, again and again.
        CommitUnknownError: The outcome is unknown; nothing was cleaned up.
        SchemaError: A record, or the source, does not fit; of a stream, the query ends with this text.
        StreamNameError: The stream's name belongs to another query; likewise.
        UnsupportedError: A table cannot take changes, or the session cannot run the stream.
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
        raise UnsupportedError("a stream of change records needs a classic session; Spark Connect runs frames only")
    if checkpoint is None or batch is not None or query is not None:
        raise SchemaError("a stream needs checkpoint=, where it keeps how far it is, and takes no batch= and no query=")
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
            raise TaskError(error) from error  # Spark hands on its text
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
        """Apply a batch: refused records first, then each table."""
        read = self._read(frame)
        if read.refused.num_rows:
            if self.poison is None:
                raise refuse_batch(read.refused)
            keep_refused(self.poison, read.refused, batch)
        done = tuple(self._apply(table, read, batch) for table in self.tables)
        number = None if batch is None else batch.number
        return IngestedChanges(number, read.records.num_rows, read.refused.num_rows, done)

    def _read(self, frame: DataFrame) -> RecordBatch:
        """The records, once the tables have what they need for them."""
        for _ in range(_MAX_EVOLUTIONS):
            schema = self._schema()
            read = self._take_over(frame, schema)
            drift = find_drift(schema, read)
            if not drift:
                return read
            if self.drift is DriftMode.REFUSE:
                raise SchemaError(f"the source has changed: {drift.describe(schema)}", location=self.tables[0].name)
            changed = [evolve(table, drift, self.on) for table in self.tables]
            if not any(changed):  # what is missing is null, and what is new has no value yet
                return read
        raise SchemaError(f"the source has changed: {drift.describe(schema)}", location=self.tables[0].name)

    def _take_over(self, frame: DataFrame, schema: pa.Schema) -> RecordBatch:
        if self.format.value is None:
            return take_over_rows(frame, self.format, schema, self.on)
        return take_over(RecordParser(self.format, schema, self.on), frame, self.names)

    def _schema(self) -> pa.Schema:
        """The columns of all tables.

        Raises:
            SchemaError: They are not the same.
        """
        first, *others = (table.refresh().schema for table in self.tables)
        for table, schema in zip(self.tables[1:], others, strict=True):
            different = sorted(set(first.names) ^ set(schema.names))
            if different:
                raise SchemaError(
                    f"tables that follow one source have the same columns; {different[0]!r} is only in one of them",
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
