"""A table's past and its branches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

from pyiceberg.table.refs import SnapshotRefType

from skerry.catalog.handle import TableHandle
from skerry.errors import SchemaError
from skerry.iceberg.cherry_pick import CherryPick, PublishStaged
from skerry.iceberg.refs import CreateRef, DropRef, FastForward, Retention, Rollback, SetRefRetention
from skerry.iceberg.state import MAIN

__all__ = ["Ref", "Snapshot", "TableHistory"]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One state of a table's rows.

    Args:
        snapshot_id: Its id.
        parent_id: The snapshot that it was made from, None for the first.
        sequence_number: Order of commits; 0 in version 1 tables.
        timestamp: When it was committed, UTC.
        operation: `append`, `replace`, `overwrite` or `delete`.
        summary: What it added and removed, and totals, as text by key.
        has_statistics: Whether sketches are published for it.
    """

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    timestamp: datetime
    operation: str
    summary: Mapping[str, str]
    has_statistics: bool


@dataclass(frozen=True, slots=True)
class Ref:
    """A branch or tag.

    Args:
        name: Its name.
        kind: `branch` or `tag`.
        snapshot_id: The snapshot that it names.
        max_ref_age: The reference itself goes when its snapshot is older; None: the table's property.
        max_snapshot_age: Of a branch: its older snapshots go; likewise.
        min_snapshots_to_keep: Of a branch: so many of its newest snapshots stay, however old; likewise.
    """

    name: str
    kind: str
    snapshot_id: int
    max_ref_age: timedelta | None = None
    max_snapshot_age: timedelta | None = None
    min_snapshots_to_keep: int | None = None


class TableHistory(TableHandle):
    """Snapshots, branches and tags of a table."""

    def snapshots(self) -> list[Snapshot]:
        """All snapshots that have not expired, oldest first."""
        metadata = self._table.state.metadata
        with_statistics = {file.snapshot_id for file in metadata.statistics if file.blob_metadata}
        found = [
            Snapshot(
                snapshot_id=snapshot.snapshot_id,
                parent_id=snapshot.parent_snapshot_id,
                sequence_number=snapshot.sequence_number or 0,
                timestamp=datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC),
                operation=snapshot.summary.operation.value if snapshot.summary else "append",
                summary=dict(snapshot.summary.additional_properties) if snapshot.summary else {},
                has_statistics=snapshot.snapshot_id in with_statistics,
            )
            for snapshot in metadata.snapshots
        ]
        return sorted(found, key=lambda snapshot: (snapshot.sequence_number, snapshot.timestamp))

    def current_snapshot(self, ref: str = MAIN) -> Snapshot | None:
        """The snapshot that a scan of a branch or tag reads; None for a table without rows so far.

        Raises:
            NotFoundError: There is no such branch or tag.
        """
        current = self._table.state.snapshot(ref)
        if current is None:
            return None
        return next(snapshot for snapshot in self.snapshots() if snapshot.snapshot_id == current.snapshot_id)

    def refs(self) -> dict[str, int]:
        """Snapshot ids by branch and tag name."""
        return {name: ref.snapshot_id for name, ref in self._table.state.metadata.refs.items()}

    def references(self) -> list[Ref]:
        """All branches and tags with what they hold on to: `main` first, then by name."""
        found = [
            Ref(
                name=name,
                kind=ref.snapshot_ref_type.value,
                snapshot_id=ref.snapshot_id,
                max_ref_age=_age(ref.max_ref_age_ms),
                max_snapshot_age=_age(ref.max_snapshot_age_ms),
                min_snapshots_to_keep=ref.min_snapshots_to_keep,
            )
            for name, ref in self._table.state.metadata.refs.items()
        ]
        return sorted(found, key=lambda ref: (ref.name != MAIN, ref.name))

    def history(self) -> list[tuple[datetime, int]]:
        """When which snapshot became the current one, oldest first."""
        return [
            (datetime.fromtimestamp(entry.timestamp_ms / 1000, UTC), entry.snapshot_id)
            for entry in self._table.state.metadata.snapshot_log
        ]

    def create_branch(
        self,
        name: str,
        snapshot: int | None = None,
        *,
        ref: str = MAIN,
        max_ref_age: timedelta | None = None,
        max_snapshot_age: timedelta | None = None,
        min_snapshots_to_keep: int | None = None,
        replace: bool = False,
    ) -> Self:
        """Make a branch, which can be written to with `ref=`.

        Args:
            name: Its name.
            snapshot: Where it begins; the tip of `ref` if None.
            ref: A branch or tag.
            max_ref_age: The branch itself goes when its newest snapshot is older.
            max_snapshot_age: Its older snapshots go.
            min_snapshots_to_keep: So many of its newest snapshots stay, however old.
            replace: Whether a branch of that name may exist, and is then set anew.

        Raises:
            AlreadyExistsError: There is a branch or tag of that name.
            NotFoundError: There is no such snapshot or reference, or the table has no snapshot yet.
        """
        retention = Retention(_milliseconds(max_ref_age), _milliseconds(max_snapshot_age), min_snapshots_to_keep)
        self._table.commit(CreateRef(name, SnapshotRefType.BRANCH, snapshot, ref, retention, replace))
        return self

    def create_tag(
        self,
        name: str,
        snapshot: int | None = None,
        *,
        ref: str = MAIN,
        max_ref_age: timedelta | None = None,
        replace: bool = False,
    ) -> Self:
        """Make a tag: a name for one snapshot, which does not expire while the tag is there.

        Args:
            name: Its name.
            snapshot: What it names; the tip of `ref` if None.
            ref: A branch or tag.
            max_ref_age: The tag itself goes when its snapshot is older.
            replace: Whether a tag of that name may exist, and is then set anew.

        Raises:
            AlreadyExistsError: There is a branch or tag of that name.
            NotFoundError: There is no such snapshot or reference, or the table has no snapshot yet.
        """
        retention = Retention(_milliseconds(max_ref_age))
        self._table.commit(CreateRef(name, SnapshotRefType.TAG, snapshot, ref, retention, replace))
        return self

    def set_retention(
        self,
        ref: str,
        *,
        max_ref_age: timedelta | None = None,
        max_snapshot_age: timedelta | None = None,
        min_snapshots_to_keep: int | None = None,
    ) -> Self:
        """Say anew how long a branch or tag holds on to snapshots; None leaves it to the table's properties.

        Raises:
            NotFoundError: There is no such branch or tag.
            SchemaError: A value is not above 0, or does not apply to a tag.
        """
        retention = Retention(_milliseconds(max_ref_age), _milliseconds(max_snapshot_age), min_snapshots_to_keep)
        self._table.commit(SetRefRetention(ref, retention))
        return self

    def drop_ref(self, name: str) -> Self:
        """Forget a branch or tag. Its snapshots stay until they expire.

        Raises:
            NotFoundError: There is no such branch or tag.
            SchemaError: It is `main`.
        """
        self._table.commit(DropRef(name))
        return self

    def fast_forward(self, branch: str, to: str) -> Snapshot | None:
        """Move a branch to the tip of another branch or tag, which must be ahead of it.

        Returns:
            The branch's snapshot now.

        Raises:
            ConflictError: The branch has snapshots that the other does not have; cherry-pick instead.
            NotFoundError: There is no such branch or tag.
        """
        self._table.commit(FastForward(branch, to))
        return self.current_snapshot(branch)

    def cherry_pick(self, snapshot: int, *, ref: str = MAIN) -> Snapshot | None:
        """Bring to a branch what another snapshot added.

        Args:
            snapshot: Its id.
            ref: The branch.

        Returns:
            The branch's snapshot now: the picked one if it was made from the branch's tip, else a new one.

        Raises:
            AlreadyExistsError: The branch has the snapshot's rows already.
            ConflictError: The snapshot removed rows, and the branch has moved on since.
            NotFoundError: There is no such snapshot or branch.
        """
        self._table.commit(CherryPick(snapshot, ref))
        return self.current_snapshot(ref)

    def publish(self, wap_id: str, *, ref: str = MAIN) -> Snapshot | None:
        """Publish rows that were staged under an id: `append(…, staged=True)` tells it in `summary["wap.id"]`.

        Returns:
            The branch's snapshot now.

        Raises:
            AlreadyExistsError: It was published already.
            ConflictError: The staged change cannot be applied to the branch as it is now.
            NotFoundError: Nothing was staged under that id.
        """
        self._table.commit(PublishStaged(wap_id, ref))
        return self.current_snapshot(ref)

    def rollback(self, to: int | datetime, *, ref: str = MAIN) -> Snapshot | None:
        """Move a branch back to a snapshot that it was once at. What came later stays until it expires.

        Args:
            to: A snapshot id, or a moment (UTC if it has no zone): the newest snapshot committed by then.
            ref: The branch.

        Raises:
            NotFoundError: There is no such branch or snapshot, or none so old.
            SchemaError: The snapshot is no ancestor of the branch's tip.
        """
        self._table.commit(Rollback(ref, to))
        return self.current_snapshot(ref)

    def set_current_snapshot(self, snapshot: int, *, ref: str = MAIN) -> Snapshot | None:
        """Move a branch to any snapshot of the table.

        Raises:
            NotFoundError: There is no such branch or snapshot.
        """
        self._table.commit(Rollback(ref, snapshot, anywhere=True))
        return self.current_snapshot(ref)


def _milliseconds(age: timedelta | None) -> int | None:
    if age is not None and age < timedelta(milliseconds=1):
        raise SchemaError(f"an age must be a millisecond or more, found {age}")
    return None if age is None else age // timedelta(milliseconds=1)


def _age(milliseconds: int | None) -> timedelta | None:
    return None if milliseconds is None else timedelta(milliseconds=milliseconds)
