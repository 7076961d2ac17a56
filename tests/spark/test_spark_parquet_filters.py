"""Which of Parquet's own filters Spark's reader may use."""

from __future__ import annotations

import pyarrow as pa
import pytest

from skerry.spark.reading.parquet_filters import filter_options
from skerry.spark.reading.plan_statistics import ColumnSummary, PlanStatistics
from skerry.table.rows.schema import FIELD_ID_KEY

BY_VALUE = {"parquet.filter.dictionary.enabled", "parquet.filter.bloom.enabled"}
NONE = BY_VALUE | {"parquet.filter.stats.enabled", "parquet.filter.columnindex.enabled"}
INSTANT = pa.timestamp("us", "UTC")


def turned_off(type_, summary=None, without_nan=(), nested=False):
    field = pa.field("c", type_, metadata={FIELD_ID_KEY: b"1"})
    if nested:
        field = pa.field("s", pa.struct([field]), metadata={FIELD_ID_KEY: b"2"})
    statistics = PlanStatistics(10, 100, {} if summary is None else {field.name: summary})
    options = filter_options(pa.schema([field]), statistics, without_nan)
    assert set(options.values()) <= {"false"}
    return set(options)


@pytest.mark.parametrize(
    ("type_", "least", "greatest", "expected"),
    [
        (pa.int64(), "1", "2", set()),
        (pa.string(), None, None, set()),
        (pa.timestamp("us"), None, None, set()),
        (pa.date32(), "2013-01-01", "2024-01-01", set()),
        (pa.date32(), "0001-01-01", "1582-10-03", set()),
        (pa.date32(), "1582-10-27", "9999-12-31", set()),
        (pa.date32(), "0001-01-01", "2024-01-01", NONE),
        (pa.date32(), "1582-10-15", "1582-10-15", NONE),
        (pa.date32(), None, None, NONE),
        (INSTANT, "1900-01-02 00:00:00.000000", "2024-01-01 00:00:00.000000", set()),
        (INSTANT, "1899-12-31 00:00:00.000000", "2024-01-01 00:00:00.000000", NONE),
        (INSTANT, None, None, NONE),
    ],
)
def test_filters_are_used_where_bounds_tell_that_values_are_alike(type_, least, greatest, expected):
    assert turned_off(type_, ColumnSummary(min=least, max=greatest)) == expected


def test_columns_of_nulls_columns_in_structs_and_nan():
    assert turned_off(pa.date32(), ColumnSummary(null_count=10)) == set()
    assert turned_off(pa.date32(), nested=True) == NONE
    assert turned_off(pa.int32(), nested=True) == set()
    assert turned_off(pa.list_(pa.field("element", pa.float64(), metadata={FIELD_ID_KEY: b"3"}))) == set()
    for type_ in pa.float32(), pa.float64():
        assert turned_off(type_, without_nan={1}) == BY_VALUE
        assert turned_off(type_) == NONE
