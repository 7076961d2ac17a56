"""History: snapshots, branches and tags as a graph; what differs between two snapshots; what would expire."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import NotFoundError, SkerryError
from skerry.markup import Column, Html, definitions, element, join, table
from skerry.markup.graphs import assign_lanes, lane_mark
from skerry.table.history import Snapshot
from skerry.table.table import Table
from skerry.web.query import Query, address
from skerry.web.source import Source
from skerry.web.values import count, moment, pages, size, tag

__all__ = ["HistoryPage", "read_history", "show_history"]

_PER_PAGE: Final = 100
_LISTED: Final = 200
_Lane: TypeAlias = tuple[int, frozenset[int], frozenset[int]]


@dataclass(frozen=True, slots=True)
class SnapshotLine:
    """A snapshot: what it did, and which branches and tags name it."""

    snapshot_id: int
    parent_id: int | None
    committed: datetime
    operation: str
    added_rows: int | None
    deleted_rows: int | None
    added_files: int | None
    removed_files: int | None
    rows: int | None
    statistics: bool
    refs: list[tuple[str, str]]


_Pair: TypeAlias = tuple[SnapshotLine, _Lane]


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs between two snapshots.

    Args:
        older: The one snapshot.
        newer: The other.
        added_files: Files that only the newer one has; at most 200 are listed.
        removed_files: Files that only the older one has; at most 200 are listed.
        added_count: How many there are of the first.
        removed_count: How many there are of the second.
        added_bytes: Their size.
        removed_bytes: Their size.
        columns: What happened to columns.
        rows: How many rows were inserted, deleted and updated, if they were to be counted.
        problem: Why they could not be counted.
    """

    older: int
    newer: int
    added_files: list[str]
    removed_files: list[str]
    added_count: int
    removed_count: int
    added_bytes: int
    removed_bytes: int
    columns: list[str]
    rows: dict[str, int] | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Expiry:
    """What `expire_snapshots()` would remove now: how many snapshots, references and files, and their size."""

    snapshots: int
    refs: list[str]
    files: int
    size_bytes: int
    problem: str = ""


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """A page of the history.

    Args:
        snapshots: The snapshots of this page, newest first.
        total: How many there are.
        lanes: Of each the lane of the graph, the lanes that come from above, and those that go on below.
        difference: What differs between the two that were chosen.
        expiry: What would expire, if that was asked.
    """

    snapshots: list[SnapshotLine]
    total: int
    lanes: list[_Lane]
    difference: Difference | None
    expiry: Expiry | None


def read_history(source: Source, query: Query) -> HistoryPage:
    """The snapshots of a table; with `from` and `to` their difference, with `expire=yes` a preview of expiry."""
    opened = source.table(query.table)
    found = sorted(
        opened.snapshots(), key=lambda snapshot: (snapshot.timestamp, snapshot.sequence_number), reverse=True
    )
    named: dict[int | None, list[tuple[str, str]]] = {}
    for name, ref in opened.refs().items():
        named.setdefault(ref.snapshot_id, []).append((name, ref.kind))
    lanes = assign_lanes([(snapshot.snapshot_id, snapshot.parent_id) for snapshot in found])
    first = query.number("page") * _PER_PAGE
    chosen = query.number("from"), query.number("to")
    return HistoryPage(
        snapshots=[
            _line(snapshot, named.get(snapshot.snapshot_id, [])) for snapshot in found[first : first + _PER_PAGE]
        ],
        total=len(found),
        lanes=lanes[first : first + _PER_PAGE],
        difference=_difference(opened, *chosen, rows=query.text("rows") == "yes") if all(chosen) else None,
        expiry=_expiry(opened) if query.text("expire") == "yes" else None,
    )


def _line(snapshot: Snapshot, refs: list[tuple[str, str]]) -> SnapshotLine:
    summary = snapshot.summary

    def number(*keys: str) -> int | None:
        told = next((summary[key] for key in keys if key in summary), None)
        return int(told) if told is not None and told.isdecimal() else None

    return SnapshotLine(
        snapshot.snapshot_id,
        snapshot.parent_id,
        snapshot.timestamp,
        snapshot.operation,
        number("added-records", "delta-records"),
        number("deleted-records"),
        number("added-data-files"),
        number("deleted-data-files"),
        number("total-records"),
        snapshot.has_statistics,
        refs,
    )


def _difference(opened: Table, older: int, newer: int, *, rows: bool) -> Difference:
    """What differs; rows are only counted if they are to be, since that reads files.

    Raises:
        NotFoundError: There is no such snapshot.
    """
    known = {snapshot.snapshot_id for snapshot in opened.snapshots()}
    for each in (older, newer):
        if each not in known:
            raise NotFoundError(f"{opened.name} has no snapshot {each}; it may have expired")
    columns = ["file_path", "file_size_in_bytes"]
    files = [opened.inspect.files(snapshot=each, columns=columns) for each in (older, newer)]
    added, removed = _only(files[1], files[0]), _only(files[0], files[1])
    counted: dict[str, int] | None = None
    problem = ""
    if rows:
        try:
            counted = _count_changes(opened, older, newer)
        except SkerryError as error:
            problem = str(error)
    return Difference(
        older,
        newer,
        _paths(added, opened),
        _paths(removed, opened),
        added.num_rows,
        removed.num_rows,
        pc.sum(added.column("file_size_in_bytes")).as_py() or 0,
        pc.sum(removed.column("file_size_in_bytes")).as_py() or 0,
        _columns_between(opened.scan(snapshot=older).schema, opened.scan(snapshot=newer).schema),
        counted,
        problem,
    )


def _only(files: pa.Table, others: pa.Table) -> pa.Table:
    """The files that are not among others."""
    paths = others.column("file_path").combine_chunks()
    return files.filter(pc.invert(pc.is_in(files.column("file_path"), value_set=paths)))


def _paths(files: pa.Table, opened: Table) -> list[str]:
    prefix = opened.location.rstrip("/") + "/"
    return [path.removeprefix(prefix) for path in files.column("file_path").slice(0, _LISTED).to_pylist()]


def _count_changes(opened: Table, older: int, newer: int) -> dict[str, int]:
    counted: dict[str, int] = {}
    for batch in opened.changes(older, newer, columns=[]).to_batches():
        for each in pc.value_counts(batch.column("_change_type")).to_pylist():
            counted[each["values"]] = counted.get(each["values"], 0) + each["counts"]
    return counted


def _columns_between(older: pa.Schema, newer: pa.Schema) -> list[str]:
    """What happened to columns, by their ids where there are any."""
    key = b"PARQUET:field_id"

    def by_id(schema: pa.Schema) -> dict[object, pa.Field]:
        return {(field.metadata or {}).get(key, field.name): field for field in schema}

    before, after = by_id(older), by_id(newer)
    said = [f"{after[each].name} {after[each].type} was added" for each in after if each not in before]
    said += [f"{before[each].name} {before[each].type} was dropped" for each in before if each not in after]
    for each in before.keys() & after.keys():
        old, new = before[each], after[each]
        if old.name != new.name:
            said.append(f"{old.name} was renamed to {new.name}")
        if old.type != new.type:
            said.append(f"{new.name} was {old.type} and is {new.type}")
        if old.nullable != new.nullable:
            said.append(f"{new.name} {'may be null now' if new.nullable else 'is required now'}")
    return said


def _expiry(opened: Table) -> Expiry:
    try:
        found = opened.expire_snapshots(dry_run=True)
    except SkerryError as error:
        return Expiry(0, [], 0, 0, str(error))
    return Expiry(len(found.snapshot_ids), list(found.refs), len(found.files), found.size_bytes)


# ---- showing ----


def show_history(found: HistoryPage, query: Query) -> Html:
    """The graph with a line per snapshot; above it what was asked about two of them, or about expiry."""
    head = element(
        "div",
        element("h1", "History"),
        element("span", f"{found.total:,} snapshots", class_="dim"),
        element("a", "What would expire?", href=address("/history", t=query.table, expire="yes")),
        class_="title",
    )
    return join(head, _show_expiry(found.expiry), _show_difference(found.difference, query), _graph(found, query))


def _graph(found: HistoryPage, query: Query) -> Html:
    pairs = list(zip(found.snapshots, found.lanes, strict=True))
    chosen = query.number("from"), query.number("to")
    if not all(chosen) and len(pairs) > 1:
        chosen = pairs[1][0].snapshot_id, pairs[0][0].snapshot_id

    def choice(name: str, at: int) -> Column[_Pair]:
        return Column(
            name,
            lambda pair: element(
                "input",
                type="radio",
                name=name,
                value=pair[0].snapshot_id,
                checked=pair[0].snapshot_id == chosen[at],
                aria_label=f"{name} snapshot {pair[0].snapshot_id}",
            ),
        )

    columns = [
        Column[_Pair](
            "", lambda pair: lane_mark(*pair[1], f"snapshot {pair[0].snapshot_id}"), style=lambda pair: "graph"
        ),
        choice("from", 0),
        choice("to", 1),
        Column[_Pair]("snapshot", lambda pair: element("code", pair[0].snapshot_id), right=True),
        Column[_Pair]("refs", lambda pair: join([tag(name, f"ref {kind}") for name, kind in pair[0].refs])),
        Column[_Pair]("committed", lambda pair: moment(pair[0].committed)),
        Column[_Pair]("operation", lambda pair: pair[0].operation),
        Column[_Pair]("rows added", lambda pair: count(pair[0].added_rows), right=True),
        Column[_Pair]("removed", lambda pair: count(pair[0].deleted_rows), right=True),
        Column[_Pair]("files added", lambda pair: count(pair[0].added_files), right=True),
        Column[_Pair]("removed", lambda pair: count(pair[0].removed_files), right=True),
        Column[_Pair]("rows", lambda pair: count(pair[0].rows), right=True),
        Column[_Pair]("statistics", lambda pair: tag("published", "fresh") if pair[0].statistics else None),
    ]
    return element(
        "form",
        element("input", type="hidden", name="t", value=query.table),
        element(
            "div", table(pairs, columns, caption="snapshots", empty="no snapshots", class_="history"), class_="wide"
        ),
        element("p", element("button", "Compare two"), class_="actions") if len(pairs) > 1 else None,
        pages(lambda number: query.with_(page=number), query.number("page"), _PER_PAGE, found.total, "snapshots"),
        action="/history",
    )


def _show_expiry(expiry: Expiry | None) -> Html | None:
    if expiry is None:
        return None
    heading = element(
        "h2", "What would expire now", element("code", "table.expire_snapshots(dry_run=True)", class_="dim")
    )
    if expiry.problem:
        return element("section", heading, element("p", expiry.problem, class_="problem"))
    facts = {
        "snapshots": count(expiry.snapshots),
        "branches and tags": ", ".join(expiry.refs) or "none",
        "files": count(expiry.files),
        "size": size(expiry.size_bytes),
    }
    return element("section", heading, definitions(facts), class_="panel")


def _show_difference(found: Difference | None, query: Query) -> Html | None:
    if found is None:
        return None
    rows = ", ".join(f"{number:,} {kind}" for kind, number in (found.rows or {}).items())
    facts = {
        "from": element("code", found.older),
        "to": element("code", found.newer),
        "files added": f"{count(found.added_count)}, {size(found.added_bytes)}",
        "files removed": f"{count(found.removed_count)}, {size(found.removed_bytes)}",
        "columns": "; ".join(found.columns) or "the same",
        "rows": element("a", "count them", href=query.with_(rows="yes"), title="reads the files that changed")
        if found.rows is None and not found.problem
        else found.problem or rows or "the same",
    }
    lists = [
        element(
            "details",
            element("summary", title),
            element("ul", [element("li", _file_link(path, query)) for path in paths]),
        )
        for title, paths in (("files added", found.added_files), ("files removed", found.removed_files))
        if paths
    ]
    return element("section", element("h2", "Between two snapshots"), definitions(facts), lists, class_="panel")


def _file_link(path: str, query: Query) -> Html:
    return element("a", path, href=address("/file", t=query.table, path=path), class_="path")
