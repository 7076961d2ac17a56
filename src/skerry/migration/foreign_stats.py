"""Manifest statistics of data files that were written by another table format, for many files at a time.

Spec: docs/formats/paimon.md § 5.7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.values.arrow_types import arrow_type
from skerry.paimon.values.binary_row import encode_rows
from skerry.paimon.values.simple_stats import SimpleStats
from skerry.paimon.values.types import AtomicType, DataField, PaimonType, TypeRoot

__all__ = ["ColumnFacts", "FileFacts", "encode_facts"]


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """Statistics of a column in a file.

    Args:
        lower: A lower bound as a physical value of the table's type; None if unknown.
        upper: An upper bound as a physical value of the table's type; None if unknown.
        null_count: Its nulls; None if unknown.
        is_null: Whether all of its values are null.
    """

    lower: Any = None
    upper: Any = None
    null_count: int | None = None
    is_null: bool = False


FileFacts = Mapping[int, ColumnFacts]
"""Statistics of a file's columns, by field id."""

_UNBOUNDED: Final = (TypeRoot.BINARY, TypeRoot.VARBINARY)
_ASKED: Final = (TypeRoot.BOOLEAN, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DATE)


def encode_facts(
    now: TableSchema, files: Sequence[tuple[TableSchema, FileFacts]]
) -> list[tuple[SimpleStats, tuple[str, ...]]]:
    """Encode statistics of files.

    A column of numbers, dates or booleans is included only if both of its bounds are known, or absent because all of
    its values are null: Paimon's Spark connector computes a table's minimum and maximum from them, and takes a missing
    bound for a file without values. Nested columns are left out.

    Args:
        now: The table's schema, in whose types the bounds are.
        files: Each file's own schema, and the statistics of its columns.

    Returns:
        For every file its statistics, and the columns that they cover, named as in its own schema.
    """
    types = {column.id: column.type for column in now.fields}
    known_bounds = [_known_bounds(types, schema, facts) for schema, facts in files]
    alike: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for index, ((schema, _), bounds) in enumerate(zip(files, known_bounds, strict=True)):
        if bounds:
            alike.setdefault((schema.id, tuple(bounds)), []).append(index)
    result: list[tuple[SimpleStats, tuple[str, ...]]] = [(SimpleStats(), ())] * len(files)
    for (_, ids), indices in alike.items():
        by_id = {column.id: column for column in files[indices[0]][0].fields}
        columns = [by_id[number] for number in ids]
        kinds = [column.type for column in columns]
        lower, upper = (
            [pa.concat_arrays([known_bounds[index][number][side] for index in indices]) for number in ids]
            for side in (0, 1)
        )
        names = tuple(column.name for column in columns)
        rows = zip(encode_rows(kinds, lower).to_list(), encode_rows(kinds, upper).to_list(), strict=True)
        for index, (low, high) in zip(indices, rows, strict=True):
            nulls = tuple(files[index][1][number].null_count for number in ids)
            result[index] = (SimpleStats(low, high, nulls), names)
    return result


def _known_bounds(
    types: Mapping[int, PaimonType], schema: TableSchema, facts: FileFacts
) -> dict[int, tuple[pa.Array, pa.Array]]:
    """The bounds of the included columns of a file, each an array of one value, by field id."""
    found = {}
    for column in schema.fields:
        fact = facts.get(column.id)
        if fact is None or fact == ColumnFacts() or not isinstance(column.type, AtomicType):
            continue
        lower = _bound(types[column.id], column, fact.lower)
        upper = _bound(types[column.id], column, fact.upper, is_upper=True)
        is_bounded = not (lower.null_count or upper.null_count)
        if is_bounded or fact.is_null or column.type.root not in _ASKED:
            found[column.id] = (lower, upper)
    return found


def _bound(now: Any, column: DataField, value: Any, *, is_upper: bool = False) -> pa.Array:
    """A bound in the file's type, null if it does not fit."""
    then = column.type
    type_ = arrow_type(then)
    assert isinstance(then, AtomicType)
    assert isinstance(now, AtomicType)
    if value is None or then.root in _UNBOUNDED or (then.root is TypeRoot.DATE and now.root is not TypeRoot.DATE):
        return pa.nulls(1, type_)
    if now.precision != then.precision and pa.types.is_timestamp(type_):
        value = (_coarser_above if is_upper else _coarser_below)(value)
    elif pa.types.is_floating(type_):  # Java orders -0.0 before 0.0
        value = (_zero_above if is_upper else _zero_below)(value)
    try:
        return pa.array([value], type_)
    except (pa.ArrowException, OverflowError, ValueError):  # a bound may be wider than what is in the file
        return pa.nulls(1, type_)


def _coarser_below(micros: int) -> int:
    return micros // 1000


def _coarser_above(micros: int) -> int:
    return -(-micros // 1000)


def _zero_below(value: float) -> float:
    return -0.0 if value == 0 else value


def _zero_above(value: float) -> float:
    return 0.0 if value == 0 else value
