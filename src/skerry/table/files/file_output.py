"""Writers of data files, one per file format; the table formats decide the layout of rows.

ORC files are in `skerry.table.files.orc_output`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from skerry.avro import ContainerEncoder
from skerry.encryption import GcmOutput, KeyMetadata
from skerry.storage import Sink, Storage

if TYPE_CHECKING:
    from skerry.amudai import ShardWriter

__all__ = ["SINGLE_ROW_PAGES", "AvroOutput", "FileOutput", "ParquetOutput", "ShardOutput", "SinkOutput"]

SINGLE_ROW_PAGES: Final[Mapping[str, Any]] = {
    "write_page_index": True,
    "data_page_size": 16 << 10,
    "write_batch_size": 256,
    "dictionary_pagesize_limit": 128 << 10,
}
"""How PyArrow writes Parquet files of which single rows are read: each row costs a page of every column. Files grow by
three hundredths. PyArrow looks at a page's size after `write_batch_size` rows: the 1,024 of its default are 45 KB of
texts of 44 bytes."""
_STRIPE_ROWS: Final = 1 << 20
_BUFFER_BYTES: Final = 1 << 18
"""A row group of narrow rows may be larger than a read batch."""


class FileOutput(Protocol):
    """A file being written; it becomes visible under its name when it is closed."""

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        ...

    def write(self, rows: pa.Table) -> None:
        """Write rows with exactly the file's schema; in a Parquet file they become a row group."""
        ...

    def close(self) -> int:
        """Finish the file, and return its size."""
        ...

    def abort(self) -> None:
        """Discard the file."""
        ...


class SinkOutput:
    """The common part of outputs that write to a sink from start to end.

    Args:
        storage: The storage to write to.
        location: The file's location, which must be free.
    """

    def __init__(self, storage: Storage, location: str) -> None:
        self._sink = storage.open_output(location)

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return int(self._sink.tell())

    def close(self) -> int:
        """Finish the file, and return its size."""
        try:
            self._finish()
            size = self.size_bytes
            self._sink.close()
        except BaseException:
            self.abort()
            raise
        return size

    def abort(self) -> None:
        """Discard the file."""
        self._sink.abort()

    def _finish(self) -> None:
        """Write the format's end of file."""


class ParquetOutput(SinkOutput):
    """A Parquet file.

    Args:
        storage: The storage to write to.
        location: Its location, which must be free.
        schema: Its columns with field ids.
        edit_tail: Transforms the end of the file, with its footer, before it is written.
        key: Encrypts the file, by Parquet's own encryption.
        options: Options of PyArrow's writer.
    """

    def __init__(
        self,
        storage: Storage,
        location: str,
        schema: pa.Schema,
        *,
        edit_tail: Callable[[bytes], bytes] | None = None,
        key: KeyMetadata | None = None,
        **options: Any,
    ) -> None:
        super().__init__(storage, location)
        if key is not None:
            options["encryption_properties"] = _encryption_of(key)
        self._edit_tail = edit_tail
        self._target = _HeldOutput(self._sink)
        # each page comes in two pieces, for which Python would be called
        self._buffered = pa.BufferedOutputStream(pa.PythonFile(self._target, "w"), _BUFFER_BYTES)
        self._writer = pq.ParquetWriter(self._buffered, schema, store_schema=False, **options)
        self._is_finished = False

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return int(self._sink.tell() if self._is_finished else self._buffered.tell())

    @property
    def metadata(self) -> pq.FileMetaData:
        """The footer, after the file was closed."""
        return self._writer.writer.metadata

    def write(self, rows: pa.Table) -> None:
        """Write a row group."""
        self._writer.write_table(rows, row_group_size=max(rows.num_rows, 1))

    def abort(self) -> None:
        """Discard the file."""
        self._target.discard()  # what is still to come: the buffer writes it when it ends
        super().abort()
        self._writer.is_open = False  # otherwise its finaliser writes a footer into the closed sink

    def _finish(self) -> None:
        self._buffered.flush()
        if self._edit_tail is not None:
            self._target.hold()
        self._writer.close()
        self._buffered.flush()
        if self._edit_tail is not None:
            self._sink.write(self._edit_tail(self._target.held))
        self._is_finished = True


def _encryption_of(key: KeyMetadata) -> Any:
    """PyArrow's form of a file's key: for the footer and all columns, with a prefix that is not stored."""
    from pyarrow.parquet.encryption import create_encryption_properties

    return create_encryption_properties(key.key, aad_prefix=key.aad_prefix, store_aad_prefix=False)


class _HeldOutput:
    """A stream to a sink that can hold back the last bytes written; to close it leaves the sink open."""

    closed = False

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._held: bytearray | None = None
        self._is_open = True

    def discard(self) -> None:
        """Write nothing more to the sink."""
        self._is_open = False

    @property
    def held(self) -> bytes:
        return bytes(self._held or b"")

    def hold(self) -> None:
        """Hold back everything written from now on."""
        self._held = bytearray()

    def write(self, data: Any) -> int:
        if not self._is_open:
            return memoryview(data).nbytes
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
        storage: The storage to write to.
        location: Its location, which must be free.
        schema: Its schema, as Avro's JSON in Python objects.
        codec: Compression codec of its blocks.
        key: Encrypts the file, as a stream.
        stored: Converts rows to the form in which the file stores them; None to store them unchanged.

    Raises:
        UnsupportedError: The schema has types that cannot be written.
    """

    def __init__(
        self,
        storage: Storage,
        location: str,
        schema: dict[str, Any],
        *,
        codec: str,
        key: KeyMetadata | None = None,
        stored: Callable[[pa.Table], pa.Table] | None = None,
    ) -> None:
        self._encoder = ContainerEncoder(schema, codec=codec)
        self._stored = stored
        super().__init__(storage, location)
        self._encrypted = None if key is None else GcmOutput(self._sink.write, key)
        self._target = self._encrypted or self._sink
        self._target.write(self._encoder.header)

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return super().size_bytes if self._encrypted is None else self._encrypted.size_bytes

    def write(self, rows: pa.Table) -> None:
        """Write blocks."""
        for block in self._encoder.encode_columns(rows if self._stored is None else self._stored(rows)):
            self._target.write(block)

    def _finish(self) -> None:
        if self._encrypted is not None:
            self._encrypted.finish()


class ShardOutput:
    """An Amudai shard; each batch becomes a stripe.

    Args:
        storage: The storage to write to.
        location: Its location, which must be free.
        schema: Its columns with field ids; other columns of the rows are left out.
        profile: What the shard's writer optimises for.

    Raises:
        UnsupportedError: A column's type cannot be stored in a shard.
    """

    def __init__(self, storage: Storage, location: str, schema: pa.Schema, *, profile: str) -> None:
        from skerry.amudai import ShardWriter  # imports protobuf and more, which few tables need

        self._names = schema.names
        self._writer: ShardWriter = ShardWriter(
            location, schema, storage=storage, profile=profile, stripe_rows=_STRIPE_ROWS
        )
        self._stripe_offsets: tuple[int, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return self._writer.size_bytes

    @property
    def stripe_offsets(self) -> tuple[int, ...]:
        """Offsets of its stripes, after the file was closed."""
        return self._stripe_offsets

    def write(self, rows: pa.Table) -> None:
        """Write a stripe."""
        self._writer.write_table(rows.select(self._names))
        self._writer.end_stripe()

    def close(self) -> int:
        """Finish the file, and return its size."""
        try:
            written = self._writer.close()
        except BaseException:
            self.abort()
            raise
        self._stripe_offsets = written.stripe_offsets
        return written.size_bytes

    def abort(self) -> None:
        """Discard the file."""
        self._writer.abort()
