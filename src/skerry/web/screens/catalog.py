"""The catalog: every table with its size, its age and the state of its statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from skerry.errors import SkerryError
from skerry.markup import Column, Html, element, join, table
from skerry.table.table import Table
from skerry.web.listing import list_files
from skerry.web.query import Query, address
from skerry.web.source import Source
from skerry.web.values import count, moment, pages, size, tag

__all__ = [
    "CatalogPage",
    "TableLine",
    "Totals",
    "describe",
    "freshness_tag",
    "loaded_later",
    "read_catalog",
    "read_freshness",
    "read_totals",
    "show_catalog",
    "show_data_files",
    "show_freshness",
    "show_size",
    "total_of",
]

_PER_PAGE: Final = 100
_NOTHING: Final = {"total-records": "0", "total-files-size": "0", "total-data-files": "0"}
"""What the summary of a table without snapshots would say."""


@dataclass(frozen=True, slots=True)
class TableLine:
    """A table in a list.

    Args:
        table: Its name.
        format: `iceberg` or `paimon`, with the version; None if it cannot be read.
        rows: Its rows, as its newest snapshot counts them; None if unknown.
        size_bytes: The size of its data files.
        files: Its data files.
        snapshots: Snapshots that have not expired.
        updated: When it was last changed.
        problem: Why it cannot be read.
    """

    table: str
    format: str | None = None
    rows: int | None = None
    size_bytes: int | None = None
    files: int | None = None
    snapshots: int | None = None
    updated: datetime | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Totals:
    """The data files of a table: their bytes, and how many there are."""

    size_bytes: int
    files: int


@dataclass(frozen=True, slots=True)
class CatalogPage:
    """A page of the catalog.

    Args:
        title: What is served.
        tables: The tables of this page.
        found: How many tables there are whose names contain what was searched.
        total: How many there are.
        views: The names of views.
        file: The file, where a file is served.
    """

    title: str
    tables: list[TableLine]
    found: int
    total: int
    views: list[str]
    file: str | None = None


def describe(opened: Table) -> TableLine:
    """What a table's newest snapshot says about it, without reading manifests."""
    snapshot = opened.current_snapshot()
    summary = _NOTHING if snapshot is None else snapshot.summary
    return TableLine(
        table=opened.name,
        format=f"{opened.format} {opened.format_version}",
        rows=total_of(summary, "total-records"),
        size_bytes=total_of(summary, "total-files-size"),
        files=total_of(summary, "total-data-files"),
        snapshots=len(opened.snapshots()),
        updated=snapshot.timestamp if snapshot is not None else None,
    )


def total_of(summary: Mapping[str, str], key: str) -> int | None:
    """A number in a snapshot's summary; None if it is not there."""
    value = summary.get(key)
    return int(value) if value is not None and value.isdecimal() else None


def read_catalog(source: Source, query: Query) -> CatalogPage:
    """The tables of a page; one that cannot be read does not hide the others."""
    if source.file is not None:
        return CatalogPage(source.title, [], 0, 0, [], source.file[1])
    names = source.names()
    wanted = query.text("q").lower()
    found = [name for name in names if wanted in name.lower()]
    first = query.number("page") * _PER_PAGE
    return CatalogPage(
        title=source.title,
        tables=[_line(source, name) for name in found[first : first + _PER_PAGE]],
        found=len(found),
        total=len(names),
        views=[name for name in _views(source) if wanted in name.lower()],
    )


def _views(source: Source) -> list[str]:
    """The names of views; none where the catalog has none, or cannot tell."""
    try:
        return [] if source.catalog is None else source.catalog.list_views()
    except SkerryError:
        return []


def read_totals(source: Source, query: Query) -> Totals:
    """The size of a table whose snapshots do not say it, from its manifests."""
    listing = list_files(source, source.table(query.table))
    is_data = listing.content == 0
    return Totals(int(listing.sizes[is_data].sum()), int(is_data.sum()))


def show_size(found: Totals, query: Query) -> Html:
    """The bytes of a table, for a list of tables."""
    return element("span", size(found.size_bytes))


def show_data_files(found: Totals, query: Query) -> Html:
    """The number of a table's data files, for a list of tables."""
    return element("span", count(found.files))


def read_freshness(source: Source, query: Query) -> dict[str, int]:
    """How many columns of a table have distinct counts of which state; may read all manifests, but only once."""
    opened = source.table(query.table)
    known = source.remember(("freshness", opened.location, opened.version), opened.freshness)
    return dict(Counter(freshness.state.value for freshness in known.values()))


def show_freshness(found: dict[str, int], query: Query) -> Html:
    """The states, for a list of tables."""
    return element("span", [freshness_tag(state, number) for state, number in found.items()])


def loaded_later(path: str, name: str) -> Html:
    """A link that turns into what it leads to when it comes in sight."""
    return element("a", "check", href=address("/table", t=name), data_load=address(path, t=name))


def _line(source: Source, name: str) -> TableLine:
    try:
        return describe(source.table(name))
    except SkerryError as error:
        return TableLine(name, problem=str(error))


def show_catalog(found: CatalogPage, query: Query) -> Html:
    """The list, with a field to search it."""
    if found.file is not None:
        return element("p", element("a", found.file, href="/file"))
    search = element(
        "form",
        element("label", "Search ", for_="q", class_="hidden"),
        element(
            "input",
            type="search",
            id="q",
            name="q",
            value=query.text("q"),
            placeholder="name of a table",
            accesskey="f",
        ),
        action="/",
        role="search",
    )
    heading = element(
        "div",
        element("h1", "Tables"),
        element(
            "span",
            f"{found.found:,} of {found.total:,}" if found.found != found.total else f"{found.total:,}",
            class_="dim",
        ),
        element("a", "Plan a query", href="/query"),
        search,
        class_="title",
    )
    columns = [
        Column[TableLine](
            "table", lambda line: element("a", line.table, href=address("/table", t=line.table), class_="bdi")
        ),
        Column[TableLine]("format", lambda line: line.format),
        Column[TableLine]("rows", lambda line: count(line.rows), right=True),
        Column[TableLine]("size", lambda line: _told(line, size, line.size_bytes, "/size"), right=True),
        Column[TableLine]("files", lambda line: _told(line, count, line.files, "/data-files"), right=True),
        Column[TableLine]("snapshots", lambda line: count(line.snapshots), right=True),
        Column[TableLine]("last commit", lambda line: moment(line.updated)),
        Column[TableLine]("statistics", _freshness, note="distinct counts by column, and how far they can be trusted"),
        Column[TableLine]("health", _health, note="checks that want something done"),
    ]
    return join(
        heading,
        table(
            found.tables,
            columns,
            caption="tables",
            empty="no tables" if not query.text("q") else "no table has this in its name",
        ),
        pages(lambda number: query.with_(page=number), query.number("page"), _PER_PAGE, found.found, "tables"),
        _view_names(found.views),
    )


def _view_names(names: list[str]) -> Html | None:
    if not names:
        return None
    shown = [element("li", name, class_="bdi") for name in names[:_PER_PAGE]]
    number = element("span", f"{len(names):,}", class_="dim")
    return element("section", element("h2", "Views", number), element("ul", shown, class_="names"))


def _told(line: TableLine, show: Callable[[int | None], str], number: int | None, path: str) -> Html | str:
    """A number that the snapshot tells, or a place for what manifests will."""
    return loaded_later(path, line.table) if number is None and line.format else show(number)


def _freshness(line: TableLine) -> Html | str:
    if line.problem:
        return element("span", f"cannot be read: {line.problem}", class_="problem")
    return loaded_later("/freshness", line.table)


def freshness_tag(state: str, number: int | None = None) -> Html:
    """A state of freshness, with the number of columns that are in it."""
    return tag(state if number is None else f"{number} {state}", state.replace(" ", "-"))


def _health(line: TableLine) -> Html | None:
    if line.problem:
        return None
    return loaded_later("/health", line.table)
