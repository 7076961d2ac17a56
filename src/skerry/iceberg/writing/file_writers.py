"""Writers of data files in Parquet, ORC, Avro and Amudai, which also yield metrics for manifests.

A Parquet file's metrics are in its footer. PyArrow does not expose statistics of ORC files, Avro has none, and shards
truncate string bounds, so that their metrics are collected from the rows while writing.

Spec: Iceberg spec, Appendix A.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from skerry.encryption import KeyMetadata, encode_key_metadata, new_file_key
from skerry.errors import SchemaError, UnsupportedError
from skerry.iceberg.metadata.table_metadata import data_key_bytes
from skerry.iceberg.writing.avro_files import avro_schema
from skerry.iceberg.writing.metrics import MetricsMode, parquet_data_file
from skerry.iceberg.writing.orc_files import ORC_TIMES, orc_schema
from skerry.iceberg.writing.row_metrics import RowMetrics
from skerry.storage import Storage
from skerry.table.files.annotated_output import AnnotatedOutput, has_shapes, has_variants, is_annotated
from skerry.table.files.data_file import DataFile
from skerry.table.files.file_output import SINGLE_ROW_PAGES, AvroOutput, FileOutput, ParquetOutput, ShardOutput
from skerry.table.files.orc_output import OrcOutput
from skerry.table.indexes.definitions import INDEX_PREFIX, IndexKind, index_definitions
from skerry.table.properties import whole_number
from skerry.table.rows.schema import nearest

__all__ = ["AMUDAI", "FileEncoding", "FileWriter", "check_columns", "wants_shards"]

AMUDAI = "amudai"
_PARQUET_CODECS = {
    "zstd": "zstd",
    "snappy": "snappy",
    "gzip": "gzip",
    "lz4": "lz4",
    "brotli": "brotli",
    "uncompressed": "none",
}
_ENCRYPTED: Final = ("parquet", "avro")
"""The formats whose files are encrypted in encrypted tables."""
_ORC_CODECS = {
    "zlib": "zlib",
    "zstd": "zstd",
    "snappy": "snappy",
    "lz4": "lz4",
    "none": "uncompressed",
}
_SHRED = "write.parquet.shred-variants"
_SAMPLED_ROWS = "write.parquet.variant-inference-buffer-size"
_AVRO_CODECS = {"gzip": "deflate", "zstd": "zstandard", "snappy": "snappy", "uncompressed": "null"}
_AMUDAI_PROFILES = {name: name for name in ("plain", "fast", "balanced", "high", "small")}
# per format: the property that names the codec, codecs by its value, and the default
_CODECS = {
    "parquet": ("parquet.compression-codec", _PARQUET_CODECS, "zstd"),
    "orc": ("orc.compression-codec", _ORC_CODECS, "zlib"),
    "avro": ("avro.compression-codec", _AVRO_CODECS, "gzip"),
    AMUDAI: ("amudai.profile", _AMUDAI_PROFILES, "balanced"),
}


@dataclass(frozen=True, slots=True)
class FileEncoding:
    """The format and compression of a file.

    Args:
        file_format: `parquet`, `orc`, `avro` or `amudai`.
        codec: Compression codec, under the name that the format's writer uses; for Amudai the writer's profile.
        codec_level: Compression level, None for the codec's default.
        ascending: Integer columns whose values mostly ascend, which Parquet files delta-encode.
        shredded_rows: How many of the first rows decide what is shredded of variants in Parquet files; None to shred
            nothing.
        page_index: Whether Parquet files say where their pages are, because single rows of them are read: those that an
            index of the table names.
        hashed: The columns with a hash index, if the file's index is made of their keys.
        key_bytes: How long the keys of files are that are encrypted; None if they are not.
    """

    file_format: str = "parquet"
    codec: str = "zstd"
    codec_level: int | None = None
    ascending: tuple[str, ...] = ()
    shredded_rows: int | None = None
    page_index: bool = False
    hashed: tuple[str, ...] = ()
    key_bytes: int | None = None

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], *, deletes: bool = False) -> FileEncoding:
        """The encoding of a table's data files or delete files.

        Args:
            properties: The table's properties: `write.format.default`, `write.<format>.compression-codec` and
                `….compression-level`; `write.amudai.profile` is `plain`, `fast`, `balanced`, `high` or `small`;
                `write.parquet.shred-variants` and `write.parquet.variant-inference-buffer-size`.
            deletes: Whether `write.delete.…` takes precedence.

        Raises:
            SchemaError: A property has an invalid value.
            UnsupportedError: Files of the format are not encrypted, and the table is.
        """

        def value(name: str, default: str | None = None) -> tuple[str, str | None]:
            own = f"write.delete.{name}"
            if deletes and own in properties:
                return own, properties[own]
            return f"write.{name}", properties.get(f"write.{name}", default)

        name, file_format = value("format.default", "parquet")
        assert file_format is not None
        if deletes and file_format.lower() == AMUDAI:
            # readers of row deletes expect Parquet; only data files can be shards
            file_format = "parquet"
        if file_format.lower() not in _CODECS:
            raise SchemaError(f"table property {name} is {file_format!r}{nearest(file_format, _CODECS)}")
        file_format = file_format.lower()
        property_name, codecs, default = _CODECS[file_format]
        name, codec = value(property_name, default)
        if codec is None or codec.lower() not in codecs:
            raise SchemaError(f"table property {name} must be one of {', '.join(codecs)}, found {codec!r}")
        key_bytes = data_key_bytes(properties)
        if key_bytes is not None and file_format not in _ENCRYPTED:
            raise UnsupportedError(
                f"{file_format} files are not encrypted; write.format.default of an encrypted table is parquet or avro"
            )
        name, _ = value(f"{file_format}.compression-level")
        return cls(
            file_format,
            codecs[codec.lower()],
            whole_number(properties, name, None),
            shredded_rows=_shredded_rows(properties),
            page_index=not deletes and any(name.startswith(INDEX_PREFIX) for name in properties),
            hashed=() if deletes or file_format != "parquet" else _hashed(properties),
            key_bytes=key_bytes,
        )

    @property
    def suffix(self) -> str:
        """The file name extension, without the dot."""
        return "amudai.shard" if self.file_format == AMUDAI else self.file_format


def _hashed(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The columns with a hash index."""
    return tuple(each.column for each in index_definitions(properties) if each.kind is IndexKind.HASH)


def _shredded_rows(properties: Mapping[str, str]) -> int | None:
    """How many rows decide what is shredded, None if nothing is. Spec: Iceberg properties."""
    text = properties.get(_SHRED, "false").strip().lower()
    if text not in ("true", "false"):
        raise SchemaError(f"table property {_SHRED} must be true or false, found {text!r}")
    rows = whole_number(properties, _SAMPLED_ROWS, 100)
    return rows if text == "true" else None


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
        _refuse(schema, "an Amudai shard")
        from skerry.amudai.values.types import schema_from_arrow

        schema_from_arrow(_without_unknown(schema))


class FileWriter:
    """A file that is being written, with its metrics; it becomes visible when it is closed.

    Args:
        encoding: Its format.
        storage: Access to the location.
        location: Its location, which must not exist.
        schema: Its columns with field ids.

    Raises:
        UnsupportedError: The format cannot hold a column's type.
    """

    def __init__(self, encoding: FileEncoding, storage: Storage, location: str, schema: pa.Schema) -> None:
        self._file_format = encoding.file_format
        self._location = location
        self._schema = schema
        stored = _without_unknown(schema) if encoding.file_format == "parquet" else schema
        # Iceberg Java reads no file with a column of type unknown; a file without any column has no rows
        self._left_out = len(stored) < len(schema) and len(stored) > 0
        self._stored = stored if self._left_out else schema
        self._key = None if encoding.key_bytes is None else new_file_key(encoding.key_bytes)
        self._output = _OUTPUTS[encoding.file_format](encoding, storage, location, self._stored, self._key)
        self._has_footer = isinstance(self._output, ParquetOutput | AnnotatedOutput)
        self._metrics = RowMetrics(schema, only_shapes=self._has_footer)

    @property
    def size_bytes(self) -> int:
        """The bytes written so far."""
        return self._output.size_bytes

    def write(self, rows: pa.Table) -> None:
        """Write rows with exactly the file's schema, to a Parquet file as a row group."""
        self._metrics.update(rows)
        self._output.write(rows.select(self._stored.names) if self._left_out else rows)

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
            sort_order_id: The sort order of the rows.
            nan_value_counts: NaNs by field id, if they were counted.
        """
        size_bytes = self._output.close()
        described = self._described(size_bytes, modes, spec_id, partition, sort_order_id, nan_value_counts or {})
        if self._key is None:
            return described
        return replace(described, key_metadata=encode_key_metadata(replace(self._key, file_length=size_bytes)))

    def _described(
        self,
        size_bytes: int,
        modes: Mapping[int, MetricsMode],
        spec_id: int,
        partition: tuple[Any, ...],
        sort_order_id: int | None,
        nan_value_counts: Mapping[int, int],
    ) -> DataFile:
        if isinstance(self._output, ParquetOutput | AnnotatedOutput):
            described = parquet_data_file(
                self._location,
                self._output.metadata,
                size_bytes,
                self._schema,
                modes,
                spec_id=spec_id,
                partition=partition,
                sort_order_id=sort_order_id,
                nan_value_counts=nan_value_counts,
            )
            return self._metrics.added_to(described, modes)
        described = self._metrics.data_file(
            self._location,
            self._file_format,
            size_bytes,
            modes,
            spec_id=spec_id,
            partition=partition,
            sort_order_id=sort_order_id,
        )
        if isinstance(self._output, ShardOutput):
            return replace(described, split_offsets=self._output.stripe_offsets)
        return described

    def abort(self) -> None:
        """Discard the file."""
        self._output.abort()


def _parquet(
    encoding: FileEncoding, storage: Storage, location: str, schema: pa.Schema, key: KeyMetadata | None
) -> FileOutput:
    ascending = encoding.ascending
    options: dict[str, Any] = {
        "compression": encoding.codec,
        "compression_level": encoding.codec_level,
        "use_dictionary": [name for name in schema.names if name not in ascending] if ascending else True,
        "column_encoding": dict.fromkeys(ascending, "DELTA_BINARY_PACKED") or None,
    }
    if encoding.page_index:
        options |= SINGLE_ROW_PAGES
    if is_annotated(schema):
        if key is not None:
            _refuse(schema, "an encrypted file of skerry")
        return AnnotatedOutput(storage, location, schema, sampled_rows=encoding.shredded_rows, **options)
    return ParquetOutput(storage, location, schema, key=key, **options)


def _refuse(schema: pa.Schema, kind: str) -> None:
    for field in schema:
        for what, is_inside in (("variants", has_variants), ("shapes", has_shapes)):
            if is_inside(pa.schema([field])):
                raise UnsupportedError(f"column {field.name!r}: {kind} cannot hold {what}; write Parquet files")


def _check_plain(key: KeyMetadata | None, kind: str) -> None:
    if key is not None:
        raise UnsupportedError(f"{kind} files are not encrypted; write Parquet or Avro files")


def _orc(
    encoding: FileEncoding, storage: Storage, location: str, schema: pa.Schema, key: KeyMetadata | None
) -> FileOutput:
    _check_plain(key, "ORC")
    _refuse(schema, "an ORC file of skerry")
    return OrcOutput(storage, location, orc_schema(schema), codec=encoding.codec, refused=ORC_TIMES)


def _avro(
    encoding: FileEncoding, storage: Storage, location: str, schema: pa.Schema, key: KeyMetadata | None
) -> FileOutput:
    _refuse(schema, "an Avro file of skerry")
    return AvroOutput(storage, location, avro_schema(schema), codec=encoding.codec, key=key)


def _without_unknown(schema: pa.Schema) -> pa.Schema:
    """The columns except those of the type unknown, which have no values."""
    return pa.schema([field for field in schema if not pa.types.is_null(field.type)])


def _amudai(
    encoding: FileEncoding, storage: Storage, location: str, schema: pa.Schema, key: KeyMetadata | None
) -> FileOutput:
    _check_plain(key, "Amudai")
    _refuse(schema, "an Amudai shard")
    return ShardOutput(storage, location, _without_unknown(schema), profile=encoding.codec)


_OUTPUTS: dict[str, Callable[[FileEncoding, Storage, str, pa.Schema, KeyMetadata | None], FileOutput]] = {
    "parquet": _parquet,
    "orc": _orc,
    "avro": _avro,
    AMUDAI: _amudai,
}
