"""Long-lived changelogs, which keep the changes of a snapshot readable after it has expired."""

from __future__ import annotations

from typing import Final

from skerry.errors import FormatError, NotFoundError
from skerry.paimon.metadata.numbered_files import numbered_files
from skerry.paimon.metadata.options import ChangelogProducer, CoreOptions
from skerry.paimon.metadata.paths import TablePaths
from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.metadata.snapshot import CommitKind, Snapshot, decode_snapshot, encode_snapshot
from skerry.storage import Storage

__all__ = ["announced_level", "changelog_ids", "changes_list", "has_changelog", "keep_changelog", "read_changelog"]

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


def keep_changelog(storage: Storage, paths: TablePaths, snapshot: Snapshot) -> None:
    """Keep the changelog of a snapshot that expires.

    Spec: docs/formats/paimon.md § 13.5.
    """
    storage.write(paths.changelog(snapshot.id), encode_snapshot(snapshot), overwrite=True)


def has_changelog(schema: TableSchema) -> bool:
    """Whether a table's writers record changes in changelog files."""
    return bool(schema.primary_keys) and CoreOptions(schema.options).changelog_producer is not ChangelogProducer.NONE


def announced_level(schema: TableSchema) -> int:
    """The least level whose rows the changelog has announced.

    What is below, a compaction will announce: the first rows of a stream of changes come from this level and above, and
    an overwrite takes away only rows from there.

    Spec: docs/formats/paimon.md § 11.
    """
    options = CoreOptions(schema.options)
    if not schema.primary_keys:
        return 0
    levels = {ChangelogProducer.LOOKUP: 1, ChangelogProducer.FULL_COMPACTION: options.num_levels - 1}
    return levels.get(options.changelog_producer, 0)


def changes_list(schema: TableSchema, snapshot: Snapshot) -> str | None:
    """The manifest list of the files that hold a snapshot's changes; None if no file holds them.

    Those of an overwrite are in no file: the states before and after it are compared.
    """
    if snapshot.changelog_manifest_list is not None or has_changelog(schema):
        return snapshot.changelog_manifest_list
    return snapshot.delta_manifest_list if snapshot.commit_kind is CommitKind.APPEND else None
