"""Parsing option values: numbers, sizes, durations, booleans, enums.

Spec: Paimon documentation, Configurations: memory sizes, durations.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeVar

from skerry.errors import SchemaError, UnsupportedError

__all__ = [
    "BucketFunction",
    "ChangelogProducer",
    "FileFormat",
    "LookupCompact",
    "MergeEngine",
    "OptionTexts",
    "parse_bool",
    "parse_choice",
    "parse_duration_ms",
    "parse_int",
    "parse_levels",
    "parse_list",
    "parse_size_bytes",
]

Choice = TypeVar("Choice", bound=Enum)


class MergeEngine(Enum):
    """How records of one key are merged into one row."""

    DEDUPLICATE = "deduplicate"
    PARTIAL_UPDATE = "partial-update"
    AGGREGATION = "aggregation"
    FIRST_ROW = "first-row"


class ChangelogProducer(Enum):
    """How changelog files are produced."""

    NONE = "none"
    INPUT = "input"
    LOOKUP = "lookup"
    FULL_COMPACTION = "full-compaction"


class LookupCompact(Enum):
    """When compaction by look-up takes files of level 0 up."""

    RADICAL = "radical"
    """After every commit."""
    GENTLE = "gentle"
    """When there are many, as without look-up."""


class BucketFunction(Enum):
    """How buckets are computed from bucket keys."""

    DEFAULT = "default"
    MOD = "mod"
    HIVE = "hive"


class FileFormat(Enum):
    """Formats of data files."""

    PARQUET = "parquet"
    ORC = "orc"
    AVRO = "avro"
    AMUDAI = "amudai"
    """Only in tables that were created with it: no other engine reads it."""


# Texts --------------------------------------------------------------------------------------------------------------

_SIZE_UNITS: Final = {
    "": 1,
    "b": 1,
    "bytes": 1,
    **dict.fromkeys(("k", "kb", "kibibytes"), 1 << 10),
    **dict.fromkeys(("m", "mb", "mebibytes"), 1 << 20),
    **dict.fromkeys(("g", "gb", "gibibytes"), 1 << 30),
    **dict.fromkeys(("t", "tb", "tebibytes"), 1 << 40),
}
_DURATION_UNITS_NS: Final = {
    "": 10**6,
    **dict.fromkeys(("ns", "nano", "nanosecond", "nanoseconds"), 1),
    **dict.fromkeys(("us", "µs", "micro", "microsecond", "microseconds"), 10**3),
    **dict.fromkeys(("ms", "milli", "millisecond", "milliseconds"), 10**6),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 10**9),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60 * 10**9),
    **dict.fromkeys(("h", "hour", "hours"), 3600 * 10**9),
    **dict.fromkeys(("d", "day", "days"), 86400 * 10**9),
}
_NUMBER_AND_UNIT: Final = re.compile(r"(\d{1,18})\s*([a-zµ]*)")


def _wrong(name: str, text: str, expected: str) -> SchemaError:
    return SchemaError(f"table option {name} must be {expected}, found {text!r}")


def parse_bool(name: str, text: str) -> bool:
    """Parse `true` or `false`.

    Raises:
        SchemaError: It is neither.
    """
    lower = text.strip().lower()
    if lower not in ("true", "false"):
        raise _wrong(name, text, "true or false")
    return lower == "true"


def parse_int(name: str, text: str) -> int:
    """Parse an integer.

    Raises:
        SchemaError: It is not an integer.
    """
    try:
        return int(text)
    except ValueError:
        raise _wrong(name, text, "a whole number") from None


def parse_size_bytes(name: str, text: str) -> int:
    """Parse a size such as `128 mb` in bytes.

    Raises:
        SchemaError: It is not a size.
    """
    return _with_unit(name, text, _SIZE_UNITS, "a size such as 128 mb")


def parse_duration_ms(name: str, text: str) -> int:
    """Parse a duration such as `1 h` in milliseconds.

    Raises:
        SchemaError: It is not a duration.
    """
    return _with_unit(name, text, _DURATION_UNITS_NS, "a duration such as 1 h") // 10**6


def _with_unit(name: str, text: str, units: dict[str, int], expected: str) -> int:
    match = _NUMBER_AND_UNIT.fullmatch(text.strip().lower())
    if match is None or match[2] not in units:
        raise _wrong(name, text, expected)
    return int(match[1]) * units[match[2]]


def parse_choice(name: str, text: str, choices: type[Choice]) -> Choice:
    """Parse a member of an enum from its value.

    Raises:
        UnsupportedError: No member has that value.
    """
    lower = text.strip().lower()
    for choice in choices:
        if choice.value == lower:
            return choice
    known = ", ".join(str(choice.value) for choice in choices)
    raise UnsupportedError(f"table option {name}={text} is not supported; expected one of: {known}")


def parse_levels(name: str, text: str) -> dict[int, str]:
    """Parse values by level, such as `0:avro,5:parquet`.

    Raises:
        SchemaError: A level is not a number.
    """
    parts = (part.partition(":") for part in parse_list(text))
    return {parse_int(name, level.strip()): value.strip() for level, _, value in parts}


def parse_list(text: str) -> tuple[str, ...]:
    """Parse comma-separated names."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


@dataclass(frozen=True)
class OptionTexts:
    """Options as texts, each parsed when it is accessed.

    Args:
        options: Texts by name, as in the schema file.
    """

    options: Mapping[str, str]

    def _bool(self, name: str, default: bool) -> bool:
        text = self.options.get(name)
        return default if text is None else parse_bool(name, text)

    def _int(self, name: str, default: int) -> int:
        text = self.options.get(name)
        return default if text is None else parse_int(name, text)

    def _size(self, name: str, default: int) -> int:
        text = self.options.get(name)
        return default if text is None else parse_size_bytes(name, text)

    def _duration(self, name: str, default: int) -> int:
        text = self.options.get(name)
        return default if text is None else parse_duration_ms(name, text)

    def _choice(self, name: str, default: Choice) -> Choice:
        text = self.options.get(name)
        return default if text is None else parse_choice(name, text, type(default))

    def _names(self, name: str) -> tuple[str, ...]:
        return parse_list(self.options.get(name, ""))

    def field(self, column: str, option: str) -> str | None:
        """The text of `fields.<column>.<option>`; None if not set."""
        return self.options.get(f"fields.{column}.{option}")
