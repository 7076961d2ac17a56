"""`skerry copy`: a table at another place; and how copies are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

import click

from skerry.cli.display import Field, count, print_json, print_records, size
from skerry.cli.options import catalog_options, dry_run_option, json_option, key_values, open_catalog, table_argument
from skerry.table.work.progress import show_progress

if TYPE_CHECKING:
    from skerry.table.copying import CopiedFile, CopySummary

__all__ = ["copy", "prefix_option", "print_copy"]

prefix_option = click.option(
    "--prefix",
    "prefixes",
    multiple=True,
    metavar="OLD=NEW",
    help="Where files outside the table's folder go; the same folder twice for files that stay; repeatable.",
)


@click.command()
@table_argument
@click.argument("location", required=False, help="The folder of the copy; by default the one that --to gives --name.")
@click.option(
    "--name", metavar="NAMESPACE.TABLE", help="The name of the copy; an earlier copy of that name is updated."
)
@click.option("--to", metavar="CATALOG", help="The catalog that gets the copy; by default the table's own.")
@click.option("--data", type=click.Choice(["copy", "keep"]), default="copy", help="Whether data files are copied too.")
@prefix_option
@click.option("--from-snapshot", type=int, metavar="ID", help="A snapshot that was copied before.")
@click.option(
    "--to-property",
    "to_properties",
    multiple=True,
    metavar="KEY=VALUE",
    help="A property of the catalog of --to, or of the store of LOCATION; repeatable.",
)
@dry_run_option
@catalog_options
@json_option
def copy(
    table: str,
    location: str | None,
    name: str | None,
    to: str | None,
    data: str,
    prefixes: tuple[str, ...],
    from_snapshot: int | None,
    to_properties: tuple[str, ...],
    dry_run: bool,
    warehouse: str,
    properties: tuple[str, ...],
    as_json: bool,
) -> None:
    """Copy a table to another folder or store, with its history, branches, tags and statistics.

    Files that are complete at their place are not copied again: repeat the command after an interruption, or later to
    copy what is new. The table itself is not changed, and nothing is deleted.
    """
    if to is not None and name is None:
        raise click.BadParameter("--to needs --name: the name that the copy gets in the catalog")
    source = open_catalog(warehouse, properties).load_table(table)
    target = None if to is None else open_catalog(to, to_properties, create=not dry_run, named_by="--to")
    with show_progress("read metadata") as progress:
        done = source.copy_to(
            location,
            catalog=target,
            name=name,
            data=cast('Literal["copy", "keep"]', data),
            prefixes=key_values(prefixes, "--prefix"),
            from_snapshot=from_snapshot,
            options=key_values(to_properties, "--to-property") if to is None and to_properties else None,
            dry_run=dry_run,
            progress=progress,
        )
    print_copy(table, done, "copied", as_json=as_json)


def print_copy(table: str, done: CopySummary, verb: str, *, as_json: bool) -> None:
    """Print what was copied.

    Args:
        table: The table's name.
        done: The result.
        verb: What was done with the table: `copied` or `relocated`.
        as_json: Whether to print JSON.
    """
    if as_json:
        print_json(
            {
                "table": table,
                "source": done.source,
                "snapshot_id": done.snapshot_id,
                "location": done.location,
                "metadata_location": done.metadata_location,
                "dry_run": done.dry_run,
                "deleted_files": done.deleted_files,
                "files": [_record(file) for file in done.files],
            }
        )
        return
    new = done.new_files
    if done.dry_run:
        print_records(
            [_record(file) for file in new],
            [
                Field("source", "source", flexible=True),
                Field("target", "target", flexible=True),
                Field("kind", "kind"),
                Field("size_bytes", "size", size, right=True),
                Field("is_rewritten", "rewritten", spare=True),
            ],
            as_json=False,
        )
    would = "would be" if done.dry_run else "was"
    there = len(done.files) - len(new)
    print(
        f"{table} {would} {verb} to {done.location}: {count(len(new))} new files ({size(done.new_bytes)})"
        + (f", {count(there)} files were there already" if there else "")
        + (f", {count(done.deleted_files)} files deleted at the old place" if done.deleted_files else "")
    )
    if done.metadata_location is not None and not done.dry_run:
        print(f"metadata file: {done.metadata_location}")


def _record(file: CopiedFile) -> dict[str, Any]:
    return {
        "source": file.source,
        "target": file.target,
        "kind": file.kind.value,
        "size_bytes": file.size_bytes,
        "is_new": file.is_new,
        "is_rewritten": file.is_rewritten,
    }
