"""A table at a glance: what it is, its columns, its health and some rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from skerry.errors import SkerryError
from skerry.markup import Column, Html, definitions, element, join, table
from skerry.markup.lines import Point, line_plot
from skerry.table.inspection.health import Finding
from skerry.table.rows.schema import field_id
from skerry.table.table import Table
from skerry.web.columns import column_histories
from skerry.web.query import Query, address
from skerry.web.screens.catalog import TableLine, describe, loaded_later, total_of
from skerry.web.source import Source
from skerry.web.values import cell, count, cut, moment, over_time, pages, percent, short, size, tag

__all__ = ["ColumnLine", "TablePage", "read_health", "read_table", "show_checks", "show_health", "show_table"]

_COLUMNS_PER_PAGE: Final = 100
_SAMPLE_COLUMNS: Final = 30
_SAMPLE_ROWS: Final = 12
_HEADER_LETTERS: Final = 40


@dataclass(frozen=True, slots=True)
class ColumnLine:
    """A column: its field id, name, type, whether it may be null, what is written about it, and what it was before."""

    id: int | None
    column: str
    type: str
    required: bool
    doc: str
    history: str


@dataclass(frozen=True, slots=True)
class Totals:
    """What a table had after a commit; None where the format does not record it."""

    committed: datetime
    rows: int | None
    size_bytes: int | None
    files: int | None
    deletes: int | None


@dataclass(frozen=True, slots=True)
class TablePage:
    """A table at a glance.

    Args:
        head: Its line in the catalog.
        location: Its folder.
        partition_by: Its partition transforms.
        sort_by: Its sort order.
        primary_key: The columns that identify a row.
        columns: The columns of this page.
        column_count: How many columns it has.
        past: Rows, bytes, files and deletes after each commit of the main branch, oldest first.
        sample_columns: The names of the columns of the sample.
        sample: Some rows.
        sample_problem: Why there are none, if they cannot be read: the rest of the page helps to find out.
        properties: The table properties.
    """

    head: TableLine
    location: str
    partition_by: list[str]
    sort_by: list[str]
    primary_key: list[str]
    columns: list[ColumnLine]
    column_count: int
    past: list[Totals]
    sample_columns: list[str]
    sample: list[list[Any]]
    sample_problem: str | None
    properties: dict[str, str]


def read_table(source: Source, query: Query) -> TablePage:
    """The newest state of a table."""
    opened = source.table(query.table)
    first = query.number("page") * _COLUMNS_PER_PAGE
    shown = list(opened.schema)[first : first + _COLUMNS_PER_PAGE]
    sampled = [field.name for field in shown[:_SAMPLE_COLUMNS]]
    histories = column_histories(opened)
    sample, problem = _some_rows(opened, sampled)
    return TablePage(
        head=describe(opened),
        location=opened.location,
        partition_by=opened.partition_by,
        sort_by=opened.sort_by,
        primary_key=opened.primary_key,
        columns=[
            ColumnLine(
                field_id(field),
                field.name,
                str(field.type),
                not field.nullable,
                (field.metadata or {}).get(b"doc", b"").decode("utf-8", "replace"),
                histories.get(field_id(field) or 0, ""),
            )
            for field in shown
        ],
        column_count=len(opened.schema),
        past=_past(opened),
        sample_columns=sampled,
        sample=sample,
        sample_problem=problem,
        properties=dict(sorted(opened.properties.items())),
    )


def _some_rows(opened: Table, columns: list[str]) -> tuple[list[list[Any]], str | None]:
    """The first rows, or why they cannot be read."""
    try:
        rows = opened.scan(limit=_SAMPLE_ROWS).to_arrow().select(columns)
    except SkerryError as error:
        return [], str(error)
    return [list(row.values()) for row in rows.to_pylist()], None


def _past(opened: Table) -> list[Totals]:
    """The totals of the snapshots of the main branch, as these summarise themselves."""
    known = {snapshot.snapshot_id: snapshot for snapshot in opened.snapshots()}
    found = []
    snapshot = opened.current_snapshot()
    while snapshot is not None:
        summary = snapshot.summary
        deletes = [total_of(summary, f"total-{kind}-deletes") for kind in ("position", "equality")]
        found.append(
            Totals(
                snapshot.timestamp,
                total_of(summary, "total-records"),
                total_of(summary, "total-files-size"),
                total_of(summary, "total-data-files"),
                None if deletes == [None, None] else sum(each or 0 for each in deletes),
            )
        )
        snapshot = known.pop(snapshot.parent_id, None) if snapshot.parent_id is not None else None
    return found[::-1]


def read_health(source: Source, query: Query) -> list[Finding]:
    """What was checked of a table."""
    return _health_of(source, source.table(query.table))


def _health_of(source: Source, opened: Table) -> list[Finding]:
    return source.remember(("health", opened.location, opened.version), lambda: opened.health(orphans=False))


def show_health(found: list[Finding], query: Query) -> Html:
    """One word about the health of a table, for a list of tables."""
    wrong = [finding for finding in found if not finding.ok]
    if not wrong:
        return tag("good", "good")
    names = ", ".join(finding.check.replace("_", " ") for finding in wrong)
    return element(
        "a",
        tag(names, "bad"),
        href=address("/table", t=query.table),
        title="; ".join(finding.call for finding in wrong),
    )


def show_table(found: TablePage, query: Query) -> Html:
    """The head, the health, the columns, the rows."""
    head = found.head
    facts = definitions(
        {
            "format": head.format,
            "rows": count(head.rows),
            "size": size(head.size_bytes) or loaded_later("/size", head.table),
            "files": count(head.files) or loaded_later("/data-files", head.table),
            "snapshots": count(head.snapshots),
            "last commit": moment(head.updated),
            "partitions": ", ".join(found.partition_by),
            "sorted by": ", ".join(found.sort_by),
            "primary key": ", ".join(found.primary_key),
            "statistics": loaded_later("/freshness", head.table),
            "location": element("span", found.location, class_="path"),
        }
    )
    return join(
        element("div", element("h1", head.table, class_="bdi"), class_="title"),
        element("div", facts, class_="facts"),
        _plots(found),
        element("section", loaded_later("/checks", head.table)),
        _columns(found, query),
        _sample(found),
        _properties(found),
    )


def _plots(found: TablePage) -> Html | None:
    """Rows, bytes, files and the share of deletes after each commit."""
    if len(found.past) < 2:
        return None
    places = over_time([totals.committed for totals in found.past])
    shown: list[tuple[str, list[float | None], Callable[[float], str]]] = [
        ("rows", [totals.rows for totals in found.past], short),
        ("size", [totals.size_bytes for totals in found.past], lambda value: size(int(value))),
        ("data files", [totals.files for totals in found.past], short),
        ("deletes, as a share of rows", [_delete_share(totals) for totals in found.past], percent),
    ]
    ends = (f"{found.past[0].committed:%Y-%m-%d %H:%M}", f"{found.past[-1].committed:%Y-%m-%d %H:%M}")
    plots = []
    for title, values, show in shown:
        points = [
            Point(place, value, f"{totals.committed:%Y-%m-%d %H:%M:%S}: {show(value)}")
            for place, value, totals in zip(places, values, found.past, strict=True)
            if value is not None
        ]
        if len(points) > 1 and (any(point.y for point in points)):
            plots.append(line_plot(points, title=title, show=show, ends=ends))
    if not plots:
        return None
    return element(
        "section",
        element("h2", "Over time", element("span", f"{len(found.past):,} commits", class_="dim")),
        element("div", plots, class_="plots"),
    )


def _delete_share(totals: Totals) -> float | None:
    return None if totals.deletes is None or not totals.rows else totals.deletes / totals.rows


def show_checks(found: list[Finding], query: Query) -> Html:
    """The checks that want something done, with the calls that mend them."""
    wrong = [finding for finding in found if not finding.ok]
    columns = [
        Column[Finding]("check", lambda finding: tag(finding.check.replace("_", " "), "bad")),
        Column[Finding]("what was found", lambda finding: finding.detail),
        Column[Finding]("why it matters", lambda finding: finding.why),
        Column[Finding]("what mends it", lambda finding: element("code", finding.call)),
    ]
    title = (
        f"{len(wrong)} of {len(found)} checks want something done" if wrong else f"{len(found)} checks, nothing to do"
    )
    return element(
        "section",
        element("h2", "Health", element("span", title, class_="dim")),
        table(wrong, columns, caption="health") if wrong else None,
    )


def _columns(found: TablePage, query: Query) -> Html:
    columns = [
        Column[ColumnLine]("id", lambda line: line.id, right=True),
        Column[ColumnLine]("column", lambda line: element("span", line.column, class_="bdi")),
        Column[ColumnLine]("type", lambda line: element("code", line.type)),
        Column[ColumnLine]("", lambda line: "required" if line.required else ""),
        Column[ColumnLine]("about", lambda line: cut(line.doc)),
        Column[ColumnLine]("before", lambda line: line.history, style=lambda line: "dim"),
    ]
    return element(
        "section",
        element("h2", "Columns", element("span", f"{found.column_count:,}", class_="dim")),
        table(found.columns, columns, caption="columns", class_="fit"),
        pages(
            lambda number: query.with_(page=number),
            query.number("page"),
            _COLUMNS_PER_PAGE,
            found.column_count,
            "columns",
        ),
    )


def _sample(found: TablePage) -> Html:
    if found.sample_problem is not None:
        problem = element("p", f"cannot be read: {found.sample_problem}", class_="problem")
        return element("section", element("h2", "Rows"), problem)
    columns = [_sample_column(found, name, at) for at, name in enumerate(found.sample_columns)]
    return element(
        "section",
        element("h2", "Rows", element("span", f"the first {len(found.sample)}", class_="dim")),
        element("div", table(found.sample, columns, caption="rows", empty="no rows"), class_="wide", tabindex=0),
    )


def _sample_column(found: TablePage, name: str, at: int) -> Column[list[Any]]:
    title = name if len(name) <= _HEADER_LETTERS else f"{name[: _HEADER_LETTERS - 1]}…"
    return Column(title, lambda row: cell(row[at]), right=all(_is_number(row[at]) for row in found.sample), note=name)


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _properties(found: TablePage) -> Html | None:
    if not found.properties:
        return None
    return element("section", element("h2", "Properties"), definitions(found.properties))
