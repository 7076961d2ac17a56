"""Projection of a predicate on rows to one on partitions: which partition values can matching rows have?

The projection is inclusive: every matching row is in a partition of the projection, so that files of other partitions
need not be read. A condition that a transform cannot project becomes "every partition".

Spec: Iceberg spec, Scan Planning, Partition Transforms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import pyarrow as pa

from skerry.errors import SchemaError
from skerry.iceberg.metadata.partition_spec import PartitionField, PartitionSpec
from skerry.iceberg.metadata.schema import Schema, index_by_id
from skerry.iceberg.metadata.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from skerry.iceberg.partitioning.partitions import partition_type
from skerry.iceberg.partitioning.transforms import apply, hour_limits
from skerry.table.predicate import (
    ALWAYS_TRUE,
    And,
    Column,
    Comparison,
    Constant,
    Holds,
    In,
    IntersectsExtent,
    IsMinusZero,
    IsNaN,
    IsNull,
    Operator,
    Or,
    Predicate,
    StartsWith,
    conjunction,
    disjunction,
)
from skerry.table.predicate.arrow import arrow_array
from skerry.table.rows.schema import field_id
from skerry.table.rows.values import physical_value

__all__ = ["project"]

_Test: TypeAlias = Comparison | In | StartsWith | IntersectsExtent | IsNull | IsNaN | IsMinusZero
_Projector: TypeAlias = Callable[[Transform, _Test, Column], Predicate]


def project(predicate: Predicate, schema: Schema, spec: PartitionSpec) -> Predicate:
    """Project a predicate on the partition values of a spec.

    Args:
        predicate: A predicate on columns of the table.
        schema: The table's schema, for the types of the partition values.
        spec: The partition spec.

    Returns:
        A predicate on columns whose field ids are those of the spec's fields; it is true for the partition of every row
        for which `predicate` is true.
    """
    known = index_by_id(schema)
    fields = [field for field in spec.fields if field.source_id in known and type(field.transform) in _PROJECTORS]
    types = partition_type(schema, PartitionSpec(*fields, spec_id=spec.spec_id))
    by_source: dict[int, list[tuple[PartitionField, Column]]] = {}
    for field, result in zip(fields, types, strict=True):
        column = Column(field_id(result), (result.name,), result.type)
        by_source.setdefault(field.source_id, []).append((field, column))
    return _project(predicate, by_source)


def _project(predicate: Predicate, by_source: dict[int, list[tuple[PartitionField, Column]]]) -> Predicate:
    match predicate:
        case Constant():
            return predicate
        case And(children):
            return conjunction([_project(child, by_source) for child in children])
        case Or(children):
            return disjunction([_project(child, by_source) for child in children])
        case Holds():
            return ALWAYS_TRUE
        case _:
            return conjunction(
                _PROJECTORS[type(field.transform)](field.transform, predicate, column)
                for field, column in by_source.get(predicate.column.field_id, ())
            )


def _project_identity(transform: Transform, test: _Test, column: Column) -> Predicate:
    match test:
        case Comparison(_, operator, value):
            return Comparison(column, operator, value)
        case In(_, values, negated):
            return In(column, values, negated)
        case StartsWith(_, prefix, negated):
            return StartsWith(column, prefix, negated)
        case IsNull(_, negated):
            return IsNull(column, negated)
        case IsNaN(_, negated):
            return IsNaN(column, negated)
        case IsMinusZero(_, negated):
            return IsMinusZero(column, negated)
        case IntersectsExtent():
            return ALWAYS_TRUE  # no table is partitioned by shapes


def _project_bucket(transform: Transform, test: _Test, column: Column) -> Predicate:
    match test:
        case Comparison(source, Operator.EQ, value):
            return _among(column, _transformed(transform, source, (value,)))
        case In(source, values, False):
            return _among(column, _transformed(transform, source, values))
        case _:
            return _presence(test, column)


def _project_truncate(transform: Any, test: _Test, column: Column) -> Predicate:
    """Rounding down keeps the order: a value's truncation is at most the value, and equal ones have equal ones."""
    try:
        match test:
            case Comparison(source, Operator.EQ, value):
                return _among(column, _transformed(transform, source, (value,)))
            case In(source, values, False):
                return _among(column, _transformed(transform, source, values))
            case Comparison(source, (Operator.LT | Operator.LE) as operator, value):
                (floor,) = _transformed(transform, source, (value,))
                strict = operator is Operator.LT and floor == value
                below = Comparison(column, Operator.LT if strict else Operator.LE, floor)
                return disjunction([below, *_wrapped_around(transform, source, column)])
            case Comparison(source, Operator.GT | Operator.GE, value):
                (floor,) = _transformed(transform, source, (value,))
                return IsNull(column, negated=True) if floor > value else Comparison(column, Operator.GE, floor)
            case StartsWith(_, prefix, negated):
                return _project_prefix(transform.width, prefix, negated, column)
    except SchemaError:
        pass  # a decimal rounded down to more digits than its type has
    return _presence(test, column)


def _project_prefix(width: int, prefix: str, negated: bool, column: Column) -> Predicate:
    if len(prefix) < width:
        return StartsWith(column, prefix, negated)
    if len(prefix) == width:
        return Comparison(column, Operator.NE if negated else Operator.EQ, prefix)
    return IsNull(column, negated=True) if negated else Comparison(column, Operator.EQ, prefix[:width])


def _wrapped_around(transform: Transform, source: Column, column: Column) -> Iterable[Predicate]:
    """The partition of the smallest integers, if rounding them down overflows and wraps around to the largest."""
    if not pa.types.is_integer(source.type):
        return ()
    least = -(2 ** (source.type.bit_width - 1))
    (floor,) = _transformed(transform, source, (least,))
    return (Comparison(column, Operator.EQ, floor),) if floor > least else ()


def _project_time(transform: Transform, test: _Test, column: Column) -> Predicate:
    """Years, months, days and hours keep the order of times; as those are whole numbers, `< v` ends at v - 1."""

    def among(source: Column, values: Iterable[int]) -> list[int]:
        if isinstance(transform, HourTransform):  # rows beyond have no hour, and so no partition
            low, high = hour_limits(source.type)
            values = [min(max(value, low), high) for value in values]
        return [int(found) for found in _transformed(transform, source, tuple(values))]

    def floor(source: Column, value: int) -> int:
        return among(source, (value,))[0]

    match test:
        case Comparison(source, Operator.EQ, value):
            return _among(column, _both_roundings(transform, source, [floor(source, value)]))
        case In(source, values, False):
            return _among(column, _both_roundings(transform, source, among(source, values)))
        case Comparison(source, (Operator.LT | Operator.LE) as operator, value):
            last = floor(source, _step(source, value, -1) if operator is Operator.LT else value)
            return Comparison(column, Operator.LE, max(_both_roundings(transform, source, [last])))
        case Comparison(source, (Operator.GT | Operator.GE) as operator, value):
            first = floor(source, _step(source, value, 1) if operator is Operator.GT else value)
            return Comparison(column, Operator.GE, first)
        case _:
            return _presence(test, column)


def _step(source: Column, value: int, by: int) -> int:
    """The neighbour of a value of the type, or the value itself at the end of the type."""
    bits = source.type.bit_width
    return max(min(value + by, 2 ** (bits - 1) - 1), -(2 ** (bits - 1)))


def _both_roundings(transform: Transform, source: Column, values: Iterable[int]) -> list[int]:
    """Partitions of times before 1970, each with the next one: old Iceberg Java versions rounded towards zero."""
    if isinstance(transform, DayTransform) and pa.types.is_date(source.type):
        return list(values)
    return sorted({near for value in values for near in ((value, value + 1) if value < 0 else (value,))})


def _transformed(transform: Transform, source: Column, values: tuple[Any, ...]) -> list[Any]:
    """The partition values of column values."""
    array = arrow_array(values, source.type)
    if array.type != source.type:
        array = array.cast(source.type)
    result = apply(transform, array)
    return [physical_value(result.type, scalar) for scalar in result]


def _among(column: Column, values: Iterable[Any]) -> Predicate:
    distinct = tuple(sorted(set(values)))
    return Comparison(column, Operator.EQ, distinct[0]) if len(distinct) == 1 else In(column, distinct)


def _presence(test: _Test, column: Column) -> Predicate:
    """Project null checks, for every transform but void: null maps to null, and all other values to non-null."""
    match test:
        case IsNull(_, negated):
            return IsNull(column, negated)
        case _:
            return IsNull(column, negated=True)


_PROJECTORS: dict[type, _Projector] = {
    IdentityTransform: _project_identity,
    BucketTransform: _project_bucket,
    TruncateTransform: _project_truncate,
    YearTransform: _project_time,
    MonthTransform: _project_time,
    DayTransform: _project_time,
    HourTransform: _project_time,
}
