"""`skerry migrate`: a folder of Parquet files becomes a table where it lies."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from skerry.cli.display import count, print_json, size
from skerry.cli.options import AsJson, Properties, Warehouse, key_values, open_catalog
from skerry.cli.progress import watching

__all__ = ["migrate"]


def migrate(
    folder: Annotated[str, typer.Argument(help="The folder, which becomes the table's.")],
    table: Annotated[str, typer.Argument(help="The new table, as namespace.name.")],
    format_version: Annotated[
        int | None, typer.Option("--format-version", metavar="N", min=1, max=3, help="Version of the table format.")
    ] = None,
    table_properties: Annotated[
        list[str] | None,
        typer.Option("--table-property", metavar="KEY=VALUE", help="A property of the table; repeatable."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what the table would be.")] = False,
    warehouse: Warehouse = "warehouse",
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Make an Iceberg table of a folder of Parquet files, in place: nothing is rewritten, nothing is moved.

    Folders that name columns (day=2024-01-01/) become partitions. Every file is checked and sketched. From then on the
    files are the table's, and nobody else may write to the folder.
    """
    catalog = open_catalog(warehouse, properties, create=not dry_run)
    with watching("read footers") as watcher:
        summary = catalog.migrate(
            table,
            folder if "://" in folder else os.path.abspath(folder),
            properties=key_values(table_properties, "--table-property"),
            format_version=format_version,
            dry_run=dry_run,
            watcher=watcher,
        )
    columns = [{"name": field.name, "type": str(field.type)} for field in summary.schema]
    if as_json:
        print_json(
            {
                "table": table,
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
    print(f"{table}: {count(summary.files)} files ({size(summary.size_bytes)}) {would} the table's{by}")
