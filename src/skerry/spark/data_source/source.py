"""The data source `skerry`: `format("skerry")` for reading and writing frames and streams.

Rows pass through Python workers as Arrow batches. Writers sketch them on the way, and the driver commits all files
with the table's statistics once. `skerry.spark.ingest` uses Spark's own Parquet writer, which is twice as fast;
this is for code that needs a format by name, and for streams.

Every step (planning, each task, commit, abort) may run in a Python process of its own, so a step knows only what is
pickled with the reader or writer. The table format's part is in `skerry.table.connector.connector`.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

from skerry.spark.data_source.frame_writer import FrameWriter, StreamWriter
from skerry.spark.data_source.options import SourceOptions, Use
from skerry.spark.data_source.pushed_filters import push_filters
from skerry.spark.data_source.stream_reader import StreamReader, table_stream
from skerry.spark.outgoing import for_spark
from skerry.spark.runtime.archives import prepare_worker
from skerry.spark.runtime.settings import apply_defaults
from skerry.spark.schema import to_arrow_schema, to_spark_schema
from skerry.table.connector.connector import PieceReader, TableConnector, TableWrite
from skerry.table.predicate import Predicate, conjunction
from skerry.table.selection import columns_named

__all__ = ["SkerryDataSource", "register"]

prepare_worker()


def register(spark: SparkSession) -> None:
    """Let a session read and write `format("skerry")`; its options are in docs/spark.md.

    Settings that `skerry.spark.read` relies on are set too, unless the session already sets them: Parquet columns
    are found by field id, and the cost-based optimizer is on, with its reordering of joins.
    """
    if isinstance(spark, SparkSession):
        # Spark looks a name up in the thread's active session, here and at each read: activate this one, as
        # `createDataFrame` does. If another session with the source is active, registering is refused here.
        SparkSession._activeSession = spark
        SparkSession._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)
    spark.dataSource.register(SkerryDataSource)
    apply_defaults(spark)


class SkerryDataSource(DataSource):  # type: ignore[misc]
    """A table of a skerry catalog as a Spark data source."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "skerry"

    def schema(self) -> StructType:
        """The columns of a read."""
        options = SourceOptions(self.options)
        if options.tells_changes:
            return to_spark_schema(table_stream(options).schema)
        exchange = options.connector()
        scan = exchange.scan(options.columns, options.where, options.snapshot, options.ref)
        return to_spark_schema(scan.schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read the table, or those of its columns that the caller's schema names."""
        options = SourceOptions(self.options)
        options.check(Use.READ)
        reader = _FilteringReader if options.pushes_filters else _Reader
        return reader(options, list(schema.names))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Write to the table, as the options and the frame's mode specify.

        Raises:
            SchemaError: The frame's columns or the options do not fit; nothing was written.
        """
        options = SourceOptions(self.options)
        options.check(Use.WRITE)
        return FrameWriter(options, _begin_write(options, schema, overwrite=overwrite), options.batch)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Read the table as a stream."""
        options = SourceOptions(self.options)
        options.check(Use.STREAM_READ)
        return StreamReader(options, list(schema.names))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """Write a stream's batches to the table, each once.

        Raises:
            SchemaError: The stream's columns or the options do not fit, or the stream has no name.
        """
        options = SourceOptions(self.options)
        options.check(Use.STREAM_WRITE)
        return StreamWriter(options, _begin_write(options, schema, overwrite=overwrite), options.stream)


def _begin_write(options: SourceOptions, schema: StructType, *, overwrite: bool) -> TableWrite:
    publication = options.publication(overwrite=overwrite)
    write = options.connector().begin_write(publication)
    write.check(to_arrow_schema(schema))
    return write


# Reading -------------------------------------------------------------------------------------------------------------


class _Share(InputPartition):  # type: ignore[misc]
    """What one task reads, pickled with its reader."""

    def __init__(self, reader: PieceReader, pieces: Sequence[Any]) -> None:
        super().__init__(pickle.dumps((reader, list(pieces))))


class _Reader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, options: SourceOptions, columns: list[str]) -> None:
        self._options = options
        self._columns = columns
        self._pushed: list[Predicate] = []

    def __getstate__(self) -> dict[str, Any]:
        """The state for tasks: without the table, which stays in the planning process."""
        return {"_options": self._options, "_columns": self._columns, "_pushed": []}

    @cached_property
    def _exchange(self) -> TableConnector:
        return self._options.connector()

    def partitions(self) -> Sequence[InputPartition]:
        """One task per piece of the scan; an empty one if there are none, as Spark requires one."""
        options, columns = self._options, self._options.columns
        where: str | Predicate | None = options.where
        if self._pushed:
            said = self._exchange.scan(None, where, options.snapshot, options.ref)
            where = conjunction([said.predicate, *self._pushed])
        if self._columns:
            everything = self._exchange.scan(None, None, options.snapshot, options.ref)
            columns = columns_named(everything.schema, columns or [], self._columns)
        scan = self._exchange.scan(columns, where, options.snapshot, options.ref)
        reader = scan.row_reader()
        return [_Share(reader, [piece]) for piece in self._exchange.pieces(scan)] or [_Share(reader, [])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task's pieces."""
        reader, pieces = pickle.loads(partition.value)
        yield from for_spark(reader.batches(pieces))


class _FilteringReader(_Reader):
    """A reader that also accepts the conditions of a query.

    Spark 4.1 to 4.3 apply the filters of one scan of a frame to all other scans of it, including scans
    without filters, and so may read too few rows. It is therefore opt-in, frame by frame.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Accept the filters that can be converted to predicates; Spark tests the others itself."""
        options = self._options
        schema = self._exchange.scan(options.columns, None, options.snapshot, options.ref).schema
        stored = pa.schema([field for field in schema if field.metadata])  # values inside of variants have no ids
        self._pushed, left = push_filters(filters, stored)
        return left
