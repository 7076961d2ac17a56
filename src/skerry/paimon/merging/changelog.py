"""What a compaction changes for those who follow a table: each key's row before and after it, as records.

Spec: docs/formats/paimon.md § 11.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.paimon.merging.records import RETRACTS, Records, RowKind
from skerry.table.rows.row_matching import number_rows

__all__ = ["KeyRows", "RowComparison", "change_records"]

_RowNumbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class KeyRows:
    """One row of each key.

    Args:
        records: Records that hold the rows.
        places: int64[keys] The record of each key, in the order of the keys; -1 for no row. Records of kind -U and -D
            are no rows either.
    """

    records: Records
    places: _RowNumbers

    @property
    def exist(self) -> npt.NDArray[np.bool_]:
        """bool[keys]: which keys have a row."""
        found = self.places >= 0
        found[found] = (self.records.kinds[self.places[found]] & RETRACTS) == 0
        return found


@dataclass(frozen=True, slots=True)
class RowComparison:
    """Which rows count as changed.

    Args:
        is_on: Whether rows with equal values are left out (`changelog-producer.row-deduplicate`); else every key whose
            row was written again has changed.
        ignored: Columns that are not compared (`changelog-producer.row-deduplicate-ignore-fields`).
    """

    is_on: bool = False
    ignored: Collection[str] = ()

    def differ(self, before: pa.RecordBatch, after: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """bool[n]: which rows count as changed.

        Numbers are compared as Java compares them: NaN differs from NaN, -0.0 equals 0.0.
        """
        differs = np.full(before.num_rows, not self.is_on)
        if self.is_on and before.num_rows:
            for field, old, new in zip(before.schema, before.columns, after.columns, strict=True):
                if field.name not in self.ignored:
                    differs |= _differ(old, new)
        return differs


def _differ(old: pa.Array, new: pa.Array) -> npt.NDArray[np.bool_]:
    if pa.types.is_nested(old.type) or isinstance(old.type, pa.BaseExtensionType):
        numbers = number_rows(pa.table([pa.chunked_array([old, new])], ["value"]))
        return numbers[: len(old)] != numbers[len(old) :]
    equal = pc.equal(old, new).fill_null(False)
    if old.null_count and new.null_count:
        equal = pc.or_(equal, pc.and_(old.is_null(), new.is_null()))
    return ~np.asarray(equal)


_IMAGES: Final = np.array([RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER], np.int8)


def change_records(
    before: KeyRows, after: KeyRows, touched: npt.NDArray[np.bool_], comparison: RowComparison
) -> Records:
    """The changes of keys as records: +I, -U and +U, or -D.

    Args:
        before: The rows before.
        after: The rows afterwards, of the same keys.
        touched: bool[keys] Which keys can have changed.
        comparison: Which of them have if they had a row, and have one.

    Returns:
        The changes in the order of the keys, with values and sequence numbers of the row before or afterwards.
    """
    had, has = before.exist & touched, after.exist & touched
    both = np.flatnonzero(had & has)
    if comparison.is_on:
        old, new = (pa.array(rows.places[both]) for rows in (before, after))
        both = both[comparison.differ(before.records.values.take(old), after.records.values.take(new))]
    removed, inserted = np.flatnonzero(had & ~has), np.flatnonzero(has & ~had)
    keys = np.concatenate([both, removed, both, inserted])
    kinds = np.repeat(
        np.array([_IMAGES[0], RowKind.DELETE, _IMAGES[1], RowKind.INSERT], np.int8),
        [len(both), len(removed), len(both), len(inserted)],
    )
    # stable, so that the image before an update stays ahead of the one after it
    order = np.argsort(keys, kind="stable")
    is_old = np.arange(len(keys)) < len(both) + len(removed)
    first_new = len(before.records)
    rows = np.where(is_old, before.places[keys], after.places[keys] + first_new)[order]
    values = pa.Table.from_batches([before.records.values, after.records.values]).take(pa.array(rows))
    numbers = np.concatenate([before.records.numbers, after.records.numbers])[rows]
    batch = values.combine_chunks().to_batches()
    return Records(batch[0] if batch else before.records.values.slice(0, 0), kinds[order], numbers)
