"""Changes of rows: removed and added rows become inserts, deletes and the two images of an update.

The columns that describe them have the names and values of the changelog views of Iceberg's Spark connector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.table.rows.row_matching import match_rows, number_rows
from skerry.table.rows.schema import FIELD_ID_KEY

__all__ = [
    "CHANGE_COLUMNS",
    "ChangeType",
    "ChangedRows",
    "compare_rows",
    "describe_changes",
    "drop_carried_over",
    "tell_inserts",
    "with_ordinal",
]


class ChangeType(Enum):
    """What happened to a row."""

    INSERT = "INSERT"
    DELETE = "DELETE"
    UPDATE_BEFORE = "UPDATE_BEFORE"
    """The row as it was before an update."""
    UPDATE_AFTER = "UPDATE_AFTER"
    """The row as it is after an update."""


_TYPES = tuple(ChangeType)
_NAMES = tuple(type_.value for type_ in _TYPES)
_BEFORE, _AFTER = _TYPES.index(ChangeType.UPDATE_BEFORE), _TYPES.index(ChangeType.UPDATE_AFTER)

CHANGE_COLUMNS = pa.schema(
    [
        pa.field("_change_type", pa.string(), nullable=False, metadata={FIELD_ID_KEY: b"2147483543"}),
        pa.field("_change_ordinal", pa.int32(), nullable=False, metadata={FIELD_ID_KEY: b"2147483542"}),
        pa.field("_commit_snapshot_id", pa.int64(), nullable=False, metadata={FIELD_ID_KEY: b"2147483541"}),
    ]
)
"""The columns that follow those of the table. Spec: Iceberg spec, Reserved Field IDs."""

_ORDINAL = 1
"""The position of the ordinal among them."""


@dataclass(frozen=True, slots=True, eq=False)
class ChangedRows:
    """Rows with the kind of change of each, in order.

    Args:
        rows: The rows.
        types: For each, its position in `ChangeType`.
    """

    rows: pa.Table
    types: npt.NDArray[np.int8]

    @classmethod
    def all_of(cls, rows: pa.Table, type_: ChangeType) -> ChangedRows:
        """Rows with the same kind of change."""
        return cls(rows, np.full(rows.num_rows, _TYPES.index(type_), np.int8))

    def filter(self, mask: pa.BooleanArray) -> ChangedRows:
        """The rows that a mask selects."""
        return ChangedRows(self.rows.filter(mask), self.types[np.asarray(mask.fill_null(False))])


def drop_carried_over(
    deleted: pa.Table, inserted: pa.Table, columns: Sequence[int] | None = None
) -> tuple[pa.Table, pa.Table]:
    """Leave out rows that were only copied between files: each removed row cancels one equal added row.

    Args:
        deleted: Rows that one commit removed.
        inserted: Rows that it added, with the same columns.
        columns: Positions of the columns that are compared; all if None.
    """
    if not (deleted.num_rows and inserted.num_rows):
        return deleted, inserted
    compared = list(range(deleted.num_columns) if columns is None else columns)
    went, came = _match(deleted.select(compared), inserted.select(compared))
    return _without(deleted, went), _without(inserted, came)


def compare_rows(deleted: pa.Table, inserted: pa.Table, keys: tuple[pa.Table, pa.Table] | None = None) -> ChangedRows:
    """Turn removed and added rows into deletes, then updates as pairs of images, then inserts.

    Args:
        deleted: Rows that one commit removed.
        inserted: Rows that it added, with the same columns.
        keys: For the rows of both sides, the key of each. The first removed and the first added row with the same key
            are the images of an update; null is a key like any other. Without keys there are no updates.
    """
    none = np.empty(0, np.int64)
    before, after = _match(*keys) if keys is not None else (none, none)
    parts = (
        ChangedRows.all_of(_without(deleted, before), ChangeType.DELETE),
        ChangedRows(
            pa.concat_tables([deleted.take(before), inserted.take(after)]).take(_in_turn(len(before))),
            np.tile(np.array([_BEFORE, _AFTER], np.int8), len(before)),
        ),
        ChangedRows.all_of(_without(inserted, after), ChangeType.INSERT),
    )
    return ChangedRows(pa.concat_tables([part.rows for part in parts]), np.concatenate([part.types for part in parts]))


def describe_changes(changes: ChangedRows, schema: pa.Schema, ordinal: int, snapshot_id: int) -> pa.Table:
    """Add the columns that describe the change to rows.

    Args:
        changes: The changes of one commit.
        schema: The columns of the rows, then `CHANGE_COLUMNS`.
        ordinal: The commit's position among those that changed rows, from 0.
        snapshot_id: The snapshot that the commit made.
    """
    count = changes.rows.num_rows
    described = (
        pa.array(_NAMES).take(pa.array(changes.types)),
        pa.array(np.full(count, ordinal, np.int32)),
        pa.array(np.full(count, snapshot_id, np.int64)),
    )
    return pa.Table.from_arrays([*changes.rows.columns, *described], schema=schema)


def tell_inserts(batch: pa.RecordBatch, schema: pa.Schema, ordinal: int, snapshot_id: int) -> pa.RecordBatch:
    """New rows, with the columns that describe the change if requested.

    Args:
        batch: Rows that one commit added.
        schema: Their columns, then `CHANGE_COLUMNS` or none.
        ordinal: As in `describe_changes`.
        snapshot_id: As in `describe_changes`.
    """
    columns = list(batch.columns)
    if len(schema) > len(columns):
        values = (ChangeType.INSERT.value, ordinal, snapshot_id)
        columns += [
            pa.repeat(pa.scalar(value, column.type), batch.num_rows)
            for value, column in zip(values, CHANGE_COLUMNS, strict=True)
        ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def with_ordinal(batch: pa.RecordBatch, ordinal: int) -> pa.RecordBatch:
    """Described changes of one commit with another ordinal."""
    place = batch.schema.get_field_index(CHANGE_COLUMNS[_ORDINAL].name)
    ordinals = pa.repeat(pa.scalar(ordinal, batch.schema.field(place).type), batch.num_rows)
    return batch.set_column(place, batch.schema.field(place), ordinals)


def _in_turn(count: int) -> npt.NDArray[np.int64]:
    """The order that interleaves two halves of n rows each: 0, n, 1, n + 1, ..."""
    return np.arange(2 * count, dtype=np.int64).reshape(2, -1).T.ravel()


def _match(left: pa.Table, right: pa.Table) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    numbers = number_rows(pa.concat_tables([left, right]))
    return match_rows(numbers[: left.num_rows], numbers[left.num_rows :])


def _without(rows: pa.Table, positions: npt.NDArray[np.int64]) -> pa.Table:
    if not len(positions):
        return rows
    kept = np.ones(rows.num_rows, bool)
    kept[positions] = False
    return rows.filter(pa.array(kept))
