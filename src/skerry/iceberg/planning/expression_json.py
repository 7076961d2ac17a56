"""Conditions as Iceberg's expressions in JSON, for servers that plan scans.

An expression is true wherever its condition is, and may be true elsewhere: what Iceberg cannot express is left out, and
where its order of values differs from ours, the expression is wider. Iceberg Java compares -0.0 as less than 0.0, and
the bounds by which it drops files leave NaN out, which here is greater than every other value.

Spec: Iceberg REST specification; Iceberg spec, JSON single-value serialization.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, TypeAlias

from skerry.errors import SchemaError
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.single_values import value_to_json
from skerry.iceberg.metadata.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)
from skerry.table.predicate import (
    And,
    Column,
    Comparison,
    Constant,
    Holds,
    In,
    IsMinusZero,
    IsNaN,
    IsNull,
    Operator,
    Or,
    Predicate,
    StartsWith,
)

__all__ = ["expression_of"]

Expression: TypeAlias = Mapping[str, Any] | bool

_OPERATORS: Final = {
    Operator.EQ: "eq",
    Operator.NE: "not-eq",
    Operator.LT: "lt",
    Operator.LE: "lt-eq",
    Operator.GT: "gt",
    Operator.GE: "gt-eq",
}
_DATED: Final = (DateType, TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)
_MAX_TEXTS: Final = 1000
_FIRST_SURROGATE: Final = 0xD800
_AFTER_SURROGATES: Final = 0xE000
_PLAIN_YEAR: Final = re.compile(r"\d{4}-")
_ABOVE: Final = (Operator.GT, Operator.GE, Operator.NE)


class _InexpressibleError(Exception):
    """A condition that Iceberg's expressions cannot express."""


def expression_of(predicate: Predicate, schema: Schema, is_known: Callable[[int], bool]) -> Expression:
    """The expression of a condition.

    Args:
        predicate: The condition.
        schema: The schema that it is bound to.
        is_known: Whether the server knows a column, by field id, under the name that the schema gives it.

    Returns:
        Its JSON in Python objects; `True` if nothing of it can be expressed.
    """

    def convert(node: Predicate) -> Expression:
        match node:
            case Constant(value):
                return value
            case And(children):
                return _joined("and", [part for part in map(convert, children) if part is not True])
            case Or(children):
                parts = [convert(child) for child in children]
                return True if True in parts else _joined("or", parts)
            case Holds():
                return True
            case _:
                try:
                    return _leaf(node, *_column(node.column, schema, is_known))
                except _InexpressibleError:
                    return True

    return convert(predicate)


def _joined(kind: str, parts: list[Expression]) -> Expression:
    """A balanced tree: JSON that is nested a thousand deep is refused by many parsers."""
    if not parts:
        return kind == "and"
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return {"type": kind, "left": _joined(kind, parts[:half]), "right": _joined(kind, parts[half:])}


def _column(column: Column, schema: Schema, is_known: Callable[[int], bool]) -> tuple[str, IcebergType]:
    name = schema.find_column_name(column.field_id)
    if column.inside is not None or name is None or not is_known(column.field_id):
        raise _InexpressibleError
    try:
        type_ = schema.find_type(column.field_id)
    except SchemaError:
        raise _InexpressibleError from None
    if not type_.is_primitive:
        raise _InexpressibleError
    return name, type_


def _leaf(node: Any, term: str, type_: IcebergType) -> Expression:
    """The expression of a condition on one column."""
    is_float = isinstance(type_, FloatType | DoubleType)
    match node:
        case Comparison(operator=operator, value=value):
            if is_float and value == 0:
                return _of_zero(operator, term)
            found: Expression = {"type": _OPERATORS[operator], "term": term, "value": _literal(type_, value)}
            return _or_nan(found, term) if is_float and operator in _ABOVE else found
        case In(values=values, negated=negated) if isinstance(type_, StringType):
            return _of_texts(term, values, negated=negated)
        case In(values=values, negated=negated):
            wanted: Iterable[Any] = values
            if is_float and 0 in values:
                wanted = (*(value for value in values if value), -0.0, 0.0)
            literals = [_literal(type_, value) for value in wanted]
            found = {"type": "not-in" if negated else "in", "term": term, "values": literals}
            return _or_nan(found, term) if is_float and negated else found
        case StartsWith(prefix=prefix, negated=negated) if isinstance(type_, StringType):
            return {"type": "not-null", "term": term} if negated else _of_prefix(term, prefix)
        case IsNull(column=column, negated=negated):
            if len(column.path) > 1 and not negated:
                raise _InexpressibleError  # a required field of a struct that is null: Iceberg Java finds none
            return {"type": "not-null" if negated else "is-null", "term": term}
        case IsNaN(negated=negated) if is_float:
            return {"type": "not-nan" if negated else "is-nan", "term": term}
        case IsMinusZero(negated=False) if is_float:
            return _range(term, -0.0, 0.0)
        case _:
            raise _InexpressibleError


def _of_texts(term: str, values: Sequence[str], *, negated: bool) -> Expression:
    """A set of texts, one by one: looking up a null partition in such a set makes Iceberg Java (1.11) fail."""
    if len(values) > _MAX_TEXTS:
        return {"type": "not-null", "term": term} if negated else _range(term, values[0], values[-1])
    kind = "not-eq" if negated else "eq"
    return _joined("and" if negated else "or", [{"type": kind, "term": term, "value": value} for value in values])


def _of_prefix(term: str, prefix: str) -> Expression:
    """Texts from a prefix up to the next one; `starts-with` of a null partition makes Iceberg Java (1.11) fail."""
    parts: list[Expression] = [{"type": "gt-eq", "term": term, "value": prefix}]
    stem = prefix.rstrip(chr(sys.maxunicode))
    if stem:
        following = ord(stem[-1]) + 1
        last = chr(_AFTER_SURROGATES if following == _FIRST_SURROGATE else following)
        parts.append({"type": "lt", "term": term, "value": stem[:-1] + last})
    return _joined("and", parts)


def _of_zero(operator: Operator, term: str) -> Expression:
    """A comparison with zero, of either sign."""
    match operator:
        case Operator.EQ:
            return _range(term, -0.0, 0.0)
        case Operator.NE:
            return {"type": "not-null", "term": term}
        case Operator.LT | Operator.LE:
            return {"type": "lt-eq", "term": term, "value": 0.0}
        case _:
            return _or_nan({"type": "gt-eq", "term": term, "value": -0.0}, term)


def _range(term: str, low: Any, high: Any) -> Expression:
    bounds: list[Expression] = [
        {"type": "gt-eq", "term": term, "value": low},
        {"type": "lt-eq", "term": term, "value": high},
    ]
    return _joined("and", bounds)


def _or_nan(expression: Expression, term: str) -> Expression:
    return _joined("or", [expression, {"type": "is-nan", "term": term}])


def _literal(type_: IcebergType, value: Any) -> Any:
    """A value as servers read it that know only the literal, and not yet its column."""
    if isinstance(type_, BinaryType | FixedType):
        raise _InexpressibleError  # Iceberg Java up to 1.11 refuses hexadecimal digits
    if isinstance(type_, FloatType):
        type_ = DoubleType()  # exact: the shortest text of the greatest value is above it
    try:
        found = value_to_json(type_, value)
    except ValueError:
        raise _InexpressibleError from None
    if isinstance(type_, _DATED) and not _PLAIN_YEAR.match(found):
        raise _InexpressibleError
    if isinstance(type_, DecimalType) and isinstance(value, Decimal) and value.as_tuple().exponent != -type_.scale:
        raise _InexpressibleError
    if isinstance(type_, BooleanType):
        return bool(found)
    return found
