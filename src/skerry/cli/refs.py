"""`skerry refs …`: branches and tags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from skerry.cli.display import print_json
from skerry.cli.listing import print_refs
from skerry.cli.options import AsJson, Properties, Ref, TableName, Warehouse, moment_of, open_table

if TYPE_CHECKING:
    from skerry.table.history import Snapshot

__all__ = ["refs"]

refs = typer.Typer(help="List, create, move and drop branches and tags.", no_args_is_help=True, rich_markup_mode=None)

_At = Annotated[
    str, typer.Option("--at", metavar="SNAPSHOT|REF", help="A snapshot's id, or the tip of a branch or tag.")
]
_Replace = Annotated[bool, typer.Option("--replace", help="Replace it if it exists.")]


@refs.command("ls")
def list_refs(
    table: TableName, warehouse: Warehouse = "warehouse", properties: Properties = None, as_json: AsJson = False
) -> None:
    """List branches and tags with their snapshots and retention."""
    print_refs(open_table(table, warehouse, properties), as_json=as_json)


@refs.command()
def branch(
    table: TableName,
    name: Annotated[str, typer.Argument(help="The new branch.")],
    at: _At = "main",
    replace: _Replace = False,
    warehouse: Warehouse = "warehouse",
    properties: Properties = None,
) -> None:
    """Create a branch."""
    opened = open_table(table, warehouse, properties)
    opened.create_branch(name, _snapshot_id(at), ref=at, replace=replace)
    print(f"{opened.name}: branch {name} at snapshot {opened.refs()[name].snapshot_id}")


@refs.command()
def tag(
    table: TableName,
    name: Annotated[str, typer.Argument(help="The new tag.")],
    at: _At = "main",
    replace: _Replace = False,
    warehouse: Warehouse = "warehouse",
    properties: Properties = None,
) -> None:
    """Create a tag: a name for a snapshot, which does not expire as long as the tag exists."""
    opened = open_table(table, warehouse, properties)
    opened.create_tag(name, _snapshot_id(at), ref=at, replace=replace)
    print(f"{opened.name}: tag {name} at snapshot {opened.refs()[name].snapshot_id}")


@refs.command()
def drop(
    table: TableName,
    name: Annotated[str, typer.Argument(help="The branch or tag.")],
    warehouse: Warehouse = "warehouse",
    properties: Properties = None,
) -> None:
    """Drop a branch or tag; its snapshots are kept until they expire."""
    opened = open_table(table, warehouse, properties)
    opened.drop_ref(name)
    print(f"{opened.name}: dropped {name}")


@refs.command("fast-forward")
def fast_forward(
    table: TableName,
    to: Annotated[str, typer.Argument(metavar="TO", help="The branch or tag that is ahead.")],
    ref: Ref = "main",
    warehouse: Warehouse = "warehouse",
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Move a branch to the tip of another branch or tag that is ahead of it."""
    opened = open_table(table, warehouse, properties)
    _tell(opened.name, ref, opened.fast_forward(ref, to), as_json=as_json)


@refs.command("cherry-pick")
def cherry_pick(
    table: TableName,
    snapshot: Annotated[int, typer.Argument(help="The snapshot's id.")],
    ref: Ref = "main",
    warehouse: Warehouse = "warehouse",
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Append to a branch what another snapshot added."""
    opened = open_table(table, warehouse, properties)
    _tell(opened.name, ref, opened.cherry_pick(snapshot, ref=ref), as_json=as_json)


@refs.command()
def publish(
    table: TableName,
    wap_id: Annotated[str, typer.Argument(help="The WAP id of the staged rows.")],
    ref: Ref = "main",
    warehouse: Warehouse = "warehouse",
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Publish staged rows."""
    opened = open_table(table, warehouse, properties)
    _tell(opened.name, ref, opened.publish(wap_id, ref=ref), as_json=as_json)


@refs.command()
def rollback(
    table: TableName,
    to: Annotated[str, typer.Argument(metavar="SNAPSHOT|TIME", help="A snapshot's id, a time, or an age such as 3d.")],
    ref: Ref = "main",
    warehouse: Warehouse = "warehouse",
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Move a branch back to one of its earlier snapshots."""
    opened = open_table(table, warehouse, properties)
    _tell(opened.name, ref, opened.rollback(_snapshot_id(to) or moment_of(to, "TO"), ref=ref), as_json=as_json)


def _snapshot_id(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _tell(table: str, ref: str, snapshot: Snapshot | None, *, as_json: bool) -> None:
    snapshot_id = snapshot.snapshot_id if snapshot is not None else None
    if as_json:
        print_json({"table": table, "ref": ref, "snapshot": snapshot_id})
    else:
        print(f"{table}: branch {ref} at snapshot {snapshot_id}")
