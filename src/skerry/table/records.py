"""Records that show themselves in notebooks."""

from __future__ import annotations

from typing import TypeVar

__all__ = ["Record", "Records"]

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

    def _repr_html_(self) -> str:
        from skerry.table.display import records_html

        return records_html(self, self.title)
