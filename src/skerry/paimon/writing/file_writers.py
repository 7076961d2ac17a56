"""Writers of data files in the formats of Paimon tables: Parquet, ORC and Avro, and Amudai shards.

Spec: docs/formats/paimon.md § 8.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from skerry.errors import SchemaError
from skerry.paimon.metadata.options import CoreOptions, FileFormat
from skerry.paimon.metadata.schema import SEQUENCE_NUMBER
from skerry.paimon.writing.avro_layout import avro_schema, stored_rows
from skerry.paimon.writing.orc_layout import ORC_TIMES, orc_schema
from skerry.paimon.writing.parquet_layout import PaimonParquetOutput
from skerry.storage import Storage
from skerry.table.files.file_output import SINGLE_ROW_PAGES, AvroOutput, FileOutput, ShardOutput
from skerry.table.files.orc_output import OrcOutput
from skerry.table.indexes.definitions import INDEX_PREFIX
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
    # the writer's objective; the option is zstd if not set
    FileFormat.AMUDAI: {
        "none": "plain",
        "lz4": "fast",
        "zstd": "balanced",
        **{name: name for name in ("plain", "fast", "balanced", "high", "small")},
    },
}


@dataclass(frozen=True, slots=True)
class FileEncoding:
    """The format and compression of files.

    Args:
        file_format: Which format.
        compression: The table's name of the codec, which file names may include.
        codec: The name of the codec in the format's writer.
        codec_level: Its level; None for the codec's default.
        has_differences: Whether Parquet files may store numbers as differences, which version 1 does not have.
        single_rows: Whether single rows are read, by an index of the table.
    """

    file_format: FileFormat = FileFormat.PARQUET
    compression: str = "zstd"
    codec: str = "zstd"
    codec_level: int | None = 1
    has_differences: bool = True
    single_rows: bool = False

    @classmethod
    def from_options(cls, options: CoreOptions, *, changelog: bool = False) -> FileEncoding:
        """The encoding of a table's data files, or changelog files.

        Raises:
            SchemaError: The format does not support the compression; the message names the option.
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
        version = options.options.get("parquet.writer.version", "v1").strip().lower()
        is_indexed = not changelog and any(name.startswith(INDEX_PREFIX) for name in options.options)
        return cls(file_format, compression, codec, level, version in _SECOND_VERSION, is_indexed)

    def suffix(self, *, with_compression: bool) -> str:
        """The suffix of the names of such files."""
        return f".{self.compression}.{self.file_format.value}" if with_compression else f".{self.file_format.value}"


def open_output(
    encoding: FileEncoding, storage: Storage, location: str, schema: pa.Schema, first: pa.Table | None = None
) -> FileOutput:
    """Create a data file.

    Args:
        encoding: Its format.
        storage: Access to it.
        location: Its location, where no file must exist.
        schema: Its columns with field ids, as `TableSchema.file_schema` gives them.
        first: Its first rows, if they are known, by which encodings are chosen.

    Raises:
        UnsupportedError: The format does not support a column's type.
    """
    if encoding.file_format is FileFormat.PARQUET:
        return _parquet(encoding, storage, location, schema, first)
    return _OTHERS[encoding.file_format](encoding, storage, location, schema)


_SECOND_VERSION: Final = ("v2", "parquet_2_0")
_MERGED_PAGES: Final[dict[str, Any]] = {"data_page_size": 128 << 10, "dictionary_pagesize_limit": 256 << 10}
"""Pages of files of primary-key tables: a merge holds a page of every column of every run in memory."""


def _parquet(
    encoding: FileEncoding, storage: Storage, location: str, schema: pa.Schema, first: pa.Table | None
) -> FileOutput:
    pages: Mapping[str, Any] = _MERGED_PAGES if SEQUENCE_NUMBER in schema.names else {}
    if encoding.single_rows:
        pages = SINGLE_ROW_PAGES
    return PaimonParquetOutput(
        storage,
        location,
        schema,
        first,
        codec=encoding.codec,
        level=encoding.codec_level,
        has_differences=encoding.has_differences,
        **pages,
    )


def _orc(encoding: FileEncoding, storage: Storage, location: str, schema: pa.Schema) -> FileOutput:
    return OrcOutput(storage, location, orc_schema(schema), codec=encoding.codec, refused=ORC_TIMES)


def _avro(encoding: FileEncoding, storage: Storage, location: str, schema: pa.Schema) -> FileOutput:
    return AvroOutput(storage, location, avro_schema(schema), codec=encoding.codec, stored=stored_rows)


def _amudai(encoding: FileEncoding, storage: Storage, location: str, schema: pa.Schema) -> FileOutput:
    return ShardOutput(storage, location, schema, profile=encoding.codec)


_OTHERS: dict[FileFormat, Callable[[FileEncoding, Storage, str, pa.Schema], FileOutput]] = {
    FileFormat.ORC: _orc,
    FileFormat.AVRO: _avro,
    FileFormat.AMUDAI: _amudai,
}
