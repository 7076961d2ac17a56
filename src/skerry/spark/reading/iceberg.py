"""Iceberg tables as frames: Spark's own scan of the files that it reads correctly, Python workers for the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from skerry.errors import SchemaError
from skerry.iceberg.metadata.arrow_schema import to_arrow_schema
from skerry.iceberg.planning.live_files import live_data_files
from skerry.iceberg.reading.scan import Scan
from skerry.iceberg.statistics.columns import distinct_counts, sampled_rows
from skerry.spark.reading.arrow_reader import read_through_arrow
from skerry.spark.reading.conditions import can_test, to_condition
from skerry.spark.reading.file_choice import FileChoice, read_by_spark
from skerry.spark.reading.native_scan import (
    is_on,
    nullable,
    open_files,
    projection,
    reaches,
    warn_of_blind_optimizer,
    with_statistics_or_hint,
)
from skerry.spark.reading.parquet_filters import filter_options
from skerry.spark.reading.plan_statistics import PlanStatistics, summarize, without_nan
from skerry.spark.reading.relations import with_statistics
from skerry.spark.runtime.settings import FIELD_ID_SETTING
from skerry.spark.schema import to_spark_schema
from skerry.table.files.data_file import DataFile, DeleteKind
from skerry.table.files.row_reader import RowReader
from skerry.table.files.scan_task import FileScanTask
from skerry.table.rows.schema import field_id, leaves
from skerry.table.statistics.column_estimates import Estimate
from skerry.table.statistics.histogram import SampledRows

__all__ = ["IcebergRead"]

_NAME_MAPPING_PROPERTY = "schema.name-mapping.default"


@dataclass(frozen=True)
class IcebergRead:
    """One read of an Iceberg table as a frame.

    Args:
        spark: The session.
        scan: The scan.
        tests_rows: Whether rows are filtered by the condition, not only files.
        row_factor: How many times the rows the plan is told, because Spark would expect so many times too few of its
            conditions.
    """

    spark: SparkSession
    scan: Scan
    tests_rows: bool = True
    row_factor: float = 1.0

    def frame(self) -> DataFrame:
        """The rows.

        Raises:
            NotFoundError: A file is missing.
            SchemaError: The session finds Parquet columns by name, and names have changed.
        """
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
            return self.spark.createDataFrame([], nullable(to_spark_schema(reader.delivered)))
        return frames[0] if len(frames) == 1 else frames[0].union(frames[1])

    def outline(self) -> DataFrame:
        """A relation without files that has the table's columns and name."""
        without_files = open_files(self.spark, to_spark_schema(self.scan.schema), [])
        return with_statistics(without_files, PlanStatistics(0, 0), self.scan.state.name)

    @property
    def file_count(self) -> int:
        """Number of files to read."""
        return len(self._tasks)

    @property
    def row_count(self) -> int:
        """Rows of these files without deleted ones, as far as metadata gives them."""
        return sum(map(_row_count, self._tasks.values()))

    @cached_property
    def sampled(self) -> SampledRows | None:
        """The sampled rows of the table."""
        return None if self.scan.snapshot_id is None else self._sampled_rows

    # ---- which files ----

    @cached_property
    def _shares(self) -> list[FileScanTask]:
        """The files to read, large ones in parts."""
        return list(self.scan.plan(split=True, indexed=True))

    @cached_property
    def _tasks(self) -> dict[str, FileScanTask]:
        """The files to read, whole, by location."""
        return {share.data_file.location: replace(share, start_byte=0, end_byte=None) for share in self._shares}

    def _divide(
        self, reader: RowReader, tasks: Mapping[str, FileScanTask]
    ) -> tuple[list[FileScanTask], list[FileScanTask]]:
        if self.scan.is_planned_by_server:  # it says too little of files for Spark, and may lend credentials for them
            return [], list(tasks.values())
        if self.scan.state.storage.requests is not None:  # Spark has no keys, nor signatures of the catalog's
            return [], list(tasks.values())
        if self.tests_rows and not can_test(reader.predicate):
            return [], list(tasks.values())
        if not read_by_spark(reader.read_schema) or not reaches(self.spark, tasks, self.scan.state.storage.options):
            return [], list(tasks.values())
        return self._choice(reader.read_schema).divide(tasks.values(), self._files)

    def _choice(self, schema: pa.Schema) -> FileChoice:
        state = self.scan.state
        history = [to_arrow_schema(schema) for schema in state.metadata.schemas]
        return FileChoice(state.storage, schema, history, _NAME_MAPPING_PROPERTY in state.properties)

    @cached_property
    def _files(self) -> dict[str, DataFile]:
        """The snapshot's files with their metrics; of a scan that a server planned, its files without metrics."""
        if self.scan.is_planned_by_server:
            return {location: task.data_file for location, task in self._tasks.items()}
        snapshot = self.scan.snapshot_id
        if snapshot is None:
            return {}
        return {
            file.location: file for file in live_data_files(self.scan.state, self.scan.state.snapshot_by_id(snapshot))
        }

    def _check_session(self, schema: pa.Schema, is_native: bool) -> None:
        """Refuse a session that would read other columns, and warn of one that ignores statistics.

        Raises:
            SchemaError: Columns would be found by name, and names have changed.
        """
        if is_native and not is_on(self.spark, FIELD_ID_SETTING) and self._choice(schema).has_changed:
            raise SchemaError(
                f"columns of {self.scan.state.name} have changed, and this session finds them by name: "
                f"set {FIELD_ID_SETTING} to true, as skerry.spark.session and skerry.spark.register do"
            )
        warn_of_blind_optimizer(self.spark, 3)

    # ---- frames ----

    def _native(self, reader: RowReader, tasks: Sequence[FileScanTask]) -> DataFrame:
        """A frame of Spark's own scan of exactly these files."""
        wanted = reader.schema
        tested = [field for field in reader.read_schema if field.name not in wanted.names]
        schema = pa.schema([*(reader.read_schema.field(name) for name in wanted.names), *tested])
        locations = [task.data_file.location for task in tasks]
        statistics = self._statistics(schema, tasks)
        options = filter_options(schema, statistics, without_nan([self._files[place] for place in locations], schema))
        files = open_files(self.spark, to_spark_schema(schema), locations, options)
        frame = with_statistics_or_hint(files, statistics, self.scan.state.name)
        if self.tests_rows and not all(task.matches_all for task in tasks):
            frame = frame.where(to_condition(reader.predicate))
        if any(field.type != schema.field(field.name).type for field in wanted):
            return frame.select(projection(to_spark_schema(schema), to_spark_schema(wanted)))
        return frame.drop(*(field.name for field in tested)) if tested else frame

    def _through_arrow(
        self, reader: RowReader, tasks: Sequence[FileScanTask], shares: Sequence[FileScanTask]
    ) -> DataFrame:
        """A frame whose rows Python workers read."""
        schema = nullable(to_spark_schema(reader.delivered))
        threads = replace(reader, threads=1)
        frame = read_through_arrow(self.spark, threads, shares, schema, sum(map(_row_count, tasks)))
        return with_statistics_or_hint(frame, self._statistics(reader.schema, tasks), self.scan.state.name)

    def _statistics(self, schema: pa.Schema, tasks: Sequence[FileScanTask]) -> PlanStatistics:
        top_level = [leaf for leaf in leaves(schema) if len(leaf.path) == 1]
        found = summarize(
            top_level,
            frozenset(field_id(field) for field in schema if not field.nullable),
            [self._files[task.data_file.location] for task in tasks],
            sum(map(_row_count, tasks)),
            self._distinct_counts,
            frozenset(number for task in tasks for number in task.constants),
            self._sampled_rows.of_files(
                [task.data_file.location for task in tasks], are_all=len(tasks) == len(self._files)
            ),
        )
        return found.times(self.row_factor)

    @cached_property
    def _sampled_rows(self) -> SampledRows:
        snapshot = self.scan.snapshot_id
        assert snapshot is not None
        return sampled_rows(self.scan.state, self.scan.state.snapshot_by_id(snapshot))

    @cached_property
    def _distinct_counts(self) -> Mapping[int, Estimate]:
        """Distinct counts from sketches, by field id, of all rows of the files; conditions apply later in the plan."""
        snapshot = self.scan.snapshot_id
        assert snapshot is not None
        state = self.scan.state
        files = [replace(task, matches_all=True) for task in self._tasks.values()]
        is_whole = len(files) == len(self._files)
        return distinct_counts(state, state.snapshot_by_id(snapshot), None if is_whole else files)


def _row_count(task: FileScanTask) -> int:
    """Rows of a file without deleted ones, as far as metadata gives them."""
    own = (DeleteKind.VECTOR, DeleteKind.POSITIONS)
    deleted = sum(
        delete.record_count
        for delete in task.deletes
        if delete.kind in own and delete.referenced_data_file == task.data_file.location
    )
    return max(0, task.data_file.record_count - deleted)
