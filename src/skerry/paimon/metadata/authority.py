"""Who decides which snapshot or schema of a table comes next.

Usually whoever creates the next file first. Catalogs that other programs coordinate commits through have an authority
of their own: a lock around the same step, or a server that takes it.

Spec: docs/formats/paimon.md § 4; Paimon spec, Snapshot; Paimon Java, `SnapshotCommit`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar, Final

from skerry.paimon.metadata.branches import create_branch, delete_branch, fast_forward
from skerry.paimon.metadata.paths import TablePaths
from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.metadata.schemas import create_schema
from skerry.paimon.metadata.snapshot import Snapshot, encode_snapshot
from skerry.paimon.metadata.snapshots import find_snapshot, latest_snapshot, write_hint
from skerry.paimon.metadata.tags import create_tag, delete_tag
from skerry.storage import Storage
from skerry.table.owned_files import OwnedFiles

__all__ = ["FILES", "Authority"]


class Authority:
    """The first one to create a file of a number owns it; picklable, since commits may happen in other processes."""

    compares_base: ClassVar[bool] = False
    """Whether a snapshot is published only if the newest one is still its base."""

    def create_snapshot(self, storage: Storage, paths: TablePaths, snapshot: Snapshot, base: Snapshot | None) -> None:
        """Publish a snapshot.

        Args:
            storage: Access to the table's files.
            paths: Their locations.
            snapshot: The snapshot; all files that it names are written.
            base: The one before it.

        Raises:
            AccessDeniedError: It may not be published; whether it was must be looked up.
            AlreadyExistsError: There is a snapshot of that number, possibly this one.
            StorageError: It may or may not have been published.
        """
        storage.write(paths.snapshot(snapshot.id), encode_snapshot(snapshot))

    def note_newest(self, storage: Storage, paths: TablePaths, snapshot_id: int) -> None:
        """Leave a hint at the newest snapshot, which saves others a listing, and may be wrong."""
        write_hint(storage, paths, snapshot_id)

    def create_schema(
        self, storage: Storage, paths: TablePaths, schema: TableSchema, base: TableSchema | None = None
    ) -> None:
        """Publish a schema.

        Args:
            storage: Access to the table's files.
            paths: Their locations.
            schema: The schema.
            base: The one before it; None for the first.

        Raises:
            CommitUnknownError: It may or may not have been added.
            ConflictError: A schema of that number exists.
        """
        create_schema(storage, paths, schema)

    def find_snapshot(self, storage: Storage, paths: TablePaths, snapshot_id: int) -> Snapshot | None:
        """The snapshot of an id, after an unknown outcome; None if there is none."""
        return find_snapshot(storage, paths, snapshot_id)

    def create_tag(
        self, storage: Storage, paths: TablePaths, name: str, snapshot: Snapshot, time_retained: timedelta | None
    ) -> None:
        """Keep a snapshot under a name; see `skerry.paimon.metadata.tags.create_tag`."""
        create_tag(storage, paths, name, snapshot, time_retained=time_retained)

    def delete_tag(self, storage: Storage, paths: TablePaths, name: str) -> None:
        """Delete a tag; see `skerry.paimon.metadata.tags.delete_tag`."""
        delete_tag(storage, paths, name)

    def create_branch(
        self, storage: Storage, paths: TablePaths, branch: str, files: OwnedFiles, tag: str | None
    ) -> None:
        """Create a branch; see `skerry.paimon.metadata.branches.create_branch`."""
        create_branch(storage, paths, branch, files, tag=tag)

    def delete_branch(self, storage: Storage, paths: TablePaths, branch: str) -> None:
        """Delete a branch; see `skerry.paimon.metadata.branches.delete_branch`."""
        delete_branch(storage, paths, branch)

    def fast_forward(self, storage: Storage, paths: TablePaths, branch: str) -> Snapshot:
        """Advance a branch to the tip of another; see `skerry.paimon.metadata.branches.fast_forward`."""
        return fast_forward(storage, paths, branch)

    def roll_back(self, paths: TablePaths, snapshot_id: int) -> bool:
        """Move a branch back to a snapshot, if that is not only a matter of deleting the files of later ones.

        Returns:
            Whether it was done.
        """
        return False

    def latest_snapshot(self, storage: Storage, paths: TablePaths) -> Snapshot | None:
        """The newest snapshot of a branch; None if there is none.

        Raises:
            FormatError: It is corrupt.
            UnsupportedError: Its version or kind is unknown.
        """
        return latest_snapshot(storage, paths)


FILES: Final = Authority()
"""The authority of tables that no catalog coordinates."""
