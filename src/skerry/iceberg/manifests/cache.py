"""The cache of decoded manifests: a manifest never changes, so that a decoded one stays valid.

A manifest is kept in two parts, the files and their metrics, each as one Arrow IPC message of which columns are views.
At first, only the metrics of the columns that conditions ask for are kept, each column as a part of its own; those of
all columns once a manifest is decoded for a second time, if they fit.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa

from skerry.iceberg.manifests.manifest_list import ManifestContent, ManifestFile
from skerry.iceberg.manifests.map_columns import METRIC_COLUMNS, metrics_of_field
from skerry.iceberg.manifests.reader import read_manifest
from skerry.iceberg.manifests.snapshot_manifests import read_manifests
from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.storage import Storage
from skerry.table.work.batch_cache import BatchCache
from skerry.table.work.batch_folder import BatchFolder
from skerry.table.work.remembered import Remembered, version_of

__all__ = ["ManifestCache", "shared_cache"]

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


@dataclass(frozen=True, slots=True)
class _Part:
    """What is kept as one batch.

    Args:
        name: Its name, unique in a manifest.
        columns: The columns of the manifest that it is made of.
        field_id: The column of the table whose metrics it has; None if it has the manifest's columns as they are.
    """

    name: str
    columns: tuple[str, ...]
    field_id: int | None = None

    def of(self, decoded: pa.RecordBatch) -> pa.RecordBatch:
        if self.field_id is None:
            return decoded.select(list(self.columns))
        return metrics_of_field(decoded, self.field_id)


_METRICS = _Part("metrics", METRIC_COLUMNS)
_FILES = {
    ManifestContent.DATA: _Part("files", _FILE_COLUMNS),
    ManifestContent.DELETES: _Part("files", (*_FILE_COLUMNS, *_DELETE_COLUMNS)),
}

_METRIC_BYTES = 64
"""What the metrics of one column take of a file."""

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
        key = _list_key(storage, location)
        known = None if key is None else self._lists.find(key)
        if known is not None:
            return known
        found = tuple(read_manifests(storage, snapshot))
        return self._lists.keep(key, found) if key is not None and len(found) <= _KEPT_MANIFESTS else found

    def keep_manifests(self, storage: Storage, location: str, manifests: tuple[ManifestFile, ...]) -> None:
        """Keep a manifest list that was written, in plain text, as it would be read."""
        key = _list_key(storage, location) if self.memory_bytes else None
        if key is not None and len(manifests) <= _KEPT_MANIFESTS:
            self._lists.keep(key, manifests)

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
        parts = [part for part in (_FILES[manifest.content], _METRICS) if not set(part.columns).isdisjoint(columns)]
        key = self._key(storage, manifest)
        if key is None or not set(columns) <= {name for part in parts for name in part.columns}:
            return _read_alone(storage, manifest, columns)
        return self._read(storage, manifest, key, parts).select(list(columns))

    def read_metrics(
        self,
        storage: Storage,
        manifest: ManifestFile,
        columns: Sequence[str],
        field_ids: Collection[int],
        *,
        may_keep_all: bool,
    ) -> pa.RecordBatch:
        """As `read`, and the metrics of some columns of the table alone.

        Args:
            storage: Access to the manifest.
            manifest: Its record in the manifest list.
            columns: Columns that planning uses, but for `METRIC_COLUMNS`.
            field_ids: The columns of the table; see `skerry.iceberg.manifests.map_columns.metrics_of_field`.
            may_keep_all: Whether there is room for the metrics of all columns.

        Raises:
            SkerryError: As `read`.
        """
        parts = [_Part(f"metrics-{number}", METRIC_COLUMNS, number) for number in sorted(field_ids)]
        files, key = _FILES[manifest.content], self._key(storage, manifest)
        if parts and key is not None and any(self.find(f"{key}-{part.name}") is None for part in parts):
            whole = self.find(f"{key}-{_METRICS.name}")
            if whole is None and may_keep_all and self.find(f"{key}-{files.name}") is not None:
                whole = self._read(storage, manifest, key, [_METRICS])
            if whole is not None:
                found = self._read(storage, manifest, key, [files]).select(list(columns))
                return _side_by_side([found, *(part.of(whole) for part in parts)])
        found = self._read(storage, manifest, key, [files, *parts])
        return found.select([name for name in found.schema.names if name in columns or name not in files.columns])

    def derived(
        self,
        storage: Storage,
        manifest: ManifestFile,
        columns: Sequence[str],
        name: str,
        derive: Callable[[pa.RecordBatch], pa.RecordBatch],
        *,
        may_keep_all: bool,
    ) -> pa.RecordBatch:
        """A small batch that follows from a manifest, kept beside it: later calls do without the manifest.

        Args:
            storage: Access to the manifest.
            manifest: Its record in the manifest list.
            columns: The columns that it follows from.
            name: Its name, which says all else that it depends on.
            derive: Makes it from these columns, deleted entries included.
            may_keep_all: Whether there is room for the columns as well.

        Raises:
            SkerryError: As `read`.
        """
        key = self._key(storage, manifest)
        found = None if key is None else self.find(f"{key}-{name}")
        if found is not None:
            return found
        read = self.read if may_keep_all else _read_alone
        derived = derive(read(storage, manifest, columns))
        if key is None:
            return derived
        return self.keep_decoded(f"{key}-{name}", derived, manifest.manifest_path, manifest.manifest_length)

    def fits(self, manifests: Sequence[ManifestFile], columns: int) -> bool:
        """Whether the metrics of all columns can be kept until the next plan, and take no more than half of the room.

        Args:
            manifests: The manifests that a plan reads.
            columns: The number of columns of the table.
        """
        room = max(self.memory_bytes, 0 if self.folder is None else self.folder.limit_bytes)
        files = sum((file.added_files_count or 0) + (file.existing_files_count or 0) for file in manifests)
        return files * columns * _METRIC_BYTES <= room // 2

    def _read(
        self, storage: Storage, manifest: ManifestFile, key: str | None, parts: Sequence[_Part]
    ) -> pa.RecordBatch:
        """The columns of some parts; what is missing is decoded at once, and kept if there is a key."""
        found = [None if key is None else self.find(f"{key}-{part.name}") for part in parts]
        missing = [number for number, batch in enumerate(found) if batch is None]
        if missing:
            wanted = dict.fromkeys(name for number in missing for name in parts[number].columns)
            decoded = read_manifest(storage, manifest, tuple(wanted)).table
            for number in missing:
                batch = parts[number].of(decoded)
                if key is not None:
                    name = f"{key}-{parts[number].name}"
                    batch = self.keep_decoded(name, batch, manifest.manifest_path, manifest.manifest_length)
                found[number] = batch
        return _side_by_side([batch for batch in found if batch is not None])

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


def _read_alone(storage: Storage, manifest: ManifestFile, columns: Sequence[str]) -> pa.RecordBatch:
    """Some columns of a manifest, of which nothing is kept."""
    return read_manifest(storage, manifest, columns).table.select(list(columns))


def _list_key(storage: Storage, location: str) -> tuple[object, ...] | None:
    version = version_of(storage, location)
    return None if version is None else (location, storage.identity(location), storage.base, version)


def _side_by_side(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The columns of parts of the same manifest."""
    arrays = {name: part.column(name) for part in parts for name in part.schema.names}
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


@functools.cache
def shared_cache() -> ManifestCache:
    """The cache of this process; see `BatchCache.from_environment`.

    Raises:
        SchemaError: A limit in the environment is not a number.
    """
    return ManifestCache.from_environment("manifest", _MEMORY_BYTES, _DISK_BYTES)
