"""Options that several commands share, and how they open the catalog."""

from __future__ import annotations

import csv
import datetime
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from skerry.catalog import Catalog, Table

__all__ = [
    "MOMENT",
    "catalog_options",
    "columns_option",
    "complete_path",
    "dry_run_option",
    "json_option",
    "key_values",
    "moment_of",
    "open_catalog",
    "open_table",
    "properties_option",
    "ref_option",
    "split_names",
    "table_argument",
    "warehouse_option",
]

DEFAULT_WAREHOUSE = "warehouse"


def open_catalog(warehouse: str, properties: Sequence[str], *, create: bool = False, named_by: str = "-w") -> Catalog:
    """Open the catalog that the options name.

    Args:
        warehouse: The value of the option.
        properties: Catalog properties.
        create: Whether a folder becomes a new warehouse; asked first in a terminal if there is no such folder.
        named_by: What names the warehouse, for messages.

    Raises:
        NotFoundError: The catalog does not exist, and `create` is false.
    """
    from skerry.catalog import connect
    from skerry.errors import NotFoundError

    if create and sys.stdin.isatty() and _is_missing_folder(warehouse):
        click.confirm(
            f"There is no warehouse {warehouse!r}{_nearest_folder(warehouse)}. Create it?", abort=True, err=True
        )
    try:
        return connect(warehouse, create=create, **key_values(properties, "--property"))
    except NotFoundError as error:
        error.message += f"; name one with {named_by} or SKERRY_WAREHOUSE"
        raise


def _is_missing_folder(warehouse: str) -> bool:
    """Whether connecting would make a folder."""
    from skerry.iceberg.catalogs.configuration import configured_names

    return "://" not in warehouse and not Path(warehouse).exists() and warehouse.lower() not in configured_names()


def _nearest_folder(warehouse: str) -> str:
    """The folder beside a missing one that has nearly its name."""
    from skerry.table.rows.schema import nearest

    path = Path(warehouse)
    try:
        return nearest(path.name, [found.name for found in path.parent.iterdir() if found.is_dir()])
    except OSError:
        return ""


def open_table(name: str, warehouse: str, properties: Sequence[str]) -> Table:
    """Load the table that the arguments name.

    Raises:
        NotFoundError: The table does not exist; the message proposes the nearest name.
    """
    return open_catalog(warehouse, properties).load_table(name)


def key_values(texts: Sequence[str], option: str) -> dict[str, str]:
    """Parse repeated `KEY=VALUE` options."""
    pairs = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise click.BadParameter(f"{text!r} is not of the form KEY=VALUE", param_hint=option)
        pairs[key] = value
    return pairs


def moment_of(text: str, option: str) -> datetime.datetime:
    """Parse a point in time, in UTC if it names no zone, or an age: `90m`, `12h`, `7d`."""
    age = re.fullmatch(r"(\d+)\s*([smhdw])", text)
    if age is not None:
        units = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
        return datetime.datetime.now(datetime.UTC) - datetime.timedelta(**{units[age[2]]: int(age[1])})
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is neither a time such as 2024-01-31T12:00:00 nor an age such as 7d", param_hint=option
        ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)


def split_names(texts: Sequence[str]) -> list[str]:
    """Parse repeated options that separate names by commas; a name with a comma is put in double quotes."""
    return [name for row in csv.reader(texts, skipinitialspace=True) for name in row if name]


def _complete_table(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete names of tables in a shell; none if the catalog cannot be asked."""
    try:
        params = ctx.params
        catalog = open_catalog(params.get("warehouse") or DEFAULT_WAREHOUSE, params.get("properties") or ())
        return [name for name in catalog.list_tables() if name.startswith(incomplete)]
    except Exception:  # noqa: BLE001
        return []


def complete_path(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Leave completion to the shell, which completes names of files."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


class _Moment(click.ParamType[datetime.datetime]):
    """A time in ISO 8601, in UTC if it names no zone, or an age."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime.datetime:
        """Parse a text.

        Raises:
            click.BadParameter: It is neither.
        """
        return value if isinstance(value, datetime.datetime) else moment_of(value, param.opts[0] if param else "")


MOMENT = _Moment()

table_argument = click.argument("table", help="The table, as namespace.name.", shell_complete=_complete_table)
warehouse_option = click.option(
    "--warehouse",
    "-w",
    default=DEFAULT_WAREHOUSE,
    envvar="SKERRY_WAREHOUSE",
    show_envvar=True,
    shell_complete=complete_path,
    help="The catalog: a folder, a name in PyIceberg's configuration, or a URI (rest+https://…, postgresql://…).",
)


def _properties_option(what: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(
        "--property",
        "-p",
        "properties",
        multiple=True,
        metavar="KEY=VALUE",
        help=f"{what}, such as s3.endpoint=…; repeatable.",
    )


properties_option = _properties_option("A property of the catalog")
file_properties_option = _properties_option("A catalog property, or a storage option of a file")
columns_option = click.option(
    "--columns", "-c", multiple=True, metavar="NAME,NAME", help="Only these columns; a.b is a field of a struct."
)
ref_option = click.option("--ref", default="main", help="The branch.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Only show what would be done.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def catalog_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that name the catalog: `warehouse_option` and `properties_option`."""
    return warehouse_option(properties_option(command))
