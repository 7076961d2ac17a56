"""Files of rows in the formats that tables want: Parquet, ORC, Avro and Amudai, with the metrics that manifests keep.

A Parquet footer tells a file's metrics. PyArrow shows no statistics of ORC files, Avro has none, and shards bound no
strings without cutting them, so that theirs are gathered from the rows on their way to the file.

Spec: Iceberg table spec, Appendix A, Format-specific Requirements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

from skerry.avro import ContainerEncoder
from skerry.errors import SchemaError
from skerry.iceberg.avro_files import avro_schema
from skerry.iceberg.metrics import MetricsMode, parquet_data_file
from skerry.iceberg.orc_files import check_times, orc_schema
from skerry.iceberg.row_metrics import RowMetrics
from skerry.storage import Sink, Storage
from skerry.table.files import DataFile
from skerry.table.orc_arrays import rebuild_nested
from skerry.table.properties import whole_number
from skerry.table.schema import nearest

__all__ = ["AMUDAI", "FileEncoding", "FileWriter", "check_columns", "open_writer", "wants_shards"]

AMUDAI = "amudai"
_PARQUET_CODECS = {
    "zstd": "zstd",
    "snappy": "snappy",
    "gzip": "gzip",
    "lz4": "lz4",
    "brotli": "brotli",
    "uncompressed": "none",
}
_ORC_CODECS = {
    "zlib": "zlib",
    "zstd": "zstd",
    "snappy": "snappy",
    "lz4": "lz4",
    "none": "uncompressed",
}
_AVRO_CODECS = {"gzip": "deflate", "zstd": "zstandard", "snappy": "snappy", "uncompressed": "null"}
_AMUDAI_PROFILES = {name: name for name in ("plain", "fast", "balanced", "high", "small")}
# per format: the property that names the codec, codecs by its value, and the default
_CODECS = {
    "parquet": ("parquet.compression-codec", _PARQUET_CODECS, "zstd"),
    "orc": ("orc.compression-codec", _ORC_CODECS, "zlib"),
    "avro": ("avro.compression-codec", _AVRO_CODECS, "gzip"),
    AMUDAI: ("amudai.profile", _AMUDAI_PROFILES, "balanced"),
}


# a quarter of what Iceberg Java has: a stripe is kept in memory, for each of up to 128 open files
_ORC_STRIPE_BYTES = 16 << 20
# a row group of narrow rows may be larger than what is read at once
_AMUDAI_STRIPE_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class FileEncoding:
    """The format of a file and how it is compressed.

    Args:
        file_format: `parquet`, `orc`, `avro` or `amudai`.
        codec: Compression codec, in the words of the format's writer; of Amudai what the writer strives for.
        codec_level: Its level, None for the codec's default.
        ascending: Integer columns whose values mostly ascend, of which Parquet files keep the differences.
    """

    file_format: str = "parquet"
    codec: str = "zstd"
    codec_level: int | None = None
    ascending: tuple[str, ...] = ()

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], *, deletes: bool = False) -> FileEncoding:
        """How a table wants its data files, or its delete files.

        Args:
            properties: The table's: `write.format.default`, `write.<format>.compression-codec` and
                `….compression-level`; `write.amudai.profile` is `plain`, `fast`, `balanced`, `high` or `small`.
            deletes: Whether `write.delete.…` comes first.

        Raises:
            SchemaError: A property has no legal value.
        """

        def value(name: str, default: str | None = None) -> tuple[str, str | None]:
            own = f"write.delete.{name}"
            if deletes and own in properties:
                return own, properties[own]
            return f"write.{name}", properties.get(f"write.{name}", default)

        name, file_format = value("format.default", "parquet")
        assert file_format is not None
        if deletes and file_format.lower() == AMUDAI:
            # readers of row deletes know Parquet; only the table's own rows are shards
            file_format = "parquet"
        if file_format.lower() not in _CODECS:
            raise SchemaError(f"table property {name} is {file_format!r}{nearest(file_format, _CODECS)}")
        file_format = file_format.lower()
        property_name, codecs, default = _CODECS[file_format]
        name, codec = value(property_name, default)
        if codec is None or codec.lower() not in codecs:
            raise SchemaError(f"table property {name} must be one of {', '.join(codecs)}, found {codec!r}")
        name, _ = value(f"{file_format}.compression-level")
        return cls(file_format, codecs[codec.lower()], whole_number(properties, name, None))

    @property
    def suffix(self) -> str:
        """What the names of such files end in, without the dot."""
        return "amudai.shard" if self.file_format == AMUDAI else self.file_format


def wants_shards(properties: Mapping[str, str]) -> bool:
    """Whether a table's data files are Amudai shards."""
    return properties.get("write.format.default", "").strip().lower() == AMUDAI


def check_columns(schema: pa.Schema, properties: Mapping[str, str]) -> None:
    """Refuse columns that a table's data files cannot hold.

    Args:
        schema: The table's schema.
        properties: The table's properties.

    Raises:
        UnsupportedError: A column has a type that no shard can hold.
    """
    if wants_shards(properties):
        from skerry.amudai.types import schema_from_arrow

        schema_from_arrow(_without_unknown(schema))


class FileWriter(Protocol):
    """A file in the making; it is visible under its name once it is closed."""

    @property
    def size_bytes(self) -> int:
        """What has been written so far."""
        ...

    def write(self, rows: pa.Table) -> None:
        """Write rows with exactly the file's schema; a Parquet file gets a row group of them."""
        ...

    def close(
        self,
        modes: Mapping[int, MetricsMode],
        *,
        spec_id: int = 0,
        partition: tuple[Any, ...] = (),
        sort_order_id: int | None = None,
        nan_value_counts: Mapping[int, int] | None = None,
    ) -> DataFile:
        """Finish the file.

        Args:
            modes: Which metrics to keep, by field id.
            spec_id: The partition spec.
            partition: The partition, in physical values.
            sort_order_id: The sort order that the rows obey.
            nan_value_counts: NaNs by field id, if they were counted.
        """
        ...

    def abort(self) -> None:
        """Give the file up; nothing of it remains."""
        ...


def open_writer(encoding: FileEncoding, storage: Storage, location: str, schema: pa.Schema) -> FileWriter:
    """Begin a file.

    Args:
        encoding: Its format.
        storage: Where to.
        location: Its location, which must be free.
        schema: Its columns with field ids.

    Raises:
        UnsupportedError: The format cannot hold a column's type.
    """
    return _WRITERS[encoding.file_format](encoding, storage, location, schema)


class _ParquetWriter:
    def __init__(self, encoding: FileEncoding, storage: Storage, location: str, schema: pa.Schema) -> None:
        self._location = location
        self._schema = schema
        self._sink = storage.open_output(location)
        ascending = encoding.ascending
        self._writer = pq.ParquetWriter(
            self._sink,
            schema,
            compression=encoding.codec,
            compression_level=encoding.codec_level,
            use_dictionary=[name for name in schema.names if name not in ascending] if ascending else True,
            column_encoding=dict.fromkeys(ascending, "DELTA_BINARY_PACKED") or None,
            store_schema=False,
        )

    @property
    def size_bytes(self) -> int:
        return int(self._sink.tell())

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows, row_group_size=rows.num_rows)

    def close(
        self,
        modes: Mapping[int, MetricsMode],
        *,
        spec_id: int = 0,
        partition: tuple[Any, ...] = (),
        sort_order_id: int | None = None,
        nan_value_counts: Mapping[int, int] | None = None,
    ) -> DataFile:
        try:
            self._writer.close()
            size = self.size_bytes
            self._sink.close()
        except BaseException:
            self.abort()
            raise
        return parquet_data_file(
            self._location,
            self._writer.writer.metadata,
            size,
            self._schema,
            modes,
            spec_id=spec_id,
            partition=partition,
            sort_order_id=sort_order_id,
            nan_value_counts=nan_value_counts,
        )

    def abort(self) -> None:
        self._sink.abort()
        self._writer.is_open = False  # else its finaliser writes a footer into the closed sink


class _MeasuredWriter:
    """What writers of formats without readable statistics have in common."""

    file_format: ClassVar[str]

    def __init__(self, storage: Storage, location: str, schema: pa.Schema) -> None:
        self._location = location
        self._metrics = RowMetrics(schema)
        self._sink = storage.open_output(location)

    @property
    def size_bytes(self) -> int:
        return int(self._sink.tell())

    def close(
        self,
        modes: Mapping[int, MetricsMode],
        *,
        spec_id: int = 0,
        partition: tuple[Any, ...] = (),
        sort_order_id: int | None = None,
        nan_value_counts: Mapping[int, int] | None = None,
    ) -> DataFile:
        try:
            self._finish()
            size = self.size_bytes
            self._sink.close()
        except BaseException:
            self.abort()
            raise
        return self._metrics.data_file(
            self._location,
            self.file_format,
            size,
            modes,
            spec_id=spec_id,
            partition=partition,
            sort_order_id=sort_order_id,
        )

    def abort(self) -> None:
        self._sink.abort()

    def _finish(self) -> None:
        """Write what the format has at the end of a file."""


class _OrcWriter(_MeasuredWriter):
    file_format = "orc"

    def __init__(self, encoding: FileEncoding, storage: Storage, location: str, schema: pa.Schema) -> None:
        self._stored = orc_schema(schema)
        super().__init__(storage, location, schema)
        self._output = _PatientOutput(self._sink)
        self._writer = orc.ORCWriter(self._output, compression=encoding.codec, stripe_size=_ORC_STRIPE_BYTES)
        # a writer that has seen no rows knows no columns
        self._writer.write(self._stored.empty_table())

    def write(self, rows: pa.Table) -> None:
        check_times(rows)
        self._metrics.update(rows)
        self._writer.write(rebuild_nested(rows.select(self._stored.names).cast(self._stored)))
        self._output.raise_failure()

    def abort(self) -> None:
        self._output.discard()
        self._writer.close()
        super().abort()

    def _finish(self) -> None:
        self._writer.close()
        self._output.raise_failure()


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


class _AvroWriter(_MeasuredWriter):
    file_format = "avro"

    def __init__(self, encoding: FileEncoding, storage: Storage, location: str, schema: pa.Schema) -> None:
        self._encoder = ContainerEncoder(avro_schema(schema), codec=encoding.codec)
        super().__init__(storage, location, schema)
        self._sink.write(self._encoder.header)

    def write(self, rows: pa.Table) -> None:
        self._metrics.update(rows)
        for block in self._encoder.encode_columns(rows):
            self._sink.write(block)


def _without_unknown(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field for field in schema if not pa.types.is_null(field.type)])


class _AmudaiWriter:
    """A shard whose stripes are the row groups that come; columns of the type unknown, without values, are left out."""

    def __init__(self, encoding: FileEncoding, storage: Storage, location: str, schema: pa.Schema) -> None:
        from skerry.amudai import ShardWriter  # loads protobuf and what else few tables need

        self._location = location
        self._metrics = RowMetrics(schema)
        self._stored = _without_unknown(schema)
        self._writer = ShardWriter(
            location, self._stored, storage=storage, profile=encoding.codec, stripe_rows=_AMUDAI_STRIPE_ROWS
        )

    @property
    def size_bytes(self) -> int:
        return self._writer.size_bytes

    def write(self, rows: pa.Table) -> None:
        self._metrics.update(rows)
        self._writer.write_table(rows.select(self._stored.names))
        self._writer.end_stripe()

    def close(
        self,
        modes: Mapping[int, MetricsMode],
        *,
        spec_id: int = 0,
        partition: tuple[Any, ...] = (),
        sort_order_id: int | None = None,
        nan_value_counts: Mapping[int, int] | None = None,
    ) -> DataFile:
        try:
            written = self._writer.close()
        except BaseException:
            self.abort()
            raise
        described = self._metrics.data_file(
            self._location,
            AMUDAI,
            written.size_bytes,
            modes,
            spec_id=spec_id,
            partition=partition,
            sort_order_id=sort_order_id,
        )
        return replace(described, split_offsets=written.stripe_offsets)

    def abort(self) -> None:
        self._writer.abort()


_WRITERS: dict[str, Callable[[FileEncoding, Storage, str, pa.Schema], FileWriter]] = {
    "parquet": _ParquetWriter,
    "orc": _OrcWriter,
    "avro": _AvroWriter,
    AMUDAI: _AmudaiWriter,
}
