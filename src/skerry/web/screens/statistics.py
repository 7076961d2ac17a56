"""Statistics: how many distinct values each column has, how certain that is, and why it may be believed or not."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from skerry.errors import SkerryError
from skerry.markup import Column, Html, element, join, table
from skerry.markup.lines import Point, line_plot, range_mark
from skerry.markup.plots import share_bar
from skerry.table.rows.schema import leaves
from skerry.table.statistics.column_statistics import ColumnStatistics
from skerry.table.table import Table
from skerry.web.distribution import Distribution, distribution_of, show_distribution
from skerry.web.join_graph import Partner, join_graph
from skerry.web.later import Later
from skerry.web.listing import list_files
from skerry.web.partitions import partition_condition
from skerry.web.query import Query, address
from skerry.web.screens.catalog import freshness_tag
from skerry.web.source import Source
from skerry.web.values import cell, count, moment, over_time, pages, percent

__all__ = ["LATER", "StatisticsPage", "read_statistics", "show_statistics"]

_PER_PAGE: Final = 100
_PARTITIONS: Final = 36
"""Partitions whose counts are told; each is a union of sketches."""
_JOINABLE: Final = 20
_DRAWN: Final = 12
_SNAPSHOTS: Final = 1000
_LISTED: Final = 8
_COUNTS: Final = ("ndv", "distinctCount")


@dataclass(frozen=True, slots=True)
class StatisticsLine:
    """What is known about a column: its distinct values with bounds of two standard deviations, nulls, extremes."""

    column: str
    type: str
    ndv: float | None
    lower: float | None
    upper: float | None
    null_count: int | None
    min: Any
    max: Any
    freshness: str
    reason: str


@dataclass(frozen=True, slots=True)
class PastCount:
    """A snapshot of the main branch, and the distinct values that are published with it for a column.

    Args:
        snapshot_id: The snapshot.
        committed: When it was committed.
        operation: What it did.
        writer: The engine that wrote it; '' if it does not say.
        ndv: The count; None if none is published with it.
    """

    snapshot_id: int
    committed: datetime
    operation: str
    writer: str
    ndv: float | None


@dataclass(frozen=True, slots=True)
class PartitionCount:
    """The distinct values of a column in a partition."""

    partition: str
    rows: int
    ndv: float | None
    lower: float | None
    upper: float | None
    freshness: str


@dataclass(frozen=True, slots=True)
class JoinableLine:
    """A column that shares values with another: shares of either that are in the other, with bounds."""

    table: str
    column: str
    containment: float
    containment_lower: float
    containment_upper: float
    contained: float
    ndv: float


@dataclass(frozen=True, slots=True)
class StatisticsPage:
    """The statistics of a snapshot.

    Args:
        rows: Rows in data files; None if the condition leaves them open.
        where: The condition that rows fulfil.
        problem: What is wrong with the condition.
        columns: The columns of this page.
        column_count: How many columns there are.
        chosen: The column that more is told about; '' for none.
        distribution: How its values are spread, as far as sampled rows tell.
        past: The latest snapshots with the counts that are published with them, oldest first.
        partitions: Its counts in the largest partitions.
        joinable: Columns of the catalog that share values with it.
        not_joinable: Why no such columns are told.
    """

    rows: int | None
    where: str
    problem: str
    columns: list[StatisticsLine]
    column_count: int
    chosen: str
    distribution: Distribution | None
    past: list[PastCount]
    partitions: list[PartitionCount]
    joinable: list[JoinableLine]
    not_joinable: str


def read_statistics(source: Source, query: Query) -> StatisticsPage:
    """The statistics of the current snapshot; of one column also its past, its partitions and what it joins."""
    opened = source.table(query.table)
    where, problem = query.text("where").strip(), ""
    try:
        found = _statistics_of(source, opened, where)
    except SkerryError as error:
        problem, found = str(error), {}
    first = query.number("page") * _PER_PAGE
    names = list(found)[first : first + _PER_PAGE]
    types = {leaf.name: str(leaf.type) for leaf in leaves(opened.schema)}
    chosen = query.text("column") if query.text("column") in found else ""
    listing = list_files(source, opened)
    joinable, not_joinable = _joinable(source, opened, chosen) if chosen else ([], "")
    return StatisticsPage(
        rows=None if where else int(listing.rows[listing.content == 0].sum()),
        where=where,
        problem=problem,
        columns=[_line(name, types.get(name, ""), found[name]) for name in ([chosen] if chosen else names)],
        column_count=len(found),
        chosen=chosen,
        distribution=distribution_of(found[chosen].histogram) if chosen else None,
        past=_past(opened, chosen) if chosen else [],
        partitions=_partitions(source, opened, chosen) if chosen and not where else [],
        joinable=joinable,
        not_joinable=not_joinable,
    )


def _statistics_of(source: Source, opened: Table, where: str) -> dict[str, ColumnStatistics]:
    return source.remember(_key(opened, where), lambda: opened.statistics(where or None))


def _key(opened: Table, where: str) -> tuple[str, str, str, str]:
    return ("statistics", opened.location, opened.version, where)


def _line(name: str, type_: str, known: ColumnStatistics) -> StatisticsLine:
    return StatisticsLine(
        name,
        type_,
        known.ndv,
        known.lower,
        known.upper,
        known.null_count,
        known.min,
        known.max,
        known.freshness.state.value,
        known.freshness.reason,
    )


def _past(opened: Table, column: str) -> list[PastCount]:
    """What the statistics files of the snapshots say about a column."""
    counts: dict[int, float] = {}
    for row in opened.inspect.statistics().select(["snapshot_id", "columns", "properties"]).to_pylist():
        properties = dict(row["properties"] or ())
        told = next((properties[name] for name in _COUNTS if name in properties), None)
        if row["columns"] == [column] and told is not None and told.isdecimal():
            counts[row["snapshot_id"]] = float(told)
    known = {snapshot.snapshot_id: snapshot for snapshot in opened.snapshots()}
    found: list[PastCount] = []
    snapshot = opened.current_snapshot()
    while snapshot is not None and len(found) < _SNAPSHOTS:
        id_, writer = snapshot.snapshot_id, snapshot.summary.get("engine-name", "")
        found.append(PastCount(id_, snapshot.timestamp, snapshot.operation or "", writer, counts.get(id_)))
        snapshot = known.pop(snapshot.parent_id, None) if snapshot.parent_id is not None else None
    return found[::-1]


def _partitions(source: Source, opened: Table, column: str) -> list[PartitionCount]:
    """The counts of a column in the partitions with the most rows."""
    listing = list_files(source, opened)
    rows = [0] * len(listing.partitions)
    for group, records, content in zip(
        listing.groups.tolist(), listing.rows.tolist(), listing.content.tolist(), strict=True
    ):
        rows[group] += records if content == 0 else 0
    largest = sorted(range(len(rows)), key=lambda number: -rows[number])[:_PARTITIONS]
    found = []
    for number in sorted(largest, key=lambda number: listing.partitions[number]):
        values = listing.values[number]
        condition = partition_condition(values, opened.partition_by, opened.schema) if values else None
        if condition is None:
            continue
        key = ("partition", opened.location, opened.version, listing.partitions[number])
        known = source.remember(key, partial(opened.statistics, condition))[column]
        found.append(
            PartitionCount(
                listing.partitions[number],
                rows[number],
                known.ndv,
                known.lower,
                known.upper,
                known.freshness.state.value,
            )
        )
    return found


def _joinable(source: Source, opened: Table, column: str) -> tuple[list[JoinableLine], str]:
    """Columns of all tables that share values with one; or why there are none."""
    if source.catalog is None:
        return [], "other tables are not served"
    try:
        found = source.catalog.joinable(opened.name, column, limit=_JOINABLE)
    except SkerryError as error:
        return [], str(error)
    return [
        JoinableLine(
            each.table,
            each.column,
            each.containment.estimate,
            each.containment.lower,
            each.containment.upper,
            each.contained.estimate,
            each.ndv,
        )
        for each in found
    ], ""


# ---- showing ----


def show_statistics(found: StatisticsPage, query: Query) -> Html:
    """Columns with their counts; one column with its past, partitions and partners."""
    return join(_head(found.chosen, query), _rest(found, query))


def _head(chosen: str, query: Query) -> Html:
    form = element(
        "form",
        element("input", type="hidden", name="t", value=query.table),
        element("input", type="hidden", name="column", value=chosen) if chosen else None,
        element("label", "Only rows where ", for_="where", class_="hidden"),
        element(
            "input",
            id="where",
            name="where",
            value=query.text("where").strip(),
            placeholder="only rows where … (from sketches alone)",
            size=38,
        ),
        action="/statistics",
    )
    return element(
        "div",
        element("h1", chosen or "Statistics", class_="bdi"),
        element("span", "distinct values, with bounds of two standard deviations", class_="dim"),
        element("a", "all columns", href=query.with_(column=None)) if chosen else None,
        form,
        class_="title",
    )


def _rest(found: StatisticsPage, query: Query) -> Html:
    return join(
        element("p", found.problem, class_="problem") if found.problem else None,
        _columns(found, query),
        show_distribution(found.distribution),
        _past_section(found),
        _partition_table(found),
        _joinable_table(found),
    )


LATER: Final = Later(
    lambda opened, query: _key(opened, query.text("where").strip()),
    lambda query: _head(query.text("column"), query),
    _rest,
)


def _columns(found: StatisticsPage, query: Query) -> Html:
    most = max([found.rows or 1, *(line.upper or 1 for line in found.columns)])
    rows = found.rows

    def mark(line: StatisticsLine) -> Html | None:
        if line.ndv is None:
            return None
        lower, upper = line.lower or line.ndv, line.upper or line.ndv
        title = f"{line.ndv:,.0f}, from {lower:,.0f} to {upper:,.0f}, of at most {most:,.0f}"
        return range_mark(line.ndv, lower, upper, most, title, line.freshness.replace(" ", "-"))

    columns = [
        Column[StatisticsLine](
            "column",
            lambda line: element(
                "a", line.column, href=address("/statistics", t=query.table, column=line.column), class_="bdi"
            ),
        ),
        Column[StatisticsLine]("type", lambda line: element("code", line.type)),
        Column[StatisticsLine]("distinct", lambda line: "" if line.ndv is None else f"{line.ndv:,.0f}", right=True),
        Column[StatisticsLine]("±", _deviation, right=True, note="half the width of the bounds"),
        Column[StatisticsLine]("1 … rows", mark, note="the count and its bounds, on a scale of powers of ten"),
        Column[StatisticsLine]("null", lambda line: _nulls(line, rows), right=True),
        Column[StatisticsLine]("min", lambda line: "" if line.min is None else cell(line.min)),
        Column[StatisticsLine]("max", lambda line: "" if line.max is None else cell(line.max)),
        Column[StatisticsLine](
            "freshness", lambda line: join(freshness_tag(line.freshness), element("span", line.reason, class_="dim"))
        ),
    ]
    return join(
        table(found.columns, columns, caption="statistics of columns", empty="no columns"),
        pages(lambda number: query.with_(page=number), query.number("page"), _PER_PAGE, found.column_count, "columns")
        if not found.chosen
        else None,
    )


def _deviation(line: StatisticsLine) -> str:
    if line.ndv is None or line.lower is None or line.upper is None:
        return ""
    half = (line.upper - line.lower) / 2
    if half < 0.5:
        return "exact" if line.freshness == "fresh" else ""
    return f"{half / max(line.ndv, 1):.1%}"


def _nulls(line: StatisticsLine, rows: int | None) -> str:
    if line.null_count is None:
        return ""
    if not rows:
        return count(line.null_count)
    return percent(line.null_count / rows)


def _past_section(found: StatisticsPage) -> Html | None:
    """Published counts as a line, and the last snapshots: who wrote them, and whether with counts."""
    if not found.chosen:
        return None
    counted = [(past, past.ndv) for past in found.past if past.ndv is not None]
    plot = None
    if len(counted) > 1:
        places = over_time([past.committed for past, _ in counted])
        points = [
            Point(place, ndv, f"{past.committed:%Y-%m-%d %H:%M}: {ndv:,.0f}")
            for place, (past, ndv) in zip(places, counted, strict=True)
        ]
        ends = (f"{counted[0][0].committed:%Y-%m-%d}", f"{counted[-1][0].committed:%Y-%m-%d}")
        plot = line_plot(points, title="published distinct values", show=lambda value: f"{value:,.0f}", ends=ends)
    columns = [
        Column[PastCount]("committed", lambda past: moment(past.committed)),
        Column[PastCount]("operation", lambda past: past.operation),
        Column[PastCount]("by", lambda past: past.writer),
        Column[PastCount](
            "published", lambda past: "" if past.ndv is None else f"{past.ndv:,.0f}", right=True, note="distinct values"
        ),
    ]
    told = f"{len(counted):,} of the last {len(found.past):,} snapshots have a count"
    note = f"{told}; commits drop those that no branch needs"
    listed = table(found.past[::-1][:_LISTED], columns, caption="published counts", class_="fit")
    return element(
        "section",
        element("h2", "Over time", element("span", note, class_="dim")),
        element("div", plot, listed, class_="beside"),
    )


def _partition_table(found: StatisticsPage) -> Html | None:
    if not found.partitions:
        return None
    most = max((line.upper or 0 for line in found.partitions), default=1) or 1
    columns = [
        Column[PartitionCount]("partition", lambda line: element("span", line.partition, class_="bdi")),
        Column[PartitionCount]("rows", lambda line: count(line.rows), right=True),
        Column[PartitionCount]("distinct", lambda line: "" if line.ndv is None else f"{line.ndv:,.0f}", right=True),
        Column[PartitionCount](
            "from", lambda line: "" if line.lower is None else f"{line.lower:,.0f}", right=True, note="lower bound"
        ),
        Column[PartitionCount](
            "to", lambda line: "" if line.upper is None else f"{line.upper:,.0f}", right=True, note="upper bound"
        ),
        Column[PartitionCount]("", lambda line: share_bar((line.ndv or 0) / most, f"{line.ndv or 0:,.0f}")),
        Column[PartitionCount]("freshness", lambda line: freshness_tag(line.freshness)),
    ]
    return element(
        "section", element("h2", "By partition"), table(found.partitions, columns, caption="by partition", class_="fit")
    )


def _partner(line: JoinableLine) -> Partner:
    return Partner(
        f"{line.table} · {line.column}",
        address("/statistics", t=line.table, column=line.column),
        line.containment,
        f"{line.table} · {line.column} has {percent(line.containment)} of the values",
    )


def _joinable_table(found: StatisticsPage) -> Html | None:
    if not found.chosen:
        return None
    columns = [
        Column[JoinableLine](
            "column",
            lambda line: element(
                "a",
                f"{line.table} · {line.column}",
                href=address("/statistics", t=line.table, column=line.column),
                class_="bdi",
            ),
        ),
        Column[JoinableLine]("distinct", lambda line: f"{line.ndv:,.0f}", right=True),
        Column[JoinableLine](
            "has of this column",
            lambda line: percent(line.containment),
            right=True,
            note="share of this column's distinct values",
        ),
        Column[JoinableLine]("", lambda line: share_bar(line.containment, percent(line.containment))),
        Column[JoinableLine](
            "bounds", lambda line: f"{percent(line.containment_lower)} to {percent(line.containment_upper)}", right=True
        ),
        Column[JoinableLine]("of it in this column", lambda line: percent(line.contained), right=True),
    ]
    body = (
        element("p", found.not_joinable, class_="dim")
        if found.not_joinable
        else table(
            found.joinable,
            columns,
            caption="joinable columns",
            empty="no column shares a tenth of its values",
            class_="fit",
        )
    )
    return element(
        "section",
        element("h2", "Columns that share values", element("span", "from sketches alone", class_="dim")),
        join_graph(found.chosen, [_partner(line) for line in found.joinable[:_DRAWN]]),
        body,
    )
