"""Merging sorted runs for a compaction that finds out what it changes.

A full compaction compares rows with those of the highest level; compaction by look-up takes records of level 0 to a
higher level, and compares with what their keys have above level 0: in the files that it merges, or in older ones.

Spec: docs/formats/paimon.md § 10.1, § 11.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.paimon.merging import MergeFunction, MergeOrder, Records, lowest_level_only
from skerry.paimon.merging.changelog import KeyRows, RowComparison, change_records
from skerry.paimon.metadata.options import ChangelogProducer, MergeEngine
from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.deletion_positions import Positions
from skerry.paimon.reading.key_lookup import BucketFiles, FoundRows, KeyLookup, wanted_keys
from skerry.paimon.reading.merging import KeyedRecords, RunPart, Window, order_parts

__all__ = ["CompactedRecords", "FullMerge", "LookupMerge"]

_RowNumbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class CompactedRecords:
    """The result of merging some keys.

    Args:
        records: At most one record per key, in the order of the keys; those of kind -U and -D included.
        changes: What has changed, in the same order, as kinds tell.
    """

    records: Records
    changes: Records


def _comparison(schema: TableSchema) -> RowComparison:
    options = MergeFunction(schema).options
    return RowComparison(options.changelog_row_deduplicate, options.changelog_ignored_fields)


@dataclass(frozen=True)
class FullMerge:
    """Merges all records of keys, and compares with the records of the highest level.

    Args:
        schema: The table's schema.
        top: The highest level.
    """

    schema: TableSchema
    top: int

    def __call__(self, parts: Sequence[RunPart]) -> CompactedRecords:
        """Merge the records of some keys."""
        window = order_parts(self._function, parts)
        after, places = self._function.merge_by_key(window.records, window.order, merges_singles=False)
        is_top = window.levels[window.order.rows] == self.top
        before = _first_of(window.order, is_top)
        # a record that is alone is new, or has been there before
        touched = (np.diff(window.order.starts) > 1) | (before < 0)
        changes = change_records(KeyRows(window.records, before), KeyRows(after, places), touched, self._comparison)
        return CompactedRecords(after, changes)

    @cached_property
    def _function(self) -> MergeFunction:
        return MergeFunction(self.schema)

    @cached_property
    def _comparison(self) -> RowComparison:
        return _comparison(self.schema)


@dataclass(frozen=True)
class LookupMerge:
    """Merges records of level 0 with what their keys have above it.

    Args:
        state: The table.
        output_level: The level that the result is written to.
        older: The files of the bucket at higher levels than that; None for none.
        lookup: Looks keys up in them.
        found: What was found in them so far; appended to by several threads.
    """

    state: PaimonState
    output_level: int
    older: BucketFiles | None = None
    lookup: KeyLookup | None = field(default=None, repr=False)
    found: list[FoundRows] = field(default_factory=list, repr=False)

    def __call__(self, parts: Sequence[RunPart]) -> CompactedRecords:
        """Merge the records of some keys."""
        found = self._found(parts)
        window = order_parts(self._function, parts if found is None else [*parts, found])
        return self._first_rows(window) if self._is_first_row else self._rows(window)

    def found_rows(self) -> Mapping[int, Positions]:
        """int64[n] By index of an older file, the positions of the rows that were merged with newer ones, ascending."""
        together = FoundRows.concat(self.found)
        return {
            number: np.sort(together.positions[together.files == number])
            for number in np.unique(together.files).tolist()
        }

    def _rows(self, window: Window) -> CompactedRecords:
        """The record at the lowest level above 0 is the row that its key had."""
        order = lowest_level_only(window.order, window.levels)
        after, places = self._function.merge_by_key(window.records, order, merges_singles=True)
        levels = window.levels[order.rows]
        before = _first_of(order, levels > 0)
        touched = (_first_of(order, levels <= 0) >= 0) & self._has_changelog
        changes = change_records(KeyRows(window.records, before), KeyRows(after, places), touched, self._comparison)
        return CompactedRecords(after, changes)

    def _first_rows(self, window: Window) -> CompactedRecords:
        """A key that has a row above level 0 keeps it; the first record of any other is its row."""
        order = window.order
        after, places = self._function.merge_by_key(window.records, order, merges_singles=False)
        levels = window.levels[order.rows]
        is_older = _first_of(order, levels > self.output_level) >= 0
        is_new = (_first_of(order, levels > 0) < 0) & (places >= 0)
        stays = ~is_older & (places >= 0)
        return CompactedRecords(after.take(places[stays]), after.take(places[is_new & self._has_changelog]))

    @property
    def _has_changelog(self) -> bool:
        return self._function.options.changelog_producer is ChangelogProducer.LOOKUP

    def _found(self, parts: Sequence[RunPart]) -> RunPart | None:
        """What the keys of level 0 have above the output level."""
        new = [part.records.records.values for part in parts if (part.levels <= 0).any()]
        if self.older is None or self.lookup is None or not new:
            return None
        names = list(self.state.schema.trimmed_primary_keys)
        wanted, _ = wanted_keys(self.state.schema, pa.concat_batches([values.select(names) for values in new]))
        found = self.lookup.find_older(self.older, wanted, above=self.output_level)
        if not len(found):
            return None
        self.found.append(found)
        order = np.argsort(found.keys, kind="stable")
        records = self.lookup.records(self.older, found).take(order)
        columns = new[0].schema.names
        levels = np.array([file.level for file in self.older.files], np.int64)[found.files[order]]
        kept = Records(records.values.select(columns), records.kinds, records.numbers)
        return RunPart(KeyedRecords.of(kept, names), levels, self.older.files[0].location)

    @property
    def _is_first_row(self) -> bool:
        return self._function.engine is MergeEngine.FIRST_ROW

    @cached_property
    def _function(self) -> MergeFunction:
        return MergeFunction(self.state.schema)

    @cached_property
    def _comparison(self) -> RowComparison:
        return _comparison(self.state.schema)


def _first_of(order: MergeOrder, chosen: npt.NDArray[np.bool_]) -> _RowNumbers:
    """int64[keys] The first record of each key among some; -1 for none.

    Args:
        order: The order of records.
        chosen: bool[n] Which records, in that order.
    """
    count = len(chosen)
    places = np.where(chosen, np.arange(count), count)
    first = np.minimum.reduceat(places, order.starts[:-1]) if count else places
    return np.where(first < count, order.rows[np.minimum(first, max(count - 1, 0))] if count else -1, -1)
