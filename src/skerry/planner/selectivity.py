"""Selectivity: the share of rows that a condition leaves, by bounds, null and distinct counts, and sketches.

Values are assumed to be spread evenly between a column's bounds and to be equally frequent; of conditions on different
columns the more selective ones count more. Ranges of one column are intersected first. Whether a value occurs at all is
looked up in the sketch, if its hash is below the threshold. Where the table has sampled rows, and enough of them match,
none of this is assumed: the conditions are tested on them.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from skerry.table.predicate import (
    And,
    Column,
    Comparison,
    Constant,
    Holds,
    In,
    IntersectsExtent,
    IsMinusZero,
    IsNaN,
    IsNull,
    Operator,
    Or,
    Predicate,
    StartsWith,
    columns_of,
    conjunction,
    conjuncts_of,
)
from skerry.table.rows.values import encode_value, physical_value
from skerry.table.statistics.column_statistics import ColumnStatistics
from skerry.table.statistics.histogram import SampledRows
from skerry.theta.hashing import hash_bytes

__all__ = ["ASSUMED_EQUALITY", "ASSUMED_RANGE", "damped", "selectivity", "share_of_rows"]

ASSUMED_EQUALITY = 0.1
ASSUMED_RANGE = 1 / 3
"""Assumed selectivity of conditions about which statistics show nothing."""

_PREFIX_BYTES = 8


@dataclass(slots=True)
class _Range:
    """The range of a column's values, as positions on its scale."""

    low: float = -math.inf
    high: float = math.inf


def selectivity(
    predicate: Predicate, columns: Mapping[int, ColumnStatistics], row_count: float, assumptions: list[str]
) -> float:
    """Estimate the share of rows that a condition leaves.

    Args:
        predicate: The condition.
        columns: Statistics of the columns, by field id.
        row_count: Rows of the table.
        assumptions: Assumptions are appended here.

    Returns:
        The share, 0 … 1.
    """
    return min(1.0, max(0.0, _Selectivity(columns, row_count, assumptions).of(predicate)))


def share_of_rows(
    predicate: Predicate, columns: Mapping[int, ColumnStatistics], row_count: float, assumptions: list[str]
) -> float:
    """Estimate the share of rows that a condition leaves: as `selectivity`, or by sampled rows if there are any.

    Where few of them match, the other estimate is taken if it is within the bounds that they show.
    """
    sampled = next((column.sampled for column in columns.values() if column.sampled is not None), None)
    if sampled is None or not sampled.rows:
        return selectivity(predicate, columns, row_count, assumptions)
    if not sampled.freshness.is_fresh:
        assumptions.append(f"sampled rows are like the others ({sampled.freshness.reason})")
    shares = [_share_of_rows(part, columns, row_count, sampled, assumptions) for part in _by_column(predicate)]
    found = sampled.share_of(predicate) if len(shares) > 1 else None
    return damped(shares) if found is None else found.updated(damped(shares))


def _by_column(predicate: Predicate) -> list[Predicate]:
    """The conditions, those on the same columns together."""
    groups: dict[frozenset[Column], list[Predicate]] = {}
    for part in conjuncts_of(predicate):
        groups.setdefault(frozenset(columns_of(part)), []).append(part)
    return [conjunction(parts) for parts in groups.values()]


def _share_of_rows(
    predicate: Predicate,
    columns: Mapping[int, ColumnStatistics],
    row_count: float,
    sampled: SampledRows,
    assumptions: list[str],
) -> float:
    """The share of conditions on the same columns."""
    found = sampled.share_of(predicate)
    if found is not None and found.is_known:
        return found.share
    share = selectivity(predicate, columns, row_count, assumptions)
    return share if found is None else found.within(share)


def damped(shares: Iterable[float]) -> float:
    """The share that several conditions leave together, about which nothing but their own shares is known.

    Conditions of one query are rarely independent: the most selective one counts whole, of the next the square root, of
    the one after that the fourth root, and so on ("exponential back-off").
    """
    return math.prod(share ** (0.5**place) for place, share in enumerate(sorted(shares)))


class _Selectivity:
    def __init__(self, columns: Mapping[int, ColumnStatistics], row_count: float, assumptions: list[str]) -> None:
        self._columns = columns
        self._row_count = row_count
        self._assumptions = assumptions

    def of(self, predicate: Predicate) -> float:
        match predicate:
            case Constant(value):
                return float(value)
            case And():
                return self._all(conjuncts_of(predicate))
            case Or(children):
                return 1.0 - math.prod(1.0 - self.of(child) for child in children)
            case Comparison(column, Operator.EQ, value):
                return self._among(column, (value,))
            case Comparison(column, Operator.NE, value):
                return self._present(column) - self._among(column, (value,))
            case In(column, values, negated):
                share = self._among(column, values)
                return self._present(column) - share if negated else share
            case IsNull(column, negated):
                return self._present(column) if negated else 1.0 - self._present(column)
            case IsNaN(_, negated) | IsMinusZero(_, negated):
                return 1.0 if negated else 0.0
            case StartsWith(column, _, negated):
                share = self._all((StartsWith(column, predicate.prefix),))
                return self._present(column) - share if negated else share
            case Holds():
                share = ASSUMED_EQUALITY if predicate.is_selective else ASSUMED_RANGE
                self._assumptions.append(f"{predicate}: {share:.0%} of rows")
                return share
            case _:
                return self._all((predicate,))

    def _all(self, conjuncts: Iterable[Predicate]) -> float:
        """Conditions on different columns, damped; ranges of one column are intersected first."""
        ranges: dict[Column, _Range] = {}
        shares: list[float] = []
        for conjunct in conjuncts:
            interval = self._interval(conjunct)
            if interval is None:
                shares.append(self._guess(conjunct) if _is_range(conjunct) else self.of(conjunct))
                continue
            column, low, high = interval
            known = ranges.setdefault(column, _Range())
            known.low, known.high = max(known.low, low), min(known.high, high)
        return damped([*shares, *(self._between(column, known) for column, known in ranges.items())])

    def _interval(self, predicate: Predicate) -> tuple[Column, float, float] | None:
        """The range that a condition selects on a column's scale, if it is one."""
        match predicate:
            case Comparison(column, operator, value) if operator not in (Operator.EQ, Operator.NE):
                scale = self._scale(column)
                if scale is None:
                    return None
                position, step = scale.position(value), scale.step
                match operator:
                    case Operator.LT:
                        return column, -math.inf, position
                    case Operator.LE:
                        return column, -math.inf, position + step
                    case Operator.GT:
                        return column, position + step, math.inf
                    case _:
                        return column, position, math.inf
            case StartsWith(column, prefix, False):
                scale = self._scale(column)
                if scale is None:
                    return None
                text = prefix.encode()
                return column, scale.position(text), scale.position(text[:-1] + bytes([text[-1] + 1]))
        return None

    def _between(self, column: Column, wanted: _Range) -> float:
        scale = self._scale(column)
        assert scale is not None
        low, high = max(wanted.low, scale.low), min(wanted.high, scale.high)
        width = scale.high - scale.low
        share = (high - low) / width if width > 0 else float(wanted.low <= scale.low < wanted.high)
        return self._present(column) * min(1.0, max(0.0, share))

    def _among(self, column: Column, values: tuple[Any, ...]) -> float:
        """Rows whose value is one of several: those that occur, all equally frequent."""
        known = self._columns.get(column.field_id)
        if known is None or not known.freshness.is_fresh or not known.ndv:
            self._assumptions.append(f"{column} = …: {ASSUMED_EQUALITY:.0%} of rows ({_why(known)})")
            return min(1.0, ASSUMED_EQUALITY * len(values))
        occurring = sum(_may_occur(known, column.type, value) for value in values)
        return self._present(column) * min(1.0, occurring / known.ndv)

    def _present(self, column: Column) -> float:
        """The share of rows in which a column is not null."""
        known = self._columns.get(column.field_id)
        nulls = known.null_count if known is not None else None
        return 1.0 - min(1.0, nulls / self._row_count) if nulls and self._row_count else 1.0

    def _guess(self, predicate: Predicate) -> float:
        self._assumptions.append(f"{predicate}: {ASSUMED_RANGE:.0%} of rows (no bounds are known)")
        return ASSUMED_RANGE

    def _scale(self, column: Column) -> _Scale | None:
        known = self._columns.get(column.field_id)
        if known is None or known.min is None or known.max is None:
            return None
        return _Scale.of(column.type, known.min, known.max)


@dataclass(frozen=True, slots=True)
class _Scale:
    """A column's values as numbers.

    Args:
        low: The position of the least value.
        high: The position of the greatest value, plus one step for integers, so that every value has a width.
        step: The distance between neighbours; 0 if there are none.
        shared: Number of leading bytes that all texts share.
    """

    low: float
    high: float
    step: float
    shared: int = 0

    @classmethod
    def of(cls, type_: pa.DataType, least: Any, greatest: Any) -> _Scale | None:
        """The scale between two bounds as Python values; None if one of them has no position."""
        if isinstance(least, str | bytes):
            first, last = _as_bytes(least), _as_bytes(greatest)
            shared = next((i for i, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), 0)
            return cls(_text_position(first, shared), _text_position(last, shared) + 1.0, 0.0, shared)
        if isinstance(least, bool | datetime.timedelta):
            return None
        low, high = physical_value(type_, least), physical_value(type_, greatest)
        if not isinstance(low, int) and not pa.types.is_floating(type_) and not pa.types.is_decimal(type_):
            return None
        step = 1.0 if pa.types.is_integer(type_) or pa.types.is_date(type_) else 0.0
        if not (math.isfinite(low) and math.isfinite(high)):
            return None
        return cls(float(low), float(high) + step, step)

    def position(self, value: Any) -> float:
        """The position of a value."""
        if isinstance(value, str | bytes):
            return _text_position(_as_bytes(value), self.shared)
        return float(value)


def _as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _text_position(text: bytes, shared: int) -> float:
    """A text as the number formed by its bytes after the shared ones."""
    return float(int.from_bytes(text[shared : shared + _PREFIX_BYTES].ljust(_PREFIX_BYTES, b"\0"), "big"))


def _is_range(predicate: Predicate) -> bool:
    return isinstance(predicate, StartsWith | IntersectsExtent) or (
        isinstance(predicate, Comparison) and predicate.operator not in (Operator.EQ, Operator.NE)
    )


def _may_occur(column: ColumnStatistics, type_: pa.DataType, value: Any) -> bool:
    """Whether a column may have a value; a sketch contains all values whose hashes are below its threshold."""
    if column.sketch is None:
        return True
    data = encode_value(type_, value)
    if not data:
        return True  # sketches do not contain empty texts
    found = hash_bytes(data)
    if found >= column.sketch.theta:
        return True
    hashes = column.sketch.hashes
    position = int(hashes.searchsorted(found))
    return position < len(hashes) and int(hashes[position]) == found


def _why(known: ColumnStatistics | None) -> str:
    return "the column has no statistics" if known is None else f"distinct count {known.freshness}"
