"""The predicate tree: a condition on rows, bound to the columns of one schema.

A predicate defines for which rows the condition is *true*. SQL's third truth value is resolved when it is built:
negation is pushed down to the leaves and a comparison with NULL, which is never true, is `ALWAYS_FALSE`. So there is no
`Not` node, every consumer is two-valued, and leaving out a conjunct (pruning, projection) can only widen the result.

Floating-point order is that of SQL in Spark, DuckDB and PostgreSQL: NaN equals NaN and is greater than every other
value, -0.0 equals 0.0. A literal is never NaN: `x > NaN` and its like are bound to `IsNaN` or a constant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from skerry.table.predicate.columns import Column, Operator
from skerry.table.predicate.expressions import Apply, Expression, columns_in
from skerry.table.predicate.literals import format_literal
from skerry.wkb import PLANAR, Box, Shapes

__all__ = [
    "ALWAYS_FALSE",
    "ALWAYS_TRUE",
    "And",
    "Column",
    "Comparison",
    "Constant",
    "Holds",
    "In",
    "IntersectsExtent",
    "IsMinusZero",
    "IsNaN",
    "IsNull",
    "Operator",
    "Or",
    "Predicate",
    "StartsWith",
    "columns_of",
    "conjunction",
    "conjuncts_of",
    "disjunction",
]


@dataclass(frozen=True, slots=True)
class Constant:
    """All rows (`ALWAYS_TRUE`) or none (`ALWAYS_FALSE`)."""

    value: bool

    def __str__(self) -> str:
        return "TRUE" if self.value else "FALSE"


@dataclass(frozen=True, slots=True)
class Comparison:
    """`column operator value`; rows where the column is null do not match.

    Args:
        column: The column.
        operator: How it compares.
        value: In the form of `skerry.table.predicate.literals` for the column's type: int (units of the type) for
            integers, dates, times and timestamps, float (never NaN), Decimal, bool, str, bytes (binary, fixed, uuid).
    """

    column: Column
    operator: Operator
    value: Any

    def __str__(self) -> str:
        return f"{self.column} {self.operator.value} {format_literal(self.value, self.column.type)}"


@dataclass(frozen=True, slots=True)
class In:
    """The column's value is among `values` (`negated`: it is non-null and not among them).

    Args:
        column: The column.
        values: Distinct and ascending, in the form of `Comparison`; at least one.
        negated: Whether this is NOT IN.
    """

    column: Column
    values: tuple[Any, ...]
    negated: bool = False

    def __str__(self) -> str:
        values = ", ".join(format_literal(value, self.column.type) for value in self.values)
        return f"{self.column} {'NOT ' if self.negated else ''}IN ({values})"


@dataclass(frozen=True, slots=True)
class StartsWith:
    """The string begins with `prefix` (`negated`: it is non-null and does not)."""

    column: Column
    prefix: str
    negated: bool = False

    def __str__(self) -> str:
        pattern = "".join("\\" + char if char in "%_\\" else char for char in self.prefix)
        escape = " ESCAPE '\\'" if pattern != self.prefix else ""
        quoted = pattern.replace("'", "''")
        return f"{self.column} {'NOT ' if self.negated else ''}LIKE '{quoted}%'{escape}"


@dataclass(frozen=True, slots=True)
class IntersectsExtent:
    """The box around the shape and `box` have a point in common (`negated`: it is non-null, and they have none)."""

    column: Column
    box: Box
    negated: bool = False

    @property
    def globe(self) -> Shapes | None:
        """What shapes on a globe have in common; None if they are in the plane."""
        shapes: Shapes = self.column.type.shapes
        return None if shapes.edges == PLANAR else shapes

    def __str__(self) -> str:
        edges = ", ".join(map(repr, (self.box.x_min, self.box.y_min, self.box.x_max, self.box.y_max)))
        return f"{'NOT ' if self.negated else ''}ST_Intersects_Extent({self.column}, ST_MakeEnvelope({edges}))"


@dataclass(frozen=True, slots=True)
class IsNull:
    """The column is null (`negated`: it is not)."""

    column: Column
    negated: bool = False

    def __str__(self) -> str:
        return f"{self.column} IS {'NOT ' if self.negated else ''}NULL"


@dataclass(frozen=True, slots=True)
class IsNaN:
    """The column is NaN (`negated`: it is neither NaN nor null)."""

    column: Column
    negated: bool = False

    def __str__(self) -> str:
        return f"{'NOT ' if self.negated else ''}isnan({self.column})"


@dataclass(frozen=True, slots=True)
class IsMinusZero:
    """The column is -0.0, which comparisons treat as 0.0 (`negated`: it is non-null and something else)."""

    column: Column
    negated: bool = False

    def __str__(self) -> str:
        return f"{self.column} IS {'NOT ' if self.negated else ''}-0.0"


@dataclass(frozen=True, slots=True)
class Holds:
    """An expression is true. Bounds tell nothing about it; what they can tell is a condition of its own beside it."""

    expression: Expression

    @property
    def is_selective(self) -> bool:
        """Whether it compares for equality or with a pattern, which few rows satisfy in general."""
        return isinstance(self.expression, Apply) and self.expression.function not in (
            "not",
            "<>",
            "<",
            "<=",
            ">",
            ">=",
        )

    def __str__(self) -> str:
        return str(self.expression)


@dataclass(frozen=True, slots=True)
class And:
    """Every one of two or more children holds; build it with `conjunction`."""

    children: tuple[Predicate, ...]

    def __str__(self) -> str:
        return " AND ".join(f"({child})" if isinstance(child, Or | Holds) else str(child) for child in self.children)


@dataclass(frozen=True, slots=True)
class Or:
    """At least one of two or more children holds; build it with `disjunction`."""

    children: tuple[Predicate, ...]

    def __str__(self) -> str:
        return " OR ".join(f"({child})" if isinstance(child, Holds) else str(child) for child in self.children)


Predicate: TypeAlias = (
    Constant | Comparison | In | StartsWith | IntersectsExtent | IsNull | IsNaN | IsMinusZero | Holds | And | Or
)

ALWAYS_TRUE = Constant(True)
ALWAYS_FALSE = Constant(False)


def conjunction(children: Iterable[Predicate]) -> Predicate:
    """Join predicates by AND: nested ones flattened, duplicates and constants folded.

    Args:
        children: Any number; none gives `ALWAYS_TRUE`.
    """
    return _join(children, And, neutral=ALWAYS_TRUE, absorbing=ALWAYS_FALSE)


def conjuncts_of(predicate: Predicate) -> tuple[Predicate, ...]:
    """The predicates that must all hold; none for one that always holds."""
    if isinstance(predicate, And):
        return predicate.children
    return () if predicate == ALWAYS_TRUE else (predicate,)


def disjunction(children: Iterable[Predicate]) -> Predicate:
    """Join predicates by OR: nested ones flattened, duplicates and constants folded.

    Args:
        children: Any number; none gives `ALWAYS_FALSE`.
    """
    return _join(children, Or, neutral=ALWAYS_FALSE, absorbing=ALWAYS_TRUE)


def _join(children: Iterable[Predicate], node: type[And | Or], *, neutral: Constant, absorbing: Constant) -> Predicate:
    flat: dict[Predicate, None] = {}
    for child in children:
        for part in child.children if isinstance(child, node) else (child,):
            if part == absorbing:
                return absorbing
            if part != neutral:
                flat[part] = None
    if not flat:
        return neutral
    parts = tuple(flat)
    return parts[0] if len(parts) == 1 else node(parts)


def columns_of(predicate: Predicate) -> frozenset[Column]:
    """The columns that the predicate uses."""
    return frozenset(_walk_columns(predicate))


def _walk_columns(predicate: Predicate) -> Iterator[Column]:
    match predicate:
        case And(children) | Or(children):
            for child in children:
                yield from _walk_columns(child)
        case Holds(expression):
            yield from columns_in(expression)
        case Constant():
            return
        case _:
            yield predicate.column
