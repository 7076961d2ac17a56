"""Predicates for planning on the rows that can have one of many keys: a condition on each key column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.table.predicate import (
    Column,
    Comparison,
    In,
    IsNaN,
    Operator,
    Predicate,
    conjunction,
    disjunction,
)
from skerry.table.rows.schema import field_id
from skerry.table.rows.values import physical_value

__all__ = ["key_predicate"]

MAX_VALUES = 1000
"""The most values of a column that are listed; more become ranges."""
MAX_RANGES = 64


def key_predicate(
    fields: Iterable[pa.Field], columns: Sequence[pa.Array], *, max_ranges: int = MAX_RANGES
) -> Predicate:
    """A condition that holds for every row whose key is among some keys, and for few others.

    Args:
        fields: The table's fields of the key columns.
        columns: The keys, column by column, of the fields' types; a null is not part of any key.
        max_ranges: The most ranges for the values of a column; 1 for rows, many for files.
    """
    return conjunction(
        _among(Column(field_id(field), (field.name,), field.type), values, max_ranges)
        for field, values in zip(fields, columns, strict=True)
    )


def _among(column: Column, values: pa.Array, max_ranges: int) -> Predicate:
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    distinct = pc.unique(values.drop_null())
    tests: list[Predicate] = []
    if pa.types.is_floating(distinct.type):
        is_nan = pc.is_nan(distinct)
        if pc.any(is_nan).as_py():
            tests.append(IsNaN(column))
            distinct = distinct.filter(pc.invert(is_nan))
    if len(distinct) == 0:
        return disjunction(tests)
    if pa.types.is_boolean(distinct.type):
        tests += [Comparison(column, Operator.EQ, value) for value in distinct.to_pylist()]
    elif len(distinct) <= MAX_VALUES:
        known = sorted({_physical(column, value) for value in distinct})
        tests.append(In(column, tuple(known)) if len(known) > 1 else Comparison(column, Operator.EQ, known[0]))
    else:
        tests += [
            conjunction(
                [
                    Comparison(column, Operator.GE, _physical(column, low)),
                    Comparison(column, Operator.LE, _physical(column, high)),
                ]
            )
            for low, high in _ranges(distinct, max_ranges)
        ]
    return disjunction(tests)


def _ranges(distinct: pa.Array, max_ranges: int) -> list[tuple[pa.Scalar, pa.Scalar]]:
    """Ranges that contain all values, leaving out the widest gaps if the type has a distance."""
    type_ = distinct.type
    if max_ranges > 1 and (pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_temporal(type_)):
        ordered = distinct.take(pc.sort_indices(distinct))
        numbers = ordered.view(f"int{type_.bit_width}") if pa.types.is_temporal(type_) else ordered
        gaps = np.diff(numbers.to_numpy().astype(np.float64))
        cuts = np.sort(np.argpartition(gaps, -(max_ranges - 1))[-(max_ranges - 1) :])
        first, last = np.append(0, cuts + 1), np.append(cuts, len(ordered) - 1)
        return [(ordered[low], ordered[high]) for low, high in zip(first.tolist(), last.tolist(), strict=True)]
    extremes = pc.min_max(distinct)
    return [(extremes["min"], extremes["max"])]


def _physical(column: Column, value: pa.Scalar) -> Any:
    return physical_value(column.type, value)
