"""Printing of results: tables for a terminal, tab-separated values for a pipe, JSON on request."""

from __future__ import annotations

import datetime
import decimal
import json
import os
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from skerry.table.work.quantities import count, iso_text, moment, size

if TYPE_CHECKING:
    from rich.text import Text

__all__ = ["Field", "count", "is_terminal", "moment", "print_json", "print_pairs", "print_records", "size", "text"]

Record = Mapping[str, Any]


def is_terminal() -> bool:
    """Whether standard output is a terminal; FORCE_COLOR counts as one."""
    return sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR"))


# ---- values as people read them ----


def text(value: Any) -> str:
    """A value unchanged; an empty text for None."""
    return "" if value is None else str(value)


# ---- records ----


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a printed table.

    Args:
        key: Its name in records, in JSON and in the header of tab-separated values.
        title: Its header in a terminal.
        show: Formats its values for a terminal.
        right: Whether it is right-aligned.
        flexible: Whether its values may wrap in a narrow terminal.
        spare: Whether it is left out, the last one first, where the terminal is too narrow for all.
        style: Gives the colour of a record's cell; an empty one means no colour.
        marks: Gives the parts of a shown text that stand out: where they begin and end.
    """

    key: str
    title: str
    show: Callable[[Any], str] = text
    right: bool = False
    flexible: bool = False
    spare: bool = False
    style: Callable[[Record], str] = lambda record: ""
    marks: Callable[[str], Sequence[tuple[int, int]]] = lambda text: ()


def print_records(
    records: Sequence[Record], fields: Sequence[Field], *, as_json: bool, title: str = "", note: str = ""
) -> None:
    """Print records as a table.

    Args:
        records: Values by key.
        fields: The columns to print, and how; JSON contains everything that is in the records.
        as_json: Print a JSON array.
        title: Printed above the table in a terminal.
        note: Printed below the table in a terminal.
    """
    if as_json:
        print_json(list(records))
    elif is_terminal():
        _print_table(records, fields, title, note)
    else:
        lines = ["\t".join(field.key for field in fields)]
        lines += ["\t".join(_plain(record.get(field.key)) for field in fields) for record in records]
        print("\n".join(lines))


def print_pairs(values: Mapping[str, Any]) -> None:
    """Print names and values for programs, a line each; those without a value are left out."""
    print("\n".join(f"{name}\t{_plain(value)}" for name, value in values.items() if value is not None))


def print_json(value: Any) -> None:
    """Print a value as JSON, indented in a terminal.

    Dates and times become ISO 8601 text, decimals text without losing a digit, binary values hexadecimal text, and
    numbers that JSON does not have null.
    """
    print(to_json(value, indent=2 if is_terminal() else None))


def to_json(value: Any, *, indent: int | None = None) -> str:
    """A value as JSON text; see `print_json`."""
    has_all = (sys.stdout.encoding or "").lower().startswith("utf")
    return json.dumps(_finite(value), default=_jsonable, ensure_ascii=not has_all, allow_nan=False, indent=indent)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def _jsonable(value: Any) -> Any:
    if isinstance(value, datetime.date | datetime.time):
        return iso_text(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, decimal.Decimal | uuid.UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _plain(value: Any) -> str:
    """A cell of tab-separated values; characters that would break the line are escaped."""
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = ",".join(value)
    cell = value if isinstance(value, str) else to_json(value).strip('"')
    return cell.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def _print_table(records: Sequence[Record], fields: Sequence[Field], title: str, note: str) -> None:
    """Print a table without its empty columns, and without spare ones that have no room; values are never cut off."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=title or None, title_justify="left", title_style="bold")
    table.padding = (0, 1, 0, 0)
    columns = [column for column in (_column(field, records) for field in fields) if not records or any(column.cells)]
    console = Console(highlight=False)
    columns, left_out = _fitting(columns, console.width)
    least = sum(column.least for column in columns) + _margins(columns)
    console.width = max(console.width, least)
    for column, width in zip(columns, _widths(columns, console.width - _margins(columns)), strict=True):
        field = column.field
        justify: Literal["left", "right"] = "right" if field.right else "left"
        table.add_column(field.title, justify=justify, width=width, overflow="fold")
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*row)
    console.print(table)
    if left_out:
        titles = ", ".join(column.field.title for column in left_out)
        console.print(f"no room for {titles} (--json has all)", style="dim")
    if note:
        console.print(note, style="dim")


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a table that is printed.

    Args:
        field: What it shows.
        cells: Its values.
        least: How wide it must be at least.
        widest: How wide its widest line is.
    """

    field: Field
    cells: tuple[Text, ...]
    least: int
    widest: int


def _column(field: Field, records: Sequence[Record]) -> _Column:
    from rich.cells import cell_len
    from rich.text import Text

    cells = tuple(Text(field.show(record.get(field.key)), style=field.style(record)) for record in records)
    for cell in cells:
        for start, end in field.marks(cell.plain):
            cell.stylize("bold red", start, end)
    widest = max(cell_len(field.title), *(cell.cell_len for cell in cells), 0)
    return _Column(field, cells, cell_len(field.title) if field.flexible else widest, widest)


def _margins(columns: Sequence[_Column]) -> int:
    return 2 * len(columns) + 1


def _fitting(columns: Sequence[_Column], room: int) -> tuple[list[_Column], list[_Column]]:
    """The columns that are printed, and those that are left out for the others to fit."""
    kept, left_out = list(columns), list[_Column]()
    for column in reversed(columns):
        if sum(each.least for each in kept) + _margins(kept) <= room:
            break
        if column.field.spare:
            kept.remove(column)
            left_out.insert(0, column)
    return kept, left_out


def _widths(columns: Sequence[_Column], room: int) -> list[int]:
    """The widths of columns: what they need at least, and of the rest what they can use, the modest ones first."""
    widths = [column.least for column in columns]
    wanting = sorted((column.widest - column.least, number) for number, column in enumerate(columns))
    rest = room - sum(widths)
    for position, (more, number) in enumerate(wanting):
        given = min(more, rest // (len(wanting) - position))
        widths[number] += given
        rest -= given
    return widths
