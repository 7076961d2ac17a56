"""The layout of Paimon's rows in Avro files.

Spec: docs/formats/paimon.md § 8.2; Avro spec, Logical Types. Paimon calls zoned timestamps local and local ones not:
the other way round than Avro means it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.avro import decimal_bytes
from skerry.errors import UnsupportedError

__all__ = ["avro_schema", "stored_rows"]

_RECORD: Final = "org.apache.paimon.avro.generated.record"
_PLAIN: Final[dict[pa.DataType, Any]] = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.time32("ms"): {"type": "int", "logicalType": "time-millis"},
}
_UNITS: Final = {"s": "millis", "ms": "millis", "us": "micros"}


def avro_schema(schema: pa.Schema) -> dict[str, Any]:
    """The Avro schema of rows, as Python objects of Avro's JSON.

    Args:
        schema: The columns of a data file.

    Raises:
        UnsupportedError: A type has no Avro type; the message names the column.
    """
    return _record(list(schema), _RECORD)


def _record(fields: list[pa.Field], name: str) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [_field(field, f"{name}_{field.name}") for field in fields]}


def _field(field: pa.Field, name: str) -> dict[str, Any]:
    found = {"name": field.name, "type": _optional(field, name)}
    return {**found, "default": None} if field.nullable else found


def _optional(field: pa.Field, name: str) -> Any:
    type_ = _type(field.type, name)
    return ["null", type_] if field.nullable else type_


def _type(type_: pa.DataType, name: str) -> Any:
    if type_ in _PLAIN:
        return _PLAIN[type_]
    if pa.types.is_decimal(type_):
        return {"type": "bytes", "logicalType": "decimal", "precision": type_.precision, "scale": type_.scale}
    if pa.types.is_timestamp(type_) and type_.unit in _UNITS:
        zoned = "local-" if type_.tz is not None else ""
        return {"type": "long", "logicalType": f"{zoned}timestamp-{_UNITS[type_.unit]}"}
    if pa.types.is_struct(type_):
        return _record(list(type_), name)
    if pa.types.is_list(type_):
        return {"type": "array", "items": _optional(type_.value_field, name)}
    if pa.types.is_map(type_):
        if pa.types.is_string(type_.key_type):
            return {"type": "map", "values": _optional(type_.item_field, name)}
        pair = [type_.key_field.with_name("key"), type_.item_field.with_name("value")]
        return {"type": "array", "items": _record(pair, name), "logicalType": "map"}
    column = name.removeprefix(f"{_RECORD}_")
    raise UnsupportedError(f"column {column!r} of type {type_} cannot be written to Avro files; write Parquet")


def stored_rows(rows: pa.Table) -> pa.Table:
    """Rows with their physical values: decimals as bytes, times as numbers, timestamps in fractions of a second."""
    fields, columns = [], []
    for field, column in zip(rows.schema, rows.columns, strict=True):
        stored = [_stored(chunk) for chunk in column.chunks] or [_stored(pa.nulls(0, field.type))]
        fields.append(pa.field(field.name, stored[0].type, field.nullable))
        columns.append(pa.chunked_array(stored))
    return pa.table(columns, pa.schema(fields))


def _stored(array: pa.Array) -> pa.Array:
    type_ = array.type
    if pa.types.is_decimal(type_):
        return _as_bytes(array)
    if pa.types.is_timestamp(type_) and type_.unit == "s":
        return array.cast(pa.timestamp("ms", type_.tz))
    if pa.types.is_time32(type_):
        return array.cast(pa.int32())
    if pa.types.is_struct(type_):
        members = [_stored(array.field(index)) for index in range(type_.num_fields)]
        fields = [pa.field(field.name, found.type, field.nullable) for field, found in zip(type_, members, strict=True)]
        return pa.StructArray.from_arrays(members, fields=fields, mask=array.is_null())
    if pa.types.is_list(type_):
        values = _stored(array.values)
        wanted = pa.list_(type_.value_field.with_type(values.type))
        return pa.ListArray.from_arrays(array.offsets, values, type=wanted, mask=array.is_null())
    if pa.types.is_map(type_):
        keys, items = _stored(array.keys), _stored(array.items)
        wanted = pa.map_(type_.key_field.with_type(keys.type), type_.item_field.with_type(items.type))
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=wanted, mask=array.is_null())
    return array


def _as_bytes(array: pa.Array) -> pa.Array:
    """Decimals as big-endian bytes in two's complement, all with the length of the longest."""
    width = decimal_bytes(array.type.precision)
    little = np.frombuffer(array.buffers()[1], np.uint8, 16 * len(array), 16 * array.offset).reshape(-1, 16)
    data = np.ascontiguousarray(little[:, :width][:, ::-1])
    offsets = np.arange(len(array) + 1, dtype=np.int32) * width
    plain = pa.Array.from_buffers(pa.binary(), len(array), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return pc.if_else(array.is_valid(), plain, pa.scalar(None, pa.binary()))
