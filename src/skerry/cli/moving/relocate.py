"""`skerry relocate`: make a copied or moved warehouse folder writable at its new location; or move a table."""

from __future__ import annotations

import dataclasses
from typing import Literal, cast

import click

from skerry.cli.display import Field, count, print_json, print_records, size
from skerry.cli.moving.copying import prefix_option, print_copy
from skerry.cli.options import catalog_options, complete_path, json_option, key_values, open_catalog
from skerry.table.work.progress import show_progress

__all__ = ["relocate"]


@click.command()
@click.argument(
    "what",
    shell_complete=complete_path,
    envvar="SKERRY_WAREHOUSE",
    help="The warehouse folder at its new location; with --to a table.  [env var: SKERRY_WAREHOUSE]",
)
@click.option("--to", metavar="LOCATION", help="For a table: the folder that it is moved to.")
@click.option(
    "--data",
    type=click.Choice(["move", "copy", "keep"]),
    default="move",
    help="For a table: whether data files are moved, copied, or stay.",
)
@prefix_option
@click.option("--dry-run", is_flag=True, help="Read everything, but only show what would be written.")
@catalog_options
@json_option
def relocate(
    what: str,
    to: str | None,
    data: str,
    prefixes: tuple[str, ...],
    dry_run: bool,
    warehouse: str,
    properties: tuple[str, ...],
    as_json: bool,
) -> None:
    """Make a warehouse folder that was copied or moved independent: its metadata is rewritten for its new location.

    New metadata is written beside the old, then the catalog switches to it in one step. Data files are unchanged, and
    the original location is not touched.

    `skerry relocate db.events --to s3://lake/events` moves one Iceberg table: it is copied, then the catalog switches
    to the copy, and then the old files are deleted. Stop its writers before.
    """
    if to is not None:
        with show_progress("read metadata") as progress:
            done = (
                open_catalog(warehouse, properties)
                .load_table(what)
                .relocate(
                    to,
                    data=cast('Literal["move", "copy", "keep"]', data),
                    prefixes=key_values(prefixes, "--prefix"),
                    dry_run=dry_run,
                    progress=progress,
                )
            )
        print_copy(what, done, "relocated", as_json=as_json)
        return
    if prefixes or data != "move":
        raise click.BadParameter("--data and --prefix are for tables: give --to LOCATION")
    _relocate_warehouse(what, properties, dry_run=dry_run, as_json=as_json)


def _relocate_warehouse(warehouse: str, properties: tuple[str, ...], *, dry_run: bool, as_json: bool) -> None:
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
            Field("table", "table", flexible=True),
            Field("metadata_files", "metadata", count, right=True, spare=True),
            Field("manifest_lists", "lists", count, right=True, spare=True),
            Field("manifests", "manifests", count, right=True, spare=True),
            Field("delete_files", "deletes", count, right=True, spare=True),
            Field("statistics_files", "statistics", count, right=True, spare=True),
            Field("size_bytes", "size", size, right=True),
            Field("outside_files", "files elsewhere", count, right=True, spare=True),
            Field("problem", "problem", flexible=True),
        ],
        as_json=False,
    )
    would = "would be" if dry_run else "were"
    print(f"{count(len(summary.tables))} tables {would} relocated from {summary.source} to {summary.target}")
