"""The cache of decoded manifests and manifest lists: they never change, so that a decoded one stays valid."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import pyarrow as pa

from skerry.errors import FormatError
from skerry.storage import Storage
from skerry.table.work.batch_cache import BatchCache
from skerry.table.work.batch_folder import BatchFolder
from skerry.table.work.remembered import Remembered, version_of

__all__ = ["read_cached", "shared_cache"]

_MEMORY_BYTES: Final = 64 << 20
_DISK_BYTES: Final = 512 << 20

_FILES_KEPT: Final = 512
_RECORDS_BYTES: Final = 32 << 20
_RECORD_BYTES: Final = 1024
"""About what a record takes in memory beside values of columns: more than in columns."""

_VERSION: Final = 1
"""Must be raised when the same file decodes to something else."""
_IN_MEMORY: Final = "memory:"
"""How locations begin in stores that come and go, with the same names."""
_RULE: Final = "docs/formats/paimon.md § 5.1"


class _Record(Protocol):
    """An entry of a manifest or a list."""

    @property
    def size_bytes(self) -> int: ...


class MetadataCache(BatchCache):
    """Metadata files as columns, and those that were used last as records."""

    def __init__(self, memory_bytes: int, folder: BatchFolder | None = None) -> None:
        super().__init__(memory_bytes, folder)
        self._records: Remembered[tuple[object, ...], tuple[Any, ...]] = Remembered(
            _FILES_KEPT,
            limit_bytes=_RECORDS_BYTES,
            size_of=lambda records: sum(_RECORD_BYTES + record.size_bytes for record in records),
        )

    def clear(self) -> None:
        """Clear the memory."""
        super().clear()
        self._records.clear()

    def find_records(self, storage: Storage, location: str, size: int | None) -> Sequence[Any] | None:
        """The records of a manifest or a list, if they are known.

        Args:
            storage: Access to it.
            location: The file.
            size: Its size in bytes by the metadata that names it.
        """
        key = self._record_key(storage, location, size)
        return None if key is None else self._records.find(key)

    def keep_records(self, storage: Storage, location: str, size: int | None, records: Sequence[_Record]) -> None:
        """Keep the records of a file that was read or written; see `find_records`."""
        key = self._record_key(storage, location, size)
        if key is not None:
            self._records.keep(key, tuple(records))

    def _record_key(self, storage: Storage, location: str, size: int | None) -> tuple[object, ...] | None:
        if not self.memory_bytes or location.startswith(_IN_MEMORY):
            return None
        version = version_of(storage, location)
        return None if version is None else (location, version, size)


@functools.cache
def shared_cache() -> MetadataCache:
    """The cache of this process; see `BatchCache.from_environment`.

    Raises:
        SchemaError: A limit in the environment is not a number.
    """
    return MetadataCache.from_environment("manifest", _MEMORY_BYTES, _DISK_BYTES)


def read_cached(
    storage: Storage, location: str, kind: str, size: int | None, decode: Callable[[bytes], pa.RecordBatch]
) -> pa.RecordBatch:
    """Read a metadata file as columns, from the cache if it is there.

    Args:
        storage: Access to the file.
        location: The file.
        kind: What it is decoded as; the same file must not be decoded in two ways of one kind.
        size: Its size in bytes by the metadata that names it; None if not recorded.
        decode: Decodes its content.

    Raises:
        NotFoundError: The file does not exist.
        FormatError: It is corrupt, or not of that size.
    """
    cache = shared_cache()
    key = _key(cache, storage, location, kind, size)
    found = cache.find(key) if key is not None else None
    if found is not None:
        return found
    data = storage.read(location)
    if size is not None and len(data) != size:
        raise FormatError(f"found {len(data)} bytes, expected {size} by the metadata", location=location, rule=_RULE)
    batch = decode(data)
    return batch if key is None else cache.keep_decoded(key, batch, location, len(data))


def _key(cache: BatchCache, storage: Storage, location: str, kind: str, size: int | None) -> str | None:
    """A digest of everything that the decoded file depends on; None if it must not be cached."""
    if (not cache.memory_bytes and cache.folder is None) or location.startswith(_IN_MEMORY):
        return None
    version = version_of(storage, location)
    if version is None:
        return None  # reading it raises the reason
    return hashlib.sha256(repr((_VERSION, kind, location, version, size)).encode()).hexdigest()[:32]
