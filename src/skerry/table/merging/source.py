"""The source of a merge: its rows in the table's types, an index of their keys, and its clauses bound to columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skerry.errors import SchemaError, UnsupportedError
from skerry.table.merging.clauses import Clauses, Delete, Insert, Update, parse_clauses
from skerry.table.merging.rules import MergeRules, MergeSource, RowNumbers
from skerry.table.rows.incoming import conform
from skerry.table.rows.keys import KeyIndex
from skerry.table.rows.schema import nearest
from skerry.wkb import shapes_of

__all__ = ["MergeClauses", "bind_rules", "index_source", "refuse_repeated", "refuse_repeated_keys"]


@dataclass(frozen=True)
class MergeClauses:
    """The clauses of a merge; see `skerry.table.merging`.

    Args:
        matched: For rows of the table that a row of the source matches.
        not_matched: For rows of the source that match no row of the table.
        not_matched_by_source: For rows of the table that no row of the source matches.
    """

    matched: Clauses = None
    not_matched: Clauses = None
    not_matched_by_source: Clauses = None


def index_source(rows: pa.Table, on: Sequence[str], schema: pa.Schema) -> MergeSource:
    """Convert the rows of a source to the table's types and index their keys; columns of its own stay unchanged.

    Raises:
        SchemaError: A key column is missing or not primitive, or values do not fit the table's types.
        UnsupportedError: A column holds more than fits into one Arrow array.
    """
    if not on or len(set(on)) < len(on):
        raise SchemaError(f"on= must be a list of distinct names of key columns, found {list(on)!r}")
    for name in on:
        if name not in schema.names:
            raise SchemaError(f"the table has no column {name!r}{nearest(name, schema.names)}")
        if name not in rows.column_names:
            raise SchemaError(f"the source has no column {name!r}{nearest(name, rows.column_names)}")
        if shapes_of(schema.field(name)) is not None:
            raise SchemaError(f"column {name!r} of shapes cannot identify rows: equal shapes may have different bytes")
    for name in rows.column_names:
        if rows.column_names.count(name) > 1:
            raise SchemaError(f"column {name!r} is in the source twice")
    shared = pa.schema([field for field in schema if field.name in rows.column_names])
    nullable = pa.schema([field.with_nullable(True) for field in shared])  # rows to delete need not be complete
    known = conform(rows.select(shared.names), nullable).read_all()
    for name in rows.column_names:
        if name not in shared.names:
            known = known.append_column(rows.schema.field(name), rows.column(name))
    known = known.combine_chunks()
    for name, column in zip(known.column_names, known.columns, strict=True):
        if column.num_chunks > 1:
            raise UnsupportedError(f"column {name!r} of the source contains more than 2 GB: merge it in parts")
    return MergeSource(known, tuple(on), KeyIndex.of([known.column(name) for name in on]))


def bind_rules(source: pa.Schema, on: Sequence[str], schema: pa.Schema, clauses: MergeClauses) -> MergeRules:
    """Bind the clauses of a merge to the columns of both sides.

    Args:
        source: The columns of the source.
        on: Names of the key columns.
        schema: The columns of the table.
        clauses: The clauses.

    Raises:
        FormatError: A condition or value is not valid SQL.
        SchemaError: A condition or value does not fit, or there are no clauses.
    """
    rules = MergeRules(
        source,
        schema,
        on,
        matched=parse_clauses(clauses.matched, "when_matched", (Update, Delete)),
        not_matched=parse_clauses(clauses.not_matched, "when_not_matched", (Insert,)),
        not_matched_by_source=parse_clauses(
            clauses.not_matched_by_source, "when_not_matched_by_source", (Update, Delete)
        ),
    )
    if rules.is_empty:
        raise SchemaError("a merge needs at least one clause: when_matched, when_not_matched, …")
    return rules


def refuse_repeated_keys(source: MergeSource) -> None:
    """Refuse rows of the source with the same key, whether they match a row or not.

    Raises:
        SchemaError: There are some; the message names the key.
    """
    repeated = np.flatnonzero(source.index.repeated)
    if len(repeated):
        raise SchemaError(f"several rows of the source have one key: {source.describe_key(int(repeated[0]))}")


def refuse_repeated(source: MergeSource, rules: MergeRules, rows: RowNumbers) -> None:
    """Refuse rows of the source with the same key, unless that makes no difference.

    Args:
        source: The source.
        rules: The clauses.
        rows: int64[n], rows of the source that match rows of the table.

    Raises:
        SchemaError: Several rows of the source match one row of the table; the message names the key.
    """
    if rules.allows_repeated_keys:
        return
    repeated = rows[source.index.repeated[rows]]
    if len(repeated):
        key = source.describe_key(int(repeated[0]))
        raise SchemaError(f"several rows of the source match one row of the table: those of {key}")
