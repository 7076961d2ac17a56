"""Arrow types and the types of shards: how they map, in both directions.

Some of what Arrow knows has no place in a shard's schema: units and zones of timestamps, precision and scale of
decimals, offset widths, dictionaries, field metadata. A writer of this package stores the whole Arrow schema beside it,
as a property of the shard; without that property a column reads as the type that `arrow_type` gives it.

Spec: docs/formats/amudai.md § 4.1, § 4.2; Amudai book, chapter 4; Amudai book, chapter 6, Schema.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa

from skerry.amudai.shard.schema import BasicType, DataType, ExtendedLabel, ExtendedType, Field, Schema
from skerry.amudai.values.datetimes import is_tick_type
from skerry.errors import SchemaError, UnsupportedError

__all__ = [
    "ALIASES_KEY",
    "ARROW_SCHEMA_PROPERTY",
    "EXTENSION_KEY",
    "INTERNAL_KIND_KEY",
    "ITEM_NAME_KEY",
    "arrow_field",
    "arrow_type",
    "is_stored_as",
    "list_of_named_items",
    "schema_from_arrow",
]

ARROW_SCHEMA_PROPERTY: Final = "ARROW:schema"
"""Name of the shard's custom property that holds the Arrow schema of its table, as bytes of an IPC message."""
EXTENSION_KEY: Final = b"ARROW:extension:name"
ITEM_NAME_KEY: Final = b"amudai.item_name"
"""Metadata of the Arrow field of a list's items: their name in the shard, which they do not have otherwise."""
ALIASES_KEY: Final = b"AMUDAI:aliases"
"""Metadata of a top-level Arrow field: a JSON list of the other names by which the column is found."""
INTERNAL_KIND_KEY: Final = b"AMUDAI:internal_kind"
"""Metadata of a top-level Arrow field: what an internal field is for, one of `InternalKind`."""
_DATE_TIME: Final = "KustoDateTime"
_UUID: Final = "arrow.uuid"
_JSON: Final = "arrow.json"
_RULE: Final = "docs/formats/amudai.md § 4.2"

_INTEGERS: Final[dict[pa.DataType, tuple[BasicType, bool]]] = {
    pa.int8(): (BasicType.INT8, True),
    pa.int16(): (BasicType.INT16, True),
    pa.int32(): (BasicType.INT32, True),
    pa.int64(): (BasicType.INT64, True),
    pa.uint8(): (BasicType.INT8, False),
    pa.uint16(): (BasicType.INT16, False),
    pa.uint32(): (BasicType.INT32, False),
    pa.uint64(): (BasicType.INT64, False),
}
_ARROW_INTEGERS: Final = {basic: arrow for arrow, basic in _INTEGERS.items()}
_OTHERS: Final[dict[pa.DataType, BasicType]] = {
    pa.bool_(): BasicType.BOOLEAN,
    pa.float32(): BasicType.FLOAT32,
    pa.float64(): BasicType.FLOAT64,
    pa.binary(): BasicType.BINARY,
    pa.large_binary(): BasicType.BINARY,
    pa.binary_view(): BasicType.BINARY,
    pa.string(): BasicType.STRING,
    pa.large_string(): BasicType.STRING,
    pa.string_view(): BasicType.STRING,
}
_ARROW_OTHERS: Final[dict[BasicType, pa.DataType]] = {
    BasicType.UNIT: pa.null(),
    BasicType.BOOLEAN: pa.bool_(),
    BasicType.FLOAT32: pa.float32(),
    BasicType.FLOAT64: pa.float64(),
    BasicType.BINARY: pa.binary(),
    BasicType.STRING: pa.string(),
    BasicType.GUID: pa.uuid(),
}


def schema_from_arrow(schema: pa.Schema) -> Schema:
    """The schema of a shard that holds a table.

    Args:
        schema: The table's schema. Names must differ and not be empty. Metadata of a field may say more: extension
            names `KustoTimeSpan` of int64, `KustoDateTime` of uint64, `KustoDynamic` of binary, `KustoDecimal` and
            `arrow.uuid` of 16 bytes; `ALIASES_KEY` and `INTERNAL_KIND_KEY`.

    Returns:
        The shard's schema; nodes are numbered from 0, parents before children.

    Raises:
        UnsupportedError: A column has a type that a shard cannot hold, or one of no width.
        SchemaError: Names are empty or not unique.
    """
    counter = iter(range(1 << 32))
    names = [field.name for field in schema]
    _check_names(names, "the table")
    fields = []
    for field in schema:
        metadata = field.metadata or {}
        internal = metadata.get(INTERNAL_KIND_KEY)
        data_type = _node(field, field.name, counter, field.name, _aliases(field))
        fields.append(Field(data_type, None if internal is None else internal.decode()))
    return Schema(tuple(fields), next(counter))


def list_of_named_items(items: pa.DataType) -> pa.ListType:
    """The type of lists whose items are called "item" in a shard, as in those of indexes."""
    return pa.list_(pa.field("item", items, metadata={ITEM_NAME_KEY: b"item"}))


def _aliases(field: pa.Field) -> tuple[str, ...]:
    text = (field.metadata or {}).get(ALIASES_KEY)
    if text is None:
        return ()
    try:
        aliases = json.loads(text)
    except ValueError as error:
        raise SchemaError(f"column {field.name!r}: {ALIASES_KEY.decode()} is not a JSON list: {error}") from error
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise SchemaError(f"column {field.name!r}: {ALIASES_KEY.decode()} is not a JSON list of strings: {text!r}")
    return tuple(aliases)


def _node(field: pa.Field, name: str, counter: Iterator[int], path: str, aliases: tuple[str, ...] = ()) -> DataType:
    """The node of a field and those below it. Items, keys and values have no names, unless items are given one."""
    schema_id = next(counter)
    arrow, extension = _stored_type(field)
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow) or _is_list_view(arrow):
        items = arrow.value_field
        item_name = (items.metadata or {}).get(ITEM_NAME_KEY, b"").decode()
        children: tuple[DataType, ...] = (_node(items, item_name, counter, f"{path}.item"),)
        return DataType(BasicType.LIST, schema_id, name, aliases, children)
    if pa.types.is_fixed_size_list(arrow):
        _check_width(arrow.list_size, path, arrow)
        children = (_node(arrow.value_field, "", counter, f"{path}.item"),)
        return DataType(BasicType.FIXED_SIZE_LIST, schema_id, name, aliases, children, fixed_size=arrow.list_size)
    if pa.types.is_map(arrow):
        children = (
            _node(arrow.key_field, "", counter, f"{path}.key"),
            _node(arrow.item_field, "", counter, f"{path}.value"),
        )
        return DataType(BasicType.MAP, schema_id, name, aliases, children)
    if pa.types.is_struct(arrow) or pa.types.is_union(arrow):
        members = [arrow.field(i) for i in range(arrow.num_fields)]
        _check_names([member.name for member in members], path)
        children = tuple(_node(member, member.name, counter, f"{path}.{member.name}") for member in members)
        basic = BasicType.STRUCT if pa.types.is_struct(arrow) else BasicType.UNION
        return DataType(basic, schema_id, name, aliases, children)
    basic, signed, size, label = _primitive(arrow, extension, path)
    extended = None if label is None else ExtendedType(label)
    return DataType(basic, schema_id, name, aliases, (), signed, size, extended)


def _stored_type(field: pa.Field) -> tuple[pa.DataType, str | None]:
    """The type below dictionaries, run ends and extensions, and the extension's name."""
    arrow, extension = field.type, (field.metadata or {}).get(EXTENSION_KEY, b"").decode() or None
    while True:
        if isinstance(arrow, pa.BaseExtensionType):
            if arrow.extension_name not in (_UUID, _JSON):
                return arrow, None
            arrow, extension = arrow.storage_type, arrow.extension_name
        elif pa.types.is_dictionary(arrow) or pa.types.is_run_end_encoded(arrow):
            arrow = arrow.value_type
        else:
            return arrow, extension


def _primitive(arrow: pa.DataType, extension: str | None, path: str) -> tuple[BasicType, bool, int, str | None]:
    """Basic type, sign, fixed size and label of a type without children."""
    if pa.types.is_duration(arrow) or (arrow == pa.int64() and extension == ExtendedLabel.TIMESPAN):
        return BasicType.INT64, True, 0, ExtendedLabel.TIMESPAN
    if is_tick_type(arrow) or (arrow == pa.uint64() and extension == _DATE_TIME):
        return BasicType.DATE_TIME, False, 0, None
    if arrow in _INTEGERS:
        return (*_INTEGERS[arrow], 0, None)
    if pa.types.is_decimal(arrow):
        if arrow.scale < 0:
            raise UnsupportedError(f"column {path!r}: {arrow} has a negative scale", rule=_RULE)
        return BasicType.FIXED_SIZE_BINARY, False, 16, ExtendedLabel.DECIMAL
    if pa.types.is_fixed_size_binary(arrow):
        _check_width(arrow.byte_width, path, arrow)
        if arrow.byte_width == 16 and extension == _UUID:
            return BasicType.GUID, False, 16, None
        if arrow.byte_width == 16 and extension == ExtendedLabel.DECIMAL:
            return BasicType.FIXED_SIZE_BINARY, False, 16, ExtendedLabel.DECIMAL
        return BasicType.FIXED_SIZE_BINARY, False, arrow.byte_width, None
    if arrow in _OTHERS:
        basic = _OTHERS[arrow]
        if basic is BasicType.STRING and extension == _JSON:
            return BasicType.BINARY, False, 0, ExtendedLabel.DYNAMIC
        if basic is BasicType.BINARY and extension == ExtendedLabel.DYNAMIC:
            return BasicType.BINARY, False, 0, ExtendedLabel.DYNAMIC
        return basic, False, 0, None
    raise UnsupportedError(f"column {path!r}: a shard cannot hold {arrow}", rule=_RULE)


def _is_list_view(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(arrow) or pa.types.is_large_list_view(arrow))


def _check_width(width: int, path: str, arrow: pa.DataType) -> None:
    if width < 1:
        raise UnsupportedError(f"column {path!r}: {arrow} has no width, expected at least 1", rule=_RULE)


def _check_names(names: list[str], where: str) -> None:
    if not all(names):
        raise SchemaError(f"{where} has a field without a name", rule="docs/formats/amudai.md § 3.3")
    name, count = Counter(names).most_common(1)[0] if names else ("", 0)
    if count > 1:
        raise SchemaError(f"{where} has {count} fields named {name!r}", rule="docs/formats/amudai.md § 3.3")


def is_stored_as(field: pa.Field, node: DataType) -> bool:
    """Whether values of an Arrow field are stored as a node says, names of fields and numbers of nodes aside.

    It is how a stored Arrow schema is held against the shard's own, and whether a type that the caller asks for can be
    made from what is stored without a cast.
    """
    try:
        wanted = _node(field, field.name, iter(range(1 << 32)), field.name)
    except (UnsupportedError, SchemaError):
        return False
    return _alike(wanted, node)


def _alike(a: DataType, b: DataType) -> bool:
    return (
        (a.basic_type, a.label, len(a.children)) == (b.basic_type, b.label, len(b.children))
        and (not a.basic_type.is_integer or a.signed == b.signed)
        and (a.basic_type is BasicType.GUID or a.fixed_size == b.fixed_size)
        and (a.basic_type not in (BasicType.STRUCT, BasicType.UNION) or _names(a) == _names(b))
        and all(_alike(x, y) for x, y in zip(a.children, b.children, strict=True))
    )


def _names(node: DataType) -> list[str]:
    return [child.name for child in node.children]


def arrow_field(node: DataType, leaf_type: Callable[[DataType], pa.DataType | None] | None = None) -> pa.Field:
    """The Arrow field that a node reads as when nothing else is known of it. Every field is nullable but map keys.

    Args:
        node: A node of the schema.
        leaf_type: Chooses the type of nodes without children, or leaves it to `arrow_type` by None.
    """
    chosen = leaf_type(node) if leaf_type is not None and not node.basic_type.is_composite else None
    metadata: dict[bytes, bytes] = {}
    if node.label == ExtendedLabel.DYNAMIC and node.basic_type is BasicType.BINARY:
        metadata[EXTENSION_KEY] = ExtendedLabel.DYNAMIC.encode()
    if chosen == pa.uint64() and node.basic_type is BasicType.DATE_TIME:
        metadata[EXTENSION_KEY] = _DATE_TIME.encode()
    if chosen == pa.int64() and node.label == ExtendedLabel.TIMESPAN:
        metadata[EXTENSION_KEY] = ExtendedLabel.TIMESPAN.encode()
    if chosen == pa.binary(16) and node.is_decimal:
        metadata[EXTENSION_KEY] = ExtendedLabel.DECIMAL.encode()
    if node.aliases:
        metadata[ALIASES_KEY] = json.dumps(node.aliases).encode()
    return pa.field(node.name, chosen or arrow_type(node, leaf_type), metadata=metadata or None)


def arrow_type(node: DataType, leaf_type: Callable[[DataType], pa.DataType | None] | None = None) -> pa.DataType:
    """The Arrow type that a node reads as when nothing else is known of it.

    DateTime becomes timestamp[ns] without a zone, KustoTimeSpan duration[ns], KustoDecimal decimal256(76, 38): between
    them they hold what is stored nearly always, and a reader that knows more of the values chooses better.
    """
    basic = node.basic_type
    if basic is BasicType.LIST:
        return pa.list_(_item_field(node.children[0], "item", leaf_type))
    if basic is BasicType.FIXED_SIZE_LIST:
        return pa.list_(_item_field(node.children[0], "item", leaf_type), node.fixed_size)
    if basic is BasicType.MAP:
        key, value = node.children
        key_field = _item_field(key, "key", leaf_type).with_nullable(False)
        return pa.map_(key_field, _item_field(value, "value", leaf_type))
    if basic is BasicType.STRUCT:
        return pa.struct([arrow_field(child, leaf_type) for child in node.children])
    if basic is BasicType.UNION:
        return pa.sparse_union([arrow_field(child, leaf_type) for child in node.children])
    if basic is BasicType.DATE_TIME:
        return pa.timestamp("ns")
    if node.label == ExtendedLabel.TIMESPAN and (basic, node.signed) == (BasicType.INT64, True):
        return pa.duration("ns")
    if node.is_decimal:
        return pa.decimal256(76, 38)
    if basic.is_integer:
        return _ARROW_INTEGERS[(basic, node.signed)]
    if basic is BasicType.FIXED_SIZE_BINARY:
        return pa.binary(node.fixed_size)
    return _ARROW_OTHERS[basic]


def _item_field(
    node: DataType, default_name: str, leaf_type: Callable[[DataType], pa.DataType | None] | None
) -> pa.Field:
    return arrow_field(node, leaf_type).with_name(node.name or default_name)
