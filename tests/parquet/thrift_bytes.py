"""Thrift's compact protocol the other way: what the tests build footers and page headers from."""

from __future__ import annotations

import struct
from typing import Any


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value: int) -> bytes:
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


def _kind(value: Any) -> int:
    return {bool: 1, int: 6, float: 7, bytes: 8, str: 8, list: 9, dict: 12}[type(value)]


def _value(value: Any) -> bytes:
    if isinstance(value, bool):
        return b"\x01" if value else b"\x02"
    if isinstance(value, int):
        return zigzag(value)
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return varint(len(value)) + value
    if isinstance(value, list):
        kind = _kind(value[0]) if value else 0
        size = bytes([len(value) << 4 | kind]) if len(value) < 15 else bytes([0xF0 | kind]) + varint(len(value))
        return size + b"".join(map(_value, value))
    return encode_struct(value)


def encode_struct(fields: dict[int, Any]) -> bytes:
    """A structure of fields by id: bool, int (i64), float, bytes, str, list, dict (a structure)."""
    out, last = bytearray(), 0
    for field, value in fields.items():
        kind = _kind(value)
        if isinstance(value, bool) and not value:
            kind = 2
        delta = field - last
        out += bytes([delta << 4 | kind]) if 0 < delta <= 15 else bytes([kind]) + zigzag(field)
        if not isinstance(value, bool):
            out += _value(value)
        last = field
    return bytes(out) + b"\x00"
