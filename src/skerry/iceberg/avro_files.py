"""Iceberg schemas and rows in Avro files.

Spec: Iceberg table spec, Appendix A, Avro.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from skerry.iceberg.manifest_schema import avro_name, avro_primitive
from skerry.table.schema import field_id
from skerry.table.values import is_uuid

__all__ = ["avro_records", "avro_schema"]

_Convert = Callable[[Any], Any]


# The schema ----------------------------------------------------------------------------------------------------------


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
    # a union of null with null is no Avro
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


# The rows ------------------------------------------------------------------------------------------------------------


def avro_records(rows: pa.Table) -> Iterator[dict[str, Any]]:
    """Rows as records of their `avro_schema`, moments as numbers."""
    fields = list(rows.schema)
    names = [avro_name(field.name) for field in fields]
    columns = []
    for field, column in zip(fields, rows.columns, strict=True):
        values = column.cast(_numeric(field.type)).to_pylist()
        convert = _converter(field.type)
        columns.append(values if convert is None else [convert(value) for value in values])
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def _numeric(type_: pa.DataType) -> pa.DataType:
    """The type whose Python values the Avro encoder takes as they are."""
    if pa.types.is_struct(type_):
        return pa.struct([child.with_type(_numeric(child.type)) for child in type_])
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_numeric(type_.value_type)))
    if pa.types.is_map(type_):
        return pa.map_(
            type_.key_field.with_type(_numeric(type_.key_type)), type_.item_field.with_type(_numeric(type_.item_type))
        )
    if pa.types.is_date32(type_):
        return pa.int32()
    if pa.types.is_timestamp(type_) or pa.types.is_time64(type_):
        return pa.int64()
    return pa.binary(16) if is_uuid(type_) else type_


def _converter(type_: pa.DataType) -> _Convert | None:
    """What makes Avro's form of PyArrow's Python values; None where they are the same."""
    if pa.types.is_struct(type_):
        members = [(child.name, avro_name(child.name), _converter(child.type)) for child in type_]
        if all(name == renamed and convert is None for name, renamed, convert in members):
            return None
        return _of_struct(members)
    if pa.types.is_list(type_):
        convert = _converter(type_.value_type)
        return None if convert is None else _of_list(convert)
    if pa.types.is_map(type_):
        of_key, of_value = _converter(type_.key_type) or _same, _converter(type_.item_type) or _same
        return _of_map(of_key, of_value, as_pairs=not pa.types.is_string(type_.key_type))
    return None


def _same(value: Any) -> Any:
    return value


def _of_struct(members: list[tuple[str, str, _Convert | None]]) -> _Convert:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        return {renamed: of(value[name]) if of is not None else value[name] for name, renamed, of in members}

    return convert


def _of_list(of_element: _Convert) -> _Convert:
    return lambda value: None if value is None else [of_element(element) for element in value]


def _of_map(of_key: _Convert, of_value: _Convert, *, as_pairs: bool) -> _Convert:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        if as_pairs:
            return [{"key": of_key(key), "value": of_value(item)} for key, item in value]
        return {of_key(key): of_value(item) for key, item in value}

    return convert
