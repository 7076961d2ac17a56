"""Sort orders from text, and rows in them."""

from __future__ import annotations

import math
import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.errors import SchemaError
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.sort_order import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder
from skerry.iceberg.metadata.transforms import BucketTransform, DayTransform, IdentityTransform
from skerry.iceberg.metadata.types import (
    DoubleType,
    FloatType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    UUIDType,
)
from skerry.iceberg.partitioning.sorting import sort_indices, sort_order

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "ts", TimestampType()),
    NestedField(3, "s", StringType()),
    NestedField(4, "x", DoubleType()),
    NestedField(5, "f", FloatType()),
    NestedField(6, "u", UUIDType()),
    NestedField(7, "n", StructType(NestedField(8, "m", LongType()))),
    NestedField(9, "desc", LongType()),
)
ASC, DESC = SortDirection.ASC, SortDirection.DESC
FIRST, LAST = NullOrder.NULLS_FIRST, NullOrder.NULLS_LAST


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("id", SortField(1, IdentityTransform(), ASC, FIRST)),
        ("id ASC", SortField(1, IdentityTransform(), ASC, FIRST)),
        ("id desc", SortField(1, IdentityTransform(), DESC, LAST)),
        ("id nulls last", SortField(1, IdentityTransform(), ASC, LAST)),
        ("day(ts) DESC NULLS FIRST", SortField(2, DayTransform(), DESC, FIRST)),
        ("bucket(4, id) asc nulls  last", SortField(1, BucketTransform(4), ASC, LAST)),
        ("n.m desc", SortField(8, IdentityTransform(), DESC, LAST)),
        ("desc desc", SortField(9, IdentityTransform(), DESC, LAST)),
        ("desc", SortField(9, IdentityTransform(), ASC, FIRST)),
    ],
    ids=str,
)
def test_orders_are_read_as_people_write_them(text, field):
    assert sort_order(SCHEMA, [text], order_id=2) == SortOrder(field, order_id=2)


def test_no_columns_are_the_unsorted_order():
    assert sort_order(SCHEMA, []) == UNSORTED_SORT_ORDER
    assert sort_order(SCHEMA, []).order_id == 0
    assert sort_indices(SCHEMA, UNSORTED_SORT_ORDER, pa.table({"id": [3, 1]})).to_pylist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("idd desc", "no column 'idd' to partition or sort by; did you mean 'id'"),
        ("id up", "is not a partition transform"),
        ("day(s)", "day does not apply to a column of type string"),
    ],
    ids=str,
)
def test_orders_that_mean_nothing_are_refused(text, message):
    with pytest.raises(SchemaError, match=message):
        sort_order(SCHEMA, [text])


def ordered(columns, *fields):
    rows = pa.table(columns)
    return sort_indices(SCHEMA, sort_order(SCHEMA, fields), rows).to_pylist()


def test_nulls_stand_where_each_field_wants_them():
    columns = {"id": [2, None, 1, None], "s": ["b", None, None, "a"]}
    assert ordered(columns, "id") == [1, 3, 2, 0]
    assert ordered(columns, "id desc") == [0, 2, 1, 3]
    assert ordered(columns, "id nulls last", "s nulls first") == [2, 0, 1, 3]
    assert ordered(columns, "id desc nulls first", "s desc nulls last") == [3, 1, 0, 2]


def test_floats_have_the_total_order_of_the_specification():
    negative_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000000))[0]
    values = [math.nan, 1.0, 0.0, -0.0, -math.inf, None, math.inf, negative_nan, -1.0]
    ascending = [5, 7, 4, 8, 3, 2, 1, 6, 0]
    assert ordered({"x": values}, "x") == ascending
    assert ordered({"x": values}, "x desc nulls last") == [*ascending[:0:-1], 5]
    single = pa.chunked_array([pa.array(values[:4], pa.float32()), pa.array(values[4:], pa.float32())])
    assert ordered({"f": single}, "f") == ascending


def test_transforms_structs_uuids_and_dictionaries_sort():
    columns = {
        "ts": pa.array([86_400_000_001, 0, 86_400_000_000], pa.timestamp("us")),
        "n": [{"m": 3}, None, {"m": 1}],
        "u": pa.array([b"b" * 16, b"a" * 16, b"\xff" * 16], pa.binary(16)).cast(pa.uuid()),
        "s": pa.array(["z", "ab", "a"]).dictionary_encode(),
    }
    assert ordered(columns, "day(ts)") == [1, 0, 2]
    assert ordered(columns, "n.m") == [1, 2, 0]
    assert ordered(columns, "u") == [1, 0, 2]
    assert ordered(columns, "s desc") == [0, 1, 2]
    assert ordered(columns, "truncate(1, s)", "u desc") == [2, 1, 0]


@given(st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 2)), st.text("ab\U0001f600", max_size=2)), max_size=30))
def test_sorting_is_stable_and_by_code_points(rows):
    numbers, texts = [row[0] for row in rows], [row[1] for row in rows]
    columns = {"id": pa.array(numbers, pa.int64()), "s": pa.array(texts, pa.string())}
    expected = sorted(range(len(rows)), key=lambda index: (numbers[index] is None, numbers[index] or 0))
    assert ordered(columns, "id nulls last") == expected
    assert ordered(columns, "s") == sorted(range(len(rows)), key=lambda index: texts[index].encode())


def test_no_rows_sort():
    assert ordered({"x": pa.chunked_array([], pa.float64()), "id": pa.chunked_array([], pa.int64())}, "x", "id") == []
