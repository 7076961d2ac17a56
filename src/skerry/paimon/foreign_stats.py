"""Statistics of data files that another table format wrote, as manifests hold them: many files at a time.

Spec: `formats/paimon.md` § 5, SimpleStats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from skerry.paimon.arrow_types import arrow_type
from skerry.paimon.binary_row import encode_rows
from skerry.paimon.schema import TableSchema
from skerry.paimon.simple_stats import SimpleStats
from skerry.paimon.types import AtomicType, DataField, TypeRoot

__all__ = ["ColumnFacts", "FileFacts", "encode_facts"]


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """What is known of a column in a file.

    Args:
        lower: A value that none is below, as the table's type holds it physically; None if unknown.
        upper: A value that none is above, likewise.
        null_count: Its nulls; None if unknown.
    """

    lower: Any = None
    upper: Any = None
    null_count: int | None = None


FileFacts = Mapping[int, ColumnFacts]
"""What is known of a file's columns, by field id."""

_UNBOUNDED: Final = (TypeRoot.BINARY, TypeRoot.VARBINARY)


def encode_facts(
    now: TableSchema, files: Sequence[tuple[TableSchema, FileFacts]]
) -> list[tuple[SimpleStats, tuple[str, ...]]]:
    """Encode what is known of files.

    Of bytes only nulls are told, and of columns with types in them nothing, as Paimon does.

    Args:
        now: The table's schema, in whose types the bounds are.
        files: Each file's own schema, and what is known of its columns.

    Returns:
        For every file its statistics, and the columns that they are of, named as in its own schema.
    """
    alike: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for place, (schema, facts) in enumerate(files):
        alike.setdefault((schema.id, _known(schema, facts)), []).append(place)
    types = {column.id: column.type for column in now.fields}
    result: list[tuple[SimpleStats, tuple[str, ...]]] = [(SimpleStats(), ())] * len(files)
    for (_, ids), places in alike.items():
        schema = files[places[0]][0]
        by_id = {column.id: column for column in schema.fields}
        columns = [by_id[number] for number in ids]
        facts_of = {number: [files[place][1][number] for place in places] for number in ids}
        lower = [_bounds(types[column.id], column, [fact.lower for fact in facts_of[column.id]]) for column in columns]
        upper = [
            _bounds(types[column.id], column, [fact.upper for fact in facts_of[column.id]], is_upper=True)
            for column in columns
        ]
        kinds = [column.type for column in columns]
        names = tuple(column.name for column in columns)
        if not ids:
            continue
        rows = zip(encode_rows(kinds, lower).to_list(), encode_rows(kinds, upper).to_list(), strict=True)
        for number, (place, (low, high)) in enumerate(zip(places, rows, strict=True)):
            nulls = tuple(facts_of[column][number].null_count for column in ids)
            result[place] = (SimpleStats(low, high, nulls), names)
    return result


def _known(schema: TableSchema, facts: FileFacts) -> tuple[int, ...]:
    """The columns of a file that something is told of."""
    return tuple(
        column.id
        for column in schema.fields
        if column.id in facts and facts[column.id] != ColumnFacts() and isinstance(column.type, AtomicType)
    )


def _bounds(now: Any, column: DataField, values: Sequence[Any], *, is_upper: bool = False) -> pa.Array:
    """Bounds in the type that the file has, null where it cannot say them."""
    then = column.type
    type_ = arrow_type(then)
    assert isinstance(then, AtomicType)
    assert isinstance(now, AtomicType)
    if then.root in _UNBOUNDED or (then.root is TypeRoot.DATE and now.root is not TypeRoot.DATE):
        return pa.nulls(len(values), type_)
    convert: Callable[[Any], Any] | None = None
    if now.precision != then.precision and pa.types.is_timestamp(type_):
        convert = _coarser_above if is_upper else _coarser_below
    elif pa.types.is_floating(type_):  # the sign of zero is ordered by Java
        convert = _zero_above if is_upper else _zero_below
    found = [None if value is None else convert(value) if convert else value for value in values]
    try:
        return pa.array(found, type_)
    except (pa.ArrowException, OverflowError, ValueError):
        return pa.concat_arrays([_one(value, type_) for value in found])


def _one(value: Any, type_: pa.DataType) -> pa.Array:
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
