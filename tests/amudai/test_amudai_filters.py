"""Filters: what statistics and range indexes refute holds no row that matches, and they refute what they can."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skerry
from skerry import amudai
from skerry.amudai.reading.filters import may_match, parse_filters, ranges_of_blocks, ranges_of_stripe
from skerry.amudai.statistics.descriptors import decode_statistics
from skerry.amudai.statistics.range_index import decode_range_index
from skerry.amudai.values.shredding import shred_column
from skerry.amudai.values.types import schema_from_arrow
from skerry.amudai.writing.field_encoding import FieldOptions, encode_field
from skerry.errors import SchemaError

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): st.integers(-5, 5),
    pa.uint64(): st.sampled_from([0, 1, 7, (1 << 64) - 1]),
    pa.float32(): st.sampled_from([0.0, -0.0, 0.1, 0.5, -1.5, float("nan"), float("inf")]),
    pa.float64(): st.sampled_from([0.0, -0.0, 0.1, 0.5, -1.5, float("nan"), float("-inf")]),
    pa.bool_(): st.booleans(),
    pa.string(): st.sampled_from(["", "a", "b", "é", "z" * 70, "z" * 69 + "y", "\U0010ffff" * 20]),
    pa.binary(): st.sampled_from([b"", b"a", b"\xff", b"\xff" * 70]),
    pa.binary(3): st.sampled_from([b"abc", b"abd", b"\0\0\0"]),
    pa.decimal128(9, 2): st.sampled_from([Decimal("0.00"), Decimal("1.50"), Decimal("-2.00")]),
    pa.timestamp("us"): st.integers(0, 3).map(lambda day: dt.datetime(2020, 1, 1) + dt.timedelta(day)),
    pa.date32(): st.integers(0, 3).map(lambda day: dt.date(2020, 1, 1) + dt.timedelta(day)),
    pa.duration("ms"): st.integers(-2, 2).map(lambda hours: dt.timedelta(hours=hours)),
}
SINGLE = ("=", "==", "!=", "<", ">", "<=", ">=")


@st.composite
def cases(draw: st.DrawFn) -> tuple[pa.Array, list[tuple[str, str, Any]]]:
    kind = draw(st.sampled_from(sorted(VALUES, key=str)))
    values = draw(st.lists(st.none() | VALUES[kind] if draw(st.booleans()) else VALUES[kind], min_size=1, max_size=6))
    conditions: list[tuple[str, str, Any]] = []
    for _ in range(draw(st.integers(1, 2))):
        if draw(st.booleans()):
            conditions.append(("x", draw(st.sampled_from(SINGLE)), draw(VALUES[kind])))
        else:
            operator = draw(st.sampled_from(["in", "not in"]))
            conditions.append(("x", operator, draw(st.lists(VALUES[kind], min_size=1, max_size=3))))
    return pa.array(values, kind), conditions


def known(array: pa.Array) -> list[tuple[str, dict[str, Any], int]]:
    """What a stripe of these values tells: by its statistics, and by its range index."""
    node = schema_from_arrow(pa.schema([pa.field("x", array.type)])).fields[0].data_type
    (column,) = shred_column(node, array)
    encoded = encode_field(column, FieldOptions())
    found = []
    ranges = ranges_of_stripe(node, decode_statistics(node, encoded.described))
    found.append(("stripe", {"x": (node, array.type, ranges)} if ranges is not None else {}, 1))
    for buffer in encoded.buffers:
        if buffer.message.kind == 5:
            index = decode_range_index(buffer.data, node, len(array))
            blocks = {"x": (node, array.type, ranges_of_blocks(node, index))}
            found.append(("blocks", blocks, len(index.lows)))
    return found


def matches(array: pa.Array, expression: pc.Expression) -> bool:
    return pa.table({"x": array}).filter(expression).num_rows > 0


@given(cases(), st.booleans())
def test_what_is_refuted_does_not_match(case: tuple[pa.Array, list[tuple[str, str, Any]]], as_expression: bool) -> None:
    array, conditions = case
    try:
        wanted = parse_filters(conditions, pa.schema([pa.field("x", array.type)]))
        really = matches(array, wanted.expression)
    except pa.ArrowNotImplementedError:
        return  # PyArrow does not compare these
    if as_expression:
        wanted = parse_filters(wanted.expression, pa.schema([pa.field("x", array.type)]))
    for _, columns, count in known(array):
        assert may_match(wanted, columns, count).any() or not really


def refutes(array: pa.Array, filters: Any) -> list[str]:
    wanted = parse_filters(filters, pa.schema([pa.field("x", array.type)]))
    return [name for name, columns, count in known(array) if not may_match(wanted, columns, count).any()]


@pytest.mark.parametrize(
    ("values", "kind", "filters"),
    [
        ([1, 5], pa.int64(), [("x", ">", 5)]),
        ([1, 5], pa.int64(), [[("x", "<", 1)], [("x", "=", 7)]]),
        ([1, 5], pa.int64(), [("x", ">", 1), ("x", "in", [9, 10])]),
        ([1, 5], pa.int64(), pc.field("x") > 5),
        ([1, 5], pa.int64(), (pc.field("x") + 0 > 5) & (pc.field("x") > 9)),
        ([None, None], pa.int64(), [("x", "=", 0)]),
        ([3, 3], pa.int64(), [("x", "!=", 3)]),
        ([3, 3], pa.int64(), [("x", "not in", [2, 3])]),
        ([0.5, float("nan")], pa.float64(), [("x", ">", 1.0)]),
        ([0.5, 0.25], pa.float32(), [("x", "<", 0.1)]),
        ([True, True], pa.bool_(), [("x", "=", False)]),
        (["b", "c"], pa.string(), [("x", "<", "b")]),
        (["b", "d"], pa.string(), [("x", "=", "c")]),
        (["b", "d"], pa.string(), [("x", "in", ["c", "cc", "ccc"])]),
        ([b"b", b"d"], pa.binary(), [("x", ">", b"d")]),
        ([Decimal("1.10"), Decimal("9.90")], pa.decimal128(5, 2), [("x", ">=", Decimal("9.91"))]),
        ([dt.datetime(2020, 1, 1), dt.datetime(2021, 1, 1)], pa.timestamp("ns"), [("x", ">", dt.datetime(2021, 1, 2))]),
        (
            [dt.datetime(2020, 1, 1), dt.datetime(2021, 1, 1)],
            pa.timestamp("s"),
            pc.field("x") > dt.datetime(2022, 1, 2),
        ),
        ([dt.date(2020, 1, 1), dt.date(2021, 1, 1)], pa.date32(), [("x", "<", dt.date(2020, 1, 1))]),
        ([dt.timedelta(1), dt.timedelta(2)], pa.duration("s"), [("x", "=", dt.timedelta(3))]),
    ],
)
def test_a_stripe_is_refuted(values: list[Any], kind: pa.DataType, filters: Any) -> None:
    assert "stripe" in refutes(pa.array(values, kind), filters)


def test_blocks_of_rows_are_refuted() -> None:
    array = pa.array(np.arange(100_000))
    ((_, _, _), (_, columns, count)) = known(array)
    for filters in ([("x", "=", 70_000)], pc.field("x") == 70_000):
        wanted = parse_filters(filters, pa.schema([("x", pa.int64())]))
        assert np.flatnonzero(may_match(wanted, columns, count)).tolist() == [70_000 // 256]


def test_what_cannot_be_compared_with_stored_values_is_not_refuted() -> None:
    for filters in ([("x", ">", 5.5)], [("x", "=", None)], [("x", "in", [1, None])]):
        wanted = parse_filters(filters, pa.schema([("x", pa.int64())]))
        for _, columns, count in known(pa.array([1, 5])):
            assert may_match(wanted, columns, count).all()


@pytest.mark.parametrize(
    ("filters", "error"),
    [
        ([], "filters have no condition"),
        ([[]], "filters have no condition"),
        ([("x", "~", 1)], "no operator '~'"),
        ([("y", "=", 1)], "names the column 'y'"),
        ([("x", "=")], "filters are tuples"),
        (["x=5"], "filters are tuples"),
        (5, "filters are tuples"),
        ("x = 1", "only tables take SQL"),
        ([("x", "in", "abc")], "takes several values"),
        (pc.field("y") == 1, "does not fit the columns"),
    ],
)
def test_other_filters_are_refused(filters: Any, error: str) -> None:
    with pytest.raises(SchemaError, match=error):
        parse_filters(filters, pa.schema([("x", pa.int64())]))


def test_text_is_refused_where_a_list_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.amudai.shard"
    amudai.write_table(pa.table({"x": [1], "y": [2], "xy": [3]}), path)
    shard = amudai.ShardFile(path)
    for read in (
        lambda columns: amudai.read_table(path, columns=columns),
        lambda columns: shard.read(columns=columns),
        lambda columns: list(shard.iter_batches(columns=columns)),
        lambda columns: shard.take([0], columns=columns),
    ):
        with pytest.raises(SchemaError, match=r"must be a list of strings, found 'xy'; write columns=\['xy'\]"):
            read("xy")
        with pytest.raises(SchemaError, match="columns must be a list of strings, found 3 in it"):
            read(["x", 3])
        assert read(["xy"]) is not None
    for stripes in ("0", 0, [0.0], [True]):
        with pytest.raises(SchemaError, match="stripes must be a list of whole numbers"):
            shard.read(stripes=stripes)
        with pytest.raises(SchemaError, match="stripes must be a list of whole numbers"):
            next(shard.iter_batches(stripes=stripes))
    with pytest.raises(SchemaError, match="batch_size must be a whole number above 0, found 0"):
        next(shard.iter_batches(0))
    for allow in (
        lambda folders: amudai.read_table(path, allowed_locations=folders),
        lambda folders: amudai.merge([path], tmp_path / "b", allowed_locations=folders),
        lambda folders: amudai.write_over_parquet([path], tmp_path / "b", allowed_locations=folders),
        lambda folders: skerry.Storage().allowing(folders),
    ):
        with pytest.raises(SchemaError, match=r"write allowed_locations=\['/lake'\]"):
            allow("/lake")
    with pytest.raises(SchemaError, match="shards must be a list of paths"):
        amudai.merge(path, tmp_path / "b")
    with pytest.raises(SchemaError, match="files must be a list of paths"):
        amudai.write_over_parquet(str(path), tmp_path / "b")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("condition", [("x", "in", 5), ("x", "not in", None), (7, "=", 1), ("x", "=", object())])
def test_values_that_are_none_are_refused(condition: tuple[Any, ...]) -> None:
    with pytest.raises(SchemaError):
        parse_filters([condition], pa.schema([("x", pa.int64())]))


_NUL_ENDED: list[tuple[pa.Array, Any]] = [
    (pa.array([b"a\0", b"b"] * 50), b"a\0"),
    (pa.array([bytes(16), b"\1" * 16] * 50, pa.binary(16)), bytes(16)),
    (pa.array([b"\0", b""] * 50), b"\0"),
    (pa.array(["a\0", "b"] * 50), "a\0"),
    (pa.array(["a\0"] * 100), "a\0"),
    (pa.array(["\0"] * 100), "\0"),
    (pa.array(["a", "a\0\0"] * 50), "a\0\0"),
    (pa.array(["a\0"] * 100).dictionary_encode(), "a\0"),
]


@pytest.mark.parametrize(("array", "value"), _NUL_ENDED, ids=str)
@pytest.mark.parametrize("operator", ["=", "in", "not in", "!=", "<", "<=", ">", ">="])
def test_text_that_ends_in_nul_is_found(array: pa.Array, value: Any, operator: str, tmp_path: Path) -> None:
    rows, path = pa.table({"x": array}), tmp_path / "data.amudai.shard"
    amudai.write_table(rows, path)
    filters = [("x", operator, [value] if "in" in operator else value)]
    expected = rows.filter(parse_filters(filters, rows.schema).expression)
    assert amudai.read_table(path, filters=filters).equals(expected)


_MANY: dict[pa.DataType, Any] = {
    pa.string(): "v{:03}".format,
    pa.binary(): lambda i: b"v%03d" % i,
    pa.binary(4): lambda i: b"v%03d" % i,
    pa.int64(): lambda i: i,
    pa.float32(): lambda i: i / 10,
    pa.decimal128(9, 2): lambda i: Decimal(i) / 100,
    pa.date32(): lambda i: dt.date(2020, 1, 1) + dt.timedelta(i),
    pa.timestamp("us"): lambda i: dt.datetime(2020, 1, 1) + dt.timedelta(i),
    pa.dictionary(pa.int32(), pa.string()): "v{:03}".format,
    pa.uuid(): lambda i: uuid.UUID(int=i),
}


@pytest.mark.parametrize("kind", _MANY, ids=str)
@pytest.mark.parametrize("count", [1, 256, 257, 400])
def test_lists_of_any_length_find_what_is_in_them(kind: pa.DataType, count: int, tmp_path: Path) -> None:
    make, path = _MANY[kind], tmp_path / "data.amudai.shard"
    rows = pa.table({"x": pa.array([make(i % 100) for i in range(1000)], kind), "row": range(1000)})
    amudai.write_table(rows, path)
    wanted = [make(i) for i in (42, *range(1_000, 1_000 + count - 1))]
    try:
        found = amudai.read_table(path, filters=[("x", "in", wanted)])
    except SchemaError:
        assert kind == pa.uuid()  # PyArrow does not compare these
        return
    assert found["row"].to_pylist() == list(range(42, 1000, 100))
    unwanted = amudai.read_table(path, filters=[("x", "not in", wanted)])
    assert unwanted.num_rows == 990


_ENDS: dict[pa.DataType, tuple[Any, Any]] = {
    pa.int8(): (-128, 127),
    pa.int64(): (-(1 << 63), (1 << 63) - 1),
    pa.uint64(): (0, (1 << 64) - 1),
    pa.float32(): (-3.4028234663852886e38, 3.4028234663852886e38),
    pa.float64(): (float("-inf"), float("inf")),
    pa.decimal128(34, 2): (Decimal("-" + "9" * 32 + ".99"), Decimal("9" * 32 + ".99")),
    pa.date32(): (dt.date.min, dt.date.max),
    pa.timestamp("us"): (dt.datetime.min, dt.datetime.max),
    pa.timestamp("s"): (dt.datetime.min, dt.datetime.max.replace(microsecond=0)),
    pa.string(): ("", "\U0010ffff" * 40),
    pa.binary(): (b"", b"\xff" * 100),
    pa.bool_(): (False, True),
}


@pytest.mark.parametrize("kind", _ENDS, ids=str)
def test_conditions_on_the_ends_of_a_type(kind: pa.DataType, tmp_path: Path) -> None:
    path = tmp_path / "data.amudai.shard"
    for values in ([*_ENDS[kind]], [_ENDS[kind][0]], [_ENDS[kind][1]], [*_ENDS[kind], None]):
        rows = pa.table({"x": pa.array(values * 3, kind)})
        amudai.write_table(rows, path, overwrite=True)
        for operator in SINGLE:
            for value in _ENDS[kind]:
                wanted = parse_filters([("x", operator, value)], rows.schema)
                expected = rows.filter(wanted.expression)
                assert amudai.read_table(path, filters=[("x", operator, value)]).equals(expected), (operator, value)
                assert amudai.read_table(path, filters=wanted.expression).equals(expected), (operator, value)


def test_the_columns_of_an_expression_are_found() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.struct([("c", pa.int64())])), ("d", pa.string())])
    wanted = parse_filters((pc.field("b", "c") > 1) | pc.field("d").is_null(), schema)
    assert wanted.schema.names == ["b", "d"]
