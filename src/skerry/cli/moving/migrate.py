"""`skerry migrate`: turn a folder of Parquet files into a table, or a table into one of the other format, in place."""

from __future__ import annotations

import os

import click

from skerry.cli.display import count, print_json, size
from skerry.cli.options import catalog_options, complete_path, json_option, key_values, open_catalog
from skerry.table.work.progress import show_progress

__all__ = ["migrate"]


@click.command()
@click.argument(
    "source", shell_complete=complete_path, help="A folder to turn into a table; or a table as namespace.name."
)
@click.argument("table", required=False, help="For a folder: the new table, as namespace.name.")
@click.option("--to", metavar="FORMAT", help="For a table: its new format, iceberg or paimon.")
@click.option("--unpartitioned", is_flag=True, help="For --to paimon: without partition keys.")
@click.option("--format-version", type=click.IntRange(min=1, max=3), metavar="N", help="Version of the Iceberg format.")
@click.option(
    "--table-property",
    "table_properties",
    multiple=True,
    metavar="KEY=VALUE",
    help="A property of the table; repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Only show what the table would be.")
@catalog_options
@json_option
def migrate(
    source: str,
    table: str | None,
    to: str | None,
    unpartitioned: bool,
    format_version: int | None,
    table_properties: tuple[str, ...],
    dry_run: bool,
    warehouse: str,
    properties: tuple[str, ...],
    as_json: bool,
) -> None:
    """Turn a folder of Parquet files into a table, or a table into one of the other format, without rewriting data.

    `skerry migrate FOLDER db.events` creates an Iceberg table. Folders that name columns (day=2024-01-01/) become
    partitions; every file is checked and sketched. From then on the files belong to the table, and nothing else may
    write to the folder.

    `skerry migrate db.events --to paimon` turns an Iceberg table into a Paimon append table of the same name, and `--to
    iceberg` does the reverse. The newest snapshot is migrated, with its statistics. Stop all writers first.
    """
    if (table is None) == (to is None):
        raise click.BadParameter("give either the new table of a folder, or --to FORMAT for a table")
    catalog = open_catalog(warehouse, properties, create=table is not None and not dry_run)
    name, folder = (source, None) if table is None else (table, source)
    if folder is not None and "://" not in folder:
        folder = os.path.abspath(folder)  # noqa: PTH100  links stay what they are
    with show_progress("read footers") as progress:
        summary = catalog.migrate(
            name,
            folder,
            format=to or "iceberg",
            partition_by=[] if unpartitioned else None,
            properties=key_values(table_properties, "--table-property"),
            format_version=format_version,
            dry_run=dry_run,
            progress=progress,
        )
    columns = [{"name": field.name, "type": str(field.type)} for field in summary.schema]
    if as_json:
        print_json(
            {
                "table": name,
                "dry_run": dry_run,
                "files": summary.files,
                "size_bytes": summary.size_bytes,
                "columns": columns,
                "partition_by": summary.partition_by,
            }
        )
        return
    if dry_run:
        for column in columns:
            print(f"{column['name']}\t{column['type']}")
    would = "would be" if dry_run else "are"
    by = f", partitioned by {', '.join(summary.partition_by)}" if summary.partition_by else ""
    print(f"{name}: {count(summary.files)} files ({size(summary.size_bytes)}) {would} the table's{by}")
