"""Defaults of columns of any type as Arrow arrays, and as bytes in the metadata of fields.

A default is a physical value (`skerry.table.rows.values`). Nested ones are tuples: of elements; of pairs of keys and
values; of pairs of field ids and values for a struct, whose fields without one have their own defaults.

Spec: Iceberg spec, Default values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from skerry.errors import SchemaError
from skerry.table.rows.schema import WRITE_DEFAULT_KEY, field_id, is_list
from skerry.table.rows.values import decode_values, encode_value, is_uuid

__all__ = ["decode_default", "default_array", "encode_default", "nested_default", "repeated"]

OwnDefault: TypeAlias = Callable[[pa.Field], pa.Array | None]
"""The default of a field of a struct, as an array of one value; None if it has none."""


def default_array(field: pa.Field, value: Any, own_default: OwnDefault) -> pa.Array:
    """A default as an array of one value.

    Args:
        field: The column or a part of one, with field ids.
        value: Its default as a physical value, None for null.
        own_default: The defaults of fields in structs for which `value` has none.

    Raises:
        SchemaError: A required field has no value.
    """
    type_ = field.type
    if value is None:
        if not field.nullable:
            raise SchemaError(f"required column {field.name!r} has no value in a default")
        return pa.nulls(1, type_)
    if pa.types.is_struct(type_):
        given = dict(value)
        members = []
        for child in type_:
            own = None if field_id(child) in given else own_default(child)
            members.append(own if own is not None else default_array(child, given.get(field_id(child)), own_default))
        return pa.StructArray.from_arrays(members, fields=list(type_))
    if pa.types.is_map(type_):
        keys = _joined(type_.key_field, [key for key, _ in value], own_default)
        items = _joined(type_.item_field, [item for _, item in value], own_default)
        return pa.MapArray.from_arrays([0, len(value)], keys, items, type_)
    if is_list(type_):
        elements = _joined(type_.value_field, list(value), own_default)
        return pa.ListArray.from_arrays([0, len(value)], elements, type=type_)
    if is_uuid(type_):
        return pa.array([value], pa.binary(16)).cast(type_)
    return pa.array([value], type_)


def _joined(field: pa.Field, values: list[Any], own_default: OwnDefault) -> pa.Array:
    arrays = [default_array(field, value, own_default) for value in values]
    return pa.concat_arrays(arrays) if arrays else pa.nulls(0, field.type)


def nested_default(field: pa.Field, value: Any, defaults: Mapping[int, Any]) -> pa.Array:
    """A default of a nested type as an array of one value.

    Args:
        field: The column, with field ids.
        value: Its default.
        defaults: Those of fields in structs, by field id.

    Raises:
        SchemaError: A required field has no value.
    """

    def own_default(child: pa.Field) -> pa.Array | None:
        own = defaults.get(field_id(child))
        return None if own is None else default_array(child, own, own_default)

    return default_array(field, value, own_default)


def repeated(value: pa.Array, count: int) -> pa.Array:
    """An array of one value as often as it is needed."""
    return value.take(pa.array(np.zeros(count, np.int64)))


def encode_default(field: pa.Field, value: Any) -> bytes:
    """A write default as bytes for the metadata of its field.

    Args:
        field: The column; fields in structs have their own write defaults in their metadata already.
        value: The physical value.

    Returns:
        Iceberg's single-value serialisation; of a nested type an Arrow stream with one row.
    """
    if not pa.types.is_nested(field.type):
        return encode_value(field.type, value)

    def own_default(child: pa.Field) -> pa.Array | None:
        default = (child.metadata or {}).get(WRITE_DEFAULT_KEY)
        return None if default is None else decode_default(child.type, default)

    array = default_array(field, value, own_default)
    batch = pa.RecordBatch.from_arrays([array], schema=pa.schema([pa.field("", field.type)]))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def decode_default(type_: pa.DataType, default: bytes) -> pa.Array:
    """The value of `encode_default`, as an array of one."""
    if not pa.types.is_nested(type_):
        return decode_values(type_, pa.array([default], pa.binary()))
    with pa.ipc.open_stream(default) as reader:
        return reader.read_next_batch().column(0).cast(type_)
