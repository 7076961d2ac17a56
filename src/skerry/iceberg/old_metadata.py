"""Deletion of metadata files that a commit has dropped from the log, and of statistics files with them.

A commit drops the entries of statistics that no branch or tag needs any more (`skerry.iceberg.statistics.thinning`).
Their files are still named by earlier metadata files, from which a rollback takes them, and go together with the last
of these: other engines' expiry never deletes them.

Spec: Iceberg properties, `write.metadata.delete-after-commit.enabled`, `write.metadata.previous-versions-max`.
"""

from __future__ import annotations

from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.metadata.table_metadata import TableMetadata
from skerry.iceberg.statistics.earlier import statistics_named_by
from skerry.storage import Storage, file_key, file_keys, is_within
from skerry.table.work.remembered import Remembered
from skerry.table.work.telemetry import working

__all__ = ["delete_old_metadata"]

DELETE_METADATA_PROPERTY = "write.metadata.delete-after-commit.enabled"

_NAMED: Remembered[str, frozenset[str]] = Remembered(1024)
"""Which statistics files metadata files name, of those that this process wrote or read last."""


def _named_by(storage: Storage, location: str) -> frozenset[str] | None:
    """The statistics files that a metadata file names; None if it cannot be read."""
    known = _NAMED.find(location)
    if known is None:
        found = statistics_named_by(storage, location)
        known = None if found is None else _NAMED.keep(location, frozenset(file.location for _, file in found))
    return known


def delete_old_metadata(base: TableState, metadata: TableMetadata, metadata_location: str) -> None:
    """Delete the metadata files that a commit dropped from the log, and the statistics files that only they name.

    Args:
        base: The state before.
        metadata: The committed metadata.
        metadata_location: Its file.
    """
    newest = _NAMED.keep(metadata_location, frozenset(file.statistics_path for file in metadata.statistics))
    _NAMED.keep(base.metadata_location, frozenset(file.statistics_path for file in base.metadata.statistics))
    properties = metadata.properties
    wanted = properties.get(DELETE_METADATA_PROPERTY, "true").strip().lower() == "true"
    if not wanted or properties.get("gc.enabled", "true").strip().lower() != "true":
        return
    log = [entry.metadata_file for entry in metadata.metadata_log]
    named = {*log, metadata_location}
    dropped = [entry.metadata_file for entry in base.metadata.metadata_log if entry.metadata_file not in named]
    if not dropped:
        return
    kept = set(file_keys(named))
    forgotten = [location for location in dropped if file_key(location) not in kept and _is_own(base, location)]
    released = _released(base.storage, forgotten, log, newest)
    with working(base.name, f"deleted {len(forgotten)} old metadata files", "delete", files=len(forgotten)):
        base.storage.delete(forgotten)
        base.storage.delete(location for location in released if _is_own(base, location))


def _is_own(base: TableState, location: str) -> bool:
    return any(is_within(root, location) for root in (base.metadata.location, base.metadata_folder))


def _released(storage: Storage, forgotten: list[str], log: list[str], newest: frozenset[str]) -> list[str]:
    """The statistics files that forgotten metadata files name, and none of the log nor the newest.

    Statistics files have names of their own and are registered once: from one metadata file up to another. So if the
    oldest of the log does not name a file, the later ones do not either.
    """
    named = {path for location in forgotten for path in _named_by(storage, location) or ()} - newest
    for location in log:
        named -= _NAMED.find(location) or frozenset()
    if not named:
        return []
    oldest = _named_by(storage, log[0]) if log else frozenset()
    if oldest is None:
        return []
    still = {file_key(path) for path in (*oldest, *newest)}
    return [path for path in named if file_key(path) not in still]
