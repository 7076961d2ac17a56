"""Writing the buffers of a stripe: its columns, node by node, into one file of the shard.

Spec: docs/formats/amudai.md § 2.4, § 9.3; Amudai book, chapter 6, Stripe Field Descriptor, Encoded Buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from skerry.amudai.messages import DataEncoding, NameValuePair, StripeFieldDescriptor, StripeProperties
from skerry.amudai.shard.artifact_writer import ArtifactWriter
from skerry.amudai.shard.references import encode_data_ref
from skerry.amudai.shard.schema import BasicType, Field, InternalKind, Schema
from skerry.amudai.values.shredding import shred_column
from skerry.amudai.writing.directory import StripeParts
from skerry.amudai.writing.field_encoding import EncodedField, FieldOptions, encode_field

__all__ = ["write_fields", "write_stripe"]


def write_stripe(
    file: ArtifactWriter,
    url: str,
    schema: Schema,
    columns: Sequence[pa.Array],
    options: Callable[[str], FieldOptions],
    *,
    record_count: int,
    field_properties: Mapping[str, Sequence[NameValuePair]] | None = None,
    properties: StripeProperties | None = None,
    threads: int = 1,
) -> StripeParts:
    """Encode a stripe and write its buffers.

    Args:
        file: Takes the buffers.
        url: The url of that file against the root, empty for the root itself.
        schema: The shard's schema.
        columns: The values of each of its fields.
        options: How the field of a name is encoded.
        record_count: How many records there are.
        field_properties: Properties of fields, by name.
        properties: Properties of the stripe.
        threads: How many fields are encoded at once; as many are held in memory encoded.

    Returns:
        What the root file says of the stripe.
    """
    parts: list[StripeFieldDescriptor | None] = [None] * schema.schema_id_count
    for field, encoded in zip(schema.fields, _encode_all(schema, columns, options, threads), strict=True):
        top = write_fields(file, url, field, encoded, parts)
        top.field.custom_properties.extend((field_properties or {}).get(field.name, ()))
    return StripeParts(parts, record_count, _deleted_count(schema, parts), properties)


def _encode_all(
    schema: Schema, columns: Sequence[pa.Array], options: Callable[[str], FieldOptions], threads: int
) -> Iterable[list[EncodedField]]:
    """The nodes of each field, encoded, in order of the fields."""

    def encode(field: Field, column: pa.Array) -> list[EncodedField]:
        chosen = options(field.name)
        return [encode_field(node, chosen) for node in shred_column(field.data_type, column)]

    if threads <= 1 or len(columns) <= 1:
        yield from map(encode, schema.fields, columns)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(encode, schema.fields, columns)


def write_fields(
    file: ArtifactWriter,
    url: str,
    field: Field,
    encoded: Sequence[EncodedField],
    parts: list[StripeFieldDescriptor | None],
) -> StripeFieldDescriptor:
    """Write the buffers of a top-level field and note the descriptors of its nodes.

    Args:
        file: Takes the buffers.
        url: The url of that file against the root.
        field: The field.
        encoded: Its nodes, in order of their numbers.
        parts: Takes the descriptors, by schema id.

    Returns:
        The descriptor of the field itself.
    """
    written = [_write_field(file, url, result) for result in encoded]
    for node, part in zip(field.data_type.nodes(), written, strict=True):
        parts[node.schema_id] = part
    return written[0]


def _write_field(file: ArtifactWriter, url: str, encoded: EncodedField) -> StripeFieldDescriptor:
    encoding = DataEncoding()
    encoding.native.SetInParent()
    for stored in encoded.buffers:
        start = file.align()
        file.write(stored.data)
        buffer = encoding.native.buffers.add()
        buffer.CopyFrom(stored.message)
        buffer.buffer.CopyFrom(encode_data_ref(start, file.position, url))
        if stored.map_bytes:
            buffer.block_map.CopyFrom(encode_data_ref(file.position - stored.map_bytes, file.position, url))
    return StripeFieldDescriptor(field=encoded.described, encodings=[encoding])


def _deleted_count(schema: Schema, parts: Sequence[StripeFieldDescriptor | None]) -> int:
    """How many records the field of deleted ones marks."""
    marks = schema.internal_field(InternalKind.DELETED_RECORD)
    if marks is None or marks.data_type.basic_type is not BasicType.BOOLEAN:
        return 0
    part = parts[marks.schema_id]
    return part.field.boolean_stats.true_count if part is not None else 0
