"""Rows are equal if their bits are, whatever their types; a plain Python twin says so too."""

from __future__ import annotations

import datetime as dt
import decimal
from collections import Counter

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from skerry.table.rows.changes import ChangeType, compare_rows, drop_carried_over
from skerry.table.rows.row_matching import match_rows, number_rows

_VALUES: dict[pa.DataType, list[object]] = {
    pa.bool_(): [True, False, None],
    pa.int32(): [0, 1, -1, None],
    pa.int64(): [0, 1 << 62, None],
    pa.float32(): [0.0, 1.5, None],
    pa.float64(): [0.0, 2.5, None],
    pa.decimal128(10, 2): [decimal.Decimal("1.10"), decimal.Decimal("0.00"), None],
    pa.date32(): [dt.date(2020, 1, 1), None],
    pa.time64("us"): [dt.time(1, 2, 3), None],
    pa.timestamp("us", "UTC"): [dt.datetime(2020, 1, 1, tzinfo=dt.UTC), None],
    pa.string(): ["", "a", "ab", None],
    pa.binary(): [b"", b"\x00", None],
    pa.binary(2): [b"ab", b"ac", None],
    pa.null(): [None],
    pa.list_(pa.int64()): [[], [1], [1, None], [None, 1], None],
    pa.list_(pa.string()): [[], [""], ["", ""], ["a"], None],
    pa.list_(pa.list_(pa.int64())): [[], [[]], [None], [[1], [2]], [[1, 2]], None],
    pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))]): [
        {"x": 1, "y": None},
        {"x": None, "y": []},
        {"x": None, "y": None},
        None,
    ],
    pa.map_(pa.string(), pa.int64()): [[], [("a", 1)], [("a", None)], [("a", 1), ("b", 2)], None],
    pa.dictionary(pa.int8(), pa.string()): ["a", "b", None],
}


@given(st.data())
@settings(max_examples=60)
def test_rows_have_one_number_where_python_finds_them_equal(data):
    types = data.draw(st.lists(st.sampled_from(list(_VALUES)), max_size=3))
    count = data.draw(st.integers(0, 12))
    columns = [data.draw(st.lists(st.sampled_from(_VALUES[t]), min_size=count, max_size=count)) for t in types]
    cut = data.draw(st.integers(0, count))
    table = pa.Table.from_arrays(
        [
            pa.chunked_array([pa.array(c[:cut], t), pa.array(c[cut:], t)], t)
            for c, t in zip(columns, types, strict=True)
        ],
        names=[f"c{i}" for i in range(len(types))],
    )
    numbers = number_rows(table).tolist()
    rows = [tuple(map(repr, row)) for row in zip(*columns, strict=True)] if columns else []
    assert len(numbers) == len(rows)
    for a in range(len(rows)):
        for b in range(a):
            assert (numbers[a] == numbers[b]) == (rows[a] == rows[b])


def test_floats_are_compared_by_their_bits():
    quiet, other = np.array([0x7FF8_0000_0000_0000, 0x7FF8_0000_0000_0001], np.uint64).view(np.float64)
    numbers = number_rows(pa.table({"x": pa.array([0.0, -0.0, quiet, quiet, other, None], from_pandas=False)}))
    assert numbers[2] == numbers[3]
    assert len(set(numbers.tolist())) == 5


@given(st.lists(st.integers(0, 4), max_size=12), st.lists(st.integers(0, 4), max_size=12))
def test_as_many_pairs_as_both_sides_have(left, right):
    of_left, of_right = match_rows(left, right)
    assert [left[i] for i in of_left] == [right[i] for i in of_right]
    assert len(set(of_left)) == len(of_left)
    assert len(set(of_right)) == len(of_right)
    assert Counter(left[i] for i in of_left) == Counter(left) & Counter(right)
    assert list(of_left) == sorted(of_left)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=12),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=12),
)
def test_carried_over_rows_cancel_as_often_as_both_sides_have_them(left, right):
    deleted, inserted = drop_carried_over(_table(left), _table(right))
    assert Counter(_rows(deleted)) == Counter(left) - Counter(right)
    assert Counter(_rows(inserted)) == Counter(right) - Counter(left)


def test_images_of_an_update_stand_side_by_side():
    went, came = _table([(1, 1), (2, 2), (2, 3)]), _table([(4, 4), (2, 5), (1, 6)])
    changes = compare_rows(went, came, (went.select(["k"]), came.select(["k"])))
    types = [tuple(ChangeType)[t].name for t in changes.types]
    assert list(zip(types, _rows(changes.rows), strict=True)) == [
        ("DELETE", (2, 3)),
        ("UPDATE_BEFORE", (1, 1)),
        ("UPDATE_AFTER", (1, 6)),
        ("UPDATE_BEFORE", (2, 2)),
        ("UPDATE_AFTER", (2, 5)),
        ("INSERT", (4, 4)),
    ]


@pytest.mark.parametrize("keys", [None, (pa.table({"k": []}), pa.table({"k": []}))])
def test_nothing_becomes_nothing(keys):
    changes = compare_rows(_table([]), _table([]), keys)
    assert changes.rows.num_rows == len(changes.types) == 0


def _table(rows):
    return pa.table({"k": [k for k, _ in rows], "v": [v for _, v in rows]}, pa.schema([("k", "int64"), ("v", "int64")]))


def _rows(table):
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
