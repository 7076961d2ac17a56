"""`skerry remove-orphans`: delete files in a table's folder that nothing needs."""

from __future__ import annotations

from typing import Annotated

import typer

from skerry.cli.display import count, print_json, size
from skerry.cli.options import AsJson, Properties, TableName, Warehouse, open_table
from skerry.table.work.progress import show_progress

__all__ = ["remove_orphans"]


def remove_orphans(
    table: TableName,
    older_than_days: Annotated[
        float,
        typer.Option("--older-than-days", metavar="DAYS", min=0, help="Keep younger files; a writer may need them."),
    ] = 3.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted.")] = False,
    marked: Annotated[
        str | None,
        typer.Option("--marked", metavar="LOG", help="Delete only what an earlier run marked in its log."),
    ] = None,
    log: Annotated[
        str | None, typer.Option("--log", metavar="FOLDER", help="Log what will be deleted, and what was.")
    ] = None,
    warehouse: Warehouse = "warehouse",
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Delete files in the table's folder that nothing needs: leftovers of writers that crashed or lost a race.

    Files that a branch, tag, staged snapshot or statistics entry references are kept, and so are files younger than the
    grace period. If any metadata cannot be read, nothing is deleted.
    """
    opened = open_table(table, warehouse, properties)
    with show_progress("list") as progress:
        summary = opened.remove_orphans(
            older_than_days=older_than_days, dry_run=dry_run, marked=marked, log=log, progress=progress
        )
    if as_json:
        print_json(
            {
                "table": opened.name,
                "dry_run": dry_run,
                "size_bytes": summary.size_bytes,
                "files": [
                    {"file": file.location, "size_bytes": file.size_bytes, "modified": file.modified}
                    for file in summary.files
                ],
                "saved": [file.location for file in summary.saved],
                "kept_alike": [file.location for file in summary.kept_alike],
                "kept_tables": summary.kept_tables,
                "listed_files": summary.listed_files,
                "listed_bytes": summary.listed_bytes,
                "reached_files": summary.reached_files,
                "logs": summary.logs,
            }
        )
        return
    if dry_run:
        for file in summary.files:
            print(f"{file.location}\t{file.size_bytes}")
    would = "would be " if dry_run else ""
    kept = ""
    if summary.saved:
        kept += f"; {count(len(summary.saved))} were needed after all"
    if summary.kept_alike:
        kept += f"; {count(len(summary.kept_alike))} kept that may be needed under another name"
    if summary.kept_tables:
        kept += f"; other tables inside: {', '.join(summary.kept_tables)}"
    print(
        f"{opened.name}: {count(len(summary.files))} of {count(summary.listed_files)} files "
        f"({size(summary.size_bytes)}) {would}deleted{kept}"
    )
