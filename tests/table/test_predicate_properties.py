"""Properties of predicates: the rows that DuckDB keeps, the rows that PyArrow keeps, and pruning that loses none."""

from __future__ import annotations

import datetime
import decimal
import struct
import uuid

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from skerry.table.predicate import FieldMetrics, columns_of, evaluate, parse, row_mask
from skerry.table.rows.values import arrow_storage

NAN, INF = float("nan"), float("inf")


def field(name, type_, field_id):
    return pa.field(name, type_, metadata={b"PARQUET:field_id": str(field_id).encode()})


STRUCT = pa.struct([field("b", pa.int64(), 14), field("Some Name", pa.string(), 15)])
SCHEMA = pa.schema(
    [
        field("x", pa.int32(), 1),
        field("f", pa.float32(), 2),
        field("d", pa.float64(), 3),
        field("s", pa.string(), 4),
        field("dt", pa.date32(), 5),
        field("ts", pa.timestamp("us"), 6),
        field("tz", pa.timestamp("us", "UTC"), 7),
        field("u", pa.uuid(), 8),
        field("dec", pa.decimal128(9, 2), 9),
        field("flag", pa.bool_(), 10),
        field("t", pa.time64("us"), 11),
        field("big", pa.int64(), 12),
        field("a", STRUCT, 13),
    ]
)
UTC = datetime.UTC
# Few values, close together and at the edges: comparisons must meet equality, order and extremes often.
DATES = [datetime.date(1969, 12, 31), datetime.date(2020, 2, 29), datetime.date(2020, 3, 1)]
MOMENTS = [
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime.datetime(2020, 2, 29),
    datetime.datetime(2020, 2, 29, 12),
]
UUIDS = [uuid.UUID(int=n) for n in (0, 1 << 127, (1 << 127) | 5, 0x7FFF << 112, (1 << 64) - 1, 1 << 63)]
FLOATS = [-INF, -1.5, -0.0, 0.0, 0.1, 1.5, 3.14, 1e30, INF, NAN]
VALUES = {
    "x": [-(2**31), -1, 0, 3, 4, 2**31 - 1],
    "f": [struct.unpack("<f", struct.pack("<f", value))[0] for value in FLOATS],
    "d": FLOATS,
    "s": ["", "a", "ab", "abc", "abé", "b", "it's", "a%", "a_b", "\U0001f600", "zz"],
    "dt": DATES,
    "ts": MOMENTS,
    "tz": [moment.replace(tzinfo=UTC) for moment in MOMENTS],
    "u": UUIDS,
    "dec": [decimal.Decimal(text) for text in ("-9999999.99", "-0.01", "0.00", "1.00", "1.01", "9999999.99")],
    "flag": [False, True],
    "t": [datetime.time(0), datetime.time(10, 30), datetime.time(23, 59, 59, 999999)],
    "big": [-(2**63), -1, 0, 2**53 + 1, 2**63 - 1],
    "a.b": [-1, 0, 7],
    "a.Some Name": ["", "x", "xy"],
}
LITERALS = {
    "x": ["0", "3", "3.5", "-0.5", "4", "2147483647", "2147483648", "-2147483648", "-2147483649", "'3'"],
    "f": ["0", "0.1", "1.5", "3.14", "-1.5", "'Infinity'", "'-Infinity'", "'NaN'"],
    "d": ["0", "0.1", "1.5", "3.14", "-1.5", "1e30", "'Infinity'", "'-Infinity'", "'NaN'"],
    "s": ["''", "'a'", "'ab'", "'abc'", "'it''s'", "'zzz'", "'\U0001f600'"],
    "dt": ["DATE '2020-02-29'", "'2020-03-01'", "DATE '1969-12-31'", "TIMESTAMP '2020-02-29 12:00:00'"],
    "ts": [
        "TIMESTAMP '2020-02-29 00:00:00'",
        "DATE '2020-02-29'",
        "'2020-02-29 12:00:00'",
        "'1969-12-31 23:59:59.999999'",
    ],
    "tz": ["TIMESTAMPTZ '2020-02-29 01:00:00+01:00'", "TIMESTAMPTZ '2020-02-29 12:00:00+00:00'"],
    "u": [f"'{value}'" for value in UUIDS],
    "dec": ["0", "1.01", "1.005", "-0.01", "9999999.99", "99999999.5", "'1.01'"],
    "flag": ["TRUE", "FALSE"],
    "t": ["TIME '10:30:00'", "'00:00:00'", "'23:59:59.999999'"],
    "big": ["0", "9007199254740993", "9223372036854775807", "9223372036854775808", "-1"],
    "a.b": ["0", "7", "6.5"],
    "a.Some Name": ["'x'", "'xy'", "''"],
}
SPELLING = {name: name for name in LITERALS} | {"a.Some Name": 'a."Some Name"', "x": "X", "s": '"s"'}
STRINGS = ("s", "a.Some Name")
PATTERNS = ["'a%'", "'ab%'", "'%'", "'abc'", "'a\\%%' ESCAPE '\\'", "'é%'", "'a!_b%' ESCAPE '!'", "''"]


def nullable(values):
    return st.one_of(st.none(), st.sampled_from(values))


ROWS = st.lists(
    st.fixed_dictionaries(
        {name: nullable(values) for name, values in VALUES.items() if "." not in name}
        | {
            "a": st.none()
            | st.fixed_dictionaries({"b": nullable(VALUES["a.b"]), "Some Name": nullable(VALUES["a.Some Name"])})
        }
    ),
    max_size=8,
)


@st.composite
def single_tests(draw):
    name = draw(st.sampled_from(sorted(LITERALS)))
    column, literal = SPELLING[name], st.sampled_from([*LITERALS[name], "NULL"])
    kinds = ["compare", "flipped", "in", "between", "null", "distinct"]
    kinds += ["like"] * (name in STRINGS) + ["nan"] * (name in ("f", "d")) + ["bare", "is"] * (name == "flag")
    kind, negated = draw(st.sampled_from(kinds)), draw(st.sampled_from(["", "NOT "]))
    operator = draw(st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="]))
    if kind == "compare":
        return f"{column} {operator} {draw(literal)}"
    if kind == "flipped":
        return f"{draw(literal)} {operator} {column}"
    if kind == "in":
        return f"{column} {negated}IN ({', '.join(draw(st.lists(literal, min_size=1, max_size=4)))})"
    if kind == "between":
        return f"{column} {negated}BETWEEN {draw(literal)} AND {draw(literal)}"
    if kind == "like":
        return f"{column} {negated}LIKE {draw(st.sampled_from(PATTERNS))}"
    return {
        "null": f"{column} IS {negated}NULL",
        "distinct": f"{column} IS {negated}DISTINCT FROM {draw(literal)}",
        "nan": f"{negated}isnan({column})",
        "bare": f"{negated}{column}",
        "is": f"{column} IS {negated}{draw(st.sampled_from(['TRUE', 'FALSE']))}",
    }[kind]


CONDITIONS = st.recursive(
    single_tests(),
    lambda inner: st.one_of(
        inner.map(lambda condition: f"NOT ({condition})"),
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(
            lambda parts: f"({parts[0]}) {parts[1]} ({parts[2]})"
        ),
        st.tuples(inner, inner, inner).map(lambda parts: f"({parts[0]}) OR ({parts[1]}) AND ({parts[2]})"),
    ),
    max_leaves=4,
)


def table_of(rows):
    arrays = [
        pa.array(
            [value.bytes if (value := row[column.name]) is not None else None for row in rows], pa.binary(16)
        ).cast(pa.uuid())
        if column.type == pa.uuid()
        else pa.array([row[column.name] for row in rows], column.type)
        for column in SCHEMA
    ]
    return pa.table(arrays, schema=SCHEMA)


def matching(table, condition):
    """The rows of an expression, or of a mask."""
    numbered = table.append_column("row", pa.array(range(table.num_rows), pa.int64()))
    return numbered.filter(condition)["row"].to_pylist()


def mask_of(predicate, table):
    return pa.chunked_array([row_mask(predicate, batch) for batch in table.to_batches()], pa.bool_())


@pytest.fixture(scope="module")
def duck():
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    yield connection
    connection.close()


COMMON = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@COMMON
@given(rows=ROWS, condition=CONDITIONS)
def test_a_condition_keeps_the_rows_that_duckdb_keeps(duck, rows, condition):
    table = table_of(rows)
    predicate = parse(condition, SCHEMA)
    duck.register("numbered", table.append_column("row", pa.array(range(table.num_rows), pa.int64())))
    expected = [row for (row,) in duck.execute(f"SELECT row FROM numbered WHERE {condition} ORDER BY row").fetchall()]
    assert matching(table, mask_of(predicate, table)) == expected
    assert parse(str(predicate), SCHEMA) == predicate


# ---- PyArrow expressions ----

NUMBERS = {
    "x": [0, 3, 3.5, -(2**31), 2**40, NAN],
    "f": [0.0, 0.1, 1.5, 3.14, NAN, INF, 3, 1e300],
    "d": [0.0, -0.0, 0.1, 1.5, 3.14, NAN, INF, 3],
    "big": [0, 2**53 + 1, 2**63 - 1, -1],
    "dec": [decimal.Decimal("1.01"), decimal.Decimal("1.005")],
}


@st.composite
def single_expressions(draw):
    kind = draw(st.sampled_from(["compare", "in", "null", "prefix", "nan", "temporal", "flag", "nested"]))
    if kind == "compare":
        name = draw(st.sampled_from(sorted(NUMBERS)))
        operator = draw(st.sampled_from(["__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"]))
        return getattr(pc.field(name), operator)(pc.scalar(draw(st.sampled_from(NUMBERS[name]))))
    if kind == "in":
        name = draw(st.sampled_from(["x", "s", "d", "dt"]))
        values = draw(st.lists(nullable([value for value in VALUES[name] if value != 0]), max_size=3))
        return pc.field(name).isin(pa.array(values, SCHEMA.field(name).type))
    if kind == "null":
        name = draw(st.sampled_from([name for name in VALUES if "." not in name]))
        return draw(st.sampled_from([pc.field(name).is_null(), pc.field(name).is_valid()]))
    if kind == "nan":
        name = draw(st.sampled_from(["f", "d"]))
        return draw(st.sampled_from([pc.is_nan(pc.field(name)), pc.field(name).is_null(nan_is_null=True)]))
    if kind == "prefix":
        return pc.starts_with(pc.field("s"), draw(st.sampled_from(["", "a", "ab", "\U0001f600"])))
    if kind == "temporal":
        name = draw(st.sampled_from(["dt", "ts", "tz", "t"]))
        return pc.field(name) <= pa.scalar(draw(st.sampled_from(VALUES[name])), SCHEMA.field(name).type)
    return pc.field("flag") if kind == "flag" else pc.field("a", "b") > draw(st.sampled_from([-1, 0, 7]))


EXPRESSIONS = st.recursive(
    single_expressions(),
    lambda inner: st.one_of(
        inner.map(lambda expression: ~expression),
        st.tuples(inner, inner).map(lambda pair: pair[0] & pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
    ),
    max_leaves=4,
)


@COMMON
@given(rows=ROWS, expression=EXPRESSIONS)
def test_an_expression_keeps_the_rows_that_pyarrow_keeps(rows, expression):
    table = table_of(rows)
    predicate = parse(expression, SCHEMA)
    try:
        expected = matching(table, expression)
    except pa.ArrowInvalid:  # PyArrow compares integers with 3.5 as float32, and fails where that is not exact
        reject()
    assert matching(table, mask_of(predicate, table)) == expected


@pytest.mark.parametrize("name", ["x", "dec"])
@pytest.mark.parametrize("operator", ["__eq__", "__ne__", "__lt__", "__ge__"])
def test_nan_beside_a_column_that_has_none_compares_as_pyarrow_does(name, operator):
    table = pa.table({"x": pa.array([1, None], pa.int32()), "dec": pa.array([decimal.Decimal("1.01"), None])})
    schema = pa.schema([SCHEMA.field(name)])
    expression = getattr(pc.field(name), operator)(pc.scalar(NAN))
    assert table.filter(mask_of(parse(expression, schema), table)) == table.filter(expression)
    assert table.filter(mask_of(parse(~expression, schema), table)) == table.filter(~expression)


# ---- pruning ----


def signed(value):
    """The order of Java's UUID.compareTo."""
    return struct.unpack(">qq", value)


def bounds_of(values, type_, truncate, draw):
    """Lower and upper bound as writers put them down: exact, truncated, in Java's order, or left out."""
    known = sorted((value for value in values if value is not None and value == value), key=lambda value: value)
    if not known:
        return None, None
    lower, upper = known[0], known[-1]
    if type_ == pa.uuid() and draw(st.booleans()):
        known.sort(key=signed)
        lower, upper = known[0], known[-1]
    if truncate and pa.types.is_string(type_):
        lower, upper = lower[:1], upper if len(upper) <= 1 else upper[:1] + "\U0010ffff"
    if (
        pa.types.is_floating(type_)
        and any(value is not None and value != value for value in values)
        and draw(st.booleans())
    ):
        lower = upper = NAN
    return (lower if draw(st.integers(0, 4)) else None), (upper if draw(st.integers(0, 4)) else None)


def column_values(rows, column):
    for name in column.path:
        rows = [None if row is None else row[name] for row in rows]
    return [value.bytes if isinstance(value, uuid.UUID) else value for value in rows]


def metrics_of(files, column, draw):
    lowers, uppers, nulls, nans, counts = [], [], [], [], []
    for rows in files:
        values = column_values(rows, column)
        lower, upper = bounds_of(values, column.type, draw(st.booleans()), draw)
        lowers.append(lower)
        uppers.append(upper)
        exact = (values.count(None), sum(1 for value in values if value is not None and value != value), len(values))
        for counted, count in zip((nulls, nans, counts), exact, strict=True):
            counted.append(count if draw(st.integers(0, 4)) else -1)
    storage = arrow_storage(column.type)
    return FieldMetrics(
        pa.array(lowers, storage),
        pa.array(uppers, storage),
        *(np.array(counted, np.int64) for counted in (nulls, nans, counts)),
    )


@COMMON
@given(files=st.lists(ROWS.filter(len), min_size=1, max_size=4), condition=CONDITIONS, data=st.data())
def test_no_file_with_a_matching_row_is_pruned_and_none_is_taken_whole_wrongly(files, condition, data):
    predicate = parse(condition, SCHEMA)
    metrics = {column.field_id: metrics_of(files, column, data.draw) for column in columns_of(predicate)}
    verdict = evaluate(predicate, lambda column: metrics[column.field_id], len(files))
    assert verdict.may.dtype == verdict.must.dtype == np.bool_
    for rows, may, must in zip(files, verdict.may, verdict.must, strict=True):
        table = table_of(rows)
        matches = len(matching(table, mask_of(predicate, table)))
        assert may or matches == 0
        assert not must or matches == len(rows)
        assert may or not must
