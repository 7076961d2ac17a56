"""Branches and tags: creating, moving and dropping them, as operations of the commit loop.

An operation states its goal (`the tip of main when the commit succeeds`), so that it is applied to the newest state;
the catalog checks that the reference has not changed since then.

Spec: Iceberg spec, Snapshot References.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from skerry.errors import AlreadyExistsError, ConflictError, NotFoundError, SchemaError
from skerry.iceberg.commit import set_branch
from skerry.iceberg.metadata.history import ancestors, is_ancestor
from skerry.iceberg.metadata.requirements import AssertRefSnapshotId
from skerry.iceberg.metadata.snapshot import Snapshot, SnapshotRefType
from skerry.iceberg.metadata.state import MAIN, TableState
from skerry.iceberg.metadata.table_updates import RemoveSnapshotRefUpdate, SetSnapshotRefUpdate
from skerry.iceberg.operations import MetadataChange
from skerry.iceberg.statistics.earlier import restored
from skerry.table.history import Retention, in_utc
from skerry.table.rows.schema import nearest

__all__ = ["CreateRef", "DropRef", "FastForward", "Rollback", "SetRefRetention"]


@dataclass(frozen=True, slots=True)
class CreateRef:
    """Create a branch or a tag.

    Args:
        name: Its name.
        kind: Branch or tag.
        snapshot_id: The snapshot to refer to; None for the tip of `source`.
        source: A branch or tag.
        retention: How long it retains snapshots.
        replace: Whether to change it if it already exists.
    """

    name: str
    kind: SnapshotRefType
    snapshot_id: int | None = None
    source: str = MAIN
    retention: Retention = field(default_factory=Retention)
    replace: bool = False

    def apply(self, base: TableState) -> MetadataChange | None:
        """Decide the change; None if the reference does not change.

        Raises:
            AlreadyExistsError: There is a reference of that name.
            NotFoundError: There is no such snapshot, or none at all.
            SchemaError: The name is empty, is `main`, or belongs to a reference of the other kind.
        """
        _check_retention(self.kind, self.retention)
        known = base.metadata.refs.get(self.name)
        if not self.name.strip():
            raise SchemaError(f"{self.name!r} is not a valid {self.kind} name")
        if self.name == MAIN and self.kind is SnapshotRefType.TAG:
            raise SchemaError(f"{MAIN!r} is a branch and cannot be a tag")
        if known is not None and not self.replace:
            raise AlreadyExistsError(f"{known.snapshot_ref_type} {self.name!r} already exists", location=base.name)
        if known is not None and known.snapshot_ref_type is not self.kind:
            raise SchemaError(f"{self.name!r} is a {known.snapshot_ref_type} and cannot become a {self.kind}")
        target = base.snapshot_by_id(self.snapshot_id) if self.snapshot_id is not None else base.snapshot(self.source)
        if target is None:
            raise NotFoundError("the table has no snapshot yet", location=base.name)
        update = _set_ref(self.name, self.kind, target.snapshot_id, self.retention)
        looked_at = {self.name} if self.snapshot_id is not None else {self.name, self.source}
        change = MetadataChange((update,), tuple(_unmoved(base, name) for name in sorted(looked_at)))
        return _with_statistics(base, target.snapshot_id, change)


@dataclass(frozen=True, slots=True)
class SetRefRetention:
    """Change how long a reference retains snapshots.

    Args:
        name: The branch or tag.
        retention: The new settings, including None values.
    """

    name: str
    retention: Retention

    def apply(self, base: TableState) -> MetadataChange | None:
        """Decide the change.

        Raises:
            NotFoundError: There is no such reference.
            SchemaError: A setting for branches is given for a tag.
        """
        known = base.metadata.refs.get(self.name)
        if known is None:
            raise _no_ref(base, self.name)
        _check_retention(known.snapshot_ref_type, self.retention)
        update = _set_ref(self.name, known.snapshot_ref_type, known.snapshot_id, self.retention)
        return MetadataChange((update,), (_unmoved(base, self.name),))


@dataclass(frozen=True, slots=True)
class DropRef:
    """Drop a branch or tag; its snapshots stay until they expire.

    Args:
        name: The branch or tag.
    """

    name: str

    def apply(self, base: TableState) -> MetadataChange | None:
        """Decide the change.

        Raises:
            NotFoundError: There is no such reference.
            SchemaError: It is `main`.
        """
        if self.name == MAIN:
            raise SchemaError(f"branch {MAIN!r} cannot be dropped")
        if self.name not in base.metadata.refs:
            raise _no_ref(base, self.name)
        return MetadataChange((RemoveSnapshotRefUpdate(ref_name=self.name),), (_unmoved(base, self.name),))


@dataclass(frozen=True, slots=True)
class FastForward:
    """Move a branch to the tip of another reference, which must descend from it.

    Args:
        branch: The branch that moves.
        to: A branch or tag.
    """

    branch: str
    to: str

    def apply(self, base: TableState) -> MetadataChange | None:
        """Decide the change; None if both are at the same snapshot.

        Raises:
            ConflictError: The branch has snapshots that the other does not have.
            NotFoundError: There is no such reference.
            SchemaError: The branch is a tag.
        """
        tip, target = base.branch(self.branch), base.snapshot(self.to)
        if target is None or (tip is not None and tip.snapshot_id == target.snapshot_id):
            return None
        if tip is not None and not is_ancestor(base.metadata, target, tip.snapshot_id):
            raise ConflictError(
                f"{self.branch!r} cannot be fast-forwarded to {self.to!r}: its snapshot {tip.snapshot_id} is not an "
                f"ancestor of snapshot {target.snapshot_id}; cherry-pick the new snapshots instead",
                location=base.name,
            )
        return move_branch(base, self.branch, target.snapshot_id)


@dataclass(frozen=True, slots=True)
class Rollback:
    """Move a branch back to an earlier snapshot.

    Args:
        branch: The branch.
        to: A snapshot id, or a moment: the branch's newest snapshot that was committed by then.
        anywhere: Whether the snapshot need not be an ancestor of the branch's tip.
    """

    branch: str
    to: int | datetime
    anywhere: bool = False

    def apply(self, base: TableState) -> MetadataChange | None:
        """Decide the change; None if the branch is there already.

        Raises:
            NotFoundError: There is no such branch or snapshot, or none that is old enough.
            SchemaError: The snapshot is not an ancestor of the branch's tip; the branch is a tag; or `to` is neither.
        """
        tip = base.branch(self.branch)
        target = self._target(base, tip)
        if tip is not None and tip.snapshot_id == target.snapshot_id:
            return None
        return move_branch(base, self.branch, target.snapshot_id)

    def _target(self, base: TableState, tip: Snapshot | None) -> Snapshot:
        if isinstance(self.to, datetime):
            moment = in_utc(self.to)
            for snapshot in ancestors(base.metadata, tip):
                if snapshot.timestamp_ms <= moment.timestamp() * 1000:
                    return snapshot
            raise NotFoundError(
                f"branch {self.branch!r} has no snapshot from {moment.isoformat()} or before", location=base.name
            )
        if isinstance(self.to, bool) or not isinstance(self.to, int):
            raise SchemaError(f"expected a snapshot id or a datetime, found {self.to!r}")
        target = base.snapshot_by_id(self.to)
        if not self.anywhere and not is_ancestor(base.metadata, tip, target.snapshot_id):
            raise SchemaError(
                f"snapshot {self.to} is not an ancestor of the tip of branch {self.branch!r}; set_current_snapshot "
                "moves there nevertheless"
            )
        return target


def move_branch(base: TableState, branch: str, snapshot_id: int) -> MetadataChange:
    """The change that moves a branch if it is still where `base` has it, to a snapshot that keeps its statistics."""
    update = set_branch(base.metadata, branch, snapshot_id)
    return _with_statistics(base, snapshot_id, MetadataChange((update,), (_unmoved(base, branch),)))


def _with_statistics(base: TableState, snapshot_id: int, change: MetadataChange) -> MetadataChange:
    """A change after which the snapshot has its statistics again, if their entry was thinned."""
    sketches, sample = restored(base, base.snapshot_by_id(snapshot_id))
    if not sketches and sample is None:
        return change
    return replace(change, snapshot_id=snapshot_id, sketches=sketches, sample=sample)


def _unmoved(base: TableState, name: str) -> AssertRefSnapshotId:
    known = base.metadata.refs.get(name)
    return AssertRefSnapshotId(ref=name, snapshot_id=known.snapshot_id if known is not None else None)


def _check_retention(kind: SnapshotRefType, retention: Retention) -> None:
    """Refuse settings that tags do not have."""
    if kind is SnapshotRefType.TAG and (retention.max_snapshot_age or retention.min_snapshots_to_keep):
        raise SchemaError("a tag refers to one snapshot; only max_ref_age applies to it")


def _set_ref(name: str, kind: SnapshotRefType, snapshot_id: int, retention: Retention) -> SetSnapshotRefUpdate:
    """Name a snapshot. Spec: Iceberg spec, Snapshot Retention Policy."""
    return SetSnapshotRefUpdate(
        ref_name=name,
        type=kind,
        snapshot_id=snapshot_id,
        max_ref_age_ms=_milliseconds(retention.max_ref_age),
        max_snapshot_age_ms=_milliseconds(retention.max_snapshot_age),
        min_snapshots_to_keep=retention.min_snapshots_to_keep,
    )


def _milliseconds(age: timedelta | None) -> int | None:
    return None if age is None else age // timedelta(milliseconds=1)


def _no_ref(base: TableState, name: str) -> NotFoundError:
    known = set(base.metadata.refs) - {MAIN}
    return NotFoundError(f"no branch or tag {name!r}{nearest(name, known)}", location=base.name)
