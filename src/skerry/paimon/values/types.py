"""Paimon's data types, and their text and JSON forms.

A type is text (`DECIMAL(10, 2) NOT NULL`) or, if nested, a JSON object whose `type` is such text.

Spec: docs/formats/paimon.md § 2.2, § 2.3; Paimon spec, Schema.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, TypeAlias

from skerry.errors import FormatError, UnsupportedError

__all__ = [
    "MAX_LENGTH",
    "ArrayType",
    "AtomicType",
    "DataField",
    "MapType",
    "MultisetType",
    "PaimonType",
    "RowType",
    "TypeRoot",
    "VectorType",
    "decode_field",
    "decode_type",
    "encode_field",
    "encode_type",
    "field_ids",
    "types_within",
    "with_fresh_ids",
]

MAX_LENGTH: Final = 2**31 - 1
"""The length of `STRING` and `BYTES`."""

_RULE = "docs/formats/paimon.md § 2.2"


class TypeRoot(Enum):
    """Types without nested types; the member's value is the name with which the text begins."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    VARIANT = "VARIANT"
    BLOB = "BLOB"


@dataclass(frozen=True, slots=True)
class AtomicType:
    """A type without nested types.

    Args:
        root: Which type.
        nullable: Whether nulls are allowed.
        length: Characters of CHAR and VARCHAR, bytes of BINARY and VARBINARY; 0 for others.
        precision: Digits of DECIMAL, fractional digits of TIME and timestamps; 0 for others.
        scale: Digits after the decimal point of DECIMAL; 0 for others.
    """

    root: TypeRoot
    nullable: bool = True
    length: int = 0
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return _text(self) + _suffix(self)


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A list of elements."""

    element: PaimonType
    nullable: bool = True

    def __str__(self) -> str:
        return f"ARRAY<{self.element}>{_suffix(self)}"


@dataclass(frozen=True, slots=True)
class MultisetType:
    """Elements with their number of occurrences; stored as a map from element to INT NOT NULL."""

    element: PaimonType
    nullable: bool = True

    def __str__(self) -> str:
        return f"MULTISET<{self.element}>{_suffix(self)}"

    @property
    def as_map(self) -> MapType:
        """The map as which it is stored."""
        return MapType(self.element, AtomicType(TypeRoot.INT, nullable=False), self.nullable)


@dataclass(frozen=True, slots=True)
class MapType:
    """Values by key."""

    key: PaimonType
    value: PaimonType
    nullable: bool = True

    def __str__(self) -> str:
        return f"MAP<{self.key}, {self.value}>{_suffix(self)}"


@dataclass(frozen=True, slots=True)
class RowType:
    """A record within a column."""

    fields: tuple[DataField, ...]
    nullable: bool = True

    def __str__(self) -> str:
        members = ", ".join(f"{field.name} {field.type}" for field in self.fields)
        return f"ROW<{members}>{_suffix(self)}"


@dataclass(frozen=True, slots=True)
class VectorType:
    """A fixed number of numbers.

    Args:
        element: Type of each: BOOLEAN, an integer or a floating-point type.
        length: How many.
        nullable: Whether nulls are allowed.
    """

    element: AtomicType
    length: int
    nullable: bool = True

    def __str__(self) -> str:
        return f"VECTOR<{self.element}, {self.length}>{_suffix(self)}"


PaimonType: TypeAlias = AtomicType | ArrayType | MultisetType | MapType | RowType | VectorType


@dataclass(frozen=True, slots=True)
class DataField:
    """A column, or a member of a ROW.

    Args:
        id: Identifies it across renames.
        name: Its name.
        type: Its type.
        description: Its description.
        default_value: The value that writers use if they have none, as text.
    """

    id: int
    name: str
    type: PaimonType
    description: str | None = None
    default_value: str | None = None


def field_ids(field: DataField) -> Iterator[int]:
    """The id of a column and of every member of the ROWs in it."""
    yield field.id
    stack: list[PaimonType] = [field.type]
    while stack:
        match stack.pop():
            case RowType(fields):
                for member in fields:
                    yield member.id
                    stack.append(member.type)
            case ArrayType(element) | MultisetType(element):
                stack.append(element)
            case MapType(key, value):
                stack += (key, value)


def types_within(type_: PaimonType) -> Iterator[AtomicType | VectorType]:
    """The types of values that have no parts of their own: the type itself, or those nested in it."""
    stack = [type_]
    while stack:
        match stack.pop():
            case RowType(fields):
                stack += (member.type for member in fields)
            case ArrayType(element) | MultisetType(element):
                stack.append(element)
            case MapType(key, value):
                stack += (key, value)
            case AtomicType() | VectorType() as found:
                yield found


def with_fresh_ids(type_: PaimonType, next_id: Callable[[], int]) -> PaimonType:
    """A type in which the members of ROWs have new ids, depth first."""
    match type_:
        case AtomicType() | VectorType():
            return type_
        case ArrayType(element) | MultisetType(element):
            return replace(type_, element=with_fresh_ids(element, next_id))
        case MapType(key, value):
            return replace(type_, key=with_fresh_ids(key, next_id), value=with_fresh_ids(value, next_id))
        case RowType(fields):
            members = []
            for field in fields:
                number = next_id()
                members.append(replace(field, id=number, type=with_fresh_ids(field.type, next_id)))
            return replace(type_, fields=tuple(members))


# Text ---------------------------------------------------------------------------------------------------------------

_NOT_NULL = " NOT NULL"
_TIMESTAMP_PRECISION, _DECIMAL_PRECISION = 6, 10
_ZONES = {"": False, "WITHOUT TIME ZONE": False, "WITH LOCAL TIME ZONE": True}
_TEXT = re.compile(r"([A-Z_]+)\s*(?:\(\s*(\d{1,10})\s*(?:,\s*(\d{1,10})\s*)?\))?\s*([A-Z ]*)")
_MAX_DEPTH = 100

_ALIASES = {
    "INTEGER": TypeRoot.INT,
    "DEC": TypeRoot.DECIMAL,
    "NUMERIC": TypeRoot.DECIMAL,
    "STRING": TypeRoot.VARCHAR,
    "BYTES": TypeRoot.VARBINARY,
}
_UNBOUNDED = {"STRING", "BYTES"}
_UNSUPPORTED = {"BLOB_REF", "BLOB_DESCRIPTOR", "BLOB_VIEW"}
_LENGTHS = {TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY}
_FRACTIONS = {TypeRoot.TIME: 0, TypeRoot.TIMESTAMP: _TIMESTAMP_PRECISION, TypeRoot.TIMESTAMP_LTZ: _TIMESTAMP_PRECISION}


def _suffix(type_: PaimonType) -> str:
    return "" if type_.nullable else _NOT_NULL


def _text(type_: AtomicType) -> str:
    root = type_.root
    if root in _LENGTHS:
        if type_.length == MAX_LENGTH and root in (TypeRoot.VARCHAR, TypeRoot.VARBINARY):
            return "STRING" if root is TypeRoot.VARCHAR else "BYTES"
        return f"{root.value}({type_.length})"
    if root is TypeRoot.DECIMAL:
        return f"DECIMAL({type_.precision}, {type_.scale})"
    if root is TypeRoot.TIMESTAMP_LTZ:
        return f"TIMESTAMP({type_.precision}) WITH LOCAL TIME ZONE"
    return f"{root.value}({type_.precision})" if root in _FRACTIONS else root.value


def _atomic(text: str) -> AtomicType:
    """Parse a type's text.

    Raises:
        FormatError: It is not a valid type.
        UnsupportedError: The type is not supported.
    """
    plain = " ".join(text.upper().split())
    nullable = not plain.endswith(_NOT_NULL)
    plain = plain.removesuffix(_NOT_NULL).removesuffix(" NULL")
    match = _TEXT.fullmatch(plain)
    if match is None:
        raise FormatError(f"{text!r} is not a valid data type", rule=_RULE)
    name, first, second, zone = match.groups()
    if name in _UNSUPPORTED:
        raise UnsupportedError(f"Paimon type {text!r} is not supported")
    root = _ALIASES.get(name) or TypeRoot.__members__.get(name)
    if root is None or (zone and (name != "TIMESTAMP" or zone not in _ZONES)):
        raise FormatError(f"{text!r} is not a valid data type", rule=_RULE)
    if root is TypeRoot.TIMESTAMP and _ZONES[zone]:
        root = TypeRoot.TIMESTAMP_LTZ
    type_ = _with_numbers(root, nullable, name in _UNBOUNDED, first, second)
    if type_ is None:
        raise FormatError(f"{text!r} is not a valid data type", rule=_RULE)
    return type_


def _with_numbers(
    root: TypeRoot, nullable: bool, unbounded: bool, first: str | None, second: str | None
) -> AtomicType | None:
    """The type with the numbers in its parentheses, or the defaults; None if it cannot have them."""
    if root is TypeRoot.DECIMAL:
        precision, scale = int(first or _DECIMAL_PRECISION), int(second or 0)
        fits = 1 <= precision <= 38 and scale <= precision
        return AtomicType(root, nullable, precision=precision, scale=scale) if fits else None
    if second is not None:
        return None
    if root in _LENGTHS:
        if unbounded:
            return AtomicType(root, nullable, length=MAX_LENGTH) if first is None else None
        length = int(first or 1)
        return AtomicType(root, nullable, length=length) if 1 <= length <= MAX_LENGTH else None
    if root in _FRACTIONS:
        precision = _FRACTIONS[root] if first is None else int(first)
        return AtomicType(root, nullable, precision=precision) if precision <= 9 else None
    return AtomicType(root, nullable) if first is None else None


# JSON ---------------------------------------------------------------------------------------------------------------


def decode_type(value: Any, *, location: str | None = None) -> PaimonType:
    """Decode a type from a schema file.

    Args:
        value: Text, or a mapping for a nested type.
        location: The file, for messages.

    Raises:
        FormatError: It is not a valid type.
        UnsupportedError: The type is not supported; the message names it.

    Spec: docs/formats/paimon.md § 2.1, § 2.3.
    """
    try:
        return _decode_type(value, 0)
    except (FormatError, UnsupportedError) as error:
        error.location = location
        raise


def decode_field(value: Any, *, location: str | None = None) -> DataField:
    """Decode a column of a schema file, or a member of a ROW.

    Raises:
        FormatError: It is not valid.
        UnsupportedError: Its type is not supported.
    """
    try:
        return _decode_field(value, 0)
    except (FormatError, UnsupportedError) as error:
        error.location = location
        raise


def _decode_field(value: Any, depth: int) -> DataField:
    if not isinstance(value, Mapping):
        raise FormatError(f"a field must be an object, found {value!r:.80}", rule=_RULE)
    number, name = value.get("id"), value.get("name")
    if not isinstance(number, int) or isinstance(number, bool) or not -(2**31) <= number < 2**31:
        raise FormatError(f"a field's id must be a 32-bit integer, found {number!r:.80}", rule=_RULE)
    if not isinstance(name, str):
        raise FormatError(f"field {number} must have a name, found {name!r:.80}", rule=_RULE)
    try:
        type_ = _decode_type(value.get("type"), depth)
    except (FormatError, UnsupportedError) as error:
        error.message = f"column {name!r}: {error.message}"
        raise
    return DataField(number, name, type_, _optional_text(value, "description"), _optional_text(value, "defaultValue"))


def _optional_text(value: Mapping[str, Any], key: str) -> str | None:
    text = value.get(key)
    if text is not None and not isinstance(text, str):
        raise FormatError(f"a field's {key} must be text, found {text!r:.80}", rule=_RULE)
    return text


def _decode_type(value: Any, depth: int) -> PaimonType:
    if depth > _MAX_DEPTH:
        raise UnsupportedError(f"types nested more than {_MAX_DEPTH} deep are not supported")
    if isinstance(value, str):
        return _atomic(value)
    if not isinstance(value, Mapping) or not isinstance(value.get("type"), str):
        raise FormatError(f"a type must be text or an object with a `type`, found {value!r:.80}", rule=_RULE)
    text = " ".join(value["type"].upper().split())
    name, nullable = text.removesuffix(_NOT_NULL), not text.endswith(_NOT_NULL)
    decode = _NESTED.get(name)
    if decode is None:
        return _atomic(text)
    return replace(decode(value, depth + 1), nullable=nullable)


def _decode_row(value: Mapping[str, Any], depth: int) -> RowType:
    fields = value.get("fields")
    if not isinstance(fields, list):
        raise FormatError(f"a ROW must have a list of fields, found {fields!r:.80}", rule=_RULE)
    return RowType(tuple(_decode_field(field, depth) for field in fields))


_NUMBERS = {
    TypeRoot.BOOLEAN,
    TypeRoot.TINYINT,
    TypeRoot.SMALLINT,
    TypeRoot.INT,
    TypeRoot.BIGINT,
    TypeRoot.FLOAT,
    TypeRoot.DOUBLE,
}


def _decode_vector(value: Mapping[str, Any], depth: int) -> VectorType:
    element, length = _decode_type(value.get("element"), depth), value.get("length")
    if not isinstance(element, AtomicType) or element.root not in _NUMBERS:
        raise FormatError(f"a VECTOR must have numbers as elements, found {element}", rule=_RULE)
    if not isinstance(length, int) or isinstance(length, bool) or not 1 <= length <= MAX_LENGTH:
        raise FormatError(f"a VECTOR must have a length from 1 on, found {length!r:.80}", rule=_RULE)
    return VectorType(element, length)


_NESTED: dict[str, Callable[[Mapping[str, Any], int], ArrayType | MultisetType | MapType | RowType | VectorType]] = {
    "ARRAY": lambda value, depth: ArrayType(_decode_type(value.get("element"), depth)),
    "MULTISET": lambda value, depth: MultisetType(_decode_type(value.get("element"), depth)),
    "MAP": lambda value, depth: MapType(_decode_type(value.get("key"), depth), _decode_type(value.get("value"), depth)),
    "ROW": _decode_row,
    "VECTOR": _decode_vector,
}


def encode_type(type_: PaimonType) -> str | dict[str, Any]:
    """Encode a type for a schema file."""
    match type_:
        case AtomicType():
            return str(type_)
        case ArrayType(element):
            return {"type": "ARRAY" + _suffix(type_), "element": encode_type(element)}
        case MultisetType(element):
            return {"type": "MULTISET" + _suffix(type_), "element": encode_type(element)}
        case MapType(key, value):
            return {"type": "MAP" + _suffix(type_), "key": encode_type(key), "value": encode_type(value)}
        case VectorType(element, length):
            return {"type": "VECTOR" + _suffix(type_), "element": encode_type(element), "length": length}
        case RowType(fields):
            return {"type": "ROW" + _suffix(type_), "fields": [encode_field(field) for field in fields]}


def encode_field(field: DataField) -> dict[str, Any]:
    """Encode a column for a schema file."""
    found: dict[str, Any] = {"id": field.id, "name": field.name, "type": encode_type(field.type)}
    if field.description is not None:
        found["description"] = field.description
    if field.default_value is not None:
        found["defaultValue"] = field.default_value
    return found
