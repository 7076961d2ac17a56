"""Types of expressions: from the syntax tree to functions of values of one type, as DuckDB chooses them.

Whole numbers are computed as `int64`, decimals exactly, everything else as `double`, or as `float` where a column is
one. Texts beside another type are read as it; a date beside a timestamp is its midnight; a timestamp without zone
beside one with a zone is in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from skerry.errors import SchemaError, UnsupportedError
from skerry.table.predicate.casts import can_cast, sql_type
from skerry.table.predicate.columns import Column, Operator
from skerry.table.predicate.common_types import (
    MOMENTS,
    MOST_DIGITS,
    as_decimal,
    common_type,
    constant_of,
    decimal_type,
    widened,
)
from skerry.table.predicate.expressions import Apply, Expression, Known, compute, type_of
from skerry.table.predicate.literals import Family, LiteralKind, family_of, fit
from skerry.table.predicate.syntax import Call, Extent, Form, Inside, Name, Syntax, Value, describe_position

__all__ = ["FUNCTIONS", "Typing"]

_INT: Final = pa.int64()
_DOUBLE: Final = pa.float64()
_TEXT: Final = pa.string()
_BOOL: Final = pa.bool_()
_INTERVAL: Final = pa.month_day_nano_interval()
_US: Final = pa.timestamp("us")

_PARTS: Final = {
    "year": "year", "quarter": "quarter", "month": "month", "week": "week", "day": "day", "dow": "dayofweek",
    "dayofweek": "dayofweek", "weekday": "dayofweek", "isodow": "isodow", "doy": "dayofyear", "dayofyear": "dayofyear",
    "hour": "hour", "minute": "minute", "second": "second", "epoch": "epoch",
}  # fmt: skip
_CLOCK: Final = frozenset({"hour", "minute", "second"})
_UNITS: Final = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond")

FUNCTIONS: Final[dict[str, tuple[int, int]]] = {
    **dict.fromkeys(("lower", "upper", "length", "octet_length", "trim", "ltrim", "rtrim"), (1, 1)),
    **dict.fromkeys(("abs", "floor", "ceil", *dict.fromkeys(_PARTS.values())), (1, 1)),
    **dict.fromkeys(("contains", "starts_with", "ends_with", "regexp_full_match", "left", "right"), (2, 2)),
    **dict.fromkeys(("date_trunc", "date_part", "nullif", "%"), (2, 2)),
    **dict.fromkeys(("coalesce", "greatest", "least", "concat"), (1, 100)),
    "regexp_matches": (2, 3),
    "substring": (2, 3),
    "replace": (3, 3),
    "round": (1, 2),
}
"""The functions of values that conditions may call, with the least and the greatest number of arguments."""


class Typing:
    """Gives types to the values of one condition.

    Args:
        resolve: Finds the column of a name; raises SchemaError.
        text: The condition, for messages.
    """

    def __init__(self, resolve: Callable[[Name | Inside], Column], text: str) -> None:
        self._resolve = resolve
        self._text = text

    def condition(self, syntax: Syntax) -> Expression:
        """A condition as an expression.

        Raises:
            SchemaError: It is not a condition, or its parts do not fit each other.
            UnsupportedError: It uses something that is not supported.
        """
        found = self.value(syntax, _BOOL)
        if not pa.types.is_boolean(type_of(found)):
            raise SchemaError(f"{found} is of type {sql_type(type_of(found))}, not a condition{self._at(syntax)}")
        return found

    def value(self, syntax: Syntax, wanted: pa.DataType | None = None) -> Expression:
        """A value as an expression.

        Args:
            syntax: The value.
            wanted: The type that a text or NULL is read as.

        Raises:
            SchemaError: Its parts do not fit each other.
            UnsupportedError: It uses something that is not supported.
        """
        match syntax:
            case Name() | Inside():
                return self._column(syntax)
            case Value():
                return self._literal(syntax, wanted)
            case Extent():
                raise self._refuse("a shape without ST_Intersects_Extent()", syntax)
            case Call(Operator() as operator, arguments):
                return _folded(operator.value, self._alike(arguments, syntax), _BOOL)
            case Call(str(function)):
                return self._function(function, syntax)
            case Call(Form() as form):
                return self._test(form, syntax)
        raise AssertionError(syntax)

    # ---- tests ----

    def _test(self, form: Form, call: Call) -> Expression:
        match form:
            case Form.AND | Form.OR:
                parts = tuple(self.condition(argument) for argument in call.arguments)
                return Apply(form.value.lower(), parts, _BOOL)
            case Form.NOT:
                return _folded("not", (self.condition(call.arguments[0]),), _BOOL)
            case Form.IS_NULL:
                return _folded("is null", (self._any(call.arguments[0]),), _BOOL)
            case Form.IS_NAN:
                tested = self.value(call.arguments[0])
                if family_of(type_of(tested)) is not Family.FLOAT:
                    raise SchemaError(f"{tested} is never NaN{self._at(call)}")
                return _folded("isnan", (tested,), _BOOL)
            case Form.IN:
                return self._among(call)
            case Form.STARTS_WITH:
                return self._function("starts_with", call)
            case Form.INTERSECTS_EXTENT:
                raise self._refuse("ST_Intersects_Extent() within an expression", call)

    def _any(self, syntax: Syntax) -> Expression:
        """A value whose type does not matter, as for IS NULL."""
        return self._resolve(syntax) if isinstance(syntax, Name | Inside) else self.value(syntax)

    def _among(self, call: Call) -> Expression:
        parts = self._alike(call.arguments, call)
        value, members = parts[0], parts[1:]
        plain = all(isinstance(member, Known) and member.value is not None for member in members)
        if plain and family_of(type_of(value)) is not Family.FLOAT:
            return _folded("in", parts, _BOOL)
        tests = tuple(_folded("=", (value, member), _BOOL) for member in members)
        return tests[0] if len(tests) == 1 else Apply("or", tests, _BOOL)

    # ---- functions ----

    def _function(self, name: str, call: Call) -> Expression:
        arguments = call.arguments
        match name:
            case "cast":
                return self._cast(call)
            case "+" | "-":
                return self._sum(name, call)
            case "*" | "/" | "//" | "%":
                return self._arithmetic(name, [self._number(each, call) for each in self._near(arguments)], call)
            case "negative" | "abs" | "floor" | "ceil" | "round":
                return self._of_number(name, call)
            case "coalesce" | "greatest" | "least":
                parts = self._alike(arguments, call)
                return _folded(name, parts, type_of(parts[0]), strict=False)
            case "nullif":
                parts = self._alike(arguments, call)
                return _folded(name, parts, type_of(parts[0]), strict=False)
            case "case":
                return self._case(call)
            case "concat" | "||":
                parts = tuple(self._as_text(argument, call) for argument in arguments)
                return _folded(name, parts, _TEXT, strict=name == "||")
            case "octet_length":
                value = self.value(arguments[0])
                if family_of(type_of(value)) not in (Family.STRING, Family.BINARY):
                    raise SchemaError(f"octet_length() of {value}, which is not bytes{self._at(call)}")
                return _folded(name, (value,), _INT)
            case "date_part":
                unit = _PARTS.get(self._constant(arguments[0], _TEXT, call).lower().removesuffix("s"))
                if unit is None:
                    raise self._refuse(f"date_part() of that unit, only of {', '.join(_PARTS)},", call)
                return self._part(unit, arguments[1], call)
            case "date_trunc":
                return self._truncated(call)
            case _ if name in _PARTS.values():
                return self._part(name, arguments[0], call)
        return self._of_text(name, call)

    def _of_text(self, name: str, call: Call) -> Expression:
        """A function of a text, whose other arguments are constants."""
        value = self.value(call.arguments[0], _TEXT)
        if family_of(type_of(value)) is not Family.STRING:
            kind = f"column {value} of type {value.type}" if isinstance(value, Column) else str(value)
            raise SchemaError(f"{kind} is not a string{self._at(call)}")
        numbers = name in ("left", "right", "substring")
        others = [Known(self._constant(each, _INT if numbers else _TEXT, call), _INT if numbers else _TEXT)
                  for each in call.arguments[1:]]  # fmt: skip
        if name == "substring" and any(other.value is not None and other.value < 0 for other in others):
            raise self._refuse("substring() with negative numbers", call)
        if name == "regexp_matches" and len(others) == 2 and set(others[1].value or "") - set("cis"):
            raise self._refuse("an option of regexp_matches() other than 'c', 'i' and 's'", call)
        if name.startswith("regexp") and all(other.value is not None for other in others):
            try:
                compute(Apply(name, (Known("", _TEXT), *others), _BOOL), _no_column)
            except SchemaError as error:
                raise SchemaError(f"{error.message}{self._at(call)}") from None
        is_test = name in ("contains", "starts_with", "ends_with", "like", "ilike") or name.startswith("regexp")
        return _folded(name, (value, *others), _BOOL if is_test else _INT if name == "length" else _TEXT)

    def _cast(self, call: Call) -> Expression:
        assert call.type is not None
        (argument,) = call.arguments
        value = self.value(argument, call.type) if _is_null(argument) else self.value(argument)
        if not can_cast(type_of(value), call.type):
            found = family_of(type_of(value))
            what = found.value if found is not None else str(type_of(value))
            raise self._refuse(f"a cast of {what} to {sql_type(call.type)}", call)
        return _cast(value, call.type)

    def _case(self, call: Call) -> Expression:
        *pairs, last = call.arguments
        values = self._alike((*pairs[1::2], last), call)
        tests = [self.condition(test) for test in pairs[::2]]
        parts = [part for pair in zip(tests, values[:-1], strict=True) for part in pair]
        return _folded("case", (*parts, values[-1]), type_of(values[0]), strict=False)

    def _of_number(self, name: str, call: Call) -> Expression:
        if name == "negative" and isinstance(call.arguments[0], Value):
            span = self.value(call.arguments[0])
            if isinstance(span, Known) and pa.types.is_interval(span.type):
                months, days, nanoseconds = span.value
                return Known((-months, -days, -nanoseconds), _INTERVAL)
        value = self._number(self.value(call.arguments[0], _DOUBLE), call)
        if name in ("floor", "ceil", "round"):
            if pa.types.is_integer(type_of(value)):
                return value
            if pa.types.is_decimal(type_of(value)):  # rounding may take one more digit
                value = _cast(value, decimal_type(min(type_of(value).precision + 1, MOST_DIGITS), type_of(value).scale))
        if name != "round":
            return _folded(name, (value,), type_of(value))
        digits = self._constant(call.arguments[1], _INT, call) if len(call.arguments) == 2 else 0
        return _folded(name, (value, Known(digits, _INT)), type_of(value))

    # ---- arithmetic ----

    def _sum(self, name: str, call: Call) -> Expression:
        left, right = self._near(call.arguments)
        families = family_of(type_of(left)), family_of(type_of(right))
        if name == "+" and (families[1] in MOMENTS or pa.types.is_interval(type_of(left))):
            left, right, families = right, left, families[::-1]
        if pa.types.is_interval(type_of(right)) and families[0] in MOMENTS:
            if not isinstance(right, Known):
                raise self._refuse("an interval that is not a constant", call)
            moment = _cast(left, _US) if families[0] is Family.DATE else left
            return _folded("add_interval" if name == "+" else "subtract_interval", (moment, right), type_of(moment))
        if families == (Family.DATE, Family.INTEGER):
            days = _cast(right, _INT)
            return _folded("add_days", (left, days if name == "+" else _folded("negative", (days,), _INT)), pa.date32())
        if name == "-" and families == (Family.DATE, Family.DATE):
            return _folded("days_between", (left, right), _INT)
        if name == "-" and {*families} <= set(MOMENTS):
            parts = self._same((left, right), call)
            return _folded("-", parts, pa.duration(type_of(parts[0]).unit))
        return self._arithmetic(name, [self._number(left, call), self._number(right, call)], call)

    def _arithmetic(self, name: str, parts: Sequence[Expression], call: Call) -> Expression:
        left, right = parts
        whole = pa.types.is_integer(type_of(left)) and pa.types.is_integer(type_of(right))
        if name in ("//", "%"):
            if not whole:
                raise self._refuse(f"operator {name} of other numbers than whole ones", call)
            return _folded(name, (left, right), _INT)
        if name == "/":
            both = [part for part in parts if pa.types.is_float32(type_of(part))]
            wanted = pa.float32() if len(both) == 2 else _DOUBLE
            return _folded(name, (_cast(left, wanted), _cast(right, wanted)), wanted)
        common = self._common([type_of(left), type_of(right)], call)
        if not pa.types.is_decimal(common):
            return _folded(name, (_cast(left, common), _cast(right, common)), common)
        if name == "*":
            left, right = (_cast(part, as_decimal(type_of(part))) for part in parts)
            digits = type_of(left).precision + type_of(right).precision + 1
            scale = type_of(left).scale + type_of(right).scale
        else:
            digits, scale = common.precision + 1, common.scale
            left, right = _cast(left, common), _cast(right, common)
        if digits > MOST_DIGITS:
            raise SchemaError(f"the result has more than {MOST_DIGITS} digits{self._at(call)}")
        if digits > 38:
            left, right = (_cast(part, widened(type_of(part))) for part in (left, right))
        return _folded(name, (left, right), decimal_type(digits, scale))

    def _number(self, value: Expression, call: Call) -> Expression:
        """A number of one of the types that are computed with."""
        match family_of(type_of(value)):
            case Family.INTEGER:
                wide = pa.types.is_uint64(type_of(value))
                return _cast(value, pa.decimal128(20, 0) if wide else _INT)
            case Family.FLOAT | Family.DECIMAL:
                return value
        raise SchemaError(f"{value} is of type {sql_type(type_of(value))}, not a number{self._at(call)}")

    # ---- dates and times ----

    def _part(self, name: str, argument: Syntax, call: Call) -> Expression:
        value = self.value(argument)
        family = family_of(type_of(value))
        if family is Family.DATE and name in (*_CLOCK, "epoch"):
            value, family = _cast(value, _US), Family.TIMESTAMP
        if family not in MOMENTS and not (family is Family.TIME and name in _CLOCK):
            raise SchemaError(f"{name}() of {value}, which is of type {sql_type(type_of(value))}{self._at(call)}")
        return _folded(name, (value,), _DOUBLE if name == "epoch" else _INT)

    def _truncated(self, call: Call) -> Expression:
        unit = self._constant(call.arguments[0], _TEXT, call).lower().removesuffix("s")
        if unit not in _UNITS:
            raise self._refuse(f"date_trunc() to that unit, only to {', '.join(_UNITS)},", call)
        moment = self.value(call.arguments[1])
        if family_of(type_of(moment)) not in MOMENTS:
            raise SchemaError(f"date_trunc() of {moment}, which is of type {sql_type(type_of(moment))}{self._at(call)}")
        if family_of(type_of(moment)) is Family.DATE:
            moment = _cast(moment, _US)
        return _folded("date_trunc", (moment, Known(unit, _TEXT)), type_of(moment))

    # ---- operands ----

    def _near(self, arguments: Sequence[Syntax]) -> list[Expression]:
        """Operands, of which a text or NULL takes the type of the other."""
        typed = [None if _is_flexible(each) else self.value(each) for each in arguments]
        known = next((type_of(each) for each in typed if each is not None), None)
        return [
            self.value(syntax, known or _INT) if value is None else value
            for syntax, value in zip(arguments, typed, strict=True)
        ]

    def _alike(self, arguments: Sequence[Syntax], call: Call) -> tuple[Expression, ...]:
        """Operands of one type; texts and NULL take that of the others."""
        typed = [None if _is_flexible(each) else self.value(each) for each in arguments]
        known = [type_of(each) for each in typed if each is not None]
        wanted = self._common(known, call) if known else (_TEXT if any(not _is_null(a) for a in arguments) else _BOOL)
        return self._same(
            [
                self.value(syntax, wanted) if value is None else value
                for syntax, value in zip(arguments, typed, strict=True)
            ],
            call,
        )

    def _same(self, values: Sequence[Expression], call: Call) -> tuple[Expression, ...]:
        nulls = [isinstance(value, Known) and value.value is None for value in values]
        types = [type_of(value) for value, is_null in zip(values, nulls, strict=True) if not is_null]
        wanted = self._common(types or [type_of(values[0])], call)
        return tuple(
            Known(None, wanted) if is_null else _cast(value, wanted)
            for value, is_null in zip(values, nulls, strict=True)
        )

    def _common(self, types: Sequence[pa.DataType], call: Call) -> pa.DataType:
        common = types[0]
        for other in types[1:]:
            both = common_type(common, other)
            if both is None:
                raise SchemaError(f"{sql_type(common)} and {sql_type(other)} cannot be compared{self._at(call)}")
            common = both
        return common

    def _column(self, syntax: Name | Inside) -> Column:
        column = self._resolve(syntax)
        if family_of(column.type) is None:
            raise SchemaError(
                f"column {column} is of type {column.type} and can only be tested with IS [NOT] NULL{self._at(syntax)}"
            )
        return column

    def _as_text(self, syntax: Syntax, call: Call) -> Expression:
        value = self.value(syntax, _TEXT)
        if not can_cast(type_of(value), _TEXT):
            raise self._refuse(f"a cast of {sql_type(type_of(value))} to VARCHAR", call)
        return _cast(value, _TEXT)

    def _constant(self, syntax: Syntax, wanted: pa.DataType, call: Call) -> Any:
        value = self.value(syntax, wanted)
        if not isinstance(value, Known):
            raise self._refuse(f"{call.form}() with an argument that is not a constant", call)
        if type_of(value) != wanted and value.value is not None:
            raise SchemaError(f"{value} is not of type {sql_type(wanted)}{self._at(call)}")
        return value.value

    def _literal(self, value: Value, wanted: pa.DataType | None) -> Known:
        literal = value.literal
        if literal.kind is LiteralKind.NULL:
            return Known(None, _BOOL if wanted is None else wanted)
        if literal.kind is LiteralKind.STRING and wanted is not None and family_of(wanted) not in (None, Family.STRING):
            try:
                place = fit(literal, wanted, "", round_floats=True)
            except SchemaError as error:
                reason = error.message.rsplit(": ", 1)[-1]
                raise SchemaError(f"{literal.text} is not a {sql_type(wanted)}: {reason}{self._at(value)}") from None
            if not place.exact:
                raise SchemaError(f"{literal.text} does not fit type {sql_type(wanted)}{self._at(value)}")
            return Known(place.floor, wanted)
        return constant_of(literal)

    def _at(self, syntax: Syntax) -> str:
        return describe_position(self._text, syntax.at)

    def _refuse(self, feature: str, syntax: Syntax) -> UnsupportedError:
        return UnsupportedError(f"{feature} is not supported in a condition{self._at(syntax)}")


def _is_null(syntax: Syntax) -> bool:
    return isinstance(syntax, Value) and syntax.literal.kind is LiteralKind.NULL


def _is_flexible(syntax: Syntax) -> bool:
    return isinstance(syntax, Value) and syntax.literal.kind in (LiteralKind.NULL, LiteralKind.STRING)


def _cast(value: Expression, type_: pa.DataType) -> Expression:
    if type_of(value) == type_:
        return value
    if isinstance(value, Known) and pa.types.is_interval(value.type):
        months, days, nanoseconds = value.value
        if months:
            raise UnsupportedError("comparing months with a span of time, whose length is not that of months")
        unit = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[type_.unit]
        return Known((days * 86_400 * 10**9 + nanoseconds) // unit, type_)
    return _folded("cast", (value,), type_)


def _no_column(column: Column) -> Any:
    raise AssertionError(column)


def _folded(name: str, arguments: Sequence[Expression], type_: pa.DataType, *, strict: bool = True) -> Expression:
    """A function of values, computed at once if they are constants."""
    expression = Apply(name, tuple(arguments), type_)
    if strict and name != "is null" and any(isinstance(each, Known) and each.value is None for each in arguments):
        return Known(None, type_)
    if not all(isinstance(argument, Known) for argument in arguments):
        return expression
    scalar = compute(expression, _no_column)
    if not scalar.is_valid:
        return Known(None, type_)
    plain = pa.types.is_date, pa.types.is_time, pa.types.is_timestamp, pa.types.is_duration
    return Known(scalar.value if any(test(type_) for test in plain) else scalar.as_py(), type_)
