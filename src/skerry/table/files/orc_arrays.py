"""Conversion of nested arrays to the form that PyArrow's ORC writer handles correctly.

The writer reads the members of structs with nulls from the start of their buffers, ignoring the arrays' offsets; and in
structs without nulls it ignores nulls in nested structs. The file would silently contain other values than the rows.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.table.rows.nested_arrays import list_elements

__all__ = ["rebuild_nested"]

_OFFSETS: Final = np.int32


def rebuild_nested(rows: pa.Table) -> pa.Table:
    """Rebuild nested arrays so that all of their parts begin at offset 0, with empty or null values below nulls.

    Args:
        rows: Structs, lists and maps with 32-bit offsets, and anything flat; flat columns are not copied.

    Returns:
        Rows of the same schema.
    """
    columns = [
        pa.chunked_array([_rebuilt(chunk) for chunk in column.chunks], field.type)
        if pa.types.is_nested(field.type)
        else column
        for field, column in zip(rows.schema, rows.columns, strict=True)
    ]
    return pa.table(columns, rows.schema)


def _rebuilt(array: pa.Array) -> pa.Array:
    type_ = array.type
    if pa.types.is_struct(type_):
        return _struct(type_, [_rebuilt(member) for member in array.flatten()], array)
    if pa.types.is_list(type_):
        offsets, values = _unnested(array)
        return pa.ListArray.from_arrays(offsets, values, type=type_, mask=array.is_null())
    if pa.types.is_map(type_):
        offsets, entries = _unnested(_map_as_list(array))
        keys, items = entries.flatten()
        return pa.MapArray.from_arrays(offsets, keys, items, type=type_, mask=array.is_null())
    return _from_start(array)


def _from_start(array: pa.Array) -> pa.Array:
    return pa.concat_arrays([array]) if array.offset else array


def _struct(type_: pa.StructType, members: list[pa.Array], array: pa.Array) -> pa.Array:
    """Build a struct from buffers, since members that must not be null are null below null structs."""
    valid = _from_start(array.is_valid()).buffers()[1] if array.null_count else None
    return pa.Array.from_buffers(type_, len(array), [valid], children=members)


def _unnested(array: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Offsets int32[n + 1] from 0, and the elements of all lists that are not null."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
    offsets = np.zeros(len(array) + 1, _OFFSETS)
    np.cumsum(lengths, out=offsets[1:])
    return pa.array(offsets), _rebuilt(list_elements(array))


def _map_as_list(array: pa.Array) -> pa.Array:
    """Maps as lists of entries, which can be flattened; shares their buffers."""
    fields = [array.type.key_field, array.type.item_field]
    entries = pa.StructArray.from_arrays([array.keys, array.items], fields=fields)
    validity, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(
        pa.list_(entries.type), len(array), [validity, offsets], offset=array.offset, children=[entries]
    )
