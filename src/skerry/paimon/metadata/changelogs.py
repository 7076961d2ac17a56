"""Long-lived changelogs: what is kept of a snapshot after it has expired, so that its changes can still be read.

Spec: docs/formats/paimon.md § 13.5.
"""

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
    """The ids of the snapshots of which the changelog is left, ascending."""
    return numbered_files(storage, paths.changelogs, _PREFIX)


def read_changelog(storage: Storage, paths: TablePaths, snapshot_id: int) -> Snapshot:
    """What is left of a snapshot: its file; of its manifest lists that of changelogs still exists, if it has one.

    Raises:
        NotFoundError: Nothing is left.
        FormatError: The file is corrupt.
        UnsupportedError: Its version or kind is not known.
    """
    location = paths.changelog(snapshot_id)
    try:
        data = storage.read(location)
    except NotFoundError:
        raise NotFoundError(f"no changelog of snapshot {snapshot_id}; it has expired", location=location) from None
    snapshot = decode_snapshot(data, location=location)
    if snapshot.id != snapshot_id:
        raise FormatError(f"the changelog is of {snapshot.id}, its file's name says {snapshot_id}", location=location)
    return snapshot
