"""Fields with children, and fields as arrays of the wanted Arrow type.

Spec: docs/formats/amudai.md § 4.3; Amudai book, chapter 6, List Encoding, Map Encoding, Struct Encoding, Fixed Size
List Encoding, Union Encoding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.amudai.fields.constants import repeat_constant
from skerry.amudai.fields.leaves import ColumnTooLongError, read_bitmap, read_bytes, read_numbers, read_offsets
from skerry.amudai.fields.parquet_pages import read_parquet_column
from skerry.amudai.fields.selection import Selection
from skerry.amudai.fields.stored_field import StoredField, StripeFields
from skerry.amudai.messages import BufferKind
from skerry.amudai.shard.schema import BasicType, DataType
from skerry.errors import FormatError, UnsupportedError
from skerry.storage import redact

__all__ = ["plain_type", "read_node"]

_MAX_I32: Final = (1 << 31) - 1
_RULE: Final = "docs/formats/amudai.md § 4.3"


def read_node(
    fields: StripeFields, node: DataType, selection: Selection, target: pa.DataType, positions: int | None = None
) -> pa.Array:
    """Read the values of a node and of those below it.

    Args:
        fields: The fields of the stripe, with the descriptors of these nodes.
        node: The node.
        selection: The wanted positions.
        target: The wanted type, one that the node's values can be stored as.
        positions: How many values the node must have; None where only its own descriptor says.

    Returns:
        `target`[selection.count].

    Raises:
        FormatError: Descriptors or buffers are damaged.
        UnsupportedError: Values are stored in a way that cannot be read.
        SchemaError: A value does not fit `target`.
        ColumnTooLongError: One array cannot hold the values: fewer must be read at once.
    """
    plain = plain_type(target)
    if fields.descriptor(node) is None:
        return _as_type(pa.nulls(selection.count, plain), target)
    field = fields.field(node, positions)
    if selection.stop > field.positions:
        raise _error(field, f"{selection.stop} values are wanted of {field.positions}")
    if field.is_null or selection.count == 0:
        array = pa.nulls(selection.count, plain)
    elif field.constant is not None and not node.basic_type.is_composite:
        array = repeat_constant(field, field.constant, selection.count, plain)
    elif field.parquet is not None:
        array = read_parquet_column(fields.files, fields.rules, field, selection, plain)
    else:
        array = _READERS[node.basic_type](fields, field, selection, plain)
    return _as_type(array, target)


def plain_type(target: pa.DataType) -> pa.DataType:
    """The type below extensions, dictionaries and run ends, with offsets rather than views.

    Args:
        target: Any type that values of shards read as.

    Returns:
        The type whose arrays are made first, and which PyArrow computes with.
    """
    while True:
        if isinstance(target, pa.BaseExtensionType):
            target = target.storage_type
        elif pa.types.is_dictionary(target) or pa.types.is_run_end_encoded(target):
            target = target.value_type
        else:
            break
    if pa.types.is_list_view(target):
        return pa.list_(target.value_field)
    if pa.types.is_large_list_view(target):
        return pa.large_list(target.value_field)
    if pa.types.is_decimal32(target) or pa.types.is_decimal64(target):
        return pa.decimal128(target.precision, target.scale)
    return _OF_VIEWS.get(target, target)


_OF_VIEWS: Final = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def _as_type(array: pa.Array, target: pa.DataType) -> pa.Array:
    """A plain array as the type that was asked for."""
    if array.type == target:
        return array
    if isinstance(target, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(target, _as_type(array, target.storage_type))
    if pa.types.is_dictionary(target):
        encoded = _as_type(array, target.value_type).dictionary_encode()
        if len(encoded.dictionary) > 1 << (target.index_type.bit_width - 1):
            raise ColumnTooLongError
        indices = encoded.indices.cast(target.index_type)
        return pa.DictionaryArray.from_arrays(indices, encoded.dictionary, ordered=target.ordered)
    if pa.types.is_run_end_encoded(target):
        if len(array) > 1 << (target.run_end_type.bit_width - 1):
            raise ColumnTooLongError
        return pc.run_end_encode(_as_type(array, target.value_type), run_end_type=target.run_end_type)
    if pa.types.is_list_view(target) or pa.types.is_large_list_view(target):
        kind = pa.ListViewArray if pa.types.is_list_view(target) else pa.LargeListViewArray
        offsets = np.asarray(array.offsets)
        mask = array.is_null() if array.null_count else None
        return kind.from_arrays(pa.array(offsets[:-1]), pa.array(np.diff(offsets)), array.values, target, mask=mask)
    return array.cast(target)


def _validity(fields: StripeFields, field: StoredField, selection: Selection) -> pa.Buffer | None:
    if field.buffer(BufferKind.PRESENCE) is None:
        return None
    return pa.py_buffer(read_bitmap(fields.files, field, BufferKind.PRESENCE, selection))


def _read_booleans(fields: StripeFields, field: StoredField, selection: Selection, target: pa.DataType) -> pa.Array:
    validity = _validity(fields, field, selection)
    bits = pa.py_buffer(read_bitmap(fields.files, field, BufferKind.DATA, selection))
    return pa.Array.from_buffers(target, selection.count, [validity, bits])


def _read_numbers(fields: StripeFields, field: StoredField, selection: Selection, target: pa.DataType) -> pa.Array:
    return read_numbers(fields.files, field, selection, target)


def _read_bytes(fields: StripeFields, field: StoredField, selection: Selection, target: pa.DataType) -> pa.Array:
    return read_bytes(fields.files, field, selection, target)


def _read_lists(fields: StripeFields, field: StoredField, selection: Selection, target: pa.DataType) -> pa.Array:
    offsets, items = _items(fields, field, selection, pa.types.is_large_list(target))
    validity = _validity(fields, field, selection)
    values = read_node(fields, field.node.children[0], items, target.value_type)
    return pa.Array.from_buffers(target, selection.count, [validity, offsets], children=[values])


def _read_maps(fields: StripeFields, field: StoredField, selection: Selection, target: pa.DataType) -> pa.Array:
    offsets, items = _items(fields, field, selection, False)
    validity = _validity(fields, field, selection)
    key, value = field.node.children
    keys = read_node(fields, key, items, target.key_type)
    if keys.null_count:
        raise _error(field, "a key of a map is null")
    values = read_node(fields, value, items, target.item_type)
    entries = pa.Array.from_buffers(
        pa.struct([target.key_field, target.item_field]), items.count, [None], children=[keys, values]
    )
    return pa.Array.from_buffers(target, selection.count, [validity, offsets], children=[entries])


def _items(
    fields: StripeFields, field: StoredField, selection: Selection, is_large: bool
) -> tuple[pa.Buffer, Selection]:
    """Arrow's offsets of lists, and the positions of their items."""
    offsets, items = read_offsets(fields.files, field, selection)
    if not is_large and offsets[-1] > _MAX_I32:
        raise ColumnTooLongError
    for child in field.node.children:
        if fields.descriptor(child) is None:
            continue
        count = fields.field(child).positions
        if items.stop > count or (selection.is_all_of(field.positions) and items.count != count):
            raise _error(field, f"offsets lead to item {items.stop} of {count}")
    return pa.py_buffer(offsets if is_large else offsets.astype(np.int32)), items


def _read_fixed_lists(fields: StripeFields, field: StoredField, selection: Selection, target: pa.DataType) -> pa.Array:
    size = field.node.fixed_size
    if size != target.list_size:
        raise _error(field, f"lists of {size} items, expected {target.list_size}")
    validity = _validity(fields, field, selection)
    (child,) = field.node.children
    total = field.positions * size
    stored = total if fields.descriptor(child) is None else fields.field(child).positions
    if stored >= total:
        values = read_node(fields, child, selection.scaled(size), target.value_type, total)
        return pa.Array.from_buffers(target, selection.count, [validity], children=[values])
    # the reference stores no items of lists that it made null at the end of a stripe
    there = selection.narrowed(np.array([0]), np.array([stored // size]))
    values = read_node(fields, child, there.scaled(size), target.value_type)
    array = pa.Array.from_buffers(target, there.count, [validity], children=[values])
    if selection.count > there.count and (validity is None or _bits(validity)[there.count : selection.count].any()):
        raise _error(field, f"lists that are not null lead to item {total} of {stored}")
    return pa.concat_arrays([array, pa.nulls(selection.count - there.count, target)])


def _bits(validity: pa.Buffer) -> npt.NDArray[np.uint8]:
    return np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")


def _read_structs(fields: StripeFields, field: StoredField, selection: Selection, target: pa.DataType) -> pa.Array:
    validity = _validity(fields, field, selection)
    children = [
        read_node(fields, child, selection, target.field(i).type, field.positions)
        for i, child in enumerate(field.node.children)
    ]
    return pa.Array.from_buffers(target, selection.count, [validity], children=children)


def _read_unions(fields: StripeFields, field: StoredField, selection: Selection, target: pa.DataType) -> pa.Array:
    variants = read_numbers(fields.files, field, selection, pa.uint8())
    if variants.null_count:
        raise UnsupportedError("a union without a variant", location=redact(field.location), rule=_RULE)
    ordinals = np.frombuffer(variants.buffers()[1], np.uint8, len(variants), variants.offset)
    if len(ordinals) and int(ordinals.max()) >= len(field.node.children):
        raise _error(field, f"variant {int(ordinals.max())} of {len(field.node.children)}")
    children = [
        read_node(fields, child, selection, target.field(i).type, field.positions)
        for i, child in enumerate(field.node.children)
    ]
    codes = np.array(target.type_codes, np.int8)[ordinals]
    if target.mode == "sparse":
        return pa.Array.from_buffers(target, len(codes), [None, pa.py_buffer(codes)], children=children)
    offsets = np.empty(len(codes), np.int32)
    chosen = []
    for i, child in enumerate(children):
        places = np.flatnonzero(ordinals == i)
        offsets[places] = np.arange(len(places), dtype=np.int32)
        chosen.append(child.take(pa.array(places)))
    buffers = [None, pa.py_buffer(codes), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(target, len(codes), buffers, children=chosen)


_Read = Callable[[StripeFields, StoredField, Selection, pa.DataType], pa.Array]
_READERS: Final[dict[BasicType, _Read]] = {
    BasicType.BOOLEAN: _read_booleans,
    BasicType.INT8: _read_numbers,
    BasicType.INT16: _read_numbers,
    BasicType.INT32: _read_numbers,
    BasicType.INT64: _read_numbers,
    BasicType.FLOAT32: _read_numbers,
    BasicType.FLOAT64: _read_numbers,
    BasicType.DATE_TIME: _read_numbers,
    BasicType.BINARY: _read_bytes,
    BasicType.FIXED_SIZE_BINARY: _read_bytes,
    BasicType.STRING: _read_bytes,
    BasicType.GUID: _read_bytes,
    BasicType.LIST: _read_lists,
    BasicType.FIXED_SIZE_LIST: _read_fixed_lists,
    BasicType.STRUCT: _read_structs,
    BasicType.MAP: _read_maps,
    BasicType.UNION: _read_unions,
    BasicType.UNIT: lambda fields, field, selection, target: pa.nulls(selection.count, target),
}


def _error(field: StoredField, problem: str) -> FormatError:
    return FormatError(
        f"field {field.node.name!r} (schema id {field.node.schema_id}): {problem}",
        location=redact(field.location),
        rule=_RULE,
    )
