"""The moments that partitions stand for, from the texts of their values; and when writers check them.

Spec: docs/formats/paimon.md § 13.7.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from skerry.errors import SchemaError
from skerry.paimon.metadata.option_values import parse_bool, parse_duration_ms

__all__ = ["PartitionCheck", "PartitionTimes"]

_END_INPUT: Final = "end-input.check-partition-expire"

_DEFAULT: Final = re.compile(
    r"(?P<y>\d{1,10})-(?P<M>\d{1,2})-(?P<d>\d{1,2})"
    r"(?: (?P<H>\d{1,2}):(?P<m>\d{1,2}):(?P<s>\d{1,2})(?:\.(?P<S>\d{1,9}))?)?"
)
_LETTERS: Final[Mapping[str, str]] = {"y": "y", "u": "y", "M": "M", "d": "d", "H": "H", "m": "m", "s": "s", "S": "S"}
_FORMAT: Final = re.compile(r"'((?:[^']|'')*)'|(([A-Za-z])\3*)|([^A-Za-z'])")


@dataclass(frozen=True)
class PartitionTimes:
    """How the moment of a partition is found.

    Args:
        keys: The partition keys.
        pattern: A text with `$key` for values (`partition.timestamp-pattern`); the first key's value if None.
        form: How that text is parsed, by the letters of Java's DateTimeFormatter (`partition.timestamp-formatter`);
            `yyyy-MM-dd` or `yyyy-MM-dd HH:mm:ss`, with fewer digits too, if None.
    """

    keys: Sequence[str]
    pattern: str | None = None
    form: str | None = None

    def __post_init__(self) -> None:
        """Refuse letters that are not supported; raises `SchemaError`."""
        self._regex()

    def moment(self, values: Sequence[str | None]) -> datetime | None:
        """The local time that a partition stands for; None if its values have none.

        Args:
            values: The texts of its values.
        """
        used = values if self.pattern is not None else values[:1]
        if any(value is None for value in used):
            return None
        text = self.pattern or str(values[0])
        if self.pattern is not None:
            for key, value in zip(self.keys, values, strict=True):
                text = text.replace(f"${key}", str(value))
        match = self._regex().fullmatch(text)
        if match is None:
            return None
        parts = {name: found for name, found in match.groupdict().items() if found is not None}
        fraction = int(parts.get("S", "0").ljust(6, "0")[:6])
        numbers = {name: int(found) for name, found in parts.items()}
        with suppress(ValueError, OverflowError):
            if self.form is not None:
                year, month, day = (numbers.get(name, 1) for name in "yMd")
                hour, minute, second = (numbers.get(name, 0) for name in "Hms")
                return datetime(year, month, day, hour, minute, second, fraction)
            # as Java's lenient default: the 32nd of a month is the first of the next
            months = numbers["y"] * 12 + numbers["M"] - 1
            first = datetime(months // 12, months % 12 + 1, 1, microsecond=fraction)
            hours, minutes, seconds = (numbers.get(name, 0) for name in "Hms")
            return first + timedelta(days=numbers["d"] - 1, hours=hours, minutes=minutes, seconds=seconds)
        return None

    def _regex(self) -> re.Pattern[str]:
        return _DEFAULT if self.form is None else _compiled(self.form)


def _compiled(form: str) -> re.Pattern[str]:
    """The expression of a Java pattern of numbers."""
    parts: list[str] = []
    position = 0
    for match in _FORMAT.finditer(form):
        quoted, letters, letter, literal = match.groups()
        if match.start() != position:
            break
        if literal is not None:
            parts.append(re.escape(literal))
        elif quoted is not None:
            parts.append(re.escape(quoted.replace("''", "'") or "'"))
        elif letter in _LETTERS and len(letters) <= (9 if letter in "yuS" else 2):
            width = f"{{{len(letters)}}}" if len(letters) > 1 else "+"
            parts.append(f"(?P<{_LETTERS[letter]}>\\d{width})")
        else:
            break
        position = match.end()
    if position != len(form):
        raise SchemaError(
            f"table option partition.timestamp-formatter={form!r}: only numbers of years, months, days, hours, "
            "minutes, seconds and fractions are supported (yyyy MM dd HH mm ss S)"
        )
    try:
        return re.compile("".join(parts))
    except re.error:
        raise SchemaError(f"table option partition.timestamp-formatter={form!r} has a part twice") from None


class PartitionCheck:
    """When the partitions of a table are next checked by this process, as its writers do after commits."""

    def __init__(self) -> None:
        self._last_s = time.monotonic()
        self._share = random.random()

    def is_due(self, options: Mapping[str, str]) -> bool:
        """Whether the interval of the options is over; the next one begins if so.

        The first interval began at some moment before, so that short jobs check now and then, as in Java.
        """
        name = "partition.expiration-check-interval"
        interval_s = parse_duration_ms(name, options.get(name, "1 h")) / 1000
        at_once = not interval_s or parse_bool(_END_INPUT, options.get(_END_INPUT, "false"))
        if not at_once and time.monotonic() - self._last_s + self._share * interval_s <= interval_s:
            return False
        self._last_s, self._share = time.monotonic(), 0.0
        return True
