"""Sections: which files of a bucket must be merged with each other, by overlapping keys, and their sorted runs.

Spec: docs/formats/paimon.md § 9.5; Paimon Java, `IntervalPartition`.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import FormatError
from skerry.paimon.values.binary_reading import decode_rows
from skerry.paimon.values.byte_spans import Longs
from skerry.paimon.values.types import DataField

__all__ = ["KeyRanges", "Sections", "check_levels", "key_ranges", "overlapping_sections", "sorted_runs"]

_RULE: Final = "docs/formats/paimon.md § 9.5"


@dataclass(frozen=True, slots=True)
class KeyRanges:
    """The keys of files as ranks that compare as the keys do.

    Args:
        lowest: int64[files] The rank of the least key.
        highest: int64[files] That of the greatest.
    """

    lowest: Longs
    highest: Longs


def key_ranges(
    minima: pa.Array, maxima: pa.Array, fields: Sequence[DataField], *, location: str | None = None
) -> KeyRanges:
    """Rank the keys of files.

    Args:
        minima: The least key of each file, as a row with arity.
        maxima: The greatest.
        fields: The columns of keys.
        location: The snapshot, for messages.

    Raises:
        FormatError: A key does not match the columns, or the least is above the greatest.

    Spec: docs/formats/paimon.md § 8.6.
    """
    types = [field.type for field in fields]
    keys = pa.concat_arrays([minima, maxima])
    columns = [_comparable(column) for column in decode_rows(types, keys, location=location)]
    table = pa.table(columns, names=[str(number) for number in range(len(columns))])
    order = pc.sort_indices(table, [(name, "ascending", "at_start") for name in table.column_names])
    differs = np.zeros(max(len(order) - 1, 0), bool)
    for column in columns:
        sorted_ = column.take(order)
        before, after = sorted_.slice(0, len(differs)), sorted_.slice(1)
        equal = pc.fill_null(pc.equal(before, after), False)
        both_null = pc.and_(before.is_null(), after.is_null())
        differs |= ~pc.or_(equal, both_null).to_numpy(zero_copy_only=False)
    ranks = np.zeros(len(order), np.int64)
    ranks[order.to_numpy()] = np.concatenate([np.zeros(min(1, len(order)), np.int64), np.cumsum(differs)])
    ranges = KeyRanges(ranks[: len(minima)], ranks[len(minima) :])
    if (ranges.lowest > ranges.highest).any():
        raise FormatError("the least key of a file is above its greatest", location=location, rule=_RULE)
    return ranges


def _comparable(column: pa.Array) -> pa.Array:
    """Make a column comparable in PyArrow as in Paimon: strings by their bytes."""
    if pa.types.is_string(column.type):
        return column.cast(pa.binary())
    return column


def check_levels(groups: Longs, levels: Longs, ranges: KeyRanges, *, location: str | None = None) -> None:
    """Refuse overlapping keys of two files at a level from 1 on.

    Args:
        groups: int64[files] Partition and bucket of each as one number.
        levels: int64[files] Their levels.
        ranges: Their keys.
        location: The snapshot, for messages.

    Raises:
        FormatError: Two files of a level overlap.
    """
    rows = np.flatnonzero(levels > 0)
    rows = rows[np.lexsort((ranges.lowest[rows], levels[rows], groups[rows]))]
    same = (np.diff(groups[rows]) == 0) & (np.diff(levels[rows]) == 0)
    if (same & (ranges.lowest[rows[1:]] <= ranges.highest[rows[:-1]])).any():
        raise FormatError(
            "two files of the same level of a bucket overlap in their keys", location=location, rule=_RULE
        )


def sorted_runs(rows: Sequence[int], ranges: KeyRanges) -> list[list[int]]:
    """Arrange the files of a section in as few sorted runs as possible.

    Args:
        rows: The files, by least key.
        ranges: Keys of all files.

    Returns:
        The runs, each with its files in the order of keys.
    """
    runs: list[list[int]] = []
    ends: list[tuple[int, int]] = []
    lowest, highest = ranges.lowest[list(rows)].tolist(), ranges.highest[list(rows)].tolist()
    for low, high, row in zip(lowest, highest, rows, strict=True):
        if ends and ends[0][0] < low:
            _, number = heapq.heappop(ends)
            runs[number].append(row)
        else:
            number = len(runs)
            runs.append([row])
        heapq.heappush(ends, (high, number))
    return runs


@dataclass(frozen=True, slots=True)
class Sections:
    """Files of buckets in sections, which are kept or pruned as a whole.

    Args:
        rows: int64[files] The files, section by section; bucket after bucket.
        starts: int64[sections + 1] Where each section begins, with the end of the last.
        buckets: int64[sections] The bucket of each, as a number.
        is_raw: bool[sections] Whether its rows are read without merging; such a section is one file.
    """

    rows: Longs
    starts: Longs
    buckets: Longs
    is_raw: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.buckets)

    @classmethod
    def of_files(cls, rows: Longs, buckets: Longs) -> Sections:
        """Sections of files that are read one by one.

        Args:
            rows: int64[n] The files.
            buckets: int64[n] Their buckets, which are consecutive.
        """
        return cls(rows, np.arange(len(rows) + 1, dtype=np.int64), buckets, np.full(len(rows), True))

    @property
    def of_row(self) -> Longs:
        """int64[files] The section of each of `rows`."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def any(self, flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """bool[sections] Whether a flag is set for any file of a section.

        Args:
            flags: bool[all files].
        """
        return self.sums(flags[self.rows].astype(np.int64)) > 0

    def sums(self, values: Longs) -> Longs:
        """int64[sections] Sums over sections of a number for each of `rows`."""
        totals = np.concatenate([np.zeros(1, np.int64), np.cumsum(values)])
        return totals[self.starts[1:]] - totals[self.starts[:-1]]

    def only(self, wanted: npt.NDArray[np.bool_]) -> Sections:
        """The sections for which a mask is true."""
        if wanted.all():
            return self
        lengths = np.diff(self.starts)[wanted]
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        return Sections(self.rows[wanted[self.of_row]], starts, self.buckets[wanted], self.is_raw[wanted])


def overlapping_sections(buckets: Longs, ranges: KeyRanges, has_deletes: npt.NDArray[np.bool_]) -> Sections:
    """Divide the files of buckets into sections of overlapping keys.

    Args:
        buckets: int64[files] Their buckets as numbers from 0.
        ranges: Their keys.
        has_deletes: bool[files] Whether a file has deletes; alone in its section, it is not raw.

    Returns:
        Sections in the order of buckets and keys.
    """
    rows = np.lexsort((ranges.highest, ranges.lowest, buckets))
    # one number line for all buckets, so that a running maximum never reaches into the next one
    line = buckets[rows] * (int(ranges.highest.max(initial=0)) + 1)
    bound = np.maximum.accumulate(line + ranges.highest[rows])
    begins = np.full(len(rows), True)
    begins[1:] = (line + ranges.lowest[rows])[1:] > bound[:-1]
    firsts = np.flatnonzero(begins)
    starts = np.append(firsts, len(rows)).astype(np.int64)
    is_raw = (np.diff(starts) == 1) & ~has_deletes[rows[firsts]]
    return Sections(rows, starts, buckets[rows[firsts]], is_raw)
