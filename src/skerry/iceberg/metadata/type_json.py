"""Types and fields as JSON.

Spec: Iceberg spec, Appendix C: JSON serialization.
"""

from __future__ import annotations

from typing import Any, Final

from skerry.errors import FormatError, UnsupportedError
from skerry.iceberg.metadata.json_object import JsonObject
from skerry.iceberg.metadata.single_values import value_from_json, value_to_json
from skerry.iceberg.metadata.types import (
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    parse_type,
)

__all__ = ["field_from_json", "field_to_json", "type_from_json", "type_to_json"]

_RULE: Final = "Iceberg spec, Schemas and Data Types"
_MAX_DEPTH: Final = 64  # as deep as Arrow IPC nests
_FIELD_NAMES: Final = frozenset({"id", "name", "type", "required", "doc", "initial-default", "write-default"})
_STRUCT_NAMES: Final = frozenset({"type", "fields"})
_LIST_NAMES: Final = frozenset({"type", "element-id", "element", "element-required"})
_MAP_NAMES: Final = frozenset({"type", "key-id", "key", "value-id", "value", "value-required"})


def field_from_json(item: JsonObject, depth: int = 0) -> NestedField:
    """Read a field with those within it.

    Args:
        item: Its object.
        depth: The number of types around it.

    Raises:
        FormatError: An entry is missing or of the wrong type.
        UnsupportedError: The type is not known.
    """
    fields = item.value
    type_ = type_from_json(fields.get("type"), item, "type", depth)
    initial, write = fields.get("initial-default"), fields.get("write-default")
    return NestedField(
        item.integer("id"),
        item.text("name"),
        type_,
        item.boolean("required"),
        item.text("doc", None),
        None if initial is None else value_from_json(type_, initial, item.path("initial-default")),
        None if write is None else value_from_json(type_, write, item.path("write-default")),
        item.unknown(_FIELD_NAMES) if len(fields) > 4 else {},
    )


def field_to_json(field: NestedField) -> dict[str, Any]:
    """A field as in metadata."""
    found: dict[str, Any] = {
        "id": field.field_id,
        "name": field.name,
        "required": field.required,
        "type": type_to_json(field.field_type),
    }
    if field.doc is not None:
        found["doc"] = field.doc
    if field.initial_default is not None:
        found["initial-default"] = value_to_json(field.field_type, field.initial_default)
    if field.write_default is not None:
        found["write-default"] = value_to_json(field.field_type, field.write_default)
    found.update(field.unknown)
    return found


def type_from_json(value: Any, item: JsonObject, name: str, depth: int = 0) -> IcebergType:
    """Read a type.

    Args:
        value: Its decoded JSON: a name or an object.
        item: The object that has it, for messages.
        name: Its name there.
        depth: The number of types around it.

    Raises:
        FormatError: An entry is missing or of the wrong type.
        UnsupportedError: The type is not known, or nested too deeply.
    """
    if isinstance(value, str):
        try:
            return parse_type(value)
        except (FormatError, UnsupportedError) as error:
            error.message = f"{item.path(name)}: {error.message}"
            raise
    if not isinstance(value, dict):
        raise item.unexpected(name, "a type")
    if depth == _MAX_DEPTH:
        raise UnsupportedError(f"columns with more than {_MAX_DEPTH} types within each other are not supported")
    depth += 1
    inner = JsonObject(value, item.path(name), _RULE)
    match inner.text("type"):
        case "struct":
            fields = [field_from_json(one, depth) for one in inner.objects("fields", required=True)]
            return StructType(*fields, unknown=inner.unknown(_STRUCT_NAMES))
        case "list":
            return ListType(
                inner.integer("element-id"),
                type_from_json(value.get("element"), inner, "element", depth),
                inner.boolean("element-required"),
                inner.unknown(_LIST_NAMES),
            )
        case "map":
            return MapType(
                inner.integer("key-id"),
                type_from_json(value.get("key"), inner, "key", depth),
                inner.integer("value-id"),
                type_from_json(value.get("value"), inner, "value", depth),
                inner.boolean("value-required"),
                inner.unknown(_MAP_NAMES),
            )
        case _:
            raise inner.unexpected("type", "struct, list or map")


def type_to_json(type_: IcebergType) -> Any:
    """A type as in metadata."""
    if isinstance(type_, StructType):
        return {"type": "struct", "fields": [field_to_json(field) for field in type_.fields], **type_.unknown}
    if isinstance(type_, ListType):
        return {
            "type": "list",
            "element-id": type_.element_id,
            "element-required": type_.element_required,
            "element": type_to_json(type_.element_type),
            **type_.unknown,
        }
    if isinstance(type_, MapType):
        return {
            "type": "map",
            "key-id": type_.key_id,
            "key": type_to_json(type_.key_type),
            "value-id": type_.value_id,
            "value-required": type_.value_required,
            "value": type_to_json(type_.value_type),
            **type_.unknown,
        }
    return str(type_)
