"""Whole numbers that users set: one check and one message for arguments and table properties."""

from __future__ import annotations

from skerry.errors import SchemaError

__all__ = ["bound", "check_whole_number"]


def bound(least: int) -> str:
    """`above 0`, for messages."""
    return "of at least 0" if least == 0 else f"above {least - 1}"


def check_whole_number(name: str, value: int | None, least: int) -> None:
    """Refuse an argument that is not a whole number, or is too small; None means that it was not given.

    Raises:
        SchemaError: It is something else.
    """
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
        raise SchemaError(f"{name} must be a whole number {bound(least)}, found {value!r}")
