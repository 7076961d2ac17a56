"""Rows that wait on disk until their turn comes, dealt out to keys: one temporary file, however many keys there are."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Hashable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa

from skerry.table.rows.schema import empty_batch

__all__ = ["RowSpool"]

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class RowSpool:
    """Rows by key, in a file of its own below the folder for temporary files.

    Args:
        schema: The columns of all rows; none is dictionary-encoded.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._folder = tempfile.TemporaryDirectory(prefix="skerry-spool-")
        path = str(Path(self._folder.name, "rows"))
        self._sink = pa.OSFile(path, "wb")
        self._writer = pa.ipc.new_stream(self._sink, schema, options=_OPTIONS)
        self._writer.write_batch(empty_batch(schema))  # behind the schema, which is no one's
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
        """Put rows behind those that a key has already."""
        offset = self._sink.tell()
        self._writer.write_batch(rows)
        self._offsets[key].append(offset)
        self._sizes[key] += self._sink.tell() - offset

    def size_bytes(self, key: Hashable) -> int:
        """What the rows of a key take in the file."""
        return self._sizes.get(key, 0)

    def take(self, key: Hashable) -> Iterator[pa.RecordBatch]:
        """The rows of a key, one batch after the other, as they came; the spool then has none of it."""
        self._sizes.pop(key, None)
        for offset in self._offsets.pop(key, ()):
            self._source.seek(offset)
            yield pa.ipc.read_record_batch(pa.ipc.read_message(self._source), self._schema)

    def close(self) -> None:
        """Remove the file."""
        self._writer.close()
        self._sink.close()
        self._source.close()
        self._folder.cleanup()
