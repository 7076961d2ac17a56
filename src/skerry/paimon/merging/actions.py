"""Which effect each record has on the row of its key, determined before column values are read.

The engines differ in when a record counts, in when it replaces the whole row, and in how a sequence group decides about
it. All of that depends on kinds and sequence fields alone: it is determined here, record by record, and columns are
merged one by one afterwards.

A key with a single record is not merged, the record is the row, of any kind; except where compaction looks up older
records (`merges_singles`), since there might have been one.

Spec: docs/formats/paimon.md § 10.2, § 10.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from skerry.errors import UnsupportedError
from skerry.kernels import kernel
from skerry.paimon.merging.records import RETRACTS, MergeOrder, Records, RowKind

__all__ = ["Action", "Actions", "aggregation_actions", "group_actions", "partial_update_actions"]

ActionArray: TypeAlias = npt.NDArray[np.int8]


class Action(IntEnum):
    """Effect of a record on one column of its row, which starts with nulls."""

    SKIP = 0
    """No effect."""
    AGG = 1
    """Adds its value."""
    AGG_REVERSED = 2
    """Adds its value as if it were older."""
    RETRACT = 3
    """Retracts its value."""
    SET = 4
    """Sets its value, null or not."""
    SET_NULL = 5
    """Sets null."""
    SET_RETRACT = 6
    """Sets its value, then retracts it."""


_SKIP, _AGG, _SET = np.int8(Action.SKIP), np.int8(Action.AGG), np.int8(Action.SET)


@dataclass(frozen=True, slots=True, eq=False)
class Actions:
    """The effects of records.

    Args:
        columns: int8[n] `Action` of each record, in merge order, on columns outside of sequence groups.
        groups: int8[sequence groups, n] `GroupCode` of each record.
        kinds: int8[g] `RowKind` of each key's row.
        last: int64[g] Index in merge order of the record whose sequence number the row has.
    """

    columns: ActionArray
    groups: npt.NDArray[np.int8]
    kinds: npt.NDArray[np.int8]
    last: npt.NDArray[np.int64]


def aggregation_actions(
    records: Records, order: MergeOrder, *, remove_on_delete: bool, merges_singles: bool = False
) -> Actions:
    """Effects in the engine `aggregation`.

    Args:
        records: The records.
        order: The order in which they are merged.
        remove_on_delete: Whether -D removes the row (`aggregation.remove-record-on-delete`).
        merges_singles: Whether records that are alone in their key are merged, too.
    """
    kinds = records.kinds[order.rows]
    columns = np.where(kinds & RETRACTS, np.int8(Action.RETRACT), _AGG).astype(np.int8)
    last = order.starts[1:] - 1
    result = np.full(order.key_count, RowKind.INSERT, np.int8)
    if remove_on_delete:
        columns[kinds == RowKind.DELETE] = _SET
        result[kinds[last] == RowKind.DELETE] = RowKind.DELETE
    actions = Actions(columns, _NO_GROUPS, result, last)
    return actions if merges_singles else _without_singles(actions, kinds, order)


def partial_update_actions(
    records: Records, order: MergeOrder, *, ignore_delete: bool, remove_on_delete: bool, merges_singles: bool = False
) -> Actions:
    """Effects in the engine `partial-update` without sequence groups.

    Args:
        records: The records.
        order: The order in which they are merged.
        ignore_delete: Whether -U and -D are ignored; the first record of a key sets the row's values all the same.
        remove_on_delete: Whether -D removes the row (`partial-update.remove-record-on-delete`); records after it in the
            same merge starts from its values.
        merges_singles: Whether records that are alone in their key are merged, too.

    Raises:
        UnsupportedError: There is a -U or -D, but neither option is set.
    """
    kinds = records.kinds[order.rows]
    retracts = (kinds & RETRACTS).astype(bool)
    is_merged = np.ones(len(kinds), bool) if merges_singles else _in_multiples(order)
    if not (ignore_delete or remove_on_delete) and (retracts & is_merged).any():
        raise UnsupportedError(
            "merge engine partial-update found a -U or -D: it needs ignore-delete, "
            "partial-update.remove-record-on-delete or sequence groups"
        )
    columns = np.where(retracts, _SKIP, _AGG).astype(np.int8)
    first, last = order.starts[:-1], order.starts[1:] - 1
    columns[first[retracts[first]]] = _SET
    if remove_on_delete and not ignore_delete:
        columns[kinds == RowKind.DELETE] = _SET
    inserted = np.add.reduceat(~retracts, first, dtype=np.int64) > 0 if len(first) else np.zeros(0, bool)
    removed = ~inserted
    if remove_on_delete and not ignore_delete:
        removed |= kinds[last] == RowKind.DELETE
    result = np.where(removed, np.int8(RowKind.DELETE), np.int8(RowKind.INSERT)).astype(np.int8)
    counted = _last_insert(retracts, order) if ignore_delete else last
    actions = Actions(columns, _NO_GROUPS, result, counted)
    return actions if merges_singles else _without_singles(actions, kinds, order)


_NO_GROUPS: Final = np.zeros((0, 0), np.int8)


def _in_multiples(order: MergeOrder) -> npt.NDArray[np.bool_]:
    """bool[n]: whether a record, in merge order, shares its key with others."""
    sizes = np.diff(order.starts)
    return np.repeat(sizes > 1, sizes)


def _last_insert(retracts: npt.NDArray[np.bool_], order: MergeOrder) -> npt.NDArray[np.int64]:
    """The last record of each key that is not a retraction; the last one if all are."""
    places = np.where(retracts, -1, np.arange(len(retracts)))
    last = order.starts[1:] - 1
    found = np.maximum.reduceat(places, order.starts[:-1]) if len(last) else last
    return np.where(found < 0, last, found)


def _without_singles(actions: Actions, kinds: npt.NDArray[np.int8], order: MergeOrder) -> Actions:
    """Let records that are alone in their key be their rows."""
    single = np.diff(order.starts) == 1
    places = order.starts[:-1][single]
    actions.columns[places] = _SET
    actions.kinds[single] = kinds[places]
    actions.last[single] = places
    if len(actions.groups):
        actions.groups[:, places] = GroupCode.INIT
    return actions


# Sequence groups ----------------------------------------------------------------------------------------------------


class GroupCode(IntEnum):
    """Decision of a sequence group about a record; the effect differs by column."""

    NOTHING = 0
    """The record has nulls for the group, or is ignored."""
    NEWER_ADD = 1
    OLDER_ADD = 2
    NEWER_RETRACT = 3
    OLDER_RETRACT = 4
    INIT = 5
    """The record sets all values of the row."""
    INIT_RETRACT = 6
    """The record sets all values of the row, then retracts them."""


_NOTHING, _INIT, _INIT_RETRACT = int(GroupCode.NOTHING), int(GroupCode.INIT), int(GroupCode.INIT_RETRACT)
_NEWER_ADD, _OLDER_ADD = int(GroupCode.NEWER_ADD), int(GroupCode.OLDER_ADD)
_NEWER_RETRACT, _OLDER_RETRACT = int(GroupCode.NEWER_RETRACT), int(GroupCode.OLDER_RETRACT)
_COLUMN_SKIP, _COLUMN_AGG, _COLUMN_SET = int(Action.SKIP), int(Action.AGG), int(Action.SET)
_RETRACTS, _DELETE = RETRACTS, int(RowKind.DELETE)

SEQUENCE_FIELD: Final = np.array(
    [Action.SKIP, Action.SET, Action.SKIP, Action.SET, Action.SKIP, Action.SET, Action.SET], np.int8
)
"""Effect of a code on a sequence field of the group."""
PLAIN_FIELD: Final = np.array(
    [Action.SKIP, Action.SET, Action.SKIP, Action.SET_NULL, Action.SKIP, Action.SET, Action.SET_NULL], np.int8
)
"""Effect of a code on another field of the group without an aggregate function."""
AGGREGATED_FIELD: Final = np.array(
    [
        Action.SKIP,
        Action.AGG,
        Action.AGG_REVERSED,
        Action.RETRACT,
        Action.RETRACT,
        Action.SET,
        Action.SET_RETRACT,
    ],
    np.int8,
)
"""Effect of a code on a field of the group with an aggregate function."""


def group_actions(
    records: Records,
    order: MergeOrder,
    ranks: npt.NDArray[np.uint64],
    empty: npt.NDArray[np.uint8],
    removing: npt.NDArray[np.uint8],
    *,
    ignore_delete: bool,
    merges_singles: bool = False,
) -> Actions:
    """Effects in the engine `partial-update` with sequence groups.

    Args:
        records: The records.
        order: The order in which they are merged.
        ranks: uint64[sequence groups, n] The records' values of the sequence fields of each group as numbers that
            compare as they do.
        empty: uint8[sequence groups, n] Whether all of them are null.
        removing: uint8[sequence groups] Whether -D of the group removes the row
            (`partial-update.remove-record-on-sequence-group`).
        ignore_delete: Whether -U and -D are ignored.
        merges_singles: Whether records that are alone in their key are merged, too.
    """
    kinds = records.kinds[order.rows]
    columns = np.empty(len(records), np.int8)
    codes = np.empty((len(ranks), len(records)), np.int8)
    result = np.empty(order.key_count, np.int8)
    last = np.empty(order.key_count, np.int64)
    _judge(
        order.rows, order.starts, kinds, ranks, empty, removing, int(ignore_delete),
        np.empty(len(ranks), np.int64), columns, codes, result, last,
    )  # fmt: skip
    actions = Actions(columns, codes, result, last)
    return actions if merges_singles else _without_singles(actions, kinds, order)


@kernel
def _fill(codes: Any, current: Any, position: int, code: int, row: int) -> None:
    """Give a record the same code in all groups; later records are compared with it."""
    for group in range(len(current)):
        codes[group, position] = code
        current[group] = row


@kernel
def _removes(ranks: Any, empty: Any, removing: Any, current: Any, row: int) -> bool:
    """Whether a -D removes the row."""
    for group in range(len(current)):
        is_newer = current[group] < 0 or ranks[group, row] >= ranks[group, current[group]]
        if is_newer and removing[group] and not empty[group, row]:
            return True
    return False


@kernel(
    "void(int64[::1], int64[::1], int8[::1], uint64[:, ::1], uint8[:, ::1], uint8[::1], int64,"
    " out int64[::1], out int8[::1], out int8[:, ::1], out int8[::1], out int64[::1])"
)
def _judge(  # noqa: PLR0913  a kernel
    rows: Any, starts: Any, kinds: Any, ranks: Any, empty: Any, removing: Any, ignore_delete: int,
    current: Any, columns: Any, codes: Any, result: Any, last: Any,
) -> None:  # fmt: skip
    """Process the records of each key; `current` is the record whose sequence fields the row has."""
    for key in range(len(starts) - 1):
        filled = inserted = removed = False
        last[key] = starts[key + 1] - 1
        for group in range(len(current)):
            current[group] = -1
        for position in range(starts[key], starts[key + 1]):
            row = rows[position]
            retracts = (kinds[position] & _RETRACTS) != 0
            begins = retracts and not filled
            filled = True
            removed = False
            columns[position] = _COLUMN_SET if begins else _COLUMN_SKIP if retracts else _COLUMN_AGG
            if begins:
                _fill(codes, current, position, _INIT, row)
            if retracts and ignore_delete:
                if not begins:
                    for group in range(len(current)):
                        codes[group, position] = _NOTHING
                continue
            last[key] = position
            if retracts and kinds[position] == _DELETE and _removes(ranks, empty, removing, current, row):
                _fill(codes, current, position, _INIT, row)
                columns[position] = _COLUMN_SET
                removed = True
                continue
            inserted = inserted or not retracts
            for group in range(len(current)):
                if empty[group, row]:
                    codes[group, position] = _INIT if begins else _NOTHING
                elif current[group] < 0 or ranks[group, row] >= ranks[group, current[group]]:
                    codes[group, position] = _INIT_RETRACT if begins else _NEWER_RETRACT if retracts else _NEWER_ADD
                    current[group] = row
                else:
                    codes[group, position] = _OLDER_RETRACT if retracts else _OLDER_ADD
        result[key] = _DELETE if removed or not inserted else 0
