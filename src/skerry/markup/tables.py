"""Tables of records, and lists of names with values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from skerry.markup.elements import Content, Html, element

__all__ = ["Column", "definitions", "table"]

Record = TypeVar("Record")


@dataclass(frozen=True)
class Column(Generic[Record]):
    """A column of a table.

    Args:
        title: Its header.
        show: What a record has in it.
        right: Whether it is aligned to the right, as numbers are.
        note: What the header says when it is pointed at.
        style: The class of a record's cell.
    """

    title: str
    show: Callable[[Record], Content]
    right: bool = False
    note: str | None = None
    style: Callable[[Record], str | None] = lambda record: None


def table(
    records: Sequence[Record], columns: Sequence[Column[Record]], *, caption: str, empty: str = "none", class_: str = ""
) -> Html:
    """A table with a header and a row per record.

    Args:
        records: The rows.
        columns: The columns; those in which no record has anything are left out.
        caption: What the table is, for those who do not see what is around it.
        empty: What stands in place of rows.
        class_: Further classes.
    """
    shown = [[column.show(record) for column in columns] for record in records]
    kept = [at for at in range(len(columns)) if not records or any(cells[at] not in (None, "") for cells in shown)]
    head = element(
        "tr",
        [
            element("th", column.title, scope="col", title=column.note, class_="n" if column.right else None)
            for column in [columns[at] for at in kept]
        ],
    )
    rows = [
        element("tr", [element("td", cells[at], class_=_classes(columns[at], record)) for at in kept])
        for record, cells in zip(records, shown, strict=True)
    ]
    if not rows:
        rows = [element("tr", element("td", empty, colspan=len(columns), class_="dim"))]
    return element(
        "table",
        element("caption", caption),
        element("thead", head),
        element("tbody", rows),
        class_=class_ or None,
    )


def _classes(column: Column[Record], record: Record) -> str | None:
    names = ["n"] if column.right else []
    if own := column.style(record):
        names.append(own)
    return " ".join(names) or None


def definitions(values: Mapping[str, Content]) -> Html:
    """A list of names with values; those that are empty are left out."""
    return element(
        "dl",
        [
            element("div", element("dt", name), element("dd", value))
            for name, value in values.items()
            if value not in (None, "")
        ],
    )
