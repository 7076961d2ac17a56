"""Distinct counts of a column from samples: of a whole table, or of the files that a condition selects.

Where samples are not exact, they give bounds: the groups with a file that may match give an upper bound of the distinct
values, those in which every row matches a lower bound.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from skerry.table.statistics.column_statistics import FRESH, Freshness, FreshnessState
from skerry.table.statistics.file_groups import key_of
from skerry.theta import ThetaSketch

if TYPE_CHECKING:
    from skerry.table.statistics.group_samples import GroupSamples
    from skerry.table.statistics.group_sketches import GroupSketches

__all__ = ["Estimate", "FilesAsked", "estimate"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A distinct count.

    Args:
        freshness: How reliable it is.
        ndv: The count; None if nothing is known.
        lower: Lower bound, two standard deviations.
        upper: Upper bound, two standard deviations.
        sketch: The sketch, if it describes exactly the requested rows.
    """

    freshness: Freshness
    ndv: float | None = None
    lower: float | None = None
    upper: float | None = None
    sketch: ThetaSketch | None = None

    @classmethod
    def of(cls, sketch: ThetaSketch) -> Estimate:
        """The estimate from a sketch of exactly the requested rows."""
        return cls(FRESH, sketch.estimate(), *sketch.bounds(2), sketch)

    def at_most(self, rows: int) -> Estimate:
        """The estimate where so many rows have a value: the sketch of a unique column may be too high by its error."""
        if self.ndv is None or not (self.freshness.is_fresh or self.freshness.state is FreshnessState.UPPER_BOUND):
            return self  # a stale count is that of other rows
        ndv, lower, upper = (
            None if count is None else min(count, rows) for count in (self.ndv, self.lower, self.upper)
        )
        return replace(self, ndv=ndv, lower=lower, upper=upper)


@dataclass(frozen=True, slots=True)
class FilesAsked:
    """The data files to estimate for.

    Args:
        whole: By key of the location (`skerry.table.statistics.file_groups.key_of`), the rows of files whose rows are
            all selected.
        partial: The same for files of which only some rows may be selected.
    """

    whole: Mapping[int, int]
    partial: Mapping[int, int]

    @classmethod
    def of(cls, whole: Mapping[str, int], partial: Mapping[str, int]) -> FilesAsked:
        """Create it from rows by location."""
        return cls(
            {key_of(location): rows for location, rows in whole.items()},
            {key_of(location): rows for location, rows in partial.items()},
        )


def estimate(
    groups: GroupSamples, field_id: int, asked: FilesAsked | None = None, own: GroupSketches | None = None
) -> Estimate:
    """Estimate the number of distinct values of a column.

    Args:
        groups: Samples; the column must be among them.
        field_id: The column.
        asked: The files to count in; all sampled ones if None.
        own: Sketches of single groups, which may be more precise than the shared sample.
    """
    every = range(len(groups.groups))
    if asked is None:
        touched, inside = list(every), [row for row in every if groups.groups[row].exact]
        missing = ""
    else:
        wanted = asked.whole.keys() | asked.partial.keys()
        touched = groups.rows_of(wanted)
        inside = [
            row for row in touched if groups.groups[row].exact and groups.groups[row].files.keys() <= asked.whole.keys()
        ]
        missing = _missing(groups, asked)
    column = groups.columns[field_id]
    most = _best(groups, field_id, touched, own)
    if missing:
        return Estimate(Freshness(FreshnessState.STALE, missing), most.estimate())
    if len(inside) == len(touched) or np.array_equal(column.present(inside), column.present(touched)):
        return Estimate.of(most)
    least = _best(groups, field_id, inside, own)
    reason = _reason(groups, touched, inside)
    return Estimate(
        Freshness(FreshnessState.UPPER_BOUND, reason), most.estimate(), least.bounds(2)[0], most.bounds(2)[1]
    )


def _best(groups: GroupSamples, field_id: int, rows: Sequence[int], own: GroupSketches | None) -> ThetaSketch:
    """The sketch of some groups with the higher threshold: from the shared sample, or from the groups' own sketches."""
    shared = groups.sketch(field_id, rows)
    found = own.union((groups.groups[row] for row in rows), field_id) if own is not None and rows else None
    return shared if found is None or found.theta <= shared.theta else ThetaSketch.from_compact(found)


def _reason(groups: GroupSamples, touched: Collection[int], inside: Collection[int]) -> str:
    reduced = sum(not groups.groups[row].exact for row in touched)
    others = len(touched) - len(inside) - reduced
    reasons = []
    if reduced:
        reasons.append(
            f"{reduced} of {len(touched)} groups of files have lost rows since they were sketched; run analyze"
        )
    if others:
        reasons.append(f"{others} of {len(touched)} groups of files may also contain other rows")
    return ", and ".join(reasons)


def _missing(groups: GroupSamples, asked: FilesAsked) -> str:
    known = groups.files
    rows = {**asked.whole, **asked.partial}
    missing = sum(count for key, count in rows.items() if key not in known)
    if all(key in known for key in rows):
        return ""
    return f"{missing / max(1, sum(rows.values())):.1%} of rows not covered; run analyze".replace("%", " %")
