"""The selection of a scan: which columns of which snapshot, and how many rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import pyarrow as pa

from skerry.arguments import check_list, check_whole_number
from skerry.errors import SchemaError
from skerry.table.files.evolution import prune
from skerry.table.files.variant_paths import PathValue
from skerry.table.predicate.binding import resolve_column, resolve_inside
from skerry.table.predicate.sql import parse_condition
from skerry.table.predicate.syntax import Inside, Name

__all__ = ["asks_for_value", "check_snapshot", "checked_limit", "columns_named", "select_columns", "select_values"]

_VALUE: Final = re.compile(
    r"""\s*(?P<call>(?:try_)?variant_get\s*\(.*\))\s+as\s+(?P<name>\w+|"(?:[^"]|"")+")\s*""", re.IGNORECASE | re.DOTALL
)
_CALL: Final = re.compile(r"\s*(?:try_)?variant_get\s*\(", re.IGNORECASE)


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


def select_values(schema: pa.Schema, columns: Sequence[str]) -> tuple[list[str], tuple[PathValue, ...]]:
    """Separate columns from values inside of variants: `variant_get(event, '$.ms', 'int') AS ms`.

    Args:
        schema: The table's.
        columns: Dotted names, and such values.

    Returns:
        The names of columns, and the values.

    Raises:
        FormatError: A value is not well-formed.
        SchemaError: A value has no name or one that is taken, its column does not exist or has no variants.
    """
    check_list("columns", columns)
    names: list[str] = []
    values: list[PathValue] = []
    for text in columns:
        if not isinstance(text, str) or text in schema.names or not _CALL.match(text):
            names.append(text)
            continue
        found = _VALUE.fullmatch(text)
        if found is None:
            raise SchemaError(f"{text!r} needs a name, as in variant_get(column, '$.path', 'int') AS name")
        name = _unquoted(found["name"])
        inside = parse_condition(found["call"])
        if not isinstance(inside, Inside):
            raise SchemaError(f"{text!r} is not one value: variant_get(column, '$.path', 'int') AS name")
        column = resolve_inside(schema, inside, found["call"])
        tops = dict.fromkeys(name.split(".")[0] if name not in schema.names else name for name in names)
        values.append(PathValue(name, column, len(tops) + len(values)))
    taken = [name if name in schema.names else name.split(".")[0] for name in names]
    for value in values:
        if value.name in taken:
            raise SchemaError(f"the name {value.name!r} is taken by another column")
        taken.append(value.name)
    return names, tuple(values)


def asks_for_value(schema: pa.Schema, text: str) -> bool:
    """Whether a text among `columns` is a value inside of variants, and not a column of a table."""
    return text not in schema.names and _CALL.match(text) is not None


def columns_named(schema: pa.Schema, columns: Sequence[str], names: Sequence[str]) -> list[str]:
    """Those of the columns of a scan that deliver the columns of its result with some names.

    Args:
        schema: The table's.
        columns: Dotted names, and values inside of variants.
        names: Names in the result; others than those of `columns` are kept.
    """
    texts: dict[str, list[str]] = {}
    for text in columns:
        found = None if text in schema.names else _VALUE.fullmatch(text)
        name = text if text in schema.names else text.split(".")[0]
        texts.setdefault(name if found is None else _unquoted(found["name"]), []).append(text)
    return [text for name in names for text in texts.get(name, [name])]


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _resolve(schema: pa.Schema, name: str) -> tuple[str, int]:
    """Top-level name and field id of a column."""
    parts = (name,) if name in schema.names else tuple(name.split("."))
    column = resolve_column(schema, Name(parts, (True,) * len(parts)))
    return column.path[0], column.field_id
