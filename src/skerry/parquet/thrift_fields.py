"""The fields of a Thrift structure with their places, for those who look into a file.

`skerry.parquet.thrift` decodes structures for readers, who need values only.

Spec: Thrift compact protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from skerry.parquet.thrift import MAX_DEPTH, CompactDecoder, WireType

__all__ = ["ThriftField", "walk_struct"]

_MOST_FIELDS: Final = 300_000


@dataclass(frozen=True, slots=True)
class ThriftField:
    """A field of a structure, or an element of a list of structures.

    Args:
        id: The field's id; the position of an element.
        start: Where it starts, its header included.
        end: Where it ends.
        value: Its value; None if it has fields.
        fields: The fields of a structure, or the elements of a list of structures.
        is_list: Whether it is a list of structures.
    """

    id: int
    start: int
    end: int
    value: Any = None
    fields: tuple[ThriftField, ...] = ()
    is_list: bool = False


def walk_struct(data: memoryview, *, location: str | None = None, base: int = 0) -> tuple[ThriftField, ...]:
    """Find the fields of the structure that some bytes begin with.

    Args:
        data: The bytes.
        location: The file, for messages.
        base: Where the bytes are in the file; places count from there.

    Raises:
        FormatError: The bytes are cut short, no compact Thrift, or have more than 300,000 fields.
    """
    return _Walker(data, location=location, base=base).walk()


class _Walker(CompactDecoder):
    """A decoder that notes where fields are."""

    __slots__ = ("_left",)

    def walk(self) -> tuple[ThriftField, ...]:
        self._left = _MOST_FIELDS
        try:
            return self._walk(0)
        except IndexError:
            raise self._error("a structure is cut short", self._size) from None

    def _walk(self, depth: int) -> tuple[ThriftField, ...]:
        if depth > MAX_DEPTH:
            raise self._error(f"structures nest deeper than {MAX_DEPTH} levels")
        found: list[ThriftField] = []
        number = 0
        while True:
            start = self.position
            header = self._data[start]
            self.position += 1
            if header == WireType.STOP:
                return tuple(found)
            self._left -= 1
            if self._left < 0:
                raise self._error(f"more than {_MOST_FIELDS:,} fields")
            kind = header & 0x0F
            number = number + (header >> 4) if header > 0x0F else self._zigzag()
            found.append(self._field(number, start, kind, depth))

    def _field(self, number: int, start: int, kind: int, depth: int) -> ThriftField:
        at = self._base + start
        if kind in (WireType.TRUE, WireType.FALSE):
            return ThriftField(number, at, self._base + self.position, kind == WireType.TRUE)
        if kind == WireType.STRUCT:
            fields = self._walk(depth + 1)
            return ThriftField(number, at, self._base + self.position, None, fields)
        if kind in (WireType.LIST, WireType.SET):
            before = self.position
            count, element = self._list_header(depth + 1)
            if element == WireType.STRUCT:
                elements = tuple(self._element(each, depth) for each in range(count))
                return ThriftField(number, at, self._base + self.position, None, elements, is_list=True)
            self.position = before
        value = self._value(kind, depth)
        return ThriftField(number, at, self._base + self.position, value)

    def _element(self, number: int, depth: int) -> ThriftField:
        start = self.position
        fields = self._walk(depth + 2)
        return ThriftField(number, self._base + start, self._base + self.position, None, fields)
