"""Histograms of columns in the form of Spark's cost-based optimizer, from a table's sampled rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.table.rows.schema import Leaf
from skerry.table.rows.values import physical_value
from skerry.table.statistics.histogram import SampledRows, bucket_bounds

__all__ = ["PlanHistogram", "plan_histogram"]

_LEAST_ROWS: Final = 256
"""Fewer sampled rows say too little: values are then taken to be spread evenly, as without a histogram."""
_EVEN: Final = 2.0
"""A histogram is passed on if it differs from the even spread by more than this many times 1/√n, its uncertainty."""

_Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PlanHistogram:
    """An equi-height histogram.

    Args:
        height: Rows per bin.
        bounds: float64[bins + 1], ascending; dates are days and times microseconds, as Spark converts them.
        distinct: int64[bins], distinct values of each.
    """

    height: float
    bounds: _Numbers
    distinct: npt.NDArray[np.int64]

    def to_json(self) -> dict[str, Any]:
        """As Jackson reads Spark's `Histogram`."""
        low, high = self.bounds[:-1].tolist(), self.bounds[1:].tolist()
        bins = zip(low, high, self.distinct.tolist(), strict=True)
        return {"height": self.height, "bins": [{"lo": lo, "hi": hi, "ndv": ndv} for lo, hi, ndv in bins]}


def plan_histogram(
    column: Leaf, sampled: SampledRows, present_rows: int, distinct_count: int | None, least: Any, greatest: Any
) -> PlanHistogram | None:
    """The histogram of a column, if its values are not spread evenly.

    Args:
        column: The column.
        sampled: Sampled rows of the relation.
        present_rows: Rows of the relation in which the column is not null.
        distinct_count: Distinct values, if they are known.
        least: Its least value.
        greatest: Its greatest value.
    """
    if least is None or greatest is None or not distinct_count or not _has_bins(column.type):
        return None
    rows = sampled.rows
    if rows is None or column.name not in rows.schema.names:
        return None
    values = _as_numbers(rows.column(rows.schema.get_field_index(column.name)))
    if len(values) < _LEAST_ROWS:
        return None
    low, high = (float(physical_value(column.type, bound)) for bound in (least, greatest))
    values = np.clip(np.sort(values), low, high)
    even = low + (high - low) * (np.arange(len(values)) + 0.5) / len(values)
    if high <= low or np.abs(values - even).max() * np.sqrt(len(values)) <= _EVEN * (high - low):
        return None
    places = bucket_bounds(len(values), 1)  # Spark counts buckets: more of them are no less certain, and finer
    bounds = values[places]
    bounds[0], bounds[-1] = low, high
    is_new = np.concatenate(([True], values[1:] != values[:-1]))
    seen = np.add.reduceat(is_new, places[:-1]).astype(np.float64)
    scaled = np.round(seen * max(distinct_count / max(seen.sum(), 1), 1.0))
    distinct = np.where(bounds[1:] > bounds[:-1], np.maximum(scaled, 1), 1).astype(np.int64)
    return PlanHistogram(present_rows / len(distinct), bounds, distinct)


def _has_bins(type_: pa.DataType) -> bool:
    """Whether Spark's histograms have values of a type; times of other units than microseconds it does not read."""
    is_number = pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
    is_moment = pa.types.is_timestamp(type_) and type_.unit == "us" and type_.tz is not None
    return is_number or is_moment or pa.types.is_date32(type_)


def _as_numbers(values: pa.Array) -> _Numbers:
    values = values.drop_null()
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    numbers = np.asarray(values.cast(pa.float64(), safe=False), np.float64)
    return numbers[np.isfinite(numbers)]
