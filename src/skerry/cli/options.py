"""Options that several commands share, and how they open the catalog."""

from __future__ import annotations

import csv
import datetime
import re
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from skerry.catalog import Catalog, Table

__all__ = [
    "AsJson",
    "Columns",
    "DryRun",
    "Properties",
    "Ref",
    "TableName",
    "Warehouse",
    "key_values",
    "moment_of",
    "open_catalog",
    "open_table",
    "split_names",
]

DEFAULT_WAREHOUSE = "warehouse"


def open_catalog(
    warehouse: str, properties: list[str] | None, *, create: bool = False, named_by: str = "-w"
) -> Catalog:
    """Open the catalog that the options name.

    Args:
        warehouse: The value of the option.
        properties: Catalog properties.
        create: Whether a folder becomes a new warehouse.
        named_by: What names the warehouse, for messages.

    Raises:
        NotFoundError: The catalog does not exist, and `create` is false.
    """
    from skerry.catalog import connect
    from skerry.errors import NotFoundError

    try:
        return connect(warehouse, create=create, **key_values(properties, "--property"))
    except NotFoundError as error:
        error.message += f"; name one with {named_by} or SKERRY_WAREHOUSE"
        raise


def open_table(name: str, warehouse: str, properties: list[str] | None) -> Table:
    """Load the table that the arguments name.

    Raises:
        NotFoundError: The table does not exist; the message proposes the nearest name.
    """
    return open_catalog(warehouse, properties).load_table(name)


def key_values(texts: list[str] | None, option: str) -> dict[str, str]:
    """Parse repeated `KEY=VALUE` options."""
    pairs = {}
    for text in texts or ():
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise typer.BadParameter(f"{text!r} is not of the form KEY=VALUE", param_hint=option)
        pairs[key] = value
    return pairs


def moment_of(text: str, option: str) -> datetime.datetime:
    """Parse a point in time, in the local time zone if it names none, or an age: `90m`, `12h`, `7d`."""
    age = re.fullmatch(r"(\d+)\s*([smhdw])", text)
    if age is not None:
        units = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
        return datetime.datetime.now(datetime.UTC) - datetime.timedelta(**{units[age[2]]: int(age[1])})
    try:
        return datetime.datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither a time nor an age such as 7d", param_hint=option) from None


def split_names(texts: list[str] | None) -> list[str]:
    """Parse repeated options that separate names by commas; a name with a comma is put in double quotes."""
    return [name for row in csv.reader(texts or (), skipinitialspace=True) for name in row if name]


def _complete_table(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete names of tables in a shell; none if the catalog cannot be asked."""
    try:
        params = ctx.params
        catalog = open_catalog(params.get("warehouse") or DEFAULT_WAREHOUSE, params.get("properties"))
        return [name for name in catalog.list_tables() if name.startswith(incomplete)]
    except Exception:  # noqa: BLE001
        return []


TableName = Annotated[
    str,
    typer.Argument(help="The table, as namespace.name.", autocompletion=_complete_table),
]
Warehouse = Annotated[
    str,
    typer.Option(
        "--warehouse",
        "-w",
        envvar="SKERRY_WAREHOUSE",
        help="The catalog: a folder, a name in PyIceberg's configuration, or a URI (rest+https://…, postgresql://…).",
    ),
]
Properties = Annotated[
    list[str] | None,
    typer.Option(
        "--property", "-p", metavar="KEY=VALUE", help="A property of the catalog, such as s3.endpoint=…; repeatable."
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option("--columns", "-c", metavar="NAME,NAME", help="Only these columns; a.b is a field of a struct."),
]
Ref = Annotated[str, typer.Option("--ref", help="The branch.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
