"""The types of constants, and the type in which values of two types are compared or computed."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

import pyarrow as pa

from skerry.table.predicate.expressions import Known
from skerry.table.predicate.literals import Family, Literal, LiteralKind, family_of

__all__ = ["MOMENTS", "MOST_DIGITS", "as_decimal", "common_type", "constant_of", "decimal_type", "widened"]

MOMENTS: Final = (Family.DATE, Family.TIMESTAMP, Family.INSTANT)
"""Types of points in time."""
MOST_DIGITS: Final = 76
"""The most digits of a decimal."""
_NUMBERS: Final = frozenset({Family.INTEGER, Family.FLOAT, Family.DECIMAL})
_INT: Final = pa.int64()
_DOUBLE: Final = pa.float64()
_TYPES: Final[Mapping[LiteralKind, pa.DataType]] = {
    LiteralKind.BOOLEAN: pa.bool_(),
    LiteralKind.STRING: pa.string(),
    LiteralKind.BINARY: pa.binary(),
    LiteralKind.UUID: pa.uuid(),
    LiteralKind.DATE: pa.date32(),
    LiteralKind.INTERVAL: pa.month_day_nano_interval(),
}


def constant_of(literal: Literal) -> Known:
    """A constant of the type that its spelling has."""
    value = literal.value
    match literal.kind:
        case LiteralKind.NUMBER:
            return _number_of(value, literal.text)
        case LiteralKind.TIME | LiteralKind.TIMESTAMP | LiteralKind.INSTANT:
            unit, ticks = ("us", value // 1000) if value % 1000 == 0 else ("ns", value)
            if literal.kind is LiteralKind.TIME:
                return Known(ticks, pa.time64(unit))
            return Known(ticks, pa.timestamp(unit, "UTC" if literal.kind is LiteralKind.INSTANT else None))
    return Known(value, _TYPES[literal.kind])


def _number_of(value: Decimal, text: str) -> Known:
    spelled = text.upper()
    digits = max(len(value.as_tuple().digits), -int(value.as_tuple().exponent)) if value.is_finite() else 99
    if "DOUBLE" in spelled or ("E" in spelled and "DECIMAL" not in spelled) or digits > MOST_DIGITS:
        return Known(float(value), _DOUBLE)
    if "." not in spelled and "DECIMAL" not in spelled and -(2**63) <= value < 2**63:
        return Known(int(value), _INT)
    scale = max(-int(value.as_tuple().exponent), 0)
    whole = max(value.adjusted() + 1, 0)
    return Known(
        value.quantize(Decimal((0, (1,), -scale))) if whole + scale <= 28 else value, decimal_type(whole + scale, scale)
    )


def decimal_type(precision: int, scale: int) -> pa.DataType:
    """The decimal type of so many digits."""
    precision = max(precision, 1)
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)


def as_decimal(type: pa.DataType) -> pa.DataType:
    """The type of decimals that holds the numbers of a type."""
    return type if pa.types.is_decimal(type) else pa.decimal128(19, 0)


def widened(type: pa.DataType) -> pa.DataType:
    """A type of decimals with room for results of more than 38 digits."""
    return pa.decimal256(type.precision, type.scale)


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type in which two values are compared; None if they cannot be."""
    if left == right:
        return left
    families = family_of(left), family_of(right)
    if set(families) <= _NUMBERS:
        return _common_number(left, right)
    if None not in families and set(families) <= set(MOMENTS):
        unit = "ns" if "ns" in (getattr(left, "unit", ""), getattr(right, "unit", "")) else "us"
        return pa.timestamp(unit, "UTC" if Family.INSTANT in families else None)
    if families == (Family.TIME, Family.TIME):
        return pa.time64("ns" if "ns" in (left.unit, right.unit) else "us")
    spans = [pa.types.is_duration(each) for each in (left, right)]
    if any(spans) and all(
        is_span or pa.types.is_interval(each) for is_span, each in zip(spans, (left, right), strict=True)
    ):
        return left if spans[0] else right
    return None


def _common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    families = {family_of(left), family_of(right)}
    if families == {Family.INTEGER}:
        return pa.decimal128(20, 0) if any(map(pa.types.is_uint64, (left, right))) else _INT
    if Family.FLOAT in families:
        return _DOUBLE if any(map(pa.types.is_float64, (left, right))) else pa.float32()
    left, right = as_decimal(left), as_decimal(right)
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return decimal_type(min(whole + scale, MOST_DIGITS), scale)
