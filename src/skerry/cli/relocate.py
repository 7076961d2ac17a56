"""`skerry relocate`: make a warehouse folder that was copied or moved writable at its new location."""

from __future__ import annotations

import dataclasses

import click

from skerry.cli.display import Field, count, print_json, print_records, size
from skerry.cli.options import complete_path, json_option, open_catalog, properties_option
from skerry.table.work.progress import show_progress

__all__ = ["relocate"]


@click.command()
@click.argument(
    "warehouse",
    shell_complete=complete_path,
    envvar="SKERRY_WAREHOUSE",
    help="The warehouse folder at its new location.  [env var: SKERRY_WAREHOUSE]",
)
@click.option("--dry-run", is_flag=True, help="Read everything, but only show what would be rewritten.")
@properties_option
@json_option
def relocate(warehouse: str, dry_run: bool, properties: tuple[str, ...], as_json: bool) -> None:
    """Make a warehouse folder that was copied or moved independent: its metadata is rewritten for its new location.

    New metadata is written beside the old, then the catalog switches to it in one step. Data files are unchanged, and
    the original location is not touched.
    """
    catalog = open_catalog(warehouse, properties, named_by="the argument")
    with show_progress("relocate tables") as progress:
        summary = catalog.relocate(dry_run=dry_run, progress=progress)
    if as_json:
        print_json(dataclasses.asdict(summary))
        return
    if not summary.source:
        print(f"{warehouse} has not been moved; nothing to relocate")
        return
    print_records(
        [dataclasses.asdict(table) for table in summary.tables],
        [
            Field("table", "table"),
            Field("metadata_files", "metadata", count, right=True),
            Field("manifest_lists", "lists", count, right=True),
            Field("manifests", "manifests", count, right=True),
            Field("delete_files", "deletes", count, right=True),
            Field("statistics_files", "statistics", count, right=True),
            Field("size_bytes", "size", size, right=True),
            Field("outside_files", "files elsewhere", count, right=True),
            Field("problem", "problem"),
        ],
        as_json=False,
    )
    would = "would be" if dry_run else "were"
    print(f"{count(len(summary.tables))} tables {would} relocated from {summary.source} to {summary.target}")
