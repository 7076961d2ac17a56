"""Merging sorted runs while they are read, with only as much of each in memory as is needed.

Every run is read batch by batch. The least of the last keys read from the runs bounds a window: records below it are
complete, and are merged; the rest is kept for the next batches. A section that fits the memory is one window.

Spec: docs/formats/paimon.md § 9.5, § 10.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from skerry.errors import FormatError
from skerry.paimon.merging import (
    MergeFunction,
    OrderKeys,
    Records,
    check_kinds,
    encode_order_keys,
    lowest_level_only,
    merge_runs,
)

__all__ = ["KeyedRecords", "RunReader", "merge_sorted_runs"]


@dataclass(frozen=True, slots=True, eq=False)
class KeyedRecords:
    """Consecutive records of one run, with their keys.

    Args:
        keys: Their keys.
        records: The records.
    """

    keys: OrderKeys
    records: Records

    @classmethod
    def of(cls, records: Records, key_columns: Sequence[str]) -> KeyedRecords:
        """Encode the keys of records.

        Raises:
            FormatError: A kind is invalid, or a key is null.
        """
        check_kinds(records.kinds)
        columns = [records.values.column(name) for name in key_columns]
        for name, column in zip(key_columns, columns, strict=True):
            if column.null_count:
                raise FormatError(f"a record has a null in key column {name!r}", rule="docs/formats/paimon.md § 8.5")
        return cls(encode_order_keys(columns, [False] * len(columns)), records)

    def __len__(self) -> int:
        return len(self.records)

    def slice(self, start: int, stop: int) -> KeyedRecords:
        """Some of the records; a view."""
        records = self.records
        part = Records(
            records.values.slice(start, stop - start), records.kinds[start:stop], records.numbers[start:stop]
        )
        return KeyedRecords(self.keys.slice(start, stop), part)

    @classmethod
    def concat(cls, parts: Sequence[KeyedRecords]) -> KeyedRecords:
        """Concatenate records."""
        if len(parts) == 1:
            return parts[0]
        records = Records.concat([part.records for part in parts])
        return cls(OrderKeys.concat([part.keys for part in parts]), records)

    def count_below(self, bound: bytes) -> int:
        """The number of records with a key below a bound; they are in the order of their keys."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self.keys.key(middle) < bound:
                low = middle + 1
            else:
                high = middle
        return low


class RunReader:
    """One sorted run, read as far as needed.

    Args:
        batches: Its records in the order of their keys.
        location: Its first file, for messages.
        level: The level of its files.
    """

    def __init__(self, batches: Iterator[KeyedRecords], location: str, level: int = 0) -> None:
        self._batches = batches
        self._location = location
        self.level = level
        self._waiting: KeyedRecords | None = None
        self._last: bytes | None = None
        self.is_finished = False
        """Whether everything has been read."""

    def read_on(self) -> None:
        """Read one more batch.

        Raises:
            FormatError: Its first key is smaller than the last one of the batch before.
        """
        batch = next(self._batches, None)
        if batch is None:
            self.is_finished = True
            return
        if not len(batch):
            return
        if self._last is not None and batch.keys.key(0) < self._last:
            raise self.out_of_order()
        self._last = batch.keys.key(len(batch) - 1)
        self._waiting = batch if self._waiting is None else KeyedRecords.concat([self._waiting, batch])

    def read_all(self) -> None:
        """Read everything."""
        parts = [] if self._waiting is None else [self._waiting]
        for batch in self._batches:
            if parts and len(batch) and batch.keys.key(0) < parts[-1].keys.key(len(parts[-1]) - 1):
                raise self.out_of_order()
            if len(batch):
                parts.append(batch)
        self._waiting = KeyedRecords.concat(parts) if parts else None
        self.is_finished = True

    def read_some(self) -> None:
        """Read until records are available, or everything is read."""
        while self._waiting is None and not self.is_finished:
            self.read_on()

    @property
    def last_key(self) -> bytes:
        """The greatest key so far."""
        assert self._last is not None
        return self._last

    def take(self, bound: bytes | None) -> KeyedRecords | None:
        """Return the available records below a bound, or all of them if there is none."""
        waiting = self._waiting
        if waiting is None:
            return None
        count = len(waiting) if bound is None else waiting.count_below(bound)
        if not count:
            return None
        self._waiting = None if count == len(waiting) else waiting.slice(count, len(waiting))
        return waiting.slice(0, count)

    def out_of_order(self) -> FormatError:
        """The error for rows that are not sorted."""
        return FormatError("the rows are not in the order of their keys", location=self._location)


def merge_sorted_runs(runs: Sequence[RunReader], function: MergeFunction) -> Iterator[Records]:
    """Merge the records of runs.

    Args:
        runs: The runs.
        function: Merges the records of one key.

    Yields:
        A record per key, in the order of the keys; those of kind -U and -D included.

    Raises:
        FormatError: The rows of a run are not in the order of their keys.
        UnsupportedError: Records cannot be merged.
    """
    while True:
        for run in runs:
            run.read_some()
        open_runs = [run for run in runs if not run.is_finished]
        bound = min((run.last_key for run in open_runs), default=None)
        taken = [(run, part) for run in runs if (part := run.take(bound)) is not None]
        if taken:
            yield _merge(taken, function)
        if bound is None:
            return
        for run in open_runs:
            if run.last_key == bound:
                run.read_on()


def _merge(taken: Sequence[tuple[RunReader, KeyedRecords]], function: MergeFunction) -> Records:
    parts = [part for _, part in taken]
    together = KeyedRecords.concat(parts)
    starts = np.cumsum([0, *map(len, parts)])
    sequence = function.sequence_keys(together.records.values)
    order = merge_runs(together.keys, starts, together.records.numbers, sequence)
    if isinstance(order, int):
        run = int(np.searchsorted(starts, order, side="right")) - 1
        raise taken[run][0].out_of_order()
    if function.has_whole_rows:
        levels = np.repeat(np.array([run.level for run, _ in taken], np.int64), [len(part) for part in parts])
        order = lowest_level_only(order, levels)
    return function.merge(together.records, order)
