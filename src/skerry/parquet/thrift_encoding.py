"""Thrift's compact protocol: encoding fields.

Spec: Thrift compact protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

__all__ = ["BINARY", "FALSE", "I8", "I32", "I64", "LIST", "STRUCT", "TRUE", "Field", "encode_struct", "encode_varint"]

TRUE: Final = 1
FALSE: Final = 2
I8: Final = 3
I32: Final = 5
I64: Final = 6
BINARY: Final = 8
LIST: Final = 9
STRUCT: Final = 12

Field = tuple[int, int, Any]
"""A field's id, its type and its value: for a list the type of its elements and these, for a structure its fields."""


def encode_struct(fields: Sequence[Field]) -> bytes:
    """Fields in ascending order of their ids, then a stop."""
    out = bytearray()
    before = 0
    for number, kind, value in fields:
        if number - before < 16:
            out.append((number - before) << 4 | kind)
        else:
            out.append(kind)
            out += encode_varint(number << 1)
        before = number
        out += _encode_value(kind, value)
    out.append(0)
    return bytes(out)


def encode_varint(number: int) -> bytes:
    """A number that is not negative, seven bits a byte."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _encode_value(kind: int, value: Any) -> bytes:
    if kind in (TRUE, FALSE):
        return b""
    if kind == I8:
        return bytes((value,))
    if kind in (I32, I64):
        return encode_varint(value << 1 ^ value >> 63)
    if kind == BINARY:
        return encode_varint(len(value)) + value
    if kind == STRUCT:
        return encode_struct(value)
    element_kind, elements = value
    return bytes((len(elements) << 4 | element_kind,)) + b"".join(_encode_value(element_kind, e) for e in elements)
