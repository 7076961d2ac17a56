"""The plan of a query, described before it is executed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skerry.planner.ordering import JoinPlan, JoinStep
from skerry.planner.relations import Estimate, Relation

if TYPE_CHECKING:
    from skerry.markup import Content

__all__ = ["QueryPlan", "SelectPlan"]


@dataclass(frozen=True, slots=True)
class SelectPlan:
    """How one SELECT of a query is joined.

    Args:
        joins: Inputs, order, estimates and assumptions.
        rows: Rows of its result, after grouping and limits.
    """

    joins: JoinPlan
    rows: Estimate


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """How a query is executed; `str()` formats it for people.

    Args:
        selects: Its SELECTs, inner ones first.
        sql: The query in the chosen order.
    """

    selects: tuple[SelectPlan, ...]
    sql: str

    def __str__(self) -> str:
        lines = []
        for number, select in enumerate(self.selects, 1):
            lines.append(f"select {number} of {len(self.selects)}: {select.rows} rows")
            lines.append(str(select.joins))
        return "\n".join([*lines, "", self.sql])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from skerry.markup import element
        from skerry.table.display import framed

        parts = [part for select in self.selects for part in _select_html(select)]
        return framed("Query", parts, element("pre", element("code", self.sql)))


def _select_html(select: SelectPlan) -> list[Content]:
    """The inputs and joins of a SELECT with their rows, and what had to be assumed."""
    from skerry.markup import Column, element, table

    inputs = [
        Column[Relation]("input", lambda relation: relation.name),
        Column[Relation]("table", lambda relation: relation.table or "subquery"),
        Column[Relation]("where", lambda relation: [element("code", text) for text in relation.where]),
        Column[Relation]("rows", lambda relation: str(relation.filtered), right=True),
    ]
    joins = [
        Column[JoinStep]("join", lambda step: f"{', '.join(step.left)} × {', '.join(step.right)}"),
        Column[JoinStep]("on", lambda step: element("code", " and ".join(step.on) or "nothing")),
        Column[JoinStep]("rows", lambda step: str(step.rows), right=True),
        Column[JoinStep]("estimated from", lambda step: step.how),
    ]
    return [
        element("div", f"{select.rows} rows", class_="dim"),
        table(list(select.joins.relations), inputs, caption=""),
        table(list(select.joins.steps), joins, caption="") if select.joins.steps else None,
        element("div", f"assumed: {'; '.join(select.joins.assumptions)}", class_="dim")
        if select.joins.assumptions
        else None,
    ]
