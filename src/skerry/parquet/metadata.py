"""The footer of a Parquet file: which column chunks there are, where they are and how they are encoded.

PyArrow's `FileMetaData` does not expose the encodings of a chunk's data pages (`encoding_stats`), which decide what may
be learned from a dictionary alone, so the footer is decoded here. `FileMetadata.arrow` gives PyArrow's view of it.

Spec: Parquet spec, README.md, File format, parquet.thrift.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from skerry.errors import FormatError, UnsupportedError
from skerry.parquet.encryption import check_chunks
from skerry.parquet.schema import Column, PhysicalType, decode_columns
from skerry.parquet.thrift import CompactDecoder, Struct

if TYPE_CHECKING:
    from skerry.storage import Storage

__all__ = [
    "Codec",
    "ColumnChunk",
    "Encoding",
    "FileMetadata",
    "PageType",
    "RowGroup",
    "decode_metadata",
    "read_arrow_metadata",
    "read_footer",
    "read_metadata",
]

MAGIC: Final = b"PAR1"
ENCRYPTED_MAGIC: Final = b"PARE"
_TRAILER_BYTES: Final = 8
_TAIL_BYTES: Final = 64 * 1024
"""The first read: the footers of most files are smaller (16 columns and one row group: 4 KB)."""


class Codec(IntEnum):
    """Spec: Parquet spec, parquet.thrift, `CompressionCodec`."""

    UNCOMPRESSED = 0
    SNAPPY = 1
    GZIP = 2
    LZO = 3
    BROTLI = 4
    LZ4 = 5
    ZSTD = 6
    LZ4_RAW = 7


class Encoding(IntEnum):
    """Spec: Parquet spec, parquet.thrift, `Encoding`."""

    PLAIN = 0
    PLAIN_DICTIONARY = 2
    RLE = 3
    BIT_PACKED = 4
    DELTA_BINARY_PACKED = 5
    DELTA_LENGTH_BYTE_ARRAY = 6
    DELTA_BYTE_ARRAY = 7
    RLE_DICTIONARY = 8
    BYTE_STREAM_SPLIT = 9


class PageType(IntEnum):
    """Spec: Parquet spec, parquet.thrift, `PageType`."""

    DATA_PAGE = 0
    INDEX_PAGE = 1
    DICTIONARY_PAGE = 2
    DATA_PAGE_V2 = 3


_DICTIONARY_ENCODINGS: Final = frozenset((Encoding.PLAIN_DICTIONARY, Encoding.RLE_DICTIONARY))
_HIDES_COMPRESSION: Final = "parquet-cpp version 1."
"""Writers before Arrow 3.0 (ARROW-10353), which had this name and version."""
_DATA_PAGES: Final = frozenset((PageType.DATA_PAGE, PageType.DATA_PAGE_V2))


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """The values of one column in one row group.

    Args:
        column: The column.
        codec: How pages are compressed: a `Codec`, or a number that Parquet may come to define.
        encodings: All encodings in the chunk, those of levels and of the dictionary page included.
        data_page_encodings: The encodings of its data pages alone; None if the writer left them out.
        value_count: Values, nulls included.
        null_count: Nulls; None if the writer left them out.
        offset: Where its first page's header starts in the file.
        size_bytes: Size of all pages with their headers.
        uncompressed_size_bytes: The same before compression.
        dictionary_offset: Where the dictionary page's header starts; None if the footer names no dictionary page.
        data_offset: Where the first data page's header starts.
        hides_compression: Whether DATA_PAGE_V2 headers say that values are not compressed though they are.
        offset_index: Offset and size of its offset index in the file; None if there is none.
        column_index: Those of its column index.
    """

    column: Column
    codec: int
    encodings: frozenset[int]
    data_page_encodings: frozenset[int] | None
    value_count: int
    null_count: int | None
    offset: int
    size_bytes: int
    uncompressed_size_bytes: int
    dictionary_offset: int | None
    data_offset: int
    hides_compression: bool = False
    offset_index: tuple[int, int] | None = None
    column_index: tuple[int, int] | None = None

    @property
    def is_dictionary_encoded(self) -> bool:
        """Whether every data page is known to hold dictionary indices only."""
        if self.dictionary_offset is None:
            return False
        if self.data_page_encodings is not None:
            return bool(self.data_page_encodings) and self.data_page_encodings <= _DICTIONARY_ENCODINGS
        # Writers of old, whose dictionary pages are PLAIN_DICTIONARY: then PLAIN means a data page.
        levels = {Encoding.RLE, Encoding.BIT_PACKED}
        return Encoding.PLAIN_DICTIONARY in self.encodings and self.encodings <= levels | {Encoding.PLAIN_DICTIONARY}


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A horizontal part of the file.

    Args:
        row_count: Its rows.
        chunks: One per column of the schema, in its order.
    """

    row_count: int
    chunks: tuple[ColumnChunk, ...]

    @property
    def offset(self) -> int:
        """Where its first page starts in the file: the place where Iceberg may split the file."""
        return min(chunk.offset for chunk in self.chunks)


@dataclass(frozen=True, slots=True)
class FileMetadata:
    """A file's footer.

    Args:
        location: The file.
        file_size_bytes: Its size.
        created_by: The writer's name and version, '' if it gives none.
        row_count: Rows in all row groups.
        key_values: The writer's own entries; later ones win.
        columns: The leaves of the schema.
        row_groups: Row groups in file order.
        footer: The encoded footer with its length and magic, for `arrow`.
    """

    location: str
    file_size_bytes: int
    created_by: str
    row_count: int
    key_values: dict[str, str]
    columns: tuple[Column, ...]
    row_groups: tuple[RowGroup, ...]
    footer: bytes

    @property
    def arrow(self) -> pq.FileMetaData:
        """PyArrow's view of the footer (statistics, schema); parsed at each use.

        Raises:
            FormatError: PyArrow finds it unsound.
            UnsupportedError: It has statistics for which PyArrow must not be asked.
        """
        try:
            found, sound = read_arrow_metadata(self.footer)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise FormatError(
                f"PyArrow cannot read the footer: {error}",
                location=self.location,
                rule="Parquet spec, parquet.thrift, `FileMetaData`",
            ) from error
        except FormatError as error:
            error.location = self.location
            raise
        if not sound.all():
            name = self.columns[int(np.argmin(sound.all(axis=0)))].name
            raise UnsupportedError(
                f"the statistics of column {name} are shorter than a value",
                location=self.location,
                rule="Parquet spec, parquet.thrift, `Statistics`",
            )
        return found

    @property
    def split_offsets(self) -> tuple[int, ...]:
        """Where row groups start in the file, ascending, in bytes.

        Spec: Iceberg spec, Data File Fields, `split_offsets`.
        """
        return tuple(sorted(group.offset for group in self.row_groups if group.chunks))


def read_arrow_metadata(footer: bytes) -> tuple[pq.FileMetaData, npt.NDArray[np.bool_]]:
    """PyArrow's view of a footer, of which every column chunk may be asked for.

    Args:
        footer: FileMetaData, its length and the magic; not encrypted.

    Returns:
        The footer, and bool[row_groups, columns]: whether a chunk may be asked for its statistics, too.

    Raises:
        FormatError: PyArrow would end the process over a column chunk.
        pa.ArrowException, OSError, UnicodeDecodeError: PyArrow finds the footer unsound.
    """
    found = pq.read_metadata(pa.BufferReader(footer))
    stored = [found.schema.column(position) for position in range(found.num_columns)]
    levels = [
        (PhysicalType[each.physical_type], each.length, each.max_repetition_level, each.max_definition_level)
        for each in stored
    ]
    columns = np.array(levels, np.int64).reshape(-1, 4)
    return found, check_chunks(memoryview(footer)[:-_TRAILER_BYTES], columns, found.num_row_groups)


def read_metadata(storage: Storage, location: str, *, file_size: int | None = None) -> FileMetadata:
    """Read and decode a file's footer with one ranged read, or two if it is larger than 64 KiB.

    Args:
        storage: Where to read from.
        location: The file.
        file_size: Its size in bytes if the caller knows it.

    Raises:
        FormatError: The file is no Parquet file, or its footer is unsound.
        UnsupportedError: The footer is encrypted.
        NotFoundError: There is no such file.
    """
    footer, file_size = read_footer(storage, location, file_size=file_size)
    return decode_metadata(footer, location=location, file_size=file_size)


def read_footer(storage: Storage, location: str, *, file_size: int | None = None) -> tuple[bytes, int]:
    """Read a file's footer with one ranged read, or two if it is larger than 64 KiB.

    Args:
        storage: Where to read from.
        location: The file.
        file_size: Its size in bytes if the caller knows it.

    Returns:
        FileMetaData, its length and the magic: the last bytes of the file; and the size of the file.

    Raises:
        FormatError: The file is no Parquet file.
        UnsupportedError: The footer is encrypted.
        NotFoundError: There is no such file.
    """
    if file_size is None:
        raw, file_size = storage.read_tail(location, _TAIL_BYTES)
    else:
        length = min(file_size, _TAIL_BYTES)
        raw = storage.read_range(location, file_size - length, length)
    tail = bytes(raw)
    size = _TRAILER_BYTES + _footer_size(tail, location, file_size)
    if size > len(tail):
        missing = size - len(tail)
        tail = bytes(storage.read_range(location, file_size - size, missing)) + tail
    return tail[-size:], file_size


def _footer_size(tail: bytes, location: str, file_size: int) -> int:
    """The size of the Thrift bytes, from the file's last 8 bytes. Spec: Parquet spec, README.md, File format."""
    if len(tail) < _TRAILER_BYTES + len(MAGIC):
        raise FormatError(
            f"file of {file_size} bytes is too small for Parquet",
            location=location,
            rule="Parquet spec, README.md, File format",
        )
    magic = tail[-len(MAGIC) :]
    if magic == ENCRYPTED_MAGIC:
        raise UnsupportedError("Parquet footer is encrypted", location=location, offset=file_size - len(MAGIC))
    if magic != MAGIC:
        raise FormatError(
            f"not a Parquet file: expected it to end in {MAGIC!r}, found {magic!r}",
            location=location,
            offset=file_size - len(MAGIC),
            rule="Parquet spec, README.md, File format",
        )
    size = int.from_bytes(tail[-_TRAILER_BYTES : -len(MAGIC)], "little")
    if size == 0 or size > file_size - _TRAILER_BYTES - len(MAGIC):
        raise FormatError(
            f"Parquet footer of {size} bytes in a file of {file_size}",
            location=location,
            offset=file_size - _TRAILER_BYTES,
            rule="Parquet spec, README.md, File format",
        )
    return size


def decode_metadata(footer: bytes, *, location: str, file_size: int) -> FileMetadata:
    """Decode a footer.

    Args:
        footer: FileMetaData, its length and the magic: the last bytes of the file.
        location: The file.
        file_size: Its size in bytes; every chunk must be within.

    Raises:
        FormatError: The footer is unsound.
        UnsupportedError: Columns are encrypted or are in other files.

    Spec: Parquet spec, parquet.thrift, `FileMetaData`.
    """
    start = file_size - len(footer)
    decoder = CompactDecoder(memoryview(footer)[:-_TRAILER_BYTES], location=location, base=start)
    root = decoder.decode_struct("FileMetaData")
    try:
        columns = decode_columns(root.structures(2, "SchemaElement"))
    except FormatError as error:
        error.location = location
        raise
    created_by = root.optional_text(6, "created_by") or ""
    row_groups = tuple(_decode_row_group(group, columns, data_end=start) for group in root.structures(4, "RowGroup"))
    if created_by.startswith(_HIDES_COMPRESSION):
        row_groups = tuple(
            replace(group, chunks=tuple(replace(chunk, hides_compression=True) for chunk in group.chunks))
            for group in row_groups
        )
    row_count = root.integer(3, "num_rows")
    if row_count != sum(group.row_count for group in row_groups):
        raise root.error(f"has num_rows {row_count}, its row groups {sum(group.row_count for group in row_groups)}")
    return FileMetadata(
        location=location,
        file_size_bytes=file_size,
        created_by=created_by,
        row_count=row_count,
        key_values={
            entry.text(1, "key"): entry.optional_text(2, "value") or "" for entry in root.structures(5, "KeyValue")
        },
        columns=columns,
        row_groups=row_groups,
        footer=footer,
    )


def _decode_row_group(group: Struct, columns: tuple[Column, ...], *, data_end: int) -> RowGroup:
    chunks = group.structures(1, "ColumnChunk")
    if len(chunks) != len(columns):
        raise group.error(f"has {len(chunks)} column chunks, the schema {len(columns)} columns")
    row_count = group.integer(3, "num_rows")
    return RowGroup(
        row_count=row_count,
        chunks=tuple(
            _decode_chunk(chunk, column, row_count, data_end) for chunk, column in zip(chunks, columns, strict=True)
        ),
    )


def _decode_chunk(chunk: Struct, column: Column, row_count: int, data_end: int) -> ColumnChunk:
    """Spec: Parquet spec, parquet.thrift, `ColumnChunk`, `ColumnMetaData`."""
    if 1 in chunk.fields:
        raise UnsupportedError(f"column {column.name} is in another file", location=chunk.location)
    if 3 not in chunk.fields and 9 in chunk.fields:
        raise UnsupportedError(f"column {column.name} is encrypted", location=chunk.location)
    meta = chunk.structure(3, "ColumnMetaData")
    if meta.integer(1, "type") != column.physical_type:
        raise meta.error(
            f"has type {meta.integer(1, 'type')}, the schema {column.physical_type.name} for {column.name}"
        )
    value_count = meta.integer(5, "num_values")
    if column.max_repetition_level == 0 and value_count != row_count:
        raise meta.error(f"has {value_count} values of {column.name}, its row group {row_count} rows")
    data_offset = meta.integer(9, "data_page_offset")
    # Some writers give 0 for "no dictionary page".
    dictionary_offset = meta.optional_integer(11, "dictionary_page_offset") or None
    offset = data_offset if dictionary_offset is None else min(dictionary_offset, data_offset)
    size = meta.integer(7, "total_compressed_size")
    if value_count and (offset < len(MAGIC) or offset + size > data_end or data_offset >= offset + size):
        raise meta.error(
            f"puts {column.name} at bytes {offset} to {offset + size} with data from {data_offset}, "
            f"the file has data from {len(MAGIC)} to {data_end}"
        )
    return ColumnChunk(
        column=column,
        codec=meta.integer(4, "codec", maximum=2**31 - 1),
        encodings=frozenset(meta.integers(2, "encodings")),
        data_page_encodings=_data_page_encodings(meta),
        value_count=value_count,
        null_count=_null_count(meta, value_count),
        offset=offset,
        size_bytes=size,
        uncompressed_size_bytes=meta.integer(6, "total_uncompressed_size"),
        dictionary_offset=dictionary_offset,
        data_offset=data_offset,
        offset_index=_index_place(chunk, 4, "offset_index", data_end),
        column_index=_index_place(chunk, 6, "column_index", data_end),
    )


def _index_place(chunk: Struct, field: int, name: str, data_end: int) -> tuple[int, int] | None:
    """Offset and size of a part of the page index. Spec: Parquet spec, parquet.thrift, `ColumnChunk`."""
    offset = chunk.optional_integer(field, f"{name}_offset")
    size = chunk.optional_integer(field + 1, f"{name}_length", maximum=2**31 - 1)
    if not offset or not size:
        return None
    if offset + size > data_end:
        raise chunk.error(f"puts its {name} at bytes {offset} to {offset + size}, the file has data to {data_end}")
    return offset, size


def _data_page_encodings(meta: Struct) -> frozenset[int] | None:
    """Spec: Parquet spec, parquet.thrift, `ColumnMetaData.encoding_stats`."""
    entries = meta.structures(13, "PageEncodingStats")
    if not entries:
        return None
    return frozenset(
        entry.integer(2, "encoding")
        for entry in entries
        if entry.integer(1, "page_type") in _DATA_PAGES and entry.integer(3, "count") > 0
    )


def _null_count(meta: Struct, value_count: int) -> int | None:
    statistics = meta.optional_structure(12, "Statistics")
    return None if statistics is None else statistics.optional_integer(3, "null_count", maximum=value_count)
