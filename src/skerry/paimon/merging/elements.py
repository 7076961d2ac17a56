"""Aggregate functions over lists and maps: which elements of the records' values the result has.

Element values are never inspected: elements are numbered so that equal ones have equal numbers, selected by number, and
copied as whole columns. Every type of element works, at any depth.

Spec: docs/formats/paimon.md § 10.4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import FormatError
from skerry.paimon.merging.actions import ActionArray
from skerry.paimon.merging.folding import FoldFunction, fold
from skerry.paimon.merging.order_keys import encode_order_keys
from skerry.paimon.merging.records import MergeOrder
from skerry.table.rows.row_matching import number_rows

__all__ = [
    "Collected",
    "MergedMaps",
    "NestedKeys",
    "NestedRows",
    "fold_elements",
    "fold_nested_rows",
]

Elements: TypeAlias = list[int] | None
"""Elements by their index among all elements of the column; None for null."""

_Function: TypeAlias = FoldFunction[list[int]]


def fold_elements(
    make: Callable[[pa.Array], _Function], values: pa.Array, order: MergeOrder, actions: ActionArray
) -> pa.Array:
    """Merge the lists, or maps, of each key into one.

    Args:
        make: Creates the function from all elements; those of a map are structs of key and value.
        values: Lists or maps.
        order: The order in which records are merged.
        actions: int8[n] `Action` of each record, in merge order, on the column.

    Returns:
        One value of the same type for each key.
    """
    lists, elements = _open(values)
    function = make(elements)
    results = _folded(function, lists, order, actions)
    return _close(values.type, results, elements.take(pa.array(_flat(results), pa.int64())))


def _open(values: pa.Array) -> tuple[list[Elements], pa.Array]:
    """The values as indices of elements, and the elements."""
    if pa.types.is_map(values.type):
        entry = pa.struct([values.type.key_field, values.type.item_field])
        values = values.cast(pa.list_(entry))
    lengths = pc.list_value_length(values).to_pylist()
    lists: list[Elements] = []
    start = 0
    for length in lengths:
        lists.append(None if length is None else list(range(start, start + length)))
        start += length or 0
    return lists, values.flatten()


def _folded(function: _Function, lists: Sequence[Elements], order: MergeOrder, actions: ActionArray) -> list[Elements]:
    return fold(function, [lists[row] for row in order.rows.tolist()], order, actions)


def _flat(results: Sequence[Elements]) -> list[int]:
    return [element for result in results for element in result or ()]


def _close(type_: pa.DataType, results: Sequence[Elements], elements: pa.Array) -> pa.Array:
    """Build lists or maps from elements."""
    lengths = np.array([len(result or ()) for result in results], np.int64)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    mask = pa.array([result is None for result in results], pa.bool_())
    if pa.types.is_map(type_):
        return pa.MapArray.from_arrays(offsets, elements.field(0), elements.field(1), type=type_, mask=mask)
    return pa.ListArray.from_arrays(offsets, elements, type=type_, mask=mask)


def _numbers(elements: pa.Array) -> list[int]:
    """Number elements so that equal ones have equal numbers."""
    return number_rows(pa.table({"element": elements})).tolist()


class Collected(_Function):
    """Concatenates elements (`collect`).

    Args:
        elements: All elements.
        distinct: Whether duplicates are dropped.
    """

    def __init__(self, elements: pa.Array, *, distinct: bool) -> None:
        self._numbers = _numbers(elements)
        self._distinct = distinct

    def add(self, held: Elements, value: Elements) -> Elements:
        """See `FoldFunction`."""
        if not self._distinct:
            if held is None or value is None:
                return value if held is None else held
            return held + value
        if held is None and value is None:
            return None
        by_number: dict[int, int] = {}
        for element in (*(held or ()), *(value or ())):
            by_number.setdefault(self._numbers[element], element)
        return list(by_number.values())

    def add_reversed(self, held: Elements, value: Elements) -> Elements:
        """See `FoldFunction`; the order of elements is irrelevant."""
        return self.add(held, value)

    def take_back(self, held: Elements, value: Elements) -> Elements:
        """Remove one equal element for each retracted one."""
        if held is None or not value:
            return held
        gone = [self._numbers[element] for element in value]
        kept = []
        for element in held:
            number = self._numbers[element]
            if number in gone:
                gone.remove(number)
            else:
                kept.append(element)
        return kept


class MergedMaps(_Function):
    """Merges entries by key, keeping the last (`merge_map`) or the latest one (`merge_map_with_keytime`).

    Args:
        entries: All entries, structs of key and value.
        time_field: The text field of the values that holds an entry's time; None keeps the last ones.
    """

    def __init__(self, entries: pa.Array, time_field: str | None = None) -> None:
        self._keys = _numbers(entries.field(0))
        self._times: list[bytes | None] | None = None
        self._missing: list[bool] = []
        if time_field is not None:
            values = entries.field(1)
            self._missing = values.is_null().to_pylist()
            times = pc.struct_field(values, [time_field]).to_pylist()
            # Java compares strings by their UTF-16 units
            self._times = [None if time is None else time.encode("utf-16-be") for time in times]

    def add(self, held: Elements, value: Elements) -> Elements:
        """See `FoldFunction`."""
        if held is None or value is None:
            return value if held is None else held
        merged = {self._keys[entry]: entry for entry in held}
        for entry in value:
            self._put(merged, entry)
        return list(merged.values())

    def _put(self, merged: dict[int, int], entry: int) -> None:
        key = self._keys[entry]
        if self._times is None:
            merged[key] = entry
        elif self._missing[entry]:
            merged.pop(key, None)
        elif (time := self._times[entry]) is not None:
            known = self._times[merged[key]] if key in merged and not self._missing[merged[key]] else None
            if known is None or time > known:
                merged[key] = entry

    def take_back(self, held: Elements, value: Elements) -> Elements:
        """Remove the entries of the retracted keys."""
        if held is None or not value:
            return held
        gone = {self._keys[entry] for entry in value}
        return [entry for entry in held if self._keys[entry] not in gone]


# Lists of rows ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NestedKeys:
    """How rows in a list are identified, and how those of one key are ordered.

    Args:
        key: Fields of the rows (`nested-key`); if empty, every row is distinct.
        sequence: Fields that say which row of a key is newer (`nested-sequence-field`).
        count_limit: Maximum number of rows.
        null_strategy: How rows with a null in their key are treated: `merge`, `ignore` or `error`.
    """

    key: tuple[str, ...] = ()
    sequence: tuple[str, ...] = ()
    count_limit: int = 2**31 - 1
    null_strategy: str = "merge"


class NestedRows(_Function):
    """Merges rows by their key, or keeps all of them (`nested_update`).

    Args:
        rows: All rows, structs.
        keys: How they are identified.
    """

    def __init__(self, rows: pa.Array, keys: NestedKeys) -> None:
        self._missing = rows.is_null().to_pylist()
        self._limit = keys.count_limit
        self._keyed = bool(keys.key)
        members = [pc.struct_field(rows, [name]) for name in keys.key]
        self._numbers = number_rows(pa.table(members, [*keys.key])).tolist() if members else _numbers(rows)
        self._ignored = _ignored_rows(members, self._missing, keys.null_strategy)
        self._ranks: list[int] | None = None
        if keys.sequence:
            columns = [pc.struct_field(rows, [name]) for name in keys.sequence]
            self._ranks = encode_order_keys(columns, [True] * len(columns)).ranks().tolist()

    def add(self, held: Elements, value: Elements) -> Elements:
        """See `FoldFunction`."""
        if held is None or value is None:
            return value if held is None else held
        if len(held) >= self._limit:
            return held
        room = self._limit - len(held)
        rows = [row for row in held if not self._missing[row]]
        rows += [row for row in value if not self._missing[row]][:room]
        if not self._keyed:
            return rows
        merged: dict[int, int] = {}
        for row in rows:
            self._put(merged, row)
        return list(merged.values())

    def _put(self, merged: dict[int, int], row: int) -> None:
        number = self._numbers[row]
        is_newer = number not in merged or self._ranks is None or self._ranks[row] >= self._ranks[merged[number]]
        if is_newer and not self._ignored[row]:
            merged[number] = row

    def take_back(self, held: Elements, value: Elements) -> Elements:
        """Remove the rows that equal the retracted ones, or have their key."""
        if held is None or value is None:
            return held
        gone = {self._numbers[row] for row in value if not self._missing[row] and not self._ignored[row]}
        merged: dict[int, int] = {}
        for row in held:
            if not self._missing[row] and not self._ignored[row] and self._numbers[row] not in gone:
                merged[self._numbers[row] if self._keyed else row] = row
        return list(merged.values())


def _ignored_rows(key: Sequence[pa.Array], missing: list[bool], null_strategy: str) -> list[bool]:
    """Which rows are ignored for a null in their key.

    Raises:
        FormatError: There is one, and the strategy is `error`.
    """
    has_null = [False] * len(missing)
    for member in key:
        nulls = member.is_null().to_pylist()
        has_null = [known or (null and not gone) for known, null, gone in zip(has_null, nulls, missing, strict=True)]
    if null_strategy == "error" and any(has_null):
        raise FormatError("a row in a list has a null in its key", rule="docs/formats/paimon.md § 10.4")
    return has_null if null_strategy == "ignore" else [False] * len(missing)


def fold_nested_rows(values: pa.Array, keys: NestedKeys, order: MergeOrder, actions: ActionArray) -> pa.Array:
    """Merge rows in lists field by field: the last non-null values of each key (`nested_partial_update`).

    Args:
        values: Lists of structs.
        keys: How the rows in them are identified.
        order: The order in which records are merged.
        actions: int8[n] `Action` of each record, in merge order, on the column; none is a retraction.

    Returns:
        One list for each key.
    """
    lists, rows = _open(values)
    function = _PatchedRows(rows, keys)
    results = _folded(function, lists, order, actions)
    wanted = _flat(results)
    fields = [
        member.take(pa.array([function.sources(row)[index] for row in wanted], pa.int64()))
        for index, member in enumerate(rows.flatten())
    ]
    nulls = pa.array([function.is_missing(row) for row in wanted], pa.bool_())
    return _close(values.type, results, pa.StructArray.from_arrays(fields, fields=list(rows.type), mask=nulls))


class _PatchedRows(_Function):
    """Rows merged from others: those of the column keep their indices, new ones are appended.

    Args:
        rows: All rows of the column.
        keys: How they are identified.
    """

    def __init__(self, rows: pa.Array, keys: NestedKeys) -> None:
        self._missing = rows.is_null().to_pylist()
        members = [pc.struct_field(rows, [name]) for name in keys.key]
        self._numbers = number_rows(pa.table(members, [*keys.key])).tolist()
        self._ignored = _ignored_rows(members, self._missing, keys.null_strategy)
        self._valid = [member.is_valid().to_pylist() for member in rows.flatten()]
        self._made: list[tuple[int, list[int | None]]] = []

    def is_missing(self, row: int) -> bool:
        """Whether a row is null."""
        return row < len(self._missing) and self._missing[row]

    def sources(self, row: int) -> list[int | None]:
        """For each field the row of the column that its value is taken from; None for null."""
        if row >= len(self._missing):
            return self._made[row - len(self._missing)][1]
        return [row if valid[row] else None for valid in self._valid]

    def _number(self, row: int) -> int:
        return self._made[row - len(self._missing)][0] if row >= len(self._missing) else self._numbers[row]

    def add(self, held: Elements, value: Elements) -> Elements:
        """See `FoldFunction`."""
        if held is None or value is None:
            return value if held is None else held
        merged: dict[int, list[int | None]] = {}
        for row in (*held, *value):
            if self.is_missing(row) or (row < len(self._missing) and self._ignored[row]):
                continue
            known = merged.setdefault(self._number(row), [None] * len(self._valid))
            for index, source in enumerate(self.sources(row)):
                known[index] = known[index] if source is None else source
        first = len(self._missing) + len(self._made)
        self._made += merged.items()
        return list(range(first, first + len(merged)))

    def take_back(self, held: Elements, value: Elements) -> Elements:
        """Never called: retractions are refused beforehand."""
        raise AssertionError("nested_partial_update does not support retractions")
