"""The folder of snapshots: the newest, the oldest, and those used for time travel.

The hints LATEST and EARLIEST only save a listing: they are verified, and the folder is listed if they are wrong.

Spec: docs/formats/paimon.md § 3.2, § 9.1; Paimon spec, Snapshot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from skerry.errors import FormatError, NotFoundError, StorageError
from skerry.paimon.metadata.numbered_files import numbered_files
from skerry.paimon.metadata.paths import TablePaths
from skerry.paimon.metadata.snapshot import Snapshot, decode_snapshot
from skerry.storage import Storage, join

__all__ = [
    "LATEST",
    "earliest_id",
    "earliest_snapshot",
    "find_snapshot",
    "latest_snapshot",
    "read_snapshot",
    "snapshot_at_time",
    "snapshot_ids",
    "write_hint",
]

_PREFIX: Final = "snapshot-"
LATEST: Final = "LATEST"
EARLIEST: Final = "EARLIEST"
_ATTEMPTS: Final = 3


def snapshot_ids(storage: Storage, paths: TablePaths) -> list[int]:
    """The ids of a branch's snapshots that have not expired, ascending."""
    return numbered_files(storage, paths.snapshots, _PREFIX)


def read_snapshot(storage: Storage, paths: TablePaths, snapshot_id: int) -> Snapshot:
    """The snapshot of an id.

    Raises:
        NotFoundError: It does not exist; it may have expired.
        FormatError: The file is corrupt.
        UnsupportedError: Its version or kind is unknown.
    """
    location = paths.snapshot(snapshot_id)
    try:
        data = storage.read(location)
    except NotFoundError:
        raise NotFoundError(f"no snapshot {snapshot_id}; it may have expired", location=location) from None
    snapshot = decode_snapshot(data, location=location)
    if snapshot.id != snapshot_id:
        raise FormatError(
            f"the snapshot's id is {snapshot.id}, expected {snapshot_id} by its file name", location=location
        )
    return snapshot


def find_snapshot(storage: Storage, paths: TablePaths, snapshot_id: int) -> Snapshot | None:
    """The snapshot of an id; None if there is none."""
    try:
        return read_snapshot(storage, paths, snapshot_id)
    except NotFoundError:
        return None


def latest_snapshot(storage: Storage, paths: TablePaths) -> Snapshot | None:
    """The newest snapshot; None if there is none.

    Raises:
        FormatError: The file is corrupt.
        UnsupportedError: Its version or kind is unknown.
    """
    return _hinted(storage, paths, LATEST, 1) or _at_end(storage, paths, -1)


def earliest_snapshot(storage: Storage, paths: TablePaths) -> Snapshot | None:
    """The oldest snapshot that has not expired; None if there is none.

    Raises:
        FormatError: The file is corrupt.
        UnsupportedError: Its version or kind is unknown.
    """
    return _hinted(storage, paths, EARLIEST, -1) or _at_end(storage, paths, 0)


def earliest_id(storage: Storage, paths: TablePaths) -> int | None:
    """The id of the oldest snapshot; None if there is none."""
    found = earliest_snapshot(storage, paths)
    return None if found is None else found.id


def _hinted(storage: Storage, paths: TablePaths, name: str, step: int) -> Snapshot | None:
    """The snapshot that a hint names; None if it does not exist, or if the one a step further exists."""
    hint = _read_hint(storage, paths, name)
    found = find_snapshot(storage, paths, hint) if hint else None
    return None if found is None or storage.exists(paths.snapshot(found.id + step)) else found


def _at_end(storage: Storage, paths: TablePaths, index: int) -> Snapshot | None:
    """The first or last snapshot of the folder; repeated if it expires meanwhile."""
    for _ in range(_ATTEMPTS):
        ids = snapshot_ids(storage, paths)
        if not ids:
            return None
        found = find_snapshot(storage, paths, ids[index])
        if found is not None:
            return found
    raise StorageError("snapshots expire faster than they can be read", location=paths.snapshots)


def _read_hint(storage: Storage, paths: TablePaths, hint: str) -> int | None:
    """The number in a hint file; None if there is no file, or no number in it."""
    try:
        text = storage.read(join(paths.snapshots, hint)).decode("ascii").strip()
    except (NotFoundError, UnicodeDecodeError):
        return None
    return int(text) if text.isdigit() and len(text) <= 19 else None


def write_hint(
    storage: Storage, paths: TablePaths, snapshot_id: int, *, earliest: bool = False, changelog: bool = False
) -> None:
    """Write the hint of the newest or oldest snapshot or changelog; concurrent writers may overwrite each other's."""
    hint = EARLIEST if earliest else LATEST
    folder = paths.changelogs if changelog else paths.snapshots
    storage.write(join(folder, hint), str(snapshot_id).encode(), overwrite=True)


# Time travel --------------------------------------------------------------------------------------------------------


def snapshot_at_time(storage: Storage, paths: TablePaths, time_millis: int) -> Snapshot | None:
    """The newest snapshot that was committed at a time or before it.

    Args:
        storage: Access to the snapshots.
        paths: Their locations.
        time_millis: Milliseconds since 1970.

    Returns:
        The snapshot; None if the oldest one is newer, or there is none.
    """
    ids = snapshot_ids(storage, paths)
    last = _bisect(storage, paths, ids, lambda snapshot: snapshot.time_millis > time_millis) - 1
    return read_snapshot(storage, paths, ids[last]) if last >= 0 else None


def _bisect(storage: Storage, paths: TablePaths, ids: list[int], is_beyond: Callable[[Snapshot], bool]) -> int:
    """The number of snapshots before the first that satisfies a condition, as all later ones must."""
    low, high = 0, len(ids)
    while low < high:
        middle = (low + high) // 2
        found = find_snapshot(storage, paths, ids[middle])
        if found is not None and is_beyond(found):
            high = middle
        else:
            low = middle + 1
    return low
