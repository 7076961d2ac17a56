"""Histograms of columns, and the shares of rows that conditions leave, from a table's sampled rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import SkerryError
from skerry.table.rows.schema import Leaf
from skerry.table.rows.values import natural_value
from skerry.table.statistics.file_groups import key_of
from skerry.table.statistics.freshness import FRESH, Freshness, FreshnessState
from skerry.table.statistics.row_sample import ALL_ROWS, RowSample

if TYPE_CHECKING:
    from skerry.table.predicate import Predicate

__all__ = ["Histogram", "SampledRows", "Share", "share_within"]

_MOST_BUCKETS: Final = 254
_BUCKET_ROWS: Final = 16
"""Sampled rows per bucket, at least: fewer buckets say less about nothing."""
_DEVIATIONS: Final = 3


@dataclass(frozen=True, slots=True)
class Histogram:
    """An equi-height histogram of a column: every bucket has the same share of the rows.

    Args:
        bounds: Ascending values; bucket i has those above bound i, and not above bound i + 1. The first bucket has the
            least value too. Values that are very frequent are bounds of several buckets.
        share: The share of all rows that each bucket has.
        null_share: The share of rows without a value, NaNs included.
        sampled_rows: The rows that it is made from: a share s of all rows is uncertain by about √(s / sampled_rows).
        freshness: Whether all rows of the table had their chance to be sampled, and no rows are sampled that are gone.
    """

    bounds: tuple[Any, ...]
    share: float
    null_share: float
    sampled_rows: int
    freshness: Freshness


@dataclass(frozen=True, slots=True)
class Share:
    """The share of the rows that a condition leaves, from sampled ones.

    Args:
        share: The share of the sampled rows, 0 … 1.
        lower: A lower bound for all rows, at three standard deviations.
        upper: An upper bound.
        is_known: Whether enough rows match, and enough do not, to take the share as it is.
        guess: The likeliest share where too few rows match or do not: not 0 because none was seen, and not 1.
        found: Sampled rows that match.
        count: All sampled rows.
    """

    share: float
    lower: float
    upper: float
    is_known: bool
    guess: float
    found: float
    count: float

    def within(self, expected: float) -> float:
        """The share if enough rows match; another estimate within the bounds, as it knows more of rare values."""
        if self.is_known:
            return self.share
        return expected if self.lower <= expected <= self.upper else self.guess

    def updated(self, expected: float) -> float:
        """The share if enough rows match; otherwise a doubtful estimate, corrected by the rows as far as they go.

        What is expected counts as one more matching row in 1 / `expected`: few rows correct it, unless it says that
        matching rows are too rare to be sampled.
        """
        if self.is_known or not self.lower <= expected <= self.upper:
            return self.within(expected)
        return (self.found + 1) / (self.count + 1 / expected) if expected else 0.0


class SampledRows:
    """The sampled rows of a table's snapshot, read when they are first needed.

    Args:
        load: Reads the sample, None if the snapshot has none, and the number of files that others have added since.
        columns: The table's columns.
        predicate: Only rows that satisfy it; all if None.
    """

    def __init__(
        self,
        load: Callable[[], tuple[RowSample | None, int]],
        columns: Sequence[Leaf],
        predicate: Predicate | None = None,
    ) -> None:
        self._load = load
        self._columns = tuple(columns)
        self._predicate = predicate

    def of_files(self, locations: Collection[str], *, are_all: bool) -> SampledRows:
        """Only rows of some files.

        Args:
            locations: The files.
            are_all: Whether there are no others.
        """
        return self if are_all else SampledRows(partial(_of_files, self, locations), self._columns, self._predicate)

    @cached_property
    def _loaded(self) -> tuple[RowSample | None, int]:
        return self._load()

    @property
    def sample(self) -> RowSample | None:
        """The sample; None if there is none, or no rows are in it."""
        found = self._loaded[0]
        return found if found is not None and len(found) else None

    @cached_property
    def rows(self) -> pa.RecordBatch | None:
        """The rows, with the names and types that the table's columns have now."""
        if self.sample is None:
            return None
        table = self.sample.table(self._columns)
        rows = pa.record_batch([column.combine_chunks() for column in table.columns], schema=table.schema)
        if self._predicate is None:
            return rows
        mask = _mask_of(self._predicate, rows)
        return None if mask is None else rows.filter(mask)

    @property
    def freshness(self) -> Freshness:
        """Whether the sample is one of all rows."""
        blurred = 0 if self.sample is None else len(self.sample.blurred) + self._loaded[1]
        if not blurred:
            return FRESH
        files = "1 file was" if blurred == 1 else f"{blurred:,} files were"
        reason = f"{files} not sampled, or lost rows since; run analyze(full=True) or compact"
        return Freshness(FreshnessState.STALE, reason)

    def mask_of(self, predicate: Predicate) -> pa.BooleanArray | None:
        """Which rows satisfy a condition; None if there are no rows, or they lack a column of it."""
        return _mask_of(predicate, self.rows) if self.rows else None

    def share_of(self, predicate: Predicate) -> Share | None:
        """The share of rows that a condition leaves; None if the sample does not know its columns."""
        mask = self.mask_of(predicate)
        if mask is None:
            return None
        found, count = pc.sum(mask).as_py() or 0, len(mask)
        assert self.sample is not None
        if self.sample.theta == ALL_ROWS and self.freshness.is_fresh:
            share = found / count
            return Share(share, share, share, is_known=True, guess=share, found=found, count=count)
        return _share(found, count)

    def histogram(self, field_id: int, least: Any = None, greatest: Any = None) -> Histogram | None:
        """The histogram of a column; None if its values are not sampled, or have no order that buckets could follow.

        Args:
            field_id: The column.
            least: Its least value if it is known: the first bound.
            greatest: Its greatest value if it is known: the last bound.
        """
        leaf = next((leaf for leaf in self._columns if leaf.field_id == field_id), None)
        if not self.rows or leaf is None or leaf.name not in self.rows.schema.names:
            return None
        column = self.rows.column(self.rows.schema.get_field_index(leaf.name))
        values = column.drop_null()
        if pa.types.is_floating(leaf.type):
            values = values.filter(pc.is_finite(values))
        places = bucket_bounds(len(values))
        if len(values) == 0 or pa.types.is_boolean(leaf.type):
            return None
        ordered = values.take(pc.array_sort_indices(values))
        bounds = [_natural(bound) for bound in ordered.take(pa.array(places))]
        if least is not None and isinstance(least, type(bounds[0])) and least < bounds[0]:
            bounds[0] = least
        if greatest is not None and isinstance(greatest, type(bounds[-1])) and greatest > bounds[-1]:
            bounds[-1] = greatest
        present = len(values) / len(column)
        return Histogram(tuple(bounds), present / (len(bounds) - 1), 1 - present, len(column), self.freshness)


def share_within(found: float, count: float, expected: float) -> float:
    """What some of a number of random rows say of all, if they are enough; another estimate if they allow it.

    Args:
        found: Rows that satisfy a condition.
        count: All rows, at least one.
        expected: The share of rows by other means, which know more of what is rare.
    """
    return _share(found, count).within(expected)


def _share(found: float, count: float) -> Share:
    # Wilson's interval holds for shares near 0 and 1, too
    share, z = found / count, float(_DEVIATIONS)
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    width = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    is_known = min(found, count - found) >= 2 * _BUCKET_ROWS
    guess = (found + 0.5) / (count + 1)
    return Share(share, max(0.0, middle - width), min(1.0, middle + width), is_known, guess, found, count)


def _mask_of(predicate: Predicate, rows: pa.RecordBatch) -> pa.BooleanArray | None:
    """Which rows satisfy a condition; None if they lack a column of it."""
    from skerry.table.predicate import row_mask  # not needed to load statistics

    try:
        return row_mask(predicate, rows)
    except (SkerryError, KeyError, pa.ArrowException):
        return None


def _of_files(sampled: SampledRows, locations: Collection[str]) -> tuple[RowSample | None, int]:
    sample = sampled.sample
    return (None, 0) if sample is None else (sample.only_files(set(map(key_of, locations)).__contains__), 0)


def bucket_bounds(count: int, bucket_rows: int = _BUCKET_ROWS) -> np.ndarray[Any, np.dtype[np.int64]]:
    """int64[buckets + 1], where among ascending values the bounds of buckets are, each of at least some rows."""
    buckets = max(1, min(_MOST_BUCKETS, count // bucket_rows))
    return np.linspace(0, max(count - 1, 0), buckets + 1).round().astype(np.int64)


def _natural(value: pa.Scalar) -> Any:
    if pa.types.is_temporal(value.type):
        return natural_value(value.type, value.value)
    return value.as_py()
