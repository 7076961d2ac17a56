"""A folder of record batches that any number of processes share.

A batch is one file, named by its unique key, written under a temporary name and renamed: no reader ever sees half of
it. It begins with a checksum of its content: truncated or damaged files are ignored, and so are files that another user
may have written. No lock is needed: deleting a file does not disturb processes that have it mapped.

    file = magic digest schema-size padding schema padding record-batch
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from pathlib import Path

import pyarrow as pa
import xxhash

from skerry.kernels import is_trusted
from skerry.table.work.telemetry import LOG

__all__ = ["BatchFolder"]

_MAGIC = b"skerry batch 2\n\0"
_DIGEST = slice(16, 32)
_SCHEMA_SIZE = slice(32, 40)
_HEAD_BYTES = 64
_ALIGNMENT = 64
_SUFFIX = ".arrow"
_TOUCH_SECONDS = 3600.0
"""The access time of a file is updated at most this often."""


class BatchFolder:
    """A folder of record batches with a size limit.

    If the disk is read-only or full, batches are simply decoded again.

    Args:
        path: The folder; created when needed, for this user only.
        limit_bytes: Size limit; beyond it the least recently used files are deleted.
    """

    def __init__(self, path: Path, limit_bytes: int) -> None:
        self.path = path
        self.limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._room_bytes = 0

    def read(self, key: str) -> pa.RecordBatch | None:
        """Map a batch into memory; None if there is none, or it cannot be trusted."""
        path = self._file(key)
        try:
            with pa.memory_map(str(path)) as source:
                status = path.stat()
                if not is_trusted(status):
                    LOG.info("%s: refused from the cache: another user may have written it", path)
                    return None
                content = source.read_buffer()
        except OSError:
            return None
        head = content[:_HEAD_BYTES].to_pybytes()
        body = content[_HEAD_BYTES:]
        if len(head) < _HEAD_BYTES or head[: len(_MAGIC)] != _MAGIC or head[_DIGEST] != _digest(head, body):
            LOG.info("%s: refused from the cache: it is damaged or of another version", path)
            return None
        if time.time() - status.st_mtime > _TOUCH_SECONDS:
            with contextlib.suppress(OSError):
                os.utime(path)
        schema_size = int.from_bytes(head[_SCHEMA_SIZE], "little")
        schema = pa.ipc.read_schema(body[:schema_size])
        return pa.ipc.read_record_batch(body[_padded(schema_size) :], schema)

    def write(self, key: str, part: pa.RecordBatch) -> None:
        """Store a batch atomically."""
        schema, batch = part.schema.serialize(), part.serialize()
        content = [schema.to_pybytes().ljust(_padded(schema.size), b"\0"), batch]
        head = bytearray(_HEAD_BYTES)
        head[: len(_MAGIC)] = _MAGIC
        head[_SCHEMA_SIZE] = schema.size.to_bytes(8, "little")
        head[_DIGEST] = _digest(head, *content)
        size = _HEAD_BYTES + sum(map(len, content))
        if size > self.limit_bytes:
            return
        with contextlib.suppress(OSError):
            self._make_room(size)
            handle, temporary = tempfile.mkstemp(dir=self.path, prefix=key)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.writelines([head, *content])
                Path(temporary).replace(self._file(key))
            except BaseException:
                Path(temporary).unlink()
                raise

    def _file(self, key: str) -> Path:
        return self.path / f"{key}{_SUFFIX}"

    def _make_room(self, size: int) -> None:
        """Delete the least recently used files if the limit may be exceeded; the folder is listed only occasionally."""
        with self._lock:
            if self._room_bytes < size:
                self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
                used = self._delete_oldest(self.limit_bytes - max(size, self.limit_bytes // 8))
                # other processes write as well: check again before the limit is reached
                self._room_bytes = max(size, (self.limit_bytes - used) // 4)
            self._room_bytes -= size

    def _delete_oldest(self, limit_bytes: int) -> int:
        """Delete files until the others fit, and partial files of dead processes; returns the remaining bytes."""
        files = []
        with os.scandir(self.path) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    files.append((status.st_mtime, status.st_size, entry.path))
        used = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if used <= limit_bytes:
                break
            with contextlib.suppress(FileNotFoundError):
                Path(path).unlink()
            used -= size
        return used


def _digest(head: bytes | bytearray, *content: object) -> bytes:
    digest = xxhash.xxh3_128(head[_DIGEST.stop :])
    for part in content:
        digest.update(part)  # type: ignore[arg-type]
    return digest.digest()


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
