"""Values of columns whose type has changed since: what Paimon's casts make of them."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.errors import SchemaError, UnsupportedError
from skerry.paimon.values.arrow_types import arrow_type
from skerry.paimon.values.casts import plan_cast
from skerry.paimon.values.types import AtomicType, decode_type


def type_of(text: str) -> AtomicType:
    found = decode_type(text)
    assert isinstance(found, AtomicType)
    return found


def cast(source: str, target: str, values: list[Any]) -> list[Any]:
    array = pa.array([None, *values], arrow_type(type_of(source)))[1:]  # with an offset, as slices have
    result = plan_cast(type_of(source), type_of(target))(array)
    assert result.type == arrow_type(type_of(target))
    return result.to_pylist()


D = datetime.datetime
CASES: list[tuple[str, str, list[Any], list[Any]]] = [
    # numbers: integers wrap, floats are cut off, what is too large is the largest
    ("INT", "BIGINT", [1, None, -5], [1, None, -5]),
    ("INT", "TINYINT", [300, -129, None], [44, 127, None]),
    ("BIGINT", "INT", [2**32 + 7], [7]),
    ("INT", "DOUBLE", [3, None], [3.0, None]),
    ("BIGINT", "FLOAT", [2**53 + 1], [float(2**53)]),
    ("DOUBLE", "INT", [1.9, -1.9, 1e20, float("nan"), None], [1, -1, 2**31 - 1, 0, None]),
    ("FLOAT", "BIGINT", [-1e30, 2.5], [-(2**63), 2]),
    ("DOUBLE", "TINYINT", [300.7], [44]),
    ("DOUBLE", "FLOAT", [0.1], [pytest.approx(0.1)]),
    # decimals: rounded half up, null where they do not fit
    ("INT", "DECIMAL(5, 2)", [12, 99999, None], [Decimal("12.00"), None, None]),
    ("DOUBLE", "DECIMAL(4, 1)", [1.25, -1.25, 1e9, float("nan")], [Decimal("1.3"), Decimal("-1.3"), None, None]),
    ("DECIMAL(5, 2)", "DECIMAL(9, 2)", [Decimal("1.50"), None], [Decimal("1.50"), None]),
    ("DECIMAL(5, 2)", "DECIMAL(4, 1)", [Decimal("1.25"), Decimal("999.99")], [Decimal("1.3"), None]),
    ("DECIMAL(5, 2)", "INT", [Decimal("-1.99"), None], [-1, None]),
    ("DECIMAL(20, 0)", "INT", [Decimal(2**32 + 5)], [5]),
    ("DECIMAL(5, 2)", "DOUBLE", [Decimal("1.25")], [1.25]),
    # truths
    ("BOOLEAN", "INT", [True, False, None], [1, 0, None]),
    ("BOOLEAN", "DECIMAL(3, 1)", [True], [Decimal("1.0")]),
    ("INT", "BOOLEAN", [0, 2, None], [False, True, None]),
    ("STRING", "BOOLEAN", [" T", "no", "1", None], [True, False, True, None]),
    # texts
    ("INT", "STRING", [5, None], ["5", None]),
    ("BIGINT", "VARCHAR(2)", [12345], ["12"]),
    ("DECIMAL(10, 3)", "STRING", [Decimal("0.001")], ["0.001"]),
    ("BOOLEAN", "STRING", [True, False], ["true", "false"]),
    ("DATE", "STRING", [datetime.date(1999, 12, 31)], ["1999-12-31"]),
    ("TIME(3)", "STRING", [datetime.time(1, 2, 3, 120_000), datetime.time(1, 2, 3)], ["01:02:03.12", "01:02:03.0"]),
    ("TIME(0)", "STRING", [datetime.time(1, 2, 3)], ["01:02:03"]),
    ("TIMESTAMP(3)", "STRING", [D(2020, 1, 2, 3, 4, 5, 600_000)], ["2020-01-02 03:04:05.600"]),
    ("TIMESTAMP(0)", "STRING", [D(1969, 12, 31, 23, 59, 59)], ["1969-12-31 23:59:59"]),
    ("STRING", "VARCHAR(3)", ["abcd", "é", None], ["abc", "é", None]),
    ("STRING", "CHAR(3)", ["a", "abcd"], ["a  ", "abc"]),
    ("VARCHAR(3)", "STRING", ["abc"], ["abc"]),
    ("STRING", "BYTES", ["é"], ["é".encode()]),
    ("BYTES", "STRING", ["é".encode()], ["é"]),
    ("BYTES", "BINARY(3)", [b"a", b"abcd"], [b"a\0\0", b"abc"]),
    ("BYTES", "VARBINARY(2)", [b"abcd"], [b"ab"]),
    # reading texts
    ("STRING", "INT", [" 12 ", "-3.9", None], [12, -3, None]),
    ("STRING", "DOUBLE", ["1e3"], [1000.0]),
    ("STRING", "DECIMAL(4, 1)", ["1.25", "12345"], [Decimal("1.3"), None]),
    ("STRING", "DATE", ["2020-02-29", "2020-02-29 01:00:00"], [datetime.date(2020, 2, 29)] * 2),
    ("STRING", "TIME(3)", ["01:02:03.004"], [datetime.time(1, 2, 3, 4000)]),
    (
        "STRING",
        "TIMESTAMP(6)",
        ["2020-01-02", "1969-12-31T23:59:59.1234567"],
        [D(2020, 1, 2), D(1969, 12, 31, 23, 59, 59, 123_456)],
    ),
    # moments
    ("DATE", "TIMESTAMP(3)", [datetime.date(1969, 12, 31), None], [D(1969, 12, 31), None]),
    ("TIMESTAMP(6)", "DATE", [D(1969, 12, 31, 23), None], [datetime.date(1969, 12, 31), None]),
    ("TIMESTAMP(6)", "TIME(3)", [D(2020, 1, 1, 1, 2, 3, 4999)], [datetime.time(1, 2, 3, 4000)]),
    ("TIME(3)", "TIMESTAMP(3)", [datetime.time(1, 2, 3)], [D(1970, 1, 1, 1, 2, 3)]),
    ("TIMESTAMP(3)", "TIMESTAMP(6)", [D(2020, 1, 1, 0, 0, 0, 1000)], [D(2020, 1, 1, 0, 0, 0, 1000)]),
    ("TIMESTAMP(6)", "TIMESTAMP(3)", [D(2020, 1, 1, 0, 0, 0, 1999)], [D(2020, 1, 1, 0, 0, 0, 1000)]),
    ("TIMESTAMP(6)", "TIMESTAMP(5)", [D(2020, 1, 1, 0, 0, 0, 1999), None], [D(2020, 1, 1, 0, 0, 0, 1990), None]),
    ("TIMESTAMP(3)", "TIMESTAMP(0)", [D(1969, 12, 31, 23, 59, 58, 500_000)], [D(1969, 12, 31, 23, 59, 59)]),
    ("TIMESTAMP(3)", "BIGINT", [D(1970, 1, 1, 0, 0, 2, 900_000), D(1969, 12, 31, 23, 59, 58, 100_000)], [2, -1]),
    ("INT", "TIMESTAMP(0)", [5, None], [D(1970, 1, 1, 0, 0, 5), None]),
    ("BIGINT", "TIMESTAMP(6)", [-5], [D(1969, 12, 31, 23, 59, 55)]),
]


@pytest.mark.parametrize(("source", "target", "values", "wanted"), CASES)
def test_values_are_cast_as_paimon_casts_them(source: str, target: str, values: list[Any], wanted: list[Any]) -> None:
    assert cast(source, target, values) == wanted


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (-12.5, "-12.5"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (1.25e-10, "1.25E-10"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_floats_are_written_as_java_does(value: float, text: str) -> None:
    assert cast("DOUBLE", "STRING", [value]) == [text]


def test_floats_of_32_bits_have_their_own_digits() -> None:
    assert cast("FLOAT", "STRING", [0.1, 3.4e38]) == ["0.1", "3.4E38"]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_come_back_from_their_text(value: float) -> None:
    (text,) = cast("DOUBLE", "STRING", [value])
    assert float(text) == value
    assert cast("STRING", "DOUBLE", [text]) == [value]


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("INT", "x"),
        ("TINYINT", "128"),
        ("INT", ""),
        ("DOUBLE", "1,5"),
        ("BOOLEAN", "maybe"),
        ("DATE", "2020-13-01"),
        ("TIME(0)", "25:00:00"),
        ("TIMESTAMP(3)", "2020-01-01 24:00:00"),
        ("TIMESTAMP(3)", "yesterday"),
        ("DECIMAL(5, 2)", "?"),
    ],
)
def test_texts_that_say_nothing_are_refused(target: str, text: str) -> None:
    with pytest.raises(SchemaError, match="is not a valid"):
        cast("STRING", target, [text])


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("TIMESTAMP(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "STRING"),
        ("STRING", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
    ],
)
def test_what_depends_on_the_reader_is_refused(source: str, target: str) -> None:
    with pytest.raises(UnsupportedError, match="time zone"):
        plan_cast(type_of(source), type_of(target))


def test_zoned_timestamps_change_their_precision() -> None:
    zone = datetime.UTC
    zoned = [D(2020, 1, 1, 0, 0, 0, 1999, zone)]
    found = cast("TIMESTAMP(6) WITH LOCAL TIME ZONE", "TIMESTAMP(3) WITH LOCAL TIME ZONE", zoned)
    assert found == [D(2020, 1, 1, 0, 0, 0, 1000, zone)]


@pytest.mark.parametrize(("source", "target"), [("BOOLEAN", "DATE"), ("BYTES", "INT"), ("DATE", "INT")])
def test_other_changes_are_refused(source: str, target: str) -> None:
    with pytest.raises(UnsupportedError, match=f"from {source} to {target} are not supported"):
        plan_cast(type_of(source), type_of(target))
