"""Data files in the making, in the formats that Paimon tables have: Parquet, ORC and Avro; and Amudai shards.

Spec: docs/formats/paimon.md § 8.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from skerry.errors import SchemaError
from skerry.paimon.metadata.options import CoreOptions, FileFormat
from skerry.paimon.writing.avro_layout import avro_schema, stored_rows
from skerry.paimon.writing.orc_layout import ORC_TIMES, orc_schema
from skerry.paimon.writing.parquet_layout import PaimonParquetOutput
from skerry.storage import Storage
from skerry.table.files.file_output import AvroOutput, FileOutput, ShardOutput
from skerry.table.files.orc_output import OrcOutput
from skerry.table.rows.schema import nearest

__all__ = ["FileEncoding", "open_output"]

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


def open_output(encoding: FileEncoding, storage: Storage, location: str, schema: pa.Schema) -> FileOutput:
    """Begin a data file.

    Args:
        encoding: Its format.
        storage: Where to.
        location: Its location, which must be free.
        schema: Its columns with field ids, as `TableSchema.file_schema` gives them.

    Raises:
        UnsupportedError: The format cannot hold a column's type.
    """
    return _OUTPUTS[encoding.file_format](encoding, storage, location, schema)


def _parquet(encoding: FileEncoding, storage: Storage, location: str, schema: pa.Schema) -> FileOutput:
    return PaimonParquetOutput(
        storage, location, schema, compression=encoding.codec, compression_level=encoding.codec_level
    )


def _orc(encoding: FileEncoding, storage: Storage, location: str, schema: pa.Schema) -> FileOutput:
    return OrcOutput(storage, location, orc_schema(schema), codec=encoding.codec, refused=ORC_TIMES)


def _avro(encoding: FileEncoding, storage: Storage, location: str, schema: pa.Schema) -> FileOutput:
    return AvroOutput(storage, location, avro_schema(schema), codec=encoding.codec, stored=stored_rows)


def _amudai(encoding: FileEncoding, storage: Storage, location: str, schema: pa.Schema) -> FileOutput:
    return ShardOutput(storage, location, schema, profile=encoding.codec)


_OUTPUTS: dict[FileFormat, Callable[[FileEncoding, Storage, str, pa.Schema], FileOutput]] = {
    FileFormat.PARQUET: _parquet,
    FileFormat.ORC: _orc,
    FileFormat.AVRO: _avro,
    FileFormat.AMUDAI: _amudai,
}
