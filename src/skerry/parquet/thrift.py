"""Thrift's compact protocol, as far as Parquet's footers and page headers use it: decoding and checking fields.

A structure decodes into a `Struct`, a map from field id to value that hands out each field with its type checked.
Unknown fields are kept and ignored, which is how Parquet evolves.

Spec: Thrift compact protocol; Parquet spec, parquet.thrift.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any, Final

from skerry.errors import FormatError

__all__ = ["MAX_DEPTH", "CompactDecoder", "Struct", "WireType"]


class WireType(IntEnum):
    """The types of values. Spec: Thrift compact protocol."""

    STOP = 0
    TRUE = 1
    FALSE = 2
    I8 = 3
    I16 = 4
    I32 = 5
    I64 = 6
    DOUBLE = 7
    BINARY = 8
    LIST = 9
    SET = 10
    MAP = 11
    STRUCT = 12
    UUID = 13


# As plain numbers, since members of an enum cost a look-up each.
_STOP, _TRUE, _FALSE, _I8, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = map(int, WireType)
_INTEGERS: Final = frozenset((_I16, _I32, _I64))
MAX_DEPTH: Final = 24
"""Parquet's own structures nest less than 10 levels deep; the rest is room for the future, not for an attacker."""
_MAX_VARINT_BYTES: Final = 10
_RULE: Final = "Thrift compact protocol"


class Struct:
    """The fields of one decoded structure, by field id.

    Args:
        name: The structure's name in parquet.thrift, for messages.
        fields: Decoded values: bool, int, float, bytes, list or, for a nested structure, a dict of the same kind.
        location: The file, for messages.
        offset: Where the structure starts in the file.
    """

    __slots__ = ("fields", "location", "name", "offset")

    def __init__(self, name: str, fields: dict[int, Any], location: str | None, offset: int) -> None:
        self.name = name
        self.fields = fields
        self.location = location
        self.offset = offset

    def integer(self, field: int, name: str, *, minimum: int = 0, maximum: int = 2**63 - 1) -> int:
        """A required integer within bounds."""
        value = self.optional_integer(field, name, minimum=minimum, maximum=maximum)
        if value is None:
            raise self.error(f"has no {name}")
        return value

    def optional_integer(self, field: int, name: str, *, minimum: int = 0, maximum: int = 2**63 - 1) -> int | None:
        """An integer within bounds, None if the field is not there."""
        value = self.fields.get(field)
        if value is None:
            return None
        if type(value) is not int or not minimum <= value <= maximum:
            raise self.error(f"has {name} {value!r:.40}, expected an integer from {minimum} to {maximum}")
        return value

    def text(self, field: int, name: str) -> str:
        """A required UTF-8 string."""
        value = self.optional_text(field, name)
        if value is None:
            raise self.error(f"has no {name}")
        return value

    def optional_text(self, field: int, name: str) -> str | None:
        """A UTF-8 string, None if the field is not there."""
        value = self.fields.get(field)
        if value is None:
            return None
        if type(value) is not bytes:
            raise self.error(f"has a {name} that is not a string")
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise self.error(f"has a {name} that is not UTF-8") from None

    def flag(self, field: int, name: str, *, default: bool) -> bool:
        """A boolean, `default` if the field is not there."""
        value = self.fields.get(field, default)
        if type(value) is not bool:
            raise self.error(f"has {name} {value!r:.40}, expected a boolean")
        return value

    def structure(self, field: int, name: str) -> Struct:
        """A required nested structure."""
        value = self.optional_structure(field, name)
        if value is None:
            raise self.error(f"has no {name}")
        return value

    def optional_structure(self, field: int, name: str) -> Struct | None:
        """A nested structure, None if the field is not there."""
        value = self.fields.get(field)
        if value is None:
            return None
        if type(value) is not dict:
            raise self.error(f"has a {name} that is not a structure")
        return Struct(name, value, self.location, self.offset)

    def structures(self, field: int, name: str) -> list[Struct]:
        """A list of structures, empty if the field is not there."""
        return [Struct(name, value, self.location, self.offset) for value in self._elements(field, name, dict)]

    def integers(self, field: int, name: str) -> list[int]:
        """A list of integers, empty if the field is not there."""
        return self._elements(field, name, int)

    def error(self, problem: str) -> FormatError:
        """An error about this structure: its location, and what is wrong with it."""
        return FormatError(
            f"{self.name} {problem}", location=self.location, offset=self.offset, rule="Parquet spec, parquet.thrift"
        )

    def _elements(self, field: int, name: str, kind: type) -> list[Any]:
        values = self.fields.get(field, [])
        if type(values) is not list or any(type(value) is not kind for value in values):
            raise self.error(f"has a {name} that is not a list of {kind.__name__}")
        return values


class CompactDecoder:
    """Decodes structures one after another.

    Args:
        data: What holds the structures (no copy).
        position: Where in `data` the first one starts.
        location: The file, for messages.
        base: The offset of `data` in the file, for messages.
    """

    __slots__ = ("_base", "_data", "_location", "_size", "position")

    def __init__(
        self, data: bytes | memoryview, *, position: int = 0, location: str | None = None, base: int = 0
    ) -> None:
        self._data = data
        self._size = len(data)
        self._location = location
        self._base = base
        self.position = position

    def decode_struct(self, name: str) -> Struct:
        """Decode one structure and move past it.

        Args:
            name: Its name in parquet.thrift, for messages.

        Raises:
            FormatError: The bytes are cut short or no compact Thrift.
        """
        start = self._base + self.position
        try:
            return Struct(name, self._fields(0), self._location, start)
        except IndexError:
            raise self._error(f"{name} is cut short", self._size) from None

    def skip_integer(self) -> None:
        """Move past an integer.

        Raises:
            FormatError: The bytes are cut short.
        """
        try:
            self._varint()
        except IndexError:
            raise self._error("integer is cut short", self._size) from None

    def struct_ends(self, name: str) -> list[int]:
        """Decode a list of structures and move past it.

        Args:
            name: Their name in parquet.thrift, for messages.

        Returns:
            The positions after them.

        Raises:
            FormatError: The bytes are cut short or no such list.
        """
        try:
            count, kind = self._list_header(0)
            if kind != _STRUCT:
                raise self._error(f"list of type {kind}, expected structures")
            ends = []
            for _ in range(count):
                self._fields(1)
                ends.append(self.position)
            return ends
        except IndexError:
            raise self._error(f"list of {name} is cut short", self._size) from None

    def _fields(self, depth: int) -> dict[int, Any]:
        if depth > MAX_DEPTH:
            raise self._error(f"structures nest deeper than {MAX_DEPTH} levels")
        data, position = self._data, self.position
        fields: dict[int, Any] = {}
        field = 0
        while True:
            byte = data[position]
            position += 1
            if byte == _STOP:
                self.position = position
                return fields
            kind = byte & 0x0F
            if byte > 0x0F:
                field += byte >> 4
            else:
                self.position = position
                field = self._zigzag()
                position = self.position
            # Nearly all fields are integers, and most of those one byte long.
            if kind in _INTEGERS and (byte := data[position]) < 0x80:
                position += 1
                fields[field] = byte >> 1 ^ -(byte & 1)
            elif kind in (_TRUE, _FALSE):
                # A field's boolean is in its type; everywhere else a boolean is a byte.
                fields[field] = kind == _TRUE
            else:
                self.position = position
                fields[field] = self._value(kind, depth)
                position = self.position

    def _value(self, kind: int, depth: int) -> Any:
        if kind in _INTEGERS:
            return self._zigzag()
        if kind == _BINARY:
            return self._take(self._varint())
        if kind == _STRUCT:
            return self._fields(depth + 1)
        if kind in (_LIST, _SET):
            return self._list(depth + 1)
        if kind == _MAP:
            return self._skip_map(depth + 1)
        if kind == _I8:
            return int.from_bytes(self._take(1), "little", signed=True)
        if kind in (_TRUE, _FALSE):
            return self._take(1)[0] == _TRUE
        if kind == _DOUBLE:
            return struct.unpack("<d", self._take(8))[0]
        if kind == _UUID:
            return self._take(16)
        raise self._error(f"type {kind} is not one of the protocol's", self.position - 1)

    def _list(self, depth: int) -> list[Any]:
        count, kind = self._list_header(depth)
        return [self._value(kind, depth) for _ in range(count)]

    def _list_header(self, depth: int) -> tuple[int, int]:
        header = self._data[self.position]
        self.position += 1
        count, kind = header >> 4, header & 0x0F
        if count == 15:
            count = self._varint()
        self._check_count(count, depth)
        return count, kind

    def _skip_map(self, depth: int) -> None:
        """Parquet has no maps; one of the future is stepped over."""
        count = self._varint()
        if count:
            self._check_count(count, depth)
            kinds = self._data[self.position]
            self.position += 1
            for _ in range(count):
                self._value(kinds >> 4, depth)
                self._value(kinds & 0x0F, depth)

    def _check_count(self, count: int, depth: int) -> None:
        """Every element takes a byte at least, so that no container is larger than what is left of the data."""
        if count > self._size - self.position:
            raise self._error(f"container of {count} elements, only {self._size - self.position} bytes are left")
        if depth > MAX_DEPTH:
            raise self._error(f"containers nest deeper than {MAX_DEPTH} levels")

    def _take(self, size: int) -> bytes:
        end = self.position + size
        if end > self._size:
            raise self._error(f"value of {size} bytes, only {self._size - self.position} are left")
        value = bytes(self._data[self.position : end])
        self.position = end
        return value

    def _varint(self) -> int:
        data, position = self._data, self.position
        byte = data[position]
        position += 1
        value = byte & 0x7F
        shift = 7
        while byte & 0x80:
            if shift == 7 * _MAX_VARINT_BYTES:
                raise self._error(f"variable-length integer is longer than {_MAX_VARINT_BYTES} bytes")
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
        self.position = position
        return value

    def _zigzag(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)

    def _error(self, problem: str, position: int | None = None) -> FormatError:
        at = self.position if position is None else position
        return FormatError(problem, location=self._location, offset=self._base + at, rule=_RULE)
