"""Decoded manifests, kept: in memory for this process, in a folder for the next one.

A manifest never changes, so what was decoded once holds for ever. It is kept in two parts, what files are and what
metrics they have, each as one Arrow IPC message that columns are views of. Both stores have a size limit and forget
what was not used for longest.
"""

from __future__ import annotations

import functools
import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Sequence

import pyarrow as pa

from skerry.errors import SchemaError
from skerry.iceberg.manifest_folder import ManifestFolder
from skerry.iceberg.manifest_list import ManifestContent, ManifestFile
from skerry.iceberg.manifest_reader import read_manifest
from skerry.kernels import user_cache_directory
from skerry.storage import Storage, local_path

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

_MEMORY = ("SKERRY_MANIFEST_CACHE_MEMORY_BYTES", 64 << 20)
_DISK = ("SKERRY_MANIFEST_CACHE_DISK_BYTES", 512 << 20)

_VERSION = 1
"""To be raised when the same manifest decodes to something else."""
_MIN_LOCAL_BYTES = 64 << 10
"""Smaller manifests on local disks are decoded about as fast as found in the folder."""


class ManifestCache:
    """Reads manifests for planning, each at most once while there is room.

    Safe to use from many threads.

    Args:
        memory_bytes: How much to keep in memory; 0 keeps nothing.
        folder: Where to keep manifests for later processes; None keeps none.
    """

    def __init__(self, memory_bytes: int, folder: ManifestFolder | None = None) -> None:
        self.memory_bytes = memory_bytes
        self.folder = folder
        self._parts: OrderedDict[str, tuple[pa.RecordBatch, int]] = OrderedDict()
        self._used_bytes = 0
        self._lock = threading.Lock()

    def read(self, storage: Storage, manifest: ManifestFile, columns: Sequence[str]) -> pa.RecordBatch:
        """The columns of a manifest's entries, deleted ones included; see `skerry.iceberg.manifest_reader.Manifest`.

        Args:
            storage: Access to the manifest.
            manifest: What the manifest list says of it; entries inherit from it.
            columns: Which columns; the cache keeps those that planning uses, with others the manifest is read anew.

        Raises:
            NotFoundError: There is no such file.
            FormatError: It is corrupt, or not what the manifest list says.
            UnsupportedError: It is encrypted, or its version is unknown.
        """
        parts = [part for part in _PARTS[manifest.content] if not set(part).isdisjoint(columns)]
        key = self._key(storage, manifest)
        if key is None or not set(columns) <= {name for part in parts for name in part}:
            return read_manifest(storage, manifest, columns).table.select(list(columns))
        keys = [f"{key}-{'metrics' if part is METRIC_COLUMNS else 'files'}" for part in parts]
        found = [self._find(name) for name in keys]
        missing = [number for number, part in enumerate(found) if part is None]
        if missing:
            wanted = [name for number in missing for name in parts[number]]
            decoded = read_manifest(storage, manifest, wanted).table
            for number in missing:
                found[number] = self._keep(keys[number], decoded.select(list(parts[number])), manifest)
        arrays = {name: part.column(name) for part in found if part is not None for name in part.schema.names}
        return pa.RecordBatch.from_arrays([arrays[name] for name in columns], names=list(columns))

    def clear(self) -> None:
        """Forget what is in memory."""
        with self._lock:
            self._parts.clear()
            self._used_bytes = 0

    @property
    def used_bytes(self) -> int:
        """How much is in memory; what is mapped from disk counts as well."""
        return self._used_bytes

    def _key(self, storage: Storage, manifest: ManifestFile) -> str | None:
        """A digest of everything that shapes the decoded manifest; None if it is not to be kept."""
        if manifest.key_metadata is not None or (not self.memory_bytes and self.folder is None):
            return None
        store: object = storage.identity(manifest.manifest_path)
        path = local_path(manifest.manifest_path)
        if path is not None:
            try:
                status = os.stat(path)
            except OSError:
                return None  # reading it tells why
            store = (status.st_mtime_ns, status.st_size)
        inherited = (manifest.content, manifest.sequence_number, manifest.added_snapshot_id, manifest.first_row_id)
        shaped_by = (_VERSION, manifest.manifest_path, manifest.manifest_length, store, *inherited)
        return hashlib.sha256(repr(shaped_by).encode()).hexdigest()[:32]

    def _find(self, key: str) -> pa.RecordBatch | None:
        with self._lock:
            if key in self._parts:
                self._parts.move_to_end(key)
                return self._parts[key][0]
        part = self.folder.read(key) if self.folder is not None else None
        if part is not None:
            self._remember(key, part)
        return part

    def _keep(self, key: str, part: pa.RecordBatch, manifest: ManifestFile) -> pa.RecordBatch:
        """Keep a part where it belongs; returns it without what it shared memory with."""
        part = pa.ipc.read_record_batch(part.serialize(), part.schema)
        location = manifest.manifest_path
        is_small = local_path(location) is not None and manifest.manifest_length < _MIN_LOCAL_BYTES
        if self.folder is not None and not is_small and not location.startswith("memory:"):
            self.folder.write(key, part)
        self._remember(key, part)
        return part

    def _remember(self, key: str, part: pa.RecordBatch) -> None:
        size = part.get_total_buffer_size()
        if size > self.memory_bytes:
            return
        with self._lock:
            _, old = self._parts.pop(key, (None, 0))
            self._parts[key] = (part, size)
            self._used_bytes += size - old
            while self._used_bytes > self.memory_bytes:
                _, (_, freed) = self._parts.popitem(last=False)
                self._used_bytes -= freed


@functools.cache
def shared_cache() -> ManifestCache:
    """The cache of this process: limits come from the environment, the folder lies beside that of kernels.

    `SKERRY_MANIFEST_CACHE_MEMORY_BYTES` and `SKERRY_MANIFEST_CACHE_DISK_BYTES` say how much to keep; 0 switches off.

    Raises:
        SchemaError: One of them is no number.
    """
    memory_bytes, disk_bytes = (_limit(*setting) for setting in (_MEMORY, _DISK))
    root = user_cache_directory()
    folder = ManifestFolder(root / "manifests", disk_bytes) if root is not None and disk_bytes else None
    return ManifestCache(memory_bytes, folder)


def _limit(variable: str, default: int) -> int:
    text = os.environ.get(variable, str(default))
    if not text.isdecimal():
        raise SchemaError(f"environment variable {variable} is {text!r}, expected a number of bytes")
    return int(text)
