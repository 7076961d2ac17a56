"""`skerry remove-orphans`: delete files in a table's folder that nothing needs."""

from __future__ import annotations

import click

from skerry.cli.display import count, print_json, size
from skerry.cli.options import catalog_options, json_option, open_table, table_argument
from skerry.table.work.progress import show_progress

__all__ = ["remove_orphans"]


@click.command()
@table_argument
@click.option(
    "--older-than-days",
    type=click.FloatRange(min=0),
    default=3.0,
    metavar="DAYS",
    help="Keep younger files; a writer may need them.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@click.option("--marked", metavar="LOG", help="Delete only what an earlier run marked in its log.")
@click.option("--log", metavar="FOLDER", help="Log what will be deleted, and what was.")
@catalog_options
@json_option
def remove_orphans(
    table: str,
    older_than_days: float,
    dry_run: bool,
    marked: str | None,
    log: str | None,
    warehouse: str,
    properties: tuple[str, ...],
    as_json: bool,
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
