"""Statistics of a relation for Spark's cost-based optimizer, in Spark's own format.

Spark uses a distinct count only together with a count of nulls.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from skerry.iceberg.planning.live_files import column_metrics
from skerry.spark.reading.plan_histograms import PlanHistogram, plan_histogram
from skerry.table.files.data_file import DataFile
from skerry.table.rows.schema import Leaf, leaves
from skerry.table.statistics.column_estimates import Estimate
from skerry.table.statistics.column_statistics import ColumnStatistics, FreshnessState
from skerry.table.statistics.histogram import SampledRows

__all__ = ["ColumnSummary", "PlanStatistics", "describe", "summarize", "without_nan"]

_BELIEVED = (FreshnessState.FRESH, FreshnessState.UPPER_BOUND)
_VERSION = 2  # of Spark's text form of a column's statistics
_ROW_OVERHEAD_BYTES = 8
_UNKNOWN_LENGTH = 20
_KEY = 0.9
"""From this share of rows on, distinct values are a key's."""


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """A plan's statistics of a column.

    Args:
        distinct_count: Distinct values without nulls; None if unknown, as for all others.
        null_count: Nulls.
        min: Minimum in the text form of Spark's statistics; None for types without one.
        max: Maximum in the text form of Spark's statistics; None for types without one.
        average_length: Bytes per value in memory.
        max_length: Bytes of the longest value.
        histogram: How its values are spread, if not evenly.
    """

    distinct_count: int | None = None
    null_count: int | None = None
    min: str | None = None
    max: str | None = None
    average_length: int | None = None
    max_length: int | None = None
    histogram: PlanHistogram | None = None


@dataclass(frozen=True, slots=True)
class PlanStatistics:
    """A plan's statistics of the rows of a relation.

    Args:
        row_count: Rows, before any condition.
        size_bytes: Bytes of the files.
        columns: Statistics of the atomic columns, by name.
    """

    row_count: int
    size_bytes: int
    columns: Mapping[str, ColumnSummary] = field(default_factory=dict)

    @property
    def memory_bytes(self) -> int:
        """Approximate memory use of the rows."""
        lengths = (summary.average_length or _UNKNOWN_LENGTH for summary in self.columns.values())
        return max(1, self.row_count * (_ROW_OVERHEAD_BYTES + sum(lengths)))

    def times(self, factor: float) -> PlanStatistics:
        """Statistics of as many times the rows, of which a condition leaves as many times those that it would.

        Args:
            factor: Positive.
        """
        if factor == 1.0:
            return self
        rows = max(1, round(self.row_count * factor))
        columns = {name: _times(summary, factor, self.row_count, rows) for name, summary in self.columns.items()}
        return PlanStatistics(rows, max(1, round(self.size_bytes * factor)), columns)

    def to_json(self) -> str:
        """The text of Spark's `CatalogStatistics`, as Jackson reads it."""
        columns = {
            name: {
                "distinctCount": summary.distinct_count,
                "min": summary.min,
                "max": summary.max,
                "nullCount": summary.null_count,
                "avgLen": summary.average_length,
                "maxLen": summary.max_length,
                "histogram": summary.histogram and summary.histogram.to_json(),
                "version": _VERSION,
            }
            for name, summary in self.columns.items()
        }
        known = {
            name: {key: value for key, value in column.items() if value is not None} for name, column in columns.items()
        }
        return json.dumps({"sizeInBytes": max(1, self.size_bytes), "rowCount": self.row_count, "colStats": known})


def _times(summary: ColumnSummary, factor: float, before: int, rows: int) -> ColumnSummary:
    distinct = summary.distinct_count
    if distinct is not None:  # what is a key stays one
        distinct = min(rows, round(distinct * factor) if distinct > _KEY * before else distinct)
    histogram = summary.histogram
    return replace(
        summary,
        distinct_count=None if distinct is None else max(1, distinct),
        null_count=None if summary.null_count is None else min(rows, round(summary.null_count * factor)),
        histogram=None if histogram is None else replace(histogram, height=histogram.height * factor),
    )


# From files and sketches ---------------------------------------------------------------------------------------------


def summarize(
    columns: Iterable[Leaf],
    required: frozenset[int],
    files: Sequence[DataFile],
    row_count: int,
    statistics: Mapping[int, Estimate],
    defaults: frozenset[int],
    sampled: SampledRows | None = None,
) -> PlanStatistics:
    """Compute the statistics of the rows of files.

    Args:
        columns: The atomic columns.
        required: Field ids of those without nulls.
        files: The files with their metrics.
        row_count: Rows in them that are not deleted.
        statistics: Distinct counts by field id, of all rows of the files to read.
        defaults: Field ids of columns that have a value if a file lacks them.
        sampled: Sampled rows of the files.
    """
    summaries = {}
    for column in columns:
        has_default = column.field_id in defaults
        stored = [file for file in files if has_default or not _lacks(file, column.field_id)]
        metrics = column_metrics(stored, column)
        nulls = 0 if column.field_id in required else metrics.null_count
        if nulls is not None:
            lacking = sum(file.record_count for file in files) - sum(file.record_count for file in stored)
            nulls = min(row_count, nulls + lacking)
        average, longest = _lengths(column, stored)
        present = row_count - (nulls or 0)
        distinct = _distinct(statistics.get(column.field_id), present)
        summaries[column.name] = ColumnSummary(
            distinct_count=distinct,
            null_count=nulls,
            min=_text(column.type, metrics.min),
            max=_text(column.type, metrics.max),
            average_length=average,
            max_length=longest,
            histogram=_histogram(column, sampled, present, distinct, metrics.min, metrics.max),
        )
    return PlanStatistics(row_count, sum(file.file_size_bytes for file in files), summaries)


def describe(
    columns: Iterable[Leaf],
    required: frozenset[int],
    known: Mapping[str, ColumnStatistics],
    row_count: int,
    size_bytes: int,
) -> PlanStatistics:
    """Compute the statistics of rows from those of columns.

    Args:
        columns: The atomic columns.
        required: Field ids of those without nulls.
        known: Known statistics, by name.
        row_count: Rows.
        size_bytes: Bytes of their files.
    """
    summaries = {}
    for column in columns:
        found = known[column.name]
        nulls = 0 if column.field_id in required else found.null_count
        nulls = None if nulls is None else min(row_count, nulls)
        estimate = Estimate(found.freshness, found.ndv)
        texts = [bound.encode() if isinstance(bound, str) else bound for bound in (found.min, found.max)]
        average, longest = _length_of(column.type, [len(text) for text in texts if isinstance(text, bytes)], 0)
        present = row_count - (nulls or 0)
        distinct = _distinct(estimate, present)
        summaries[column.name] = ColumnSummary(
            distinct_count=distinct,
            null_count=nulls,
            min=_text(column.type, found.min),
            max=_text(column.type, found.max),
            average_length=average,
            max_length=longest,
            histogram=_histogram(column, found.sampled, present, distinct, found.min, found.max),
        )
    return PlanStatistics(row_count, size_bytes, summaries)


def _histogram(
    column: Leaf, sampled: SampledRows | None, present: int, distinct: int | None, least: Any, greatest: Any
) -> PlanHistogram | None:
    """A histogram beside the bounds, of which Spark needs both."""
    if sampled is None or _text(column.type, least) is None or _text(column.type, greatest) is None:
        return None
    return plan_histogram(column, sampled, present, distinct, least, greatest)


def without_nan(files: Sequence[DataFile], schema: pa.Schema) -> frozenset[int]:
    """Field ids of the numeric columns that contain no NaN in any file, according to metrics."""

    def has_none(file: DataFile, number: int) -> bool:
        return file.nan_value_counts.get(number) == 0 or _lacks(file, number)

    numbers = [leaf.field_id for leaf in leaves(schema) if pa.types.is_floating(leaf.type)]
    return frozenset(number for number in numbers if all(has_none(file, number) for file in files))


def _lacks(file: DataFile, field_id: int) -> bool:
    """Whether a file with metrics lacks the column of an id."""
    return bool(file.column_sizes) and field_id not in file.column_sizes


def _distinct(found: Estimate | None, most: int) -> int | None:
    """A distinct count that applies to these rows, possibly as an upper bound; a stale one is ignored."""
    if found is None or found.ndv is None or found.freshness.state not in _BELIEVED:
        return None
    return min(max(round(found.ndv), 1), most)


_LENGTHS = {
    pa.bool_(): 1,
    pa.int8(): 1,
    pa.int16(): 2,
    pa.int32(): 4,
    pa.int64(): 8,
    pa.float32(): 4,
    pa.float64(): 8,
    pa.date32(): 4,
}


def _lengths(column: Leaf, files: Sequence[DataFile]) -> tuple[int | None, int | None]:
    """Average and maximum size of a value in bytes."""
    number = column.field_id
    bounds = [
        len(bound)
        for file in files
        for bound in (file.lower_bounds.get(number), file.upper_bounds.get(number))
        if bound is not None
    ]
    rows = sum(file.record_count for file in files)
    stored = sum(file.column_sizes.get(number, 0) for file in files) / max(1, rows)
    return _length_of(column.type, bounds, stored)


def _length_of(type_: pa.DataType, bounds: Sequence[int], stored: float) -> tuple[int | None, int | None]:
    """Average and maximum size of a value in bytes.

    No metadata has the length of texts: the bounds' is used, or the stored size if that is larger.

    Args:
        type_: Of the values.
        bounds: Bytes of those that are known.
        stored: Bytes of a value in the files.
    """
    if pa.types.is_decimal(type_):
        return (8, 8) if type_.precision <= 18 else (16, 16)
    if pa.types.is_timestamp(type_) or pa.types.is_time(type_):
        return 8, 8
    if type_ in _LENGTHS:
        return _LENGTHS[type_], _LENGTHS[type_]
    if not bounds:
        return None, None
    average = math.ceil(max(stored, sum(bounds) / len(bounds)))
    return average, max(average, *bounds)


def _text(type_: pa.DataType, value: Any) -> str | None:
    """A bound as Spark parses it; None for types without bounds in Spark (text, bytes, local timestamps)."""
    if value is None:
        return None
    if pa.types.is_boolean(type_):
        return str(value).lower()
    if pa.types.is_timestamp(type_):
        is_moment = type_.tz is not None and isinstance(value, datetime.datetime)
        return value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat(" ", "microseconds") if is_moment else None
    if pa.types.is_date(type_):
        return value.isoformat() if isinstance(value, datetime.date) else None
    if pa.types.is_floating(type_):
        return repr(value) if math.isfinite(value) else None
    if pa.types.is_decimal(type_):
        return format(Decimal(value), "f")
    return str(value) if pa.types.is_integer(type_) else None
