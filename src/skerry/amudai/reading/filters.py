"""Filters: which stripes, and which blocks of rows, can hold matching rows.

Filters are those of `skerry.filters`. What statistics and range indexes cannot refute is read, and the filter's
expression decides on rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.amudai.shard.schema import BasicType, DataType
from skerry.amudai.statistics.bloom import BloomFilter
from skerry.amudai.statistics.descriptors import BooleanCounts, FieldStatistics, NumberCounts
from skerry.amudai.statistics.range_index import RangeIndex
from skerry.amudai.values.datetimes import decode_ticks, is_tick_type
from skerry.amudai.values.decimals import decode_decimal
from skerry.amudai.values.shredding import shred_column
from skerry.errors import SchemaError, SkerryError
from skerry.filters import Alternatives, Comparison, as_expression, parse_comparisons

__all__ = ["ColumnRanges", "Filter", "may_match", "parse_filters", "ranges_of_blocks", "ranges_of_stripe"]

_Flags = npt.NDArray[np.bool_]
_MAX_VALUES: Final = 256  # of a set that is looked at one by one
_TOGETHER: Final = 64


@dataclass(frozen=True, slots=True)
class Filter:
    """Which rows are wanted.

    Args:
        expression: Decides on rows.
        schema: The top-level columns it looks at.
        alternatives: The same as an *or* of *and* of comparisons; None if the filter was given as an expression.
    """

    expression: pc.Expression
    schema: pa.Schema
    alternatives: Alternatives | None = None


def parse_filters(filters: Any, schema: pa.Schema) -> Filter:
    """Bind filters to columns.

    Args:
        filters: A PyArrow expression, or lists of `(column, operator, value)`: see `skerry.filters`.
        schema: The existing columns.

    Raises:
        SchemaError: They have another shape, an unknown operator, or name a column that does not exist.
    """
    if isinstance(filters, pc.Expression):
        return Filter(filters, _columns_of(filters, schema))
    if isinstance(filters, str):
        raise SchemaError(
            f"filters of a shard are a PyArrow expression or tuples of column, operator and value, found the text "
            f"{filters!r}; only tables take SQL"
        )
    alternatives = parse_comparisons(filters)
    names = dict.fromkeys(comparison.column for group in alternatives for comparison in group)
    for name in names:
        if schema.get_field_index(name) < 0:
            raise SchemaError(f"a filter names the column {name!r}, which does not exist")
    tested = pa.schema([schema.field(name) for name in names])
    return Filter(as_expression(alternatives, schema), tested, alternatives)


def _columns_of(expression: pc.Expression, schema: pa.Schema) -> pa.Schema:
    """The columns without which an expression cannot be bound."""
    empty = pa.Table.from_batches([], schema)
    try:
        empty.filter(expression)
    except (pa.ArrowException, KeyError) as error:
        raise SchemaError(f"the filter {expression} does not fit the columns: {error}") from error
    found = []
    for name in schema.names:
        try:
            empty.drop_columns(name).filter(expression)
        except (pa.ArrowException, KeyError):
            found.append(schema.field(name))
    return pa.schema(found)


# What is known of values --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ColumnRanges:
    """What is known of a column in some groups of rows: one stripe, or the blocks of one.

    Args:
        lows: Values[n], in the types of `skerry.amudai.statistics.descriptors.ValueRange`: no value is less.
        highs: Values[n]: no value is greater.
        has_values: bool[n], whether there are values that are neither null nor NaN.
        may_be_null: bool[n], whether there may be nulls.
        may_be_nan: bool[n], whether there may be NaN.
        is_exact: Whether bounds are values themselves.
        bloom_filter: Of a single group.
    """

    lows: npt.NDArray[Any]
    highs: npt.NDArray[Any]
    has_values: _Flags
    may_be_null: _Flags
    may_be_nan: _Flags
    is_exact: bool = True
    bloom_filter: BloomFilter | None = None


def ranges_of_stripe(node: DataType, statistics: FieldStatistics) -> ColumnRanges | None:
    """What the statistics of a stripe say about a column; None: nothing that a filter can use.

    Args:
        node: The column's type.
        statistics: Those of the column in the stripe.
    """
    if node.basic_type.is_composite:
        return None
    nulls, count, details = statistics.null_count, statistics.position_count, statistics.details
    nans = details.nan_count if isinstance(details, NumberCounts) else 0
    may_be_nan = nans > 0 if isinstance(details, NumberCounts) else node.basic_type.is_floating or node.is_decimal
    has_values = nulls is None or nulls + nans < count
    low = high = None
    is_exact = True
    if statistics.is_constant:
        low = high = statistics.constant
        has_values = low is not None and low == low
    elif isinstance(details, BooleanCounts) and node.basic_type is BasicType.BOOLEAN:
        low, high = details.false_count == 0, details.true_count > 0
        has_values = details.false_count + details.true_count > 0
    elif statistics.range is not None:
        low, high = statistics.range.low, statistics.range.high
        is_exact = statistics.range.has_low and statistics.range.has_high
    # what other writers hash of a number is not laid down
    bloom_filter = statistics.bloom_filter if node.basic_type.is_bytes and not node.is_decimal else None
    if has_values and (low is None or high is None):
        if bloom_filter is None:
            return None
        is_exact = False
    return ColumnRanges(
        _objects(_ANYTHING if low is None else low),
        _objects(_ANYTHING if high is None else high),
        np.array([has_values]),
        np.array([nulls is None or nulls > 0]),
        np.array([may_be_nan]),
        is_exact,
        bloom_filter,
    )


class _Anything:
    """A bound that is not known: equal to every value, less and greater at once."""

    def __eq__(self, other: object) -> bool:
        return True

    def __lt__(self, other: object) -> bool:
        return True

    __le__ = __gt__ = __ge__ = __lt__

    def __hash__(self) -> int:
        return 0


_ANYTHING: Final = _Anything()


def _objects(value: Any) -> npt.NDArray[Any]:
    array = np.empty(1, object)
    array[0] = value
    return array


def ranges_of_blocks(node: DataType, index: RangeIndex) -> ColumnRanges:
    """What a range index says about a column.

    Args:
        node: The column's type.
        index: Its index in one stripe.
    """
    lows, highs = index.lows, index.highs
    if node.is_decimal:
        lows, highs = _decimals(lows), _decimals(highs)
    elif node.basic_type is BasicType.FLOAT32:  # NumPy would round what they are compared with
        lows, highs = lows.astype(np.float64), highs.astype(np.float64)
    invalid = index.invalid_counts > 0
    may_be_nan = invalid if node.basic_type.is_floating or node.is_decimal else np.zeros(len(invalid), bool)
    return ColumnRanges(lows, highs, index.has_values, invalid, may_be_nan)


def _decimals(encoded: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    array = np.empty(len(encoded), object)
    array[:] = [decode_decimal(number.tobytes()) for number in encoded]
    return array


# Deciding -----------------------------------------------------------------------------------------------------------


def may_match(
    wanted: Filter,
    columns: Mapping[str, tuple[DataType, pa.DataType, ColumnRanges]],
    count: int,
) -> _Flags:
    """Which groups of rows may hold rows that match a filter.

    Args:
        wanted: The filter.
        columns: By name, type in the shard, type in Arrow, and what is known; columns of which nothing is are missing.
        count: Number of groups.

    Returns:
        bool[count]; false is certain.
    """
    if wanted.alternatives is None:
        return _may_match_expression(wanted, columns, count)
    matching = np.zeros(count, bool)
    for group in wanted.alternatives:
        part = np.ones(count, bool)
        for comparison in group:
            if comparison.column in columns:
                part &= _may_hold(comparison, *columns[comparison.column])
        matching |= part
    return matching


def _may_hold(comparison: Comparison, node: DataType, kind: pa.DataType, ranges: ColumnRanges) -> _Flags:
    values = _stored_values(node, kind, list(comparison.value) if comparison.has_several else [comparison.value])
    if values is None:
        return np.ones(len(ranges.lows), bool)
    if comparison.operator == "in":
        return _any(_may_equal(node, ranges, *bounds) for bounds in values) if values else ranges.may_be_null & False
    if comparison.operator == "not in":
        only = _any(_is_only(ranges, *bounds) for bounds in values) if values else ranges.may_be_null & False
        return ~(only & ~ranges.may_be_null & ~ranges.may_be_nan)
    (bounds,) = values
    return _SINGLE[comparison.operator](node, ranges, *bounds)


def _any(flags: Iterable[_Flags]) -> _Flags:
    return np.logical_or.reduce(list(flags))


def _may_equal(node: DataType, ranges: ColumnRanges, low: Any, high: Any) -> _Flags:
    flags = (
        ranges.has_values
        & _flags(ranges.lows <= _operand(ranges, high))
        & _flags(ranges.highs >= _operand(ranges, low))
    )
    if ranges.bloom_filter is not None and low == high and flags.any():  # bounds of several values are in no filter
        data = low.encode() if isinstance(low, str) else bytes(low)
        flags = flags & ranges.bloom_filter.may_contain([data])
    return flags


def _is_only(ranges: ColumnRanges, low: Any, high: Any) -> _Flags:
    """Whether all values are this one."""
    if not ranges.is_exact or low != high:
        return np.zeros(len(ranges.lows), bool)
    return (
        ranges.has_values & _flags(ranges.lows == _operand(ranges, low)) & _flags(ranges.highs == _operand(ranges, low))
    )


def _operand(ranges: ColumnRanges, value: Any) -> Any:
    """A value to hold against bounds. Beside objects it is one, or NumPy would strip NULs off the end of text."""
    return _objects(value) if ranges.lows.dtype == object else value


def _flags(compared: Any) -> _Flags:
    return np.asarray(compared, bool)


# Each takes the bounds of the wanted value; they differ when its rounding to the column's type is not certain.
_SINGLE: Final[dict[str, Callable[[DataType, ColumnRanges, Any, Any], _Flags]]] = {
    "=": _may_equal,
    "==": _may_equal,
    "!=": lambda _node, ranges, low, high: ranges.has_values & ~_is_only(ranges, low, high) | ranges.may_be_nan,
    "<": lambda _node, ranges, _low, high: ranges.has_values & _flags(ranges.lows < _operand(ranges, high)),
    "<=": lambda _node, ranges, _low, high: ranges.has_values & _flags(ranges.lows <= _operand(ranges, high)),
    ">": lambda _node, ranges, low, _high: ranges.has_values & _flags(ranges.highs > _operand(ranges, low)),
    ">=": lambda _node, ranges, low, _high: ranges.has_values & _flags(ranges.highs >= _operand(ranges, low)),
}


def _stored_values(node: DataType, kind: pa.DataType, values: list[Any]) -> list[tuple[Any, Any]] | None:
    """Bounds of each value in the types of `ColumnRanges`; None if one has no place there, so that nothing is known."""
    values = [value.as_py() if isinstance(value, pa.Scalar) else value for value in values]
    try:
        array = pa.array(values, kind)
        if array.null_count or (array.to_pylist() != values and not node.basic_type.is_floating):
            return None  # PyArrow cuts what does not fit, a time from a date, say
        (column,) = shred_column(node, array)
    except (pa.ArrowException, SkerryError, TypeError, ValueError, OverflowError):
        return None
    if node.basic_type.is_floating:
        exact = [float(value) for value in values]
        if any(value != value for value in exact):
            return None
        rounded = [float(value) for value in column.values]
        return _hull([(min(pair), max(pair)) for pair in zip(exact, rounded, strict=True)])
    if node.basic_type is BasicType.STRING:
        stored: list[Any] = column.values.cast(pa.string()).to_pylist()
    elif node.is_decimal:
        stored = [decode_decimal(value) for value in column.values.to_pylist()]
    elif isinstance(column.values, np.ndarray):
        stored = column.values.tolist()
    else:
        stored = column.values.to_pylist()
    return _hull([(value, value) for value in stored])


def _hull(bounds: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """The same bounds, or one for all of too many."""
    if len(bounds) <= _MAX_VALUES:
        return bounds
    return [(min(low for low, _ in bounds), max(high for _, high in bounds))]


# Expressions --------------------------------------------------------------------------------------------------------


def _may_match_expression(
    wanted: Filter, columns: Mapping[str, tuple[DataType, pa.DataType, ColumnRanges]], count: int
) -> _Flags:
    """Let PyArrow simplify the expression by what is known: first of groups of groups, then of those that remain."""
    places = np.arange(count)
    if count > 2 * _TOGETHER:
        starts = places[::_TOGETHER]
        merged = {name: (node, kind, _merged(ranges, starts)) for name, (node, kind, ranges) in columns.items()}
        places = places[np.repeat(_simplify(wanted, merged, np.arange(len(starts))), _TOGETHER)[:count]]
    flags = np.zeros(count, bool)
    flags[places[_simplify(wanted, columns, places)]] = True
    return flags


def _merged(ranges: ColumnRanges, starts: npt.NDArray[np.int64]) -> ColumnRanges:
    lows, highs, having = ranges.lows, ranges.highs, ranges.has_values
    if having.any() and not having.all():
        lows = np.where(having, lows, lows[having].max())
        highs = np.where(having, highs, highs[having].min())
    return ColumnRanges(
        np.minimum.reduceat(lows, starts),
        np.maximum.reduceat(highs, starts),
        np.logical_or.reduceat(having, starts),
        np.logical_or.reduceat(ranges.may_be_null, starts),
        np.logical_or.reduceat(ranges.may_be_nan, starts),
    )


def _simplify(
    wanted: Filter,
    columns: Mapping[str, tuple[DataType, pa.DataType, ColumnRanges]],
    places: npt.NDArray[np.int64],
) -> _Flags:
    """Which of some groups may match: those for which the expression is not false under their guarantee."""
    import pyarrow.dataset as ds  # imports pandas where it is installed
    from pyarrow.fs import LocalFileSystem

    file_format, filesystem = ds.ParquetFileFormat(), LocalFileSystem()
    fragments = []
    for number, place in enumerate(places.tolist()):
        guarantee = pc.scalar(True)
        for name, (node, kind, ranges) in columns.items():
            guarantee &= _guarantee(pc.field(name), node, kind, ranges, place)
        fragments.append(file_format.make_fragment(str(number), filesystem, partition_expression=guarantee))
    dataset = ds.FileSystemDataset(fragments, wanted.schema, file_format, filesystem)
    flags = np.zeros(len(places), bool)
    flags[[int(fragment.path) for fragment in dataset.get_fragments(wanted.expression)]] = True
    return flags


def _guarantee(
    field: pc.Expression, node: DataType, kind: pa.DataType, ranges: ColumnRanges, place: int
) -> pc.Expression:
    """What holds for all values of a column in one group, as an expression."""
    if ranges.may_be_nan[place]:
        return pc.scalar(True)
    if not ranges.has_values[place]:
        return field.is_null()
    low, high = (_arrow_bound(node, kind, bounds[place]) for bounds in (ranges.lows, ranges.highs))
    if low is None or high is None:
        return pc.scalar(True)
    within = (field >= low) & (field <= high)
    return within | field.is_null() if ranges.may_be_null[place] else within


def _arrow_bound(node: DataType, kind: pa.DataType, bound: Any) -> pa.Scalar | None:
    """A bound as a value of the column's Arrow type; None if it has no place there."""
    if bound is _ANYTHING:
        return None
    try:
        if is_tick_type(kind):
            ticks = np.array([int(bound)], np.int64 if node.signed else np.uint64)
            return pa.array(decode_ticks(ticks, kind)).view(kind)[0]
        return pa.scalar(bound.item() if isinstance(bound, np.generic) else bound, kind)
    except (pa.ArrowException, SkerryError, TypeError, ValueError):
        return None
