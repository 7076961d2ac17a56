"""Finding a commit that already exists.

Spec: docs/formats/paimon.md § 4.4.
"""

from __future__ import annotations

from skerry.paimon.metadata.snapshot import CommitKind, Snapshot
from skerry.paimon.metadata.snapshots import find_snapshot
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.operations.change import CommitId

__all__ = ["find_commit"]


def find_commit(
    state: PaimonState, commit_id: CommitId, kind: CommitKind | None = None, *, after: int = 0
) -> Snapshot | None:
    """The snapshot by which a user has already committed this number, or a later one.

    Args:
        state: The newest state.
        commit_id: Who commits.
        kind: Only commits of this kind.
        after: A snapshot; the commit cannot be that one or an earlier one.
    """
    if state.snapshot is None or commit_id.is_batch:
        return None
    for snapshot_id in range(state.snapshot.id, after, -1):
        found = state.snapshot if snapshot_id == state.snapshot.id else None
        found = found or find_snapshot(state.storage, state.paths, snapshot_id)
        if found is None:
            return None
        if found.commit_user == commit_id.user and kind in (None, found.commit_kind):
            return found if found.commit_identifier >= commit_id.identifier else None
    return None
