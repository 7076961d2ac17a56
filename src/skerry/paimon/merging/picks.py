"""Aggregate functions that select one of the values: which record it comes from.

Spec: docs/formats/paimon.md § 10.4.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from skerry.kernels import kernel
from skerry.paimon.merging.actions import Action, ActionArray
from skerry.paimon.merging.records import MergeOrder

__all__ = ["Pick", "pick_records"]


class Pick(IntEnum):
    """How the value is selected."""

    LAST = 0
    """The last one, null or not; null if retracted."""
    LAST_NON_NULL = 1
    """The last one that is not null; null if one that is not null is retracted."""
    FIRST = 2
    """The first one, null or not."""
    FIRST_NON_NULL = 3
    """The first one that is not null."""
    GREATEST = 4
    """The greatest one that is not null."""
    LEAST = 5
    """The least one that is not null."""
    KEY = 6
    """The last one, even if retracted: key columns do not change."""


_AGG, _AGG_REVERSED, _RETRACT = Action.AGG.value, Action.AGG_REVERSED.value, Action.RETRACT.value
_SET, _SET_NULL, _SET_RETRACT = Action.SET.value, Action.SET_NULL.value, Action.SET_RETRACT.value
_LAST, _LAST_NON_NULL, _KEY = Pick.LAST.value, Pick.LAST_NON_NULL.value, Pick.KEY.value
_FIRST, _FIRST_NON_NULL, _GREATEST = Pick.FIRST.value, Pick.FIRST_NON_NULL.value, Pick.GREATEST.value
_NO_RANKS = np.zeros(0, np.uint64)


def pick_records(
    pick: Pick,
    order: MergeOrder,
    actions: ActionArray,
    valid: npt.NDArray[np.bool_],
    ranks: npt.NDArray[np.uint64] | None = None,
) -> npt.NDArray[np.int64]:
    """Select a value for each key.

    Args:
        pick: How it is selected.
        order: The order in which records are merged.
        actions: int8[n] `Action` of each record, in merge order, on the column.
        valid: bool[n] Whether a record's value is not null.
        ranks: uint64[n] Ranks that compare as the values do; used by the greatest and the least one.

    Returns:
        int64[g] The record that each key's value comes from; -1 for null.
    """
    picks = np.empty(order.key_count, np.int64)
    compared = _NO_RANKS if ranks is None else np.ascontiguousarray(ranks)
    _pick(int(pick), order.rows, order.starts, actions, np.ascontiguousarray(valid).view(np.uint8), compared, picks)
    return picks


@kernel
def _chosen(pick: int, held: int, row: int, begun: bool, valid: Any, ranks: Any) -> int:
    """The selected row after adding a value, -1 for none. The caller marks the first ones as begun."""
    is_valid = row >= 0 and valid[row] != 0
    if pick == _LAST or pick == _KEY:  # noqa: SIM109 - kernels have no tuples
        return row
    if pick == _FIRST:
        return held if begun else row
    if pick == _FIRST_NON_NULL:
        return row if is_valid and not begun else held
    if pick == _LAST_NON_NULL:
        return row if is_valid else held
    if held < 0 or valid[held] == 0:
        return row
    if not is_valid:
        return held
    if pick == _GREATEST:
        return row if ranks[held] < ranks[row] else held
    return row if ranks[held] > ranks[row] else held


@kernel
def _retracted(pick: int, held: int, row: int, valid: Any) -> int:
    """The selected row after retracting a value; other functions refuse or ignore retractions beforehand."""
    if pick == _KEY:
        return row
    if pick == _LAST:
        return -1
    return -1 if valid[row] != 0 else held


@kernel("void(int64, int64[::1], int64[::1], int8[::1], uint8[::1], uint64[::1], out int64[::1])")
def _pick(pick: int, rows: Any, starts: Any, actions: Any, valid: Any, ranks: Any, picks: Any) -> None:
    for key in range(len(starts) - 1):
        held = np.int64(-1)
        begun: Any = False
        for place in range(starts[key], starts[key + 1]):
            row, action = rows[place], actions[place]
            if action == _AGG:
                held = _chosen(pick, held, row, begun, valid, ranks)
                begun = begun or pick == _FIRST or valid[row] != 0
            elif action == _AGG_REVERSED:
                added = held
                held = _chosen(pick, row, added, begun, valid, ranks)
                begun = begun or pick == _FIRST or (added >= 0 and valid[added] != 0)
            elif action == _SET:
                held = row
            elif action == _SET_NULL:
                held = np.int64(-1)
            elif action == _RETRACT:
                held = _retracted(pick, held, row, valid)
            elif action == _SET_RETRACT:
                held = _retracted(pick, row, row, valid)
        picks[key] = held
