"""A part of a file and its parts: the tree that every look into a file results in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Entry"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A part of a file.

    Args:
        kind: What it is: `row group`, `column chunk`, `page`, `stripe`, `buffer`, `blob`, `property` and so on.
        name: Its name among its kind.
        details: What it says, by name; values that JSON has, and lists and mappings of them.
        file: The file that it is in, if it is one piece.
        start: Its first byte there.
        end: The byte after its last.
        children: Its parts.
    """

    kind: str
    name: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    file: str | None = None
    start: int | None = None
    end: int | None = None
    children: tuple[Entry, ...] = ()

    def with_children(self, children: tuple[Entry, ...]) -> Entry:
        """This entry with other parts."""
        return Entry(self.kind, self.name, self.details, self.file, self.start, self.end, children)

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Entry]]:
        """This entry and all below it, each with its depth."""
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)

    def as_json(self) -> dict[str, Any]:
        """The tree as mappings and lists, without what is empty."""
        found: dict[str, Any] = {"kind": self.kind}
        if self.name:
            found["name"] = self.name
        if self.start is not None:
            found |= {"file": self.file, "start": self.start, "end": self.end}
        found |= self.details
        if self.children:
            found["children"] = [child.as_json() for child in self.children]
        return found
