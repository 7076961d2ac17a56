"""What an expression implies for single columns, so that it can be decided by bounds.

An expression that only rises, or only falls, with one column is beyond a constant exactly where the column is beyond
one of its own, which bisection finds: `date_trunc('month', ts) >= '2024-02-10'` holds from March on. Where nothing that
exact can be said, the implied condition stands beside the expression, and excludes what it can.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skerry.errors import SchemaError
from skerry.table.predicate.columns import Column, Operator
from skerry.table.predicate.expressions import Apply, Expression, Known, columns_in, compute, type_of
from skerry.table.predicate.kernels import KERNELS, like_parts
from skerry.table.predicate.literals import Family, canonical_type, family_of
from skerry.table.predicate.nodes import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    Comparison,
    Constant,
    Holds,
    IsNaN,
    IsNull,
    Predicate,
    StartsWith,
    conjunction,
    disjunction,
)

__all__ = ["predicate_of"]

_OPERATORS: Final = {operator.value: operator for operator in Operator}
_RISING: Final = frozenset(
    {"cast", "floor", "ceil", "round", "year", "epoch", "date_trunc", "add_interval", "subtract_interval"}
)
_ORDERED: Final = frozenset(
    {Family.INTEGER, Family.FLOAT, Family.DECIMAL, Family.DATE, Family.TIME, Family.TIMESTAMP, Family.INSTANT}
)
_LENIENT: Final = frozenset({"coalesce", "case", "greatest", "least", "concat", "is null", "nullif"})
"""Functions of which a null argument does not make the result null, or whose result is null without one."""
_YEARS: Final = 9_000
"""Calendars are computed up to so many years from 1970."""
_PREFIX_OF_REGEXP: Final = re.compile(r"\^([A-Za-z0-9 _/:,;@#%&='\"<>-]+)(?![*?{+|])")
_MOST_RANGES: Final = 20


def predicate_of(expression: Expression, *, negated: bool = False) -> Predicate:
    """The condition that a boolean expression is true.

    Args:
        expression: The expression.
        negated: Whether it must be false instead; a null is neither.

    Returns:
        Plain tests of columns if they say exactly this; otherwise the expression, with the tests that follow from it.
    """
    found = _implied(expression, negated)
    if found.exact:
        return found.predicate
    held = Apply("not", (expression,), pa.bool_()) if negated else expression
    return conjunction([found.predicate, Holds(held)])


@dataclass(frozen=True, slots=True)
class _Implied:
    """A condition that is true wherever an expression is; `exact`: and nowhere else."""

    predicate: Predicate
    exact: bool


def _implied(expression: Expression, negated: bool) -> _Implied:
    match expression:
        case Known(None | bool() as value):
            return _Implied(Constant(value is not None and value is not negated), True)
        case Column():
            return _Implied(Comparison(expression, Operator.EQ, not negated), True)
        case Apply("not", (inner,)):
            return _implied(inner, not negated)
        case Apply("and" | "or" as name, parts):
            join = conjunction if (name == "and") is not negated else disjunction
            found = [_implied(part, negated) for part in parts]
            return _Implied(join([each.predicate for each in found]), all(each.exact for each in found))
        case Apply("is null", (Column() as column,)):
            return _Implied(IsNull(column, negated), True)
        case Apply("isnan", (Column() as column,)):
            return _Implied(IsNaN(column, negated), True)
        case Apply("in", (value, *members)) if not negated and len(members) <= _MOST_RANGES:
            either = Apply("or", tuple(Apply("=", (value, member), pa.bool_()) for member in members), pa.bool_())
            found_in = _implied(either, negated)
            return found_in if found_in.exact else _Implied(_present(expression), False)
        case Apply(name, (left, right)) if name in _OPERATORS:
            return _compared(expression, left, _OPERATORS[name], right, negated)
        case Apply(name, (Column() as column, Known(str(pattern)), *_)) if not negated:
            return _Implied(_of_text(name, column, pattern, expression), False)
    return _Implied(_present(expression), False)


def _compared(whole: Expression, left: Expression, operator: Operator, right: Expression, negated: bool) -> _Implied:
    if isinstance(left, Known):
        left, right, operator = right, left, operator.flipped
    operator = operator.negated if negated else operator
    if isinstance(right, Known):
        if isinstance(left, Column) and _has_values_of(left, right):
            return _Implied(Comparison(left, operator, right.value), True)
        found = _range(left, operator, right)
        if found is not None:
            return _Implied(found, True)
        if operator is Operator.EQ and isinstance(left, Apply) and isinstance(right.value, str) and right.value:
            match left:
                case Apply("left", (Column() as column, Known(int(count)))) if len(right.value) == count > 0:
                    return _Implied(StartsWith(column, right.value), True)
                case Apply("substring", (Column() as column, Known(1), Known(int(count)))) if len(right.value) == count:
                    return _Implied(StartsWith(column, right.value), True)
    return _Implied(_present(whole), False)


def _has_values_of(column: Column, constant: Known) -> bool:
    """Whether a constant is a value of a column's type, in the form of plain comparisons."""
    if constant.value is None or type_of(column) != constant.type:
        return False
    return family_of(column.type) is not Family.FLOAT and not pa.types.is_fixed_size_binary(column.type)


def _present(expression: Expression) -> Predicate:
    """An expression that is null where a column is null cannot be true or false there."""
    if _is_lenient(expression):
        return ALWAYS_TRUE
    columns = dict.fromkeys(columns_in(expression))
    return conjunction(IsNull(column, negated=True) for column in columns)


def _is_lenient(expression: Expression) -> bool:
    """Whether a null column may give another result than null; `and` and `or` may, too."""
    if not isinstance(expression, Apply):
        return False
    return (
        expression.function in _LENIENT
        or expression.function in ("and", "or")
        or any(map(_is_lenient, expression.arguments))
    )


def _of_text(name: str, column: Column, pattern: str, expression: Expression) -> Predicate:
    prefix: str | None = None
    if name == "starts_with":
        prefix = pattern
    elif name == "like":
        prefix = like_parts(pattern)[0]
    elif name == "regexp_matches" and isinstance(expression, Apply) and len(expression.arguments) == 2:
        found = _PREFIX_OF_REGEXP.match(pattern) if "|" not in pattern else None
        # the match gives characters back until what follows it cannot repeat or leave out the last of them
        prefix = None if found is None else found[1]
    return StartsWith(column, prefix) if prefix else _present(expression)


# ---- ranges ----


def _range(expression: Expression, operator: Operator, bound: Known) -> Predicate | None:
    """Where an expression of one column compares with a constant, as a range of the column; None if it is not one."""
    columns = list(columns_in(expression))
    if len(columns) != 1 or bound.value is None or (isinstance(bound.value, float) and not np.isfinite(bound.value)):
        return None
    (column,) = columns
    rises = _rises(expression)
    domain = _domain_of(column)
    if rises is None or domain is None or column.inside is not None:
        return None
    edge = _Edge(expression, bound, column, domain, rises)
    match operator:
        case Operator.GE:
            return edge.beyond(">=")
        case Operator.GT:
            return edge.beyond(">")
        case Operator.LT:
            return edge.short_of(">=")
        case Operator.LE:
            return edge.short_of(">")
        case Operator.EQ:
            return conjunction([edge.beyond(">="), edge.short_of(">")])
        case Operator.NE:
            return disjunction([edge.short_of(">="), edge.beyond(">")])


def _rises(expression: Expression) -> bool | None:
    """Whether an expression never falls (True) or never rises (False) as its column rises; None if neither is known."""
    match expression:
        case Column(_, _, type_):
            return True if family_of(type_) in _ORDERED else None
        case Apply("add_interval" | "subtract_interval", (inner, Known((months, _, _)))) if months:
            return _rises(inner) if _is_midnight(inner) else None  # a month has days that its neighbours lack
        case Apply(name, (inner, *_)) if name in _RISING:
            if family_of(type_of(inner)) not in _ORDERED or family_of(expression.type) not in _ORDERED:
                return None
            # a time of day begins again each day
            is_clock = family_of(expression.type) is Family.TIME and family_of(type_of(inner)) is not Family.TIME
            return None if is_clock else _rises(inner)
        case Apply("negative", (inner,)):
            return _turned(_rises(inner))
        case Apply("+" | "add_days", (inner, Known() as other)) | Apply("+", (Known() as other, inner)):
            return _rises(inner) if _is_finite(other) else None
        case Apply("-" | "days_between", (inner, Known() as other)):
            return _rises(inner) if _is_finite(other) else None
        case Apply("-" | "days_between", (Known() as other, inner)):
            return _turned(_rises(inner)) if _is_finite(other) else None
        case Apply("*" | "/" | "//", (inner, Known(value) as other)) | Apply("*", (Known(value) as other, inner)):
            if not _is_finite(other) or value == 0:
                return None
            return _rises(inner) if value > 0 else _turned(_rises(inner))
    return None


def _is_midnight(expression: Expression) -> bool:
    return (
        isinstance(expression, Apply)
        and expression.function == "cast"
        and (family_of(type_of(expression.arguments[0])) is Family.DATE)
    )


def _turned(rises: bool | None) -> bool | None:
    return None if rises is None else not rises


def _is_finite(constant: Known) -> bool:
    return constant.value is not None and (not isinstance(constant.value, float) or bool(np.isfinite(constant.value)))


@dataclass(frozen=True, slots=True)
class _Domain:
    """The values of a type by whole numbers in the same order.

    Args:
        low: The number of the least value.
        high: That of the greatest.
        middle: That of a value for which every function is defined, if it is for any.
        value: The value of a number.
    """

    low: int
    high: int
    middle: int
    value: Callable[[int], Any]


@dataclass(frozen=True, slots=True)
class _Edge:
    """Where an expression passes a constant."""

    expression: Expression
    bound: Known
    column: Column
    domain: _Domain
    rises: bool

    def beyond(self, test: str) -> Predicate:
        """The expression is at least the constant (`>=`), or above it (`>`)."""
        value = self._first(test, self.rises)
        nan = IsNaN(self.column)
        if self.rises:
            if value is None:
                return nan if self._has_nan else ALWAYS_FALSE
            return self._from(value)
        below = self._present if value is None else Comparison(self.column, Operator.LT, value)
        if value is not None and value == self.domain.value(self.domain.low):
            below = ALWAYS_FALSE
        return disjunction([below, nan]) if self._has_nan else below

    def short_of(self, test: str) -> Predicate:
        """The expression is below the constant (`>=` is false), or at most the constant (`>` is false)."""
        value = self._first(test, self.rises)
        number = IsNaN(self.column, negated=True) if self._has_nan else self._present
        if self.rises:
            return number if value is None else Comparison(self.column, Operator.LT, value)
        if value is None:
            return ALWAYS_FALSE
        return conjunction([self._from(value), number]) if self._has_nan else self._from(value)

    def _from(self, value: Any) -> Predicate:
        if value == self.domain.value(self.domain.low):
            return self._present
        return Comparison(self.column, Operator.GE, value)

    @property
    def _present(self) -> Predicate:
        return IsNull(self.column, negated=True)

    @property
    def _has_nan(self) -> bool:
        return family_of(self.column.type) is Family.FLOAT

    def _first(self, test: str, wanted: bool) -> Any:
        """The least value of the column for which the test has the wanted answer; None if there is none."""
        low, high = self.domain.low, self.domain.high + 1
        while low < high:
            middle = (low + high) // 2
            if self._answer(test, middle) is wanted:
                high = middle
            else:
                low = middle + 1
        if low > self.domain.high:
            return None
        value = self.domain.value(low)
        return 0.0 if value == 0 and self._has_nan else value

    def _answer(self, test: str, number: int) -> bool:
        value = pa.scalar(self.domain.value(number), canonical_type(self.column.type))
        try:
            result = compute(self.expression, lambda column: value)
        except SchemaError:  # beyond the type of the result: above the constant at one end, and below it at the other
            return (number > self.domain.middle) is self.rises
        bound = compute(self.bound, lambda column: value)
        return bool(KERNELS[test](result, bound).as_py())


def _domain_of(column: Column) -> _Domain | None:
    type_ = canonical_type(column.type)
    match family_of(type_):
        case Family.INTEGER:
            low = 0 if pa.types.is_unsigned_integer(type_) else -(1 << (type_.bit_width - 1))
            return _Domain(low, low + (1 << type_.bit_width) - 1, 0, int)
        case Family.DECIMAL:
            most = 10**type_.precision - 1
            return _Domain(-most, most, 0, lambda number: _unscaled(number, type_.scale))
        case Family.DATE:
            return _Domain(-_YEARS * 365, _YEARS * 365, 0, int)
        case Family.TIMESTAMP | Family.INSTANT:
            per_year = 365 * 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[type_.unit]
            most = min(_YEARS * per_year, 2**63 - 1)
            return _Domain(-most, most, 0, int)
        case Family.FLOAT:
            return _floats(pa.types.is_float64(type_))
    return None


def _unscaled(number: int, scale: int) -> Decimal:
    digits = tuple(map(int, str(abs(number))))
    return Decimal((int(number < 0), digits, -scale))


def _floats(double: bool) -> _Domain:
    """Floating-point values in the order of their bits: those below zero turned around."""
    wide, real = (np.int64, np.float64) if double else (np.int32, np.float32)
    least = int(np.iinfo(wide).min)
    top = int(np.array(np.inf, real).view(wide))

    def value(number: int) -> float:
        bits = number if number >= 0 else least - number - 1
        return float(np.array(bits, wide).view(real))

    return _Domain(-top - 1, top, 0, value)
