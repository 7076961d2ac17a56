"""A query: the rows that its conditions and joins leave, as statistics say, and the best order of its joins."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from skerry.errors import SkerryError
from skerry.markup import Column, Html, element, join, table
from skerry.markup.lines import range_mark
from skerry.planner.explanation import SelectPlan
from skerry.planner.ordering import JoinStep
from skerry.planner.relations import Estimate, Relation
from skerry.web.query import Query
from skerry.web.source import Source

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
    """

    sql: str
    problem: str = ""
    selects: list[SelectPlan] = field(default_factory=list)
    ordered: str = ""


def read_query(source: Source, query: Query) -> QueryPage:
    """Plan a query from statistics alone; it is not run."""
    sql = query.text("sql").strip()
    if not sql:
        return QueryPage(sql)
    if source.catalog is None:
        return QueryPage(sql, "queries need a catalog, and a single table is served")
    try:
        found = source.catalog.explain(sql)
    except SkerryError as error:
        return QueryPage(sql, str(error))
    return QueryPage(sql, selects=list(found.selects), ordered=found.sql)


def show_query(found: QueryPage, query: Query) -> Html:
    """A field for the query, its inputs, its joins."""
    form = element(
        "form",
        element("label", "query", for_="sql", class_="hidden"),
        element("textarea", found.sql, id="sql", name="sql", rows=4, placeholder=_EXAMPLE, spellcheck="false"),
        element("button", "Plan"),
        action="/query",
        class_="ask",
    )
    title = element("span", "rows after conditions and joins, from statistics alone; nothing is run", class_="dim")
    return join(
        element("div", element("h1", "Query"), title, class_="title"),
        form,
        element("p", found.problem, class_="problem") if found.problem else None,
        [_select(number, select, len(found.selects)) for number, select in enumerate(found.selects, 1)],
        element("section", element("h2", "In the best order"), element("pre", found.ordered, class_="dump", tabindex=0))
        if found.ordered
        else None,
    )


def _select(number: int, select: SelectPlan, total: int) -> Html:
    estimates = [each.rows for each in select.joins.relations] + [each.rows for each in select.joins.steps]
    most = max((estimate.rows for estimate in estimates), default=1.0)
    inputs = [
        Column[Relation]("input", lambda each: each.name),
        Column[Relation]("table", lambda each: element("span", each.table, class_="bdi")),
        Column[Relation]("where", lambda each: element("code", " AND ".join(each.where)) if each.where else ""),
        Column[Relation]("rows", lambda each: f"{each.rows.rows:,.0f}", right=True),
        Column[Relation]("after conditions", lambda each: f"{each.filtered.rows:,.0f}", right=True),
        Column[Relation]("1 … most", lambda each: _mark(each.filtered, most)),
    ]
    steps = [
        Column[JoinStep]("join", lambda each: ", ".join(each.left)),
        Column[JoinStep]("with", lambda each: ", ".join(each.right)),
        Column[JoinStep]("on", lambda each: element("code", " AND ".join(each.on)) if each.on else "everything"),
        Column[JoinStep]("rows", lambda each: f"{each.rows.rows:,.0f}", right=True),
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


def _mark(estimate: Estimate, most: float) -> Html:
    return range_mark(estimate.rows, estimate.lower, estimate.upper, most, f"{estimate.rows:,.0f}, {_bounds(estimate)}")


def _bounds(estimate: Estimate) -> str:
    return f"from {estimate.lower:,.0f} to {estimate.upper:,.0f}"
