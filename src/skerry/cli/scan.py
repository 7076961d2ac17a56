"""`skerry scan`: print rows of a table."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skerry.cli.display import is_terminal, print_json
from skerry.cli.options import AsJson, Columns, Properties, TableName, Warehouse, open_table, split_names
from skerry.cli.rows import TERMINAL_ROWS, print_rows

if TYPE_CHECKING:
    from skerry.iceberg.reading.scan import Explanation

__all__ = ["scan"]


def scan(
    table: TableName,
    where: Annotated[
        str | None, typer.Option("--where", metavar="CONDITION", help="Only rows for which this SQL condition is true.")
    ] = None,
    columns: Columns = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=0, help="At most this many rows; default in a terminal: 20."),
    ] = None,
    snapshot: Annotated[int | None, typer.Option(help="Read this snapshot.")] = None,
    ref: Annotated[str | None, typer.Option(help="Read the tip of this branch or tag.")] = None,
    as_of: Annotated[
        datetime.datetime | None, typer.Option(metavar="TIME", help="Read the table as of this time (UTC).")
    ] = None,
    count_rows: Annotated[bool, typer.Option("--count", help="Print only the number of rows.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print what would be read, and why the rest is skipped.")
    ] = False,
    warehouse: Warehouse = "warehouse",
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Print rows of a table.

    A terminal shows a table, a pipe gets tab-separated values, and --json prints one object per line.
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
