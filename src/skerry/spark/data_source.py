"""The data source `skerry`: `df.write.format("skerry")` and `spark.read.format("skerry")`.

Rows pass through Python workers as Arrow batches. Writers sketch them on the way, and the driver commits all files
with the table's statistics once. `skerry.spark.ingest` lets Spark's own Parquet writer write, which is twice as fast;
this is for code that wants a format by name.

Every step (planning, each task, commit, abort) may run in a Python process of its own, so a step knows only what is
pickled with the writer.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

import skerry
from skerry.catalog import Table
from skerry.errors import CommitUnknownError, SchemaError, SkerryError, UnsupportedError
from skerry.iceberg.layout import FileLayout
from skerry.iceberg.scan import Scan
from skerry.iceberg.state import MAIN
from skerry.jobs.write import write_batches
from skerry.spark.schema import to_arrow_schema, to_spark_schema
from skerry.spark.settings import apply_defaults
from skerry.spark.tables import iceberg_table
from skerry.table.files import WrittenFile
from skerry.table.incoming import conform
from skerry.table.row_reader import RowReader
from skerry.table.scan import FileScanTask
from skerry.table.schema import nearest

__all__ = ["SkerryDataSource", "register"]

_CATALOG_PREFIX = "catalog."
_OPTIONS = ("catalog", "path", "table", "columns", "where", "snapshot", "ref")


def register(spark: SparkSession) -> None:
    """Let a session read and write `format("skerry")`.

    Options of both: `catalog` (what `skerry.connect` takes; a folder as an absolute path), `catalog.<property>`, and
    the table's name as the path or as `table`. Of a read: `columns` (comma-separated), `where`, `snapshot`, `ref`; of
    a write: `ref`.

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
        return to_spark_schema(_scan(self.options).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read the table, or those of its columns that the caller's schema names."""
        return _Reader(dict(self.options), list(schema.names))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Append to the table.

        Raises:
            SchemaError: The frame's columns do not fit; nothing was written.
            UnsupportedError: The mode is `overwrite`.
        """
        if overwrite:
            raise UnsupportedError('mode("overwrite") is not supported; use mode("append")')
        table = _load(self.options)
        ref = self.options.get("ref", MAIN)
        conform(to_arrow_schema(schema).empty_table(), table.schema)
        return _Writer(dict(self.options), ref, iceberg_table(table).layout(ref=ref))


def _load(options: Mapping[str, str]) -> Table:
    """The table that the options name.

    Raises:
        SchemaError: An option is missing or unknown.
    """
    for name in options:
        if name not in _OPTIONS and not name.startswith(_CATALOG_PREFIX):
            raise SchemaError(f"the data source skerry has no option {name!r}{nearest(name, _OPTIONS)}")
    table = options.get("table") or options.get("path")
    if not table or not options.get("catalog"):
        raise SchemaError('the data source skerry needs .option("catalog", …) and a table\'s name: .save("ns.table")')
    properties = {
        key.removeprefix(_CATALOG_PREFIX): value for key, value in options.items() if key.startswith(_CATALOG_PREFIX)
    }
    return skerry.connect(options["catalog"], create=False, **properties).load_table(table)


def _scan(options: Mapping[str, str], columns: Sequence[str] | None = None) -> Scan:
    chosen = options.get("columns")
    snapshot = options.get("snapshot")
    if snapshot is not None and not snapshot.lstrip("-").isdecimal():
        raise SchemaError(f"option snapshot must be a snapshot id, found {snapshot!r}")
    return iceberg_table(_load(options)).scan(
        columns=columns or ([name.strip() for name in chosen.split(",")] if chosen else None),
        where=options.get("where"),
        snapshot=int(snapshot) if snapshot is not None else None,
        ref=options.get("ref"),
    )


# Reading -------------------------------------------------------------------------------------------------------------


@dataclass
class _Share(InputPartition):  # type: ignore[misc]
    """Files that one task reads, pickled with their reader."""

    def __init__(self, reader: RowReader, tasks: Sequence[FileScanTask]) -> None:
        super().__init__(pickle.dumps((reader, list(tasks))))


class _Reader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, options: dict[str, str], columns: list[str]) -> None:
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


# Writing -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Written(WriterCommitMessage):  # type: ignore[misc]
    """What a task has written."""

    files: tuple[WrittenFile, ...]


class _Writer(DataSourceArrowWriter):  # type: ignore[misc]
    def __init__(self, options: dict[str, str], ref: str, layout: FileLayout) -> None:
        self._options = options
        self._ref = ref
        self._layout = layout

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a task's share of the rows."""
        first = next(iterator, None)
        if first is None:
            return _Written(())

        def batches() -> Iterator[pa.RecordBatch]:
            yield first
            yield from iterator

        reader = pa.RecordBatchReader.from_batches(first.schema, batches())
        return _Written(tuple(write_batches(self._layout, conform(reader, self._layout.schema))))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit what all tasks have written, with the table's statistics, as one snapshot."""
        files = [file for message in messages if message is not None for file in message.files]
        try:
            _load(self._options).append_files(files, ref=self._ref)
        except CommitUnknownError:
            raise
        except SkerryError:  # any other error of ours means: provably not committed
            with suppress(SkerryError):
                self._layout.storage.delete([file.data_file.location for file in files])
            raise

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what the tasks have written, if one of them failed.

        Spark aborts after a failed commit too, in a process that cannot know whether its outcome was unknown. Then
        every task has a message, and `commit` has removed the files already if that was safe.
        """
        if any(message is None for message in messages):
            storage, folder = self._layout.storage, self._layout.folder
            storage.delete([status.location for status in storage.list(folder)])
