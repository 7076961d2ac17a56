"""A position in the bytes of an index, with checked reads."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

from skerry.errors import FormatError

__all__ = ["I32", "I64", "U8", "Cursor"]

U8: Final = struct.Struct(">B")
I32: Final = struct.Struct(">i")
I64: Final = struct.Struct(">q")


@dataclass(slots=True)
class Cursor:
    """Reads big-endian numbers in sequence.

    Args:
        data: The bytes.
        what: What they are, for messages.
        location: The file, for messages.
        offset: Offset of the bytes within it, for messages.
        position: Where to read next.
    """

    data: memoryview
    what: str
    location: str | None = None
    offset: int = 0
    position: int = 0

    @property
    def left(self) -> int:
        """Bytes after the position."""
        return len(self.data) - self.position

    def error(self, problem: str, position: int | None = None) -> FormatError:
        """The error for a problem at a position, the current one by default."""
        at = self.offset + (self.position if position is None else position)
        return FormatError(
            f"{self.what}: {problem}", location=self.location, offset=at, rule="docs/formats/paimon.md § 12.2"
        )

    def take(self, form: struct.Struct, name: str) -> Any:
        """Read the next number.

        Raises:
            FormatError: The bytes end within it.
        """
        return form.unpack(self.bytes(form.size, name))[0]

    def size(self, name: str) -> int:
        """Read the next int32, a count or length.

        Raises:
            FormatError: It is negative, or the bytes end within it.
        """
        number: int = self.take(I32, name)
        if number < 0:
            raise self.error(f"{name} is {number}", self.position - I32.size)
        return number

    def check_row_count(self, expected: int) -> None:
        """Check the next int32, the row count that an index claims, against the data file's.

        Raises:
            FormatError: The file has another number of rows.
        """
        number = self.size("number of rows")
        if number != expected:
            raise self.error(f"an index of {number} rows for a file of {expected}", self.position - I32.size)

    def count(self, name: str, least_bytes: int) -> int:
        """Read the next int32, a count of items that follow and take at least `least_bytes` each.

        Raises:
            FormatError: The items would not fit.
        """
        number = self.size(name)
        if number * least_bytes > self.left:
            raise self.error(f"{name} is {number} in {self.left} bytes", self.position - I32.size)
        return number

    def bytes(self, size: int, name: str) -> memoryview:
        """Read the next bytes.

        Raises:
            FormatError: There are fewer.
        """
        if not 0 <= size <= self.left:
            raise self.error(f"{name} needs {size} bytes, {self.left} are left")
        self.position += size
        return self.data[self.position - size : self.position]

    def flag(self, name: str) -> bool:
        """Read the next byte, 0 or 1.

        Raises:
            FormatError: It is neither.
        """
        value = self.take(U8, name)
        if value > 1:
            raise self.error(f"{name} is {value}, expected 0 or 1", self.position - 1)
        return bool(value)

    def rest(self) -> Cursor:
        """An independent cursor over the remaining bytes."""
        return Cursor(self.data[self.position :], self.what, self.location, self.offset + self.position)

    def part(self, start: int, size: int, name: str) -> Cursor:
        """An independent cursor over some of the bytes.

        Raises:
            FormatError: They are out of range.
        """
        if start < 0 or not 0 <= size <= len(self.data) - start:
            raise self.error(f"{name} of {size} bytes at {start} in {len(self.data)} bytes")
        return Cursor(self.data[start : start + size], self.what, self.location, self.offset + start)
