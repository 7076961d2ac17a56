"""Merging shards by reference: a new root file lists the stripes of several shards, whose data stays in place.

Spec: docs/formats/amudai.md § 5.6, § 9.8; Amudai book, chapter 6, Shard Properties, Split-Block Bloom Filters: where
they speak of merging.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from google.protobuf.message import Message

from skerry.amudai.messages import (
    DataRefArray,
    IndexCollection,
    ParquetFileColumnRef,
    ShardProperties,
    StripeFieldDescriptor,
    StripeProperties,
)
from skerry.amudai.reading.shard_metadata import ShardMetadata
from skerry.amudai.shard.artifact_writer import ArtifactWriter
from skerry.amudai.shard.directory import has_bytes
from skerry.amudai.shard.references import Reference, decode_reference_array, encode_url
from skerry.amudai.shard.schema import DataType, Schema
from skerry.amudai.values.datetimes import EPOCH_TICKS
from skerry.amudai.values.types import ARROW_SCHEMA_PROPERTY
from skerry.amudai.writing.directory import StripeParts, data_refs, finish_root, merge_fields
from skerry.amudai.writing.shard_writer import WrittenShard
from skerry.arguments import check_list
from skerry.errors import AlreadyExistsError, SchemaError, UnsupportedError
from skerry.storage import Storage, absolute, file_key, is_within, parent, redact, storage_of

__all__ = ["merge"]

_RULE = "docs/formats/amudai.md § 2.6"


def merge(
    shards: Sequence[str | os.PathLike[str]],
    path: str | os.PathLike[str],
    *,
    allowed_locations: Iterable[str] = (),
    overwrite: bool = False,
    storage: Storage | None = None,
    options: Mapping[str, str] | None = None,
) -> WrittenShard:
    """Write one root file over the stripes of several shards, without copying data.

    Its rows are those of the shards, one after the other. Statistics are merged; Bloom filters and indexes of stripes
    stay, those of whole shards are dropped. The shards must stay where they are.

    Example:
        amudai.merge(["monday.amudai.shard", "tuesday.amudai.shard"], "week.amudai.shard")

    Args:
        shards: Paths or URLs of root files, at least one, of one schema.
        path: Path or URL of the new root file.
        allowed_locations: Folders, apart from that of the new root, in which files of the shards may be. The new root
            refers to these files by absolute URLs, and whoever reads it has to allow the same folders.
        overwrite: Whether an existing file is replaced.
        storage: Where to read and write; by default one made of `options`.
        options: Storage options such as credentials.

    Returns:
        What was written, without offsets of stripes, as their data is elsewhere.

    Raises:
        SchemaError: No shards are given, one has other columns than the first, or both `storage` and `options` are
            given.
        UnsupportedError: Files of a shard are in a folder that is not allowed.
        NotFoundError: A shard does not exist.
        AlreadyExistsError: The file exists and `overwrite` is false, or it is one of the shards.
        FormatError: A shard is damaged.
    """
    check_list("shards", shards, "paths")
    check_list("allowed_locations", allowed_locations, "paths")
    location = absolute(path)
    storage = storage_of(storage, options)
    folders = list(map(absolute, allowed_locations))
    sources = [ShardMetadata(storage, absolute(shard), allowed_locations=folders) for shard in shards]
    if not sources:
        raise SchemaError("no shards to merge")
    if any(file_key(source.location) == file_key(location) for source in sources):
        raise AlreadyExistsError("the merged shard would replace one of its parts", location=redact(location))
    schema = sources[0].schema
    for source in sources[1:]:
        _check_schema(schema, source)
    stripes = [stripe for source in sources for stripe in _read_stripes(source, _Urls(source, location, folders))]
    properties = ShardProperties()
    for source in sources:
        _add_properties(properties, source, _Urls(source, location, folders))
    if not properties.HasField("creation_min"):
        properties.creation_min.ticks = properties.creation_max.ticks = EPOCH_TICKS + time.time_ns() // 100
    fields = merge_fields(schema, stripes, location=redact(location))
    root = ArtifactWriter(storage, location, overwrite=overwrite)
    try:
        start = finish_root(root, schema, stripes, fields, properties)
    except BaseException:
        root.abort()
        raise
    count = sum(stripe.record_count for stripe in stripes)
    return WrittenShard(location, root.position, count, (), (), schema, tuple(fields), start)


def _check_schema(schema: Schema, source: ShardMetadata) -> None:
    """Refuse a shard whose nodes are not those of the first; their aliases do not matter."""
    for ours, theirs in zip(schema.fields, source.schema.fields, strict=False):
        if ours.internal_kind != theirs.internal_kind or not _are_alike(ours.data_type, theirs.data_type):
            raise SchemaError(
                f"field {theirs.name!r} is not what field {ours.name!r} of the first shard is", location=source.shown
            )
    if len(schema.fields) != len(source.schema.fields):
        raise SchemaError(
            f"{len(source.schema.fields)} fields, the first shard has {len(schema.fields)}", location=source.shown
        )


def _are_alike(ours: DataType, theirs: DataType) -> bool:
    kinds = [
        (node.basic_type, node.schema_id, node.name, node.signed, node.fixed_size, node.extended_type)
        for node in (ours, theirs)
    ]
    pairs = zip(ours.children, theirs.children, strict=False)
    same_length = len(ours.children) == len(theirs.children)
    return kinds[0] == kinds[1] and same_length and all(_are_alike(*pair) for pair in pairs)


class _Urls:
    """Makes the urls of one shard into those of another."""

    def __init__(self, source: ShardMetadata, location: str, allowed: Sequence[str]) -> None:
        self._rules = source.rules
        self._location = location
        self._allowed = allowed

    def move(self, message: Message, within: str) -> None:
        """Change all urls of a message.

        Args:
            message: The message.
            within: The file that it is in.
        """
        for data_ref in data_refs(message):
            if has_bytes(data_ref) or data_ref.url:
                data_ref.url = self._moved(data_ref.url, within)
        for file in _parquet_files(message):
            for chunk in file.column_chunks:
                if chunk.file_url:
                    chunk.file_url = self._moved(chunk.file_url, within)

    def _moved(self, url: str, within: str) -> str:
        target = self._rules.resolve(url, within)
        folders = (parent(self._location), *self._allowed)
        if not any(is_within(folder, target) for folder in folders):
            raise UnsupportedError(
                f"{redact(target)} is outside of the folder of the merged shard: allow its folder "
                "(allowed_locations=), or write the merged shard elsewhere",
                location=redact(self._location),
                rule=_RULE,
            )
        return encode_url(self._location, target)


def _parquet_files(message: Message) -> Iterator[ParquetFileColumnRef]:
    if isinstance(message, StripeFieldDescriptor):
        for encoding in message.encodings:
            yield from encoding.parquet.file_column_refs


def _read_stripes(source: ShardMetadata, urls: _Urls) -> Iterator[StripeParts]:
    """What a shard's root says of its stripes, with the urls of the new one."""
    for stripe in source.stripes:
        directory = stripe.directory
        fields: list[StripeFieldDescriptor | None] = [None] * source.schema.schema_id_count
        if has_bytes(directory.field_list_ref):
            listed = source.rules.reference(directory.field_list_ref)
            (array,) = source.files.read_messages(DataRefArray, [listed])
            entries = decode_reference_array(array, len(fields), location=source.location)
            found = [
                (place, Reference(source.rules.resolve(entry[0], listed.location), entry[1], entry[2]))
                for place, entry in enumerate(entries)
                if entry is not None
            ]
            messages = source.files.read_messages(StripeFieldDescriptor, [reference for _, reference in found])
            for (place, reference), message in zip(found, messages, strict=True):
                urls.move(message, reference.location)
                fields[place] = message
        properties = indexes = None
        if has_bytes(directory.properties_ref):
            reference = source.rules.reference(directory.properties_ref)
            (properties,) = source.files.read_messages(StripeProperties, [reference])
            urls.move(properties, reference.location)
        if has_bytes(directory.indexes_ref):
            reference = source.rules.reference(directory.indexes_ref)
            (indexes,) = source.files.read_messages(IndexCollection, [reference])
            urls.move(indexes, reference.location)
        yield StripeParts(fields, stripe.record_count, stripe.deleted_record_count, properties, indexes)


def _add_properties(merged: ShardProperties, source: ShardMetadata, urls: _Urls) -> None:
    """Widen the time of creation and append properties; an Arrow schema is kept once."""
    data_ref = source.directory.properties_ref
    if not has_bytes(data_ref):
        return
    reference = source.rules.reference(data_ref)
    (found,) = source.files.read_messages(ShardProperties, [reference])
    urls.move(found, reference.location)
    for name, choose in (("creation_min", min), ("creation_max", max)):
        if found.HasField(name):
            ticks = getattr(found, name).ticks
            if merged.HasField(name):
                ticks = choose(ticks, getattr(merged, name).ticks)
            getattr(merged, name).ticks = ticks
    merged.standard_properties.extend(found.standard_properties)
    for pair in found.custom_properties:
        if pair.name != ARROW_SCHEMA_PROPERTY or pair not in merged.custom_properties:
            merged.custom_properties.append(pair)
