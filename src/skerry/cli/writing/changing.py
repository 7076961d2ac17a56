"""`skerry append`, `update`, `delete` and `upsert`: change the rows of a table."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from skerry.cli.display import count, print_json
from skerry.cli.options import (
    catalog_options,
    json_option,
    key_values,
    open_catalog,
    open_table,
    ref_option,
    split_names,
    table_argument,
)
from skerry.table.work.progress import show_progress

if TYPE_CHECKING:
    import pyarrow as pa

    from skerry.table.summaries import RowChangeSummary

__all__ = ["append", "delete", "update", "upsert"]


_source_argument = click.argument(
    "source",
    type=click.Path(exists=True, path_type=Path),
    help="A file or folder of Parquet, ORC, Arrow, CSV or JSON lines, by extension.",
)


@click.command()
@table_argument
@_source_argument
@click.option("--create", is_flag=True, help="Create the table, with the columns of the source, if it does not exist.")
@click.option("--evolve", is_flag=True, help="Add columns that the table lacks.")
@ref_option
@catalog_options
@json_option
def append(
    table: str,
    source: Path,
    create: bool,
    evolve: bool,
    ref: str,
    warehouse: str,
    properties: tuple[str, ...],
    as_json: bool,
) -> None:
    """Append the rows of files, without Spark; `skerry ingest` does it on a cluster.

    Columns are matched by name.
    """
    catalog = open_catalog(warehouse, properties, create=create)
    if create and not catalog.table_exists(table):
        rows = _read(source, None)
        opened = catalog.create_table(table, rows.schema)
    else:
        opened = catalog.load_table(table)
        rows = _read(source, opened.schema)
    with show_progress("append") as progress:
        opened.append(rows, schema="evolve" if evolve else "match", ref=ref, progress=progress)
    if as_json:
        print_json({"table": opened.name, "rows": rows.num_rows})
    else:
        print(f"{opened.name}: {count(rows.num_rows)} rows appended")


@click.command()
@table_argument
@click.option("--set", "values", multiple=True, required=True, metavar="COLUMN=SQL", help="A column and its new value.")
@click.option("--where", metavar="CONDITION", help="Only rows for which this SQL condition is true.")
@ref_option
@catalog_options
@json_option
def update(
    table: str,
    values: tuple[str, ...],
    where: str | None,
    ref: str,
    warehouse: str,
    properties: tuple[str, ...],
    as_json: bool,
) -> None:
    """Give columns new values, which are SQL over the row as it was: --set "price=price * 1.1" --set "note='seen'"."""
    opened = open_table(table, warehouse, properties)
    with show_progress("update") as progress:
        done = opened.update(key_values(values, "--set"), where, ref=ref, progress=progress)
    _print(opened.name, done, as_json)


@click.command()
@table_argument
@click.option("--where", required=True, metavar="CONDITION", help="The rows for which this SQL condition is true.")
@ref_option
@click.option("--dry-run", is_flag=True, help="Only say how many rows would be deleted.")
@catalog_options
@json_option
def delete(
    table: str, where: str, ref: str, dry_run: bool, warehouse: str, properties: tuple[str, ...], as_json: bool
) -> None:
    """Delete rows.

    Data files are rewritten, or their rows marked as deleted, as the table property write.delete.mode says; files that
    lose all of their rows are dropped unread.
    """
    opened = open_table(table, warehouse, properties)
    if dry_run:
        rows = opened.scan(where=where, ref=ref).count()
        print_json({"table": opened.name, "rows": rows}) if as_json else print(
            f"{opened.name}: {count(rows)} rows would be deleted"
        )
        return
    with show_progress("find") as progress:
        done = opened.delete(where, ref=ref, progress=progress)
    _print(opened.name, done, as_json)


@click.command()
@table_argument
@_source_argument
@click.option("--on", multiple=True, required=True, metavar="COLUMN,COLUMN", help="The key columns.")
@click.option("--blind", is_flag=True, help="Do not read the table: delete keys whether they exist or not.")
@ref_option
@catalog_options
@json_option
def upsert(
    table: str,
    source: Path,
    on: tuple[str, ...],
    blind: bool,
    ref: str,
    warehouse: str,
    properties: tuple[str, ...],
    as_json: bool,
) -> None:
    """Update the rows that have the same keys as the new rows, and insert the others.

    The new rows are held in memory. Data files are rewritten or marked, as the table property write.merge.mode says.
    """
    opened = open_table(table, warehouse, properties)
    with show_progress("match") as progress:
        done = opened.upsert(_read(source, opened.schema), split_names(on), blind=blind, ref=ref, progress=progress)
    _print(opened.name, done, as_json)


def _print(name: str, done: RowChangeSummary, as_json: bool) -> None:
    if as_json:
        print_json({"table": name, **dataclasses.asdict(done)})
        return
    counts = {"inserted": done.inserted_rows, "updated": done.updated_rows, "deleted": done.deleted_rows}
    rows = ", ".join(f"{count(number)} {what}" for what, number in counts.items() if number) or "nothing to change"
    looked = "" if done.updated_rows is not None else " (the rows that they replace were not read)"
    print(
        f"{name}: {rows}{looked}; {count(done.added_files)} files and {count(done.added_delete_files)} delete files "
        f"written, {count(done.removed_files)} files removed"
    )


_ENDINGS = {
    ".parquet": "parquet",
    ".orc": "orc",
    ".arrow": "ipc",
    ".feather": "ipc",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
}


def _read(source: Path, schema: pa.Schema | None) -> Any:
    """Read a file, or all files of a folder that have the same extension as its first."""
    from pyarrow import csv, dataset

    from skerry.errors import FormatError, UnsupportedError

    first = source if source.is_file() else next((path for path in sorted(source.rglob("*")) if path.is_file()), source)
    kind = _ENDINGS.get(first.suffix.lower())
    if kind is None:
        raise UnsupportedError(f"files named *{first.suffix} are not supported; use one of {', '.join(_ENDINGS)}")
    try:
        if kind == "csv":  # parse texts as the table's types
            convert = csv.ConvertOptions(
                column_types={field.name: field.type for field in schema or ()}, strings_can_be_null=True
            )
            return dataset.dataset(source, format=dataset.CsvFileFormat(convert_options=convert)).to_table()
        return dataset.dataset(source, format=kind).to_table()
    except (OSError, ValueError) as error:  # what PyArrow raises
        raise FormatError(f"the source cannot be read: {error}", location=str(source)) from error
