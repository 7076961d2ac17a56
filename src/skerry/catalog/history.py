"""A table's past and its branches."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Self

from skerry.catalog.handle import TableHandle
from skerry.table.history import MAIN, Ref, Retention, Snapshot

__all__ = ["Ref", "Snapshot", "TableHistory"]


class TableHistory(TableHandle):
    """Snapshots, branches and tags of a table."""

    def snapshots(self) -> list[Snapshot]:
        """All snapshots that have not expired, oldest first."""
        return self._backend.snapshots()

    def current_snapshot(self, ref: str = MAIN) -> Snapshot | None:
        """The snapshot that a scan of a branch or tag reads; None for a table without rows so far.

        Raises:
            NotFoundError: There is no such branch or tag.
        """
        return self._backend.current_snapshot(ref)

    def refs(self) -> dict[str, int]:
        """Snapshot ids by branch and tag name."""
        return {ref.name: ref.snapshot_id for ref in self._backend.references() if ref.snapshot_id is not None}

    def references(self) -> list[Ref]:
        """All branches and tags with what they hold on to: `main` first, then by name."""
        return sorted(self._backend.references(), key=lambda ref: (ref.name != MAIN, ref.name))

    def history(self) -> list[tuple[datetime, int]]:
        """When which snapshot became the current one, oldest first."""
        return self._backend.history()

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
        retention = Retention(max_ref_age, max_snapshot_age, min_snapshots_to_keep)
        self._backend.create_branch(name, snapshot, ref, retention, replace)
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
        self._backend.create_tag(name, snapshot, ref, max_ref_age, replace)
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
        self._backend.set_retention(ref, Retention(max_ref_age, max_snapshot_age, min_snapshots_to_keep))
        return self

    def drop_ref(self, name: str) -> Self:
        """Forget a branch or tag. Its snapshots stay until they expire.

        Raises:
            NotFoundError: There is no such branch or tag.
            SchemaError: It is `main`.
        """
        self._backend.drop_ref(name)
        return self

    def fast_forward(self, branch: str, to: str) -> Snapshot | None:
        """Move a branch to the tip of another branch or tag, which must be ahead of it.

        Returns:
            The branch's snapshot now.

        Raises:
            ConflictError: The branch has snapshots that the other does not have; cherry-pick instead.
            NotFoundError: There is no such branch or tag.
        """
        self._backend.fast_forward(branch, to)
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
        self._backend.cherry_pick(snapshot, ref)
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
        self._backend.publish(wap_id, ref)
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
        self._backend.rollback(to, ref, False)
        return self.current_snapshot(ref)

    def set_current_snapshot(self, snapshot: int, *, ref: str = MAIN) -> Snapshot | None:
        """Move a branch to any snapshot of the table.

        Raises:
            NotFoundError: There is no such branch or snapshot.
        """
        self._backend.rollback(snapshot, ref, True)
        return self.current_snapshot(ref)
