"""Iceberg schemas in Avro files.

Spec: Iceberg spec, Appendix A, Avro.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from skerry.iceberg.manifests.avro_schemas import avro_name, avro_primitive
from skerry.table.rows.schema import field_id

__all__ = ["avro_schema"]


def avro_schema(schema: pa.Schema, name: str = "table") -> dict[str, Any]:
    """The Avro schema of rows, as Avro's JSON in Python objects.

    Args:
        schema: The table's columns with field ids.
        name: Name of the record.

    Raises:
        UnsupportedError: A type has no Avro type.
    """
    return _record(name, list(schema), set())


def _record(name: str, fields: list[pa.Field], declared: set[str]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [_field(field, declared) for field in fields]}


def _field(field: pa.Field, declared: set[str]) -> dict[str, Any]:
    number = field_id(field)
    result: dict[str, Any] = {"name": avro_name(field.name), "type": _optional(field, declared), "field-id": number}
    if field.nullable:
        result["default"] = None
    if result["name"] != field.name:
        result["iceberg-field-name"] = field.name
    return result


def _optional(field: pa.Field, declared: set[str]) -> Any:
    type_ = _type(field.type, field_id(field), declared)
    # Avro does not allow a union of null with null
    return ["null", type_] if field.nullable and type_ != "null" else type_


def _type(type_: pa.DataType, number: int, declared: set[str]) -> Any:
    if pa.types.is_struct(type_):
        return _record(f"r{number}", list(type_), declared)
    if pa.types.is_list(type_):
        element = type_.value_field
        return {"type": "array", "items": _optional(element, declared), "element-id": field_id(element)}
    if pa.types.is_map(type_):
        key, value = type_.key_field, type_.item_field
        key_id, value_id = field_id(key), field_id(value)
        if pa.types.is_string(key.type):
            return {"type": "map", "values": _optional(value, declared), "key-id": key_id, "value-id": value_id}
        pair = _record(f"k{key_id}_v{value_id}", [key.with_name("key"), value.with_name("value")], declared)
        return {"type": "array", "items": pair, "logicalType": "map"}
    return avro_primitive(type_, declared)
