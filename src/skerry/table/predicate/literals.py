"""Literals and values of columns: a literal, and its exact position among the values of a column's type.

A literal need not be a value of the column's type: `x > 3.5` on integers, a timestamp compared with a date, a number
beyond the type's range. `fit` returns the greatest value of the type that is not above the literal and whether the two
are equal; this makes every comparison exact, for any type.
"""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from skerry.errors import SchemaError
from skerry.table.rows.value_texts import (
    DAY_NS,
    format_date,
    format_time,
    format_timestamp,
    parse_time,
    parse_timestamp,
    parse_uuid,
)

__all__ = [
    "Family",
    "Fit",
    "Literal",
    "LiteralKind",
    "canonical_type",
    "family_of",
    "fit",
    "format_literal",
    "parse_number",
]

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
# Enough digits for the exact value of any double and of any decimal256; longer numbers are refused before they cost
# time.
_EXACT = decimal.Context(prec=1200, rounding=decimal.ROUND_FLOOR, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_MAX_DIGITS, _MAX_EXPONENT = 1100, 400

_NUMBER_TEXT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
_NON_FINITE = {"nan": "NaN", "inf": "Infinity", "infinity": "Infinity", "-inf": "-Infinity", "-infinity": "-Infinity"}


class LiteralKind(Enum):
    """The kind of a literal by itself, before a column gives it a type; the member's value names it in messages."""

    NULL = "NULL"
    BOOLEAN = "a boolean"
    NUMBER = "a number"
    STRING = "a string"
    BINARY = "a binary value"
    UUID = "a UUID"
    DATE = "a date"
    TIME = "a time"
    TIMESTAMP = "a timestamp"
    INSTANT = "a timestamp with time zone"
    INTERVAL = "an interval"


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant as written.

    Args:
        kind: What it is.
        value: None, bool, Decimal (NaN and infinities included), str, bytes (binary, uuid), or an int: days for dates,
            nanoseconds since midnight for times, nanoseconds since 1970-01-01 for timestamps (in UTC for instants),
            months, days and nanoseconds for intervals.
        text: Its spelling, for messages.
    """

    kind: LiteralKind
    value: Any
    text: str


class Family(Enum):
    """Column types that are compared with the same literals; the member's value names it in messages."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    FLOAT = "floating point"
    DECIMAL = "decimal"
    STRING = "string"
    BINARY = "binary"
    UUID = "uuid"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    INSTANT = "timestamp with time zone"


@dataclass(frozen=True, slots=True)
class Fit:
    """The position of a literal among the values of a type.

    Args:
        floor: The greatest value of the type that is not above the literal, None if all are above it.
        exact: Whether `floor` is the literal itself.
    """

    floor: Any
    exact: bool


def family_of(type: pa.DataType) -> Family | None:
    """The family of a column's type; None for nested and unknown types."""
    for test, family in _FAMILIES:
        if test(type):
            return family
    return None


_FAMILIES: tuple[tuple[Callable[[pa.DataType], bool], Family], ...] = (
    (pa.types.is_boolean, Family.BOOLEAN),
    (pa.types.is_integer, Family.INTEGER),
    (pa.types.is_floating, Family.FLOAT),
    (pa.types.is_decimal, Family.DECIMAL),
    (lambda t: pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t), Family.STRING),
    (lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_binary_view(t), Family.BINARY),
    (pa.types.is_fixed_size_binary, Family.BINARY),
    (lambda t: t == pa.uuid(), Family.UUID),
    (pa.types.is_date32, Family.DATE),
    (pa.types.is_time, Family.TIME),
    (lambda t: pa.types.is_timestamp(t) and t.tz is None, Family.TIMESTAMP),
    (pa.types.is_timestamp, Family.INSTANT),
)


def canonical_type(type: pa.DataType) -> pa.DataType:
    """The type with which values of a column are computed: one for all texts, one for all bytes, UTC for all zones."""
    match family_of(type):
        case Family.STRING:
            return pa.string()
        case Family.BINARY:
            return pa.binary()
        case Family.INSTANT:
            return pa.timestamp(type.unit, "UTC")
        case Family.FLOAT if pa.types.is_float16(type):
            return pa.float32()
        case _:
            return type


def fit(literal: Literal, type: pa.DataType, column: str, *, round_floats: bool = True) -> Fit:
    """Find a literal's position among the values of a column's type.

    Args:
        literal: Not NULL.
        type: The column's type.
        column: The column's name, for messages.
        round_floats: Whether a number compared with a floating-point column becomes its nearest value (SQL: the literal
            is converted to the column's type) or keeps its exact position (PyArrow compares in the wider type).

    Returns:
        The position; `floor` is NaN for NaN.

    Raises:
        SchemaError: The literal is of a kind that cannot be compared with the column.
    """
    family = family_of(type)
    if family is None:
        raise SchemaError(f"column {column} is of type {type} and can only be tested with IS [NOT] NULL")
    read = _READERS.get((family, literal.kind))
    try:
        if read is None:
            raise ValueError(_HINTS.get((family, literal.kind), f"it is {literal.kind.value}"))
        return _FITS[family](read(literal.value), type, round_floats)
    except ValueError as error:
        raise SchemaError(f"{literal.text} does not fit column {column} of type {type}: {error}") from None


# ---- text to values ----


def parse_number(text: str) -> Decimal:
    """Parse a decimal number exactly; ValueError if it is not one, or has more digits than any column type allows."""
    if text.lower() in _NON_FINITE:
        return Decimal(_NON_FINITE[text.lower()])
    if not _NUMBER_TEXT.fullmatch(text):
        raise ValueError("not a number")
    value = Decimal(text) if len(text) <= _MAX_DIGITS else None
    if value is None or (abs(value.adjusted()) > _MAX_EXPONENT and value):
        raise ValueError(f"numbers have at most {_MAX_DIGITS} digits and exponents up to {_MAX_EXPONENT}")
    return value or Decimal(0).copy_sign(value)


# ---- literals to the families they can be compared with ----


def _read_boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("booleans are TRUE and FALSE")
    return text.lower() == "true"


def _read_integer(text: str) -> Decimal:
    value = parse_number(text)
    if not value.is_finite() or value != value.to_integral_value():
        raise ValueError("not an integer; write it without quotes")
    return value


def _read_date(text: str) -> int:
    nanoseconds, zoned = parse_timestamp(text)
    if zoned:
        raise ValueError("dates have no time zone")
    return nanoseconds


def _read_timestamp(text: str) -> int:
    nanoseconds, zoned = parse_timestamp(text)
    if zoned:
        raise ValueError("the column has no time zone")
    return nanoseconds


def _same(value: Any) -> Any:
    return value


def _midnight(days: int) -> int:
    return days * DAY_NS


# A timestamp without zone that is compared with a column with zone is in UTC, and so is a date.
_READERS: dict[tuple[Family, LiteralKind], Callable[[Any], Any]] = {
    (Family.BOOLEAN, LiteralKind.BOOLEAN): _same,
    (Family.BOOLEAN, LiteralKind.STRING): _read_boolean,
    (Family.INTEGER, LiteralKind.NUMBER): _same,
    (Family.INTEGER, LiteralKind.STRING): _read_integer,
    (Family.FLOAT, LiteralKind.NUMBER): _same,
    (Family.FLOAT, LiteralKind.STRING): parse_number,
    (Family.DECIMAL, LiteralKind.NUMBER): _same,
    (Family.DECIMAL, LiteralKind.STRING): parse_number,
    (Family.STRING, LiteralKind.STRING): _same,
    (Family.BINARY, LiteralKind.BINARY): _same,
    (Family.UUID, LiteralKind.UUID): _same,
    (Family.UUID, LiteralKind.STRING): parse_uuid,
    (Family.UUID, LiteralKind.BINARY): _same,
    (Family.DATE, LiteralKind.DATE): _midnight,
    (Family.DATE, LiteralKind.TIMESTAMP): _same,
    (Family.DATE, LiteralKind.STRING): _read_date,
    (Family.TIME, LiteralKind.TIME): _same,
    (Family.TIME, LiteralKind.STRING): parse_time,
    (Family.TIMESTAMP, LiteralKind.TIMESTAMP): _same,
    (Family.TIMESTAMP, LiteralKind.DATE): _midnight,
    (Family.TIMESTAMP, LiteralKind.STRING): _read_timestamp,
    (Family.INSTANT, LiteralKind.INSTANT): _same,
    (Family.INSTANT, LiteralKind.TIMESTAMP): _same,
    (Family.INSTANT, LiteralKind.DATE): _midnight,
    (Family.INSTANT, LiteralKind.STRING): lambda text: parse_timestamp(text)[0],
}

_HINTS = {
    (Family.STRING, LiteralKind.NUMBER): "strings are written in quotes, '…'",
    (Family.BINARY, LiteralKind.STRING): "binary values are written X'…', in hexadecimal",
    (Family.TIMESTAMP, LiteralKind.INSTANT): "the column has no time zone",
    (Family.DATE, LiteralKind.INSTANT): "dates have no time zone",
}


# ---- values as a type holds them ----


def _fit_exact(value: Any, type: pa.DataType, round_floats: bool) -> Fit:
    return Fit(value, True)


def _fit_bytes(value: bytes, type: pa.DataType, round_floats: bool) -> Fit:
    if pa.types.is_fixed_size_binary(type):
        width = type.byte_width
    else:
        width = 16 if type == pa.uuid() else len(value)
    if len(value) != width:
        raise ValueError(f"it has {len(value)} bytes, not {width}")
    return Fit(value, True)


def _fit_integer(value: Decimal, type: pa.DataType, round_floats: bool) -> Fit:
    bits = type.bit_width
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if pa.types.is_unsigned_integer(type):
        low, high = 0, 2**bits - 1
    return _clamp(value, low, high, lambda number: int(number.to_integral_value(decimal.ROUND_FLOOR)))


def _fit_decimal(value: Decimal, type: pa.DataType, round_floats: bool) -> Fit:
    high = Decimal((0, (9,) * type.precision, -type.scale))
    quantum = Decimal((0, (1,), -type.scale))
    return _clamp(value, high.copy_negate(), high, lambda number: number.quantize(quantum, context=_EXACT))


def _clamp(value: Decimal, low: Any, high: Any, floor: Any) -> Fit:
    if value.is_nan():
        raise ValueError("only floating-point columns have NaN")
    if value < low:
        return Fit(None, False)
    if value > high:
        return Fit(high, False)
    placed = floor(value)
    return Fit(placed, placed == value)


def _fit_float(value: Decimal, type: pa.DataType, round_floats: bool) -> Fit:
    dtype: np.dtype[Any] = np.dtype(type.to_pandas_dtype())
    if not value.is_finite():
        return Fit(float(value), True)
    limits = np.finfo(dtype)
    greatest = float(limits.max)
    if value.copy_abs() > greatest:
        # the shortest text of the greatest value may be above it: values less than half a step above round to it
        rounds = round_floats and value.copy_abs() < int(greatest) + 2 ** (limits.maxexp - limits.nmant - 2)
        if value > 0:
            return Fit(greatest, rounds)
        return Fit(-greatest, True) if rounds else Fit(float("-inf"), False)
    nearest = _nearest(value, dtype)
    if round_floats or Decimal(float(nearest)) == value:
        return Fit(float(nearest), True)
    if Decimal(float(nearest)) > value:
        nearest = np.nextafter(nearest, dtype.type(float("-inf")))
    return Fit(float(nearest), False)


def _nearest(value: Decimal, dtype: np.dtype[Any]) -> Any:
    """The nearest value of a floating-point type; the even one of two equally near ones."""
    double = float(value)
    nearest = dtype.type(double)
    if float(nearest) == double or Decimal(double) == value:
        return nearest
    # the double may be halfway between two values when the number itself is not
    other = np.nextafter(nearest, dtype.type(math.inf if float(nearest) < double else -math.inf))
    exact = Fraction(value)
    return min((nearest, other), key=lambda candidate: abs(Fraction(float(candidate)) - exact))


def _fit_date(nanoseconds: int, type: pa.DataType, round_floats: bool) -> Fit:
    return _fit_units(nanoseconds, DAY_NS, -(2**31), 2**31 - 1)


def _fit_time(nanoseconds: int, type: pa.DataType, round_floats: bool) -> Fit:
    unit = _NANOSECONDS[type.unit]
    return _fit_units(nanoseconds, unit, 0, DAY_NS // unit - 1)


def _fit_timestamp(nanoseconds: int, type: pa.DataType, round_floats: bool) -> Fit:
    return _fit_units(nanoseconds, _NANOSECONDS[type.unit], _INT64_MIN, _INT64_MAX)


def _fit_units(nanoseconds: int, unit: int, low: int, high: int) -> Fit:
    floor, rest = divmod(nanoseconds, unit)
    if floor < low:
        return Fit(None, False)
    if floor > high:
        return Fit(high, False)
    return Fit(floor, rest == 0)


_FITS: dict[Family, Callable[[Any, pa.DataType, bool], Fit]] = {
    Family.BOOLEAN: _fit_exact,
    Family.INTEGER: _fit_integer,
    Family.FLOAT: _fit_float,
    Family.DECIMAL: _fit_decimal,
    Family.STRING: _fit_exact,
    Family.BINARY: _fit_bytes,
    Family.UUID: _fit_bytes,
    Family.DATE: _fit_date,
    Family.TIME: _fit_time,
    Family.TIMESTAMP: _fit_timestamp,
    Family.INSTANT: _fit_timestamp,
}


# ---- values to text ----


def format_literal(value: Any, type: pa.DataType) -> str:
    """Format a column's value as SQL text that parses as the same value.

    Args:
        value: A value of the type, in the form of predicates.
        type: The column's type.
    """
    family = family_of(type)
    if family is Family.BOOLEAN:
        return "TRUE" if value else "FALSE"
    if family is Family.STRING:
        return "'" + value.replace("'", "''") + "'"
    if family is Family.BINARY:
        return f"X'{value.hex()}'"
    if family is Family.UUID:
        text = value.hex()
        return f"'{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}'"
    if family is Family.DATE:
        return f"DATE '{format_date(value)}'"
    if family is Family.TIME:
        return f"TIME '{format_time(value * _NANOSECONDS[type.unit])}'"
    if family in (Family.TIMESTAMP, Family.INSTANT):
        name, zone = ("TIMESTAMP", "") if family is Family.TIMESTAMP else ("TIMESTAMPTZ", "+00:00")
        return f"{name} '{format_timestamp(value * _NANOSECONDS[type.unit])}{zone}'"
    if family is Family.FLOAT and value in (float("inf"), float("-inf")):
        return "'Infinity'" if value > 0 else "'-Infinity'"
    return f"{value:f}" if family is Family.DECIMAL else str(value)
