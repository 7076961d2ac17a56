"""Conversion between Iceberg and Arrow schemas with field ids; anything that would be lost is an error.

`docs/types.md` shows this module as a table. Arrow types without an Iceberg counterpart (unsigned 64-bit integers,
durations, unions, …) are refused with the column's name; types that are only widened (int8 → int) or differ in layout
(dictionaries, large and view types) are accepted. Whether values fit a coarser unit is checked by
`skerry.table.rows.incoming`.

Spec: Iceberg spec, Schemas and Data Types, Appendix E (the version that added a type).
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Sequence

import pyarrow as pa

from skerry.errors import SchemaError, UnsupportedError
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.types import (
    DEFAULT_CRS,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
    VariantType,
)
from skerry.table.rows.default_arrays import encode_default
from skerry.table.rows.schema import FIELD_ID_KEY, WRITE_DEFAULT_KEY, is_list, nearest
from skerry.variant import VARIANT, is_variant
from skerry.wkb import PLANAR, Shapes, marked, shapes_of, shapes_type

__all__ = ["DOC_KEY", "to_arrow_schema", "to_arrow_type", "to_iceberg_schema", "to_iceberg_type"]

DOC_KEY = b"doc"
"""Metadata key of a field's documentation (the one PyIceberg uses)."""

_MAX_FIELD_ID = 2**31 - 1 - 200  # Iceberg spec, Reserved Field IDs
_VERSION_WITH_NANOSECONDS = 3
_VERSION_WITH_UNKNOWN = 3
_VERSION_WITH_VARIANT = 3
_VERSION_WITH_SHAPES = 3
_NO_CRS = "srid:0"

_TO_ARROW: dict[IcebergType, pa.DataType] = {
    UnknownType(): pa.null(),
    BooleanType(): pa.bool_(),
    IntegerType(): pa.int32(),
    LongType(): pa.int64(),
    FloatType(): pa.float32(),
    DoubleType(): pa.float64(),
    DateType(): pa.date32(),
    TimeType(): pa.time64("us"),
    TimestampType(): pa.timestamp("us"),
    TimestamptzType(): pa.timestamp("us", "UTC"),
    TimestampNanoType(): pa.timestamp("ns"),
    TimestamptzNanoType(): pa.timestamp("ns", "UTC"),
    StringType(): pa.string(),
    BinaryType(): pa.binary(),
    UUIDType(): pa.uuid(),
    VariantType(): VARIANT,
}

_TO_ICEBERG: dict[pa.DataType, IcebergType] = {
    pa.bool_(): BooleanType(),
    pa.float16(): FloatType(),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.int64(): LongType(),
    pa.uint32(): LongType(),
    pa.date32(): DateType(),
    pa.date64(): DateType(),
    pa.uuid(): UUIDType(),
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()), IntegerType()),
    **dict.fromkeys((pa.string(), pa.large_string(), pa.string_view()), StringType()),
    **dict.fromkeys((pa.binary(), pa.large_binary(), pa.binary_view()), BinaryType()),
    **dict.fromkeys((pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")), TimeType()),
}

_REFUSED: dict[int, str] = {
    pa.uint64().id: "values from 2^63 on do not fit any Iceberg integer; cast to int64 or decimal(20, 0)",
    pa.duration("us").id: "Iceberg has no durations; cast to int64",
    pa.month_day_nano_interval().id: "Iceberg has no intervals; split it into integer columns",
}


# Iceberg to Arrow ----------------------------------------------------------------------------------------------------


def to_arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of an Iceberg table: exact types, ids at every depth, `nullable` for optional fields.

    Columns of shapes are binary, with GeoArrow's mark in the field metadata. Docs are there under `doc`, write defaults
    in single-value serialisation under `WRITE_DEFAULT_KEY`.

    Raises:
        UnsupportedError: A type has no Arrow counterpart; the message names it and its column.
    """
    known = schema.remembered.get("arrow")
    if known is None:
        known = pa.schema([_to_arrow_field(field, (field.name,)) for field in schema.fields])
        schema.remembered["arrow"] = known
    found: pa.Schema = known
    return found


def to_arrow_type(type_: IcebergType, *, path: tuple[str, ...] = ()) -> pa.DataType:
    """The Arrow type of an Iceberg type, with ids on nested fields.

    Raises:
        UnsupportedError: Arrow has no counterpart; the message names the type and, given `path`, the column.
    """
    if isinstance(type_, StructType):
        return pa.struct([_to_arrow_field(field, (*path, field.name)) for field in type_.fields])
    if isinstance(type_, ListType):
        return pa.list_(_to_arrow_field(type_.element_field, (*path, "element")))
    if isinstance(type_, MapType):
        key = _to_arrow_field(type_.key_field, (*path, "key"))
        return pa.map_(key, _to_arrow_field(type_.value_field, (*path, "value")))
    if isinstance(type_, DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    if isinstance(type_, FixedType):
        return pa.binary(type_.length)
    if isinstance(type_, GeometryType | GeographyType):
        return pa.binary()
    arrow = _TO_ARROW.get(type_)
    if arrow is None:
        raise UnsupportedError(f"{_column(path)}Iceberg type {type_} is not supported")
    return arrow


def _to_arrow_field(field: NestedField, path: tuple[str, ...]) -> pa.Field:
    type_ = to_arrow_type(field.field_type, path=path)
    metadata = {FIELD_ID_KEY: str(field.field_id).encode()}
    if field.doc is not None:
        metadata[DOC_KEY] = field.doc.encode()
    if field.write_default is not None:
        typed = pa.field(field.name, type_, nullable=not field.required)
        with contextlib.suppress(SchemaError):  # an invalid default of others: null for a required field of a struct
            metadata[WRITE_DEFAULT_KEY] = encode_default(typed, field.write_default)
    found = pa.field(field.name, type_, nullable=not field.required, metadata=metadata)
    shapes = _shapes(field.field_type)
    return found if shapes is None else marked(found, shapes)


def _shapes(type_: IcebergType) -> Shapes | None:
    if isinstance(type_, GeographyType):
        return Shapes(type_.crs, type_.algorithm)
    if not isinstance(type_, GeometryType):
        return None
    return Shapes(None if type_.crs == _NO_CRS else type_.crs)


# Arrow to Iceberg ----------------------------------------------------------------------------------------------------


def to_iceberg_schema(schema: pa.Schema, *, format_version: int = 2, schema_id: int = 0) -> Schema:
    """The Iceberg schema of Arrow data.

    Ids are kept if every field at every depth has one; otherwise all are assigned, a struct's fields before those
    nested in them, as in Iceberg Java.

    Args:
        schema: Any Arrow schema.
        format_version: The table's; nanosecond timestamps become `timestamp_ns` from 3 on and `timestamp` before
            (values that would lose precision are refused when they are written).
        schema_id: The id of the resulting schema.

    Raises:
        SchemaError: A type without an Iceberg counterpart, duplicate names or ids; the column is named.
    """
    ids = _IdSource(schema)
    fields = _to_iceberg_fields(list(schema), format_version, ids, ())
    return Schema(*fields, schema_id=schema_id)


def with_identifier(schema: Schema, names: Sequence[str]) -> Schema:
    """A schema whose rows are identified by some of its columns, which become required.

    Raises:
        SchemaError: A column does not exist, is not top-level, or its type cannot identify a row.

    Spec: Iceberg spec, Identifier Field IDs.
    """
    if not names:
        return schema
    columns = {field.name: field for field in schema.fields}
    for name in names:
        if name not in columns:
            raise SchemaError(f"primary_key: no column {name!r}{nearest(name, columns)}")
        type_ = columns[name].field_type
        if not type_.is_primitive or isinstance(type_, FloatType | DoubleType | GeometryType | GeographyType):
            raise SchemaError(f"column {name!r} of type {type_} cannot be part of a primary key")
    fields = [dataclasses.replace(field, required=True) if field.name in names else field for field in schema.fields]
    identifier = [columns[name].field_id for name in names]
    return Schema(*fields, schema_id=schema.schema_id, identifier_field_ids=identifier)


def to_iceberg_type(type_: pa.DataType, *, format_version: int = 2) -> IcebergType:
    """The Iceberg type of an Arrow type; nested fields are numbered from 1 if they have no ids.

    Raises:
        SchemaError: The type has no Iceberg counterpart.
    """
    return _to_iceberg_type(type_, format_version, _IdSource(pa.schema([pa.field("_", type_)]), skip_root=True), ())


class _IdSource:
    """Field ids: those of the schema, if complete, otherwise counted from 1."""

    def __init__(self, schema: pa.Schema, *, skip_root: bool = False) -> None:
        fields = [child for field in schema for child in _nested(field.type)] if skip_root else list(schema)
        self.kept = bool(fields) and all(_has_ids(field) for field in fields)
        self._used: set[int] = set()
        self._count = itertools.count(1)

    def take(self, field: pa.Field, path: tuple[str, ...]) -> int:
        number = int(field.metadata[FIELD_ID_KEY]) if self.kept else next(self._count)
        if number > _MAX_FIELD_ID:
            raise SchemaError(f"{_column(path)}field id {number} is reserved", rule="Iceberg spec, Reserved Field IDs")
        if number in self._used:
            raise SchemaError(f"field id {number} is used twice")
        self._used.add(number)
        return number


def _has_ids(field: pa.Field) -> bool:
    text = (field.metadata or {}).get(FIELD_ID_KEY, b"")
    return text.isdigit() and all(_has_ids(child) for child in _nested(field.type))


def _nested(type_: pa.DataType) -> list[pa.Field]:
    type_ = _plain(type_)
    if is_variant(type_):
        return []
    if pa.types.is_struct(type_):
        return [type_.field(index) for index in range(type_.num_fields)]
    if pa.types.is_map(type_):
        return [type_.key_field, type_.item_field]
    return [type_.value_field] if is_list(type_) else []


def _plain(type_: pa.DataType) -> pa.DataType:
    """The type of the values behind a dictionary or run-end encoding."""
    while pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        type_ = type_.value_type
    return type_


def _to_iceberg_fields(
    fields: list[pa.Field], version: int, ids: _IdSource, path: tuple[str, ...]
) -> list[NestedField]:
    names: set[str] = set()
    for field in fields:
        if field.name in names:
            raise SchemaError(f"{_column((*path, field.name))}the name is used twice")
        names.add(field.name)
    numbers = [ids.take(field, (*path, field.name)) for field in fields]
    result = []
    for number, field in zip(numbers, fields, strict=True):
        doc = (field.metadata or {}).get(DOC_KEY)
        type_ = _to_iceberg_type(shapes_type(field), version, ids, (*path, field.name))
        text = None if doc is None else doc.decode()
        result.append(NestedField(number, field.name, type_, required=not field.nullable, doc=text))
    return result


def _to_iceberg_type(type_: pa.DataType, version: int, ids: _IdSource, path: tuple[str, ...]) -> IcebergType:
    type_ = _plain(type_)
    if is_variant(type_):
        return _variant(version, path)
    shapes = shapes_of(pa.field(".".join(path), type_))
    if shapes is not None:
        return _geospatial(shapes, version, path)
    if pa.types.is_struct(type_):
        if type_.num_fields == 0:
            raise SchemaError(f"{_column(path)}a struct without fields cannot be stored")
        return StructType(*_to_iceberg_fields(_nested(type_), version, ids, path))
    if pa.types.is_map(type_):
        key, value = _nested(type_)
        key_id, value_id = ids.take(key, (*path, "key")), ids.take(value, (*path, "value"))
        key_type = _to_iceberg_type(shapes_type(key), version, ids, (*path, "key"))
        value_type = _to_iceberg_type(shapes_type(value), version, ids, (*path, "value"))
        return MapType(key_id, key_type, value_id, value_type, value_required=not value.nullable)
    if is_list(type_):
        (element,) = _nested(type_)
        element_id = ids.take(element, (*path, "element"))
        element_type = _to_iceberg_type(shapes_type(element), version, ids, (*path, "element"))
        return ListType(element_id, element_type, element_required=not element.nullable)
    for accepts, convert in _PARAMETRIC:
        if accepts(type_):
            return convert(type_, version, path)
    found = _TO_ICEBERG.get(type_)
    if found is None:
        reason = _REFUSED.get(type_.id, "Iceberg has no such type")
        raise SchemaError(f"{_column(path)}Arrow type {type_} cannot be stored: {reason}")
    return found


def _timestamp(type_: pa.DataType, version: int, path: tuple[str, ...]) -> IcebergType:
    nanoseconds = type_.unit == "ns" and version >= _VERSION_WITH_NANOSECONDS
    if type_.tz is None:
        return TimestampNanoType() if nanoseconds else TimestampType()
    return TimestamptzNanoType() if nanoseconds else TimestamptzType()


def _decimal(type_: pa.DataType, version: int, path: tuple[str, ...]) -> IcebergType:
    if type_.precision > 38:
        raise SchemaError(f"{_column(path)}Arrow type {type_} cannot be stored: Iceberg has at most 38 digits")
    if not 0 <= type_.scale <= type_.precision:
        raise SchemaError(f"{_column(path)}Arrow type {type_} cannot be stored: the scale must be 0 to the precision")
    return DecimalType(type_.precision, type_.scale)


def _unknown(type_: pa.DataType, version: int, path: tuple[str, ...]) -> IcebergType:
    if version < _VERSION_WITH_UNKNOWN:
        raise SchemaError(
            f"{_column(path)}Arrow type null cannot be stored: Iceberg's unknown type needs format version "
            f"{_VERSION_WITH_UNKNOWN}, the table has {version}; cast the column"
        )
    return UnknownType()


def _variant(version: int, path: tuple[str, ...]) -> IcebergType:
    if version < _VERSION_WITH_VARIANT:
        raise SchemaError(
            f"{_column(path)}variants cannot be stored: Iceberg's variant type needs format version "
            f"{_VERSION_WITH_VARIANT}, the table has {version}"
        )
    return VariantType()


def _geospatial(shapes: Shapes, version: int, path: tuple[str, ...]) -> IcebergType:
    if version < _VERSION_WITH_SHAPES:
        raise SchemaError(
            f"{_column(path)}shapes cannot be stored: a column of type geometry or geography needs format version "
            f"{_VERSION_WITH_SHAPES}, the table has {version}"
        )
    if shapes.edges == PLANAR:
        return GeometryType(shapes.crs or _NO_CRS)
    return GeographyType(shapes.crs or DEFAULT_CRS, shapes.edges)


_PARAMETRIC: tuple[
    tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, int, tuple[str, ...]], IcebergType]], ...
] = (
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_fixed_size_binary, lambda type_, version, path: FixedType(type_.byte_width)),
    (pa.types.is_null, _unknown),
)


def _column(path: tuple[str, ...]) -> str:
    return f"column {'.'.join(path)!r}: " if path else ""
