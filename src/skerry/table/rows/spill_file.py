"""Spill files: rows that wait on disk, grouped by key, in one temporary file for any number of keys."""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from collections.abc import Hashable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyarrow as pa

from skerry.encryption import decrypt, encrypt
from skerry.table.rows.schema import empty_batch

__all__ = ["SpillFile"]

_KEY_BYTES: Final = 32
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class SpillFile:
    """A spill file with rows by key, in the folder for temporary files.

    Args:
        schema: The columns of all rows; none may be dictionary-encoded.
        is_encrypted: Whether the file is encrypted, with a key that nobody keeps: rows of encrypted tables.
    """

    def __init__(self, schema: pa.Schema, *, is_encrypted: bool = False) -> None:
        self._schema = schema
        self._secret = os.urandom(_KEY_BYTES) if is_encrypted else None
        self._folder = tempfile.TemporaryDirectory(prefix="skerry-spool-")
        path = str(Path(self._folder.name, "rows"))
        self._sink = pa.OSFile(path, "wb")
        self._writer = pa.ipc.new_stream(self._sink, schema, options=_OPTIONS)
        self._writer.write_batch(empty_batch(schema))  # follows the schema, and belongs to no key
        self._source = pa.OSFile(path, "rb")
        self._offsets: defaultdict[Hashable, list[int]] = defaultdict(list)
        self._sizes: defaultdict[Hashable, int] = defaultdict(int)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add(self, key: Hashable, rows: pa.RecordBatch) -> None:
        """Append rows to those of a key."""
        offset = self._sink.tell()
        if self._secret is None:
            self._writer.write_batch(rows)
        else:
            data = encrypt(self._secret, rows.serialize().to_pybytes())
            self._sink.write(len(data).to_bytes(8, "little"))
            self._sink.write(data)
        self._offsets[key].append(offset)
        self._sizes[key] += self._sink.tell() - offset

    def size_bytes(self, key: Hashable) -> int:
        """The size of a key's rows in the file."""
        return self._sizes.get(key, 0)

    def take(self, key: Hashable) -> Iterator[pa.RecordBatch]:
        """Remove and return the rows of a key, batch by batch in order."""
        self._sizes.pop(key, None)
        for offset in self._offsets.pop(key, ()):
            self._source.seek(offset)
            if self._secret is not None:
                length = int.from_bytes(self._source.read(8), "little")
                data = decrypt(self._secret, self._source.read(length))
                yield pa.ipc.read_record_batch(pa.py_buffer(data), self._schema)
                continue
            yield pa.ipc.read_record_batch(pa.ipc.read_message(self._source), self._schema)

    def close(self) -> None:
        """Remove the file."""
        self._writer.close()
        self._sink.close()
        self._source.close()
        self._folder.cleanup()
