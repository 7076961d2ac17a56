"""Statistics of a table that its snapshots name.

Spec: Paimon, Snapshot; `formats/paimon.md` §§ 3, 12.
"""

from __future__ import annotations

from dataclasses import replace

from skerry.paimon.operations.change import TableChange
from skerry.paimon.snapshot import Snapshot
from skerry.paimon.state import PaimonState

__all__ = ["stage_statistics"]


def stage_statistics(base: PaimonState, snapshot: Snapshot, change: TableChange, files: list[str]) -> Snapshot:
    """The snapshot with the statistics that it is to name.

    Args:
        base: The state before.
        snapshot: The snapshot to be.
        change: What the commit does.
        files: Files that the attempt has written; those written here are added.

    Returns:
        The snapshot; a statistics file is inherited while the schema is the same.
    """
    previous = base.snapshot
    if previous is None or previous.schema_id != snapshot.schema_id:
        return snapshot
    return replace(snapshot, statistics=previous.statistics)
