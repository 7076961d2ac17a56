"""Data files in the making, in the formats that Paimon tables have: Parquet, ORC and Avro; and Amudai shards.

Spec: `formats/paimon.md` § 8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

from skerry.avro import ContainerEncoder
from skerry.errors import SchemaError
from skerry.paimon.options import CoreOptions, FileFormat
from skerry.paimon.schema import KEY_PREFIX, SEQUENCE_NUMBER
from skerry.paimon.writing.avro_layout import avro_schema, stored_rows
from skerry.paimon.writing.orc_layout import check_times, orc_schema
from skerry.storage import Sink, Storage
from skerry.table.orc_arrays import rebuild_nested
from skerry.table.schema import nearest

__all__ = ["FileEncoding", "FileWriter", "open_writer"]

_CODECS: dict[FileFormat, dict[str, str]] = {
    FileFormat.PARQUET: {
        **dict.fromkeys(("none", "uncompressed"), "none"),
        **{name: name for name in ("zstd", "snappy", "gzip", "lz4", "brotli")},
    },
    FileFormat.ORC: {
        **dict.fromkeys(("none", "uncompressed"), "uncompressed"),
        **{name: name for name in ("zstd", "snappy", "zlib", "lz4")},
    },
    FileFormat.AVRO: {
        **dict.fromkeys(("none", "uncompressed", "null"), "null"),
        **dict.fromkeys(("zstd", "zstandard"), "zstandard"),
        **{name: name for name in ("snappy", "deflate")},
    },
    # what the writer strives for; the option is zstd where nothing is said
    FileFormat.AMUDAI: {
        "none": "plain",
        "lz4": "fast",
        "zstd": "balanced",
        **{name: name for name in ("plain", "fast", "balanced", "high", "small")},
    },
}
_ORC_STRIPE_BYTES = 16 << 20
_AMUDAI_STRIPE_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class FileEncoding:
    """The format of files and how they are compressed.

    Args:
        file_format: Which format.
        compression: What the table calls the codec; file names may have it.
        codec: What the format's writer calls it.
        codec_level: Its level; None for the codec's default.
    """

    file_format: FileFormat = FileFormat.PARQUET
    compression: str = "zstd"
    codec: str = "zstd"
    codec_level: int | None = 1

    @classmethod
    def from_options(cls, options: CoreOptions, *, changelog: bool = False) -> FileEncoding:
        """How a table wants its data files, or its changelog files.

        Raises:
            SchemaError: The format has no such compression; the message names the option.
            UnsupportedError: The format is not supported.
        """
        file_format = options.changelog_file_format if changelog else options.file_format
        compression = options.changelog_file_compression if changelog else options.file_compression
        codec = _CODECS[file_format].get(compression)
        if codec is None:
            raise SchemaError(
                f"option file.compression: {file_format.value} files cannot be compressed by {compression!r}"
                f"{nearest(compression, _CODECS[file_format])}"
            )
        level = options.file_compression_zstd_level if codec == "zstd" else None
        return cls(file_format, compression, codec, level)

    def suffix(self, *, with_compression: bool) -> str:
        """How names of such files end."""
        return f".{self.compression}.{self.file_format.value}" if with_compression else f".{self.file_format.value}"


class FileWriter(Protocol):
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


def open_writer(encoding: FileEncoding, storage: Storage, location: str, schema: pa.Schema) -> FileWriter:
    """Begin a data file.

    Args:
        encoding: Its format.
        storage: Where to.
        location: Its location, which must be free.
        schema: Its columns with field ids, as `TableSchema.file_schema` gives them.

    Raises:
        UnsupportedError: The format cannot hold a column's type.
    """
    return _WRITERS[encoding.file_format](encoding, storage, location, schema)


class _ParquetWriter:
    def __init__(self, encoding: FileEncoding, storage: Storage, location: str, schema: pa.Schema) -> None:
        self._sink = storage.open_output(location)
        distinct = [name for name in schema.names if name.startswith(KEY_PREFIX) or name == SEQUENCE_NUMBER]
        self._writer = pq.ParquetWriter(
            self._sink,
            schema,
            use_dictionary=[name for name in schema.names if name not in distinct] if distinct else True,
            compression=encoding.codec,
            compression_level=encoding.codec_level,
            store_schema=False,
            store_decimal_as_integer=True,
            use_deprecated_int96_timestamps=_has_nanoseconds(schema),
        )

    @property
    def size_bytes(self) -> int:
        return int(self._sink.tell())

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows, row_group_size=max(rows.num_rows, 1))

    def close(self) -> int:
        try:
            self._writer.close()
            size = self.size_bytes
            self._sink.close()
        except BaseException:
            self.abort()
            raise
        return size

    def abort(self) -> None:
        self._sink.abort()
        self._writer.is_open = False  # else its finaliser writes a footer into the closed sink


def _has_nanoseconds(fields: Any) -> bool:
    """Whether timestamps of seven digits or more are among the columns, which Paimon stores as INT96."""
    for field in fields:
        type_ = field.type
        if pa.types.is_timestamp(type_) and type_.unit == "ns":
            return True
        if pa.types.is_nested(type_) and _has_nanoseconds([type_.field(index) for index in range(type_.num_fields)]):
            return True
    return False


class _OrcWriter:
    def __init__(self, encoding: FileEncoding, storage: Storage, location: str, schema: pa.Schema) -> None:
        self._stored = orc_schema(schema)
        self._sink = storage.open_output(location)
        self._output = _PatientOutput(self._sink)
        self._writer = orc.ORCWriter(self._output, compression=encoding.codec, stripe_size=_ORC_STRIPE_BYTES)
        # a writer that has seen no rows knows no columns
        self._writer.write(self._stored.empty_table())

    @property
    def size_bytes(self) -> int:
        return int(self._sink.tell())

    def write(self, rows: pa.Table) -> None:
        check_times(rows)
        self._writer.write(rebuild_nested(rows.cast(self._stored)))
        self._output.raise_failure()

    def close(self) -> int:
        try:
            self._writer.close()
            self._output.raise_failure()
            size = self.size_bytes
            self._sink.close()
        except BaseException:
            self.abort()
            raise
        return size

    def abort(self) -> None:
        self._output.discard()
        self._writer.close()
        self._sink.abort()


class _PatientOutput:
    """A stream that never fails while ORC writes to it: an error there, or in its finaliser, ends the process."""

    closed = False

    def __init__(self, sink: Sink) -> None:
        self._sink: Sink | None = sink
        self._position = 0
        self._failure: BaseException | None = None

    def write(self, data: Any) -> int:
        length = memoryview(data).nbytes
        if self._sink is not None and self._failure is None:
            try:
                self._sink.write(data)
            except BaseException as error:
                self._failure = error
        self._position += length
        return length

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def discard(self) -> None:
        """Take what is still written for nothing."""
        self._sink = None

    def raise_failure(self) -> None:
        """Raise what has failed meanwhile."""
        if self._failure is not None:
            raise self._failure


class _AvroWriter:
    def __init__(self, encoding: FileEncoding, storage: Storage, location: str, schema: pa.Schema) -> None:
        self._encoder = ContainerEncoder(avro_schema(schema), codec=encoding.codec)
        self._sink = storage.open_output(location)
        self._sink.write(self._encoder.header)

    @property
    def size_bytes(self) -> int:
        return int(self._sink.tell())

    def write(self, rows: pa.Table) -> None:
        for block in self._encoder.encode_columns(stored_rows(rows)):
            self._sink.write(block)

    def close(self) -> int:
        size = self.size_bytes
        self._sink.close()
        return size

    def abort(self) -> None:
        self._sink.abort()


class _AmudaiWriter:
    """A shard whose stripes are the row groups that come."""

    def __init__(self, encoding: FileEncoding, storage: Storage, location: str, schema: pa.Schema) -> None:
        from skerry.amudai import ShardWriter  # loads protobuf and what else few tables need

        self._writer = ShardWriter(
            location, schema, storage=storage, profile=encoding.codec, stripe_rows=_AMUDAI_STRIPE_ROWS
        )

    @property
    def size_bytes(self) -> int:
        return self._writer.size_bytes

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows)
        self._writer.end_stripe()

    def close(self) -> int:
        try:
            return self._writer.close().size_bytes
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        self._writer.abort()


_WRITERS: dict[FileFormat, Callable[[FileEncoding, Storage, str, pa.Schema], FileWriter]] = {
    FileFormat.PARQUET: _ParquetWriter,
    FileFormat.ORC: _OrcWriter,
    FileFormat.AVRO: _AvroWriter,
    FileFormat.AMUDAI: _AmudaiWriter,
}
