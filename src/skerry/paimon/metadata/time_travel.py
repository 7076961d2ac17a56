"""Time travel: the snapshot for an id, a tag, a branch, a moment, a watermark or a version.

Spec: docs/formats/paimon.md § 9.1; Paimon Java, `TimeTravelUtil`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from skerry.errors import NotFoundError
from skerry.paimon.metadata.branches import branch_names
from skerry.paimon.metadata.paths import MAIN_BRANCH
from skerry.paimon.metadata.snapshots import find_snapshot, read_snapshot, snapshot_at_time
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.metadata.tags import find_tag, read_tag, tag_names
from skerry.table.history import in_utc
from skerry.table.rows.schema import nearest

__all__ = [
    "state_as_of",
    "state_at_ref",
    "state_at_snapshot",
    "state_at_tag",
    "to_millis",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def state_at_snapshot(state: PaimonState, snapshot_id: int) -> PaimonState:
    """The state at a snapshot, with its own schema; an expired snapshot is found if a tag has kept it.

    Raises:
        NotFoundError: It does not exist.
    """
    found = find_snapshot(state.storage, state.paths, snapshot_id)
    if found is not None:
        return state.at(found)
    for name in tag_names(state.storage, state.paths):
        tag = find_tag(state.storage, state.paths, name)
        if tag is not None and tag.snapshot.id == snapshot_id:
            return state.at(tag.snapshot)
    return state.at(read_snapshot(state.storage, state.paths, snapshot_id))


def state_at_tag(state: PaimonState, name: str) -> PaimonState:
    """The state at a tag, with its own schema.

    Raises:
        NotFoundError: The tag does not exist.
    """
    return state.at(read_tag(state.storage, state.paths, name).snapshot)


def state_at_ref(state: PaimonState, ref: str) -> PaimonState:
    """The newest state of a branch, or the state at a tag.

    Args:
        state: Any state of the table.
        ref: `main`, another branch, or a tag of the branch of `state`; a branch takes precedence over a tag.

    Raises:
        NotFoundError: Neither exists; the message proposes the nearest name.
    """
    if ref == state.branch:
        return state
    if ref == MAIN_BRANCH:
        return state.newest(MAIN_BRANCH)
    branches = branch_names(state.storage, state.paths)
    if ref in branches:
        return state.newest(ref)
    tags = tag_names(state.storage, state.paths)
    if ref not in tags:
        raise NotFoundError(
            f"no branch or tag {ref!r}{nearest(ref, {*branches, *tags, MAIN_BRANCH})}", location=state.name
        )
    return state_at_tag(state, ref)


def state_as_of(state: PaimonState, moment: datetime) -> PaimonState:
    """The state at a moment: of the newest snapshot that was committed then or before.

    Args:
        state: The newest state of the branch.
        moment: The moment; UTC if it has no zone.

    Raises:
        NotFoundError: The oldest snapshot is newer.
    """
    found = snapshot_at_time(state.storage, state.paths, to_millis(moment))
    if found is None:
        raise NotFoundError(f"no snapshot was current at {in_utc(moment).isoformat()}", location=state.name)
    return state.at(found)


def to_millis(moment: datetime) -> int:
    """Milliseconds since 1970 of a moment; UTC if it has no zone."""
    return (in_utc(moment) - _EPOCH) // timedelta(milliseconds=1)
