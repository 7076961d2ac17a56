"""Literals at and beyond the limits of every type, in both notations, against exact arithmetic."""

from __future__ import annotations

import math
import operator
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.table.predicate import FieldMetrics, evaluate, parse, row_mask

FLT_MAX, DBL_MAX = float(np.finfo(np.float32).max), float(np.finfo(np.float64).max)
OPERATORS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def field(type_):
    return pa.schema([pa.field("c", type_, metadata={b"PARQUET:field_id": b"1"})])


def around(*numbers):
    return sorted({near for number in numbers for near in (number - 1, number, number + 1)})


INTEGERS = {pa.int32(): 32, pa.int64(): 64}
TIMES = {
    pa.date32(): (32, "DATE"),
    pa.timestamp("us"): (64, "TIMESTAMP"),
    pa.timestamp("us", "UTC"): (64, "TIMESTAMPTZ"),
    pa.timestamp("ns"): (64, "TIMESTAMP"),
}
FLOATS = {
    pa.float32(): [-FLT_MAX, FLT_MAX, 1.0, 1.0 + 2**-23, 2.0**-149, -(2.0**-149), 0.0, -0.0, math.inf, -math.inf],
    pa.float64(): [-DBL_MAX, DBL_MAX, 1.0, 1.0 + 2**-52, 5e-324, -5e-324, 0.0, -0.0, math.inf, -math.inf],
}
FLOAT_TEXTS = [
    *("3.4028234663852886e38", "3.4028235e38", "3.40282356779733661637e38", "3.4028235677973367e38", "3.5e38"),
    *("1.7976931348623157e308", "1.797693134862315708e308", "1.7976931348623159e308", "1e309", "1e-400", "1e-45"),
    *("1.00000005960464477539", "1.0000000596046447753906251", "1.00000017881393432617", "0.1", "5e-324", "0"),
]
DECIMALS = {(38, 0): 10**38 - 1, (38, 38): 10**38 - 1, (38, 10): 10**38 - 1, (9, 2): 10**9 - 1, (18, 18): 10**18 - 1}


def check(type_, values, where, wanted):
    """The rows of a condition, by a batch's mask and by the metrics of files of one row."""
    schema = field(type_)
    predicate = parse(where, schema)
    table = pa.table([values], schema=schema)
    assert [bool(hit) for hit in row_mask(predicate, table.to_batches()[0]).to_pylist()] == wanted
    if isinstance(where, str):
        assert parse(str(predicate), schema) == predicate
    zeros, ones = np.zeros(len(values), np.int64), np.ones(len(values), np.int64)
    verdict = evaluate(predicate, lambda column: FieldMetrics(values, values, zeros, zeros, ones), len(values))
    assert all(may or not hit for may, hit in zip(verdict.may, wanted, strict=True))
    assert all(hit or not must for must, hit in zip(verdict.must, wanted, strict=True))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(list(INTEGERS)), st.data())
def test_integers(type_, data):
    bits = INTEGERS[type_]
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    numbers = [number for number in around(low, 0, high) if low <= number <= high]
    text = data.draw(
        st.sampled_from([str(n) for n in around(low, 0, high)] + [f"{high}.5", f"{low}.5", "1e300", "-1e300"])
    )
    sign = data.draw(st.sampled_from(sorted(OPERATORS)))
    literal = Fraction(Decimal(text))
    check(type_, pa.array(numbers, type_), f"c {sign} {text}", [OPERATORS[sign](number, literal) for number in numbers])


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(list(TIMES)), st.integers(-1, 1), st.sampled_from([0, 1]), st.sampled_from(sorted(OPERATORS)))
def test_dates_and_times(type_, step, end, sign):
    bits, _ = TIMES[type_]
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    numbers = [low, low + 1, -1, 0, 1, high - 1, high]
    number = min(max((low, high)[end] + step, low), high)
    values = pa.array(numbers, pa.int32() if bits == 32 else pa.int64()).cast(type_)
    wanted = [OPERATORS[sign](other, number) for other in numbers]
    compare = {"=": "__eq__", "<>": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}[sign]
    literal = pa.scalar(number, pa.int32() if bits == 32 else pa.int64()).cast(type_)
    expression = getattr(pc.field("c"), compare)(pc.scalar(literal))
    check(type_, values, expression, wanted)
    check(type_, values, str(parse(expression, field(type_))), wanted)  # and as text


@pytest.mark.parametrize("type_", list(TIMES), ids=str)
def test_dates_and_times_beyond_their_type(type_):
    bits, name = TIMES[type_]
    numbers = [-(2 ** (bits - 1)), 0, 2 ** (bits - 1) - 1]
    values = pa.array(numbers, pa.int32() if bits == 32 else pa.int64()).cast(type_)
    zone = "+00:00" if name == "TIMESTAMPTZ" else ""
    time = "" if name == "DATE" else f" 00:00:00{zone}"
    for year, side in (("9999999", 1), ("-9999999", -1)):
        for sign, compare in OPERATORS.items():
            wanted = [compare(0, side)] * len(numbers)
            check(type_, values, f"c {sign} {name} '{year}-01-01{time}'", wanted)


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(list(FLOATS)), st.sampled_from(FLOAT_TEXTS), st.booleans(), st.sampled_from([*OPERATORS, "IN"]))
def test_floats_round_literals_of_sql(type_, text, minus, sign):
    text = f"-{text}" if minus else text
    exact, values = Fraction(Decimal(text)), FLOATS[type_]
    finite = [value for value in values if math.isfinite(value)]
    dtype = type_.to_pandas_dtype()
    spread = [float(near) for value in finite for near in (value, np.nextafter(dtype(value), dtype(0)))]
    # literals round to the nearest of the type's values; beyond the midpoint after the greatest they keep their place
    half = Fraction(2) ** (103 if type_ == pa.float32() else 970)
    literal = exact
    if abs(exact) < Fraction(max(finite)) + half:
        steps = [dtype(float(exact))] if type_ == pa.float64() else []
        if not steps:
            middle = dtype(min(max(float(exact), -FLT_MAX), FLT_MAX))
            with np.errstate(over="ignore"):
                steps = [middle, np.nextafter(middle, dtype(math.inf)), np.nextafter(middle, dtype(-math.inf))]
        literal = min(
            (Fraction(float(near)) for near in steps if np.isfinite(near)), key=lambda near: abs(near - exact)
        )
    values = [*values, *spread, *([float(literal)] if abs(literal) <= max(finite) else [])]
    compared = [value if math.isinf(value) else Fraction(value) for value in values]
    compare = operator.eq if sign == "IN" else OPERATORS[sign]
    wanted = [compare(value, literal) for value in compared]
    where = f"c IN ({text}, 7)" if sign == "IN" else f"c {sign} {text}"
    check(type_, pa.array(values, type_), where, wanted)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([pa.float32(), pa.float64()]),
    st.sampled_from([FLT_MAX, -FLT_MAX, DBL_MAX, -DBL_MAX, 0.1, 2.0**-149, 5e-324, -0.0, math.inf]),
    st.sampled_from(sorted(OPERATORS)),
)
def test_floats_keep_literals_of_pyarrow(type_, literal, sign):
    values = FLOATS[type_]
    compare = {"=": "__eq__", "<>": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}[sign]
    expression = getattr(pc.field("c"), compare)(pc.scalar(pa.scalar(literal, pa.float64())))
    check(type_, pa.array(values, type_), expression, [OPERATORS[sign](value, literal) for value in values])


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(list(DECIMALS)), st.sampled_from(sorted(OPERATORS)), st.booleans(), st.data())
def test_decimals(kind, sign, minus, data):
    (precision, scale), most = kind, DECIMALS[kind]
    numbers = [-most, -most + 1, -1, 0, 1, most - 1, most]
    values = [Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)) for n in numbers]
    unscaled = data.draw(st.sampled_from([*map(str, around(most, 0)), f"{most}.5", f"{most}.0", "0.5", f"{10 * most}"]))
    digits, _, rest = unscaled.lstrip("-").partition(".")
    exact = Fraction(int(digits + rest) * (-1 if minus else 1), 10 ** (scale + len(rest)))
    text = f"{'-' if minus else ''}{digits}{rest}e-{scale + len(rest)}"
    wanted = [OPERATORS[sign](Fraction(n, 10**scale), exact) for n in numbers]
    check(
        pa.decimal128(precision, scale), pa.array(values, pa.decimal128(precision, scale)), f"c {sign} {text}", wanted
    )


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from([0.0, -0.0, 1.0, math.nan, math.inf, None]), max_size=4), st.booleans())
def test_sets_of_pyarrow_tell_the_two_zeros_apart(among, negated):
    for type_ in (pa.float32(), pa.float64()):
        values = pa.array([0.0, -0.0, 1.0, math.nan, math.inf, None], type_)
        expression = pc.field("c").isin(pa.array(among, type_))
        expression = ~expression if negated else expression
        table = pa.table([values], schema=field(type_))
        predicate = parse(expression, table.schema)
        numbered = table.append_column("row", pa.array(range(len(values))))
        wanted = numbered.filter(expression)["row"].to_pylist()
        assert numbered["row"].filter(row_mask(predicate, table.to_batches()[0])).to_pylist() == wanted
        nulls = np.array([0, 0, 0, 0, 0, 1], np.int64)
        nans, ones = np.array([0, 0, 0, 1, 0, 0], np.int64), np.ones(6, np.int64)
        bounds = pa.array([0.0, 0.0, 1.0, None, math.inf, None], type_)
        verdict = evaluate(predicate, lambda column: FieldMetrics(bounds, bounds, nulls, nans, ones), 6)  # noqa: B023
        assert set(wanted) <= set(np.flatnonzero(verdict.may))
        assert set(np.flatnonzero(verdict.must)) <= set(wanted)
