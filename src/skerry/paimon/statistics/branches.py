"""Column statistics of a table that may be read from two branches (`scan.fallback-branch`).

Sketches are kept for each branch separately, over all of its partitions. For the rows of both together, only the
metadata of their files is used.
"""

from __future__ import annotations

from dataclasses import replace

from skerry.paimon.metadata.fallback_branch import fallback_state
from skerry.paimon.metadata.options import FALLBACK_BRANCH
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.reading.fallback_scan import FallbackScan
from skerry.paimon.statistics import columns as of_one_branch
from skerry.table.arguments import Condition
from skerry.table.rows.schema import leaves
from skerry.table.statistics.column_statistics import ColumnStatistics, Freshness, FreshnessState

__all__ = ["column_freshness", "column_statistics"]


def column_freshness(state: PaimonState) -> dict[str, Freshness]:
    """The freshness of the distinct count of every primitive column; absent if rows come from two branches."""
    fallback = fallback_state(state)
    if fallback is None:
        return of_one_branch.column_freshness(state)
    return dict.fromkeys((leaf.name for leaf in leaves(state.arrow_schema)), _absent(fallback))


def column_statistics(state: PaimonState, where: Condition | None = None) -> dict[str, ColumnStatistics]:
    """The statistics of every primitive column; see `skerry.paimon.statistics.columns.column_statistics`.

    Args:
        state: The table.
        where: Only for rows that satisfy a condition.

    Raises:
        NotFoundError: The branch does not exist.
        SchemaError: The branches have different columns; else as there.
    """
    fallback = fallback_state(state)
    if fallback is None:
        return of_one_branch.column_statistics(state, where)
    absent = _absent(fallback)
    found = {
        leaf.name: ColumnStatistics(leaf.name, leaf.field_id, freshness=absent) for leaf in leaves(state.arrow_schema)
    }
    parts = [
        of_one_branch.column_bounds(reader.state, splits.files, absent)
        for reader, splits in FallbackScan(state, fallback, where=where).reads()
        if len(splits)
    ]
    return {name: _together([part[name] for part in parts]) for name in found} if parts else found


def _absent(fallback: PaimonState) -> Freshness:
    return Freshness(
        FreshnessState.ABSENT,
        f"rows come from two branches ({FALLBACK_BRANCH}={fallback.branch}), each with sketches of its own",
    )


def _together(parts: list[ColumnStatistics]) -> ColumnStatistics:
    """Combine the statistics of all parts."""
    nulls = [part.null_count for part in parts]
    least, greatest = [part.min for part in parts], [part.max for part in parts]
    return replace(
        parts[0],
        null_count=None if None in nulls else sum(count for count in nulls if count is not None),
        min=None if any(bound is None for bound in least) else min(least),
        max=None if any(bound is None for bound in greatest) else max(greatest),
    )
