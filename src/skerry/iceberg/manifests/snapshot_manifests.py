"""The manifests of a snapshot, from its manifest list or, in old tables of version 1, from its metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skerry.avro import read_header
from skerry.errors import FormatError, UnsupportedError
from skerry.iceberg.manifests.manifest_list import ManifestFile, read_manifest_list
from skerry.iceberg.metadata.partition_spec import PartitionSpec
from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.metadata.table_metadata import TableMetadata
from skerry.storage import Storage

if TYPE_CHECKING:
    from skerry.encryption import KeyMetadata

__all__ = ["inline_manifest", "manifest_list_key", "read_manifests", "spec_of"]

_RULE = "Iceberg spec, Snapshots"


def read_manifests(storage: Storage, snapshot: Snapshot) -> list[ManifestFile]:
    """Find the manifests of a snapshot.

    Raises:
        NotFoundError: The manifest list is missing, or a manifest that is named in the metadata.
        FormatError: One of them is corrupt, or was encrypted with another key.
        SkerryError: The key management refuses.
        UnsupportedError: The manifest list's version is unknown; or it is encrypted and there is no key management.

    Spec: Iceberg spec, Snapshots: `manifest-list`, `manifests`.
    """
    if snapshot.manifest_list is not None:
        return read_manifest_list(storage, snapshot.manifest_list, manifest_list_key(storage, snapshot))
    return [inline_manifest(storage, storage.resolved(location), snapshot) for location in snapshot.manifests or ()]


def manifest_list_key(storage: Storage, snapshot: Snapshot) -> KeyMetadata | None:
    """What decrypts the manifest list of a snapshot; None if it is not encrypted.

    Raises:
        FormatError: The table's metadata lacks the key, or it cannot be decrypted.
        SkerryError: The key management refuses.
        UnsupportedError: There is no key management in this process.

    Spec: Iceberg spec, Encryption Keys, Snapshots: `key-id`.
    """
    if snapshot.key_id is None:
        return None
    if storage.keys is None:
        raise UnsupportedError(
            "the manifest list is encrypted, and its key is not here: only the process that opened the catalog has it",
            location=snapshot.manifest_list,
        )
    key: KeyMetadata = storage.keys.manifest_list_key(snapshot.key_id)
    return key


def inline_manifest(storage: Storage, location: str, snapshot: Snapshot) -> ManifestFile:
    """Describe a manifest that is named in the metadata; its counts are unknown.

    Raises:
        NotFoundError: There is no such file.
        FormatError: It is corrupt.
    """
    data = storage.read(location)
    header = read_header(data, location=location)
    text = header.metadata.get("partition-spec-id", b"0")
    if not text.isdigit() or len(text) > 9:
        raise FormatError(f"the header's partition-spec-id is {text[:20]!r}", location=location, rule=_RULE)
    return ManifestFile(
        manifest_path=location,
        manifest_length=len(data),
        partition_spec_id=int(text),
        sequence_number=0,
        min_sequence_number=0,
        added_snapshot_id=snapshot.snapshot_id,
    )


def spec_of(metadata: TableMetadata, manifest: ManifestFile) -> PartitionSpec:
    """The partition spec of a manifest's files.

    Raises:
        FormatError: The table has no such spec.
    """
    found = metadata.specs().get(manifest.partition_spec_id)
    if found is None:
        raise FormatError(
            f"a manifest has partition spec {manifest.partition_spec_id}, which the table does not have",
            location=manifest.manifest_path,
        )
    return found
