"""Merging sorted runs while they are read, with only as much of each in memory as is needed.

Every run is read batch by batch. The least of the last keys read from the runs bounds a window: records below it are
complete, and are merged; the rest is kept for the next batches. A section that fits the memory is one window.

Spec: docs/formats/paimon.md § 9.5, § 10.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from skerry.errors import FormatError
from skerry.paimon.merging import (
    MergeFunction,
    MergeOrder,
    OrderKeys,
    Records,
    check_kinds,
    encode_order_keys,
    lowest_level_only,
    merge_runs,
)

__all__ = ["KeyedRecords", "RunPart", "RunReader", "Window", "merge_sorted_runs", "merged_records", "order_parts"]

_Result = TypeVar("_Result")


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
        ahead_rows: How many records to have at least before some are merged, unless there are no more.
    """

    def __init__(self, batches: Iterator[KeyedRecords], location: str, level: int = 0, *, ahead_rows: int = 1) -> None:
        self._batches = batches
        self._location = location
        self.level = level
        self._ahead_rows = ahead_rows
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
            raise _out_of_order(self._location)
        self._last = batch.keys.key(len(batch) - 1)
        self._waiting = batch if self._waiting is None else KeyedRecords.concat([self._waiting, batch])

    def read_all(self) -> None:
        """Read everything."""
        parts = [] if self._waiting is None else [self._waiting]
        for batch in self._batches:
            if parts and len(batch) and batch.keys.key(0) < parts[-1].keys.key(len(parts[-1]) - 1):
                raise _out_of_order(self._location)
            if len(batch):
                parts.append(batch)
        self._waiting = KeyedRecords.concat(parts) if parts else None
        self.is_finished = True

    def read_some(self) -> None:
        """Read until enough records are available, or everything is read."""
        while not self.is_finished and (self._waiting is None or len(self._waiting) < self._ahead_rows):
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

    def part(self, records: KeyedRecords) -> RunPart:
        """Records of the run that were taken."""
        return RunPart(records, np.full(len(records), self.level, np.int64), self._location)


@dataclass(frozen=True, slots=True, eq=False)
class RunPart:
    """Consecutive records of one sorted run.

    Args:
        records: The records.
        levels: int64[n] The level of the file of each.
        location: The run's first file, for messages.
    """

    records: KeyedRecords
    levels: npt.NDArray[np.int64]
    location: str


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """All records of some keys.

    Args:
        records: The records, run by run.
        order: The order in which they are merged.
        levels: int64[n] Their levels.
    """

    records: Records
    order: MergeOrder
    levels: npt.NDArray[np.int64]


def merge_sorted_runs(runs: Sequence[RunReader], merge: Callable[[Sequence[RunPart]], _Result]) -> Iterator[_Result]:
    """Merge the records of runs, window by window.

    Args:
        runs: The runs.
        merge: Merges all records of some keys, such as `merged_records`.

    Yields:
        Its results, in the order of the keys.

    Raises:
        FormatError: The rows of a run are not in the order of their keys.
        UnsupportedError: Records cannot be merged.
    """
    while True:
        for run in runs:
            run.read_some()
        open_runs = [run for run in runs if not run.is_finished]
        bound = min((run.last_key for run in open_runs), default=None)
        taken = [run.part(part) for run in runs if (part := run.take(bound)) is not None]
        merged = [merge(taken)] if taken else []
        del taken  # it would stay in memory while the result is used
        while merged:
            yield merged.pop()
        if bound is None:
            return
        for run in open_runs:
            if run.last_key == bound:
                run.read_on()


def merged_records(function: MergeFunction, parts: Sequence[RunPart]) -> Records:
    """A record per key, in the order of the keys; those of kind -U and -D included."""
    window = order_parts(function, parts)
    order = window.order
    if function.has_whole_rows:
        order = lowest_level_only(order, window.levels)
    return function.merge(window.records, order)


def order_parts(function: MergeFunction, parts: Sequence[RunPart]) -> Window:
    """Put the records of several runs in the order in which they are merged.

    Raises:
        FormatError: The rows of a run are not in the order of their keys.
    """
    together = KeyedRecords.concat([part.records for part in parts])
    starts = np.cumsum([0, *(len(part.records) for part in parts)])
    sequence = function.sequence_keys(together.records.values)
    order = merge_runs(together.keys, starts, together.records.numbers, sequence)
    if isinstance(order, int):
        run = int(np.searchsorted(starts, order, side="right")) - 1
        raise _out_of_order(parts[run].location)
    return Window(together.records, order, np.concatenate([part.levels for part in parts]))


def _out_of_order(location: str) -> FormatError:
    return FormatError("the rows are not in the order of their keys", location=location)
