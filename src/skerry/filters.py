"""Filters: conditions on rows in the shape of `pyarrow.parquet.read_table(filters=…)`.

Files and tables take the same filters: a PyArrow expression, a list of `(column, operator, value)`, all of which must
hold, or a list of such lists, one of which must hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import SchemaError

__all__ = ["Alternatives", "Comparison", "Filters", "as_expression", "parse_comparisons"]

Filters: TypeAlias = "pc.Expression | Sequence[tuple[str, str, Any]] | Sequence[Sequence[tuple[str, str, Any]]]"
"""Which rows: a PyArrow expression, or lists of `(column, operator, value)` as `pyarrow.parquet` takes them."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of a column with a value.

    Args:
        column: Name of a top-level column.
        operator: One of `=`, `==`, `!=`, `<`, `>`, `<=`, `>=`, `in`, `not in`.
        value: A value, or several for `in` and `not in`.
    """

    column: str
    operator: str
    value: Any

    @property
    def has_several(self) -> bool:
        """Whether the value is a collection of values."""
        return self.operator in ("in", "not in")


Alternatives: TypeAlias = tuple[tuple[Comparison, ...], ...]
"""An *or* of *and* of comparisons."""

_COMPARE: Final[dict[str, Callable[[Any, Any], pc.Expression]]] = {
    "=": lambda field, value: field == value,
    "==": lambda field, value: field == value,
    "!=": lambda field, value: field != value,
    "<": lambda field, value: field < value,
    ">": lambda field, value: field > value,
    "<=": lambda field, value: field <= value,
    ">=": lambda field, value: field >= value,
    "in": lambda field, value: field.isin(value),
    "not in": lambda field, value: ~field.isin(value),
}


def parse_comparisons(filters: Any) -> Alternatives:
    """Check the shape of filters that are lists.

    Args:
        filters: A list of `(column, operator, value)`, or a list of such lists.

    Raises:
        SchemaError: They have another shape, or an operator is unknown.
    """
    try:
        is_flat = len(filters) > 0 and len(filters[0]) > 0 and isinstance(filters[0][0], str)
        groups = [filters] if is_flat else list(filters)
        alternatives = tuple(tuple(_comparison(found) for found in group) for group in groups)
    except (TypeError, KeyError, IndexError):
        raise SchemaError(f"filters are tuples of column, operator and value, found {filters!r}") from None
    if not alternatives or not all(alternatives):
        raise SchemaError(f"filters have no condition: {filters!r}")
    for comparison in (comparison for group in alternatives for comparison in group):
        if not isinstance(comparison.column, str):
            raise SchemaError(f"a filter names the column {comparison.column!r}, expected a text")
        if comparison.operator not in _COMPARE:
            raise SchemaError(f"no operator {comparison.operator!r}, expected one of {', '.join(_COMPARE)}")
        if comparison.has_several and (
            isinstance(comparison.value, str | bytes) or not isinstance(comparison.value, Iterable)
        ):
            raise SchemaError(f"operator {comparison.operator!r} takes several values, found {comparison.value!r}")
    return alternatives


def _comparison(found: Any) -> Comparison:
    if isinstance(found, str):
        raise TypeError  # three letters would unpack, too
    return Comparison(*found)


def as_expression(alternatives: Alternatives, schema: pa.Schema) -> pc.Expression:
    """Build the expression that holds for the same rows.

    Args:
        alternatives: What to test.
        schema: The columns. One that is missing is compared as PyArrow infers the type of the value.

    Raises:
        SchemaError: A value cannot be compared.
    """
    return reduce(or_, [reduce(and_, [_compare(each, schema) for each in group]) for group in alternatives])


def _compare(comparison: Comparison, schema: pa.Schema) -> pc.Expression:
    try:
        return _COMPARE[comparison.operator](pc.field(comparison.column), _literal(comparison, schema))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SchemaError(
            f"column {comparison.column!r} cannot be compared with {comparison.value!r}: {error}"
        ) from error


def _literal(comparison: Comparison, schema: pa.Schema) -> Any:
    """The value to compare with. PyArrow takes integers for signed ones, and fails on greater ones in a column."""
    value = list(comparison.value) if comparison.has_several else comparison.value
    index = schema.get_field_index(comparison.column)
    if index < 0 or not pa.types.is_unsigned_integer(schema.field(index).type):
        return value
    kind = schema.field(index).type
    try:
        return pa.array(value, kind) if isinstance(value, list) else pa.scalar(value, kind)
    except (pa.ArrowException, TypeError, OverflowError):
        return value
