"""The plan of a query, described before it is executed."""

from __future__ import annotations

from dataclasses import dataclass

from skerry.planner.ordering import JoinPlan
from skerry.planner.relations import Estimate

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
