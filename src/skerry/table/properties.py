"""Table properties that are numbers or flags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from skerry.arguments import bound
from skerry.errors import SchemaError

__all__ = ["BACKGROUND_PROPERTY", "check_flag", "whole_number"]

BACKGROUND_PROPERTY: Final = "skerry.compaction.background"
"""Table property of Paimon tables, whose writers compact them: whether a writer goes on meanwhile."""

Default = TypeVar("Default", int, None)


def whole_number(properties: Mapping[str, str], name: str, default: Default, *, least: int = 1) -> int | Default:
    """Parse a table property that is a whole number.

    Args:
        properties: The table's properties.
        name: Its name.
        default: The value if it is not set.
        least: The smallest valid number.

    Raises:
        SchemaError: It is not a whole number, or too small.
    """
    text = properties.get(name)
    if text is None:
        return default
    number = text.strip()
    if not number.isdecimal() or int(number) < least:
        raise SchemaError(f"table property {name} must be a whole number {bound(least)}, found {text!r}")
    return int(number)


def check_flag(properties: Mapping[str, str], name: str) -> None:
    """Refuse a table property that is neither true nor false; readers would have to guess which one is meant.

    Args:
        properties: The table's properties.
        name: Its name.

    Raises:
        SchemaError: It is set to something else.
    """
    text = properties.get(name, "true")
    if text.strip().lower() not in ("true", "false"):
        raise SchemaError(f"table property {name} must be true or false, found {text!r}")
