"""Default values that PyIceberg cannot read or write in metadata: of nanosecond timestamps, and of nested types.

PyIceberg looks conversions up by type; ours are added to its table when this module is imported. A nested default is
kept as JSON text: it is preserved when metadata is rewritten, and only a file without the column needs it.

Spec: Iceberg spec, JSON single-value serialization.
"""

from __future__ import annotations

import json
from typing import Any

from pyiceberg.conversions import from_json, to_json
from pyiceberg.types import (
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
)

from skerry.errors import SchemaError
from skerry.iceberg.metadata.arrow_schema import to_arrow_type
from skerry.table.predicate.literals import format_timestamp, parse_timestamp
from skerry.table.rows.values import physical_value

__all__ = ["checked_default"]


def _nanoseconds_from_json(type_: IcebergType, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    nanoseconds, zoned = parse_timestamp(value)
    if zoned is not isinstance(type_, TimestamptzNanoType):
        raise ValueError(f"the default {value!r} of type {type_} has {'a' if zoned else 'no'} zone")
    return nanoseconds


def _nanoseconds_to_json(type_: IcebergType, value: Any) -> Any:
    text = format_timestamp(value).replace(" ", "T")
    return f"{text}+00:00" if isinstance(type_, TimestamptzNanoType) else text


def _nested_from_json(type_: IcebergType, value: Any) -> Any:
    return value if isinstance(value, str) else json.dumps(value)


def _nested_to_json(type_: IcebergType, value: Any) -> Any:
    return json.loads(value)


for _types, _read, _write in (
    ((TimestampNanoType, TimestamptzNanoType), _nanoseconds_from_json, _nanoseconds_to_json),
    ((ListType, MapType, StructType), _nested_from_json, _nested_to_json),
):
    for _type in _types:
        from_json.register(_type)(_read)
        to_json.register(_type)(_write)


def checked_default(type_: IcebergType, value: Any, column: str) -> Any:
    """Convert a default to its form in metadata.

    Args:
        type_: The column's type, a primitive one.
        value: The default as a natural or physical value.
        column: The column's name, for messages.

    Returns:
        Its physical value.

    Raises:
        SchemaError: It does not fit the type, or JSON has no such value: NaN, infinities, years that PyIceberg's
            readers do not support.
    """
    physical = physical_value(to_arrow_type(type_), value)
    try:
        field = NestedField(1, "_", type_, initial_default=physical)
        read = NestedField.model_validate_json(field.model_dump_json()).initial_default
        kept = read is not None and physical_value(to_arrow_type(type_), read) == physical
    except (ValueError, OverflowError, TypeError) as error:
        raise SchemaError(f"column {column!r}: metadata cannot store the default {value!r}: {error}") from error
    if not kept:
        raise SchemaError(f"column {column!r}: metadata cannot store the default {value!r} of type {type_}")
    return physical
