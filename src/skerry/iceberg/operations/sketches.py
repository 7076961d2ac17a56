"""Which sketches a snapshot may publish: those that describe exactly its rows.

New rows are united with the base's fresh sketches. Rows that only move keep them. A sketch cannot forget, so that after
rows were taken away there is nothing to publish unless none of the old rows is left.
"""

from __future__ import annotations

from collections.abc import Mapping

from skerry.iceberg.state import TableState
from skerry.iceberg.statistics import extendable_sketches
from skerry.table.statistics import SketchPolicy
from skerry.theta import ThetaSketch, union

__all__ = ["sketches_kept", "sketches_replaced", "sketches_with"]


def sketches_with(base: TableState, ref: str, added: Mapping[int, ThetaSketch]) -> dict[int, ThetaSketch]:
    """Unions of the base's fresh sketches and those of new rows.

    A column is published only if every row is in its sketch: all new files were sketched for it, and so was every row
    before them.

    Args:
        base: The state before.
        ref: The branch that the rows are added to.
        added: By field id, sketches of all new rows.
    """
    policy = SketchPolicy.from_properties(base.properties)
    snapshot = base.snapshot(ref)
    published = {} if snapshot is None or not policy.enabled else extendable_sketches(base, snapshot)
    columns = policy.columns(base.schema, created=snapshot is None, sketched=published)
    return {
        column.field_id: union([published[column.field_id], sketch]) if column.field_id in published else sketch
        for column in columns
        if (sketch := added.get(column.field_id)) is not None
    }


def sketches_kept(base: TableState, ref: str) -> dict[int, ThetaSketch]:
    """The base's fresh sketches, for a snapshot with the same rows.

    Args:
        base: The state before.
        ref: The branch whose files are replaced.
    """
    snapshot = base.snapshot(ref)
    if snapshot is None or not SketchPolicy.from_properties(base.properties).enabled:
        return {}
    return extendable_sketches(base, snapshot)


def sketches_replaced(base: TableState, added: Mapping[int, ThetaSketch]) -> dict[int, ThetaSketch]:
    """The sketches of new rows, for a snapshot that keeps none of the old ones.

    Args:
        base: The state before.
        added: By field id, sketches of all new rows.
    """
    columns = SketchPolicy.from_properties(base.properties).columns(base.schema, created=True)
    return {column.field_id: added[column.field_id] for column in columns if column.field_id in added}
