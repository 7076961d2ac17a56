"""Binding of conditions: from the syntax tree to a predicate over the columns of a schema.

Both notations (SQL text and PyArrow expressions) are parsed into the same small syntax tree, and bound here: names
to columns, literals to values of the column's type, negations to the leaves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from skerry.errors import SchemaError, UnsupportedError
from skerry.table.predicate.expressions import Expression
from skerry.table.predicate.literals import Family, Fit, LiteralKind, canonical_type, family_of, fit
from skerry.table.predicate.nodes import (
    ALWAYS_FALSE,
    Column,
    Comparison,
    Constant,
    In,
    IntersectsExtent,
    IsMinusZero,
    IsNaN,
    IsNull,
    Operator,
    Predicate,
    StartsWith,
    conjunction,
    disjunction,
)
from skerry.table.predicate.ranges import predicate_of
from skerry.table.predicate.syntax import Call, Extent, Form, Inside, Name, Syntax, Value, describe_position
from skerry.table.predicate.typing import Typing
from skerry.table.rows.schema import field_id, nearest
from skerry.variant import is_variant
from skerry.wkb import PLANAR, WkbType, is_on_globe, shapes_type

__all__ = ["bind", "bind_value", "resolve_column", "resolve_inside"]


def bind(syntax: Syntax, schema: pa.Schema, *, text: str = "", ieee: bool = False) -> Predicate:
    """Bind a condition to the columns of a schema.

    Args:
        syntax: The condition as written.
        schema: Fields carry `PARQUET:field_id`.
        text: The text that the syntax tree was parsed from, for messages.
        ieee: Whether floating-point columns compare as in PyArrow (NaN compares false with everything, numbers
            keep their exact value) instead of as in SQL (NaN is the greatest value, numbers are converted to the
            column's
                type).

    Returns:
        The predicate that holds exactly for the rows for which the condition is true.

    Raises:
        SchemaError: A column does not exist, or a literal does not fit its column.
        UnsupportedError: The condition contains a comparison that is only possible on rows, such as that of two
            columns.
    """
    return _Binder(schema, text, ieee).condition(syntax, negated=False)


def bind_value(syntax: Syntax, schema: pa.Schema, wanted: pa.DataType, *, text: str = "") -> Expression:
    """Bind a value to the columns of a schema.

    Args:
        syntax: The value as written.
        schema: Fields carry `PARQUET:field_id`.
        wanted: The type that a text or NULL in its place is read as.
        text: The text that the syntax tree was parsed from, for messages.

    Raises:
        SchemaError: A column does not exist, or the parts do not fit each other.
        UnsupportedError: It uses something that is not supported.
    """

    def resolve(name: Name | Inside) -> Column:
        return resolve_column(schema, name, text) if isinstance(name, Name) else resolve_inside(schema, name, text)

    return Typing(resolve, text).value(syntax, canonical_type(wanted))


def resolve_column(schema: pa.Schema, name: Name, text: str = "") -> Column:
    """Find a column, or a field of a struct, by name.

    Raises:
        SchemaError: It does not exist (the message proposes the nearest), or several differ only in case.
    """
    fields, found = list(schema), list[pa.Field]()
    for depth, (part, exact) in enumerate(zip(name.parts, name.exact, strict=True)):
        field = _find(fields, part, exact, name, text)
        if field is None:
            path = name.parts[:depth]
            known = [".".join((*path, other.name)) for other in fields]
            hint = nearest(".".join((*path, part)), known)
            if exact and text and "did you mean" not in hint:
                hint += "; double quotes name columns, single quotes enclose text"
            raise SchemaError(f"no column {str(name)!r}{hint}{describe_position(text, name.at)}")
        found.append(field)
        fields = list(field.type) if pa.types.is_struct(field.type) and not is_variant(field.type) else []
    leaf = found[-1]
    leaf_type = leaf.type.value_type if pa.types.is_dictionary(leaf.type) else shapes_type(leaf)
    return Column(field_id(leaf), tuple(field.name for field in found), leaf_type)


def resolve_inside(schema: pa.Schema, value: Inside, text: str = "") -> Column:
    """Find the column of a value inside of variants.

    Raises:
        SchemaError: It does not exist, or has no variants.
    """
    column = resolve_column(schema, value.column, text)
    if not is_variant(column.type):
        where = describe_position(text, value.at)
        raise SchemaError(f"column {column} of type {column.type} is no variant{where}")
    return Column(column.field_id, column.path, value.type, value.path)


def _find(fields: list[pa.Field], part: str, exact: bool, name: Name, text: str) -> pa.Field | None:
    for field in fields:
        if field.name == part:
            return field
    alike = [] if exact else [field for field in fields if field.name.lower() == part.lower()]
    if len(alike) > 1:
        choices = ", ".join(f'"{field.name}"' for field in alike)
        raise SchemaError(
            f"column {name} is ambiguous: quote the intended one of {choices}{describe_position(text, name.at)}"
        )
    return alike[0] if alike else None


_MOMENTS = frozenset({LiteralKind.DATE, LiteralKind.TIMESTAMP, LiteralKind.INSTANT})


class _Binder:
    """Walks the syntax tree, passing negation down so that it ends in the leaves."""

    def __init__(self, schema: pa.Schema, text: str, ieee: bool) -> None:
        self._schema = schema
        self._text = text
        self._ieee = ieee
        self._forms: dict[Form, Callable[[Call, bool], Predicate]] = {
            Form.AND: self._connective,
            Form.OR: self._connective,
            Form.NOT: self._not,
            Form.IN: self._in,
            Form.STARTS_WITH: self._starts_with,
            Form.INTERSECTS_EXTENT: self._intersects_extent,
            Form.IS_NULL: self._is_null,
            Form.IS_NAN: self._is_nan,
        }

    def condition(self, syntax: Syntax, negated: bool) -> Predicate:
        """Bind a condition; the result holds where it is true (`negated`: where it is false), never where unknown."""
        if isinstance(syntax, Value):
            return self._constant(syntax, negated)
        if isinstance(syntax, Extent):
            raise self._refuse("a shape without ST_Intersects_Extent()", syntax.at)
        if isinstance(syntax, Name | Inside):
            column = self._column(syntax)
            if family_of(column.type) is not Family.BOOLEAN:
                raise SchemaError(f"column {column} is of type {column.type}, not a condition{self._where(syntax.at)}")
            return Comparison(column, Operator.EQ, not negated)
        if not self._is_plain(syntax):
            return self._expressed(syntax, negated)
        if isinstance(syntax.form, Operator):
            return self._comparison(syntax, syntax.form, negated)
        assert isinstance(syntax.form, Form)
        return self._forms[syntax.form](syntax, negated)

    def _is_plain(self, call: Call) -> bool:
        """Whether it is a connective, or a test of a column alone with literals."""
        first, *others = call.arguments
        match call.form:
            case Form.AND | Form.OR | Form.NOT | Form.INTERSECTS_EXTENT:
                return True
            case Operator() if isinstance(first, Value):
                kinds = {each.literal.kind for each in call.arguments if isinstance(each, Value)}
                return isinstance(others[0], Name | Inside | Value) and not (len(kinds) == 2 and kinds <= _MOMENTS)
            case str():
                return False
        return (
            isinstance(first, Name | Inside | Value | Extent)
            and all(isinstance(each, Value | Extent) for each in others)
            and (not isinstance(first, Value) or call.form is Form.IS_NULL)
        )

    def _expressed(self, call: Call, negated: bool) -> Predicate:
        if self._ieee:
            for argument in call.arguments[1:]:
                self._value(argument)
            raise self._refuse("an expression", call.at)
        return predicate_of(Typing(self._column, self._text).condition(call), negated=negated)

    def _constant(self, value: Value, negated: bool) -> Predicate:
        if value.literal.kind is LiteralKind.NULL:
            return ALWAYS_FALSE
        if value.literal.kind is not LiteralKind.BOOLEAN:
            raise SchemaError(
                f"{value.literal.text} is {value.literal.kind.value}, not a condition{self._where(value.at)}"
            )
        return Constant(value.literal.value is not negated)

    def _connective(self, call: Call, negated: bool) -> Predicate:
        join = conjunction if (call.form is Form.AND) is not negated else disjunction
        return join([self.condition(argument, negated) for argument in call.arguments])

    def _not(self, call: Call, negated: bool) -> Predicate:
        return self.condition(call.arguments[0], not negated)

    def _comparison(self, call: Call, operator: Operator, negated: bool) -> Predicate:
        left, right = call.arguments
        if isinstance(left, Value) and isinstance(right, Value):
            return self._constants(left, operator, right, negated)
        if isinstance(left, Value):
            left, right, operator = right, left, operator.flipped
        column = self._column(left)
        value = self._value(right)
        if value.literal.kind is LiteralKind.NULL:
            return ALWAYS_FALSE
        if self._ieee and _is_nan(value.literal.value) and family_of(column.type) in (Family.INTEGER, Family.DECIMAL):
            return self._compare_nan(column, operator, negated)  # PyArrow compares as floating point
        fitted = self._fit(value, column)
        if _is_nan(fitted.floor):
            return self._compare_nan(column, operator, negated)
        predicate = _compare(column, operator.negated if negated else operator, fitted)
        if self._ieee and family_of(column.type) is Family.FLOAT and operator in (Operator.GT, Operator.GE):
            not_nan = IsNaN(column, negated=True)
            return disjunction([predicate, IsNaN(column)]) if negated else conjunction([predicate, not_nan])
        return predicate

    def _constants(self, left: Value, operator: Operator, right: Value, negated: bool) -> Predicate:
        kinds = left.literal.kind, right.literal.kind
        if LiteralKind.NULL in kinds:
            return ALWAYS_FALSE
        if kinds[0] is not kinds[1]:
            raise SchemaError(f"{left.literal.text} and {right.literal.text} cannot be compared{self._where(left.at)}")
        return Constant(_HOLDS[operator](left.literal.value, right.literal.value) is not negated)

    def _compare_nan(self, column: Column, operator: Operator, negated: bool) -> Predicate:
        if self._ieee:
            return IsNull(column, negated=True) if (operator is Operator.NE) is not negated else ALWAYS_FALSE
        match operator.negated if negated else operator:
            case Operator.EQ | Operator.GE:
                return IsNaN(column)
            case Operator.NE | Operator.LT:
                return IsNaN(column, negated=True)
            case Operator.LE:
                return IsNull(column, negated=True)
            case _:
                return ALWAYS_FALSE

    def _in(self, call: Call, negated: bool) -> Predicate:
        column = self._column(call.arguments[0])
        among = [self._value(argument) for argument in call.arguments[1:]]
        known = [value for value in among if value.literal.kind is not LiteralKind.NULL]
        if negated and len(known) < len(among):
            return ALWAYS_FALSE
        fitted_values = [self._fit(value, column) for value in known]
        nan = any(_is_nan(fitted.floor) for fitted in fitted_values)
        values = tuple(sorted({fitted.floor for fitted in fitted_values if fitted.exact and not _is_nan(fitted.floor)}))
        tests: list[Predicate] = [IsNaN(column, negated)] if nan else []
        if self._ieee and family_of(column.type) is Family.FLOAT:
            zeros = {math.copysign(1.0, fitted.floor) for fitted in fitted_values if fitted.exact and fitted.floor == 0}
            if len(zeros) == 1:
                values = tuple(value for value in values if value != 0)
                tests.append(_one_zero(column, zeros == {-1.0}, negated))
        if len(values) == 1:
            tests.append(Comparison(column, Operator.NE if negated else Operator.EQ, values[0]))
        elif values:
            tests.append(In(column, values, negated))
        elif negated:
            tests.append(IsNull(column, negated=True))
        return conjunction(tests) if negated else disjunction(tests)

    def _starts_with(self, call: Call, negated: bool) -> Predicate:
        column = self._column(call.arguments[0])
        literal = self._value(call.arguments[1]).literal
        if family_of(column.type) is not Family.STRING:
            raise SchemaError(f"column {column} of type {column.type} is not a string{self._where(call.at)}")
        if literal.kind is LiteralKind.NULL:
            return ALWAYS_FALSE
        if literal.kind is not LiteralKind.STRING:
            raise SchemaError(f"{literal.text} is {literal.kind.value}, not a string{self._where(call.at)}")
        if not literal.value:
            return ALWAYS_FALSE if negated else IsNull(column, negated=True)
        return StartsWith(column, literal.value, negated)

    def _intersects_extent(self, call: Call, negated: bool) -> Predicate:
        first, second = call.arguments
        column = self._column(second if isinstance(first, Extent) else first)
        extent = first if isinstance(first, Extent) else second
        if not isinstance(column.type, WkbType) or not isinstance(extent, Extent):
            raise SchemaError(
                "ST_Intersects_Extent() takes a column of type geometry and a shape, such as ST_MakeEnvelope(x_min, "
                f"y_min, x_max, y_max){self._where(call.at)}"
            )
        box = extent.box
        if box.is_empty:
            return IsNull(column, negated=True) if negated else ALWAYS_FALSE
        is_planar = column.type.shapes.edges == PLANAR
        if box.y_min > box.y_max or (is_planar and box.x_min > box.x_max):
            raise SchemaError(f"the box {box} is inside out{self._where(extent.at)}")
        if not is_planar:
            self._check_globe(column, extent)
        return IntersectsExtent(column, box, negated)

    def _check_globe(self, column: Column, extent: Extent) -> None:
        box = extent.box
        is_point = box.x_min == box.x_max and box.y_min == box.y_max
        if not (extent.is_envelope or is_point):
            raise self._refuse(
                f"the box around a constant shape for geography column {column}, whose edges are curves (give "
                "ST_MakeEnvelope(west, south, east, north))",
                extent.at,
            )
        if not is_on_globe(box):
            raise SchemaError(
                f"column {column} of type geography takes longitudes from -180 to 180 and latitudes from -90 to 90, "
                f"found the box {box}{self._where(extent.at)}"
            )

    def _is_null(self, call: Call, negated: bool) -> Predicate:
        argument = call.arguments[0]
        if isinstance(argument, Value):
            return Constant((argument.literal.kind is LiteralKind.NULL) is not negated)
        return IsNull(self._column(argument), negated)

    def _is_nan(self, call: Call, negated: bool) -> Predicate:
        column = self._column(call.arguments[0])
        if family_of(column.type) is not Family.FLOAT:
            raise SchemaError(f"column {column} of type {column.type} is never NaN{self._where(call.at)}")
        return IsNaN(column, negated)

    def _column(self, syntax: Syntax) -> Column:
        if isinstance(syntax, Value):
            raise self._refuse(f"a test of the constant {syntax.literal.text}", syntax.at)
        if isinstance(syntax, Extent):
            raise self._refuse("a test of a constant shape", syntax.at)
        if isinstance(syntax, Call):
            raise self._refuse("comparing the result of a condition", syntax.at)
        if isinstance(syntax, Name):
            return resolve_column(self._schema, syntax, self._text)
        return resolve_inside(self._schema, syntax, self._text)

    def _value(self, syntax: Syntax) -> Value:
        if isinstance(syntax, Name | Inside):
            self._column(syntax)
            raise self._refuse(f"comparing with another column ({syntax})", syntax.at)
        if isinstance(syntax, Call):
            raise self._refuse("comparing the result of a condition", syntax.at)
        if isinstance(syntax, Extent):
            raise self._refuse("comparing shapes", syntax.at)
        return syntax

    def _where(self, position: int) -> str:
        return describe_position(self._text, position)

    def _refuse(self, feature: str, at: int) -> UnsupportedError:
        return UnsupportedError(f"{feature} is not supported in a condition{self._where(at)}")

    def _fit(self, value: Value, column: Column) -> Fit:
        try:
            return fit(value.literal, column.type, str(column), round_floats=not self._ieee)
        except SchemaError as error:
            raise SchemaError(f"{error.message}{self._where(value.at)}") from None


def _compare(column: Column, operator: Operator, fitted: Fit) -> Predicate:
    """Compare with a literal by its position among the type's values; between two of them, no value equals it."""
    if fitted.exact:
        return Comparison(column, operator, fitted.floor)
    any_value = IsNull(column, negated=True)
    match operator:
        case Operator.EQ:
            return ALWAYS_FALSE
        case Operator.NE:
            return any_value
        case Operator.LT | Operator.LE:
            return ALWAYS_FALSE if fitted.floor is None else Comparison(column, Operator.LE, fitted.floor)
        case _:
            return any_value if fitted.floor is None else Comparison(column, Operator.GT, fitted.floor)


def _one_zero(column: Column, minus: bool, negated: bool) -> Predicate:
    """Membership in a set with one of the two zeros: PyArrow's sets compare bits."""
    if minus:
        return IsMinusZero(column, negated)
    if negated:
        return disjunction([Comparison(column, Operator.NE, 0.0), IsMinusZero(column)])
    return conjunction([Comparison(column, Operator.EQ, 0.0), IsMinusZero(column, negated=True)])


def _is_nan(value: Any) -> bool:
    return isinstance(value, float | Decimal) and value != value


_HOLDS: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQ: lambda a, b: a == b,
    Operator.NE: lambda a, b: a != b,
    Operator.LT: lambda a, b: a < b,
    Operator.LE: lambda a, b: a <= b,
    Operator.GT: lambda a, b: a > b,
    Operator.GE: lambda a, b: a >= b,
}
