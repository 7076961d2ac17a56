"""Avro schemas: JSON to a tree of types, with what a decoder needs for each type computed once.

Names are resolved, so that a named type used twice is one shared node. Attributes beyond Avro's own that Iceberg puts
into schemas (`field-id`, `element-id`, `key-id`, `value-id`, `adjust-to-utc`, `logicalType: map`) are kept.

Spec: Avro spec, Schema Declaration, Logical Types; Iceberg spec, Appendix A, Avro.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NoReturn, TypeAlias, TypeGuard

from skerry.errors import FormatError, UnsupportedError
from skerry.storage import decode_json

__all__ = [
    "Array",
    "AvroType",
    "Enumeration",
    "Fixed",
    "LogicalType",
    "Map",
    "Primitive",
    "PrimitiveKind",
    "Record",
    "RecordField",
    "Union",
    "decode_schema",
    "describe",
    "is_null",
    "record_of",
]

MAX_NODES: Final = 1 << 16
"""Most types that a schema may consist of, each use of a named type counted in full: a short schema of types that use
others twice could else expand without end."""
MAX_DEPTH: Final = 64


class PrimitiveKind(Enum):
    """Avro's primitive types."""

    NULL = "null"
    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BYTES = "bytes"
    STRING = "string"


@dataclass(frozen=True, slots=True)
class LogicalType:
    """What the values of a type mean.

    Args:
        name: Avro's name, such as `decimal` or `timestamp-micros`.
        precision: Digits of a decimal.
        scale: Digits after the point of a decimal.
        adjust_to_utc: Iceberg's attribute of timestamps; None where it is missing.
    """

    name: str
    precision: int = 0
    scale: int = 0
    adjust_to_utc: bool | None = None


@dataclass(frozen=True, slots=True)
class Primitive:
    """A primitive type."""

    kind: PrimitiveKind
    logical: LogicalType | None = None
    min_bytes: int = 1
    nodes: int = 1
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Fixed:
    """A fixed number of bytes."""

    name: str
    size: int
    logical: LogicalType | None = None
    nodes: int = 1
    depth: int = 1

    @property
    def min_bytes(self) -> int:
        """The size."""
        return self.size


@dataclass(frozen=True, slots=True)
class Enumeration:
    """One of several symbols, stored as its position."""

    name: str
    symbols: tuple[str, ...]
    min_bytes: int = 1
    nodes: int = 1
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Array:
    """A list; `is_map` if it is Iceberg's map, a list of key-value records."""

    items: AvroType
    element_id: int | None
    is_map: bool
    nodes: int
    depth: int
    min_bytes: int = 1


@dataclass(frozen=True, slots=True)
class Map:
    """A map from strings."""

    values: AvroType
    key_id: int | None
    value_id: int | None
    nodes: int
    depth: int
    min_bytes: int = 1


@dataclass(frozen=True, slots=True)
class Union:
    """One of several types, stored as its position and its value."""

    branches: tuple[AvroType, ...]
    nodes: int
    depth: int
    min_bytes: int

    @property
    def optional(self) -> AvroType | None:
        """The other type, if this is a union of it with null."""
        others = [branch for branch in self.branches if not is_null(branch)]
        return others[0] if len(self.branches) == 2 and len(others) == 1 else None

    @property
    def null_branch(self) -> int:
        """The position of null, -1 without it."""
        return next((i for i, branch in enumerate(self.branches) if is_null(branch)), -1)


@dataclass(frozen=True, slots=True)
class RecordField:
    """A field of a record."""

    name: str
    type: AvroType
    field_id: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """Named fields, stored one after the other."""

    name: str
    fields: tuple[RecordField, ...]
    nodes: int
    depth: int
    min_bytes: int


AvroType: TypeAlias = Primitive | Fixed | Enumeration | Array | Map | Union | Record


def record_of(top: AvroType) -> Record | None:
    """The record that the values of a file are, also where its schema lets them be null; None if they are not records.

    Paimon up to 0.8 writes the union of null and its record.
    """
    found = top.optional if isinstance(top, Union) else top
    return found if isinstance(found, Record) else None


def is_null(avro_type: AvroType) -> bool:
    """Whether a type is the null type."""
    return isinstance(avro_type, Primitive) and avro_type.kind is PrimitiveKind.NULL


def describe(avro_type: AvroType) -> str:
    """Name a type in messages."""
    if isinstance(avro_type, Primitive):
        return avro_type.kind.value
    if isinstance(avro_type, Union):
        return "[" + ", ".join(map(describe, avro_type.branches)) + "]"
    return avro_type.name if isinstance(avro_type, Record | Fixed | Enumeration) else type(avro_type).__name__.lower()


def decode_schema(text: str | bytes, *, location: str | None = None) -> AvroType:
    """Decode a schema.

    Args:
        text: JSON, in UTF-8 if bytes.
        location: The file it comes from, for messages.

    Returns:
        The type.

    Raises:
        FormatError: It is not JSON, or not a schema.
        UnsupportedError: It contains itself, nests deeper than 64 types, or has more than 65,536.

    Spec: Avro spec, Schema Declaration.
    """
    try:
        document = decode_json(text)
    except ValueError as error:
        raise FormatError(f"Avro schema is not JSON: {error}", location=location, rule=_RULE) from error
    try:
        return _Parser({}).parse(document, "")
    except FormatError as error:
        raise FormatError(error.message, location=location, rule=_RULE) from None
    except UnsupportedError as error:
        raise UnsupportedError(error.message, location=location, rule=_RULE) from None
    except RecursionError as error:
        raise UnsupportedError(
            f"Avro schema nests deeper than {MAX_DEPTH} types", location=location, rule=_RULE
        ) from error


_RULE: Final = "Avro spec, Schema Declaration"
_PRIMITIVES: Final = {kind.value: kind for kind in PrimitiveKind}
_MIN_BYTES: Final = {PrimitiveKind.NULL: 0, PrimitiveKind.FLOAT: 4, PrimitiveKind.DOUBLE: 8}
_LOGICAL_BASES: Final[dict[str, tuple[str, ...]]] = {
    "decimal": ("bytes", "fixed"),
    "uuid": ("string", "fixed"),
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "timestamp-nanos": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "local-timestamp-nanos": ("long",),
}


@dataclass(slots=True)
class _Parser:
    """Parses one schema. `named` holds the types by full name; None while a type's own fields are being parsed."""

    named: dict[str, AvroType | None] = field(default_factory=dict)

    def parse(self, value: Any, namespace: str) -> AvroType:
        if isinstance(value, str):
            return self._reference(value, namespace)
        if isinstance(value, list):
            return self.union(value, namespace)
        if not isinstance(value, dict):
            _refuse("a type name, list or object", value)
        kind = value.get("type")
        if isinstance(kind, (dict, list)):
            return self.parse(kind, namespace)
        if not isinstance(kind, str):
            _refuse("an object with a type", value)
        parse = _COMPLEX.get(kind)
        if parse is not None:
            return parse(self, value, namespace)
        if kind in _PRIMITIVES:
            return _primitive(_PRIMITIVES[kind], _logical(value, kind))
        return self._reference(kind, namespace)

    def _reference(self, name: str, namespace: str) -> AvroType:
        if name in _PRIMITIVES:
            return _primitive(_PRIMITIVES[name], None)
        full_name = name if "." in name or not namespace else f"{namespace}.{name}"
        if full_name not in self.named and name in self.named:
            full_name = name
        if full_name not in self.named:
            raise FormatError(f"Avro schema uses the type {name!r}, which it does not define before")
        found = self.named[full_name]
        if found is None:
            raise UnsupportedError(f"Avro type {full_name!r} contains itself; recursive types have no columns")
        return found

    def _define(self, value: dict[str, Any], namespace: str) -> tuple[str, str]:
        """Reserve the name of a record, enum or fixed; returns its full name and the namespace of what it contains."""
        name = value.get("name")
        if not isinstance(name, str) or not name:
            _refuse(f"a {value['type']} with a name", value)
        if "." not in name:
            own = value.get("namespace", namespace)
            name = f"{own}.{name}" if isinstance(own, str) and own else name
        if name in self.named or name in _PRIMITIVES:
            raise FormatError(f"Avro schema defines the type {name!r} twice")
        self.named[name] = None
        return name, name.rpartition(".")[0]

    def record(self, value: dict[str, Any], namespace: str) -> AvroType:
        full_name, inner = self._define(value, namespace)
        entries = value.get("fields")
        if not isinstance(entries, list):
            _refuse("a record with a list of fields", value)
        fields = []
        for entry in entries:
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or "type" not in entry:
                _refuse("a record field with name and type", entry)
            fields.append(RecordField(entry["name"], self.parse(entry["type"], inner), _id(entry, "field-id")))
        names = [entry.name for entry in fields]
        if len(set(names)) != len(names):
            raise FormatError(f"Avro record {full_name!r} has two fields of one name among {names!r}")
        types = [entry.type for entry in fields]
        record = Record(full_name, tuple(fields), *_sizes(types), min_bytes=sum(entry.min_bytes for entry in types))
        self.named[full_name] = record
        return record

    def enum(self, value: dict[str, Any], namespace: str) -> AvroType:
        full_name, _ = self._define(value, namespace)
        symbols = value.get("symbols")
        if not isinstance(symbols, list) or not symbols or not all(isinstance(symbol, str) for symbol in symbols):
            _refuse("an enum with a list of symbols", value)
        self.named[full_name] = enumeration = Enumeration(full_name, tuple(symbols))
        return enumeration

    def fixed(self, value: dict[str, Any], namespace: str) -> AvroType:
        full_name, _ = self._define(value, namespace)
        size = value.get("size")
        if not _is_integer(size) or not 0 <= size < 1 << 31:
            _refuse("a fixed with a size of 31 bits", value)
        logical = _logical(value, "fixed")
        if logical is not None and logical.name == "uuid" and size != 16:
            logical = None
        self.named[full_name] = fixed = Fixed(full_name, size, logical)
        return fixed

    def array(self, value: dict[str, Any], namespace: str) -> AvroType:
        items = self.parse(value.get("items"), namespace)
        is_map = (
            value.get("logicalType") == "map"
            and isinstance(items, Record)
            and [entry.name for entry in items.fields] == ["key", "value"]
            and not isinstance(items.fields[0].type, Union)
            and not is_null(items.fields[0].type)
        )
        return Array(items, _id(value, "element-id"), is_map, *_sizes([items]))

    def map(self, value: dict[str, Any], namespace: str) -> AvroType:
        values = self.parse(value.get("values"), namespace)
        return Map(values, _id(value, "key-id"), _id(value, "value-id"), *_sizes([values]))

    def union(self, value: list[Any], namespace: str) -> AvroType:
        branches = tuple(self.parse(branch, namespace) for branch in value)
        if not branches or any(isinstance(branch, Union) for branch in branches):
            _refuse("a union of one or more types that are not unions", value)
        if sum(map(is_null, branches)) > 1:
            _refuse("a union with null once", value)
        return Union(branches, *_sizes(branches), min_bytes=1 + min(branch.min_bytes for branch in branches))


_COMPLEX: Final[dict[str, Callable[[_Parser, dict[str, Any], str], AvroType]]] = {
    "record": _Parser.record,
    "error": _Parser.record,
    "enum": _Parser.enum,
    "fixed": _Parser.fixed,
    "array": _Parser.array,
    "map": _Parser.map,
}


def _primitive(kind: PrimitiveKind, logical: LogicalType | None) -> Primitive:
    return Primitive(kind, logical, _MIN_BYTES.get(kind, 1))


def _sizes(types: list[AvroType] | tuple[AvroType, ...]) -> tuple[int, int]:
    """Nodes and depth of a type that contains `types`."""
    nodes = 1 + sum(inner.nodes for inner in types)
    depth = 1 + max((inner.depth for inner in types), default=0)
    if nodes > MAX_NODES:
        raise UnsupportedError(f"Avro schema has more than {MAX_NODES} types")
    if depth > MAX_DEPTH:
        raise UnsupportedError(f"Avro schema nests deeper than {MAX_DEPTH} types")
    return nodes, depth


def _logical(value: dict[str, Any], base: str) -> LogicalType | None:
    """The logical type, None where it is unknown or does not fit the type: Avro says to ignore it then."""
    name = value.get("logicalType")
    if not isinstance(name, str) or base not in _LOGICAL_BASES.get(name, ()):
        return None
    if name != "decimal":
        adjust = value.get("adjust-to-utc")
        return LogicalType(name, adjust_to_utc=adjust if isinstance(adjust, bool) else None)
    precision, scale = value.get("precision"), value.get("scale", 0)
    if _is_integer(precision) and _is_integer(scale) and precision > 0 and 0 <= scale <= precision:
        return LogicalType(name, precision, scale)
    return None


def _is_integer(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _id(value: dict[str, Any], name: str) -> int | None:
    found = value.get(name)
    if found is None:
        return None
    if not _is_integer(found) or not -(1 << 31) <= found < 1 << 31:
        _refuse(f"an integer as {name}", found)
    return found


def _refuse(expected: str, found: Any) -> NoReturn:
    shown = repr(found)
    raise FormatError(f"Avro schema: expected {expected}, found {shown if len(shown) <= 80 else shown[:77] + '...'}")
