"""Expressions: values computed from the columns of a row, bound to these, with the type of every part.

Conditions that are not one of the plain tests of `skerry.table.predicate.nodes` hold where an expression is true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa

from skerry.errors import SchemaError
from skerry.table.predicate.casts import sql_type
from skerry.table.predicate.columns import Column
from skerry.table.predicate.kernels import KERNELS
from skerry.table.predicate.literals import Family, canonical_type, family_of, format_literal

__all__ = ["Apply", "Expression", "Known", "columns_in", "compute", "type_of"]


@dataclass(frozen=True, slots=True)
class Known:
    """A constant.

    Args:
        value: In the form of `skerry.table.predicate.literals` for the type, None for null; for an interval months,
            days and nanoseconds.
        type: Its Arrow type.
    """

    value: Any
    type: pa.DataType

    def __str__(self) -> str:
        if self.value is None:
            return "NULL" if pa.types.is_null(self.type) else f"CAST(NULL AS {sql_type(self.type)})"
        if pa.types.is_interval(self.type):
            months, days, nanoseconds = self.value
            return f"INTERVAL '{months} months {days} days {nanoseconds // 1000} microseconds'"
        if pa.types.is_duration(self.type):
            return f"INTERVAL '{self.value} microseconds'"
        family = family_of(self.type)
        if family is Family.FLOAT:
            double = f"DOUBLE '{self.value}'"
            return double if pa.types.is_float64(self.type) else f"CAST({double} AS {sql_type(self.type)})"
        text = format_literal(self.value, self.type)
        is_exact = family is Family.DECIMAL or (family is Family.INTEGER and not pa.types.is_int64(self.type))
        is_fine = pa.types.is_timestamp(self.type) and self.type.unit == "ns"
        return f"CAST({text} AS {sql_type(self.type)})" if is_exact or is_fine else text


@dataclass(frozen=True, slots=True)
class Apply:
    """A function of values.

    Args:
        function: Its name in `skerry.table.predicate.kernels`.
        arguments: What it is applied to.
        type: The type of the result.
    """

    function: str
    arguments: tuple[Expression, ...]
    type: pa.DataType

    def __str__(self) -> str:
        texts = [_enclosed(argument) for argument in self.arguments]
        function = _SPELLING.get(self.function, self.function)
        match function:
            case "not":
                return f"NOT {texts[0]}"
            case "negative":
                return f"- {texts[0]}"
            case "is null":
                return f"{texts[0]} IS NULL"
            case "cast":
                return f"CAST({self.arguments[0]} AS {sql_type(self.type)})"
            case "date_trunc":
                return f"date_trunc({self.arguments[1]}, {self.arguments[0]})"
            case "in":
                return f"{texts[0]} IN ({', '.join(texts[1:])})"
            case "like" | "ilike":
                escape = " ESCAPE '\\'" if "\\" in texts[1] else ""
                return f"{texts[0]} {function.upper()} {texts[1]}{escape}"
            case "case":
                pairs = zip(texts[:-1:2], texts[1:-1:2], strict=True)
                whens = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
                return f"CASE {whens} ELSE {texts[-1]} END"
        if function in _INFIX:
            return f" {function.upper()} ".join(texts)
        return f"{function}({', '.join(map(str, self.arguments))})"


Expression: TypeAlias = Column | Known | Apply

_INFIX: Final = frozenset({"=", "<>", "<", "<=", ">", ">=", "and", "or", "+", "-", "*", "/", "//", "%", "||"})
_SPELLING: Final = {"add_days": "+", "days_between": "-", "add_interval": "+", "subtract_interval": "-"}


def _enclosed(expression: Expression) -> str:
    text = str(expression)
    if isinstance(expression, Known | Column):
        return f"({text})" if text.startswith("-") else text
    named = expression.function == "cast" or text.startswith(f"{expression.function}(")
    return text if named else f"({text})"


def type_of(expression: Expression) -> pa.DataType:
    """The type of an expression's values: one for all texts, one for all strings of bytes."""
    return canonical_type(expression.type)


def columns_in(expression: Expression) -> Iterator[Column]:
    """The columns that an expression uses."""
    match expression:
        case Column():
            yield expression
        case Apply(_, arguments):
            for argument in arguments:
                yield from columns_in(argument)


def compute(expression: Expression, values: Callable[[Column], Any]) -> Any:
    """Compute an expression.

    Args:
        expression: The expression.
        values: Returns the values of a column, an array or a scalar.

    Returns:
        An array, or a scalar if it is the same for all rows, of the type `type_of(expression)`.

    Raises:
        SchemaError: The expression is not defined for a value, as in a division of whole numbers by zero, or its result
            does not fit the type.
    """
    try:
        return _compute(expression, values)
    except (pa.ArrowException, OverflowError) as error:
        raise SchemaError(f"{expression} cannot be computed for every row: {error}") from error


def _compute(expression: Expression, values: Callable[[Column], Any]) -> Any:
    match expression:
        case Column():
            return _canonical(values(expression))
        case Known(value, type_):
            return pa.scalar(value, type_.storage_type if isinstance(type_, pa.BaseExtensionType) else type_)
        case Apply("cast", (argument,), type_):
            return KERNELS["cast"](_compute(argument, values), type_)
        case Apply(function, arguments):
            return KERNELS[function](*(_compute(argument, values) for argument in arguments))


def _canonical(values: Any) -> Any:
    if isinstance(values, pa.Scalar):
        return values
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    wanted = canonical_type(values.type)
    if isinstance(values, pa.ExtensionArray):
        return values.storage
    return values if values.type == wanted else values.cast(wanted)
