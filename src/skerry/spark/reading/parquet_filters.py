"""Options of Spark's Parquet filters, which must not skip row groups or pages with matching rows.

Spark passes a query's conditions to Parquet's own filters, which treat some values differently: there 0.0 and
-0.0 differ, many writers leave NaN out of statistics though Spark orders it above all other numbers, and days of
October 1582 are other days (`skerry.spark.old_calendar`). Spark cannot recover rows that the filters skipped.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import pyarrow as pa

from skerry.spark.old_calendar import MOVED_DAYS, MOVED_MOMENTS
from skerry.spark.reading.plan_statistics import PlanStatistics
from skerry.table.rows.schema import Leaf, leaves

__all__ = ["filter_options"]

# Dictionaries and Bloom filters distinguish two zeros; statistics include both.
_BY_VALUE: Final = dict.fromkeys(("parquet.filter.dictionary.enabled", "parquet.filter.bloom.enabled"), "false")
_BY_BOUNDS: Final = dict.fromkeys(("parquet.filter.stats.enabled", "parquet.filter.columnindex.enabled"), "false")


def filter_options(schema: pa.Schema, statistics: PlanStatistics, without_nan: Collection[int]) -> dict[str, str]:
    """Options of a Parquet read that turn off filters which would skip matching rows.

    Args:
        schema: The columns to read.
        statistics: Statistics of the files.
        without_nan: Field ids of columns that are known to contain no NaN.
    """
    options: dict[str, str] = {}
    for leaf in leaves(schema):
        if pa.types.is_floating(leaf.type):
            options |= _BY_VALUE
        if not _are_bounds_trusted(leaf, statistics, without_nan):
            return _BY_VALUE | _BY_BOUNDS
    return options


def _are_bounds_trusted(leaf: Leaf, statistics: PlanStatistics, without_nan: Collection[int]) -> bool:
    if pa.types.is_floating(leaf.type):
        return leaf.field_id in without_nan
    is_day = pa.types.is_date(leaf.type)
    if not is_day and not (pa.types.is_timestamp(leaf.type) and leaf.type.tz is not None):
        return True
    known = statistics.columns.get(leaf.name) if len(leaf.path) == 1 else None
    if known is None:
        return False
    if known.null_count == statistics.row_count:
        return True
    if known.min is None or known.max is None:
        return False
    if is_day:  # texts of years 1 to 9999 are in the order of days
        return known.max < MOVED_DAYS[0].isoformat() or known.min > MOVED_DAYS[1].isoformat()
    return known.min >= MOVED_MOMENTS.isoformat(" ")
