"""From a schema and a choice of its fields to columns: Arrow fields, and slots and counters for their values."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import pyarrow as pa

from skerry.avro import machine
from skerry.avro.schema import (
    Array,
    AvroType,
    Enumeration,
    Fixed,
    LogicalType,
    Map,
    Primitive,
    PrimitiveKind,
    Record,
    RecordField,
    Union,
    describe,
)
from skerry.errors import SchemaError, UnsupportedError

__all__ = ["Choice", "Column", "ColumnPlan", "Slot", "choose_fields", "decimal_bytes", "entries", "is_binary", "join"]


@dataclass(frozen=True, slots=True)
class Slot:
    """A run of equal values in the arena.

    Args:
        counter: Its number of values, as a counter.
        bits: Bits of one value.
        extra: Values beyond that number: 1 for offsets.
    """

    counter: int
    bits: int
    extra: int = 0


@dataclass(frozen=True, slots=True)
class Column:
    """A column to be decoded.

    Args:
        field: Its Arrow field.
        source: The Avro type that its values have, without the union with null.
        domain: Counter of its rows.
        validity: Slot of its validity bits, `NO_SLOT` without nulls.
        slots: Slots of its values, in the order of Arrow's buffers.
        counter: Counter of its bytes (binary) or items (list, map).
        children: Columns of a record's fields, an array's items, or a map's entries.
    """

    field: pa.Field
    source: AvroType
    domain: int
    validity: int = machine.NO_SLOT
    slots: tuple[int, ...] = ()
    counter: int = machine.UNUSED
    children: tuple[Column, ...] = ()


Choice: TypeAlias = Mapping[str, Any] | None
"""Chosen fields of a record by name, each with the choice inside of it; None means everything."""


def choose_fields(top: Record, columns: Sequence[str | int] | None, *, ignore_missing: bool) -> Choice:
    """Resolve names and field ids.

    A field is chosen with all that is in it. Names and ids lead into records, also through unions with null and through
    the items of arrays; maps are chosen as a whole.
    """
    if columns is None:
        return None
    paths = dict(_paths(top, ()))
    by_name = {".".join(path): path for path in paths}
    by_id = {field_id: path for path, field_id in paths.items() if field_id is not None}
    choice: dict[str, Any] = {}
    for column in columns:
        path = by_id.get(column) if isinstance(column, int) else by_name.get(column)
        if path is not None:
            _choose(choice, path)
        elif not ignore_missing:
            near = difflib.get_close_matches(str(column), by_name, n=1) if isinstance(column, str) else []
            hint = f"; the nearest is {near[0]!r}" if near else ""
            what = "field id" if isinstance(column, int) else "field"
            raise SchemaError(f"no {what} {column!r} in the Avro schema{hint}")
    return choice


def _paths(record: Record, prefix: tuple[str, ...]) -> Iterable[tuple[tuple[str, ...], int | None]]:
    for entry in record.fields:
        path = (*prefix, entry.name)
        yield path, entry.field_id
        inner = _record_inside(entry.type)
        if inner is not None:
            yield from _paths(inner, path)


def _record_inside(avro_type: AvroType) -> Record | None:
    if isinstance(avro_type, Union):
        return None if avro_type.optional is None else _record_inside(avro_type.optional)
    if isinstance(avro_type, Array) and not avro_type.is_map:
        return _record_inside(avro_type.items)
    return avro_type if isinstance(avro_type, Record) else None


def _choose(choice: dict[str, Any], path: tuple[str, ...]) -> None:
    for name in path[:-1]:
        if name in choice and choice[name] is None:
            return
        choice = choice.setdefault(name, {})
    choice[path[-1]] = None


@dataclass(slots=True)
class ColumnPlan:
    """Plans columns and hands out their counters and slots."""

    counters: int = machine.FIRST_FREE_COUNTER
    slots: list[Slot] = field(default_factory=list)

    def counter(self) -> int:
        """A new counter."""
        self.counters += 1
        return self.counters - 1

    def slot(self, counter: int, bits: int, extra: int = 0) -> int:
        """A new slot."""
        self.slots.append(Slot(counter, bits, extra))
        return len(self.slots) - 1

    def fields(self, record: Record, choice: Choice, domain: int, path: str) -> Iterable[Column]:
        """Plan the columns of the chosen fields of a record."""
        for entry in record.fields:
            if choice is None or entry.name in choice:
                inner = None if choice is None else choice[entry.name]
                yield self.column(entry, inner, domain, join(path, entry.name))

    def column(self, entry: RecordField, choice: Choice, domain: int, path: str) -> Column:
        """Plan the column of a record field, of the items of an array, or of the keys or values of a map."""
        source, nullable = entry.type, False
        if isinstance(source, Union):
            optional = source.optional
            if optional is not None:
                source, nullable = optional, True
            elif len(source.branches) == 1:
                source = source.branches[0]
            else:
                raise UnsupportedError(f"Avro field {path!r} is a union of several types, {describe(source)}")
        validity = self.slot(domain, 1) if nullable else machine.NO_SLOT
        slots: tuple[int, ...] = ()
        counter = machine.UNUSED
        children: tuple[Column, ...] = ()
        if isinstance(source, Record):
            children = tuple(self.fields(source, choice, domain, path))
        elif isinstance(source, Array | Map):
            counter = self.counter()
            slots = (self.slot(domain, 32, 1),)
            children = tuple(self.column(item, choice, counter, path) for item in entries(source))
        elif is_binary(source):
            counter = self.counter()
            slots = (self.slot(domain, 32, 1), self.slot(counter, 8))
        elif value_bits(source) is not None:
            slots = (self.slot(domain, value_bits(source) or 0),)
        metadata = None if entry.field_id is None else {_FIELD_ID: str(entry.field_id)}
        arrow_type = _arrow_type(source, children)
        arrow_field = pa.field(
            entry.name, arrow_type, nullable=nullable or pa.types.is_null(arrow_type), metadata=metadata
        )
        return Column(arrow_field, source, domain, validity, slots, counter, children)


_FIELD_ID: Final = "PARQUET:field_id"
_KEY: Final = Primitive(PrimitiveKind.STRING)


def join(path: str, name: str) -> str:
    """The path of a field in a record."""
    return f"{path}.{name}" if path else name


def entries(source: Array | Map) -> tuple[RecordField, ...]:
    """What an array or a map repeats, as fields."""
    if isinstance(source, Map):
        return RecordField("key", _KEY, source.key_id), RecordField("value", source.values, source.value_id)
    if source.is_map and isinstance(source.items, Record):
        return source.items.fields
    return (RecordField("element", source.items, source.element_id),)


def is_binary(source: AvroType) -> bool:
    """Whether values are stored with offsets."""
    if not isinstance(source, Primitive) or source.kind not in (PrimitiveKind.BYTES, PrimitiveKind.STRING):
        return False
    return decimal_bytes(source) is None


def decimal_bytes(source: AvroType) -> int | None:
    """Bytes of an Arrow decimal that holds the values, None if they are not decimals or have too many digits."""
    if not isinstance(source, Primitive | Fixed) or source.logical is None or source.logical.name != "decimal":
        return None
    precision = source.logical.precision
    return 16 if precision <= 38 else 32 if precision <= 76 else None


def value_bits(source: AvroType) -> int | None:
    """Bits of one value in its slot, None for types without one slot of values."""
    if isinstance(source, Enumeration):
        return 32
    width = decimal_bytes(source)
    if width is not None:
        return width * 8
    if isinstance(source, Fixed):
        return source.size * 8
    return _KIND_BITS.get(source.kind) if isinstance(source, Primitive) else None


_KIND_BITS: Final = {
    PrimitiveKind.BOOLEAN: 1,
    PrimitiveKind.INT: 32,
    PrimitiveKind.LONG: 64,
    PrimitiveKind.FLOAT: 32,
    PrimitiveKind.DOUBLE: 64,
}
_KIND_TYPES: Final = {
    PrimitiveKind.NULL: pa.null(),
    PrimitiveKind.BOOLEAN: pa.bool_(),
    PrimitiveKind.INT: pa.int32(),
    PrimitiveKind.LONG: pa.int64(),
    PrimitiveKind.FLOAT: pa.float32(),
    PrimitiveKind.DOUBLE: pa.float64(),
    PrimitiveKind.BYTES: pa.binary(),
    PrimitiveKind.STRING: pa.string(),
}
_UNITS: Final = {"millis": "ms", "micros": "us", "nanos": "ns"}


def _arrow_type(source: AvroType, children: tuple[Column, ...]) -> pa.DataType:
    if isinstance(source, Record):
        return pa.struct([child.field for child in children])
    if isinstance(source, Array | Map):
        if len(children) == 2:
            return pa.map_(children[0].field, children[1].field)
        return pa.list_(children[0].field)
    if isinstance(source, Enumeration):
        return pa.dictionary(pa.int32(), pa.string())
    assert not isinstance(source, Union)
    if source.logical is not None:
        logical = _logical_type(source.logical, source)
        if logical is not None:
            return logical
    return pa.binary(source.size) if isinstance(source, Fixed) else _KIND_TYPES[source.kind]


def _logical_type(logical: LogicalType, source: Primitive | Fixed) -> pa.DataType | None:
    """The Arrow type of a logical type, None where the plain type serves (text UUIDs, decimals that are too long)."""
    name = logical.name
    if name == "decimal":
        width = decimal_bytes(source)
        make = {16: pa.decimal128, 32: pa.decimal256}.get(width or 0)
        return None if make is None else make(logical.precision, logical.scale)
    if name == "date":
        return pa.date32()
    if name == "uuid":
        return pa.uuid() if isinstance(source, Fixed) else None
    unit = _UNITS[name.rpartition("-")[2]]
    if name.startswith("time-"):
        return pa.time32(unit) if unit == "ms" else pa.time64(unit)
    in_utc = not name.startswith("local-") if logical.adjust_to_utc is None else logical.adjust_to_utc
    return pa.timestamp(unit, "UTC" if in_utc else None)
