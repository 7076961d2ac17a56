"""Conversion between Paimon's and Arrow's types, including field ids; unsupported types raise an error that names them.

`docs/types.md` is this module as a table.

Spec: docs/formats/paimon.md § 2.2, § 2.3, § 8.3.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from skerry.errors import SchemaError, SkerryError
from skerry.paimon.values.types import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataField,
    MapType,
    MultisetType,
    PaimonType,
    RowType,
    TypeRoot,
    VectorType,
)
from skerry.table.rows.schema import (
    FIELD_ID_KEY,
    LARGE_OBJECT_KEY,
    NULL_DEFAULT_KEY,
    WRITE_DEFAULT_KEY,
    field_id,
    is_list,
)
from skerry.table.rows.value_limits import FRACTION_DIGITS_KEY, MAX_LENGTH_KEY
from skerry.table.rows.values import decode_value, encode_value
from skerry.variant import VARIANT, is_variant
from skerry.wkb import shapes_of, shapes_type

__all__ = [
    "DOC_KEY",
    "VECTOR_KEY",
    "arrow_field",
    "arrow_type",
    "check_default",
    "identified_fields",
    "to_arrow_schema",
    "to_paimon_fields",
    "to_paimon_type",
]

DOC_KEY = b"doc"
"""Metadata key of a field's description."""
VECTOR_KEY = b"skerry:vector"
"""Metadata key of lists of a fixed length that are stored as VECTOR."""

_NESTED_ID_BASE: Final = 536_870_911
_IDS_PER_COLUMN: Final = 1024

_PLAIN: Final[dict[TypeRoot, pa.DataType]] = {
    TypeRoot.BOOLEAN: pa.bool_(),
    TypeRoot.TINYINT: pa.int8(),
    TypeRoot.SMALLINT: pa.int16(),
    TypeRoot.INT: pa.int32(),
    TypeRoot.BIGINT: pa.int64(),
    TypeRoot.FLOAT: pa.float32(),
    TypeRoot.DOUBLE: pa.float64(),
    TypeRoot.DATE: pa.date32(),
    TypeRoot.TIME: pa.time32("ms"),
    TypeRoot.CHAR: pa.string(),
    TypeRoot.VARCHAR: pa.string(),
    TypeRoot.BINARY: pa.binary(),
    TypeRoot.VARBINARY: pa.binary(),
    TypeRoot.VARIANT: VARIANT,
    TypeRoot.BLOB: pa.large_binary(),
}


# Paimon to Arrow ----------------------------------------------------------------------------------------------------


def to_arrow_schema(fields: Sequence[DataField]) -> pa.Schema:
    """The Arrow schema of columns: ids at every depth, `nullable` as declared, descriptions in the metadata."""
    return pa.schema([arrow_field(field) for field in fields])


def arrow_field(field: DataField) -> pa.Field:
    """The Arrow field of a column."""
    metadata = {FIELD_ID_KEY: str(field.id).encode(), **_limits(field.type)}
    if field.description is not None:
        metadata[DOC_KEY] = field.description.encode()
    if isinstance(field.type, VectorType):
        metadata[VECTOR_KEY] = b"true"
    elif isinstance(field.type, AtomicType) and field.type.root is TypeRoot.BLOB:
        metadata[LARGE_OBJECT_KEY] = b"true"
    if field.default_value is not None:
        metadata[WRITE_DEFAULT_KEY] = check_default(field)
        metadata[NULL_DEFAULT_KEY] = b"true"  # Java's writer replaces nulls with it
    return pa.field(field.name, arrow_type(field.type, field.id), nullable=field.type.nullable, metadata=metadata)


def check_default(field: DataField) -> bytes:
    """Encode the default value of a column by single-value serialisation.

    Raises:
        SchemaError: It is not a value of the column's type, or the type cannot have defaults.
    """
    type_ = arrow_type(field.type)
    if pa.types.is_nested(type_):
        raise SchemaError(f"column {field.name!r} of type {field.type} cannot have a default value")
    text = pa.array([field.default_value], pa.string())
    try:
        value = (text.cast(pa.binary()) if pa.types.is_binary(type_) else text.cast(type_))[0]
        return encode_value(type_, value)
    except (pa.ArrowException, SchemaError) as error:
        raise SchemaError(f"default value {field.default_value!r} is not a valid {field.type}") from error


def arrow_type(type_: PaimonType, column_id: int = 0, depth: int = 0) -> pa.DataType:
    """The Arrow type of a Paimon type.

    Args:
        type_: The type.
        column_id: Id of the column, from which elements, keys and values get theirs.
        depth: Number of lists and maps of that column around it.

    Spec: docs/formats/paimon.md § 8.3.
    """
    depth += 1
    match type_:
        case AtomicType():
            return _arrow_atomic(type_)
        case ArrayType(element):
            return pa.list_(_nested("element", element, column_id, depth, 1))
        case MultisetType():
            return arrow_type(type_.as_map, column_id, depth - 1)
        case MapType(key, value):
            key_field = _nested("key", key, column_id, depth, -1).with_nullable(False)
            return pa.map_(key_field, _nested("value", value, column_id, depth, 1))
        case VectorType(element, length):
            return pa.list_(_nested("element", element, column_id, depth, 1), length)
        case RowType(fields):
            return pa.struct([arrow_field(field) for field in fields])


def _nested(name: str, type_: PaimonType, column_id: int, depth: int, sign: int) -> pa.Field:
    number = _NESTED_ID_BASE + sign * (_IDS_PER_COLUMN * column_id + depth)
    metadata = {FIELD_ID_KEY: str(number).encode(), **_limits(type_)}
    return pa.field(name, arrow_type(type_, column_id, depth), nullable=type_.nullable, metadata=metadata)


def _limits(type_: PaimonType) -> dict[bytes, bytes]:
    """Limits of a type's values that its Arrow type does not express, as metadata of a field."""
    if not isinstance(type_, AtomicType):
        return {}
    if type_.root in _SIZED and type_.length < MAX_LENGTH:
        return {MAX_LENGTH_KEY: str(type_.length).encode()}
    if type_.root in _TIMES and type_.precision < _FRACTION_DIGITS[_arrow_atomic(type_).unit]:
        return {FRACTION_DIGITS_KEY: str(type_.precision).encode()}
    return {}


_SIZED: Final = (TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY)
_TIMES: Final = (TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


def timestamp_unit(precision: int) -> str:
    """The Arrow unit for timestamps of a precision."""
    return ("s", "ms", "us", "ns")[(precision + 2) // 3]


def _arrow_atomic(type_: AtomicType) -> pa.DataType:
    if type_.root is TypeRoot.DECIMAL:
        return pa.decimal128(type_.precision, type_.scale)
    if type_.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        zone = "UTC" if type_.root is TypeRoot.TIMESTAMP_LTZ else None
        return pa.timestamp(timestamp_unit(type_.precision), zone)
    return _PLAIN[type_.root]


# Arrow to Paimon ----------------------------------------------------------------------------------------------------

_TO_PAIMON: Final[dict[pa.DataType, AtomicType]] = {
    pa.bool_(): AtomicType(TypeRoot.BOOLEAN),
    pa.int8(): AtomicType(TypeRoot.TINYINT),
    pa.date32(): AtomicType(TypeRoot.DATE),
    pa.date64(): AtomicType(TypeRoot.DATE),
    pa.float64(): AtomicType(TypeRoot.DOUBLE),
    pa.time32("s"): AtomicType(TypeRoot.TIME),
    **dict.fromkeys((pa.int16(), pa.uint8()), AtomicType(TypeRoot.SMALLINT)),
    **dict.fromkeys((pa.int32(), pa.uint16()), AtomicType(TypeRoot.INT)),
    **dict.fromkeys((pa.int64(), pa.uint32()), AtomicType(TypeRoot.BIGINT)),
    **dict.fromkeys((pa.float16(), pa.float32()), AtomicType(TypeRoot.FLOAT)),
    **dict.fromkeys((pa.time32("ms"), pa.time64("us"), pa.time64("ns")), AtomicType(TypeRoot.TIME, precision=3)),
    **dict.fromkeys(
        (pa.string(), pa.large_string(), pa.string_view()), AtomicType(TypeRoot.VARCHAR, length=MAX_LENGTH)
    ),
    **dict.fromkeys(
        (pa.binary(), pa.large_binary(), pa.binary_view()), AtomicType(TypeRoot.VARBINARY, length=MAX_LENGTH)
    ),
}
_REFUSED: Final[dict[int, str]] = {
    pa.uint64().id: "values from 2^63 on do not fit any Paimon integer; cast to int64 or decimal(20, 0)",
    pa.duration("us").id: "Paimon has no durations; cast to int64",
    pa.month_day_nano_interval().id: "Paimon has no intervals; split it into integer columns",
    pa.null().id: "Paimon has no type for columns without values; cast to the intended type",
}
_FRACTION_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def to_paimon_fields(schema: pa.Schema, *, first_id: int = 0) -> tuple[DataField, ...]:
    """The columns of Arrow data.

    Args:
        schema: Any Arrow schema.
        first_id: Id of the first column; a column's id comes before those of the ROWs in it.

    Raises:
        SchemaError: A type has no Paimon counterpart, or a name is used twice; the message names the column.

    Spec: docs/formats/paimon.md § 2.4.
    """
    count = itertools.count(first_id)
    return _fields(list(schema), lambda: next(count), ())


def identified_fields(schema: pa.Schema) -> tuple[DataField, ...]:
    """The columns of an Arrow schema that has field ids, which are kept.

    Ids of elements, keys and values are ignored, since Paimon has none for them. Write defaults are kept if Paimon has
    a text form for them.

    Args:
        schema: With field ids at every depth.

    Raises:
        SchemaError: As `to_paimon_fields`; or a field has no id.
    """
    ids = _ids_of(list(schema))
    fields = _fields(list(schema), lambda: next(ids), ())
    return tuple(_with_default(field, column.metadata) for field, column in zip(fields, schema, strict=True))


def _ids_of(fields: Sequence[pa.Field]) -> Iterator[int]:
    """The ids of columns and of members of structs, in the order in which `to_paimon_fields` assigns them."""
    for field in fields:
        yield field_id(field)
        yield from _ids_within(field.type)


def _ids_within(type_: pa.DataType) -> Iterator[int]:
    type_ = _plain(type_)
    if is_variant(type_):
        return
    if pa.types.is_struct(type_):
        yield from _ids_of(list(type_))
    elif pa.types.is_map(type_):
        yield from _ids_within(type_.key_type)
        yield from _ids_within(type_.item_type)
    elif is_list(type_):
        yield from _ids_within(type_.value_type)


def _with_default(field: DataField, metadata: Mapping[bytes, bytes]) -> DataField:
    """A column with the default of its Arrow field, if Paimon can express it."""
    value = metadata.get(WRITE_DEFAULT_KEY)
    if value is None:
        return field
    type_ = arrow_type(field.type)
    try:
        text = pa.array([decode_value(type_, value)], type_).cast(pa.string())[0].as_py()
        found = replace(field, default_value=text)
        return found if check_default(found) == value else field
    except (pa.ArrowException, SkerryError):
        return field


def to_paimon_type(type_: pa.DataType, next_id: Callable[[], int], *, path: tuple[str, ...] = ()) -> PaimonType:
    """The Paimon type of an Arrow type, nullable.

    Args:
        type_: The type.
        next_id: Returns the ids of members of structs, depth first.
        path: The column, for messages.

    Raises:
        SchemaError: It has no counterpart.
    """
    type_ = _plain(type_)
    if is_variant(type_):
        return AtomicType(TypeRoot.VARIANT)
    if shapes_of(pa.field(".".join(path), type_)) is not None:
        raise SchemaError(
            f"column {'.'.join(path)!r}: Paimon has no type for shapes; cast it to binary without metadata"
        )
    if pa.types.is_struct(type_):
        return RowType(_fields(list(type_), next_id, path))
    if pa.types.is_map(type_):
        key = _nullable(to_paimon_type(shapes_type(type_.key_field), next_id, path=(*path, "key")), False)
        value = to_paimon_type(shapes_type(type_.item_field), next_id, path=(*path, "value"))
        return MapType(key, _nullable(value, type_.item_field.nullable))
    if is_list(type_):
        element = to_paimon_type(shapes_type(type_.value_field), next_id, path=(*path, "element"))
        return ArrayType(_nullable(element, type_.value_field.nullable))
    return _atomic(type_, path)


def _fields(fields: list[pa.Field], next_id: Callable[[], int], path: tuple[str, ...]) -> tuple[DataField, ...]:
    def walk() -> Iterator[DataField]:
        taken: set[str] = set()
        for field in fields:
            place = (*path, field.name)
            if field.name in taken:
                raise SchemaError(f"{_column(place)}the name is used twice")
            taken.add(field.name)
            number = next_id()
            found = _marked_type(field, place) or to_paimon_type(shapes_type(field), next_id, path=place)
            type_ = _nullable(found, field.nullable)
            doc = (field.metadata or {}).get(DOC_KEY)
            yield DataField(number, field.name, type_, None if doc is None else doc.decode())

    return tuple(walk())


def _marked_type(field: pa.Field, path: tuple[str, ...]) -> PaimonType | None:
    """The type of a field whose metadata names it; None if it does not.

    Raises:
        SchemaError: The Arrow type does not fit it.
    """
    type_, marks = _plain(field.type), field.metadata or {}
    if LARGE_OBJECT_KEY in marks:
        if any(is_bytes(type_) for is_bytes in _BYTES):
            return AtomicType(TypeRoot.BLOB)
        raise SchemaError(f"{_column(path)}Arrow type {type_} cannot be stored as BLOB, which must be binary")
    if VECTOR_KEY not in marks:
        return None
    if pa.types.is_fixed_size_list(type_) and type_.value_type in _VECTOR_ELEMENTS:
        element = _nullable(_atomic(type_.value_type, (*path, "element")), type_.value_field.nullable)
        assert isinstance(element, AtomicType)
        return VectorType(element, type_.list_size)
    raise SchemaError(
        f"{_column(path)}Arrow type {type_} cannot be stored as VECTOR, which must be a list of a fixed number of "
        "booleans, integers or floating-point numbers"
    )


_BYTES: Final = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
_VECTOR_ELEMENTS: Final = (
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
)


def _nullable(type_: PaimonType, nullable: bool) -> PaimonType:
    return type_ if type_.nullable == nullable else replace(type_, nullable=nullable)


def _plain(type_: pa.DataType) -> pa.DataType:
    """The value type of a dictionary or run-end encoding."""
    while pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        type_ = type_.value_type
    return type_


def _atomic(type_: pa.DataType, path: tuple[str, ...]) -> AtomicType:
    found = _TO_PAIMON.get(type_)
    if found is not None:
        return found
    if pa.types.is_timestamp(type_):
        root = TypeRoot.TIMESTAMP if type_.tz is None else TypeRoot.TIMESTAMP_LTZ
        return AtomicType(root, precision=_FRACTION_DIGITS[type_.unit])
    if pa.types.is_decimal(type_):
        if type_.precision > 38 or not 0 <= type_.scale <= type_.precision:
            raise SchemaError(
                f"{_column(path)}Arrow type {type_} cannot be stored: Paimon has at most 38 digits, and the scale must "
                "be 0 to the precision"
            )
        return AtomicType(TypeRoot.DECIMAL, precision=type_.precision, scale=type_.scale)
    if pa.types.is_fixed_size_binary(type_) and type_.byte_width > 0:
        return AtomicType(TypeRoot.BINARY, length=type_.byte_width)
    reason = _REFUSED.get(type_.id, "Paimon has no such type")
    raise SchemaError(f"{_column(path)}Arrow type {type_} cannot be stored: {reason}")


def _column(path: tuple[str, ...]) -> str:
    return f"column {'.'.join(path)!r}: " if path else ""
