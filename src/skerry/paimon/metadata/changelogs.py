"""Long-lived changelogs, which keep the changes of a snapshot readable after it has expired."""

from __future__ import annotations

from typing import Final

from skerry.errors import FormatError, NotFoundError
from skerry.paimon.metadata.numbered_files import numbered_files
from skerry.paimon.metadata.paths import TablePaths
from skerry.paimon.metadata.snapshot import Snapshot, decode_snapshot
from skerry.storage import Storage

__all__ = ["changelog_ids", "read_changelog"]

_PREFIX: Final = "changelog-"


def changelog_ids(storage: Storage, paths: TablePaths) -> list[int]:
    """The ids of the expired snapshots whose changelog is kept, ascending."""
    return numbered_files(storage, paths.changelogs, _PREFIX)


def read_changelog(storage: Storage, paths: TablePaths, snapshot_id: int) -> Snapshot:
    """What is kept of an expired snapshot: its file; its changelog manifest list still exists, if it has one.

    Raises:
        NotFoundError: Nothing is kept.
        FormatError: The file is corrupt.
        UnsupportedError: Its version or kind is unknown.
    """
    location = paths.changelog(snapshot_id)
    try:
        data = storage.read(location)
    except NotFoundError:
        raise NotFoundError(f"snapshot {snapshot_id} has no changelog; it has expired", location=location) from None
    snapshot = decode_snapshot(data, location=location)
    if snapshot.id != snapshot_id:
        raise FormatError(
            f"the changelog is of {snapshot.id}, expected {snapshot_id} by its file name", location=location
        )
    return snapshot
