"""The cache of decoded manifests: a manifest never changes, so that a decoded one stays valid.

A manifest is kept in two parts, the files and their metrics, each as one Arrow IPC message of which columns are views.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence

import pyarrow as pa

from skerry.iceberg.manifests.manifest_list import ManifestContent, ManifestFile
from skerry.iceberg.manifests.reader import read_manifest
from skerry.iceberg.manifests.snapshot_manifests import read_manifests
from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.storage import Storage
from skerry.table.work.batch_cache import BatchCache, version_of
from skerry.table.work.batch_folder import BatchFolder
from skerry.table.work.remembered import Remembered

__all__ = ["METRIC_COLUMNS", "ManifestCache", "shared_cache"]

METRIC_COLUMNS = ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
"""The columns that pruning by column metrics needs."""

_FILE_COLUMNS = (
    "status",
    "snapshot_id",
    "sequence_number",
    "content",
    "file_path",
    "file_format",
    "partition",
    "record_count",
    "file_size_in_bytes",
    "key_metadata",
    "split_offsets",
    "sort_order_id",
    "first_row_id",
)
_DELETE_COLUMNS = ("equality_ids", "referenced_data_file", "content_offset", "content_size_in_bytes")
_PARTS = {
    ManifestContent.DATA: (_FILE_COLUMNS, METRIC_COLUMNS),
    ManifestContent.DELETES: ((*_FILE_COLUMNS, *_DELETE_COLUMNS), METRIC_COLUMNS),
}

_MEMORY_BYTES = 64 << 20
_DISK_BYTES = 512 << 20

_VERSION = 1
"""Must be raised when the same manifest decodes to something else."""


_LISTS_KEPT = 32
_KEPT_MANIFESTS = 1 << 12
"""Longer manifest lists are not kept: they are objects, and take more memory than manifests."""


class ManifestCache(BatchCache):
    """Reads manifests for planning, each at most once within the size limits; and the lists of recent snapshots."""

    def __init__(self, memory_bytes: int, folder: BatchFolder | None = None) -> None:
        super().__init__(memory_bytes, folder)
        self._lists: Remembered[tuple[object, ...], tuple[ManifestFile, ...]] = Remembered(_LISTS_KEPT)

    def clear(self) -> None:
        """Clear the memory."""
        super().clear()
        self._lists.clear()

    def manifests(self, storage: Storage, snapshot: Snapshot) -> Sequence[ManifestFile]:
        """The manifests of a snapshot; see `skerry.iceberg.manifests.snapshot_manifests.read_manifests`."""
        location = snapshot.manifest_list
        if location is None or snapshot.key_id is not None or not self.memory_bytes:
            return read_manifests(storage, snapshot)
        version = version_of(storage, location)
        key = location, storage.identity(location), storage.base, version
        known = self._lists.find(key)
        if known is not None:
            return known
        found = tuple(read_manifests(storage, snapshot))
        is_kept = version is not None and len(found) <= _KEPT_MANIFESTS
        return self._lists.keep(key, found) if is_kept else found

    def read(self, storage: Storage, manifest: ManifestFile, columns: Sequence[str]) -> pa.RecordBatch:
        """The columns of a manifest's entries, deleted ones included; see `skerry.iceberg.manifests.reader.Manifest`.

        Args:
            storage: Access to the manifest.
            manifest: Its record in the manifest list; entries inherit from it.
            columns: The columns; if there are others than planning uses, which are cached, the manifest is read again.

        Raises:
            NotFoundError: There is no such file.
            FormatError: It is corrupt, or contradicts the manifest list.
            UnsupportedError: It is encrypted, or its version is unknown.
        """
        parts = [part for part in _PARTS[manifest.content] if not set(part).isdisjoint(columns)]
        key = self._key(storage, manifest)
        if key is None or not set(columns) <= {name for part in parts for name in part}:
            return read_manifest(storage, manifest, columns).table.select(list(columns))
        keys = [f"{key}-{'metrics' if part is METRIC_COLUMNS else 'files'}" for part in parts]
        found = [self.find(name) for name in keys]
        missing = [number for number, part in enumerate(found) if part is None]
        if missing:
            wanted = [name for number in missing for name in parts[number]]
            decoded = read_manifest(storage, manifest, wanted).table
            for number in missing:
                part = decoded.select(list(parts[number]))
                found[number] = self.keep_decoded(keys[number], part, manifest.manifest_path, manifest.manifest_length)
        arrays = {name: part.column(name) for part in found if part is not None for name in part.schema.names}
        return pa.RecordBatch.from_arrays([arrays[name] for name in columns], names=list(columns))

    def _key(self, storage: Storage, manifest: ManifestFile) -> str | None:
        """A digest of everything that the decoded manifest depends on; None if it must not be cached."""
        if manifest.key_metadata is not None or (not self.memory_bytes and self.folder is None):
            return None
        version = version_of(storage, manifest.manifest_path)
        if version is None:
            return None  # reading it raises the reason
        inherited = (manifest.content, manifest.sequence_number, manifest.added_snapshot_id, manifest.first_row_id)
        joined = () if storage.base is None else (storage.base,)
        shaped_by = (_VERSION, manifest.manifest_path, manifest.manifest_length, version, *inherited, *joined)
        return hashlib.sha256(repr(shaped_by).encode()).hexdigest()[:32]


@functools.cache
def shared_cache() -> ManifestCache:
    """The cache of this process; see `BatchCache.from_environment`.

    Raises:
        SchemaError: A limit in the environment is not a number.
    """
    return ManifestCache.from_environment("manifest", _MEMORY_BYTES, _DISK_BYTES)
