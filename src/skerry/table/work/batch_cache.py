"""A cache of batches decoded from immutable files: in memory for this process, in a folder for later ones.

Both stores have a size limit and evict the least recently used batches.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, Self

import pyarrow as pa

from skerry.errors import SchemaError
from skerry.kernels import user_cache_directory
from skerry.storage import local_path
from skerry.table.work.batch_folder import BatchFolder

__all__ = ["BatchCache"]

_MIN_LOCAL_BYTES: Final = 64 << 10
"""Decoding smaller files on local disks is about as fast as reading their batches from the folder."""


class BatchCache:
    """Record batches by key. Safe to use from many threads.

    Args:
        memory_bytes: Limit of the memory; 0 keeps nothing.
        folder: Where to keep batches for later processes; None keeps none.
    """

    def __init__(self, memory_bytes: int, folder: BatchFolder | None = None) -> None:
        self.memory_bytes = memory_bytes
        self.folder = folder
        self._batches: OrderedDict[str, tuple[pa.RecordBatch, int]] = OrderedDict()
        self._used_bytes = 0
        self._lock = threading.Lock()

    @classmethod
    def from_environment(cls, kind: str, memory_bytes: int, disk_bytes: int) -> Self:
        """A cache whose limits come from environment variables, with a folder next to that of the kernels.

        Args:
            kind: The kind of content, singular: names the folder (`manifest` for `manifests`) and the variables of the
                limits, `SKERRY_MANIFEST_CACHE_MEMORY_BYTES` and `SKERRY_MANIFEST_CACHE_DISK_BYTES`.
            memory_bytes: Limit of the memory if the variable is not set; 0 disables it.
            disk_bytes: Limit of the folder if the variable is not set; 0 disables it.

        Raises:
            SchemaError: A variable is not a number.
        """
        memory_bytes = _limit(f"SKERRY_{kind.upper()}_CACHE_MEMORY_BYTES", memory_bytes)
        disk_bytes = _limit(f"SKERRY_{kind.upper()}_CACHE_DISK_BYTES", disk_bytes)
        root = user_cache_directory()
        folder = BatchFolder(root / f"{kind}s", disk_bytes) if root is not None and disk_bytes else None
        return cls(memory_bytes, folder)

    def find(self, key: str) -> pa.RecordBatch | None:
        """A cached batch, mapped from disk if it is not in memory; None if it is not cached."""
        with self._lock:
            if key in self._batches:
                self._batches.move_to_end(key)
                return self._batches[key][0]
        batch = self.folder.read(key) if self.folder is not None else None
        if batch is not None:
            self._remember(key, batch)
        return batch

    def keep(self, key: str, batch: pa.RecordBatch, *, on_disk: bool) -> None:
        """Keep a batch in memory, and on disk for later processes if that is worth it."""
        if on_disk and self.folder is not None:
            self.folder.write(key, batch)
        self._remember(key, batch)

    def keep_decoded(self, key: str, batch: pa.RecordBatch, location: str, size: int) -> pa.RecordBatch:
        """Keep a batch without the memory that it shares with others, on disk if decoding it takes long.

        Args:
            key: Its key.
            batch: The batch.
            location: The file that it was decoded from.
            size: The size of that file in bytes.

        Returns:
            The batch in its own memory.
        """
        batch = pa.ipc.read_record_batch(batch.serialize(), batch.schema)
        is_small = local_path(location) is not None and size < _MIN_LOCAL_BYTES
        self.keep(key, batch, on_disk=not is_small and not location.startswith("memory:"))
        return batch

    def forget(self, keys: Iterable[str]) -> None:
        """Free the memory of some batches."""
        with self._lock:
            for key in keys:
                _, freed = self._batches.pop(key, (None, 0))
                self._used_bytes -= freed

    def clear(self) -> None:
        """Clear the memory."""
        with self._lock:
            self._batches.clear()
            self._used_bytes = 0

    @property
    def used_bytes(self) -> int:
        """Bytes in memory, including those mapped from disk."""
        return self._used_bytes

    def _remember(self, key: str, batch: pa.RecordBatch) -> None:
        size = batch.get_total_buffer_size()
        if size > self.memory_bytes:
            return
        with self._lock:
            _, old = self._batches.pop(key, (None, 0))
            self._batches[key] = (batch, size)
            self._used_bytes += size - old
            while self._used_bytes > self.memory_bytes:
                _, (_, freed) = self._batches.popitem(last=False)
                self._used_bytes -= freed


def _limit(variable: str, default: int) -> int:
    text = os.environ.get(variable, str(default))
    if not text.isdecimal():
        raise SchemaError(f"environment variable {variable} is {text!r}, expected a number of bytes")
    return int(text)
