"""Whether a commit writes the sketches of all columns again, or leaves other engines an older entry.

Sketches take 32 kB a column, whatever the size of the change. They are written as long as they fit into a budget that
follows the change, and beyond it once a count has moved by more than 2 %; samples keep our own counts exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.statistics.registered import hashed_type, latest_blobs, ndv_of
from skerry.table.rows.schema import leaves
from skerry.table.statistics.group_samples import fits
from skerry.table.statistics.settings import COMPLETE_PROPERTY
from skerry.theta import ThetaSketch

__all__ = ["within_budget"]

_MOVED: Final = 0.02


def within_budget(
    base: TableState, parent: Snapshot | None, sketches: Mapping[int, ThetaSketch], data_bytes: int
) -> Mapping[int, ThetaSketch]:
    """The sketches that a commit publishes: all of them, or none.

    Args:
        base: The state before.
        parent: The snapshot before.
        sketches: The sketches of the new snapshot, by field id.
        data_bytes: Size of the data and delete files that the commit adds.
    """
    always = base.properties.get(COMPLETE_PROPERTY, "false").strip().lower() == "true"
    if always or parent is None or fits(sketches.values(), data_bytes):
        return sketches
    types = {leaf.field_id: leaf.type for leaf in leaves(base.schema)}
    last = latest_blobs(base, parent)
    for field_id, sketch in sketches.items():
        if field_id not in last:
            return sketches
        snapshot, blob = last[field_id]
        then = ndv_of(blob)
        if then is None or hashed_type(base, snapshot, blob) != types.get(field_id):
            return sketches
        if abs(sketch.estimate() - then) > _MOVED * max(then, 1):
            return sketches
    return {}
