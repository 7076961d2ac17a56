"""The syntax tree of conditions, into which SQL text and PyArrow expressions are parsed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import pyarrow as pa

from skerry.table.predicate.columns import Operator
from skerry.table.predicate.literals import Literal
from skerry.variant.paths import Path
from skerry.wkb import Box

__all__ = ["Call", "Extent", "Form", "Inside", "Name", "Syntax", "Value", "describe_position"]


class Form(Enum):
    """What a `Call` does, except for comparisons (which are an `Operator`)."""

    AND = "AND"
    OR = "OR"
    NOT = "NOT"
    IN = "IN"
    STARTS_WITH = "LIKE"
    INTERSECTS_EXTENT = "ST_Intersects_Extent"
    IS_NULL = "IS NULL"
    IS_NAN = "IS NAN"


@dataclass(frozen=True, slots=True)
class Name:
    """A reference to a column.

    Args:
        parts: Names from the top-level column down.
        exact: Per part, whether upper and lower case must match (it was quoted).
        at: Position of its first character in the text, -1 if unknown.
    """

    parts: tuple[str, ...]
    exact: tuple[bool, ...]
    at: int = -1

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True, slots=True)
class Value:
    """A literal and its position."""

    literal: Literal
    at: int = -1


@dataclass(frozen=True, slots=True)
class Extent:
    """The box around a constant shape, its position, and whether it was given as a box."""

    box: Box
    at: int = -1
    is_envelope: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A comparison, test, connective or function with its arguments.

    Args:
        form: What it does; a function of values by its name, as in `skerry.table.predicate.functions`.
        arguments: What it is applied to.
        at: Position of its first character in the text, -1 if unknown.
        type: The type that a cast converts to.
    """

    form: Form | Operator | str
    arguments: tuple[Syntax, ...]
    at: int = -1
    type: pa.DataType | None = None


@dataclass(frozen=True, slots=True)
class Inside:
    """A value inside of variants.

    Args:
        column: The column of variants.
        path: The path of the value.
        type: The type that it is converted to.
        at: Position of the first character in the text, -1 if unknown.
    """

    column: Name
    path: Path
    type: pa.DataType
    at: int = -1

    def __str__(self) -> str:
        return f"variant_get({self.column}, …)"


Syntax: TypeAlias = Name | Value | Call | Inside | Extent


def describe_position(text: str, position: int) -> str:
    """Describe a position in a condition, for the end of a message.

    Args:
        text: The condition as written, empty if it was not text.
        position: Index of a character in it, from 0.
    """
    if not text:
        return ""
    start = max(position - 40, 0)
    excerpt = text[start : position + 40]
    before, after = "…" if start else "", "…" if position + 40 < len(text) else ""
    return f" (character {position + 1} of: {before}{excerpt}{after})"
