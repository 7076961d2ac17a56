"""Conditions on groups: which share of them HAVING leaves.

The rows of a group are taken for a random choice of all rows, and their number to vary as such a choice does (a Poisson
distribution): then the mean and the variance of sums follow from those of the values, of which there are samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["GroupCondition", "share_of_groups"]


@dataclass(frozen=True, slots=True)
class GroupCondition:
    """A condition on an aggregate of each group, such as `sum(quantity) > 300`.

    Args:
        function: `avg`, `count` or `sum`.
        column: The input and its column that is aggregated; None for all rows.
        is_above: Whether the aggregate must be above the value, or below.
        value: The value.
    """

    function: str
    column: tuple[str, str] | None
    is_above: bool
    value: float


def share_of_groups(condition: GroupCondition, values: pa.Array | None, group_rows: float) -> float | None:
    """Estimate the share of groups that satisfy a condition.

    Args:
        condition: The condition.
        values: Sampled values of its column, if there are any.
        group_rows: Rows of a group, on average.

    Returns:
        The share, 0 … 1; None if nothing is known of the values.
    """
    if condition.function == "count":
        mean, variance = group_rows, group_rows
    else:
        numbers = _numbers(values)
        if not len(numbers):
            return None
        first, second = float(numbers.mean()), float((numbers**2).mean())
        if condition.function == "sum":
            mean, variance = group_rows * first, group_rows * second
        else:
            mean, variance = first, max(0.0, second - first * first) / max(group_rows, 1.0)
    distance = condition.value - mean if condition.is_above else mean - condition.value
    if variance <= 0:
        return float(distance < 0)
    return 0.5 * math.erfc(distance / math.sqrt(2 * variance))


def _numbers(values: pa.Array | None) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    if values is None or not _is_number(values.type):
        return np.empty(0)
    found = np.asarray(pc.cast(values.drop_null(), pa.float64(), safe=False))
    return found[np.isfinite(found)]


def _is_number(type_: pa.DataType) -> bool:
    return pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
