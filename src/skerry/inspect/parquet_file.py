"""A Parquet file: row groups, column chunks, the pages of one chunk, page indexes and the footer.

Spec: Parquet spec, README.md, File format, parquet.thrift.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from skerry.entry import Entry
from skerry.errors import FormatError, SkerryError
from skerry.inspect.parquet_fields import with_fields
from skerry.inspect.values import name_of, shown
from skerry.parquet import (
    Codec,
    ColumnChunk,
    Encoding,
    FileMetadata,
    PageHeader,
    PageType,
    decode_page_header,
    read_metadata,
)
from skerry.storage import Storage

__all__ = ["inspect_parquet"]

_MAGIC_BYTES: Final = 4
_TRAILER_BYTES: Final = 8
_MOST_PAGES: Final = 100_000
_INDEXES: Final = {"column index": "ColumnIndex", "offset index": "OffsetIndex"}
_LEVELS: Final = 2
"""Where in a tree column chunks are: in a row group, in the file."""


def inspect_parquet(storage: Storage, location: str, at: Sequence[int] = ()) -> Entry:
    """Look into a Parquet file; only the footer is read, and of a column chunk on the way the chunk itself.

    Args:
        storage: Access to the file.
        location: The file.
        at: The way to a part: row group, column chunk, page.

    Raises:
        FormatError: The footer is unsound.
        UnsupportedError: The file is encrypted.
    """
    metadata = read_metadata(storage, location)
    statistics = _statistics_of(metadata)
    size = metadata.file_size_bytes
    children = [Entry("magic", "PAR1", {}, location, 0, _MAGIC_BYTES)]
    for number, group in enumerate(metadata.row_groups):
        chunks = tuple(
            _chunk(location, chunk, statistics.get((number, chunk.column.index), {})) for chunk in group.chunks
        )
        details = {"rows": group.row_count, "size_bytes": sum(chunk.size_bytes for chunk in group.chunks)}
        start = min((chunk.start for chunk in chunks if chunk.start is not None), default=None)
        end = max((chunk.end for chunk in chunks if chunk.end is not None), default=None)
        children.append(Entry("row group", str(number), details, location, start, end, chunks))
    children += _indexes(metadata)
    footer_start = size - len(metadata.footer)
    footer = {
        "created_by": metadata.created_by,
        "columns": len(metadata.columns),
        "row_groups": len(metadata.row_groups),
        "keys": {key: shown(value) for key, value in metadata.key_values.items()},
    }
    children.append(Entry("footer", "FileMetaData", footer, location, footer_start, size - _TRAILER_BYTES))
    children.append(Entry("trailer", "footer length and PAR1", {}, location, size - _TRAILER_BYTES, size))
    about = {"rows": metadata.row_count, "size_bytes": size, "created_by": metadata.created_by}
    tree = Entry("Parquet file", "", about, location, 0, size, tuple(children))
    return _with_pages(storage, tree, metadata, at)


def _chunk(location: str, chunk: ColumnChunk, statistics: dict[str, Any]) -> Entry:
    column = chunk.column
    data = chunk.encodings if chunk.data_page_encodings is None else chunk.data_page_encodings
    details: dict[str, Any] = {
        "field_id": column.field_id,
        "type": str(column.type),
        "physical_type": column.physical_type.name,
        "codec": name_of(Codec, chunk.codec),
        "encodings": [name_of(Encoding, code) for code in sorted(data)],
        "values": chunk.value_count,
        "nulls": chunk.null_count,
        "uncompressed_bytes": chunk.uncompressed_size_bytes,
        "dictionary": "none"
        if chunk.dictionary_offset is None
        else "whole"
        if chunk.is_dictionary_encoded
        else "partly",
        **statistics,
    }
    place = (chunk.offset, chunk.offset + chunk.size_bytes) if chunk.value_count else (None, None)
    return Entry("column chunk", column.name, details, location, *place)


def _indexes(metadata: FileMetadata) -> list[Entry]:
    """The parts of the page index, each with those of all chunks: writers put them side by side."""
    found = []
    for kind in ("column_index", "offset_index"):
        parts = []
        for number, group in enumerate(metadata.row_groups):
            for chunk in group.chunks:
                place = chunk.column_index if kind == "column_index" else chunk.offset_index
                if place is not None:
                    name = f"{number} {chunk.column.name}"
                    start, size = place
                    parts.append(Entry("page index", name, {}, metadata.location, start, start + size))
        if parts:
            parts.sort(key=lambda part: part.start or 0)
            label = kind.replace("_", " ")
            found.append(
                Entry(label, "", {"chunks": len(parts)}, metadata.location, parts[0].start, parts[-1].end, tuple(parts))
            )
    return sorted(found, key=lambda part: part.start or 0)


def _statistics_of(metadata: FileMetadata) -> dict[tuple[int, int], dict[str, Any]]:
    """What the footer says about values, by row group and column; nothing where PyArrow cannot be asked."""
    try:
        footer = metadata.arrow
    except SkerryError:
        return {}
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for position in range(group.num_columns):
            found[number, position] = _bounds(group.column(position))
    return found


def _bounds(chunk: pq.ColumnChunkMetaData) -> dict[str, Any]:
    try:
        statistics = chunk.statistics
        if statistics is None or not statistics.has_min_max:
            return {}
        return {"min": shown(statistics.min), "max": shown(statistics.max)}
    except (pa.ArrowException, ValueError, UnicodeDecodeError, OverflowError):
        return {}


# ---- pages ----


def _with_pages(storage: Storage, tree: Entry, metadata: FileMetadata, at: Sequence[int]) -> Entry:
    """The tree, with the pages of the column chunk on the way, or the fields of the structure."""
    if at and 0 <= at[0] < len(tree.children):
        part = tree.children[at[0]]
        if part.kind == "footer":
            return tree.with_children(_replaced(tree.children, at[0], with_fields(storage, part, "FileMetaData")))
        structure = _INDEXES.get(part.kind)
        if structure is not None and len(at) >= _LEVELS and 0 <= at[1] < len(part.children):
            index = with_fields(storage, part.children[at[1]], structure)
            part = part.with_children(_replaced(part.children, at[1], index))
            return tree.with_children(_replaced(tree.children, at[0], part))
    if len(at) < _LEVELS:
        return tree
    group_at, chunk_at = at[:_LEVELS]
    number = group_at - 1  # the magic comes first
    if not 0 <= number < len(metadata.row_groups) or not 0 <= chunk_at < len(metadata.row_groups[number].chunks):
        return tree
    chunk = metadata.row_groups[number].chunks[chunk_at]
    if not chunk.value_count:
        return tree
    group = tree.children[group_at]
    entry = group.children[chunk_at]
    try:
        pages = tuple(_pages(storage, metadata.location, chunk))
        if len(at) > _LEVELS and 0 <= at[_LEVELS] < len(pages):
            page = pages[at[_LEVELS]]
            header = with_fields(storage, page.children[0], "PageHeader")
            pages = _replaced(pages, at[_LEVELS], page.with_children((header, *page.children[1:])))
    except SkerryError as error:
        entry.details["error"] = str(error)
        return tree
    chunks = _replaced(group.children, chunk_at, entry.with_children(pages))
    groups = _replaced(tree.children, group_at, group.with_children(chunks))
    return tree.with_children(groups)


def _replaced(entries: tuple[Entry, ...], position: int, entry: Entry) -> tuple[Entry, ...]:
    return (*entries[:position], entry, *entries[position + 1 :])


def _pages(storage: Storage, location: str, chunk: ColumnChunk) -> list[Entry]:
    """The pages of a chunk by their headers, in order.

    Raises:
        FormatError: A header is unsound, or a page ends outside of the chunk.
    """
    data = memoryview(storage.read_range(location, chunk.offset, chunk.size_bytes))
    found: list[Entry] = []
    position = first_value = 0
    while position < len(data) and len(found) < _MOST_PAGES:
        header = decode_page_header(data, position, location=location, base=chunk.offset)
        start = chunk.offset + position
        size = header.header_bytes + header.compressed_bytes
        if size == 0 or position + size > len(data):
            raise FormatError(
                f"a page of {size} bytes ends outside of its column chunk",
                location=location,
                offset=start,
                rule="Parquet spec, parquet.thrift, `PageHeader`",
            )
        is_data = header.type in (PageType.DATA_PAGE, PageType.DATA_PAGE_V2)
        details = _page_details(header)
        if is_data:
            details["first_value"] = first_value
            first_value += header.value_count
        body = start + header.header_bytes
        parts = (
            Entry("page header", "PageHeader", {}, location, start, body),
            *_levels(header, location, body),
        )
        found.append(
            Entry(
                "data page" if is_data else "dictionary page",
                str(len(found)),
                details,
                location,
                start,
                start + size,
                parts,
            )
        )
        position += size
    return found


def _levels(header: PageHeader, location: str, body: int) -> list[Entry]:
    """The parts of a page's body: levels stand apart only in DATA_PAGE_V2."""
    end = body + header.compressed_bytes
    if header.type != PageType.DATA_PAGE_V2:
        return [
            Entry(
                "page body",
                "levels and values" if header.type == PageType.DATA_PAGE else "values",
                {},
                location,
                body,
                end,
            )
        ]
    repetition = body + header.repetition_level_bytes
    values = repetition + header.definition_level_bytes
    return [
        Entry("levels", "repetition levels", {}, location, body, repetition),
        Entry("levels", "definition levels", {}, location, repetition, values),
        Entry("page body", "values", {}, location, values, end),
    ]


def _page_details(header: PageHeader) -> dict[str, Any]:
    return {
        "page_type": name_of(PageType, header.type),
        "encoding": name_of(Encoding, header.encoding),
        "values": header.value_count,
        "uncompressed_bytes": header.uncompressed_bytes,
    }
