"""Shards that have the indexes of rows which are stored elsewhere, and no values.

A stripe without a descriptor for a field has no values of it; the schema says what the keys of a hash index and the
terms of a text index were made of.

Spec: docs/formats/amudai.md § 2.4; docs/formats/amudai-indexes.md § 2, § 3.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import pyarrow as pa

from skerry.amudai.indexes.options import Index
from skerry.amudai.messages import IndexCollection, ShardProperties
from skerry.amudai.shard.artifact_writer import ArtifactWriter
from skerry.amudai.values.any_value import Property, encode_properties
from skerry.amudai.values.datetimes import EPOCH_TICKS
from skerry.amudai.values.types import ARROW_SCHEMA_PROPERTY, schema_from_arrow
from skerry.amudai.writing.directory import StripeParts, finish_root
from skerry.amudai.writing.index_files import IndexFiles, WriteArtifact
from skerry.amudai.writing.shard_writer import WrittenShard, index_shards
from skerry.storage import Storage

__all__ = ["WriteIndexes", "write_row_indexes", "write_without_values"]

WriteIndexes: TypeAlias = Callable[[WriteArtifact], IndexCollection | None]
"""Writes the files of indexes; gives their descriptors."""


def write_row_indexes(
    stripes: Iterable[pa.Table], schema: pa.Schema, location: str, indexes: Sequence[Index], *, storage: Storage
) -> WrittenShard:
    """Index rows.

    Args:
        stripes: The rows in their order, in the types of `schema`; each table becomes a stripe.
        schema: The columns.
        location: The shard's root file. The files of the indexes are beside it.
        indexes: What is indexed.
        storage: Where to write.

    Raises:
        NotFoundError: An indexed column does not exist.
        UnsupportedError: A column cannot be indexed so.
    """
    built = IndexFiles(schema_from_arrow(schema), indexes)
    counts: list[int] = []
    for rows in stripes:
        columns = {place: rows.column(place).combine_chunks() for place in built.columns}
        built.add(len(counts), columns, sum(counts))
        counts.append(rows.num_rows)
    return write_without_values(counts, schema, location, built.write, storage=storage)


def write_without_values(
    row_counts: Sequence[int],
    schema: pa.Schema,
    location: str,
    write_indexes: WriteIndexes,
    *,
    storage: Storage,
) -> WrittenShard:
    """Write the files of indexes, and the root that refers to them.

    Args:
        row_counts: The rows of each stripe.
        schema: The columns.
        location: The root file.
        write_indexes: Writes the indexes.
        storage: Where to write.
    """
    shard_schema = schema_from_arrow(schema)
    properties = ShardProperties(
        custom_properties=encode_properties([Property(ARROW_SCHEMA_PROPERTY, schema.serialize().to_pybytes())])
    )
    properties.creation_min.ticks = properties.creation_max.ticks = EPOCH_TICKS + time.time_ns() // 100
    nothing = [None] * shard_schema.schema_id_count
    stripes = [StripeParts(nothing, count) for count in row_counts]
    files: list[str] = []
    root = ArtifactWriter(storage, location)
    try:
        collection = write_indexes(index_shards(storage, location, files))
        start = finish_root(root, shard_schema, stripes, nothing, properties, collection)
    except BaseException:
        root.abort()
        storage.delete(files)
        raise
    return WrittenShard(
        location, root.position, sum(row_counts), (), (), shard_schema, tuple(nothing), start, tuple(files)
    )
