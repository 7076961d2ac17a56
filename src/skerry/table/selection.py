"""The selection of a scan: which columns of which snapshot, and how many rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import pyarrow as pa

from skerry.arguments import check_list, check_whole_number
from skerry.errors import SchemaError
from skerry.table.files.evolution import prune
from skerry.table.predicate.binding import Name, resolve_column

__all__ = ["check_snapshot", "checked_limit", "select_columns"]


def check_snapshot(snapshot: int | None, ref: str | None, as_of: datetime | None) -> None:
    """Refuse more than one argument that selects a snapshot.

    Raises:
        SchemaError: More than one is given.
    """
    if sum(choice is not None for choice in (snapshot, ref, as_of)) > 1:
        raise SchemaError("a scan reads one of snapshot=, ref= and as_of=, not several")


def checked_limit(limit: int | None) -> int | None:
    """Return a limit unchanged if it is valid.

    Raises:
        SchemaError: It is not a number of rows.
    """
    check_whole_number("limit", limit, 0)
    return limit


def select_columns(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """Select columns in the given order; fields of one struct stay together, where the first of them is.

    Args:
        schema: The table's; fields carry their id in the metadata `PARQUET:field_id`.
        columns: Dotted names. A name with dots in it is a path unless a column has exactly that name. An empty list
            selects rows without columns.

    Raises:
        SchemaError: A column does not exist, or `columns` is text.
    """
    check_list("columns", columns)
    wanted = [_resolve(schema, name) for name in columns]
    pruned = prune(schema, {number for _, number in wanted})
    order = dict.fromkeys(top for top, _ in wanted)
    return pa.schema([pruned.field(name) for name in order], metadata=schema.metadata)


def _resolve(schema: pa.Schema, name: str) -> tuple[str, int]:
    """Top-level name and field id of a column."""
    parts = (name,) if name in schema.names else tuple(name.split("."))
    column = resolve_column(schema, Name(parts, (True,) * len(parts)))
    return column.path[0], column.field_id
