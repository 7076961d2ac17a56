"""Conversion of the elements of lists and maps, keeping lengths and nulls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import SchemaError

__all__ = ["convert_elements", "convert_entries", "list_elements"]

_Convert: TypeAlias = Callable[[pa.Array], pa.Array]


def convert_elements(array: pa.Array, convert: _Convert, target: pa.DataType) -> pa.Array:
    """Convert the elements of lists.

    Args:
        array: Lists, of any of Arrow's list types.
        convert: Converts elements to the target's type; called with those of all lists that are not null.
        target: The type of the result: lists of any length, or of a fixed one.

    Raises:
        SchemaError: A list has another length than the fixed one.
    """
    if pa.types.is_fixed_size_list(target):
        return _fixed_elements(array, convert, target)
    # not cast(): PyArrow 26 drops the last element when it casts a list view
    values = convert(list_elements(array))
    return pa.ListArray.from_arrays(_offsets(array), values, type=target, mask=array.is_null())


def _fixed_elements(array: pa.Array, convert: _Convert, target: pa.FixedSizeListType) -> pa.FixedSizeListArray:
    lengths = pc.list_value_length(array).drop_null().to_numpy(zero_copy_only=False)
    wrong = lengths[lengths != target.list_size]
    if len(wrong):
        raise SchemaError(f"a vector has {int(wrong[0])} elements, expected {target.list_size}")
    values = convert(list_elements(array))
    if not array.null_count:
        return pa.FixedSizeListArray.from_arrays(values, type=target)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    places = np.full((len(array), target.list_size), -1, np.int64)
    places[valid] = np.arange(len(values)).reshape(-1, target.list_size)
    taken = values.take(pa.array(places.reshape(-1), mask=places.reshape(-1) < 0))
    if not target.value_field.nullable:
        taken = pc.fill_null(taken, pa.scalar(0).cast(taken.type))  # Parquet writers refuse nulls even under a null
    return pa.FixedSizeListArray.from_arrays(taken, type=target, mask=pa.array(~valid))


def convert_entries(
    array: pa.Array, convert_keys: _Convert, convert_items: _Convert, target: pa.MapType
) -> pa.MapArray:
    """Convert the keys and items of maps.

    Args:
        array: Maps, or lists of structs of key and item.
        convert_keys: Converts keys to the target's type; called with those of all maps that are not null.
        convert_items: Converts items in the same way.
        target: The type of the result.
    """
    lists = array
    if pa.types.is_map(array.type):
        lists = array.cast(pa.list_(pa.struct([array.type.key_field, array.type.item_field])))
    entries = list_elements(lists)
    keys, items = convert_keys(entries.field(0)), convert_items(entries.field(1))
    return pa.MapArray.from_arrays(_offsets(lists), keys, items, type=target, mask=array.is_null())


def list_elements(lists: pa.Array) -> pa.Array:
    """The values of all lists that are not null."""
    if not (pa.types.is_list(lists.type) or pa.types.is_large_list(lists.type)):
        return pc.list_flatten(lists)
    # not list_flatten(): without remaining values it cannot create arrays of structs that contain an extension type
    offsets = lists.offsets.to_numpy()
    starts, lengths = offsets[:-1], np.diff(offsets)
    unwanted = np.asarray(lists.is_null().to_numpy(zero_copy_only=False), bool) & (lengths > 0)
    if not unwanted.any():
        return lists.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    return lists.values.take(pa.array(np.flatnonzero(np.repeat(~unwanted, lengths)) + int(starts[0])))


def _offsets(lists: pa.Array) -> pa.Array:
    """int32[n + 1]: where each list begins among the values of all lists that are not null."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    return pa.array(np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])).cast(pa.int32())
