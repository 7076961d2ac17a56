"""The box around a shape in well-known text (WKT), as conditions contain it.

Spec: OGC Simple Feature Access, section 7.2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from skerry.errors import FormatError
from skerry.wkb.boxes import EMPTY, Box

__all__ = ["box_of_text"]

_TOKENS: Final = re.compile(
    r"\s*(?:(?P<word>[A-Za-z]+)|(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<symbol>[(),]))"
)
_NESTING: Final = {
    "POINT": 1,
    "LINESTRING": 1,
    "POLYGON": 2,
    "MULTIPOINT": 1,
    "MULTILINESTRING": 2,
    "MULTIPOLYGON": 3,
}
"""How many parentheses are around the points of a shape."""
_COLLECTION: Final = "GEOMETRYCOLLECTION"
_DIMENSIONS: Final = {"Z": 3, "M": 3, "ZM": 4}
_MAX_DEPTH: Final = 32


def box_of_text(text: str) -> Box:
    """The box around a shape; an empty one if it has no points.

    Args:
        text: Well-known text, such as `POLYGON ((0 0, 4 0, 4 3, 0 0))`.

    Raises:
        FormatError: It is not well-known text.
    """
    parser = _Parser(text)
    points = list(parser.shape(0))
    parser.end()
    if not points:
        return EMPTY
    xs, ys = zip(*points, strict=True)
    return Box(min(xs), min(ys), max(xs), max(ys))


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while found := _TOKENS.match(text, at):
            self._tokens.append((str(found.lastgroup), found[str(found.lastgroup)]))
            at = found.end()
        if text[at:].strip():
            raise self._error()
        self._tokens.append(("end", ""))
        self._next = 0

    def shape(self, depth: int) -> Iterator[tuple[float, float]]:
        """The points of the shape that begins here."""
        name = self._take("word").upper()
        is_collection = name == _COLLECTION
        if depth > _MAX_DEPTH or not (is_collection or name in _NESTING):
            raise self._error()
        size = 0
        if self._kind == "word" and self._text_at.upper() in _DIMENSIONS:
            size = _DIMENSIONS[self._take("word").upper()]
        if self._kind == "word" and self._text_at.upper() == "EMPTY":
            self._next += 1
            return
        if is_collection:
            yield from self._members(lambda: self.shape(depth + 1))
        else:
            before = self._next
            points = list(self._points(_NESTING[name], size, may_nest=name == "MULTIPOINT"))
            if name == "POINT" and len(points) != 1:
                self._next = before
                raise self._error()
            yield from points

    def end(self) -> None:
        """Check that nothing follows."""
        if self._kind != "end":
            raise self._error()

    def _points(self, nesting: int, size: int, *, may_nest: bool = False) -> Iterator[tuple[float, float]]:
        if nesting == 0 and may_nest and self._text_at == "(":
            return self._members(lambda: self._points(0, size))
        if nesting == 0:
            return iter([self._point(size)])
        return self._members(lambda: self._points(nesting - 1, size, may_nest=may_nest))

    def _members(self, member: Callable[[], Iterator[tuple[float, float]]]) -> Iterator[tuple[float, float]]:
        self._symbol("(")
        yield from member()
        while self._text_at == ",":
            self._next += 1
            yield from member()
        self._symbol(")")

    def _point(self, size: int) -> tuple[float, float]:
        numbers = []
        while self._kind == "number":
            numbers.append(float(self._take("number")))
        if len(numbers) not in ((size,) if size else (2, 3, 4)):
            raise self._error()
        return numbers[0], numbers[1]

    @property
    def _kind(self) -> str:
        return self._tokens[self._next][0]

    @property
    def _text_at(self) -> str:
        return self._tokens[self._next][1]

    def _take(self, kind: str) -> str:
        if self._kind != kind:
            raise self._error()
        self._next += 1
        return self._tokens[self._next - 1][1]

    def _symbol(self, symbol: str) -> None:
        if self._text_at != symbol:
            raise self._error()
        self._next += 1

    def _error(self) -> FormatError:
        text = self._text if len(self._text) <= 60 else self._text[:60] + "…"
        return FormatError(f"{text!r} is not well-known text of a shape")
