"""Merge engines: how the records of a key are merged into one, for reading, compaction and write buffers.

Spec: docs/formats/paimon.md § 10.2; Paimon documentation, Merge Engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.errors import FormatError, SchemaError, UnsupportedError
from skerry.kernels import kernel
from skerry.paimon.merging.actions import (
    AGGREGATED_FIELD,
    PLAIN_FIELD,
    SEQUENCE_FIELD,
    Actions,
    aggregation_actions,
    group_actions,
    partial_update_actions,
)
from skerry.paimon.merging.functions import AggregateFunction, ColumnFunction, column_function
from skerry.paimon.merging.order_keys import OrderKeys, encode_order_keys
from skerry.paimon.merging.records import RETRACTS, MergeOrder, Records, RowKind
from skerry.paimon.merging.sequence_groups import SequenceGroup, group_of, sequence_groups
from skerry.paimon.metadata.options import CoreOptions, MergeEngine
from skerry.paimon.metadata.schema import TableSchema

__all__ = ["MergeFunction", "check_kinds"]

_DEFAULT_FUNCTION: Final = "fields.default-aggregate-function"


@dataclass(frozen=True)
class MergeFunction:
    """Merges the records of a key as a table's options say; picklable.

    Args:
        schema: The table's columns, primary key and options.
    """

    schema: TableSchema

    @cached_property
    def options(self) -> CoreOptions:
        """The table's options."""
        return CoreOptions(self.schema.options)

    @cached_property
    def engine(self) -> MergeEngine:
        """The merge engine."""
        return self.options.merge_engine

    @property
    def has_whole_rows(self) -> bool:
        """Whether a record of level 1 or more is the complete row of its key at its level and above."""
        return self.options.compacts_by_lookup and self.engine is not MergeEngine.FIRST_ROW

    @cached_property
    def groups(self) -> tuple[SequenceGroup, ...]:
        """The sequence groups; empty except with `partial-update`."""
        return sequence_groups(self.schema, self.options) if self.engine is MergeEngine.PARTIAL_UPDATE else ()

    def check(self) -> None:
        """Check all options that affect merging.

        Raises:
            SchemaError: They contradict each other, or the columns.
            UnsupportedError: They ask for something that is not supported.
        """
        if self.engine is MergeEngine.PARTIAL_UPDATE:
            self._check_partial_update()
        if self.engine in (MergeEngine.PARTIAL_UPDATE, MergeEngine.AGGREGATION):
            for column in self.schema.arrow_schema:
                self._function(column)
        for name in self.options.sequence_fields:
            self.schema.field(name)

    def _check_partial_update(self) -> None:
        on_delete, on_group = self._removes("partial-update"), any(group.removes for group in self.groups)
        together = [
            name
            for name, is_set in (
                ("ignore-delete", self.options.ignore_delete),
                ("partial-update.remove-record-on-delete", on_delete),
                ("partial-update.remove-record-on-sequence-group", on_group),
            )
            if is_set
        ]
        if len(together) > 1:
            raise SchemaError(f"table options {' and '.join(together)} contradict each other")
        if on_delete and self.groups:
            raise SchemaError(
                "table option partial-update.remove-record-on-delete cannot be combined with sequence groups"
            )

    def columns_for(self, names: Iterable[str]) -> tuple[str, ...]:
        """The columns that must be read in order to merge some columns.

        Args:
            names: The requested columns.

        Returns:
            Those, the sequence fields, and the fields of their sequence groups and of those that remove rows; in the
            order of the table.
        """
        wanted = {*names, *self.options.sequence_fields}
        for number, group in enumerate(self.groups):
            if group.removes or any(group_of(self.groups, name) == number for name in tuple(wanted)):
                wanted.update(group.fields)
        return tuple(column.name for column in self.schema.fields if column.name in wanted)

    def sequence_keys(self, values: pa.RecordBatch) -> OrderKeys | None:
        """The keys that order records of one key before their sequence number: the values of `sequence.field`.

        Args:
            values: Columns of the table, the sequence fields among them.
        """
        names = self.options.sequence_fields
        if not names:
            return None
        columns = [values.column(name) for name in names]
        nullable = [column.null_count > 0 for column in columns]
        return encode_order_keys(columns, nullable, descending=self.options.sequence_descending)

    def merge(self, records: Records, order: MergeOrder) -> Records:
        """Merge the records of each key into one.

        Args:
            records: The records; their values are columns of the table, with what `columns_for` names.
            order: The order in which they are merged.

        Returns:
            A record per key, in the order of the keys, those of kind -U and -D included. With `ignore-delete` a key
            that has no other records is left out.

        Raises:
            FormatError: A kind is invalid, or a value is not what a function needs.
            UnsupportedError: There are records that the engine or a function cannot merge.
        """
        check_kinds(records.kinds)
        if order.key_count == len(records):
            return records.take(order.rows)
        if self.engine in _CHOOSERS:
            found = self._chosen(records, order)
            return records.take(found[found >= 0])
        return self._combined(records, order)

    def merge_by_key(
        self, records: Records, order: MergeOrder, *, merges_singles: bool
    ) -> tuple[Records, npt.NDArray[np.int64]]:
        """Merge the records of each key into one, and say which.

        Args:
            records: As of `merge`.
            order: The order in which they are merged.
            merges_singles: Whether a record that is alone in its key is merged, too, rather than being the row as it
                is: so where compaction has looked for an older one.

        Returns:
            The records as `merge` gives them; and int64[keys]: the index of each key's record, -1 for none.

        Raises:
            SkerryError: As `merge`.
        """
        check_kinds(records.kinds)
        places = np.arange(order.key_count)
        if self.engine in _CHOOSERS:
            found = self._chosen(records, order)
            exists = found >= 0
            return records.take(found[exists]), np.where(exists, np.cumsum(exists) - 1, -1)
        if not merges_singles:
            return self.merge(records, order), places
        return self._combined(records, order, merges_singles=True), places

    def _chosen(self, records: Records, order: MergeOrder) -> npt.NDArray[np.int64]:
        """int64[keys] The record that is the row of each key; -1 for none."""
        return _CHOOSERS[self.engine](records, order, self.options.ignore_delete)

    def _combined(self, records: Records, order: MergeOrder, *, merges_singles: bool = False) -> Records:
        actions = self._actions(records, order, merges_singles)
        columns = [
            self._merged(field, column, order, actions)
            for field, column in zip(records.values.schema, records.values.columns, strict=True)
        ]
        values = pa.RecordBatch.from_arrays(columns, schema=records.values.schema)
        return Records(values, actions.kinds, records.numbers[order.rows[actions.last]])

    # ---- partial-update and aggregation ----

    def _removes(self, engine: str) -> bool:
        return self.options.options.get(f"{engine}.remove-record-on-delete", "false").strip().lower() == "true"

    def _actions(self, records: Records, order: MergeOrder, merges_singles: bool) -> Actions:
        if self.engine is MergeEngine.AGGREGATION:
            removes = self._removes("aggregation")
            return aggregation_actions(records, order, remove_on_delete=removes, merges_singles=merges_singles)
        ignore_delete = self.options.ignore_delete
        if not self.groups:
            removes = self._removes("partial-update")
            return partial_update_actions(
                records, order, ignore_delete=ignore_delete, remove_on_delete=removes, merges_singles=merges_singles
            )
        present = [group for group in self.groups if group.fields[0] in records.values.schema.names]
        ranks, empty = _judged_fields(records.values, present)
        removing = np.array([group.removes for group in present], np.uint8)
        actions = group_actions(
            records, order, ranks, empty, removing, ignore_delete=ignore_delete, merges_singles=merges_singles
        )
        # one row of codes per group of the table, so that a column finds its own
        lines = {id(group): line for group, line in zip(present, actions.groups, strict=True)}
        nothing = np.zeros(len(records), np.int8)
        codes = np.stack([lines.get(id(group), nothing) for group in self.groups])
        return Actions(actions.columns, codes, actions.kinds, actions.last)

    def _merged(self, field: pa.Field, column: pa.Array, order: MergeOrder, actions: Actions) -> pa.Array:
        number = group_of(self.groups, field.name)
        function = self._function(field)
        if number is None:
            return function.merge(column, order, actions.columns)
        if field.name in self.groups[number].fields:
            meaning = SEQUENCE_FIELD
        else:
            meaning = PLAIN_FIELD if self._configured(field.name) is None else AGGREGATED_FIELD
        return function.merge(column, order, meaning[actions.groups[number]])

    def _configured(self, column: str) -> str | None:
        """The aggregate function that the options configure for a column."""
        return self.options.field(column, "aggregate-function") or self.options.options.get(_DEFAULT_FUNCTION)

    def _function(self, field: pa.Field) -> ColumnFunction:
        found = self._functions.get(field.name)
        if found is None:
            found = self._functions[field.name] = column_function(field, self._function_name(field.name), self.options)
        return found

    @cached_property
    def _functions(self) -> dict[str, ColumnFunction]:
        return {}

    def _function_name(self, column: str) -> str:
        if self.engine is MergeEngine.AGGREGATION and column in self.options.sequence_fields:
            return AggregateFunction.LAST_VALUE.value
        if column in self.schema.primary_keys:
            return AggregateFunction.PRIMARY_KEY.value
        usual = AggregateFunction.LAST_NON_NULL_VALUE.value
        configured = self._configured(column)
        if self.engine is MergeEngine.AGGREGATION or configured in (None, usual):
            return configured or usual
        number = group_of(self.groups, column)
        if number is None:
            raise SchemaError(
                f"aggregate function {configured} of column {column!r} needs a sequence group with merge engine "
                "partial-update"
            )
        return usual if column in self.groups[number].fields else str(configured)

    def __getstate__(self) -> dict[str, Any]:
        return {"schema": self.schema}


def check_kinds(kinds: npt.NDArray[np.int8]) -> None:
    """Refuse invalid kinds of records.

    Raises:
        FormatError: A kind is invalid.
    """
    if len(kinds) and not 0 <= int(kinds.min()) <= int(kinds.max()) <= max(RowKind):
        wrong = kinds[(kinds < 0) | (kinds > max(RowKind))][0]
        raise FormatError(
            f"a record is of kind {wrong}, expected 0 to {int(max(RowKind))}", rule="docs/formats/paimon.md § 8.5"
        )


def _judged_fields(
    values: pa.RecordBatch, groups: Sequence[SequenceGroup]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8]]:
    """Sequence fields of groups as comparable numbers, and where all of a group's are null."""
    ranks = np.empty((len(groups), values.num_rows), np.uint64)
    empty = np.empty((len(groups), values.num_rows), np.uint8)
    for line, group in enumerate(groups):
        columns = [values.column(name) for name in group.fields]
        ranks[line] = encode_order_keys(columns, [True] * len(columns)).ranks()
        empty[line] = np.logical_and.reduce([np.asarray(column.is_null()) for column in columns])
    return ranks, empty


# deduplicate and first-row ------------------------------------------------------------------------------------------

_RETRACTS: Final = RETRACTS


def _last(records: Records, order: MergeOrder, ignore_delete: bool) -> npt.NDArray[np.int64]:
    """The last record of each key; -1 if all of several are ignored."""
    if not ignore_delete:
        return order.rows[order.starts[1:] - 1]
    return _found(_find_last, records, order)


def _first(records: Records, order: MergeOrder, ignore_delete: bool) -> npt.NDArray[np.int64]:
    """The first record of each key; -1 if all of several are ignored.

    Raises:
        UnsupportedError: Several records of a key include a -U or -D, and these are not to be ignored.
    """
    sizes = np.diff(order.starts)
    retracts = (records.kinds[order.rows] & RETRACTS).astype(bool)
    if not ignore_delete and (retracts & np.repeat(sizes > 1, sizes)).any():
        raise UnsupportedError("merge engine first-row found a -U or -D: it needs ignore-delete")
    return _found(_find_first, records, order)


def _found(find: Callable[..., None], records: Records, order: MergeOrder) -> npt.NDArray[np.int64]:
    found = np.empty(order.key_count, np.int64)
    find(order.rows, order.starts, records.kinds, found)
    return found


_CHOOSERS: Final = {MergeEngine.DEDUPLICATE: _last, MergeEngine.FIRST_ROW: _first}
"""How engines choose one of the records of each key as its row."""


@kernel("void(int64[::1], int64[::1], int8[::1], out int64[::1])")
def _find_last(rows: Any, starts: Any, kinds: Any, found: Any) -> None:
    """The last record of each key that is not a retraction, or -1; if a key has one record, that one."""
    for key in range(len(starts) - 1):
        first, place = starts[key], starts[key + 1] - 1
        while place > first and (kinds[rows[place]] & _RETRACTS) != 0:
            place -= 1
        is_gone = (kinds[rows[place]] & _RETRACTS) != 0 and starts[key + 1] - first > 1
        found[key] = -1 if is_gone else rows[place]


@kernel("void(int64[::1], int64[::1], int8[::1], out int64[::1])")
def _find_first(rows: Any, starts: Any, kinds: Any, found: Any) -> None:
    """The first record of each key that is not a retraction, or -1; if a key has one record, that one."""
    for key in range(len(starts) - 1):
        place, last = starts[key], starts[key + 1] - 1
        while place < last and (kinds[rows[place]] & _RETRACTS) != 0:
            place += 1
        is_gone = (kinds[rows[place]] & _RETRACTS) != 0 and last > starts[key]
        found[key] = -1 if is_gone else rows[place]
