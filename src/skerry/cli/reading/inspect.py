"""`skerry inspect` and `skerry serve`: what a table or a file contains, in the terminal and in a browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from skerry.cli.display import is_terminal, print_json, to_json
from skerry.cli.options import (
    columns_option,
    complete_path,
    file_properties_option,
    json_option,
    key_values,
    open_table,
    split_names,
    warehouse_option,
)
from skerry.cli.rows import TERMINAL_ROWS, print_rows
from skerry.errors import MissingDependencyError, NotFoundError, SkerryError

if TYPE_CHECKING:
    from skerry.entry import Entry

__all__ = ["inspect", "serve"]

_TABLE: Final = re.compile(r"[^/.]+(\.[^/.]+)+")
"""What may be the name of a table."""


@click.command()
@click.argument(
    "what",
    shell_complete=complete_path,
    metavar="FILE | TABLE",
    help="An Amudai shard (path or URL of its root file), or namespace.name.",
)
@click.argument(
    "metadata_table",
    required=False,
    metavar="[METADATA]",
    help="Of a table: snapshots, history, refs, properties, metadata_log, statistics, files, all_files, "
    "entries, manifests, partitions or position_deletes.",
)
@click.option("--where", metavar="CONDITION", help="Only rows for which this SQL condition is true.")
@columns_option
@click.option("--limit", "-n", type=click.IntRange(min=0), help="At most this many rows; default in a terminal: 20.")
@click.option("--snapshot", type=int, help="Of this snapshot.")
@click.option("--ref", help="Of the tip of this branch or tag.")
@warehouse_option
@file_properties_option
@json_option
def inspect(
    what: str,
    metadata_table: str | None,
    where: str | None,
    columns: tuple[str, ...],
    limit: int | None,
    snapshot: int | None,
    ref: str | None,
    warehouse: str,
    properties: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show a metadata table of a table, or the tree of a shard.

    The tree of a shard has its directory, schema, stripes, fields and buffers, with byte ranges and statistics. Values
    are not decoded; some blocks of each buffer are examined to show how they are encoded.
    """
    if metadata_table is None:
        if where or columns or limit is not None or snapshot is not None or ref:
            raise click.UsageError("these options need METADATA: the table to choose from, such as files or snapshots")
        _print_shard(what, key_values(properties, "--property"), as_json)
        return
    from skerry.catalog.queries.metadata_tables import MetadataTable

    opened = open_table(what, warehouse, properties)
    only_some = limit is None and is_terminal() and not as_json
    rows = MetadataTable(opened.inspect, metadata_table, snapshot=snapshot, ref=ref).scan(
        split_names(columns) or None, where, limit=limit
    )
    print_rows(rows, as_json=as_json, at_most=TERMINAL_ROWS if only_some else None)


def _print_shard(file: str, options: dict[str, str], as_json: bool) -> None:
    from skerry.amudai import ShardFile
    from skerry.amudai.reading.inspection import inspect_shard

    try:
        tree = inspect_shard(ShardFile(file, options=options))
    except NotFoundError:
        if _TABLE.fullmatch(file):
            raise NotFoundError(
                f"no file {file!r}; of a table, name what to show, as in: skerry inspect {file} files"
            ) from None
        raise
    if as_json:
        print_json(tree.as_json())
        return
    for depth, entry in tree.walk():
        print("  " * depth + _line(entry, tree.children[0].file if tree.children else None))


def _line(entry: Entry, root: str | None) -> str:
    """One line of the tree; files other than the root file are named."""
    parts = [entry.kind]
    if entry.name:
        parts.append(entry.name)
    if entry.start is not None:
        elsewhere = "" if entry.file == root else f"{entry.file}:"
        parts.append(f"[{elsewhere}{entry.start}..{entry.end}]")
    parts += [f"{name}={_value(value)}" for name, value in entry.details.items()]
    return " ".join(parts)


def _value(value: Any) -> str:
    return value if isinstance(value, str) and value and not set(value) & set(' "\\\n\t') else to_json(value)


@click.command()
@click.argument(
    "target",
    required=False,
    shell_complete=complete_path,
    metavar="[WAREHOUSE | TABLE | FILE]",
    help="What -w takes; or namespace.name, the folder of a table, or a file.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port; a free one if 0.")
@click.option("--open/--no-open", "opens", default=True, help="Open a browser.")
@warehouse_option
@file_properties_option
def serve(target: str | None, port: int, opens: bool, warehouse: str, properties: tuple[str, ...]) -> None:
    """Show tables and files in a browser: a local page that changes nothing.

    It answers to this computer only, and to those who know the address that is printed. Ctrl-C ends it.
    """
    try:
        from skerry.web import open_source, serve
    except ModuleNotFoundError as error:
        raise MissingDependencyError("the page needs `pip install 'skerry[web]'`") from error
    import webbrowser

    def started(address: str) -> None:
        print(address, flush=True)
        if opens:
            webbrowser.open(address)

    options = key_values(properties, "--property")
    path = "/"
    if target is not None and _TABLE.fullmatch(target) and not Path(target).exists():
        source = open_source(warehouse, options)
        path = f"/table?t={source.table(target).name}"
    else:
        source = open_source(target or warehouse, options)
    try:
        serve(source, port=port, path=path, started=started)
    except OSError as error:
        raise SkerryError(f"port {port} cannot be listened to: {error.strerror}") from error
