"""`skerry inspect`: the contents of a file, down to byte ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from skerry.cli.display import print_json, to_json
from skerry.cli.options import AsJson, key_values

if TYPE_CHECKING:
    from skerry.amudai.reading.inspection import Entry

__all__ = ["inspect"]


def inspect(
    file: Annotated[str, typer.Argument(metavar="FILE", help="An Amudai shard: a path or URL of its root file.")],
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "--property", "-p", metavar="KEY=VALUE", help="A storage option, such as s3.endpoint=…; repeatable."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the tree of a shard: directory, schema, stripes, fields and buffers, with byte ranges and statistics.

    Values are not decoded; some blocks of each buffer are examined to show how they are encoded.
    """
    from skerry.amudai import ShardFile
    from skerry.amudai.reading.inspection import inspect_shard

    tree = inspect_shard(ShardFile(file, options=key_values(properties, "--property")))
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
