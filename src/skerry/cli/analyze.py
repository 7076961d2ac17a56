"""`skerry analyze`: sketch rows that have no sketch yet."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from skerry.cli.display import count, print_json
from skerry.cli.options import AsJson, Columns, Properties, TableName, Warehouse, open_table, split_names
from skerry.table.work.progress import show_progress

__all__ = ["analyze"]


def analyze(
    table: TableName,
    columns: Columns = None,
    full: Annotated[bool, typer.Option("--full", help="Sketch all files again.")] = False,
    warehouse: Warehouse = "warehouse",
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Sketch the rows that other writers have added, and publish sketches of all rows.

    Files that sketches already cover are not read.
    """
    opened = open_table(table, warehouse, properties)
    with show_progress("sketch") as progress:
        summary = opened.analyze(split_names(columns) or None, full=full, progress=progress)
    if as_json:
        print_json({"table": opened.name, **dataclasses.asdict(summary)})
    elif summary.snapshot_id is None:
        print(f"{opened.name}: no rows")
    else:
        print(
            f"{opened.name}: {count(summary.columns)} columns of snapshot {summary.snapshot_id} sketched; "
            f"{count(summary.files)} files ({count(summary.rows)} rows) read"
        )
