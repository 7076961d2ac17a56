"""Conversion of Spark's filters to predicates, so that planning skips files and reading skips rows.

A filter is converted as a whole or not at all. Spark does not test converted filters again, so a filter is converted
only if the predicate is true for exactly the same rows: if Spark has the column's values unchanged, and the
constants reach Python unchanged, which not all do.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import datasource as spark

from skerry.errors import FormatError, SchemaError, UnsupportedError
from skerry.spark.old_calendar import MOVED_DAYS, MOVED_MOMENTS
from skerry.table.predicate import Operator, Predicate, columns_of
from skerry.table.predicate.binding import bind
from skerry.table.predicate.literals import Family, Literal, LiteralKind, family_of
from skerry.table.predicate.syntax import Call, Form, Name, Syntax, Value

__all__ = ["push_filters"]

_NS_PER_US: Final = 1000
_EPOCH: Final = datetime.datetime(1970, 1, 1)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
# PySpark computes decimals in a context of 28 digits: one with as many may have been rounded.
_EXACT_DIGITS: Final = 27
_AS_THEY_ARE: Final = frozenset(
    (
        Family.BOOLEAN,
        Family.INTEGER,
        Family.FLOAT,
        Family.DECIMAL,
        Family.STRING,
        Family.BINARY,
        Family.DATE,
        Family.TIMESTAMP,
        Family.INSTANT,
    )
)
_COMPARISONS: Final[dict[type[spark.Filter], Operator]] = {
    spark.EqualTo: Operator.EQ,
    spark.GreaterThan: Operator.GT,
    spark.GreaterThanOrEqual: Operator.GE,
    spark.LessThan: Operator.LT,
    spark.LessThanOrEqual: Operator.LE,
}


def push_filters(filters: Iterable[spark.Filter], schema: pa.Schema) -> tuple[list[Predicate], list[spark.Filter]]:
    """Convert the filters that can be expressed as predicates.

    Args:
        filters: Conditions that all must hold.
        schema: The table's columns.

    Returns:
        Predicates, and the filters that were not converted.
    """
    taken: list[Predicate] = []
    left: list[spark.Filter] = []
    for found in filters:
        predicate = _predicate(found, schema)
        if predicate is None:
            left.append(found)
        else:
            taken.append(predicate)
    return taken, left


def _predicate(found: spark.Filter, schema: pa.Schema) -> Predicate | None:
    try:
        predicate = bind(_syntax(found), schema)
    except (FormatError, SchemaError, UnsupportedError):
        return None
    return predicate if all(_is_as_it_is(column.type) for column in columns_of(predicate)) else None


def _is_as_it_is(type_: pa.DataType) -> bool:
    """Whether Spark has the values of a column unchanged: it has no nanoseconds, times of day, or UUIDs."""
    return family_of(type_) in _AS_THEY_ARE and not (pa.types.is_timestamp(type_) and type_.unit == "ns")


# Filters -------------------------------------------------------------------------------------------------------------


def _syntax(found: spark.Filter) -> Syntax:
    """The syntax tree of a filter.

    Raises:
        UnsupportedError: It cannot be expressed.
    """
    say = _SAY.get(type(found))
    if say is None:
        raise UnsupportedError(f"filter {type(found).__name__} is not taken")
    return say(found)


def _name(path: tuple[str, ...]) -> Name:
    return Name(path, (True,) * len(path))


def _compare(found: Any) -> Syntax:
    return Call(_COMPARISONS[type(found)], (_name(found.attribute), _literal(found.value)))


def _equal_null_safe(found: spark.EqualNullSafe) -> Syntax:
    is_null = Call(Form.IS_NULL, (_name(found.attribute),))
    if found.value is None:
        return is_null
    equal = Call(Operator.EQ, (_name(found.attribute), _literal(found.value)))
    return Call(Form.AND, (Call(Form.NOT, (is_null,)), equal))  # a null is unequal, not unknown


def _in(found: spark.In) -> Syntax:
    return Call(Form.IN, (_name(found.attribute), *map(_literal, found.value)))


def _is_null(found: spark.IsNull) -> Syntax:
    return Call(Form.IS_NULL, (_name(found.attribute),))


def _is_not_null(found: spark.IsNotNull) -> Syntax:
    return Call(Form.NOT, (Call(Form.IS_NULL, (_name(found.attribute),)),))


def _not(found: spark.Not) -> Syntax:
    return Call(Form.NOT, (_syntax(found.child),))


def _starts_with(found: spark.StringStartsWith) -> Syntax:
    return Call(Form.STARTS_WITH, (_name(found.attribute), _literal(found.value)))


_SAY: Final[dict[type[spark.Filter], Callable[[Any], Syntax]]] = {
    **dict.fromkeys(_COMPARISONS, _compare),
    spark.EqualNullSafe: _equal_null_safe,
    spark.In: _in,
    spark.IsNull: _is_null,
    spark.IsNotNull: _is_not_null,
    spark.Not: _not,
    spark.StringStartsWith: _starts_with,
}


# Values --------------------------------------------------------------------------------------------------------------


def _literal(value: Any) -> Value:
    kind, own = _own(value)
    return Value(Literal(kind, own, repr(value)))


def _own(value: Any) -> tuple[LiteralKind, Any]:
    """A Python value in the form of literals.

    Raises:
        UnsupportedError: It has another type.
    """
    match value:
        case None:
            return LiteralKind.NULL, None
        case bool():
            return LiteralKind.BOOLEAN, value
        case Decimal() if len(value.as_tuple().digits) > _EXACT_DIGITS:
            raise UnsupportedError("a decimal that may be rounded is not taken")
        case int() | float() | Decimal():
            return LiteralKind.NUMBER, Decimal(value)
        case str():
            return LiteralKind.STRING, value
        case bytes() | bytearray():
            return LiteralKind.BINARY, bytes(value)
        case datetime.datetime():
            kind = LiteralKind.TIMESTAMP if value.tzinfo is None else LiteralKind.INSTANT
            moment = value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)
            if kind is LiteralKind.INSTANT and moment < MOVED_MOMENTS:
                raise UnsupportedError("a point in time that another calendar may have moved is not taken")
            return kind, (moment - _EPOCH) // _MICROSECOND * _NS_PER_US
        case datetime.date() if MOVED_DAYS[0] <= value <= MOVED_DAYS[1]:
            raise UnsupportedError("a day that another calendar may have moved is not taken")
        case datetime.date():
            return LiteralKind.DATE, (value - _EPOCH.date()).days
    raise UnsupportedError(f"a filter's value of type {type(value).__name__} is not taken")
