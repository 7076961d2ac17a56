"""Sets of rows as ascending, distinct positions: what NumPy's functions do, without hashing or sorting again."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

__all__ = ["difference", "intersection", "union"]

Rows = npt.NDArray[np.int64]


def union(parts: Iterable[Rows]) -> Rows:
    """The rows of any part.

    Args:
        parts: int64[n] each; their rows need not be in order.

    Returns:
        int64[m], ascending and distinct.
    """
    found = [*parts]
    rows = found[0] if len(found) == 1 else np.concatenate([np.empty(0, np.int64), *found])
    if (rows[1:] > rows[:-1]).all():  # one part, or parts of rows that follow each other
        return rows
    rows = np.sort(rows)
    return rows[np.append(True, rows[1:] != rows[:-1])]


def intersection(first: Rows, second: Rows) -> Rows:
    """The rows of both; all are ascending and distinct."""
    few, many = (first, second) if len(first) <= len(second) else (second, first)
    return few[_is_in(few, many)]


def difference(rows: Rows, others: Rows) -> Rows:
    """The rows that are not among others; all are ascending and distinct."""
    return rows[~_is_in(rows, others)]


def _is_in(rows: Rows, others: Rows) -> npt.NDArray[np.bool_]:
    if not len(others):
        return np.zeros(len(rows), bool)
    places = np.minimum(np.searchsorted(others, rows), len(others) - 1)
    return np.asarray(others[places] == rows)
