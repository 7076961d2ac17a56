"""What is there, seen by a process that knows nothing of what happened, and whether it is what was promised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sweep_operations import FORMATS, SCHEMA, SHOWS_INDEXES, Operation
from sweep_places import Place

from skerry.errors import AlreadyExistsError, UnsupportedError
from skerry.table.indexes.definitions import PIECES_PROPERTY
from skerry.table.indexes.registry import piece_names
from skerry.table.statistics.column_statistics import FreshnessState

__all__ = ["Facts", "Sight", "check_statistics", "finish", "look"]

Facts = Mapping[str, Mapping[str, Any]]
"""What is known of each table, by name."""

NEXT_ID = 1000
_NOT_THE_USERS = ("path", "nessie.")


@dataclass(frozen=True)
class Sight:
    """What was seen after an operation.

    Args:
        facts: Every table.
        files: How many files there were.
        kept: How many there were after one more append and the removal of orphans; 0 where that is not allowed.
        again: The rows of every table after the operation was done again, if that must change nothing.
        wrong: What was not as promised.
    """

    facts: Facts
    files: int
    kept: int
    again: Mapping[str, Any]
    wrong: tuple[str, ...]


def look(catalog: Any) -> dict[str, dict[str, Any]]:
    """All that can be seen of all tables and views, but for ids and times."""
    return {name: _facts(catalog.load_table(name)) for name in catalog.list_tables()} | _views(catalog)


def _views(catalog: Any) -> dict[str, dict[str, Any]]:
    """The views, under names that no table has."""
    try:
        names = catalog.list_views()
    except UnsupportedError:
        return {}
    views = {name: catalog.load_view(name) for name in names}
    return {
        f"{name} (view)": {"rows": [], "queries": dict(view.queries), "definitions": len(view.history)}
        for name, view in views.items()
    }


def _facts(table: Any) -> dict[str, Any]:
    return {
        "rows": _rows(table),
        **{f"rows of {ref}": _rows(table, ref=ref) for ref in table.refs() if not ref.startswith(("main", "branch-"))},
        "schema": str(table.schema.remove_metadata()),
        "format": (table.format, table.format_version),
        "partition_by": tuple(table.partition_by),
        "sort_by": tuple(table.sort_by),
        "properties": {
            name: text
            for name, text in table.properties.items()
            if name not in ("path", "created-at", PIECES_PROPERTY) and not name.startswith("nessie.")
        },
        "indexes": _indexes(table) if SHOWS_INDEXES in table.properties else (),
        "snapshots": len(table.snapshots()),
        "files": len(table.files()),
    }


def _indexes(table: Any) -> tuple[Any, ...]:
    return len(piece_names(table.properties)), *((index.column, index.indexed_files) for index in table.indexes())


def _rows(table: Any, **where: Any) -> list[tuple[Any, ...]]:
    found = table.scan(**where).to_arrow()
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True), key=repr)


def check_statistics(table: Any, data: pa.Table) -> list[str]:
    """What the table says of its columns that is not true of its rows."""
    wrong = []
    for name, known in table.statistics().items():
        values = [value for value in data[name].to_pylist() if value is not None]
        exact = len({value for value in values if value != ""})
        state = known.freshness.state
        if (state is FreshnessState.FRESH and known.ndv != exact) or (
            state is FreshnessState.UPPER_BOUND and known.ndv < exact
        ):
            wrong.append(f"statistics of {name}: {known.ndv} distinct values ({known.freshness}), there are {exact}")
        if (
            known.null_count is not None
            and state is FreshnessState.FRESH
            and (known.null_count != data[name].null_count)
        ):
            wrong.append(f"statistics of {name}: {known.null_count} nulls, there are {data[name].null_count}")
        if values and known.min is not None and known.min > min(values):
            wrong.append(f"statistics of {name}: min {known.min!r}, there is {min(values)!r}")
        if values and known.max is not None and known.max < max(values):
            wrong.append(f"statistics of {name}: max {known.max!r}, there is {max(values)!r}")
    return wrong


def finish(catalog: Any, place: Place, operation: Operation, *, repeat: bool = True) -> Sight:
    """Look, go on working with every table, and clean up.

    Args:
        catalog: The catalog, opened by a process of its own.
        place: Where it is.
        operation: What was done.
        repeat: Whether to do it again, if that must change nothing.
    """
    files, facts, wrong = len(place.files()), look(catalog), []
    again = {}
    if repeat and operation.repeats:
        operation.act(catalog, place)
        again = {name: _rows(catalog.load_table(name)) for name in catalog.list_tables()}
    names, cleaned = [name for name in facts if not name.endswith("(view)")], True
    if not names:
        try:
            catalog.create_table("d.t", SCHEMA, **FORMATS[operation.kind])
        except AlreadyExistsError:  # what a drop has left says how to get rid of it
            catalog.drop_table("d.t", purge=True)
            catalog.create_table("d.t", SCHEMA, **FORMATS[operation.kind])
        names = ["d.t"]
    for name in names:
        table = catalog.load_table(name)
        before = _rows(table)
        wrong += check_statistics(table, table.scan().to_arrow())
        table.append(pa.Table.from_pylist([{"id": NEXT_ID, "v": 1, "s": "next"}], schema=table.schema))
        if _rows(catalog.load_table(name)) != sorted([*before, _next(table)], key=repr):
            wrong.append(f"next append to {name}: rows are not those before and the new one")
        is_cleaned = table.properties.get("gc.enabled", "true") == "true"  # which Nessie says is not for its clients
        try:
            if is_cleaned:
                table.remove_orphans(older_than_days=0)
        except UnsupportedError:
            if not operation.forgets_files:  # half-way between two formats a folder is that of both
                raise
            is_cleaned = False
        cleaned &= is_cleaned
        table = catalog.load_table(name)
        data = table.scan().to_arrow()
        if data.num_rows != len(before) + 1 or table.scan().count() != data.num_rows:
            wrong.append(f"{name} has {data.num_rows} rows after the removal of orphans, {len(before) + 1} before")
        wrong += [f"after one more append: {text}" for text in check_statistics(table, data)]
        if is_cleaned and table.remove_orphans(older_than_days=0, dry_run=True).files:
            wrong.append(f"{name} has orphans again")
    return Sight(facts, files, len(place.files()) if cleaned else 0, again, tuple(wrong))


def _next(table: Any) -> tuple[Any, ...]:
    return (NEXT_ID, 1, "next", *[None] * (len(table.schema.names) - 3))
