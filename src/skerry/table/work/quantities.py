"""Numbers and times as people read them, in the terminal, in notebooks and on the page; times as programs read them."""

from __future__ import annotations

from datetime import UTC, date, datetime, time

__all__ = ["count", "iso_text", "moment", "size"]


def iso_text(value: date | time) -> str:
    """A date or time as programs read it, in ISO 8601; one with a zone is in UTC: `2026-11-28T02:31:29.902000Z`."""
    if not isinstance(value, datetime):
        return value.isoformat()
    if value.tzinfo is None:
        return value.isoformat(timespec="microseconds")
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def moment(value: datetime | None) -> str:
    """A point in time to the second, in UTC; one without a zone is taken as it is."""
    if value is None:
        return ""
    return (value if value.tzinfo is None else value.astimezone(UTC)).strftime("%Y-%m-%d %H:%M:%S")


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
