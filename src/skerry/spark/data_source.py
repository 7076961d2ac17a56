"""The data source `skerry`: `format("skerry")` of frames and streams, to read and to write.

Rows pass through Python workers as Arrow batches. Writers sketch them on the way, and the driver commits all files
with the table's statistics once. `skerry.spark.ingest` lets Spark's own Parquet writer write, which is twice as fast;
this is for code that wants a format by name, and for streams.

Every step (planning, each task, commit, abort) may run in a Python process of its own, so a step knows only what is
pickled with the reader or writer.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from skerry.iceberg.layout import FileLayout
from skerry.iceberg.scan import Scan
from skerry.jobs.publish import Publication, WriteMode
from skerry.spark.frame_writer import FrameWriter, StreamWriter
from skerry.spark.schema import to_arrow_schema, to_spark_schema
from skerry.spark.settings import apply_defaults
from skerry.spark.source_options import SourceOptions
from skerry.spark.stream_reader import StreamReader, stream_source
from skerry.spark.tables import iceberg_table
from skerry.table.incoming import conform
from skerry.table.row_reader import RowReader
from skerry.table.scan import FileScanTask

__all__ = ["SkerryDataSource", "register"]


def register(spark: SparkSession) -> None:
    """Let a session read and write `format("skerry")`; docs/spark.md has its options.

    Settings that `skerry.spark.read` relies on are made, too, unless the session has them otherwise: Parquet columns
    are found by field id, and the cost-based optimizer is on, with its reordering of joins.
    """
    if isinstance(spark, SparkSession):
        # Spark looks a name up in the thread's active session, both here and at each read: make it this one, as
        # `createDataFrame` does. With another active that has the source, registering it is refused here.
        SparkSession._activeSession = spark
        SparkSession._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)
    spark.dataSource.register(SkerryDataSource)
    apply_defaults(spark)


class SkerryDataSource(DataSource):  # type: ignore[misc]
    """A table of a skerry catalog as a Spark data source."""

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return "skerry"

    def schema(self) -> StructType:
        """The columns that a read delivers."""
        options = SourceOptions(self.options)
        if options.tells_changes:
            return to_spark_schema(stream_source(options).schema)
        return to_spark_schema(_scan(options).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read the table, or those of its columns that the caller's schema names."""
        return _Reader(SourceOptions(self.options), list(schema.names))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Write to the table, as the options and the frame's mode say.

        Raises:
            SchemaError: The frame's columns or the options do not fit; nothing was written.
        """
        options = SourceOptions(self.options)
        return FrameWriter(options, *_prepared(options, schema, overwrite=overwrite))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Read the table as a stream."""
        return StreamReader(SourceOptions(self.options), list(schema.names))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        """Write a stream's batches to the table, each once.

        Raises:
            SchemaError: The stream's columns or the options do not fit, or nothing names the stream.
        """
        options = SourceOptions(self.options)
        layout, publication = _prepared(options, schema, overwrite=overwrite)
        return StreamWriter(options, layout, publication, options.stream)


def _prepared(options: SourceOptions, schema: StructType, *, overwrite: bool) -> tuple[FileLayout, Publication]:
    """How files must look that are about to be written, and how they are published."""
    publication = options.publication(overwrite=overwrite)
    table = options.load()
    rows = to_arrow_schema(schema)
    if publication.mode is not WriteMode.UPSERT:  # which may lack columns
        conform(rows.empty_table(), table.schema)
    return iceberg_table(table).layout(ref=publication.ref), publication


def _scan(options: SourceOptions, columns: Sequence[str] | None = None) -> Scan:
    return iceberg_table(options.load()).scan(
        columns=columns or options.columns, where=options.where, snapshot=options.snapshot, ref=options.ref
    )


# Reading -------------------------------------------------------------------------------------------------------------


class _Share(InputPartition):  # type: ignore[misc]
    """Files that one task reads, pickled with their reader."""

    def __init__(self, reader: RowReader, tasks: Sequence[FileScanTask]) -> None:
        super().__init__(pickle.dumps((reader, list(tasks))))


class _Reader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, options: SourceOptions, columns: list[str]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        """One task per data file or part of a large one; one without files where there are none, as Spark wants one."""
        scan = _scan(self._options, self._columns)
        reader = scan.row_reader()
        return [_Share(reader, [task]) for task in scan.plan(split=True)] or [_Share(reader, [])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task's files."""
        reader, tasks = pickle.loads(partition.value)
        yield from reader.batches(tasks)
