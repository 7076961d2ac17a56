"""Row sets: the rows of a file that an index leaves, which are none, some, or all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from skerry.bitmaps import position_sets

__all__ = ["ALL_ROWS", "NO_ROWS", "RowSet", "complement", "intersection", "union"]

RowSet: TypeAlias = npt.NDArray[np.int64] | None
"""int64[n] Positions, ascending and distinct; None for every row, or if nothing is known."""

ALL_ROWS: RowSet = None
NO_ROWS = np.zeros(0, np.int64)


def intersection(sets: Iterable[RowSet]) -> RowSet:
    """Rows that are in every set."""
    result: RowSet = ALL_ROWS
    for rows in sets:
        if result is None:
            result = rows
        elif rows is not None:
            result = position_sets.intersection(result, rows)
    return result


def union(sets: Iterable[RowSet]) -> RowSet:
    """Rows that are in any set."""
    parts: list[npt.NDArray[np.int64]] = []
    for rows in sets:
        if rows is None:
            return ALL_ROWS
        parts.append(rows)
    return position_sets.union(parts)


def complement(rows: npt.NDArray[np.int64], row_count: int) -> npt.NDArray[np.int64]:
    """Rows of a file that are not in a set."""
    others = np.ones(row_count, bool)
    others[rows] = False
    return np.flatnonzero(others).astype(np.int64, copy=False)
