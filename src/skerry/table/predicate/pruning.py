"""Evaluation of predicates on metrics, for many files at once.

A *file* here is anything described by bounds and counts: a data file, a row group, a partition, a manifest with its
partition summaries. Two questions are answered for all of them together: may a row match, and must every row match?
Anything unknown (no bound, no count) counts for "may" and against "must", so a verdict is never wrong, only vague.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.table.predicate.arrow import arrow_array
from skerry.table.predicate.literals import Family, family_of
from skerry.table.predicate.nodes import (
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
)
from skerry.wkb import Boxes, GlobeBoxes, WkbType

__all__ = ["FieldMetrics", "Verdict", "evaluate"]

_Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class FieldMetrics:
    """One column's metrics over n files.

    Args:
        lower: array[n] of the column's type: no value in the file is less; null if unknown. For shapes fixed-size lists
            of two doubles: no point has a smaller x or y.
        upper: array[n] like `lower`: no value in the file is greater; null if unknown. Neither bound takes NaN into
            account.
        null_counts: int64[n], -1 where unknown.
        nan_counts: int64[n], -1 where unknown.
        value_counts: int64[n] with nulls and NaNs, -1 where unknown.
    """

    lower: pa.Array
    upper: pa.Array
    null_counts: npt.NDArray[np.int64]
    nan_counts: npt.NDArray[np.int64]
    value_counts: npt.NDArray[np.int64]

    def take(self, rows: npt.NDArray[np.int64]) -> FieldMetrics:
        """The metrics of some of the files."""
        return FieldMetrics(
            self.lower.take(pa.array(rows)),
            self.upper.take(pa.array(rows)),
            self.null_counts[rows],
            self.nan_counts[rows],
            self.value_counts[rows],
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of evaluating a predicate on n files.

    Args:
        may: bool[n], False where no row can match: the file need not be read.
        must: bool[n], True where every row matches: its rows need not be tested.
    """

    may: _Mask
    must: _Mask


def evaluate(predicate: Predicate, metrics: Callable[[Column], FieldMetrics | None], count: int) -> Verdict:
    """Evaluate a predicate on files by their metrics.

    Args:
        predicate: The predicate.
        metrics: Returns the metrics of a column over all files, called once per column; None if nothing is known.
        count: Number of files.

    Returns:
        The verdict on the files. For a file without rows either answer is possible.
    """
    return _Evaluation(metrics, count).verdict(predicate)


@dataclass(frozen=True, slots=True)
class _Known:
    """A column's prepared metrics: comparable bounds, misleading ones removed, and what the counts imply."""

    lower: pa.Array
    upper: pa.Array
    may_be_null: _Mask
    may_be_nan: _Mask
    may_be_ordinary: _Mask  # neither null nor NaN

    @property
    def may_be_present(self) -> _Mask:
        return self.may_be_ordinary | self.may_be_nan

    @property
    def is_point(self) -> _Mask:
        return _sure(pc.equal(self.lower, self.upper))


class _Evaluation:
    """Walks a predicate; each column's metrics are prepared once."""

    def __init__(self, metrics: Callable[[Column], FieldMetrics | None], count: int) -> None:
        self._metrics = metrics
        self._count = count
        self._cache: dict[Column, _Known | None] = {}

    def verdict(self, predicate: Predicate) -> Verdict:
        match predicate:
            case Constant(value):
                return Verdict(np.full(self._count, value), np.full(self._count, value))
            case And(children):
                return self._join(children, np.logical_and)
            case Or(children):
                return self._join(children, np.logical_or)
            case Holds():
                return Verdict(np.full(self._count, True), np.full(self._count, False))
        known = self._known(predicate.column)
        if known is None:
            return Verdict(np.full(self._count, True), np.full(self._count, False))
        match predicate:
            case IsNull(_, negated):
                if negated:
                    return Verdict(known.may_be_present, ~known.may_be_null)
                return Verdict(known.may_be_null, ~known.may_be_present)
            case IsNaN(_, negated):
                if negated:
                    return Verdict(known.may_be_ordinary, ~known.may_be_null & ~known.may_be_nan)
                return Verdict(known.may_be_nan, ~known.may_be_null & ~known.may_be_ordinary)
            case IntersectsExtent():
                return _intersects(known, predicate)
            case IsMinusZero(column, negated):
                zero = _compare(known, Operator.EQ, _comparable((0.0,), column.type)[0])
                return Verdict(known.may_be_present if negated else zero.may, np.full(self._count, False))
            case Comparison(column, operator, value):
                return _compare(known, operator, _comparable((value,), column.type)[0])
            case In(column, values, negated):
                return _membership(known, _comparable(values, column.type), negated)
            case StartsWith(_, prefix, negated):
                return _starts_with(known, prefix.encode(), negated)

    def _join(self, children: tuple[Predicate, ...], join: np.ufunc) -> Verdict:
        verdicts = [self.verdict(child) for child in children]
        return Verdict(
            join.reduce([verdict.may for verdict in verdicts]), join.reduce([verdict.must for verdict in verdicts])
        )

    def _known(self, column: Column) -> _Known | None:
        if column not in self._cache:
            metrics = self._metrics(column)
            self._cache[column] = None if metrics is None else _prepare(metrics, column.type)
        return self._cache[column]


# ---- metrics made ready ----


def _prepare(metrics: FieldMetrics, type_: pa.DataType) -> _Known:
    family = family_of(type_)
    lower, upper = metrics.lower, metrics.upper
    if isinstance(type_, WkbType) or pa.types.is_null(type_):
        misleading = np.full(len(lower), False)  # see `_intersects`; nothing but null has no order
    else:
        lower, upper = _comparable(lower, type_), _comparable(upper, type_)
        misleading = _sure(pc.greater(lower, upper))
    if family is Family.FLOAT:  # some writers put NaN into bounds
        misleading |= _sure(pc.is_nan(lower)) | _sure(pc.is_nan(upper))
    if family is Family.UUID:
        misleading |= _sure(pc.or_(lower.is_null(), upper.is_null()))
        lower, upper = _widen_uuids(lower, upper)
    nothing = pa.nulls(len(lower), lower.type)
    nulls, nans, values = metrics.null_counts, metrics.nan_counts, metrics.value_counts
    if family is not Family.FLOAT:
        nans = np.zeros_like(nulls)
    counted = (nulls >= 0) & (values >= 0)
    present = ~(counted & (nulls >= values))
    return _Known(
        lower=pc.if_else(misleading, nothing, lower),
        upper=pc.if_else(misleading, nothing, upper),
        may_be_null=nulls != 0,
        may_be_nan=present & (nans != 0),
        may_be_ordinary=present & ~(counted & (nans >= 0) & (nulls + nans >= values)),
    )


def _comparable(values: pa.Array | tuple[Any, ...], type_: pa.DataType) -> pa.Array:
    """Values in a form that PyArrow can order: strings, UUIDs and fixed-length values by their bytes."""
    array = arrow_array(values, type_) if isinstance(values, tuple) else values
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if family_of(type_) in (Family.STRING, Family.BINARY, Family.UUID):
        return array.cast(pa.binary()).cast(pa.large_binary())
    return array


def _widen_uuids(lower: pa.Array, upper: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Bounds that are valid in whichever way the writer ordered UUIDs.

    Java's `UUID.compareTo`, which Iceberg's writers have used, compares both halves as signed. If `lower <= upper` also
    without signs, the upper halves have the same order both ways, and only the lower halves may not. A single bound
    is of no use.
    """
    high_lower, high_upper = (pc.binary_slice(bound, 0, 8) for bound in (lower, upper))
    ones = pa.scalar(b"\xff" * 8, pa.large_binary())
    return high_lower, pc.binary_join_element_wise(high_upper, ones, pa.scalar(b"", pa.large_binary()))


def _sure(truth: pa.Array) -> _Mask:
    """The result of a comparison, False where a bound is unknown."""
    return pc.fill_null(truth, False).to_numpy(zero_copy_only=False)


def _possible(truth: pa.Array) -> _Mask:
    """The result of a comparison, True where a bound is unknown."""
    return pc.fill_null(truth, True).to_numpy(zero_copy_only=False)


# ---- tests ----


def _compare(known: _Known, operator: Operator, value: pa.Scalar) -> Verdict:
    lower, upper = known.lower, known.upper
    full, plain = ~known.may_be_null, ~known.may_be_null & ~known.may_be_nan
    match operator:
        case Operator.EQ:
            inside = _possible(pc.less_equal(lower, value)) & _possible(pc.greater_equal(upper, value))
            same = _sure(pc.equal(lower, value)) & known.is_point
            return Verdict(known.may_be_ordinary & inside, plain & same)
        case Operator.NE:
            outside = _sure(pc.greater(lower, value)) | _sure(pc.less(upper, value))
            same = _sure(pc.equal(lower, value)) & known.is_point
            return Verdict((known.may_be_ordinary & ~same) | known.may_be_nan, full & outside)
        case Operator.LT:
            return Verdict(
                known.may_be_ordinary & _possible(pc.less(lower, value)), plain & _sure(pc.less(upper, value))
            )
        case Operator.LE:
            below = known.may_be_ordinary & _possible(pc.less_equal(lower, value))
            return Verdict(below, plain & _sure(pc.less_equal(upper, value)))
        case Operator.GT:
            above = known.may_be_ordinary & _possible(pc.greater(upper, value))
            return Verdict(above | known.may_be_nan, full & _sure(pc.greater(lower, value)))
        case Operator.GE:
            above = known.may_be_ordinary & _possible(pc.greater_equal(upper, value))
            return Verdict(above | known.may_be_nan, full & _sure(pc.greater_equal(lower, value)))


def _intersects(known: _Known, predicate: IntersectsExtent) -> Verdict:
    """A file without known bounds may contain any shape; bounds in the wrong order, and NaN, tell nothing.

    On a globe, longitudes are in the wrong order where the box crosses the antimeridian.
    """
    edges = np.stack([*_coordinates(known.lower), *_coordinates(known.upper)])
    x_min, y_min, x_max, y_max = edges
    if predicate.globe is None:
        is_known = (x_min <= x_max) & (y_min <= y_max)
        meets = Boxes(edges).meet(predicate.box)
    else:
        is_known = (np.abs(edges[::2]) <= 180).all(axis=0) & (y_min >= -90) & (y_min <= y_max) & (y_max <= 90)
        meets = GlobeBoxes(edges).meet(predicate.box)
    if predicate.negated:
        return Verdict(known.may_be_ordinary, ~known.may_be_null & is_known & ~meets)
    # an empty shape does not meet anything, so that no bounds prove a match
    return Verdict(known.may_be_ordinary & (~is_known | meets), np.full(len(meets), False))


def _coordinates(points: pa.FixedSizeListArray) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """X and y of points, NaN where there is none."""
    values = [pc.fill_null(pc.list_element(points, place), math.nan) for place in (0, 1)]
    x, y = (value.to_numpy(zero_copy_only=False) for value in values)
    return x, y


def _membership(known: _Known, values: pa.Array, negated: bool) -> Verdict:
    first = _first_not_below(values, known.lower)
    candidate = values.take(pa.array(np.minimum(first, len(values) - 1)))
    exists = first < len(values)
    hit = exists & _possible(pc.less_equal(candidate, known.upper))
    same = exists & _sure(pc.equal(candidate, known.lower)) & known.is_point
    full = ~known.may_be_null
    if not negated:
        return Verdict(known.may_be_ordinary & hit, full & ~known.may_be_nan & same)
    bounded = known.lower.is_valid().to_numpy(zero_copy_only=False)
    return Verdict((known.may_be_ordinary & ~same) | known.may_be_nan, full & bounded & ~hit)


def _first_not_below(values: pa.Array, lower: pa.Array) -> npt.NDArray[np.int64]:
    """Per lower bound the index of the first value that is at least the bound (0 where it is unknown), by bisection."""
    low = np.zeros(len(lower), np.int64)
    high = np.full(len(lower), len(values), np.int64)
    while (low < high).any():
        middle = (low + high) // 2
        below = _sure(pc.less(values.take(pa.array(np.minimum(middle, len(values) - 1))), lower)) & (low < high)
        low = np.where(below, middle + 1, low)
        high = np.where(below, high, np.minimum(middle, high))
    return low


def _starts_with(known: _Known, prefix: bytes, negated: bool) -> Verdict:
    """Strings with the prefix fill the interval from it to its successor; UTF-8 has no byte 255 to carry over."""
    first = pa.scalar(prefix, pa.large_binary())
    after = pa.scalar(prefix[:-1] + bytes([prefix[-1] + 1]), pa.large_binary())
    full = ~known.may_be_null
    every = _sure(pc.greater_equal(known.lower, first)) & _sure(pc.less(known.upper, after))
    some = _possible(pc.greater_equal(known.upper, first)) & _possible(pc.less(known.lower, after))
    if negated:
        return Verdict(known.may_be_ordinary & ~every, full & ~some)
    return Verdict(known.may_be_ordinary & some, full & every)
