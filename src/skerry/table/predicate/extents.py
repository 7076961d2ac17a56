"""Constant shapes in conditions, of which only the box around them counts."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from skerry.errors import SchemaError
from skerry.wkb import Box, box_of, box_of_text

__all__ = ["EXTENTS"]


def _envelope(x_min: Any, y_min: Any, x_max: Any, y_max: Any) -> Box:
    edges = (x_min, y_min, x_max, y_max)
    if not all(isinstance(edge, Decimal) and edge == edge for edge in edges):
        raise SchemaError("expected four numbers: x_min, y_min, x_max, y_max")
    return Box(*map(float, edges))


def _from_text(text: Any) -> Box:
    if not isinstance(text, str):
        raise SchemaError("expected well-known text")
    return box_of_text(text)


def _from_binary(value: Any) -> Box:
    if not isinstance(value, bytes):
        raise SchemaError("expected well-known binary as X'…'")
    return box_of(value)


EXTENTS: Final[dict[str, Callable[..., Box]]] = {
    "ST_MAKEENVELOPE": _envelope,
    "ST_GEOMFROMTEXT": _from_text,
    "ST_GEOMFROMWKB": _from_binary,
}
"""The functions that give a constant shape, by name in upper case. They raise FormatError and SchemaError."""
