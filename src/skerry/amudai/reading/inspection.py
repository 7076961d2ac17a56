"""The contents of a shard as a tree: every message and buffer, its file and offset, and what it says.

Spec: docs/formats/amudai.md; Amudai book, chapter 6.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from decimal import Decimal
from typing import Any, Final

from skerry.amudai.encodings.codes import Encoding
from skerry.amudai.fields.buffers import StoredBuffer
from skerry.amudai.fields.stored_field import StoredField
from skerry.amudai.fields.stripe_reader import StripeReader
from skerry.amudai.messages import BufferKind, DataRef, FieldDescriptor, IndexCollection
from skerry.amudai.reading.properties import PropertyBag
from skerry.amudai.reading.shard_file import ShardFile
from skerry.amudai.shard.directory import Stripe, has_bytes
from skerry.amudai.shard.references import Reference
from skerry.amudai.shard.schema import DataType
from skerry.amudai.statistics.bloom import BloomFilter
from skerry.amudai.statistics.descriptors import FieldStatistics, decode_statistics
from skerry.amudai.statistics.hll import HllSketch
from skerry.amudai.values.any_value import Annotated, DateTime, Property, TimeSpan, decode_properties
from skerry.amudai.values.types import ARROW_SCHEMA_PROPERTY
from skerry.entry import Entry
from skerry.errors import SkerryError
from skerry.storage import redact

__all__ = ["inspect_shard"]

_LOOKED_AT: Final = 16
"""Blocks of a buffer whose encoding is looked up, spread over the buffer."""


def inspect_shard(shard: ShardFile) -> Entry:
    """Look at everything in a shard but its values.

    Args:
        shard: The shard.

    Returns:
        The tree. What is damaged has a detail `error` that says so.

    Raises:
        FormatError: The lists of stripes or descriptors are damaged.
    """
    return _Inspector(shard).shard_entry()


class _Inspector:
    """One walk through a shard."""

    def __init__(self, shard: ShardFile) -> None:
        self._shard = shard
        self._metadata = shard.metadata

    def shard_entry(self) -> Entry:
        directory = self._metadata.directory
        details: dict[str, Any] = {
            "record_count": directory.total_record_count,
            "deleted_record_count": directory.deleted_record_count,
            "stripe_count": directory.stripe_count,
        }
        if directory.HasField("raw_data_size"):
            details["raw_data_size"] = directory.raw_data_size
        if self._metadata.urls:
            details["urls"] = list(self._metadata.urls)
        children = [
            self._piece("properties", directory.properties_ref, _bag_details(self._metadata.properties)),
            self._piece(
                "schema",
                directory.schema_ref,
                {"schema_id_count": self._metadata.schema.schema_id_count},
                tuple(_type_entry(item.data_type, item.internal_kind) for item in self._metadata.schema.fields),
            ),
            self._piece("field list", directory.field_list_ref, {}, tuple(self._shard_fields())),
            self._piece("indexes", directory.indexes_ref, {}, _index_entries(self._metadata.indexes)),
            self._piece("url list", directory.url_list_ref, {}),
            self._piece("stripe list", directory.stripe_list_ref, {}, tuple(self._stripes())),
        ]
        pieces = tuple(child for child in children if child is not None)
        return Entry("shard", self._metadata.shown, details, children=pieces)

    def _piece(self, kind: str, data_ref: DataRef, details: dict[str, Any], children: Any = ()) -> Entry | None:
        """An entry for what a reference leads to; None if it leads nowhere."""
        if not has_bytes(data_ref):
            return None
        return _placed(kind, "", details, self._metadata.rules.reference(data_ref), children)

    def _shard_fields(self) -> Iterator[Entry]:
        nodes = list(self._metadata.schema.nodes())
        try:
            found = self._metadata.descriptors(nodes)
        except SkerryError as error:
            yield Entry("field", details={"error": str(error)})
            return
        for node, described in zip(nodes, found, strict=True):
            reference = self._metadata.descriptor_references[node.schema_id]
            if described is not None and reference is not None:
                yield _placed("field", _label(node), self._described(node, described), reference)

    def _stripes(self) -> Iterator[Entry]:
        nodes = list(self._metadata.schema.nodes())
        for reader in self._metadata.stripe_readers():
            reader.load_descriptors(nodes)
            stripe = reader.stripe
            details: dict[str, Any] = {
                "record_offset": stripe.record_offset,
                "record_count": stripe.record_count,
                "deleted_record_count": stripe.deleted_record_count,
            }
            if stripe.raw_data_size is not None:
                details["raw_data_size"] = stripe.raw_data_size
            children = (*self._stripe_extras(stripe), *(self._field(reader, node) for node in nodes))
            yield Entry("stripe", str(stripe.ordinal), details, children=tuple(c for c in children if c is not None))

    def _stripe_extras(self, stripe: Stripe) -> Iterator[Entry | None]:
        bag = self._metadata.stripe_properties(stripe.ordinal)
        yield self._piece("properties", stripe.directory.properties_ref, _bag_details(bag))
        yield self._piece("field list", stripe.directory.field_list_ref, {})
        indexes = _index_entries(self._metadata.stripe_indexes(stripe.ordinal))
        yield self._piece("indexes", stripe.directory.indexes_ref, {}, indexes)

    def _field(self, reader: StripeReader, node: DataType) -> Entry | None:
        message, reference = reader.fields.descriptor(node), reader.descriptor_reference(node)
        if message is None or reference is None:
            return None
        details = self._described(node, message.field)
        try:
            stored = reader.fields.field(node)
        except SkerryError as error:
            return _placed("field", _label(node), {**details, "error": str(error)}, reference)
        details["encodings"] = [encoding.WhichOneof("kind") or "unknown" for encoding in message.encodings]
        if stored.problem is not None:
            details["error"] = stored.problem
        buffers = tuple(self._buffer(stored, buffer) for buffer in stored.buffers.values())
        return _placed("field", _label(node), details, reference, buffers)

    def _described(self, node: DataType, described: FieldDescriptor) -> dict[str, Any]:
        """Statistics and properties of a descriptor."""
        try:
            details = _statistics_details(decode_statistics(node, described))
            for name in ("standard_properties", "custom_properties"):
                bag = decode_properties(getattr(described, name))
                if bag:
                    details[name] = [_property(item) for item in bag]
        except SkerryError as error:
            details = {"error": str(error)}
        if described.HasField("indexes"):
            details["indexes"] = [entry.as_json() for entry in _index_entries(described.indexes)]
        return details

    def _buffer(self, stored: StoredField, buffer: StoredBuffer) -> Entry:
        kind = BufferKind.Name(buffer.kind)
        details: dict[str, Any] = {}
        if buffer.map_reference is not None:
            details["block_map"] = [buffer.map_reference.start, buffer.map_reference.end]
            details |= {
                "checksums": buffer.has_checksums,
                "presence": buffer.embeds_presence,
                "offsets": buffer.embeds_offsets,
            }
            try:
                details |= self._blocks(stored, buffer)
            except SkerryError as error:
                details["error"] = str(error)
        return _placed("buffer", kind, details, buffer.reference)

    def _blocks(self, stored: StoredField, buffer: StoredBuffer) -> dict[str, Any]:
        """How many blocks a buffer has, and how some of them are encoded."""
        files = self._metadata.files
        block_map = buffer.block_map(files, None)
        count = block_map.block_count
        step = max(1, count // _LOOKED_AT)
        base, location = buffer.reference.start, buffer.reference.location
        wanted = [
            Reference(location, base + int(block_map.offsets[i]), base + int(block_map.offsets[i + 1]))
            for i in range(0, count, step)
        ]
        codes = Counter(_encoding_of(block) for block in files.read(wanted))
        details: dict[str, Any] = {"values": block_map.value_count, "blocks": count}
        if codes:
            details["block_encodings"] = dict(codes.most_common())
        if len(wanted) < count:
            details["blocks_looked_at"] = len(wanted)
        return details


def _encoding_of(block: memoryview) -> str:
    """The name of a block's encoding. Spec: docs/formats/amudai-encodings.md § 3, § 4."""
    presence_bytes = int.from_bytes(block[:4], "little")
    place = 8 + -(-presence_bytes // 8) * 8
    code = int.from_bytes(block[place : place + 2], "little")
    return Encoding(code).name if code in Encoding.__members__.values() else f"code {code}"


def _placed(kind: str, name: str, details: dict[str, Any], reference: Reference, children: Any = ()) -> Entry:
    return Entry(kind, name, details, redact(reference.location), reference.start, reference.end, tuple(children))


def _label(node: DataType) -> str:
    return f"{node.schema_id} {node.name}".rstrip()


def _type_entry(node: DataType, internal_kind: str | None = None) -> Entry:
    details: dict[str, Any] = {"type": node.basic_type.name}
    if node.basic_type.is_integer:
        details["signed"] = node.signed
    if node.fixed_size:
        details["fixed_size"] = node.fixed_size
    if node.label is not None:
        details["extended_type"] = node.label
    if node.aliases:
        details["aliases"] = list(node.aliases)
    if internal_kind is not None:
        details["internal_kind"] = internal_kind
    return Entry("type", _label(node), details, children=tuple(_type_entry(child) for child in node.children))


def _index_entries(collection: IndexCollection) -> tuple[Entry, ...]:
    entries = []
    for index in collection.index_descriptors:
        details: dict[str, Any] = {
            "indexed_fields": [list(each.schema_ids) for each in index.indexed_fields],
            "artifacts": [
                {"name": each.name, "url": redact(each.data_ref.url).partition("?")[0]} for each in index.artifacts
            ],
        }
        if index.HasField("index_size"):
            details["index_size"] = index.index_size
        if index.properties:
            details["properties"] = [_property(item) for item in decode_properties(index.properties)]
        entries.append(Entry("index", index.index_type, details))
    return tuple(entries)


def _bag_details(bag: PropertyBag) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if bag.creation_min is not None:
        details["creation_min"] = _shown(bag.creation_min)
    if bag.creation_max is not None:
        details["creation_max"] = _shown(bag.creation_max)
    for name, properties in (("standard", bag.standard), ("custom", bag.custom)):
        if properties:
            details[name] = [_property(item) for item in properties]
    return details


def _property(item: Property) -> dict[str, Any]:
    if item.name == ARROW_SCHEMA_PROPERTY and isinstance(item.value, bytes):
        return {"name": item.name, "value": f"{len(item.value)} bytes"}
    return {"name": item.name, "value": _shown(item.value)}


def _statistics_details(found: FieldStatistics) -> dict[str, Any]:
    details: dict[str, Any] = {}
    for each in fields(found):
        value = getattr(found, each.name)
        if value is None or value is False or (each.name == "constant" and not found.is_constant):
            continue
        if isinstance(value, HllSketch):
            details["sketch"] = {"kind": "HLL", "bits_per_index": value.bits_per_index}
        elif isinstance(value, BloomFilter):
            details["bloom_filter"] = {"num_values": value.num_values, "num_blocks": len(value.blocks)}
        elif is_dataclass(value) and not isinstance(value, DateTime | TimeSpan):
            details[each.name] = {part.name: _shown(getattr(value, part.name)) for part in fields(value)}
        elif each.name != "is_constant":
            details[each.name] = _shown(value)
    return details


def _shown(value: Any) -> Any:
    """A value in the types that JSON has; what JSON lacks is text."""
    if isinstance(value, DateTime | TimeSpan):
        return {"ticks": value.ticks}
    if isinstance(value, Annotated):
        return {"value": _shown(value.value), "annotation": value.annotation}
    if isinstance(value, Property):
        return _property(value)
    if isinstance(value, list | tuple):
        return [_shown(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, Decimal) else value
