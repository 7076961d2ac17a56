"""The files of a snapshot as records: for commits, compaction and maintenance. Scans plan on columns instead.

Spec: docs/formats/paimon.md § 5.5, § 9.2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from skerry.errors import FormatError
from skerry.paimon.manifests.index_manifest import IndexManifestEntry, read_index_manifest
from skerry.paimon.manifests.manifest import FileIdentity, FileKind, ManifestEntry, read_manifest
from skerry.paimon.manifests.manifest_list import ManifestFileMeta, read_manifest_list
from skerry.paimon.metadata.snapshot import Snapshot
from skerry.paimon.metadata.state import PaimonState

__all__ = [
    "delta_entries",
    "index_entries",
    "live_entries",
    "merged_entries",
    "read_manifests",
    "snapshot_manifests",
]


def snapshot_manifests(state: PaimonState, snapshot: Snapshot) -> list[ManifestFileMeta]:
    """All manifests of a snapshot: those of its base, then those of its own commit."""
    paths = state.paths
    base = paths.manifest(snapshot.base_manifest_list)
    delta = paths.manifest(snapshot.delta_manifest_list)
    return [
        *read_manifest_list(state.storage, base, size=snapshot.base_manifest_list_size),
        *read_manifest_list(state.storage, delta, size=snapshot.delta_manifest_list_size),
    ]


def read_manifests(state: PaimonState, manifests: Iterable[ManifestFileMeta]) -> list[ManifestEntry]:
    """The entries of manifests, in their order."""
    return [
        entry
        for manifest in manifests
        for entry in read_manifest(state.storage, state.paths.manifest(manifest.file_name), size=manifest.file_size)
    ]


def merged_entries(entries: Iterable[ManifestEntry], *, location: str | None = None) -> list[ManifestEntry]:
    """The files that remain when every DELETE has cancelled its ADD.

    Raises:
        FormatError: A file is deleted that does not exist, or added twice.

    Spec: docs/formats/paimon.md § 9.2.
    """
    live: dict[FileIdentity, ManifestEntry] = {}
    for entry in entries:
        identity = entry.identity
        if entry.kind is FileKind.ADD:
            if identity in live:
                raise FormatError(f"data file {entry.file.file_name} is added twice", location=location)
            live[identity] = entry
        elif live.pop(identity, None) is None:
            raise FormatError(f"data file {entry.file.file_name} is deleted, but it was never added", location=location)
    return list(live.values())


def live_entries(state: PaimonState, partitions: Collection[bytes] | None = None) -> list[ManifestEntry]:
    """The data files of a state's snapshot.

    Args:
        state: The state.
        partitions: Only the files of these partitions (rows with arity); all if None.

    Raises:
        FormatError: Metadata is corrupt.
        NotFoundError: A manifest is missing.
    """
    snapshot = state.snapshot
    if snapshot is None:
        return []
    entries: Iterable[ManifestEntry] = read_manifests(state, snapshot_manifests(state, snapshot))
    if partitions is not None:
        entries = [entry for entry in entries if entry.partition in partitions]
    return merged_entries(entries, location=state.paths.snapshot(snapshot.id))


def delta_entries(state: PaimonState, snapshot: Snapshot) -> list[ManifestEntry]:
    """The entries that the commit of a snapshot added and deleted."""
    location = state.paths.manifest(snapshot.delta_manifest_list)
    return read_manifests(state, read_manifest_list(state.storage, location, size=snapshot.delta_manifest_list_size))


def index_entries(state: PaimonState) -> list[IndexManifestEntry]:
    """The index files of a state's snapshot."""
    snapshot = state.snapshot
    if snapshot is None or snapshot.index_manifest is None:
        return []
    return read_index_manifest(state.storage, state.paths.manifest(snapshot.index_manifest))
