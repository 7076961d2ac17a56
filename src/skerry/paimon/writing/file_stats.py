"""Statistics of a file's columns, collected while its rows are written.

Spec: docs/formats/paimon.md § 5.7.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import SchemaError
from skerry.paimon.metadata.options import CoreOptions, FileFormat
from skerry.paimon.values.binary_row import encode_rows
from skerry.paimon.values.simple_stats import SimpleStats
from skerry.paimon.values.types import DataField

__all__ = ["ColumnStats", "StatsKind", "StatsMode", "encode_stats", "stats_mode", "truncated_max", "truncated_min"]

_MODE: Final = re.compile(r"truncate\(\s*(\d{1,9})\s*\)")
_MAX_CODE_POINT: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)


class StatsKind(Enum):
    """Which statistics are kept of a column."""

    NONE = "none"
    COUNTS = "counts"
    FULL = "full"
    TRUNCATE = "truncate"


@dataclass(frozen=True, slots=True)
class StatsMode:
    """The statistics mode of a column.

    Args:
        kind: Which statistics are kept.
        length: Characters of strings to keep, if they are truncated.
    """

    kind: StatsKind
    length: int = 16


def stats_mode(options: CoreOptions, column: str, *, is_changelog: bool = False) -> StatsMode:
    """The statistics mode of a column by the table's options, in data files or changelog files.

    Raises:
        SchemaError: The option has an invalid value.
    """
    name = f"fields.{column}.stats-mode"
    text = options.options.get(name)
    usual = options.changelog_file_stats_mode if is_changelog else options.stats_mode
    text = usual if text is None else text.strip().lower()
    match = _MODE.fullmatch(text)
    if match is not None and int(match[1]):
        return StatsMode(StatsKind.TRUNCATE, int(match[1]))
    if text in ("none", "counts", "full"):
        return StatsMode(StatsKind(text))
    raise SchemaError(
        f"statistics of column {column!r}: {text!r} is not a mode; expected none, counts, full or truncate(n)"
    )


def truncated_min(text: str, length: int) -> str:
    """A lower bound of a text with at most `length` code points."""
    return text[:length]


def truncated_max(text: str, length: int) -> str | None:
    """An upper bound of a text with at most `length` code points; None if there is none."""
    if len(text) <= length:
        return text
    for end in range(length, 0, -1):
        following = ord(text[end - 1]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        if following <= _MAX_CODE_POINT:
            return text[: end - 1] + chr(following)
    return None


class ColumnStats:
    """The least and greatest value of a column, and its null count.

    Args:
        field: The column.
        mode: The statistics to keep.
        file_format: Nested columns have no statistics in Parquet files, and only null counts in others.
    """

    def __init__(self, field: DataField, mode: StatsMode, file_format: FileFormat) -> None:
        self.field = field
        self._mode = mode
        self._nulls = 0
        self._has_nan = False
        self._least: list[pa.Scalar] = []
        self._greatest: list[pa.Scalar] = []
        self._type: pa.DataType | None = None
        self._file_format = file_format

    def update(self, column: pa.ChunkedArray) -> None:
        """Add values."""
        self._type = column.type
        self._nulls += column.null_count
        if not self._has_bounds or self._has_nan:
            return
        if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
            self._has_nan = True  # readers do not agree on the order of NaN
            return
        found = pc.min_max(column)
        if found["min"].is_valid:
            self._least.append(found["min"])
            self._greatest.append(found["max"])

    @property
    def is_kept(self) -> bool:
        """Whether there are any statistics of the column."""
        if self._mode.kind is StatsKind.NONE or self._type is None:
            return False
        return not (pa.types.is_nested(self._type) and self._file_format is FileFormat.PARQUET)

    @property
    def _has_bounds(self) -> bool:
        type_ = self._type
        if type_ is None or pa.types.is_nested(type_) or pa.types.is_binary(type_):
            return False
        return self._mode.kind in (StatsKind.FULL, StatsKind.TRUNCATE)

    @property
    def null_count(self) -> int | None:
        """The null count; None if it is not kept."""
        return self._nulls if self.is_kept else None

    def bounds(self) -> pa.Array:
        """The least and the greatest value, null if unknown."""
        assert self._type is not None
        if not self._least or self._has_nan:
            return pa.nulls(2, self._type)
        least = pc.min_max(pa.array(self._least, self._type))["min"]
        greatest = pc.min_max(pa.array(self._greatest, self._type))["max"]
        if pa.types.is_string(self._type) and self._mode.kind is StatsKind.TRUNCATE:
            least = truncated_min(least.as_py(), self._mode.length)
            greatest = truncated_max(greatest.as_py(), self._mode.length)
        elif pa.types.is_floating(self._type):  # Java orders -0.0 before 0.0, Arrow does not
            least = -0.0 if least.as_py() == 0 else least
            greatest = 0.0 if greatest.as_py() == 0 else greatest
        return pa.array([least, greatest], self._type)


def encode_stats(columns: Sequence[ColumnStats], *, dense: bool) -> tuple[SimpleStats, tuple[str, ...] | None]:
    """Encode statistics for a manifest.

    Args:
        columns: All columns, in the order of the schema.
        dense: Whether columns without statistics are omitted.

    Returns:
        The statistics, and the columns that they describe, None for all.
    """
    kept = [column for column in columns if column.is_kept] if dense else list(columns)
    rows = encode_rows([column.field.type for column in kept], [column.bounds() for column in kept]).to_list()
    stats = SimpleStats(rows[0], rows[-1], tuple(column.null_count for column in kept))
    return stats, None if len(kept) == len(columns) else tuple(column.field.name for column in kept)
