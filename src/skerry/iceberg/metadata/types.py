"""The types of Iceberg's columns, and the fields that have them.

Spec: Iceberg spec, Schemas and Data Types, Appendix C (type serialization).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from skerry.errors import FormatError, UnsupportedError

__all__ = [
    "BinaryType",
    "BooleanType",
    "DateType",
    "DecimalType",
    "DoubleType",
    "FixedType",
    "FloatType",
    "GeographyType",
    "GeometryType",
    "IcebergType",
    "IntegerType",
    "ListType",
    "LongType",
    "MapType",
    "NestedField",
    "PrimitiveType",
    "StringType",
    "StructType",
    "TimeType",
    "TimestampNanoType",
    "TimestampType",
    "TimestamptzNanoType",
    "TimestamptzType",
    "UUIDType",
    "UnknownType",
    "VariantType",
    "children_of",
    "parse_type",
]

DEFAULT_CRS: Final = "OGC:CRS84"
DEFAULT_ALGORITHM: Final = "spherical"
_RULE = "Iceberg spec, Schemas and Data Types"
_MAX_PRECISION = 38
_MAX_LENGTH = 2**31 - 1
_ALGORITHMS = frozenset({"spherical", "vincenty", "thomas", "andoyer", "karney"})


def _no_unknown() -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class IcebergType:
    """The type of a column or of a part of it."""

    format_version: ClassVar[int] = 1
    """The first format version that has the type."""

    @property
    def is_primitive(self) -> bool:
        """Whether values have no parts that could be columns; a variant is neither primitive nor nested."""
        return False


@dataclass(frozen=True, slots=True)
class PrimitiveType(IcebergType):
    """A type without parts. Equal types are equal, whoever made them."""

    text: ClassVar[str] = ""
    """Its name in metadata, if it has no parameters."""

    @property
    def is_primitive(self) -> bool:
        """True."""
        return True

    def __str__(self) -> str:
        return self.text


# Types without parameters are records by what they inherit: making a record of each takes half a millisecond.


class BooleanType(PrimitiveType):
    """True or false."""

    __slots__ = ()
    text = "boolean"


class IntegerType(PrimitiveType):
    """32-bit signed integers."""

    __slots__ = ()
    text = "int"


class LongType(PrimitiveType):
    """64-bit signed integers."""

    __slots__ = ()
    text = "long"


class FloatType(PrimitiveType):
    """32-bit IEEE 754 numbers."""

    __slots__ = ()
    text = "float"


class DoubleType(PrimitiveType):
    """64-bit IEEE 754 numbers."""

    __slots__ = ()
    text = "double"


class DateType(PrimitiveType):
    """Days without time or zone."""

    __slots__ = ()
    text = "date"


class TimeType(PrimitiveType):
    """Microseconds since midnight."""

    __slots__ = ()
    text = "time"


class TimestampType(PrimitiveType):
    """Microseconds without zone."""

    __slots__ = ()
    text = "timestamp"


class TimestamptzType(PrimitiveType):
    """Microseconds in UTC."""

    __slots__ = ()
    text = "timestamptz"


class TimestampNanoType(PrimitiveType):
    """Nanoseconds without zone."""

    __slots__ = ()
    text = "timestamp_ns"
    format_version = 3


class TimestamptzNanoType(PrimitiveType):
    """Nanoseconds in UTC."""

    __slots__ = ()
    text = "timestamptz_ns"
    format_version = 3


class StringType(PrimitiveType):
    """Text."""

    __slots__ = ()
    text = "string"


class UUIDType(PrimitiveType):
    """Universally unique identifiers."""

    __slots__ = ()
    text = "uuid"


class BinaryType(PrimitiveType):
    """Bytes of any length."""

    __slots__ = ()
    text = "binary"


class UnknownType(PrimitiveType):
    """Only nulls; the type is not known yet."""

    __slots__ = ()
    text = "unknown"
    format_version = 3


@dataclass(frozen=True, slots=True)
class FixedType(PrimitiveType):
    """Bytes of one length.

    Args:
        length: That length.
    """

    length: int

    def __str__(self) -> str:
        return f"fixed[{self.length}]"


@dataclass(frozen=True, slots=True)
class DecimalType(PrimitiveType):
    """Decimal numbers.

    Args:
        precision: Digits in all, at most 38.
        scale: Digits after the point.
    """

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision}, {self.scale})"


@dataclass(frozen=True, slots=True)
class GeometryType(PrimitiveType):
    """Planar shapes as WKB.

    Args:
        crs: Their coordinate reference system.
    """

    crs: str = DEFAULT_CRS
    format_version = 3

    def __str__(self) -> str:
        return "geometry" if self.crs == DEFAULT_CRS else f"geometry({self.crs})"


@dataclass(frozen=True, slots=True)
class GeographyType(PrimitiveType):
    """Shapes on the globe as WKB.

    Args:
        crs: Their coordinate reference system.
        algorithm: How edges run between two points.
    """

    crs: str = DEFAULT_CRS
    algorithm: str = DEFAULT_ALGORITHM
    format_version = 3

    def __str__(self) -> str:
        if self.algorithm != DEFAULT_ALGORITHM:
            return f"geography({self.crs}, {self.algorithm})"
        return "geography" if self.crs == DEFAULT_CRS else f"geography({self.crs})"


@dataclass(frozen=True, slots=True)
class VariantType(IcebergType):
    """Values that say their own types."""

    format_version = 3

    def __str__(self) -> str:
        return "variant"


@dataclass(frozen=True, slots=True)
class NestedField:
    """A column, or a part of one: the field of a struct, a list's element, a map's key or value.

    Args:
        field_id: Its id, unique in the table.
        name: Its name.
        field_type: The type of its values.
        required: Whether it has no nulls.
        doc: A comment.
        initial_default: The value of rows that were written before the field was added, as
            `skerry.iceberg.metadata.single_values` represents it; None for null.
        write_default: The value that writers use where none is given.
        unknown: Entries of its JSON object that this library does not know.
    """

    field_id: int
    name: str
    field_type: IcebergType
    required: bool = False
    doc: str | None = None
    initial_default: Any = field(default=None, hash=False)
    write_default: Any = field(default=None, hash=False)
    unknown: Mapping[str, Any] = field(default_factory=_no_unknown, compare=False, repr=False)

    @property
    def optional(self) -> bool:
        """Whether it may have nulls."""
        return not self.required

    def __str__(self) -> str:
        doc = f" ({self.doc})" if self.doc else ""
        return f"{self.field_id}: {self.name}: {'required' if self.required else 'optional'} {self.field_type}{doc}"


@dataclass(frozen=True, slots=True, init=False)
class StructType(IcebergType):
    """Several fields in one.

    Args:
        fields: The fields, in their order.
        unknown: Entries of its JSON object that this library does not know.
    """

    fields: tuple[NestedField, ...]
    unknown: Mapping[str, Any] = field(compare=False, repr=False)

    def __init__(self, *fields: NestedField, unknown: Mapping[str, Any] | None = None) -> None:
        object.__setattr__(self, "fields", fields)
        object.__setattr__(self, "unknown", unknown or {})

    def __str__(self) -> str:
        return f"struct<{', '.join(map(str, self.fields))}>"


@dataclass(frozen=True, slots=True)
class ListType(IcebergType):
    """A list of any length.

    Args:
        element_id: The field id of its elements.
        element_type: Their type.
        element_required: Whether none of them is null.
        unknown: Entries of its JSON object that this library does not know.
    """

    element_id: int
    element_type: IcebergType
    element_required: bool = True
    unknown: Mapping[str, Any] = field(default_factory=_no_unknown, compare=False, repr=False)

    @property
    def element_field(self) -> NestedField:
        """The elements as a field."""
        return NestedField(self.element_id, "element", self.element_type, self.element_required)

    def __str__(self) -> str:
        return f"list<{self.element_type}>"


@dataclass(frozen=True, slots=True)
class MapType(IcebergType):
    """Pairs of keys and values.

    Args:
        key_id: The field id of its keys, none of which is null.
        key_type: Their type.
        value_id: The field id of its values.
        value_type: Their type.
        value_required: Whether none of the values is null.
        unknown: Entries of its JSON object that this library does not know.
    """

    key_id: int
    key_type: IcebergType
    value_id: int
    value_type: IcebergType
    value_required: bool = True
    unknown: Mapping[str, Any] = field(default_factory=_no_unknown, compare=False, repr=False)

    @property
    def key_field(self) -> NestedField:
        """The keys as a field."""
        return NestedField(self.key_id, "key", self.key_type, required=True)

    @property
    def value_field(self) -> NestedField:
        """The values as a field."""
        return NestedField(self.value_id, "value", self.value_type, self.value_required)

    def __str__(self) -> str:
        return f"map<{self.key_type}, {self.value_type}>"


def children_of(type_: IcebergType) -> tuple[NestedField, ...]:
    """The fields of a struct, the element of a list, key and value of a map; none of another type."""
    if isinstance(type_, StructType):
        return type_.fields
    if isinstance(type_, ListType):
        return (type_.element_field,)
    return (type_.key_field, type_.value_field) if isinstance(type_, MapType) else ()


# Names in metadata ---------------------------------------------------------------------------------------------------

_BY_NAME: dict[str, IcebergType] = {
    **{
        kind.text: kind()
        for kind in (
            BooleanType,
            IntegerType,
            LongType,
            FloatType,
            DoubleType,
            DateType,
            TimeType,
            TimestampType,
            TimestamptzType,
            TimestampNanoType,
            TimestamptzNanoType,
            StringType,
            UUIDType,
            BinaryType,
            UnknownType,
        )
    },
    "variant": VariantType(),
}


def _fixed(found: re.Match[str]) -> IcebergType | None:
    length = int(found[1])
    return FixedType(length) if length <= _MAX_LENGTH else None


def _decimal(found: re.Match[str]) -> IcebergType | None:
    precision, scale = int(found[1]), int(found[2])
    return DecimalType(precision, scale) if 1 <= precision <= _MAX_PRECISION and scale <= precision else None


def _geometry(found: re.Match[str]) -> IcebergType | None:
    crs = _parameter(found[1], DEFAULT_CRS)
    return GeometryType(crs) if crs else None


def _geography(found: re.Match[str]) -> IcebergType | None:
    crs, algorithm = _parameter(found[1], DEFAULT_CRS), _parameter(found[2], DEFAULT_ALGORITHM).lower()
    return GeographyType(crs, algorithm) if crs and algorithm in _ALGORITHMS else None


def _parameter(text: str | None, default: str) -> str:
    """A parameter, without the quotes that PyIceberg writes around it."""
    return default if text is None else text.strip().strip("'\"")


_PARAMETRIC: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], IcebergType | None]], ...] = (
    (re.compile(r"fixed\[\s*(\d{1,10})\s*\]", re.ASCII), _fixed),
    (re.compile(r"decimal\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)", re.ASCII), _decimal),
    # no two repetitions that take the same characters: a long text would be tried in every division
    (re.compile(r"geometry(?:\s*\(([^()]*)\))?", re.IGNORECASE), _geometry),
    (re.compile(r"geography(?:\s*\(([^(),]*)(?:,([^(),]*))?\))?", re.IGNORECASE), _geography),
)
_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_KNOWN_WORDS = frozenset({*_BY_NAME, "fixed", "decimal", "geometry", "geography"})


def parse_type(text: str) -> IcebergType:
    """Parse the name of a type without nested fields, as it is in metadata: `long`, `decimal(10, 2)`, `geometry`.

    Raises:
        FormatError: The parameters are invalid, or this is not the name of a type.
        UnsupportedError: There is no such type in versions 1 to 3.

    Spec: Iceberg spec, Appendix C, Schemas and Data Types.
    """
    known = _BY_NAME.get(text) or _BY_NAME.get(text.lower())
    if known is not None:
        return known
    for pattern, read in _PARAMETRIC:
        found = pattern.fullmatch(text)
        type_ = read(found) if found is not None else None
        if type_ is not None:
            return type_
    word = _WORD.match(text)
    if word is None or word[0].lower() in _KNOWN_WORDS:
        raise FormatError(f"{text[:100]!r} is not the name of a type", rule=_RULE)
    raise UnsupportedError(f"columns of type {word[0][:100]} are not supported", rule=_RULE)
