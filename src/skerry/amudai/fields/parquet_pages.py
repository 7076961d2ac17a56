"""Fields whose values are in column chunks of Parquet files: reads only the pages with wanted rows.

Spec: docs/formats/amudai.md § 10; Amudai book, chapter 6, External Parquet Encoding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from skerry.amudai.blocks import BlockMap, decode_block_map
from skerry.amudai.fields.parquet_columns import ColumnLayout, find_pages, layout_of, stored_layout
from skerry.amudai.fields.selection import Selection
from skerry.amudai.fields.stored_field import StoredField
from skerry.amudai.messages import ParquetColumnChunkRef, ParquetFileColumnRef
from skerry.amudai.shard.directory import has_bytes
from skerry.amudai.shard.references import UrlRules, check_range
from skerry.amudai.shard.shard_files import ShardFiles
from skerry.errors import FormatError
from skerry.parquet import ColumnChunk, PhysicalType, decode_column_pages
from skerry.storage import redact

__all__ = ["read_parquet_column"]

_RULE: Final = "docs/formats/amudai.md § 10"


def read_parquet_column(
    files: ShardFiles, rules: UrlRules, field: StoredField, selection: Selection, target: pa.DataType
) -> pa.Array:
    """Read wanted rows of a field.

    Args:
        files: Reads files.
        rules: Resolves urls.
        field: The field; its encoding refers to column chunks.
        selection: The wanted positions.
        target: The wanted type.

    Raises:
        FormatError: References or pages are damaged, or hold another number of values than the field.
        UnsupportedError: The column is nested, or is compressed in a way that PyArrow cannot undo.
        NotFoundError: A file does not exist.
    """
    assert field.parquet is not None
    assert field.descriptor is not None
    layout = stored_layout(field.descriptor, location=redact(field.location))
    parts = []
    position = 0
    for file in field.parquet.file_column_refs:
        for message in file.column_chunks:
            chunk = _open(files, rules, field, file, message, layout)
            end = position + chunk.blocks.value_count
            within = selection.narrowed(np.array([position], np.int64), np.array([end], np.int64))
            if within.count:
                moved = Selection(within.starts - position, within.stops - position, within.count)
                parts.append(_read(files, chunk, moved))
            position = end
    if position != field.positions:
        raise FormatError(
            f"column chunks of field {field.node.name!r} hold {position} values, expected {field.positions}",
            location=redact(field.location),
            rule=_RULE,
        )
    parts = [part if part.type == target else part.cast(target) for part in parts]
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts) if parts else pa.nulls(0, target)


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A column chunk that can be read.

    Args:
        location: The file that holds it.
        layout: How its pages are decoded.
        blocks: Its data pages.
        data_start: Where they start.
        dictionary: The byte range of its dictionary page.
    """

    location: str
    layout: ColumnLayout
    blocks: BlockMap
    data_start: int
    dictionary: tuple[int, int] | None


def _open(
    files: ShardFiles,
    rules: UrlRules,
    field: StoredField,
    file: ParquetFileColumnRef,
    message: ParquetColumnChunkRef,
    layout: ColumnLayout | None,
) -> _Chunk:
    url = message.file_url or file.file_ref.url
    if not url:
        raise FormatError("a column chunk names no file", location=redact(field.location), rule=_RULE)
    location = rules.resolve(url, field.location)
    start, end = message.data_pages_range.start, message.data_pages_range.end
    check_range(start, end, location=location)
    dictionary = None
    if message.HasField("dictionary_range") and message.dictionary_range.end > message.dictionary_range.start:
        dictionary = message.dictionary_range.start, message.dictionary_range.end
        check_range(*dictionary, location=location)
    has_map = message.HasField("data_page_map") and has_bytes(message.data_page_map)
    chunk = _chunk_from_footer(files, rules, file, message, field) if layout is None or not has_map else None
    if layout is None:
        assert chunk is not None
        layout = layout_of(chunk.column, chunk.codec)
    if int(layout.physical_type) != message.storage_type:
        raise FormatError(
            f"a column chunk has storage type {message.storage_type}, its column {layout.physical_type.value}",
            location=redact(field.location),
            rule=_RULE,
        )
    if chunk is None or has_map:
        reference = rules.reference(message.data_page_map, field.location)
        (data,) = files.read([reference])
        blocks = decode_block_map(
            data, buffer_size=end - start + len(data), location=redact(reference.location), offset=reference.start
        )
    else:
        (data,) = files.read_foreign(location, [start], [end - start])
        blocks = find_pages(data, start, chunk.value_count, location=redact(location)).blocks
    return _Chunk(location, layout, blocks, start, dictionary)


def _chunk_from_footer(
    files: ShardFiles,
    rules: UrlRules,
    file: ParquetFileColumnRef,
    message: ParquetColumnChunkRef,
    field: StoredField,
) -> ColumnChunk:
    """What the footer of the Parquet file says of a chunk."""
    metadata = files.parquet_metadata(rules.resolve(file.file_ref.url or message.file_url, field.location))
    group, ordinal = message.row_group_id, message.column_chunk_id
    if group >= len(metadata.row_groups) or ordinal >= len(metadata.columns):
        raise FormatError(
            f"column chunk {ordinal} of row group {group}, the file has {len(metadata.columns)} columns and "
            f"{len(metadata.row_groups)} row groups",
            location=redact(metadata.location),
            rule=_RULE,
        )
    return metadata.row_groups[group].chunks[ordinal]


def _read(files: ShardFiles, chunk: _Chunk, selection: Selection) -> pa.Array:
    """Read the pages that hold some positions of a chunk, and decode them together."""
    edges = chunk.blocks.positions
    changes = np.zeros(len(edges) + 1, np.int64)
    np.add.at(changes, np.searchsorted(edges, selection.starts, "right") - 1, 1)
    np.add.at(changes, np.searchsorted(edges, selection.stops, "left"), -1)
    pages = np.flatnonzero(np.cumsum(changes) > 0)
    offsets = [chunk.data_start + int(chunk.blocks.offsets[page]) for page in pages]
    lengths = [int(chunk.blocks.offsets[page + 1] - chunk.blocks.offsets[page]) for page in pages]
    if chunk.dictionary is not None:
        offsets.insert(0, chunk.dictionary[0])
        lengths.insert(0, chunk.dictionary[1] - chunk.dictionary[0])
    layout = chunk.layout
    values = decode_column_pages(
        files.read_foreign(chunk.location, offsets, lengths),
        physical_type=PhysicalType(layout.physical_type),
        type_length=layout.type_length,
        arrow_type=layout.arrow_type,
        is_optional=layout.is_optional,
        codec=layout.codec,
        value_count=int((edges[pages + 1] - edges[pages]).sum()),
        has_dictionary=chunk.dictionary is not None,
        location=redact(chunk.location),
        offset=offsets[0],
    )
    return selection.placed(pages, edges).take_from(values)
