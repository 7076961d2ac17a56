"""`skerry refs …`: branches and tags."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from skerry.cli.commands import OrderedGroup
from skerry.cli.display import print_json
from skerry.cli.options import catalog_options, json_option, moment_of, open_table, ref_option, table_argument
from skerry.cli.reading.listing import print_refs

if TYPE_CHECKING:
    from skerry.table.history import Snapshot

__all__ = ["refs"]


@click.group(cls=OrderedGroup)
def refs() -> None:
    """List, create, move and drop branches and tags."""


_at_option = click.option(
    "--at", default="main", metavar="SNAPSHOT|REF", help="A snapshot's id, or the tip of a branch or tag."
)
_replace_option = click.option("--replace", is_flag=True, help="Replace it if it exists.")


@refs.command("ls")
@table_argument
@catalog_options
@json_option
def list_refs(table: str, warehouse: str, properties: tuple[str, ...], as_json: bool) -> None:
    """List branches and tags with their snapshots and retention."""
    print_refs(open_table(table, warehouse, properties), as_json=as_json)


@refs.command()
@table_argument
@click.argument("name", help="The new branch.")
@_at_option
@_replace_option
@catalog_options
def branch(table: str, name: str, at: str, replace: bool, warehouse: str, properties: tuple[str, ...]) -> None:
    """Create a branch."""
    opened = open_table(table, warehouse, properties)
    opened.create_branch(name, _snapshot_id(at), ref=at, replace=replace)
    print(f"{opened.name}: branch {name} at snapshot {opened.refs()[name].snapshot_id}")


@refs.command()
@table_argument
@click.argument("name", help="The new tag.")
@_at_option
@_replace_option
@catalog_options
def tag(table: str, name: str, at: str, replace: bool, warehouse: str, properties: tuple[str, ...]) -> None:
    """Create a tag, a name for a snapshot.

    The snapshot does not expire as long as the tag exists.
    """
    opened = open_table(table, warehouse, properties)
    opened.create_tag(name, _snapshot_id(at), ref=at, replace=replace)
    print(f"{opened.name}: tag {name} at snapshot {opened.refs()[name].snapshot_id}")


@refs.command()
@table_argument
@click.argument("name", help="The branch or tag.")
@catalog_options
def drop(table: str, name: str, warehouse: str, properties: tuple[str, ...]) -> None:
    """Drop a branch or tag.

    Its snapshots are kept until they expire.
    """
    opened = open_table(table, warehouse, properties)
    opened.drop_ref(name)
    print(f"{opened.name}: dropped {name}")


@refs.command("fast-forward")
@table_argument
@click.argument("to", metavar="TO", help="The branch or tag that is ahead.")
@ref_option
@catalog_options
@json_option
def fast_forward(table: str, to: str, ref: str, warehouse: str, properties: tuple[str, ...], as_json: bool) -> None:
    """Move a branch forward to another branch or tag.

    The other one must be ahead of it.
    """
    opened = open_table(table, warehouse, properties)
    _tell(opened.name, ref, opened.fast_forward(ref, to), as_json=as_json)


@refs.command("cherry-pick")
@table_argument
@click.argument("snapshot", type=int, help="The snapshot's id.")
@ref_option
@catalog_options
@json_option
def cherry_pick(
    table: str, snapshot: int, ref: str, warehouse: str, properties: tuple[str, ...], as_json: bool
) -> None:
    """Append to a branch what another snapshot added."""
    opened = open_table(table, warehouse, properties)
    _tell(opened.name, ref, opened.cherry_pick(snapshot, ref=ref), as_json=as_json)


@refs.command()
@table_argument
@click.argument("wap_id", help="The WAP id of the staged rows.")
@ref_option
@catalog_options
@json_option
def publish(table: str, wap_id: str, ref: str, warehouse: str, properties: tuple[str, ...], as_json: bool) -> None:
    """Publish staged rows."""
    opened = open_table(table, warehouse, properties)
    _tell(opened.name, ref, opened.publish(wap_id, ref=ref), as_json=as_json)


@refs.command()
@table_argument
@click.argument("to", metavar="SNAPSHOT|TIME", help="A snapshot's id, a time, or an age such as 3d.")
@ref_option
@catalog_options
@json_option
def rollback(table: str, to: str, ref: str, warehouse: str, properties: tuple[str, ...], as_json: bool) -> None:
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
