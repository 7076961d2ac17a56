"""`skerry explain`: the join order of a query, and the expected number of rows after each step."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import click

from skerry.cli.display import print_json
from skerry.cli.options import catalog_options, json_option, open_catalog

if TYPE_CHECKING:
    from skerry.planner.explanation import QueryPlan, SelectPlan
    from skerry.planner.ordering import JoinStep
    from skerry.planner.relations import Estimate, Relation

__all__ = ["explain"]


@click.command()
@click.argument("query", metavar="SQL", help="The query; - reads it from standard input.")
@catalog_options
@json_option
def explain(query: str, warehouse: str, properties: tuple[str, ...], as_json: bool) -> None:
    """Print how many rows the conditions and joins of a query leave, and the join order with the fewest rows.

    Only statistics are used: no data file is read. Every number comes with its bounds. `skerry scan --explain` shows
    which files a scan of one table reads, and why the others are skipped.
    """
    plan = open_catalog(warehouse, properties).explain(sys.stdin.read() if query == "-" else query)
    print_json(_describe(plan)) if as_json else print(plan)


def _describe(plan: QueryPlan) -> dict[str, Any]:
    return {"selects": [_select(select) for select in plan.selects], "sql": plan.sql}


def _select(select: SelectPlan) -> dict[str, Any]:
    return {
        **_rows(select.rows),
        "inputs": [_input(relation) for relation in select.joins.relations],
        "reordered": select.joins.reordered,
        "joins": [_join(step) for step in select.joins.steps],
        "assumed": list(select.joins.assumptions),
    }


def _input(relation: Relation) -> dict[str, Any]:
    return {
        "name": relation.name,
        "table": relation.table,
        "where": list(relation.where),
        "total_rows": round(relation.rows.rows),
        **_rows(relation.filtered),
    }


def _join(step: JoinStep) -> dict[str, Any]:
    sides = {"left": list(step.left), "right": list(step.right), "on": list(step.on)}
    return {**sides, **_rows(step.rows), "broadcast": step.broadcast, "how": step.how}


def _rows(estimate: Estimate) -> dict[str, float | None]:
    """An estimate with its bounds; an unknown upper bound is null."""
    found = {"rows": estimate.rows, "rows_lower": estimate.lower, "rows_upper": estimate.upper}
    return {name: round(value, 1) if math.isfinite(value) else None for name, value in found.items()}
