"""Thrift's binary protocol: values that keep their types, so that what is not known is written back as it was.

A struct is a dict of fields by id; a field is a pair of type and value. Texts are bytes.

Spec: Thrift binary protocol.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from skerry.errors import FormatError

__all__ = [
    "CALL",
    "EXCEPTION",
    "REPLY",
    "Field",
    "Kind",
    "Struct",
    "ThriftList",
    "ThriftMap",
    "decode_message",
    "encode_message",
    "integer",
    "list_of",
    "record",
    "text",
    "text_in",
    "texts",
    "texts_in",
]


class Kind(IntEnum):
    """The type of a value."""

    STOP = 0
    BOOL = 2
    BYTE = 3
    DOUBLE = 4
    I16 = 6
    I32 = 8
    I64 = 10
    STRING = 11
    STRUCT = 12
    MAP = 13
    SET = 14
    LIST = 15


Field = tuple[Kind, Any]
Struct = dict[int, Field]


@dataclass(frozen=True, slots=True)
class ThriftList:
    """A list or set.

    Args:
        kind: The type of its elements.
        items: They.
    """

    kind: Kind
    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ThriftMap:
    """A map.

    Args:
        key: The type of its keys.
        value: The type of its values.
        items: Pairs of key and value.
    """

    key: Kind
    value: Kind
    items: tuple[tuple[Any, Any], ...]


CALL: Final = 1
REPLY: Final = 2
EXCEPTION: Final = 3
_VERSION: Final = 0x80010000
_MAX_DEPTH: Final = 64
_RULE: Final = "Thrift binary protocol"
_NUMBERS: Final = {
    Kind.BOOL: struct.Struct(">b"),
    Kind.BYTE: struct.Struct(">b"),
    Kind.DOUBLE: struct.Struct(">d"),
    Kind.I16: struct.Struct(">h"),
    Kind.I32: struct.Struct(">i"),
    Kind.I64: struct.Struct(">q"),
}
_I16: Final = _NUMBERS[Kind.I16]
_I32: Final = _NUMBERS[Kind.I32]

Read = Callable[[int], bytes]
"""Gives the next bytes of an answer, exactly as many as are asked for."""


def text(value: str) -> Field:
    """A field with a text."""
    return Kind.STRING, value.encode()


def integer(value: int, kind: Kind = Kind.I32) -> Field:
    """A field with a whole number."""
    return kind, value


def record(value: Struct) -> Field:
    """A field with a struct."""
    return Kind.STRUCT, value


def list_of(kind: Kind, items: list[Any]) -> Field:
    """A field with a list."""
    return Kind.LIST, ThriftList(kind, tuple(items))


def texts(values: dict[str, str]) -> Field:
    """A field with a map of texts."""
    pairs = tuple((key.encode(), value.encode()) for key, value in values.items())
    return Kind.MAP, ThriftMap(Kind.STRING, Kind.STRING, pairs)


def text_in(found: Struct, number: int) -> str | None:
    """The text of a field; None if there is none."""
    kind, value = found.get(number, (Kind.STOP, None))
    return value.decode(errors="replace") if kind is Kind.STRING else None


def texts_in(found: Struct, number: int) -> dict[str, str]:
    """The map of texts of a field; empty if there is none."""
    kind, value = found.get(number, (Kind.STOP, None))
    if kind is not Kind.MAP or (value.items and (value.key, value.value) != (Kind.STRING, Kind.STRING)):
        return {}
    return {key.decode(errors="replace"): each.decode(errors="replace") for key, each in value.items}


def encode_message(name: str, fields: Struct, sequence: int, kind: int = CALL) -> bytes:
    """The bytes of a message.

    Args:
        name: The call.
        fields: Its arguments, or what it answers.
        sequence: Its number.
        kind: `CALL`, or `REPLY` or `EXCEPTION`.

    Spec: Thrift binary protocol.
    """
    parts = [(_VERSION | kind).to_bytes(4, "big"), *_bytes(name.encode()), _I32.pack(sequence)]
    _encode(Kind.STRUCT, fields, parts)
    return b"".join(parts)


def decode_message(read: Read) -> tuple[int, str, int, Struct]:
    """Read an answer.

    Returns:
        The type of the message, the name of the call, its number, and the fields.

    Raises:
        FormatError: It is not such a message.

    Spec: Thrift binary protocol.
    """
    head = int.from_bytes(read(4), "big")
    if head & 0xFFFF0000 != _VERSION:
        raise FormatError(f"the server's answer begins with {head:#010x}, expected {_VERSION:#010x}", rule=_RULE)
    name = _read_bytes(read).decode(errors="replace")
    sequence = _I32.unpack(read(4))[0]
    return head & 0xFF, name, sequence, _read(Kind.STRUCT, read, 0)


def _bytes(value: bytes) -> tuple[bytes, bytes]:
    return _I32.pack(len(value)), value


def _encode(kind: Kind, value: Any, parts: list[bytes]) -> None:
    if kind in _NUMBERS:
        parts.append(_NUMBERS[kind].pack(value))
    elif kind is Kind.STRING:
        parts += _bytes(value)
    elif kind is Kind.STRUCT:
        for number, (inner, each) in value.items():
            parts.append(bytes([inner]) + _I16.pack(number))
            _encode(inner, each, parts)
        parts.append(b"\0")
    elif kind is Kind.MAP:
        parts.append(bytes([value.key, value.value]) + _I32.pack(len(value.items)))
        for key, each in value.items:
            _encode(value.key, key, parts)
            _encode(value.value, each, parts)
    else:
        parts.append(bytes([value.kind]) + _I32.pack(len(value.items)))
        for each in value.items:
            _encode(value.kind, each, parts)


def _read_bytes(read: Read) -> bytes:
    return read(_read_count(read))


def _read_count(read: Read) -> int:
    count: int = _I32.unpack(read(4))[0]
    if count < 0:
        raise FormatError(f"the server's answer has a length of {count}", rule=_RULE)
    return count


def _kind(number: int) -> Kind:
    try:
        return Kind(number)
    except ValueError:
        raise FormatError(f"the server's answer has a value of unknown type {number}", rule=_RULE) from None


def _read(kind: Kind, read: Read, depth: int) -> Any:
    if kind in _NUMBERS:
        packed = _NUMBERS[kind]
        return packed.unpack(read(packed.size))[0]
    if kind is Kind.STRING:
        return _read_bytes(read)
    if depth == _MAX_DEPTH or kind is Kind.STOP:
        raise FormatError("the server's answer is nested too deeply, or has a value without a type", rule=_RULE)
    depth += 1
    if kind is Kind.STRUCT:
        found: Struct = {}
        while (inner := _kind(read(1)[0])) is not Kind.STOP:
            number = _I16.unpack(read(2))[0]
            found[number] = inner, _read(inner, read, depth)
        return found
    if kind is Kind.MAP:
        key, value = read(2)
        count = _read_count(read)
        if not count:  # then the types may be anything
            return ThriftMap(Kind.STRING, Kind.STRING, ())
        pair = _kind(key), _kind(value)
        return ThriftMap(*pair, tuple((_read(pair[0], read, depth), _read(pair[1], read, depth)) for _ in range(count)))
    element, count = _kind(read(1)[0]), _read_count(read)
    return ThriftList(element, tuple(_read(element, read, depth) for _ in range(count)))
