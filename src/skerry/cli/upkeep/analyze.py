"""`skerry analyze`: sketch rows that have no sketch yet."""

from __future__ import annotations

import dataclasses

import click

from skerry.cli.display import count, print_json
from skerry.cli.options import catalog_options, columns_option, json_option, open_table, split_names, table_argument
from skerry.table.work.progress import show_progress

__all__ = ["analyze"]


@click.command()
@table_argument
@columns_option
@click.option("--full", is_flag=True, help="Sketch all files again.")
@catalog_options
@json_option
def analyze(
    table: str, columns: tuple[str, ...], full: bool, warehouse: str, properties: tuple[str, ...], as_json: bool
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
