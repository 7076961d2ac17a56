"""Files of rows in the making, in each format that tables have; table formats say how rows are laid out in them.

ORC files are in `skerry.table.files.orc_output`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from skerry.avro import ContainerEncoder
from skerry.storage import Sink, Storage

if TYPE_CHECKING:
    from skerry.amudai import ShardWriter

__all__ = ["AvroOutput", "FileOutput", "ParquetOutput", "ShardOutput", "SinkOutput"]

_STRIPE_ROWS: Final = 1 << 20
"""A row group of narrow rows may be larger than what is read at once."""


class FileOutput(Protocol):
    """A file in the making; it is visible under its name once it is closed."""

    @property
    def size_bytes(self) -> int:
        """What has been written so far."""
        ...

    def write(self, rows: pa.Table) -> None:
        """Write rows with exactly the file's schema; a Parquet file gets a row group of them."""
        ...

    def close(self) -> int:
        """Finish the file, and tell its size."""
        ...

    def abort(self) -> None:
        """Give the file up; nothing of it remains."""
        ...


class SinkOutput:
    """What files have in common that are written to a sink from front to back.

    Args:
        storage: Where to.
        location: The file's location, which must be free.
    """

    def __init__(self, storage: Storage, location: str) -> None:
        self._sink = storage.open_output(location)

    @property
    def size_bytes(self) -> int:
        """What has been written so far."""
        return int(self._sink.tell())

    def close(self) -> int:
        """Finish the file, and tell its size."""
        try:
            self._finish()
            size = self.size_bytes
            self._sink.close()
        except BaseException:
            self.abort()
            raise
        return size

    def abort(self) -> None:
        """Give the file up; nothing of it remains."""
        self._sink.abort()

    def _finish(self) -> None:
        """Write what the format has at the end of a file."""


class ParquetOutput(SinkOutput):
    """A Parquet file.

    Args:
        storage: Where to.
        location: Its location, which must be free.
        schema: Its columns with field ids.
        edit_tail: Makes of the end of the file, with its footer, another one.
        options: Those of PyArrow's writer.
    """

    def __init__(
        self,
        storage: Storage,
        location: str,
        schema: pa.Schema,
        *,
        edit_tail: Callable[[bytes], bytes] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(storage, location)
        self._edit_tail = edit_tail
        self._target = self._sink if edit_tail is None else _HeldOutput(self._sink)
        self._writer = pq.ParquetWriter(self._target, schema, store_schema=False, **options)

    @property
    def metadata(self) -> pq.FileMetaData:
        """The footer, once the file is closed."""
        return self._writer.writer.metadata

    def write(self, rows: pa.Table) -> None:
        """Write a row group."""
        self._writer.write_table(rows, row_group_size=max(rows.num_rows, 1))

    def abort(self) -> None:
        """Give the file up; nothing of it remains."""
        super().abort()
        self._writer.is_open = False  # else its finaliser writes a footer into the closed sink

    def _finish(self) -> None:
        if self._edit_tail is None or not isinstance(self._target, _HeldOutput):
            self._writer.close()
            return
        self._target.hold()
        self._writer.close()
        self._sink.write(self._edit_tail(self._target.held))


class _HeldOutput:
    """A stream to a sink that can keep to itself what is written last."""

    closed = False

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._held: bytearray | None = None

    @property
    def held(self) -> bytes:
        return bytes(self._held or b"")

    def hold(self) -> None:
        """From now on, pass nothing on."""
        self._held = bytearray()

    def write(self, data: Any) -> int:
        if self._held is None:
            return self._sink.write(data)
        self._held += memoryview(data)
        return memoryview(data).nbytes

    def tell(self) -> int:
        return self._sink.tell() + len(self._held or b"")

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


class AvroOutput(SinkOutput):
    """An Avro container file.

    Args:
        storage: Where to.
        location: Its location, which must be free.
        schema: Its schema, as Avro's JSON in Python objects.
        codec: How its blocks are compressed.
        stored: Makes of rows what the file holds; as they are if None.

    Raises:
        UnsupportedError: The schema has what cannot be written.
    """

    def __init__(
        self,
        storage: Storage,
        location: str,
        schema: dict[str, Any],
        *,
        codec: str,
        stored: Callable[[pa.Table], pa.Table] | None = None,
    ) -> None:
        self._encoder = ContainerEncoder(schema, codec=codec)
        self._stored = stored
        super().__init__(storage, location)
        self._sink.write(self._encoder.header)

    def write(self, rows: pa.Table) -> None:
        """Write blocks."""
        for block in self._encoder.encode_columns(rows if self._stored is None else self._stored(rows)):
            self._sink.write(block)


class ShardOutput:
    """An Amudai shard whose stripes are the row groups that come.

    Args:
        storage: Where to.
        location: Its location, which must be free.
        schema: Its columns with field ids; others of the rows are left out.
        profile: What the shard's writer strives for.

    Raises:
        UnsupportedError: No shard can hold a column's type.
    """

    def __init__(self, storage: Storage, location: str, schema: pa.Schema, *, profile: str) -> None:
        from skerry.amudai import ShardWriter  # loads protobuf and what else few tables need

        self._names = schema.names
        self._writer: ShardWriter = ShardWriter(
            location, schema, storage=storage, profile=profile, stripe_rows=_STRIPE_ROWS
        )
        self._stripe_offsets: tuple[int, ...] = ()

    @property
    def size_bytes(self) -> int:
        """What has been written so far."""
        return self._writer.size_bytes

    @property
    def stripe_offsets(self) -> tuple[int, ...]:
        """Where its stripes begin, once the file is closed."""
        return self._stripe_offsets

    def write(self, rows: pa.Table) -> None:
        """Write a stripe."""
        self._writer.write_table(rows.select(self._names))
        self._writer.end_stripe()

    def close(self) -> int:
        """Finish the file, and tell its size."""
        try:
            written = self._writer.close()
        except BaseException:
            self.abort()
            raise
        self._stripe_offsets = written.stripe_offsets
        return written.size_bytes

    def abort(self) -> None:
        """Give the file up; nothing of it remains."""
        self._writer.abort()
