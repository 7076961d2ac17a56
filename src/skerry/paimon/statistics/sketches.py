"""The published sketches of a table, for comparisons between tables."""

from __future__ import annotations

from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.statistics.branches import column_statistics
from skerry.table.rows.schema import leaves
from skerry.table.statistics.joinable import NotCompared, SketchedColumn, TableSketches
from skerry.theta.overlap import pack_sketches

__all__ = ["table_sketches"]


def table_sketches(state: PaimonState) -> TableSketches:
    """The fresh sketches of the newest snapshot, and why other columns have none."""
    known = column_statistics(state)
    columns, sketches, missing = [], [], []
    for leaf in leaves(state.arrow_schema):
        found = known[leaf.name]
        if found.freshness.is_fresh and found.sketch is not None:
            columns.append(SketchedColumn(leaf.name, leaf.type))
            sketches.append(found.sketch.compact)
        else:
            missing.append(NotCompared(state.name, leaf.name, str(found.freshness)))
    return TableSketches(state.name, tuple(columns), pack_sketches(sketches), tuple(missing))
