"""`skerry ls` and `skerry show`: tables and their metadata."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import click

from skerry.cli.display import Field, count, is_terminal, moment, print_json, print_pairs, print_records, size, text
from skerry.cli.options import catalog_options, json_option, open_catalog, open_table, table_argument
from skerry.errors import SkerryError

if TYPE_CHECKING:
    from skerry.catalog import Catalog, Table

__all__ = ["ls", "print_refs", "show"]

_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_SHOWN = 10  # snapshots and files of a table, unless a section is asked for


@click.command()
@click.argument("namespace", required=False, help="Only the tables of this namespace.")
@catalog_options
@json_option
def ls(namespace: str | None, warehouse: str, properties: tuple[str, ...], as_json: bool) -> None:
    """List tables with rows, size and freshness of the statistics."""
    catalog = open_catalog(warehouse, properties)
    records = [_describe_any(catalog, name) for name in catalog.list_tables(namespace)]
    note = "" if records else f"no tables in {warehouse}"
    if catalog.moved_from is not None:
        note = f"copied or moved from {catalog.moved_from}; `skerry relocate {warehouse}` makes it writable"
    print_records(
        records,
        [
            Field("table", "table", flexible=True),
            Field("rows", "rows", count, right=True),
            Field("size_bytes", "size", size, right=True),
            Field("files", "files", count, right=True, spare=True),
            Field("updated", "updated", moment, spare=True),
            Field("statistics", "statistics", flexible=True),
        ],
        as_json=as_json,
        note=note,
    )


def _describe_any(catalog: Catalog, name: str) -> dict[str, Any]:
    """Describe a table like `_describe`; one that cannot be read does not hide the others."""
    try:
        return _describe(catalog.load_table(name))
    except SkerryError as error:
        unknown = dict.fromkeys(("format", "rows", "size_bytes", "files", "snapshots", "updated"))
        return {"table": name, **unknown, "statistics": f"cannot be read: {error}"}


def _describe(table: Table) -> dict[str, Any]:
    snapshot = table.current_snapshot()
    summary = snapshot.summary if snapshot is not None else {"total-records": "0"}
    return {
        "table": table.name,
        "format": table.format,
        "rows": _number(summary.get("total-records")),
        "size_bytes": _number(summary.get("total-files-size")),
        "files": _number(summary.get("total-data-files")),
        "snapshots": len(table.snapshots()),
        "updated": snapshot.timestamp if snapshot is not None else None,
        "statistics": _freshness(table),
    }


def _freshness(table: Table) -> str:
    """A summary of the columns' freshness: `fresh`, or `17 fresh, 2 absent`."""
    states = Counter(freshness.state.value for freshness in table.freshness().values())
    if len(states) == 1:
        return next(iter(states))
    return ", ".join(f"{number} {state}" for state, number in states.most_common())


def _number(value: str | None) -> int | None:
    return int(value) if value is not None and value.isdecimal() else None


class Section(StrEnum):
    """The sections of `skerry show`."""

    SCHEMA = "schema"
    SNAPSHOTS = "snapshots"
    FILES = "files"
    REFS = "refs"
    PROPERTIES = "properties"


@click.command()
@table_argument
@click.argument(
    "section", type=click.Choice([part.value for part in Section]), required=False, help="Only this section, complete."
)
@catalog_options
@json_option
def show(table: str, section: str | None, warehouse: str, properties: tuple[str, ...], as_json: bool) -> None:
    """Show a table: schema, partitions, snapshots, files."""
    opened = open_table(table, warehouse, properties)
    if section is not None:
        part = Section(section)
        print_records(_RECORDS[part](opened), _FIELDS[part], as_json=as_json)
        return
    head = _head(opened)
    if as_json:
        print_json(head | {part.value: _RECORDS[part](opened) for part in Section})
        return
    _print_head(head)
    for part in (Section.SCHEMA, Section.SNAPSHOTS, Section.FILES):
        records = _RECORDS[part](opened)
        limited = records if part is Section.SCHEMA else records[-_SHOWN:]
        hidden = len(records) - len(limited)
        note = f"{hidden:,} more: skerry show {opened.name} {part.value}" if hidden else ""
        if not is_terminal():
            print(f"\n# {part.value}")
        print_records(limited, _FIELDS[part], as_json=False, title=part.value, note=note)


def _head(table: Table) -> dict[str, Any]:
    return _describe(table) | {
        "format": f"{table.format} version {table.format_version}",
        "location": table.location,
        "partition_by": table.partition_by,
        "sort_by": table.sort_by,
    }


def _print_head(head: dict[str, Any]) -> None:
    shown = {name: head[name] for name in ("table", "format", "location")}
    shown["partitions"] = ", ".join(head["partition_by"]) or "none"
    shown["sorted by"] = ", ".join(head["sort_by"]) or "nothing"
    if not is_terminal():
        numbers = {name: head[name] for name in ("rows", "size_bytes", "files", "updated", "statistics")}
        print_pairs(shown | numbers)
        return
    in_files = f"{size(head['size_bytes'])} in {count(head['files'])} files" if head["files"] is not None else ""
    shown |= {"rows": count(head["rows"]), "size": in_files, "updated": moment(head["updated"])}
    for name, value in (shown | {"statistics": head["statistics"]}).items():
        if value:
            print(click.style(f"{name:<11}", dim=True) + value)


def _schema(table: Table) -> list[dict[str, Any]]:
    from skerry.table.rows.schema import field_id

    return [
        {
            "id": field_id(field),
            "column": field.name,
            "type": str(field.type),
            "nullable": field.nullable,
            "doc": (field.metadata or {}).get(b"doc", b"").decode() or None,
        }
        for field in table.schema
    ]


def _snapshots(table: Table) -> list[dict[str, Any]]:
    refs = table.refs()
    return [
        {
            "snapshot": snapshot.snapshot_id,
            "parent": snapshot.parent_id,
            "sequence": snapshot.sequence_number,
            "committed": snapshot.timestamp,
            "operation": snapshot.operation,
            "added_rows": _number(snapshot.summary.get("added-records")),
            "deleted_rows": _number(snapshot.summary.get("deleted-records")),
            "rows": _number(snapshot.summary.get("total-records")),
            "statistics": snapshot.has_statistics,
            "refs": [name for name, ref in refs.items() if ref.snapshot_id == snapshot.snapshot_id],
        }
        for snapshot in table.snapshots()
    ]


def _files(table: Table) -> list[dict[str, Any]]:
    prefix = table.location.rstrip("/") + "/"
    return [
        {
            "file": file.location.removeprefix(prefix),
            "format": file.file_format,
            "rows": file.record_count,
            "size_bytes": file.file_size_bytes,
            "spec": file.spec_id,
        }
        for file in table.files()
    ]


def _refs(table: Table) -> list[dict[str, Any]]:
    return [
        {
            "ref": ref.name,
            "kind": ref.kind,
            "snapshot": ref.snapshot_id,
            "max_age_s": _seconds(ref.max_ref_age),
            "max_snapshot_age_s": _seconds(ref.max_snapshot_age),
            "min_snapshots": ref.min_snapshots_to_keep,
        }
        for ref in table.refs().values()
    ]


def _seconds(age: datetime.timedelta | None) -> float | None:
    return None if age is None else age.total_seconds()


def _age(seconds: float | None) -> str:
    return "" if seconds is None else str(datetime.timedelta(seconds=seconds))


def print_refs(table: Table, *, as_json: bool) -> None:
    """Print branches and tags."""
    print_records(_refs(table), _FIELDS[Section.REFS], as_json=as_json)


def _properties(table: Table) -> list[dict[str, Any]]:
    return [{"property": name, "value": value} for name, value in sorted(table.properties.items())]


def _short_path(path: str) -> str:
    """A data file's short name: without the folder of its write, and only the end of its name."""
    folder, _, name = re.sub(rf"^data/(?:{_UUID}/)?", "", path).rpartition("/")
    name = re.sub(rf"{_UUID}(?=\.)", lambda match: f"{match.group()[:8]}…", name)
    return f"{folder}/{name}" if folder else name


def _yes(value: bool) -> str:
    return "yes" if value else ""


_RECORDS = {
    Section.SCHEMA: _schema,
    Section.SNAPSHOTS: _snapshots,
    Section.FILES: _files,
    Section.REFS: _refs,
    Section.PROPERTIES: _properties,
}
_FIELDS = {
    Section.SCHEMA: [
        Field("id", "id", right=True),
        Field("column", "column"),
        Field("type", "type", flexible=True),
        Field("nullable", "required", lambda nullable: _yes(not nullable)),
        Field("doc", "doc", text, flexible=True),
    ],
    Section.SNAPSHOTS: [
        Field("snapshot", "snapshot", right=True),
        Field("committed", "committed", moment),
        Field("operation", "operation", spare=True),
        Field("added_rows", "added", count, right=True, spare=True),
        Field("deleted_rows", "deleted", count, right=True, spare=True),
        Field("rows", "rows", count, right=True),
        Field("statistics", "statistics", _yes, spare=True),
        Field("refs", "refs", ", ".join, flexible=True, spare=True),
    ],
    Section.FILES: [
        Field("file", "file", _short_path, flexible=True),
        Field("rows", "rows", count, right=True),
        Field("size_bytes", "size", size, right=True),
    ],
    Section.REFS: [
        Field("ref", "ref", flexible=True),
        Field("kind", "kind"),
        Field("snapshot", "snapshot", right=True),
        Field("max_age_s", "for", _age, right=True, spare=True),
        Field("max_snapshot_age_s", "snapshots for", _age, right=True, spare=True),
        Field("min_snapshots", "at least", count, right=True, spare=True),
    ],
    Section.PROPERTIES: [Field("property", "property", flexible=True), Field("value", "value", flexible=True)],
}
