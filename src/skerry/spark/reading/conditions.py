"""Conversion of a table's predicate to a condition of Spark: both order NaN above all other values."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf

from skerry.errors import UnsupportedError
from skerry.spark.schema import to_spark_type
from skerry.table.predicate import (
    And,
    Column,
    Comparison,
    Constant,
    Holds,
    In,
    IntersectsExtent,
    IsMinusZero,
    IsNaN,
    IsNull,
    Operator,
    Or,
    Predicate,
    StartsWith,
)

__all__ = ["can_test", "spark_column", "to_condition"]

_COMPARE: dict[Operator, Callable[[Any, Any], Any]] = {
    Operator.EQ: operator.eq,
    Operator.NE: operator.ne,
    Operator.LT: operator.lt,
    Operator.LE: operator.le,
    Operator.GT: operator.gt,
    Operator.GE: operator.ge,
}
_US_PER_DAY = 86_400_000_000


def to_condition(predicate: Predicate) -> SparkColumn:
    """The condition that is true for exactly the rows of a predicate.

    Args:
        predicate: Bound to columns of types that Spark has.
    """
    match predicate:
        case Constant(value):
            return sf.lit(value)
        case And(children):
            return functools.reduce(operator.and_, map(to_condition, children))
        case Or(children):
            return functools.reduce(operator.or_, map(to_condition, children))
        case Comparison(column, comparison, value):
            return _COMPARE[comparison](_column(column), _literal(column.type, value))
        case In(column, values, negated):
            return _negated(_column(column).isin([_literal(column.type, value) for value in values]), negated)
        case StartsWith(column, prefix, negated):
            return _negated(_column(column).startswith(sf.lit(prefix)), negated)
        case IntersectsExtent() | Holds():
            raise UnsupportedError(f"Spark cannot test {predicate}")
        case IsNull(column, negated):
            return _column(column).isNotNull() if negated else _column(column).isNull()
        case IsNaN(column, negated):
            found = _column(column)
            return found.isNotNull() & ~sf.isnan(found) if negated else sf.isnan(found)
        case IsMinusZero(column, negated):
            return _negated(_column(column).cast("string") == "-0.0", negated)


def can_test(predicate: Predicate) -> bool:
    """Whether Spark tests rows as a predicate means it; computed values it would compute in its own way."""
    match predicate:
        case And(children) | Or(children):
            return all(map(can_test, children))
        case _:
            return not isinstance(predicate, IntersectsExtent | Holds)


def spark_column(*path: str) -> SparkColumn:
    """A column, or a field of a struct, by its names."""
    return sf.col(".".join("`" + name.replace("`", "``") + "`" for name in path))


def _column(column: Column) -> SparkColumn:
    return spark_column(*column.path)


def _negated(condition: SparkColumn, negated: bool) -> SparkColumn:
    return ~condition if negated else condition


def _literal(type_: pa.DataType, value: Any) -> SparkColumn:
    """A physical value as a constant of the column's own type, which Spark can pass to its Parquet reader."""
    if pa.types.is_date(type_):
        return sf.date_from_unix_date(sf.lit(value))
    if pa.types.is_timestamp(type_):
        if type_.tz is not None:
            return sf.timestamp_micros(sf.lit(value))
        days, rest = divmod(value, _US_PER_DAY)
        since = sf.make_dt_interval(sf.lit(days), sf.lit(0), sf.lit(0), sf.lit(Decimal(rest).scaleb(-6)))
        return sf.lit("1970-01-01 00:00:00").cast("timestamp_ntz") + since
    if isinstance(value, bytes):
        return sf.lit(bytearray(value))
    return sf.lit(value).cast(to_spark_type(type_))
