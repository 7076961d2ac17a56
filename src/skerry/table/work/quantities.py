"""Formatting of numbers for people."""

from __future__ import annotations

__all__ = ["count", "size"]


def count(value: int | None) -> str:
    """A number with thousands separators."""
    return "" if value is None else f"{value:,}"


def size(value: int | None) -> str:
    """A number of bytes in a unit that leaves at most three digits before the point."""
    if value is None:
        return ""
    number = float(value)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if number < 999.5 or unit == "TB":
            return f"{number:.0f} {unit}" if unit == "B" or number >= 99.5 else f"{number:.1f} {unit}"
        number /= 1000
    raise AssertionError
