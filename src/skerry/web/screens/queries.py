"""A query: the rows that its conditions and joins leave, as statistics say, and the best order of its joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from skerry.catalog.queries.counting import CountedSelect, count_select
from skerry.errors import SkerryError
from skerry.markup import Column, Html, element, join, table
from skerry.markup.lines import range_mark
from skerry.planner.explanation import SelectPlan
from skerry.planner.ordering import JoinStep
from skerry.planner.relations import Estimate, Relation
from skerry.web.query import Query
from skerry.web.source import Source
from skerry.web.values import count

__all__ = ["QueryPage", "read_query", "show_query"]

_EXAMPLE: Final = "SELECT … FROM ns.a JOIN ns.b ON a.k = b.k WHERE …"


@dataclass(frozen=True, slots=True)
class QueryPage:
    """The plan of a query.

    Args:
        sql: The query.
        problem: Why it cannot be planned.
        selects: Its SELECTs, inner ones first: their inputs, joins and estimates.
        ordered: The query in the order that was chosen.
        counted: The true rows of each SELECT, if they were to be counted.
    """

    sql: str
    problem: str = ""
    selects: list[SelectPlan] = field(default_factory=list)
    ordered: str = ""
    counted: list[CountedSelect] = field(default_factory=list)


def read_query(source: Source, query: Query) -> QueryPage:
    """Plan a query from statistics alone; with `count=yes` its joins are run for their numbers of rows."""
    sql = query.text("sql").strip()
    if not sql:
        return QueryPage(sql)
    if source.catalog is None:
        return QueryPage(sql, "queries need a catalog, and a single table is served")
    try:
        found = source.catalog.explain(sql)
    except SkerryError as error:
        return QueryPage(sql, str(error))
    planned = QueryPage(sql, selects=list(found.selects), ordered=found.sql)
    if query.text("count") != "yes":
        return planned
    try:
        run = partial(source.catalog.sql, read_only=True)
        return replace(planned, counted=[count_select(run, select) for select in found.selects])
    except SkerryError as error:
        return replace(planned, problem=f"rows cannot be counted: {error}")


def show_query(found: QueryPage, query: Query) -> Html:
    """A field for the query, its inputs, its joins."""
    form = element(
        "form",
        element("label", "query", for_="sql", class_="hidden"),
        element("textarea", found.sql, id="sql", name="sql", rows=4, placeholder=_EXAMPLE, spellcheck="false"),
        element("button", "Plan"),
        element(
            "button",
            "Count rows",
            name="count",
            value="yes",
            class_="quiet",
            title="runs the joins, and shows their true rows beside the estimates",
        ),
        action="/query",
        class_="ask",
    )
    said = "rows after conditions and joins, from statistics alone; nothing is run unless rows are to be counted"
    title = element("span", said, class_="dim")
    counted: Sequence[CountedSelect | None] = found.counted or [None] * len(found.selects)
    return join(
        element("div", element("h1", "Query"), title, class_="title"),
        form,
        element("p", found.problem, class_="problem") if found.problem else None,
        [
            _select(number, select, len(found.selects), true)
            for number, (select, true) in enumerate(zip(found.selects, counted, strict=True), 1)
        ],
        element("section", element("h2", "In the best order"), element("pre", found.ordered, class_="dump", tabindex=0))
        if found.ordered
        else None,
    )


def _select(number: int, select: SelectPlan, total: int, counted: CountedSelect | None) -> Html:
    estimates = [each.rows for each in select.joins.relations] + [each.rows for each in select.joins.steps]
    most = max((estimate.rows for estimate in estimates), default=1.0)
    true_inputs = _by_identity(select.joins.relations, counted.relations if counted else ())
    true_steps = _by_identity(select.joins.steps, counted.steps if counted else ())
    inputs = [
        Column[Relation]("input", lambda each: each.name),
        Column[Relation]("table", lambda each: element("span", each.table, class_="bdi")),
        Column[Relation]("where", lambda each: element("code", " AND ".join(each.where)) if each.where else ""),
        Column[Relation]("rows", lambda each: f"{each.rows.rows:,.0f}", right=True),
        Column[Relation]("after conditions", lambda each: f"{each.filtered.rows:,.0f}", right=True),
        Column[Relation]("true", lambda each: count(true_inputs.get(id(each))), right=True, note="rows as counted"),
        Column[Relation]("1 … most", lambda each: _mark(each.filtered, most)),
    ]
    steps = [
        Column[JoinStep]("join", lambda each: ", ".join(each.left)),
        Column[JoinStep]("with", lambda each: ", ".join(each.right)),
        Column[JoinStep]("on", lambda each: element("code", " AND ".join(each.on)) if each.on else "everything"),
        Column[JoinStep]("rows", lambda each: f"{each.rows.rows:,.0f}", right=True),
        Column[JoinStep]("true", lambda each: count(true_steps.get(id(each))), right=True, note="rows as counted"),
        Column[JoinStep]("1 … most", lambda each: _mark(each.rows, most)),
        Column[JoinStep]("small side is sent", lambda each: "yes" if each.broadcast else "", note="to every worker"),
        Column[JoinStep]("estimated from", lambda each: each.how),
    ]
    heading = f"SELECT {number} of {total}: " if total > 1 else ""
    return element(
        "section",
        element("h2", f"{heading}{select.rows.rows:,.0f} rows", element("span", _bounds(select.rows), class_="dim")),
        table(select.joins.relations, inputs, caption="inputs"),
        table(select.joins.steps, steps, caption="joins") if select.joins.steps else None,
        element("ul", [element("li", assumption) for assumption in select.joins.assumptions], class_="dim")
        if select.joins.assumptions
        else None,
    )


def _by_identity(planned: Sequence[object], rows: Sequence[int | None]) -> dict[int, int | None]:
    """True rows by the identity of what they are of; none if they were not counted."""
    return {id(each): number for each, number in zip(planned, rows, strict=False)}


def _mark(estimate: Estimate, most: float) -> Html:
    return range_mark(estimate.rows, estimate.lower, estimate.upper, most, f"{estimate.rows:,.0f}, {_bounds(estimate)}")


def _bounds(estimate: Estimate) -> str:
    return f"from {estimate.lower:,.0f} to {estimate.upper:,.0f}"
