"""`skerry append`, `overwrite`, `update`, `delete` and `upsert`: change the rows of a table."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from skerry.cli.columns import schema_of
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
from skerry.errors import NotFoundError
from skerry.table.work.progress import show_progress

if TYPE_CHECKING:
    import pyarrow as pa

    from skerry.catalog import Catalog
    from skerry.table.rows.csv_files import CsvFormat
    from skerry.table.summaries import RowChangeSummary
    from skerry.table.table import Table

__all__ = ["append", "delete", "overwrite", "update", "upsert"]


_source_argument = click.argument(
    "source",
    type=click.Path(exists=True, path_type=Path),
    help="A file or folder of Parquet, ORC, Arrow, CSV or JSON lines, by extension; CSV and JSON also as .gz.",
)
_csv_option = click.option(
    "--option",
    "-o",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    help="How CSV files are written: sep=';', decimal=',', nullValue=n/a, encoding=cp1252, dateFormat=dd.MM.yyyy, "
    "timestampFormat=…; repeatable.",
)


def csv_format_of(options: Sequence[str]) -> CsvFormat:
    """The format of CSV files that repeated options describe.

    Raises:
        click.BadParameter: An option has no value.
        SchemaError: It is unknown.
    """
    from skerry.table.rows.csv_files import csv_format

    return csv_format([pair for text in options for pair in key_values([text], "--option").items()])


def _rows(source: Path, table: Table, options: Sequence[str]) -> pa.RecordBatchReader:
    """The rows of files, as the table has them."""
    from skerry.table.rows.sources import open_files

    return open_files(source, table.schema, csv_format_of(options))


@click.command()
@table_argument
@_source_argument
@click.option("--create", is_flag=True, help="Create the table, with the columns of the source, if it does not exist.")
@click.option("--evolve", is_flag=True, help="Add columns that the table lacks.")
@_csv_option
@ref_option
@catalog_options
@json_option
def append(
    table: str,
    source: Path,
    create: bool,
    evolve: bool,
    options: tuple[str, ...],
    ref: str,
    warehouse: str,
    properties: tuple[str, ...],
    as_json: bool,
) -> None:
    """Append the rows of files, without Spark; `skerry ingest` does it on a cluster.

    skerry append shop.orders orders.csv --create

    Columns are matched by name. CSV files have a header, and their separator is found; -o tells what else differs.
    """
    catalog, found = find_or_create(table, warehouse, properties, create)
    append_files(catalog, table, found, source, options, evolve=evolve, ref=ref, as_json=as_json)


def find_or_create(
    table: str, warehouse: str, properties: tuple[str, ...], create: bool
) -> tuple[Catalog, Table | None]:
    """The catalog and the table; None for a table that is to be created.

    Raises:
        NotFoundError: There is no such warehouse or table; the message says that --create makes it.
    """
    try:
        catalog = open_catalog(warehouse, properties, create=create)
        return catalog, None if create and not catalog.table_exists(table) else catalog.load_table(table)
    except NotFoundError as error:
        raise NotFoundError(f"{error.message} (--create creates it)", location=error.location) from None


def append_files(
    catalog: Catalog,
    table: str,
    found: Table | None,
    source: Path,
    options: Sequence[str],
    *,
    evolve: bool,
    ref: str,
    as_json: bool,
    **creation: Any,
) -> None:
    """Append the rows of files, and print how many.

    Args:
        catalog: The table's catalog.
        table: The table's name.
        found: The table; one that is made if None, and removed again if nothing can be appended.
        source: A file or folder.
        options: How CSV files are written, as `KEY=VALUE`.
        evolve: Whether columns are added that the table lacks.
        ref: The branch.
        as_json: Whether JSON is printed.
        creation: Further arguments for `create_table`.
    """
    after_failure: AbstractContextManager[None] = nullcontext()
    if found is None:
        from skerry.catalog.new_tables import made_for_rows

        found = catalog.create_table(table, schema_of(source, csv_format_of(options)), **creation)
        after_failure = made_for_rows(catalog, found)
    with show_progress("append") as progress, after_failure:
        done = found.append(
            _rows(source, found, options), schema="evolve" if evolve else "match", ref=ref, progress=progress
        )
    rows = 0 if done is None else int(done.summary.get("added-records", 0))
    if as_json:
        print_json({"table": found.name, "rows": rows})
    else:
        print(f"{found.name}: {count(rows)} rows appended")


@click.command()
@table_argument
@_source_argument
@click.option("--where", metavar="CONDITION", help="Replace only rows for which this SQL condition is true.")
@_csv_option
@ref_option
@catalog_options
@json_option
def overwrite(
    table: str,
    source: Path,
    where: str | None,
    options: tuple[str, ...],
    ref: str,
    warehouse: str,
    properties: tuple[str, ...],
    as_json: bool,
) -> None:
    """Replace rows, all of them without --where, by the rows of files, in one commit."""
    opened = open_table(table, warehouse, properties)
    with show_progress("overwrite") as progress:
        done = opened.overwrite(_rows(source, opened, options), where, ref=ref, progress=progress)
    _print(opened.name, done, as_json)


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
@_csv_option
@ref_option
@catalog_options
@json_option
def upsert(
    table: str,
    source: Path,
    on: tuple[str, ...],
    blind: bool,
    options: tuple[str, ...],
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
        done = opened.upsert(_rows(source, opened, options), split_names(on), blind=blind, ref=ref, progress=progress)
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
