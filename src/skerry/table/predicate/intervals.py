"""Spans of time as text: months, days and a time of day, which calendars keep apart."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_interval_unit", "parse_interval"]

_UNITS: Final = {
    "year": (12, 0, 0),
    "quarter": (3, 0, 0),
    "month": (1, 0, 0),
    "week": (0, 7, 0),
    "day": (0, 1, 0),
    "hour": (0, 0, 3600 * 10**9),
    "minute": (0, 0, 60 * 10**9),
    "second": (0, 0, 10**9),
    "millisecond": (0, 0, 10**6),
    "microsecond": (0, 0, 10**3),
}
_ALIASES: Final = {"hr": "hour", "min": "minute", "sec": "second", "ms": "millisecond", "us": "microsecond"}
_PART: Final = re.compile(r"\s*(?P<count>[+-]?\d{1,18})\s*(?P<unit>[a-z]+)\s*", re.IGNORECASE)


def _unit(text: str) -> tuple[int, int, int] | None:
    word = text.lower()
    word = _ALIASES.get(word, word)
    return _UNITS.get(word) or _UNITS.get(word.removesuffix("s"))


def is_interval_unit(text: str) -> bool:
    """Whether a word is a unit of intervals, such as `days`."""
    return _unit(text) is not None


def parse_interval(text: str) -> tuple[int, int, int]:
    """Parse `1 month 2 days 3 hours` as months, days and nanoseconds; ValueError if it is not an interval."""
    months = days = nanoseconds = position = 0
    while position < len(text):
        part = _PART.match(text, position)
        unit = None if part is None else _unit(part["unit"])
        if part is None or unit is None:
            raise ValueError("intervals have the form '7 days' or '1 month 12 hours'")
        count = int(part["count"])
        months, days, nanoseconds = months + count * unit[0], days + count * unit[1], nanoseconds + count * unit[2]
        position = part.end()
    if not text.strip():
        raise ValueError("intervals have the form '7 days' or '1 month 12 hours'")
    if max(abs(months), abs(days)) >= 1 << 31 or abs(nanoseconds) >= 1 << 63:
        raise ValueError("it is too long")
    return months, days, nanoseconds
