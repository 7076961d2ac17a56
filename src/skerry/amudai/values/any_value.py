"""Values of any type, as properties and statistics of shards hold them.

Spec: docs/formats/amudai.md § 9.1, § 9.8; Amudai book, chapter 6, AnyValue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from skerry.amudai.messages import AnyValue, DataRef, NameValuePair
from skerry.amudai.shard.framing import decode_message
from skerry.amudai.values.decimals import decode_decimal, encode_decimal
from skerry.errors import FormatError, SchemaError

__all__ = [
    "Annotated",
    "DateTime",
    "Follow",
    "Property",
    "TimeSpan",
    "decode_properties",
    "encode_any_value",
    "encode_properties",
]

Follow = Callable[[DataRef, "str | None"], "tuple[memoryview, str]"]
"""Reads what a DataRef names. It is given the location of the file that the DataRef is in, None for the root; it
returns bytes and the location of the file that they come from."""
_MAX_HOPS: Final = 8
_MAX_FOLLOWED: Final = 256
_MAX_DEPTH: Final = 32
"""Protobuf refuses messages of a hundred levels; a list in a list takes three."""
_RULE: Final = "docs/formats/amudai.md § 9.8"


@dataclass(frozen=True, slots=True, order=True)
class DateTime:
    """A point in time: 100 ns ticks since 0001-01-01."""

    ticks: int


@dataclass(frozen=True, slots=True, order=True)
class TimeSpan:
    """A signed length of time: 100 ns ticks."""

    ticks: int


@dataclass(frozen=True, slots=True)
class Annotated:
    """A value with the name or url of what it means."""

    value: Any
    annotation: str


@dataclass(frozen=True, slots=True)
class Property:
    """A named value. Several of one bag may have the same name.

    Args:
        name: Its name.
        value: None, bool, int, float, str, bytes, Decimal, `DateTime`, `TimeSpan`, `Annotated`, a list of values, or a
            tuple of properties.
    """

    name: str
    value: Any = None


def decode_properties(pairs: Iterable[NameValuePair], follow: Follow | None = None) -> tuple[Property, ...]:
    """The properties of a bag, in order.

    Raises:
        FormatError: A value cannot be decoded.
    """
    decoder = _Decoder(follow)
    return tuple(Property(pair.name, decoder.value(pair.value, None, 0, 0)) for pair in pairs)


class _Decoder:
    """One pass; counts the references that it follows, as each may lead to many others."""

    def __init__(self, follow: Follow | None) -> None:
        self._follow = follow
        self._followed = 0

    def value(self, message: AnyValue, within: str | None, depth: int, hops: int) -> Any:
        if depth > _MAX_DEPTH:
            raise FormatError(f"values nest deeper than {_MAX_DEPTH} levels", location=within, rule=_RULE)
        value = self._plain_value(message, within, depth, hops)
        return Annotated(value, message.annotation) if message.HasField("annotation") else value

    def _plain_value(self, message: AnyValue, within: str | None, depth: int, hops: int) -> Any:
        kind = message.WhichOneof("kind")
        if kind is None or kind == "null_value":
            return None
        if kind == "datetime_value":
            return DateTime(message.datetime_value.ticks)
        if kind == "timespan_value":
            return TimeSpan(_signed(message.timespan_value.ticks))
        if kind == "decimal_value":
            return decode_decimal(message.decimal_value)
        if kind == "list_value":
            return [self.value(item, within, depth + 1, hops) for item in message.list_value.elements]
        if kind == "struct_value":
            fields = message.struct_value.fields
            return tuple(Property(pair.name, self.value(pair.value, within, depth + 1, hops)) for pair in fields)
        if kind == "data_ref":
            return self._referred(message.data_ref, within, depth, hops)
        return getattr(message, kind)

    def _referred(self, data_ref: DataRef, within: str | None, depth: int, hops: int) -> Any:
        self._followed += 1
        if hops >= _MAX_HOPS or self._followed > _MAX_FOLLOWED:
            raise FormatError(
                f"a value refers on and on: more than {_MAX_HOPS} references in a row or {_MAX_FOLLOWED} in all",
                location=within,
                offset=data_ref.range.start,
                rule=_RULE,
            )
        if self._follow is None:
            raise FormatError("a value is stored elsewhere, where no reference is expected", rule=_RULE)
        frame, location = self._follow(data_ref, within)
        message = decode_message(AnyValue, frame, location=location, offset=data_ref.range.start)
        return self.value(message, location, depth + 1, hops + 1)


def _signed(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits


def encode_any_value(value: Any) -> AnyValue:
    """The message of a Python value.

    Args:
        value: A value as `Property` lists them. Integers are stored signed if they fit, else unsigned.

    Raises:
        SchemaError: The value is of another type, too large, or nests too deep.
    """
    message = AnyValue()
    try:
        _fill(message, value, 0)
    except ValueError as error:  # a number out of range, or text that is no Unicode
        raise SchemaError(f"a property's value cannot be stored: {error}", rule=_RULE) from error
    return message


def encode_properties(properties: Iterable[Property]) -> list[NameValuePair]:
    """The messages of a bag of properties.

    Raises:
        SchemaError: A value is of a type that cannot be stored.
    """
    return [NameValuePair(name=item.name, value=encode_any_value(item.value)) for item in properties]


def _fill(message: AnyValue, value: Any, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise SchemaError(f"a property's values nest deeper than {_MAX_DEPTH} levels", rule=_RULE)
    if isinstance(value, Annotated):
        message.annotation = value.annotation
        value = value.value
    if isinstance(value, list):
        message.list_value.SetInParent()
        for item in value:
            _fill(message.list_value.elements.add(), item, depth + 1)
    elif isinstance(value, tuple):
        message.struct_value.SetInParent()
        for item in value:
            pair = message.struct_value.fields.add(name=item.name)
            _fill(pair.value, item.value, depth + 1)
    elif isinstance(value, int) and not isinstance(value, bool):
        _fill_integer(message, value)
    else:
        _fill_scalar(message, value)


def _fill_integer(message: AnyValue, value: int) -> None:
    if not -(1 << 63) <= value < 1 << 64:
        raise SchemaError(f"a property's value {value} does not fit 64 bits", rule=_RULE)
    if value < 1 << 63:
        message.i64_value = value
    else:
        message.u64_value = value


def _fill_scalar(message: AnyValue, value: Any) -> None:
    if value is None:
        message.null_value.SetInParent()
    elif isinstance(value, bool):
        message.bool_value = value
    elif isinstance(value, float):
        message.double_value = value
    elif isinstance(value, str):
        message.string_value = value
    elif isinstance(value, bytes | bytearray | memoryview):
        message.bytes_value = bytes(value)
    elif isinstance(value, Decimal):
        message.decimal_value = encode_decimal(value)
    elif isinstance(value, DateTime):
        message.datetime_value.ticks = value.ticks
    elif isinstance(value, TimeSpan):
        message.timespan_value.ticks = value.ticks & ((1 << 64) - 1)
    else:
        raise SchemaError(f"a property's value cannot be of type {type(value).__name__}", rule=_RULE)
