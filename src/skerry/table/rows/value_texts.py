"""Dates, times, timestamps and UUIDs as text: in SQL, and in the JSON of metadata."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

__all__ = [
    "DAY_NS",
    "format_date",
    "format_time",
    "format_timestamp",
    "parse_date",
    "parse_time",
    "parse_timestamp",
    "parse_uuid",
]

DAY_NS: Final = 86_400 * 10**9
"""Nanoseconds of a day."""

_DATE = r"(?P<date>[+-]?\d{4,7}-\d{1,2}-\d{1,2})"
_TIME = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d{1,9}))?)?"
_ZONE = r"(?P<zone>Z|UTC|(?P<sign>[+-])(?P<zone_hour>\d{2})(?::?(?P<zone_minute>\d{2}))?)"
_DATE_TEXT = re.compile(_DATE)
_TIME_TEXT = re.compile(_TIME)
_TIMESTAMP_TEXT = re.compile(rf"{_DATE}(?:[ T]{_TIME}\s?{_ZONE}?)?", re.IGNORECASE)
_UUID_TEXT = re.compile(r"[0-9a-f]{8}(-?)[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{12}", re.IGNORECASE)


def parse_date(text: str) -> int:
    """Parse `YYYY-MM-DD` as days since 1970-01-01; ValueError if it is not a date."""
    if not _DATE_TEXT.fullmatch(text):
        raise ValueError("dates have the form YYYY-MM-DD")
    return _days(text)


def parse_time(text: str) -> int:
    """Parse `HH:MM[:SS[.fffffffff]]` as nanoseconds since midnight; ValueError if it is not a time."""
    match = _TIME_TEXT.fullmatch(text)
    if not match:
        raise ValueError("times have the form HH:MM:SS[.fffffffff]")
    return _nanoseconds(match)


def parse_timestamp(text: str) -> tuple[int, bool]:
    """Parse `YYYY-MM-DD[ HH:MM[:SS[.fffffffff]]][zone]`; ValueError if it is not a timestamp.

    Returns:
        Nanoseconds since 1970-01-01 (in UTC if a zone is given), and whether a zone (Z, UTC, ±HH[:MM]) is given.
    """
    match = _TIMESTAMP_TEXT.fullmatch(text)
    if not match:
        raise ValueError("timestamps have the form YYYY-MM-DD HH:MM:SS[.fffffffff][+HH:MM]")
    nanoseconds = _days(match["date"]) * DAY_NS
    if match["hour"] is not None:
        nanoseconds += _nanoseconds(match)
    if match["sign"] is not None:
        hours, minutes = int(match["zone_hour"]), int(match["zone_minute"] or 0)
        if hours > 18 or minutes > 59:
            raise ValueError(f"not a valid zone offset: {match['zone']}")
        offset = (hours * 3600 + minutes * 60) * 10**9
        nanoseconds += offset if match["sign"] == "-" else -offset
    return nanoseconds, match["zone"] is not None


def parse_uuid(text: str) -> bytes:
    """Parse a UUID with or without hyphens as 16 bytes; ValueError if it is not one."""
    if not _UUID_TEXT.fullmatch(text):
        raise ValueError("UUIDs are written as 32 hexadecimal digits in groups of 8-4-4-4-12")
    return bytes.fromhex(text.replace("-", ""))


def _days(text: str) -> int:
    sign = text[0] if text[0] in "+-" else ""
    year, month, day = (int(part) for part in text[len(sign) :].split("-"))
    try:
        return int(np.datetime64(f"{'-' if sign == '-' else ''}{year:04}-{month:02}-{day:02}", "D").astype(np.int64))
    except ValueError:
        raise ValueError(f"not a valid date: {text}") from None


def _nanoseconds(match: re.Match[str]) -> int:
    hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError("not a valid time of day")
    return (hour * 3600 + minute * 60 + second) * 10**9 + int((match["fraction"] or "0").ljust(9, "0"))


def format_timestamp(nanoseconds: int) -> str:
    """Format nanoseconds since 1970-01-01 as `parse_timestamp` parses them."""
    days, rest = divmod(nanoseconds, DAY_NS)
    return f"{format_date(days)} {format_time(rest)}"


def format_date(days: int) -> str:
    """Format days since 1970-01-01 as `parse_date` parses them."""
    date = np.datetime64(days, "D")
    year = int(date.astype("datetime64[Y]").astype(np.int64)) + 1970
    return f"{'-' if year < 0 else ''}{abs(year):04}{str(date)[-6:]}"


def format_time(nanoseconds: int) -> str:
    """Format nanoseconds since midnight as `parse_time` parses them."""
    seconds, fraction = divmod(nanoseconds, 10**9)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:09}".rstrip("0") if fraction else text
