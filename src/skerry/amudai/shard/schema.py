"""The schema of a shard: a tree of data types, numbered for the rest of the metadata.

Spec: docs/formats/amudai.md § 3, § 4.1; Amudai book, chapter 6, Schema.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from skerry.errors import NotFoundError

__all__ = [
    "BasicType",
    "DataType",
    "ExtendedLabel",
    "ExtendedType",
    "ExtendedTypeProperty",
    "Field",
    "InternalKind",
    "PropertyValueKind",
    "Schema",
]


class BasicType(IntEnum):
    """The kinds of values; composite ones have children.

    Spec: docs/formats/amudai.md § 4.1; Amudai book, chapter 6, Schema, `BasicType`.
    """

    UNIT = 0
    BOOLEAN = 1
    INT8 = 2
    INT16 = 3
    INT32 = 4
    INT64 = 5
    FLOAT32 = 6
    FLOAT64 = 7
    BINARY = 8
    FIXED_SIZE_BINARY = 9
    STRING = 10
    GUID = 11
    DATE_TIME = 12
    LIST = 13
    FIXED_SIZE_LIST = 14
    STRUCT = 15
    MAP = 16
    UNION = 17

    @property
    def is_integer(self) -> bool:
        """Whether values are integers of 1 to 8 bytes, signed or not."""
        return BasicType.INT8 <= self <= BasicType.INT64

    @property
    def is_floating(self) -> bool:
        """Whether values are IEEE numbers."""
        return self in (BasicType.FLOAT32, BasicType.FLOAT64)

    @property
    def is_bytes(self) -> bool:
        """Whether values are byte strings, which blocks of binaries hold and value dictionaries may hold."""
        return BasicType.BINARY <= self <= BasicType.GUID

    @property
    def is_composite(self) -> bool:
        """Whether values are made of the values of children."""
        return self >= BasicType.LIST


class PropertyValueKind(IntEnum):
    """What the bytes of an extended type's property mean."""

    NULL = 0
    STRING = 1
    JSON_STRING = 2
    ANY_VALUE_PROTO = 3


class ExtendedLabel(StrEnum):
    """Labels of extended types that have a meaning to this package; others are kept as they are."""

    DECIMAL = "KustoDecimal"
    TIMESPAN = "KustoTimeSpan"
    DYNAMIC = "KustoDynamic"


class InternalKind(StrEnum):
    """Kinds of top-level fields that are not columns of the table."""

    DELETED_RECORD = "Kusto.Amudai.DeletedRecord"
    INGESTION_TIMESTAMP = "Kusto.Amudai.IngestionTimestamp"
    RECORD_IDENTITY = "Kusto.Amudai.RecordIdentity"


@dataclass(frozen=True, slots=True)
class ExtendedTypeProperty:
    """A property of an extended type.

    Args:
        name: Its name.
        kind: What `data` means.
        data: Its value.
    """

    name: str
    kind: PropertyValueKind = PropertyValueKind.NULL
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class ExtendedType:
    """What values mean beyond their basic type.

    Args:
        label: The name of the meaning, one of `ExtendedLabel` or any other.
        properties: Its parameters.
    """

    label: str
    properties: tuple[ExtendedTypeProperty, ...] = ()


@dataclass(frozen=True, slots=True)
class DataType:
    """A node of the schema.

    Args:
        basic_type: The kind of values.
        schema_id: The node's number, unique in the schema.
        name: Its name as a column, a struct's field or a union's variant; empty for items, keys and values.
        aliases: Other names by which it is found.
        children: The types that a composite type is made of; empty for others.
        signed: Whether integers are signed.
        fixed_size: Bytes of a FixedSizeBinary's or Guid's values, items of a FixedSizeList.
        extended_type: What values mean beyond their basic type.
    """

    basic_type: BasicType
    schema_id: int
    name: str = ""
    aliases: tuple[str, ...] = ()
    children: tuple[DataType, ...] = ()
    signed: bool = False
    fixed_size: int = 0
    extended_type: ExtendedType | None = None

    @property
    def label(self) -> str | None:
        """The label of the extended type."""
        return self.extended_type.label if self.extended_type is not None else None

    @property
    def is_decimal(self) -> bool:
        """Whether values are decimal128: 16 bytes each, with statistics and an index of their own."""
        return self.label == ExtendedLabel.DECIMAL and (
            self.basic_type is BasicType.FIXED_SIZE_BINARY and self.fixed_size == 16
        )

    @property
    def is_numeric(self) -> bool:
        """Whether values are stored in blocks of numbers: integers, floating point, DateTime."""
        return self.basic_type.is_integer or self.basic_type.is_floating or self.basic_type is BasicType.DATE_TIME

    def nodes(self) -> Iterator[DataType]:
        """This node and all below it, parents before children."""
        yield self
        for child in self.children:
            yield from child.nodes()


@dataclass(frozen=True, slots=True)
class Field:
    """A top-level field of a shard.

    Args:
        data_type: Its type; the type's name is the field's.
        internal_kind: What the field is for if it is not a column of the table: one of `InternalKind` or any other.
    """

    data_type: DataType
    internal_kind: str | None = None

    @property
    def name(self) -> str:
        """The field's name; of an internal field without a name its kind."""
        return self.data_type.name or self.internal_kind or ""

    @property
    def schema_id(self) -> int:
        """The number of the field's type."""
        return self.data_type.schema_id


@dataclass(frozen=True, slots=True)
class Schema:
    """The fields of a shard.

    Args:
        fields: Top-level fields in order, internal ones among them.
        schema_id_count: One more than the largest number of a node; lists by schema id have this length.
    """

    fields: tuple[Field, ...]
    schema_id_count: int

    @property
    def columns(self) -> tuple[Field, ...]:
        """The fields that are columns of the table."""
        return tuple(field for field in self.fields if field.internal_kind is None)

    def nodes(self) -> Iterator[DataType]:
        """All nodes, parents before children."""
        for field in self.fields:
            yield from field.data_type.nodes()

    def internal_field(self, kind: str) -> Field | None:
        """The internal field of a kind, if there is one."""
        return next((field for field in self.fields if field.internal_kind == kind), None)

    def field(self, name: str) -> Field:
        """Find a field, internal ones among them, by its name or else by one of its aliases.

        Raises:
            NotFoundError: There is none.
        """
        for field in self.fields:
            if field.name == name:
                return field
        for field in self.fields:
            if name in field.data_type.aliases:
                return field
        known = [field.name for field in self.columns]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"columns are {', '.join(known[:20]) or 'none'}"
        raise NotFoundError(f"no column {name!r}: {hint}")
