"""`skerry scan`: print rows of a table."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import click

from skerry.cli.display import is_terminal, print_json
from skerry.cli.options import (
    MOMENT,
    catalog_options,
    columns_option,
    json_option,
    open_table,
    split_names,
    table_argument,
)
from skerry.cli.rows import TERMINAL_ROWS, print_rows

if TYPE_CHECKING:
    from skerry.iceberg.reading.scan import Explanation

__all__ = ["scan"]


@click.command()
@table_argument
@click.option("--where", metavar="CONDITION", help="Only rows for which this SQL condition is true.")
@columns_option
@click.option("--limit", "-n", type=click.IntRange(min=0), help="At most this many rows; default in a terminal: 20.")
@click.option("--snapshot", type=int, help="Read this snapshot.")
@click.option("--ref", help="Read the tip of this branch or tag.")
@click.option("--as-of", type=MOMENT, metavar="TIME", help="Read the table as of this time, or age: 7d.")
@click.option("--count", "count_rows", is_flag=True, help="Print only the number of rows.")
@click.option("--explain", is_flag=True, help="Print what would be read, and why the rest is skipped.")
@catalog_options
@json_option
def scan(
    table: str,
    where: str | None,
    columns: tuple[str, ...],
    limit: int | None,
    snapshot: int | None,
    ref: str | None,
    as_of: datetime.datetime | None,
    count_rows: bool,
    explain: bool,
    warehouse: str,
    properties: tuple[str, ...],
    as_json: bool,
) -> None:
    """Print rows of a table.

    skerry scan nyc.flights --where "dep_delay > 60" -c carrier,dest -n 5

    A terminal shows a table, a pipe gets tab-separated values, and --json prints one object per line. In conditions,
    names with spaces are in double quotes: --where '"Order ID" = 7'.
    """
    opened = open_table(table, warehouse, properties)
    only_some = limit is None and is_terminal() and not (as_json or count_rows or explain)
    described = opened.scan(
        split_names(columns) or None,
        where,
        limit=TERMINAL_ROWS + 1 if only_some else limit,
        snapshot=snapshot,
        ref=ref,
        as_of=as_of,
    )
    if explain:
        explanation = described.explain()
        print_json(_funnel(explanation)) if as_json else print(explanation)
    elif count_rows:
        rows = described.count()
        print_json({"rows": rows}) if as_json else print(rows)
    else:
        print_rows(described, as_json=as_json, at_most=TERMINAL_ROWS if only_some else None)


def _funnel(explanation: Explanation) -> dict[str, Any]:
    plan = explanation.plan
    return {
        "table": explanation.table,
        "snapshot": explanation.snapshot_id,
        "columns": list(explanation.columns),
        "where": explanation.where,
        "limit": explanation.limit,
        "steps": [
            {
                "step": step.name,
                "kept": step.kept,
                "total": step.total,
                "kept_rows": step.kept_rows,
                "total_rows": step.total_rows,
                "dropped": [{"reason": reason, "count": number} for reason, number in step.dropped],
            }
            for step in plan.steps
        ],
        "files": len(plan.tasks),
        "size_bytes": plan.tasks.size_bytes,
        "tasks": explanation.split_count,
    }
