"""Shards over Parquet files, whose column chunks are the shard's data and are not copied.

Every row group becomes a stripe. A column outside of lists, structs and maps refers to its chunk; a nested one, whose
pages do not show where rows begin, is stored in the shard. All columns are read once for their statistics.

Spec: docs/formats/amudai.md § 10; Amudai book, chapter 6, External Parquet Encoding.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from skerry.amudai.blocks import encode_block_map
from skerry.amudai.encodings.codes import Profile
from skerry.amudai.fields.parquet_columns import ColumnLayout, PageMap, find_pages, layout_of, layout_property
from skerry.amudai.indexes.options import Index
from skerry.amudai.messages import (
    DataEncoding,
    ParquetFileColumnRef,
    ShardProperties,
    StripeFieldDescriptor,
)
from skerry.amudai.shard.artifact_writer import ArtifactWriter
from skerry.amudai.shard.references import encode_data_ref, encode_url
from skerry.amudai.shard.schema import Field, Schema
from skerry.amudai.values.any_value import Property, encode_properties
from skerry.amudai.values.datetimes import EPOCH_TICKS
from skerry.amudai.values.shredding import shred_column
from skerry.amudai.values.types import ARROW_SCHEMA_PROPERTY, schema_from_arrow
from skerry.amudai.writing.descriptions import describe_count
from skerry.amudai.writing.directory import StripeParts, finish_root, merge_fields
from skerry.amudai.writing.field_encoding import FieldOptions, encode_field
from skerry.amudai.writing.index_files import IndexFiles
from skerry.amudai.writing.shard_writer import WrittenShard, index_shards
from skerry.amudai.writing.stripes import write_fields
from skerry.arguments import check_list
from skerry.errors import AlreadyExistsError, FormatError, NotFoundError, SchemaError, UnsupportedError
from skerry.parquet import Column, ColumnChunk, FileMetadata, decode_column_pages, read_metadata
from skerry.storage import Storage, absolute, file_key, is_within, parent, redact, storage_of

__all__ = ["write_over_parquet"]

_DESCRIBED: Final = FieldOptions(Profile.PLAIN, with_dictionary=False, with_index=False)


def write_over_parquet(
    files: Sequence[str | os.PathLike[str]],
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    properties: Mapping[str, Any] | None = None,
    indexes: Sequence[Index] = (),
    statistics: bool = True,
    allowed_locations: Iterable[str] = (),
    overwrite: bool = False,
    storage: Storage | None = None,
    options: Mapping[str, str] | None = None,
) -> WrittenShard:
    """Write a shard whose data stays in Parquet files: statistics, and the position of every page.

    Every row group becomes a stripe. Columns inside lists, structs and maps are stored in the shard itself.

    Example:
        amudai.write_over_parquet(["part-0.parquet", "part-1.parquet"], "index.amudai.shard")

    Args:
        files: Paths or URLs of Parquet files, at least one, of one schema. They must neither change nor move.
        path: Path or URL of the shard's root file.
        columns: Names of the columns that the shard has; all by default.
        properties: Custom properties of the shard.
        indexes: What is indexed. The files of the indexes are beside the root.
        statistics: Whether columns that stay in Parquet files get ranges and distinct counts, or counts of values only.
        allowed_locations: Folders, apart from that of the root, in which the files may be. The shard refers to these
            files by absolute URLs, and whoever reads it has to allow the same folders.
        overwrite: Whether an existing file is replaced.
        storage: Where to read and write; by default one made of `options`.
        options: Storage options such as credentials.

    Returns:
        What was written.

    Raises:
        UnsupportedError: A column is of a type that shards cannot hold, or cannot be indexed; a file is encrypted, or
            is in a folder that is not allowed.
        SchemaError: No files are given, one has other columns than the first, a value cannot be represented exactly,
            or both `storage` and `options` are given.
        NotFoundError: A file, or a column, does not exist.
        AlreadyExistsError: The shard exists and `overwrite` is false, or it is one of the files.
        FormatError: A file is damaged.
    """
    check_list("files", files, "paths")
    check_list("columns", columns)
    check_list("allowed_locations", allowed_locations, "paths")
    location = absolute(path)
    storage = storage_of(storage, options)
    locations = [absolute(file) for file in files]
    if not locations:
        raise SchemaError("no Parquet files to write a shard over")
    folders = (parent(location), *map(absolute, allowed_locations))
    urls = [_url(location, file, folders) for file in locations]
    sources = [read_metadata(storage, file) for file in locations]
    arrow_schema = _selected(_common_schema(sources), columns)
    schema = schema_from_arrow(arrow_schema)
    bag = [Property(name, value) for name, value in (properties or {}).items()]
    bag.append(Property(ARROW_SCHEMA_PROPERTY, arrow_schema.serialize().to_pybytes()))
    kept = ShardProperties(custom_properties=encode_properties(bag))
    kept.creation_min.ticks = kept.creation_max.ticks = EPOCH_TICKS + time.time_ns() // 100
    index_files, index_locations = IndexFiles(schema, indexes), list[str]()
    root = ArtifactWriter(storage, location, overwrite=overwrite)
    stripes: list[StripeParts] = []
    count = 0
    try:
        for source, url in zip(sources, urls, strict=True):
            for group in range(len(source.row_groups)):
                stripe, values = _write_stripe(
                    _Target(root, storage, statistics), schema, arrow_schema, source, url, group, index_files.columns
                )
                index_files.add(len(stripes), values, count)
                stripes.append(stripe)
                count += stripe.record_count
        fields = merge_fields(schema, stripes, location=redact(location))
        collection = index_files.write(index_shards(storage, location, index_locations))
        start = finish_root(root, schema, stripes, fields, kept, collection)
    except BaseException:
        root.abort()
        storage.delete(index_locations)
        raise
    return WrittenShard(
        location, root.position, count, (), tuple(locations), schema, tuple(fields), start, tuple(index_locations)
    )


def _url(location: str, file: str, folders: Sequence[str]) -> str:
    if file_key(file) == file_key(location):
        raise AlreadyExistsError("the shard would replace one of its files", location=redact(location))
    if not any(is_within(folder, file) for folder in folders):
        raise UnsupportedError(
            f"{redact(file)} is outside of the folder of the shard: allow its folder (allowed_locations=), or write "
            "the shard elsewhere",
            location=redact(location),
            rule="docs/formats/amudai.md § 2.6",
        )
    return encode_url(location, file)


def _common_schema(sources: Sequence[FileMetadata]) -> pa.Schema:
    """The Arrow schema of all files."""
    schemas = [_arrow_schema(source) for source in sources]
    for source, schema in zip(sources, schemas, strict=True):
        if not schema.equals(schemas[0]):
            raise SchemaError(
                f"columns are {', '.join(map(str, schema))}; those of the first file {', '.join(map(str, schemas[0]))}",
                location=redact(source.location),
            )
    return schemas[0]


def _selected(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    if columns is None:
        return schema
    for name in columns:
        if schema.get_field_index(name) < 0:
            raise NotFoundError(f"the files have no column {name!r}, only {', '.join(schema.names[:20])}")
    return pa.schema([schema.field(name) for name in columns], metadata=schema.metadata)


def _arrow_schema(source: FileMetadata) -> pa.Schema:
    try:
        return source.arrow.schema.to_arrow_schema()
    except (pa.ArrowException, OSError) as error:
        raise UnsupportedError(f"PyArrow cannot read the columns: {error}", location=redact(source.location)) from error


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A column chunk that a field refers to.

    Args:
        source: The file.
        url: Its url against the root.
        group: Ordinal of the row group.
        column: The column.
        chunk: What the footer says of the chunk.
    """

    source: FileMetadata
    url: str
    group: int
    column: Column
    chunk: ColumnChunk


@dataclass(frozen=True, slots=True)
class _Target:
    """Where stripes are described.

    Args:
        root: The root of the shard.
        storage: Where the files are.
        statistics: Whether columns that stay in Parquet files get ranges and distinct counts.
    """

    root: ArtifactWriter
    storage: Storage
    statistics: bool


def _write_stripe(
    to: _Target,
    schema: Schema,
    arrow_schema: pa.Schema,
    source: FileMetadata,
    url: str,
    group: int,
    kept: Collection[int],
) -> tuple[StripeParts, dict[int, pa.Array]]:
    """Describe a row group; page maps and nested columns go to the root.

    Returns:
        The stripe, and the columns whose ordinals are in `kept`.
    """
    columns: dict[int, pa.Array] = {}
    flat = {column.path[0]: column for column in source.columns if len(column.path) == 1}
    parts: list[StripeFieldDescriptor | None] = [None] * schema.schema_id_count
    rows = source.row_groups[group].row_count
    for place, (field, arrow_field) in enumerate(zip(schema.fields, arrow_schema, strict=True)):
        column = flat.get(field.name)
        if column is None or column.max_repetition_level:
            array = _read_nested(to.storage, source, group, field.name)
            _write_native(to.root, field, array, parts)
        else:
            chunk = _Chunk(source, url, group, column, source.row_groups[group].chunks[column.index])
            is_needed = to.statistics or place in kept or chunk.chunk.null_count is None
            parts[field.schema_id], array = _write_reference(to, field, arrow_field, chunk, is_needed=is_needed)
        if place in kept:
            assert array is not None
            columns[place] = array
    return StripeParts(parts, rows), columns


def _read_nested(storage: Storage, source: FileMetadata, group: int, name: str) -> pa.Array:
    try:
        with storage.arrow_file(source.location) as file:
            table = pq.ParquetFile(file, metadata=source.arrow).read_row_group(group, [name], use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"PyArrow cannot read column {name}: {error}", location=redact(source.location)) from error
    column = table.column(0)
    return column.combine_chunks() if column.num_chunks else pa.nulls(0, column.type)


def _write_native(
    root: ArtifactWriter, field: Field, array: pa.Array, parts: list[StripeFieldDescriptor | None]
) -> None:
    options = FieldOptions()
    encoded = [encode_field(node, options) for node in shred_column(field.data_type, array)]
    write_fields(root, "", field, encoded, parts)


def _write_reference(
    to: _Target, field: Field, arrow_field: pa.Field, at: _Chunk, *, is_needed: bool
) -> tuple[StripeFieldDescriptor, pa.Array | None]:
    """Describe a chunk, and write where its pages are; gives its values, too, if they are needed."""
    chunk, location = at.chunk, at.source.location
    layout = layout_of(at.column, chunk.codec)
    start, end = chunk.offset, chunk.offset + chunk.size_bytes
    data = memoryview(to.storage.read_range(location, start, end - start)) if chunk.value_count else memoryview(b"")
    pages = find_pages(data, start, chunk.value_count, location=redact(location))
    array = _decode(data, start, pages, layout, chunk, location) if is_needed else None
    if array is not None and array.type != arrow_field.type:
        array = array.cast(arrow_field.type)
    if array is None:
        described = describe_count(chunk.value_count, chunk.null_count or 0)
    elif to.statistics:
        (column,) = shred_column(field.data_type, array)
        described = encode_field(column, _DESCRIBED).described
    else:
        described = describe_count(len(array), array.null_count)
    described.custom_properties.append(layout_property(layout))
    encoding = DataEncoding()
    encoding.parquet.file_column_refs.append(_reference(to.root, at, pages, layout))
    return StripeFieldDescriptor(field=described, encodings=[encoding]), array


def _decode(
    data: memoryview, start: int, pages: PageMap, layout: ColumnLayout, chunk: ColumnChunk, location: str
) -> pa.Array:
    if chunk.value_count == 0:
        return pa.nulls(0, layout.arrow_type)
    ranges = [pages.data] if pages.dictionary is None else [pages.dictionary, pages.data]
    parts = [data[first - start : last - start] for first, last in ranges]
    return decode_column_pages(
        parts,
        physical_type=layout.physical_type,
        type_length=layout.type_length,
        arrow_type=layout.arrow_type,
        is_optional=layout.is_optional,
        codec=layout.codec,
        value_count=chunk.value_count,
        has_dictionary=pages.dictionary is not None,
        location=redact(location),
        offset=start,
    )


def _reference(root: ArtifactWriter, at: _Chunk, pages: PageMap, layout: ColumnLayout) -> ParquetFileColumnRef:
    """A reference with all that a reader needs to find single pages."""
    reference = ParquetFileColumnRef(file_ref=encode_data_ref(0, at.source.file_size_bytes, at.url))
    chunk = reference.column_chunks.add(
        storage_type=int(layout.physical_type),
        schema_element_id=_element_id(at.source, at.column),
        row_group_id=at.group,
        column_chunk_id=at.column.index,
        file_url=at.url,
        data_page_count=pages.page_count,
    )
    chunk.data_pages_range.start, chunk.data_pages_range.end = pages.data
    if pages.dictionary is not None:
        chunk.dictionary_range.start, chunk.dictionary_range.end = pages.dictionary
    start = root.align()
    counts, sizes = np.diff(pages.blocks.positions), np.diff(pages.blocks.offsets)
    root.write(encode_block_map(counts, sizes))
    chunk.data_page_map.CopyFrom(encode_data_ref(start, root.position))
    return reference


def _element_id(source: FileMetadata, column: Column) -> int:
    """The ordinal of a leaf among all elements of the schema: the root is 0, and each group counts before its parts."""
    seen: set[tuple[str, ...]] = set()
    ordinal = 0
    for leaf in source.columns:
        for depth in range(1, len(leaf.path)):
            if leaf.path[:depth] not in seen:
                seen.add(leaf.path[:depth])
                ordinal += 1
        ordinal += 1
        if leaf.index == column.index:
            return ordinal
    raise SchemaError(f"no column {column.name}", location=redact(source.location))
