"""Numbers among a table's properties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from skerry.errors import SchemaError

__all__ = ["whole_number"]

Default = TypeVar("Default", int, None)


def whole_number(properties: Mapping[str, str], name: str, default: Default, *, least: int = 1) -> int | Default:
    """A table property that is a whole number.

    Args:
        properties: The table's.
        name: Its name.
        default: What holds if it is not set.
        least: The least legal number.

    Raises:
        SchemaError: It is no whole number, or a lesser one.
    """
    text = properties.get(name)
    if text is None:
        return default
    number = text.strip()
    if not number.isdecimal() or int(number) < least:
        bound = "from 0" if least == 0 else f"above {least - 1}"
        raise SchemaError(f"table property {name} must be a whole number {bound}, found {text!r}")
    return int(number)
