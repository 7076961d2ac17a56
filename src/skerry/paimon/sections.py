"""Which files of a bucket must be merged with each other: sections of overlapping keys, and sorted runs within them.

Spec: `formats/paimon.md` § 9; Java's IntervalPartition.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import FormatError
from skerry.paimon.binary_reading import decode_rows
from skerry.paimon.byte_spans import Longs
from skerry.paimon.types import DataField

__all__ = ["KeyRanges", "check_levels", "key_ranges", "plan_sections"]

_RULE: Final = "Paimon: LSM tree"


@dataclass(frozen=True, slots=True)
class KeyRanges:
    """The keys of files as numbers that compare as the keys do.

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
        FormatError: A key is not what the columns say, or the least is above the greatest.

    Spec: `formats/paimon.md` § 8: how keys compare.
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
    """A column as PyArrow orders it like Paimon: strings by their bytes."""
    if pa.types.is_string(column.type):
        return column.cast(pa.binary())
    return column


def check_levels(groups: Longs, levels: Longs, ranges: KeyRanges, *, location: str | None = None) -> None:
    """Refuse levels from 1 on in which keys of two files overlap.

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


def plan_sections(files: Sequence[int], ranges: KeyRanges) -> list[list[list[int]]]:
    """Cut the files of a bucket into sections, and these into as few sorted runs as possible.

    Args:
        files: Rows of the files.
        ranges: Keys of all files.

    Returns:
        Sections in the order of keys; each a list of runs; each a list of files in the order of keys.
    """
    lowest, highest = ranges.lowest[list(files)].tolist(), ranges.highest[list(files)].tolist()
    ordered = sorted(zip(lowest, highest, files, strict=True))
    sections: list[list[list[int]]] = []
    section: list[tuple[int, int, int]] = []
    bound = -1
    for low, high, file in ordered:
        if section and low > bound:
            sections.append(_runs(section))
            section = []
        section.append((low, high, file))
        bound = max(bound, high)
    if section:
        sections.append(_runs(section))
    return sections


def _runs(section: Sequence[tuple[int, int, int]]) -> list[list[int]]:
    """Put every file behind the run that ended first, or begin another."""
    runs: list[list[int]] = []
    ends: list[tuple[int, int]] = []
    for low, high, file in section:
        if ends and ends[0][0] < low:
            _, number = heapq.heappop(ends)
            runs[number].append(file)
        else:
            number = len(runs)
            runs.append([file])
        heapq.heappush(ends, (high, number))
    return runs
