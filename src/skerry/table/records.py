"""Records that show themselves: as HTML in notebooks, lists of them as lines at a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

__all__ = ["Record", "Records", "aligned"]

Item = TypeVar("Item")


class Record:
    """A base of records, whose fields a notebook shows as a list."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        from skerry.table.display import record_html

        return record_html(self)


class Records(list[Item]):
    """A list of records, which a notebook shows as a table; `title` is what they are."""

    title = "Records"

    def __repr__(self) -> str:
        return "\n".join(map(str, self)) or "[]"

    def _repr_html_(self) -> str:
        from skerry.table.display import records_html

        return records_html(self, self.title)


def aligned(lines: Sequence[Sequence[str]], right: str) -> str:
    """Texts in columns, for a prompt.

    Args:
        lines: The texts, the header first.
        right: A letter for each column: `>` for one that is aligned to the right, `<` for another.
    """
    widths = [max(len(line[at]) for line in lines) for at in range(len(right))]
    return "\n".join(
        "  ".join(f"{text:{side}{width}}" for text, side, width in zip(line, right, widths, strict=True)).rstrip()
        for line in lines
    )
