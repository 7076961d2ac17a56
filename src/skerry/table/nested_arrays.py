"""Lists and maps made anew with other elements: lengths and nulls stay what they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["convert_elements", "convert_entries"]

_Convert: TypeAlias = Callable[[pa.Array], pa.Array]


def convert_elements(array: pa.Array, convert: _Convert, target: pa.ListType) -> pa.ListArray:
    """Lists whose elements are converted.

    Args:
        array: Lists, of any of Arrow's list types.
        convert: Makes elements of the target's type; called with those of all lists that are not null.
        target: The type of the result.
    """
    # not cast(): PyArrow 26 drops the last element when it casts a list view
    values = convert(pc.list_flatten(array))
    return pa.ListArray.from_arrays(_offsets(array), values, type=target, mask=array.is_null())


def convert_entries(
    array: pa.Array, convert_keys: _Convert, convert_items: _Convert, target: pa.MapType
) -> pa.MapArray:
    """Maps whose keys and items are converted.

    Args:
        array: Maps, or lists of structs of key and item.
        convert_keys: Makes keys of the target's type; called with those of all maps that are not null.
        convert_items: Likewise makes items.
        target: The type of the result.
    """
    lists = array
    if pa.types.is_map(array.type):
        lists = array.cast(pa.list_(pa.struct([array.type.key_field, array.type.item_field])))
    entries = pc.list_flatten(lists)
    keys, items = convert_keys(entries.field(0)), convert_items(entries.field(1))
    return pa.MapArray.from_arrays(_offsets(lists), keys, items, type=target, mask=array.is_null())


def _offsets(lists: pa.Array) -> pa.Array:
    """int32[n + 1]: where each list begins among the values that belong to no null list."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    return pa.array(np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])).cast(pa.int32())
