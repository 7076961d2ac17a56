"""The bytes of a schema: FlatBuffers tables, decoded and encoded without I/O.

Slots are those of the reference implementation's declaration, which has more fields than chapter 6 lists.

Spec: docs/formats/amudai.md § 3; Amudai book, chapter 6, Schema; Amudai sources, `proto_defs/shard_format/schema.fbs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import flatbuffers
import xxhash

from skerry.amudai.shard.flat_tables import FlatTable, root_table
from skerry.amudai.shard.framing import decode_frame, encode_frame
from skerry.amudai.shard.schema import (
    BasicType,
    DataType,
    ExtendedType,
    ExtendedTypeProperty,
    Field,
    PropertyValueKind,
    Schema,
)
from skerry.errors import FormatError, UnsupportedError

__all__ = ["decode_schema", "encode_schema"]

_RULE: Final = "docs/formats/amudai.md § 3.1"
_NO_PARENT: Final = 0xFFFFFFFF
_MAX_DEPTH: Final = 64
"""Deeper types are taken for an attack on the stack."""
_LOOKUP_FROM_CHILDREN: Final = 10
"""Structs and unions with fewer children carry no table for finding them by name."""
_SIZED: Final = (BasicType.FIXED_SIZE_BINARY, BasicType.FIXED_SIZE_LIST)
_MAX_FIXED_SIZE: Final = (1 << 31) - 1
_CHILD_COUNTS: Final[dict[BasicType, tuple[int, ...]]] = {
    BasicType.LIST: (1,),
    BasicType.FIXED_SIZE_LIST: (1,),
    BasicType.MAP: (2,),
}


def decode_schema(frame: memoryview, *, location: str | None = None, offset: int = 0) -> Schema:
    """Decode the Schema message of a shard.

    Args:
        frame: The message with length and checksum.
        location: The file, for errors.
        offset: Where the message starts in the file, for errors.

    Returns:
        The schema, a tree whose nodes have different numbers below `schema_id_count`.

    Raises:
        FormatError: The message is damaged, or does not describe such a tree.
        UnsupportedError: A type is none that the format knows.

    Spec: docs/formats/amudai.md § 3.1; Amudai book, chapter 6, Schema.
    """
    payload = decode_frame(frame, what="Schema message", location=location, offset=offset)
    root = root_table(payload, location=location, offset=offset + 4)
    count = root.u32(1)
    reader = _SchemaReader(count)
    fields = tuple(reader.field(table) for table in root.required_tables(0, "fields"))
    node_count = sum(1 for field in fields for _ in field.data_type.nodes())
    if node_count != count:
        raise root.fail(f"schema_id_count is {count}, expected {node_count}, the number of types")
    # internal fields are identified by their kind and need no names
    _check_names((field.data_type for field in fields if field.internal_kind is None), root)
    return Schema(fields, count)


class _SchemaReader:
    """One pass over the tables of a schema; remembers where it was, as tables may be reached over many ways."""

    def __init__(self, schema_id_count: int) -> None:
        self._count = schema_id_count
        self._ids: set[int] = set()
        self._visited: set[int] = set()

    def field(self, table: FlatTable) -> Field:
        data_type = self.data_type(table.required_table(0, "data_type"), 0)
        internal = table.table(1)
        return Field(data_type, None if internal is None else internal.required_string(0, "kind"))

    def data_type(self, table: FlatTable, depth: int) -> DataType:
        if depth > _MAX_DEPTH:
            raise table.fail(f"types nest deeper than {_MAX_DEPTH} levels")
        if table.position in self._visited:
            raise table.fail("a type is part of the schema twice")
        self._visited.add(table.position)
        schema_id = table.u32(1)
        if schema_id >= self._count or schema_id in self._ids:
            raise table.fail(f"schema id {schema_id}, expected another one below {self._count} for each type")
        self._ids.add(schema_id)
        code = table.u8(0)
        try:
            basic_type = BasicType(code)
        except ValueError:
            raise UnsupportedError(f"basic type {code} is unknown", rule=_RULE) from None
        fixed_size = table.u64(7)
        if basic_type in _SIZED and not 1 <= fixed_size <= _MAX_FIXED_SIZE:
            raise table.fail(f"type {basic_type.name} of size {fixed_size}, expected 1 to {_MAX_FIXED_SIZE}")
        children = tuple(self.data_type(child, depth + 1) for child in table.required_tables(5, "children"))
        _check_children(basic_type, children, table)
        return DataType(
            basic_type,
            schema_id,
            name=table.required_string(3, "field_name"),
            aliases=table.strings(4, "field_aliases"),
            children=children,
            signed=bool(table.u8(6)),
            fixed_size=fixed_size,
            extended_type=_extended_type(table.table(8)),
        )


def _check_children(basic_type: BasicType, children: Sequence[DataType], table: FlatTable) -> None:
    if basic_type in (BasicType.STRUCT, BasicType.UNION):
        _check_names(children, table)
        return
    allowed = _CHILD_COUNTS.get(basic_type, (0,))
    if len(children) not in allowed:
        raise table.fail(f"type {basic_type.name} has {len(children)} children, expected {allowed[0]}")


def _check_names(children: Iterable[DataType], table: FlatTable) -> None:
    names: set[str] = set()
    for child in children:
        if child.name in names:
            raise table.fail(f"two fields are named {child.name!r}")
        names.add(child.name)


def _extended_type(table: FlatTable | None) -> ExtendedType | None:
    if table is None:
        return None
    properties = []
    for item in table.required_tables(1, "properties"):
        value = item.required_table(1, "value")
        kind = value.u8(0)
        if kind > max(PropertyValueKind):
            raise value.fail(f"property value kind {kind}, expected 0 to {max(PropertyValueKind)}")
        properties.append(
            ExtendedTypeProperty(
                item.required_string(0, "name"), PropertyValueKind(kind), value.required_bytes(1, "data")
            )
        )
    return ExtendedType(table.required_string(0, "label"), tuple(properties))


def encode_schema(schema: Schema) -> bytes:
    """Encode the Schema message of a shard, with length and checksum.

    Raises:
        FormatError: Top-level fields or fields of a struct have no names, or one name twice.

    Spec: docs/formats/amudai.md § 3.1; Amudai book, chapter 6, Schema.
    """
    named = [field.data_type for field in schema.fields if field.internal_kind is None]
    _check_writable_names(named, "the schema")
    builder = flatbuffers.Builder(1024)
    fields = []
    for field in schema.fields:
        data_type = _write_data_type(builder, field.data_type, _NO_PARENT)
        internal = None
        if field.internal_kind is not None:
            internal = _write_table(builder, 1, {0: ("offset", builder.CreateString(field.internal_kind))})
        fields.append(_write_table(builder, 2, {0: ("offset", data_type), 1: ("offset", internal)}))
    slots = {
        2: ("offset", _write_lookup(builder, [field.data_type.name for field in schema.fields])),
        0: ("offset", _write_offsets(builder, fields)),
        1: ("u32", schema.schema_id_count),
    }
    builder.Finish(_write_table(builder, 3, slots))
    return encode_frame(bytes(builder.Output()))


def _check_writable_names(children: Sequence[DataType], where: str) -> None:
    names = [child.name for child in children]
    if not all(names) or len(set(names)) < len(names):
        raise FormatError(f"fields of {where} need names that differ and are not empty, found {names}", rule=_RULE)


def _write_data_type(builder: Any, node: DataType, parent: int) -> int:
    named = node.basic_type in (BasicType.STRUCT, BasicType.UNION)
    if named:
        _check_writable_names(node.children, f"type {node.name!r}")
    children = [_write_data_type(builder, child, node.schema_id) for child in node.children]
    lookup = None
    if named and len(children) >= _LOOKUP_FROM_CHILDREN:
        lookup = _write_lookup(builder, [child.name for child in node.children])
    aliases = None
    if node.aliases:
        aliases = _write_offsets(builder, [builder.CreateString(alias) for alias in node.aliases])
    slots = {
        3: ("offset", builder.CreateString(node.name)),
        4: ("offset", aliases),
        5: ("offset", _write_offsets(builder, children)),
        8: ("offset", _write_extended_type(builder, node.extended_type)),
        9: ("offset", lookup),
        7: ("u64", node.fixed_size),
        1: ("u32", node.schema_id),
        2: ("u32", parent),
        0: ("u8", int(node.basic_type)),
        6: ("u8", int(node.signed)),
    }
    return _write_table(builder, 10, slots)


def _write_extended_type(builder: Any, extended: ExtendedType | None) -> int | None:
    if extended is None:
        return None
    properties = []
    for item in extended.properties:
        value = _write_table(
            builder, 2, {1: ("offset", builder.CreateByteVector(item.data)), 0: ("u8", int(item.kind))}
        )
        properties.append(
            _write_table(builder, 2, {0: ("offset", builder.CreateString(item.name)), 1: ("offset", value)})
        )
    slots = {0: ("offset", builder.CreateString(extended.label)), 1: ("offset", _write_offsets(builder, properties))}
    return _write_table(builder, 2, slots)


_SETTERS: Final[dict[str, Callable[[Any, int, int], None]]] = {
    "offset": lambda builder, slot, value: builder.PrependUOffsetTRelativeSlot(slot, value, 0),
    "u8": lambda builder, slot, value: builder.PrependUint8Slot(slot, value, 0),
    "u32": lambda builder, slot, value: builder.PrependUint32Slot(slot, value, 0),
    "u64": lambda builder, slot, value: builder.PrependUint64Slot(slot, value, 0),
}


def _write_table(builder: Any, slot_count: int, slots: Mapping[int, tuple[str, int | None]]) -> int:
    """Write a table; what its slots refer to has been written before."""
    builder.StartObject(slot_count)
    for slot, (kind, value) in slots.items():
        if value is not None:
            _SETTERS[kind](builder, slot, value)
    return int(builder.EndObject())


def _write_offsets(builder: Any, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _write_lookup(builder: Any, names: Sequence[str]) -> int:
    """A table of names by hash: starts of the buckets in a list of ordinals."""
    bucket_count = 1 << (max(len(names), 4) // 2 - 1).bit_length()
    buckets: list[list[int]] = [[] for _ in range(bucket_count)]
    for ordinal, name in enumerate(names):
        buckets[xxhash.xxh3_64_intdigest(name.encode()) % bucket_count].append(ordinal)
    starts = [0]
    for bucket in buckets:
        starts.append(starts[-1] + len(bucket))
    entries = [ordinal for bucket in buckets for ordinal in bucket]
    slots = {0: ("offset", _write_numbers(builder, starts)), 1: ("offset", _write_numbers(builder, entries))}
    return _write_table(builder, 2, slots)


def _write_numbers(builder: Any, numbers: Sequence[int]) -> int:
    builder.StartVector(4, len(numbers), 4)
    for number in reversed(numbers):
        builder.PrependUint32(number)
    return int(builder.EndVector())
