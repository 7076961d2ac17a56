"""A table's history, branches and tags."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Self

from skerry.errors import AlreadyExistsError, NotFoundError, SchemaError
from skerry.paimon.automatic_tags import note_tag_created, note_tag_deleted
from skerry.paimon.cleaning.partition_times import PartitionCheck
from skerry.paimon.cleaning.reachability import MetadataReader, kept_snapshots, reachable
from skerry.paimon.metadata import branches, tags
from skerry.paimon.metadata.file_names import checked_name
from skerry.paimon.metadata.options import FALLBACK_BRANCH
from skerry.paimon.metadata.paths import MAIN_BRANCH
from skerry.paimon.metadata.published_file import several_files
from skerry.paimon.metadata.snapshot import Snapshot
from skerry.paimon.metadata.snapshots import find_snapshot, read_snapshot, snapshot_ids, write_hint
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.metadata.time_travel import state_as_of, state_at_ref, state_at_snapshot
from skerry.paimon.writing.bucket_states import BucketStates
from skerry.paimon.writing.cross_partition import CrossPartitionKeys
from skerry.storage import is_within
from skerry.table.history import Ref, of_millis
from skerry.table.owned_files import after_publish, owned_files
from skerry.table.rows.schema import nearest
from skerry.table.work.background import BackgroundWork

__all__ = ["TableRefs"]

_BRANCH_TAG = "branch-"
"""Prefix of the names of tags that keep the files from which branches were created."""


class TableRefs:
    """Snapshots, branches and tags of a table.

    Args:
        state: A state of its main branch.
    """

    def __init__(self, state: PaimonState) -> None:
        self.state = state
        self._bucket_states: dict[str, BucketStates] = {}
        self.partition_check = PartitionCheck()
        self._keys: dict[str, CrossPartitionKeys] = {}
        self._background = BackgroundWork()

    def refresh(self) -> PaimonState:
        """Load the newest state."""
        self.state = self.state.newest(MAIN_BRANCH)
        return self.state

    def branch_state(self, ref: str = MAIN_BRANCH) -> PaimonState:
        """The newest state of a branch.

        Raises:
            NotFoundError: The branch does not exist; the message proposes the nearest name.
            SchemaError: It is a tag.
        """
        if ref == MAIN_BRANCH:
            return self.refresh()
        self.check_branch(ref)
        return self.state.newest(ref)

    def check_branch(self, ref: str) -> None:
        """Refuse a name that is not a branch.

        Raises:
            NotFoundError: The branch does not exist; the message proposes the nearest name.
            SchemaError: It is a tag.
        """
        known = branches.branch_names(self.state.storage, self.state.paths)
        if ref in known:
            return
        if tags.find_tag(self.state.storage, self.state.paths, ref) is not None:
            raise SchemaError(f"{ref!r} is a tag; only branches can be written to or moved")
        raise NotFoundError(f"no branch {ref!r}{nearest(ref, [*known, MAIN_BRANCH])}", location=self.state.name)

    # ---- history ----

    def snapshots(self, ref: str = MAIN_BRANCH) -> list[Snapshot]:
        """All snapshots of a branch that have not expired, oldest first."""
        state = self.branch_state(ref)
        found = [
            find_snapshot(state.storage, state.paths, number) for number in snapshot_ids(state.storage, state.paths)
        ]
        return [snapshot for snapshot in found if snapshot is not None]

    def current_snapshot(self, ref: str = MAIN_BRANCH) -> Snapshot | None:
        """The snapshot that a scan of a branch or tag reads; None if it has no rows yet.

        Raises:
            NotFoundError: The branch or tag does not exist.
        """
        return self.state.snapshot if ref == MAIN_BRANCH else state_at_ref(self.state, ref).snapshot

    def history(self) -> list[tuple[datetime, int]]:
        """The times at which snapshots became current, oldest first."""
        return [(of_millis(found.time_millis), found.id) for found in self.snapshots()]

    def refs(self) -> list[Ref]:
        """All branches and tags: `main` first, then by name."""
        storage, paths = self.state.storage, self.state.paths
        newest = self.refresh().snapshot
        found = [Ref(MAIN_BRANCH, "branch", newest.id if newest is not None else None)]
        others = []
        for name in branches.branch_names(storage, paths):
            tip = self.state.newest(name).snapshot
            others.append(Ref(name, "branch", tip.id if tip is not None else None))
        for tag in tags.read_tags(storage, paths):
            others.append(Ref(tag.name, "tag", tag.snapshot.id, tag.time_retained))
        return found + sorted(others, key=lambda ref: ref.name)

    # ---- tags and branches ----

    def create_tag(
        self,
        name: str,
        snapshot: int | None = None,
        *,
        ref: str = MAIN_BRANCH,
        max_ref_age: timedelta | None = None,
        replace: bool = False,
    ) -> Self:
        """Create a tag: a name for one snapshot, whose files do not expire while the tag exists.

        Args:
            name: Its name.
            snapshot: The snapshot that it names; the tip of `ref` if None.
            ref: A branch or tag.
            max_ref_age: How long it is kept.
            replace: Whether an existing tag of that name is replaced.

        Raises:
            AlreadyExistsError: A branch or tag of that name exists.
            NotFoundError: The snapshot or reference does not exist, or the table has no snapshot yet.
        """
        storage, paths = self.state.storage, self.state.paths
        found = self._snapshot(snapshot, ref)
        if name == MAIN_BRANCH or name in branches.branch_names(storage, paths):
            raise AlreadyExistsError(f"branch {name!r} already exists")
        if replace and tags.find_tag(storage, paths, name) is not None:
            self.state.authority.delete_tag(storage, paths, name)
        self.state.authority.create_tag(storage, paths, name, found, max_ref_age)
        with after_publish(f"the success file of tag {name!r}"):
            note_tag_created(self.state, name)
        return self

    def create_branch(
        self, name: str, snapshot: int | None = None, *, ref: str = MAIN_BRANCH, replace: bool = False
    ) -> Self:
        """Create a branch, which can be written to with `ref=`.

        A tag `branch-<name>` keeps the files that it starts from, for other engines, too.

        Args:
            name: Its name.
            snapshot: The snapshot to start from; the tip of `ref` if None.
            ref: A branch or tag.
            replace: Whether an existing branch of that name is replaced.

        Raises:
            AlreadyExistsError: A branch or tag of that name exists.
            NotFoundError: The snapshot or reference does not exist.
        """
        storage, paths = self.state.storage, self.state.paths
        checked_name(name, "branch")
        if tags.find_tag(storage, paths, name) is not None:
            raise AlreadyExistsError(f"tag {name!r} already exists")
        if name in branches.branch_names(storage, paths):
            if not replace:
                raise AlreadyExistsError(f"branch {name!r} already exists")
            self.drop_ref(name)
        if snapshot is None and state_at_ref(self.refresh(), ref).snapshot is None:
            with owned_files(storage) as files:
                self.state.authority.create_branch(storage, paths, name, files, None)
            return self
        kept = _BRANCH_TAG + name
        with owned_files(storage) as files:
            self.create_tag(kept, snapshot, ref=ref, replace=True)
            files.add(paths.tag(kept))
            self.state.authority.create_branch(storage, paths, name, files, kept)
        return self

    def drop_ref(self, name: str) -> Self:
        """Delete a branch or tag. Files that only it needs stay until orphans are removed.

        Raises:
            CommitUnknownError: The store failed; it may or may not exist.
            NotFoundError: The branch or tag does not exist.
            SchemaError: It is `main`, or the table's fallback branch.
        """
        storage, paths, authority = self.state.storage, self.state.paths, self.state.authority
        if name == MAIN_BRANCH:
            raise SchemaError(f"branch {name!r} cannot be dropped")
        if name in branches.branch_names(storage, paths):
            if name == self.refresh().options.fallback_branch:
                raise SchemaError(
                    f"branch {name!r} cannot be dropped: it is the table's fallback branch; remove the option "
                    f"{FALLBACK_BRANCH} first"
                )
            authority.delete_branch(storage, paths, name)
            with after_publish(f"deleting the tag from which branch {name!r} was created"), suppress(NotFoundError):
                authority.delete_tag(storage, paths, _BRANCH_TAG + name)
        elif tags.find_tag(storage, paths, name) is not None:
            authority.delete_tag(storage, paths, name)
            with after_publish(f"deleting the success file of tag {name!r}"):
                note_tag_deleted(self.state, name)
        elif tags.find_tag(storage, paths, _BRANCH_TAG + name) is not None:  # a drop that failed half-way
            authority.delete_tag(storage, paths, _BRANCH_TAG + name)
        else:
            known = [ref.name for ref in self.refs()]
            raise NotFoundError(f"no branch or tag {name!r}{nearest(name, known)}", location=self.state.name)
        return self

    def fast_forward(self, branch: str, to: str) -> Snapshot:
        """Advance a branch to the tip of another branch, which must have been created from it.

        Returns:
            The branch's new snapshot.

        Raises:
            CommitUnknownError: The store failed; the branch may have some of the snapshots.
            ConflictError: The branches have diverged.
            NotFoundError: The branch does not exist.
        """
        state = self.branch_state(branch)
        newest = state.authority.fast_forward(state.storage, state.paths, to)
        self._load_moved(branch)
        return newest

    def rollback(self, to: int | datetime, *, ref: str = MAIN_BRANCH) -> Snapshot:
        """Move a branch back to a snapshot. Later snapshots of it are deleted, with the files that only they need.

        There must be no other writers to the branch meanwhile.

        Args:
            to: A snapshot id, or a moment (UTC if it has no zone): the newest snapshot committed by then.
            ref: The branch.

        Raises:
            CommitUnknownError: The store failed; some of the later snapshots may still exist.
            NotFoundError: The branch or snapshot does not exist, or no snapshot is old enough.
            SchemaError: `to` is something else.
        """
        if isinstance(to, bool) or not isinstance(to, int | datetime):
            raise SchemaError(f"expected a snapshot id or a datetime, found {to!r}")
        state = self.branch_state(ref)
        if isinstance(to, datetime):
            target = state_as_of(state, to).snapshot
            assert target is not None, "a moment without a snapshot is refused"
        else:
            target = read_snapshot(state.storage, state.paths, to)
        later = [found for found in self.snapshots(ref) if found.id > target.id]
        if later:
            if not state.authority.roll_back(state.paths, target.id):
                _forget(state, later, target.id)
            self._load_moved(ref)
        return target

    def _load_moved(self, branch: str) -> None:
        with after_publish("loading the new state"):
            state = self.branch_state(branch)
            if state.follower is not None and branch == MAIN_BRANCH:
                state.follower.follow(state, moved=True)

    def _snapshot(self, snapshot: int | None, ref: str) -> Snapshot:
        found = (
            state_at_ref(self.refresh(), ref).snapshot
            if snapshot is None
            else state_at_snapshot(self.refresh(), snapshot).snapshot
        )
        if found is None:
            raise NotFoundError("the table has no snapshot yet", location=self.state.name)
        return found


def _forget(state: PaimonState, later: Sequence[Snapshot], target_id: int) -> None:
    """Delete the newest snapshots of a branch, and the files that nothing else needs."""
    gone = [snapshot.id for snapshot in later]
    needed = reachable(state, later, MetadataReader(state, lenient=True), mentioned=True)
    reader = MetadataReader(state)
    for run in kept_snapshots(state, gone):
        needed -= reachable(state, run, reader)
    with several_files(f"the branch may or may not be at snapshot {target_id}", state.paths.branch_root):
        write_hint(state.storage, state.paths, target_id)
        for number in reversed(gone):
            state.storage.delete([state.paths.snapshot(number)])
    with after_publish("deleting the files of later snapshots"):
        state.storage.delete([file.location for file in needed if is_within(state.location, file.location)])
