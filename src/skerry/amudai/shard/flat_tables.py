"""FlatBuffers tables in untrusted bytes: every offset is checked before it is followed.

The FlatBuffers runtime for Python has no verifier, and its accessors follow any offset.

Spec: FlatBuffers internals.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

from skerry.errors import FormatError

__all__ = ["FlatTable", "root_table"]

_U8: Final = struct.Struct("<B")
_U16: Final = struct.Struct("<H")
_I32: Final = struct.Struct("<i")
_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")
_RULE: Final = "FlatBuffers internals"


class _Bytes:
    """The buffer, and its location for errors."""

    __slots__ = ("base", "data", "location")

    def __init__(self, data: memoryview, location: str | None, base: int) -> None:
        self.data = data
        self.location = location
        self.base = base

    def fail(self, message: str, at: int) -> FormatError:
        return FormatError(message, location=self.location, offset=self.base + max(at, 0), rule=_RULE)

    def unpack(self, form: struct.Struct, at: int) -> Any:
        if not 0 <= at <= len(self.data) - form.size:
            raise self.fail(f"offset {at} in a FlatBuffers message of {len(self.data)} bytes", at)
        return form.unpack_from(self.data, at)[0]

    def follow(self, at: int) -> int:
        """The position that the offset at `at` leads to."""
        return int(at + self.unpack(_U32, at))

    def vector(self, at: int, item_bytes: int) -> tuple[int, int]:
        """First byte and number of items of the vector whose offset is at `at`."""
        start = self.follow(at)
        count = self.unpack(_U32, start)
        if count * item_bytes > len(self.data) - start - _U32.size:
            raise self.fail(
                f"vector of {count} items at {start} in a FlatBuffers message of {len(self.data)} bytes", start
            )
        return start + _U32.size, count


class FlatTable:
    """A table; fields are asked for by their slot, the place of the field in the table's declaration.

    Two tables are equal if they are at the same offset, which distinguishes a graph from a tree.
    """

    __slots__ = ("_bytes", "_fields", "_fields_bytes", "_table_bytes", "position")

    def __init__(self, source: _Bytes, position: int) -> None:
        self._bytes = source
        self.position = position
        self._fields = position - source.unpack(_I32, position)
        self._fields_bytes = source.unpack(_U16, self._fields)
        self._table_bytes = source.unpack(_U16, self._fields + 2)
        if self._fields_bytes < 4 or self._fields + self._fields_bytes > len(source.data):
            raise source.fail(f"table at {position} has a list of fields of {self._fields_bytes} bytes", position)

    def fail(self, message: str) -> FormatError:
        """An error about this table."""
        return self._bytes.fail(message, self.position)

    def _at(self, slot: int) -> int | None:
        entry = 4 + 2 * slot
        if entry + 2 > self._fields_bytes:
            return None
        start = self._bytes.unpack(_U16, self._fields + entry)
        if start == 0:
            return None
        if start >= self._table_bytes:
            raise self.fail(f"field {slot} is at {start} of a table of {self._table_bytes} bytes")
        return int(self.position + start)

    def _required(self, slot: int, name: str) -> int:
        at = self._at(slot)
        if at is None:
            raise self.fail(f"required field {name!r} is missing")
        return at

    def u8(self, slot: int, default: int = 0) -> int:
        """An unsigned byte, or a boolean."""
        at = self._at(slot)
        return default if at is None else int(self._bytes.unpack(_U8, at))

    def u32(self, slot: int, default: int = 0) -> int:
        """An unsigned 32-bit number."""
        at = self._at(slot)
        return default if at is None else int(self._bytes.unpack(_U32, at))

    def u64(self, slot: int, default: int = 0) -> int:
        """An unsigned 64-bit number."""
        at = self._at(slot)
        return default if at is None else int(self._bytes.unpack(_U64, at))

    def table(self, slot: int) -> FlatTable | None:
        """A table that may be missing."""
        at = self._at(slot)
        return None if at is None else FlatTable(self._bytes, self._bytes.follow(at))

    def required_table(self, slot: int, name: str) -> FlatTable:
        """A table that must be there."""
        return FlatTable(self._bytes, self._bytes.follow(self._required(slot, name)))

    def required_bytes(self, slot: int, name: str) -> bytes:
        """A vector of bytes that must be there."""
        start, count = self._bytes.vector(self._required(slot, name), 1)
        return bytes(self._bytes.data[start : start + count])

    def required_string(self, slot: int, name: str) -> str:
        """A string that must be there."""
        return self._string(self._required(slot, name), name)

    def strings(self, slot: int, name: str) -> tuple[str, ...]:
        """A vector of strings; empty if it is missing."""
        at = self._at(slot)
        return () if at is None else tuple(self._string(item, name) for item in self._items(at))

    def required_tables(self, slot: int, name: str) -> Iterator[FlatTable]:
        """A vector of tables that must be there."""
        at = self._required(slot, name)
        return (FlatTable(self._bytes, self._bytes.follow(item)) for item in self._items(at))

    def _items(self, at: int) -> range:
        """The positions of the offsets of a vector."""
        start, count = self._bytes.vector(at, _U32.size)
        return range(start, start + count * _U32.size, _U32.size)

    def _string(self, at: int, name: str) -> str:
        start, count = self._bytes.vector(at, 1)
        try:
            return str(self._bytes.data[start : start + count], "utf-8")
        except UnicodeDecodeError as error:
            raise self._bytes.fail(f"{name!r} is not UTF-8: {error.reason}", start) from error


def root_table(data: memoryview, *, location: str | None = None, offset: int = 0) -> FlatTable:
    """The table that a FlatBuffers message is about.

    Args:
        data: The message, without any frame.
        location: The file, for errors.
        offset: Where the message starts in the file, for errors.

    Raises:
        FormatError: The bytes cannot be such a message. Accessors of the table raise it, too.
    """
    source = _Bytes(data, location, offset)
    return FlatTable(source, source.follow(0))
