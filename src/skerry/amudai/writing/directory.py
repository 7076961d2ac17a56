"""Writing the metadata of a shard's root file: everything but the buffers.

Spec: docs/formats/amudai.md § 2.4; Amudai book, chapter 6, Shard Directory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from google.protobuf.message import Message

from skerry.amudai.messages import (
    DataRef,
    DataRefArray,
    FieldDescriptor,
    IndexCollection,
    ShardDirectory,
    ShardProperties,
    StripeDirectory,
    StripeFieldDescriptor,
    StripeList,
    StripeProperties,
    UrlList,
)
from skerry.amudai.shard.artifact_writer import ArtifactWriter
from skerry.amudai.shard.directory import encode_directory
from skerry.amudai.shard.schema import Schema
from skerry.amudai.shard.schema_layout import encode_schema
from skerry.amudai.statistics.descriptors import merge_descriptors

__all__ = ["StripeParts", "data_refs", "finish_root", "merge_fields"]


@dataclass(frozen=True, slots=True)
class StripeParts:
    """A stripe whose buffers are written.

    Args:
        fields: The descriptor of each node by schema id, None for one without. Their references are urls against the
            root, empty for the root itself.
        record_count: Records, deleted ones among them.
        deleted_record_count: How many are deleted.
        properties: Properties of the stripe.
        indexes: Its indexes.
    """

    fields: Sequence[StripeFieldDescriptor | None]
    record_count: int
    deleted_record_count: int = 0
    properties: StripeProperties | None = None
    indexes: IndexCollection | None = None

    @property
    def raw_data_size(self) -> int | None:
        """Bytes of all values before encoding; None if no field says."""
        sizes = [part.field.raw_data_size for part in self.fields if part and part.field.HasField("raw_data_size")]
        return sum(sizes) if sizes else None

    def messages(self) -> Iterator[Message]:
        """All messages of the stripe."""
        yield from (part for part in self.fields if part is not None)
        yield from (message for message in (self.properties, self.indexes) if message is not None)


def data_refs(message: Message) -> Iterator[DataRef]:
    """All references in a message, however deep; to change one changes the message."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for part in value if field.is_repeated else (value,):
            if isinstance(part, DataRef):
                yield part
            else:
                yield from data_refs(part)


def merge_fields(
    schema: Schema, stripes: Sequence[StripeParts], *, location: str | None = None
) -> list[FieldDescriptor | None]:
    """The shard's descriptor of each node, by schema id; None where a stripe that has records has none."""
    merged: list[FieldDescriptor | None] = [None] * schema.schema_id_count
    for node in schema.nodes():
        parts = [(stripe.fields[node.schema_id], stripe.record_count) for stripe in stripes]
        described = [part.field for part, _ in parts if part is not None]
        if described and all(part is not None or count == 0 for part, count in parts):
            merged[node.schema_id] = merge_descriptors(node, described, location=location)
    return merged


def finish_root(
    root: ArtifactWriter,
    schema: Schema,
    stripes: Sequence[StripeParts],
    fields: Sequence[FieldDescriptor | None],
    properties: ShardProperties,
    indexes: IndexCollection | None = None,
) -> int:
    """Write all metadata, and close the root file.

    Args:
        root: The root file; buffers may be in it already.
        schema: The shard's schema.
        stripes: Its stripes in order.
        fields: The shard's descriptors by schema id, as `merge_fields` makes them.
        properties: The shard's properties.
        indexes: The shard's indexes.

    Returns:
        Where the metadata begin.
    """
    start = root.position
    listed = StripeList()
    for stripe in stripes:
        _add_stripe(root, listed, stripe)
    messages = [message for stripe in stripes for message in stripe.messages()]
    urls = sorted({data_ref.url for message in messages for data_ref in data_refs(message) if data_ref.url})
    directory = ShardDirectory(
        stripe_count=len(stripes),
        total_record_count=sum(stripe.record_count for stripe in stripes),
        deleted_record_count=sum(stripe.deleted_record_count for stripe in stripes),
    )
    sizes = [size for stripe in stripes if (size := stripe.raw_data_size) is not None]
    if sizes:
        directory.raw_data_size = sum(sizes)
    directory.stripe_list_ref.CopyFrom(root.write_message(listed))
    directory.url_list_ref.CopyFrom(root.write_message(UrlList(urls=urls)))
    references = DataRefArray()
    for described in fields:
        _add_reference(references, root.write_message(described) if described is not None else DataRef())
    directory.field_list_ref.CopyFrom(root.write_message(references))
    directory.properties_ref.CopyFrom(root.write_message(properties))
    if indexes is not None:
        directory.indexes_ref.CopyFrom(root.write_message(indexes))
    directory.schema_ref.CopyFrom(root.write_frame(encode_schema(schema)))
    root.close(encode_directory(directory))
    return start


def _add_stripe(root: ArtifactWriter, listed: StripeList, stripe: StripeParts) -> None:
    references = DataRefArray()
    for part in stripe.fields:
        _add_reference(references, root.write_message(part) if part is not None else DataRef())
    position = listed.stripes[-1].record_offset + listed.stripes[-1].total_record_count if listed.stripes else 0
    directory = StripeDirectory(
        field_list_ref=root.write_message(references),
        total_record_count=stripe.record_count,
        deleted_record_count=stripe.deleted_record_count,
        raw_data_size=stripe.raw_data_size,
        record_offset=position,
    )
    if stripe.properties is not None:
        directory.properties_ref.CopyFrom(root.write_message(stripe.properties))
    if stripe.indexes is not None:
        directory.indexes_ref.CopyFrom(root.write_message(stripe.indexes))
    listed.stripes.append(directory)


def _add_reference(references: DataRefArray, data_ref: DataRef) -> None:
    references.url.append(data_ref.url)
    references.start.append(data_ref.range.start)
    references.end.append(data_ref.range.end)
