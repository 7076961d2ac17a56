"""Paimon tables as frames: Spark's own scan of Parquet files that need no merging, Python workers for the others.

Columns of files with the current names are found by name, as all writers of Paimon write names but not all write field
ids. In primary-key tables even a single file may contain delete records, whatever its metadata says: the records'
kinds are a column of the scan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import ByteType, StructField, StructType

from skerry.paimon.metadata.schema import VALUE_KIND
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.planned_splits import PlannedSplits
from skerry.paimon.planning.splits import Section, Split, SplitFile
from skerry.paimon.reading.rows import SplitReader
from skerry.paimon.reading.scan import PaimonScan
from skerry.paimon.statistics.columns import file_statistics
from skerry.spark.reading.arrow_reader import read_through_arrow
from skerry.spark.reading.conditions import can_test, to_condition
from skerry.spark.reading.file_choice import agrees, read_by_spark
from skerry.spark.reading.native_scan import (
    nullable,
    open_files,
    projection,
    reaches,
    warn_of_blind_optimizer,
    with_statistics_or_hint,
)
from skerry.spark.reading.parquet_filters import filter_options
from skerry.spark.reading.plan_statistics import PlanStatistics, describe
from skerry.spark.reading.relations import with_statistics
from skerry.spark.schema import to_spark_schema
from skerry.storage import name
from skerry.table.predicate import ALWAYS_TRUE
from skerry.table.rows.schema import field_id, leaves
from skerry.table.statistics.column_statistics import ColumnStatistics
from skerry.table.statistics.histogram import SampledRows

__all__ = ["PaimonRead"]

_ADDS: Final = (0, 2)
"""The kinds +I and +U."""


@dataclass(frozen=True)
class PaimonRead:
    """One read of a Paimon table as a frame.

    Args:
        spark: The session.
        scan: The scan.
        tests_rows: Whether rows are filtered by the condition, not only files.
        row_factor: As in `IcebergRead`.
    """

    spark: SparkSession
    scan: PaimonScan
    tests_rows: bool = True
    row_factor: float = 1.0

    def frame(self) -> DataFrame:
        """The rows.

        Raises:
            NotFoundError: A file is missing.
        """
        warn_of_blind_optimizer(self.spark, 2)
        frames = [frame for part in self._parts for frame in part.frames()]
        if not frames:
            return self.spark.createDataFrame([], nullable(to_spark_schema(self.scan.schema)))
        return reduce(DataFrame.union, frames)

    def outline(self) -> DataFrame:
        """A relation without files that has the table's columns and name."""
        without_files = open_files(self.spark, to_spark_schema(self.scan.schema), [])
        return with_statistics(without_files, PlanStatistics(0, 0), self.scan.state.name)

    @property
    def file_count(self) -> int:
        """Number of files to read."""
        return sum(len(part.splits.files) for part in self._parts)

    @property
    def row_count(self) -> int:
        """Rows of these files."""
        return sum(_row_count(file) for part in self._parts for split in part.splits for file in split.files)

    @property
    def sampled(self) -> SampledRows | None:
        """The sampled rows of the table."""
        return self._parts[0].sampled if len(self._parts) == 1 else None

    @cached_property
    def _parts(self) -> list[_BranchRead]:
        reads = self.scan.reads()
        are_all = self.scan.predicate == ALWAYS_TRUE
        return [
            _BranchRead(
                self.spark,
                replace(reader, threads=1),
                splits,
                self.tests_rows,
                are_all and number == 0,
                self.row_factor,
            )
            for number, (reader, splits) in enumerate(reads)
        ]


@dataclass(frozen=True)
class _BranchRead:
    """The read of one branch.

    Args:
        spark: The session.
        reader: Reads the splits.
        splits: The splits to read.
        tests_rows: As in `PaimonRead`.
        are_all: Whether they are all files of the branch.
        row_factor: As in `IcebergRead`.
    """

    spark: SparkSession
    reader: SplitReader
    splits: PlannedSplits
    tests_rows: bool
    are_all: bool
    row_factor: float

    def frames(self) -> Iterator[DataFrame]:
        """The rows: frames of Spark's own scan, and of Python workers."""
        native, others = self._divide(self.reader)
        if native:
            yield self._native(self.reader, native)
        if others:
            yield self._through_arrow(self.reader, others)

    @property
    def _state(self) -> PaimonState:
        return self.reader.state

    # ---- which files ----

    def _divide(self, reader: SplitReader) -> tuple[list[SplitFile], list[Split]]:
        """The files that Spark's reader reads correctly, and splits of the others."""
        splits = list(self.splits)
        schema = reader.read_schema
        locations = [file.location for split in splits for file in split.files]
        if self.tests_rows and not can_test(reader.predicate):
            return [], splits
        if not read_by_spark(schema) or not reaches(self.spark, locations, reader.state.storage.options):
            return [], splits
        known = {file.schema_id for split in splits for file in split.files}
        fits = {number for number in known if agrees(reader.state.schema_by_id(number).arrow_schema, schema)}
        native: list[SplitFile] = []
        others: list[Split] = []
        for split in splits:
            own = [section for section in split.sections if not section.is_raw]
            for section in split.sections:
                if section.is_raw:
                    files = list(section.files)
                    left = tuple(file for file in files if not _is_native(file, fits))
                    native += [file for file in files if _is_native(file, fits)]
                    own += [Section((left,), True)] if left else []
            if own:
                others.append(replace(split, sections=tuple(own)))
        return native, others

    # ---- frames ----

    def _native(self, reader: SplitReader, files: Sequence[SplitFile]) -> DataFrame:
        """A frame of Spark's own scan of exactly these files."""
        wanted, read = reader.columns, reader.read_schema
        tested = [field for field in read if field.name not in wanted.names]
        schema = pa.schema([*(read.field(field.name) for field in wanted), *tested])
        stored = StructType([StructField(field.name, field.dataType) for field in nullable(_by_name(schema))])
        has_kinds = bool(reader.state.schema.primary_keys)
        if has_kinds:
            stored = StructType([*stored, StructField(VALUE_KIND, ByteType())])
        statistics = self._statistics(schema, files)
        options = filter_options(schema, statistics, without_nan=())  # Paimon does not count NaNs
        frame = open_files(self.spark, stored, [file.location for file in files], options)
        frame = with_statistics_or_hint(frame, statistics, self._state.name)
        if has_kinds:
            frame = frame.where(sf.col(VALUE_KIND).isin(*_ADDS)).drop(VALUE_KIND)
        if self.tests_rows and not all(file.matches_all for file in files):
            frame = frame.where(to_condition(reader.predicate))
        if any(field.type != schema.field(field.name).type for field in wanted):
            return frame.select(projection(stored, _by_name(wanted)))
        return frame.drop(*(field.name for field in tested)) if tested else frame

    def _through_arrow(self, reader: SplitReader, splits: Sequence[Split]) -> DataFrame:
        """A frame whose rows Python workers read."""
        files = [file for split in splits for file in split.files]
        schema = nullable(to_spark_schema(reader.delivered))
        frame = read_through_arrow(self.spark, reader, splits, schema, sum(map(_row_count, files)))
        return with_statistics_or_hint(frame, self._statistics(reader.columns, files), self._state.name)

    def _statistics(self, schema: pa.Schema, files: Sequence[SplitFile]) -> PlanStatistics:
        found = describe(
            [leaf for leaf in leaves(schema) if len(leaf.path) == 1],
            frozenset(field_id(field) for field in schema if not field.nullable),
            self._known,
            sum(map(_row_count, files)),
            sum(file.file_size for file in files),
        )
        return found.times(self.row_factor)

    @property
    def sampled(self) -> SampledRows | None:
        """The sampled rows of the branch, of these files."""
        return next((column.sampled for column in self._known.values() if column.sampled is not None), None)

    @cached_property
    def _known(self) -> dict[str, ColumnStatistics]:
        """Statistics of all rows of the files to read; conditions apply later in the plan."""
        return file_statistics(self._state, self.splits.files, are_all=self.are_all)


def _is_native(file: SplitFile, fits: set[int]) -> bool:
    """Whether Spark's reader reads a file correctly, except for rows deleted by their kinds."""
    is_plain = file.file_format == "parquet" and file.deletion_vector is None and file.schema_id in fits
    return is_plain and file.write_cols is None and not name(file.location).startswith(("_", "."))


def _row_count(file: SplitFile) -> int:
    """Rows of a file without deleted ones, as far as metadata gives them."""
    vector = file.deletion_vector
    return max(0, file.row_count - (vector.cardinality or 0 if vector is not None else 0))


def _by_name(schema: pa.Schema) -> StructType:
    """The Spark schema of columns that are found by name: without field ids."""
    return StructType(list(_without_ids(to_spark_schema(schema))))


def _without_ids(type_: StructType) -> Iterator[StructField]:
    for field in type_:
        inner = field.dataType
        data_type = StructType(list(_without_ids(inner))) if isinstance(inner, StructType) else inner
        yield StructField(field.name, data_type, field.nullable)
