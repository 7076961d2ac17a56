"""Tables as frames: planned here, read by Spark's own Parquet reader where that reads right, with our statistics.

A frame is bound to the snapshot that its table showed when it was made.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from skerry.catalog import Table
from skerry.errors import NotFoundError, SchemaError, SkerryError
from skerry.iceberg.column_statistics import distinct_counts
from skerry.iceberg.scan import Scan
from skerry.iceberg.schema import to_arrow_schema
from skerry.iceberg.table import IcebergTable
from skerry.spark.arrow_reader import read_through_arrow
from skerry.spark.conditions import spark_column, to_condition
from skerry.spark.failures import original_errors
from skerry.spark.file_choice import FileChoice, read_by_spark
from skerry.spark.jvm import is_classic
from skerry.spark.plan_statistics import PlanStatistics, summarize
from skerry.spark.relations import is_relation, with_statistics
from skerry.spark.schema import to_spark_schema
from skerry.spark.settings import FIELD_ID_SETTING, OPTIMIZER_SETTING
from skerry.spark.tables import iceberg_table
from skerry.spark.writer import hadoop_location, has_file_system
from skerry.table.column_estimates import Estimate
from skerry.table.files import DataFile, DeleteKind
from skerry.table.row_reader import RowReader
from skerry.table.scan import FileScanTask
from skerry.table.schema import field_id, leaves

__all__ = ["TableFrame", "read", "read_candidates"]

_BROADCAST_SETTING = "spark.sql.autoBroadcastJoinThreshold"
_NAME_MAPPING_PROPERTY = "schema.name-mapping.default"
# Dates are those of today's calendar, whoever wrote them.
_OPTIONS = {"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"}
_PATTERN = re.compile(r"[{}\[\]*?\\]")


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
    with deleted rows, without field ids, in other formats, or of a schema that Spark mistakes come through Python
    workers. On a classic session the plan holds row counts and, for selected atomic columns, counts of distinct values
    and nulls, bounds and lengths; on Spark Connect a small table has a broadcast hint.

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
    inner = iceberg_table(table)
    scan = inner.scan(columns, where, snapshot=snapshot, ref=ref, as_of=as_of)
    return _Read(spark, inner, scan).frame()


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
    inner = iceberg_table(table)
    reading = _Read(spark, inner, inner.scan(where=where), tests_rows=False)
    frame, count = reading.frame(), reading.file_count
    is_planned_over = not count or is_relation(frame._jdf.queryExecution().analyzed())
    return TableFrame(frame, frame if is_planned_over else reading.outline(), count)


@dataclass(frozen=True)
class _Read:
    """One read on its way to a frame."""

    spark: SparkSession
    table: IcebergTable
    scan: Scan
    tests_rows: bool = True

    def frame(self) -> DataFrame:
        reader = self.scan.row_reader()
        shares, tasks = self._shares, self._tasks
        native, others = self._divide(reader, tasks)
        self._check_session(reader.read_schema, bool(native))
        frames = []
        if native:
            frames.append(self._native(reader, native))
        if others:
            locations = {task.data_file.location for task in others}
            own = [share for share in shares if share.data_file.location in locations]
            frames.append(self._through_arrow(reader, others, own))
        if not frames:
            return self.spark.createDataFrame([], _nullable(to_spark_schema(reader.schema)))
        return frames[0] if len(frames) == 1 else frames[0].union(frames[1])

    def outline(self) -> DataFrame:
        """A relation without files that has the columns and the table's name."""
        without_files = _open(self.spark, to_spark_schema(self.scan.row_reader().schema), [])
        return with_statistics(without_files, PlanStatistics(0, 0), self.table.state.name)

    @property
    def file_count(self) -> int:
        """How many files are read."""
        return len(self._tasks)

    # ---- which files ----

    @cached_property
    def _shares(self) -> list[FileScanTask]:
        """The files to read, large ones in parts."""
        return list(self.scan.plan(split=True))

    @cached_property
    def _tasks(self) -> dict[str, FileScanTask]:
        """The files to read, whole, by location."""
        return {share.data_file.location: replace(share, start_byte=0, end_byte=None) for share in self._shares}

    def _divide(
        self, reader: RowReader, tasks: Mapping[str, FileScanTask]
    ) -> tuple[list[FileScanTask], list[FileScanTask]]:
        if not read_by_spark(reader.read_schema) or not self._reaches(tasks):
            return [], list(tasks.values())
        return self._choice(reader.read_schema).divide(tasks.values(), self._files)

    def _choice(self, schema: pa.Schema) -> FileChoice:
        state = self.table.state
        history = [to_arrow_schema(schema) for schema in state.metadata.schemas]
        return FileChoice(state.storage, schema, history, _NAME_MAPPING_PROPERTY in state.properties)

    def _reaches(self, locations: Mapping[str, Any]) -> bool:
        """Whether Spark can open the files; a Connect server's access is not known here, but for its file system."""
        options = self.table.state.storage.options
        schemes = {location.partition("://")[0]: location for location in locations}
        if is_classic(self.spark):
            return all(has_file_system(self.spark, location, options) for location in schemes.values())
        return all(scheme == "file" or scheme.startswith("/") for scheme in schemes)

    @cached_property
    def _files(self) -> dict[str, DataFile]:
        """The snapshot's files with their metrics."""
        snapshot = self.scan.snapshot_id
        if snapshot is None:
            return {}
        return {file.location: file for file in self.table.data_files(self.table.state.snapshot_by_id(snapshot))}

    def _check_session(self, schema: pa.Schema, is_native: bool) -> None:
        """Refuse a session that would read other columns, and warn of one that reads statistics in vain.

        Raises:
            SchemaError: Columns would be found by name, and names have changed.
        """
        if is_native and not _is_on(self.spark, FIELD_ID_SETTING) and self._choice(schema).has_changed:
            raise SchemaError(
                f"columns of {self.table.state.name} have changed, and this session finds them by name: "
                f"set {FIELD_ID_SETTING} to true, as skerry.spark.session and skerry.spark.register do"
            )
        if is_classic(self.spark) and not _is_on(self.spark, OPTIMIZER_SETTING):
            warnings.warn(
                f"Spark ignores row counts and statistics of columns while {OPTIMIZER_SETTING} is false", stacklevel=4
            )

    # ---- frames ----

    def _native(self, reader: RowReader, tasks: Sequence[FileScanTask]) -> DataFrame:
        """A frame of Spark's own scan over exactly these files."""
        wanted = reader.schema
        tested = [field for field in reader.read_schema if field.name not in wanted.names]
        schema = pa.schema([*(reader.read_schema.field(name) for name in wanted.names), *tested])
        paths = [_literal_path(hadoop_location(task.data_file.location)) for task in tasks]
        frame = self._told(_open(self.spark, to_spark_schema(schema), paths), schema, tasks)
        if self.tests_rows and not all(task.matches_all for task in tasks):
            frame = frame.where(to_condition(reader.predicate))
        if any(field.type != schema.field(field.name).type for field in wanted):
            return frame.select(_projection(to_spark_schema(schema), to_spark_schema(wanted)))
        return frame.drop(*(field.name for field in tested)) if tested else frame

    def _through_arrow(
        self, reader: RowReader, tasks: Sequence[FileScanTask], shares: Sequence[FileScanTask]
    ) -> DataFrame:
        """A frame whose rows Python workers read."""
        schema = _nullable(to_spark_schema(reader.schema))
        threads = replace(reader, threads=1)
        frame = read_through_arrow(self.spark, threads, shares, schema, sum(map(_row_count, tasks)))
        return self._told(frame, reader.schema, tasks)

    def _told(self, frame: DataFrame, schema: pa.Schema, tasks: Sequence[FileScanTask]) -> DataFrame:
        """A frame of files with what is known about them."""
        statistics = self._statistics(schema, tasks)
        if is_classic(self.spark):
            return with_statistics(frame, statistics, self.table.state.name)
        is_small = statistics.memory_bytes <= _bytes(self.spark.conf.get(_BROADCAST_SETTING, "10MB"))
        return frame.hint("broadcast") if is_small else frame

    def _statistics(self, schema: pa.Schema, tasks: Sequence[FileScanTask]) -> PlanStatistics:
        top_level = [leaf for leaf in leaves(schema) if len(leaf.path) == 1]
        return summarize(
            top_level,
            frozenset(field_id(field) for field in schema if not field.nullable),
            [self._files[task.data_file.location] for task in tasks],
            sum(map(_row_count, tasks)),
            self._distinct_counts,
            frozenset(number for task in tasks for number in task.constants),
        )

    @cached_property
    def _distinct_counts(self) -> Mapping[int, Estimate]:
        """What sketches say of all rows of the files that are read, by field id; conditions come later in the plan."""
        snapshot = self.scan.snapshot_id
        assert snapshot is not None
        state = self.table.state
        files = [replace(task, matches_all=True) for task in self._tasks.values()]
        is_whole = len(files) == len(self._files)
        return distinct_counts(state, state.snapshot_by_id(snapshot), None if is_whole else files)


def _row_count(task: FileScanTask) -> int:
    """Rows of a file but for deleted ones, as far as metadata tells."""
    own = (DeleteKind.VECTOR, DeleteKind.POSITIONS)
    deleted = sum(
        delete.record_count
        for delete in task.deletes
        if delete.kind in own and delete.referenced_data_file == task.data_file.location
    )
    return max(0, task.data_file.record_count - deleted)


def _literal_path(path: str) -> str:
    """A path that Hadoop takes for a name, not for a pattern of names."""
    return _PATTERN.sub(r"\\\g<0>", path)


def _open(spark: SparkSession, schema: StructType, paths: Sequence[str]) -> DataFrame:
    """Open Parquet files as one frame.

    Raises:
        NotFoundError: One of them is missing.
    """
    reader = spark.read.schema(schema).options(**_OPTIONS)
    try:
        with original_errors():
            if not (paths and is_classic(spark)):
                return reader.parquet(*paths)
            jvm: Any = spark._jvm
            together = jvm.java.util.regex.Pattern.compile("\n").split("\n".join(paths))  # one call, however many
            return DataFrame(reader._jreader.parquet(together), spark)
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise SkerryError(f"Spark cannot read the files: {error}") from error
        raise NotFoundError(f"a data file is missing: {error}") from None


def _projection(read: StructType, wanted: StructType) -> list[Column]:
    """The wanted columns, without what was read for the condition only."""
    return [_part_of((field.name,), read[field.name].dataType, field.dataType).alias(field.name) for field in wanted]


def _part_of(path: tuple[str, ...], read: DataType, wanted: DataType) -> Column:
    column = spark_column(*path)
    if read == wanted or not (isinstance(read, StructType) and isinstance(wanted, StructType)):
        return column
    parts = [
        _part_of((*path, field.name), read[field.name].dataType, field.dataType).alias(field.name) for field in wanted
    ]
    return sf.when(column.isNotNull(), sf.struct(*parts))


def _nullable(type_: Any) -> Any:
    """A type as Spark's Parquet reader delivers it: whatever files say, anything may be null."""
    if isinstance(type_, StructType):
        return StructType([StructField(f.name, _nullable(f.dataType), True, f.metadata) for f in type_])
    if isinstance(type_, ArrayType):
        return ArrayType(_nullable(type_.elementType), True)
    return MapType(type_.keyType, _nullable(type_.valueType), True) if isinstance(type_, MapType) else type_


def _is_on(spark: SparkSession, setting: str) -> bool:
    return str(spark.conf.get(setting, "false")).lower() == "true"


_UNITS = {"": 0, "b": 0, "k": 10, "kb": 10, "m": 20, "mb": 20, "g": 30, "gb": 30}


def _bytes(text: str | None) -> int:
    """A number of bytes as Spark's settings have it: `10MB`, `10485760b`, `-1`."""
    text = (text or "-1").strip().lower()
    digits = text.rstrip("bkmg")
    return int(digits) << _UNITS.get(text[len(digits) :], 0)
