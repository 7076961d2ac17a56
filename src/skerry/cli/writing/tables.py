"""`skerry create`, `drop`, `rename`, `set` and `alter`: tables, their properties and their columns."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skerry.cli.columns import column_of, schema_of, type_of
from skerry.cli.options import catalog_options, key_values, open_catalog, open_table, split_names, table_argument

if TYPE_CHECKING:
    import pyarrow as pa

    from skerry.catalog import Table

__all__ = ["alter", "create", "drop", "rename", "set"]

_name_argument = click.argument("name", help="The table, as namespace.name; or the namespace.")
_namespace_option = click.option("--namespace", "is_namespace", is_flag=True, help="NAME is a namespace.")


@click.command()
@_name_argument
@click.argument("columns", nargs=-1, metavar="[COLUMN]…", help="Columns with their types: 'id bigint not null'.")
@_namespace_option
@click.option(
    "--like", type=click.Path(exists=True, path_type=Path), metavar="FILE", help="With the columns of a file."
)
@click.option("--format", type=click.Choice(["iceberg", "paimon"]), default="iceberg", help="The table's format.")
@click.option("--file-format", default="parquet", help="Of data files: parquet, orc, avro or amudai.")
@click.option("--partition-by", multiple=True, metavar="TRANSFORM", help="month(time), bucket(16, id), …; repeatable.")
@click.option("--sort-by", multiple=True, metavar="COLUMN", help="Order of rows in files; repeatable.")
@click.option("--primary-key", multiple=True, metavar="COLUMN,COLUMN", help="The columns that identify a row.")
@click.option("--format-version", type=click.IntRange(min=1, max=3), metavar="N", help="Version of the Iceberg format.")
@click.option("--table-property", "table_properties", multiple=True, metavar="KEY=VALUE", help="Repeatable.")
@click.option("--if-not-exists", is_flag=True, help="Leave one that exists as it is.")
@catalog_options
def create(
    name: str,
    columns: tuple[str, ...],
    is_namespace: bool,
    like: Path | None,
    format: str,
    file_format: str,
    partition_by: tuple[str, ...],
    sort_by: tuple[str, ...],
    primary_key: tuple[str, ...],
    format_version: int | None,
    table_properties: tuple[str, ...],
    if_not_exists: bool,
    warehouse: str,
    properties: tuple[str, ...],
) -> None:
    """Create a table, or a namespace: skerry create shop.sales 'id bigint not null' 'at timestamp'."""
    if is_namespace:
        open_catalog(warehouse, properties, create=True).create_namespace(name, if_not_exists=if_not_exists)
        print(f"namespace {name} created")
        return
    schema = _schema(columns, like)
    made = open_catalog(warehouse, properties, create=True).create_table(
        name,
        schema,
        if_not_exists=if_not_exists,
        format=format,
        file_format=file_format,
        partition_by=partition_by,
        sort_by=sort_by,
        primary_key=split_names(primary_key),
        properties=key_values(table_properties, "--table-property"),
        format_version=format_version,
    )
    print(f"{made.name}: {made.format} table with {len(made.schema)} columns")


def _schema(columns: tuple[str, ...], like: Path | None) -> pa.Schema:
    import pyarrow as pa

    if bool(columns) == (like is not None):
        raise click.UsageError("give columns such as 'id bigint', or --like FILE, or --namespace")
    if like is not None:
        return schema_of(like)
    return pa.schema([column_of(column, "COLUMN") for column in columns])


@click.command()
@_name_argument
@_namespace_option
@click.option("--view", "is_view", is_flag=True, help="NAME is a view.")
@click.option("--purge", is_flag=True, help="Delete the table's files too.")
@click.option("--if-exists", is_flag=True, help="Do nothing if there is none.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask before files are deleted.")
@catalog_options
def drop(
    name: str,
    is_namespace: bool,
    is_view: bool,
    purge: bool,
    if_exists: bool,
    yes: bool,
    warehouse: str,
    properties: tuple[str, ...],
) -> None:
    """Remove a table from the catalog, or an empty namespace, or a view.

    Files of an Iceberg table stay, unless --purge deletes them; a Paimon table is its files.
    """
    if is_namespace and is_view:
        raise click.UsageError("give --namespace or --view, not both")
    catalog = open_catalog(warehouse, properties)
    if is_namespace:
        catalog.drop_namespace(name, if_exists=if_exists)
    elif is_view:
        if not if_exists or catalog.view_exists(name):
            catalog.drop_view(name)
    elif not if_exists or catalog.table_exists(name):
        if purge and not yes and sys.stdin.isatty():
            click.confirm(f"Delete {name} with all of its files?", abort=True, err=True)
        catalog.drop_table(name, purge=purge)
    print(f"{name} dropped")


@click.command()
@table_argument
@click.argument("to", help="The new name, as namespace.name.")
@catalog_options
def rename(table: str, to: str, warehouse: str, properties: tuple[str, ...]) -> None:
    """Rename a table; its namespace must exist."""
    print(f"{table} renamed to {open_catalog(warehouse, properties).rename_table(table, to).name}")


@click.command()
@table_argument
@click.argument("values", nargs=-1, metavar="[KEY=VALUE]…", help="Properties with their values.")
@click.option("--unset", multiple=True, metavar="KEY", help="Remove a property; repeatable.")
@catalog_options
def set(
    table: str, values: tuple[str, ...], unset: tuple[str, ...], warehouse: str, properties: tuple[str, ...]
) -> None:
    """Set properties of a table; `skerry show TABLE properties` lists them."""
    if not values and not unset:
        raise click.UsageError("give properties as KEY=VALUE, or --unset KEY")
    wanted = key_values(values, "KEY=VALUE")
    opened = open_table(table, warehouse, properties)
    if unset:
        opened.remove_properties(*unset)
    if wanted:
        opened.set_properties(wanted)
    print(f"{opened.name}: {len(wanted)} properties set, {len(unset)} removed")


@click.command()
@table_argument
@click.option("--add", multiple=True, metavar="'COLUMN TYPE'", help="Add a column: --add 'price double'; repeatable.")
@click.option("--drop", multiple=True, metavar="COLUMN", help="Drop a column; repeatable.")
@click.option("--rename", multiple=True, metavar="OLD=NEW", help="Rename a column; repeatable.")
@click.option("--type", "types", multiple=True, metavar="COLUMN=TYPE", help="Widen a column's type; repeatable.")
@click.option("--optional", multiple=True, metavar="COLUMN", help="Allow null in a column; repeatable.")
@click.option("--partition-by", multiple=True, metavar="TRANSFORM", help="Add a partition field; repeatable.")
@click.option("--drop-partition", multiple=True, metavar="FIELD", help="Drop a partition field; repeatable.")
@click.option("--sort-by", multiple=True, metavar="COLUMN", help="The order of rows in new files; repeatable.")
@click.option("--format-version", type=click.IntRange(min=1, max=3), metavar="N", help="Raise the format version.")
@catalog_options
def alter(
    table: str,
    add: tuple[str, ...],
    drop: tuple[str, ...],
    rename: tuple[str, ...],
    types: tuple[str, ...],
    optional: tuple[str, ...],
    partition_by: tuple[str, ...],
    drop_partition: tuple[str, ...],
    sort_by: tuple[str, ...],
    format_version: int | None,
    warehouse: str,
    properties: tuple[str, ...],
) -> None:
    """Change the columns, partitions, order or format version of a table; no data file is rewritten.

    Changes of columns are one commit, and so are those of partition fields.
    """
    added = [column_of(text, "--add") for text in add]
    renamed = key_values(rename, "--rename")
    typed = {name: type_of(text, "--type") for name, text in key_values(types, "--type").items()}
    columns = bool(added or drop or renamed or typed or optional)
    if not (columns or partition_by or drop_partition or sort_by or format_version):
        raise click.UsageError("say what to change: --add, --drop, --rename, --type, --optional, --partition-by, …")
    opened = open_table(table, warehouse, properties)
    if format_version is not None:
        opened.upgrade(format_version)
    if columns:
        _change_columns(opened, added, drop, renamed, typed, optional)
    if partition_by or drop_partition:
        with opened.update_spec() as spec:
            for field in drop_partition:
                spec.remove_field(field)
            for field in partition_by:
                spec.add_field(field)
    if sort_by:
        opened.update_sort_order(list(sort_by))
    print(f"{opened.name}: changed; `skerry show {opened.name}` shows it")


def _change_columns(
    table: Table,
    added: list[pa.Field],
    dropped: tuple[str, ...],
    renamed: dict[str, str],
    typed: dict[str, pa.DataType],
    optional: tuple[str, ...],
) -> None:
    with table.update_schema() as update:
        for name in dropped:
            update.delete_column(name)
        for name, new in renamed.items():
            update.rename_column(name, new)
        for name, type_ in typed.items():
            update.update_column(name, type_)
        for name in optional:
            update.make_column_optional(name)
        for field in added:
            update.add_column(field.name, field.type, required=not field.nullable)
