"""Comparing one sketch with many: how much of one set is in each of thousands of others.

Hashes of two sketches below the lesser of their thresholds are samples of the same values, so that the sets overlap as
those samples do. To compare by merging would walk through both sketches for every pair. Here the one sketch becomes a
bit map, small enough for the first-level cache, and a hash table; of every other sketch each hash is looked up in the
bit map, and only the few that are found there in the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from skerry.kernels import kernel
from skerry.theta.bounds import ratio_bounds
from skerry.theta.layout import MAX_THETA, CompactSketch, Hashes

__all__ = ["Overlaps", "PackedSketches", "Probe", "Proportion", "joined_sketches", "pack_sketches"]

_Counts = npt.NDArray[np.int64]

_MIN_TABLE_BITS, _BITS_PER_SLOT = 10, 16
_U0, _U1, _U6, _U63 = (np.uint64(number) for number in (0, 1, 6, 63))


@dataclass(frozen=True, slots=True, eq=False)
class PackedSketches:
    """Sketches side by side in memory.

    Args:
        thetas: uint64[n], their thresholds.
        starts: int64[n], where the hashes of each begin.
        ends: int64[n], where they end.
        hashes: uint64[…], ascending within a sketch.
    """

    thetas: npt.NDArray[np.uint64]
    starts: _Counts
    ends: _Counts
    hashes: Hashes

    def __len__(self) -> int:
        return len(self.thetas)

    def sketch(self, number: int) -> CompactSketch:
        """One of the sketches (a view of its hashes)."""
        hashes, theta = self.hashes[self.starts[number] : self.ends[number]], int(self.thetas[number])
        return CompactSketch(theta, hashes, len(hashes) == 0 and theta == MAX_THETA)

    def take(self, numbers: _Counts) -> PackedSketches:
        """Some of the sketches; the hashes stay where they are."""
        return PackedSketches(self.thetas[numbers], self.starts[numbers], self.ends[numbers], self.hashes)


def pack_sketches(sketches: Sequence[CompactSketch]) -> PackedSketches:
    """Put sketches side by side (copies their hashes)."""
    edges = np.zeros(len(sketches) + 1, np.int64)
    np.cumsum([len(sketch.hashes) for sketch in sketches], out=edges[1:])
    hashes = np.concatenate([np.empty(0, np.uint64), *(sketch.hashes for sketch in sketches)])
    thetas = np.array([sketch.theta for sketch in sketches], np.uint64)
    return PackedSketches(thetas, edges[:-1].copy(), edges[1:].copy(), hashes)


def joined_sketches(first: PackedSketches, second: PackedSketches) -> PackedSketches:
    """The sketches of both, one after the other."""
    offset = len(first.hashes)
    return PackedSketches(
        np.concatenate([first.thetas, second.thetas]),
        np.concatenate([first.starts, second.starts + offset]),
        np.concatenate([first.ends, second.ends + offset]),
        np.concatenate([first.hashes, second.hashes]),
    )


@dataclass(frozen=True, slots=True)
class Proportion:
    """How large a part of a set is, 0 … 1.

    Args:
        estimate: The share of the part.
        lower: Its lower bound, at two standard deviations.
        upper: Its upper bound, at two standard deviations.
    """

    estimate: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, eq=False)
class Overlaps:
    """How one set overlaps each of n others, as counts of hashes below the common threshold of each pair.

    Args:
        thetas: uint64[n], that threshold.
        in_one: int64[n], hashes of the one set.
        in_other: int64[n], hashes of the other.
        in_both: int64[n], hashes of both.
    """

    thetas: npt.NDArray[np.uint64]
    in_one: _Counts
    in_other: _Counts
    in_both: _Counts

    def containment(self) -> npt.NDArray[np.float64]:
        """float64[n]: the share of the one set's values that the other has; 0 where too little is known."""
        return self.in_both / np.maximum(self.in_one, 1)

    def containment_of_other(self) -> npt.NDArray[np.float64]:
        """float64[n]: the share of the other set's values that the one has; 0 where too little is known."""
        return self.in_both / np.maximum(self.in_other, 1)

    def jaccard(self) -> npt.NDArray[np.float64]:
        """float64[n]: values of both among values of either."""
        return self.in_both / np.maximum(self.in_one + self.in_other - self.in_both, 1)

    def proportions(self, number: int) -> tuple[Proportion, Proportion, Proportion]:
        """Of one pair: the share of the one set in the other, of the other in the one, and of both in either."""
        one, other, both = (int(counts[number]) for counts in (self.in_one, self.in_other, self.in_both))
        theta = int(self.thetas[number])
        wholes = (one, other, one + other - both)
        bounds = [ratio_bounds(whole, both, theta) for whole in wholes]
        first, second, third = (Proportion(middle, lower, upper) for lower, middle, upper in bounds)
        return first, second, third


class Probe:
    """One sketch, made ready to be compared with many.

    Args:
        sketch: The sketch.
    """

    def __init__(self, sketch: CompactSketch) -> None:
        self.sketch = sketch
        self._bits, self._table = _tables_of(sketch.hashes)

    def overlaps(self, others: PackedSketches) -> Overlaps:
        """Compare with many sketches of the same seed.

        Args:
            others: The many.

        Returns:
            The counts of every pair. Exact sets (θ = 1) are counted exactly.
        """
        in_other, in_both = np.empty(len(others), np.int64), np.empty(len(others), np.int64)
        count_common(
            self._bits,
            self._table,
            others.hashes,
            others.starts,
            others.ends,
            others.thetas,
            self.sketch.theta,
            in_other,
            in_both,
        )
        thetas = np.minimum(others.thetas, np.uint64(self.sketch.theta))
        in_one = np.searchsorted(self.sketch.hashes, thetas).astype(np.int64)
        return Overlaps(thetas, in_one, in_other, in_both)


def _tables_of(hashes: Hashes) -> tuple[Hashes, Hashes]:
    """A bit map of hashes by their lowest bits, and an open-addressing table, at most half full, by the same."""
    table_bits = max(_MIN_TABLE_BITS, (2 * len(hashes)).bit_length())
    table = np.zeros(1 << table_bits, np.uint64)
    bits = np.zeros((1 << table_bits) * _BITS_PER_SLOT >> 6, np.uint64)
    enter(np.ascontiguousarray(hashes), bits, table)
    return bits, table


@kernel("void(uint64[::1], out uint64[::1], out uint64[::1])")
def enter(hashes: Hashes, bits: Hashes, table: Hashes) -> None:
    """Put hashes, of which none is 0, into an empty bit map and an empty table; both have a power of two of places."""
    bit_mask = np.uint64(len(bits) * 64 - 1)
    slot_mask = np.uint64(len(table) - 1)
    for i in range(len(hashes)):
        value = hashes[i]
        place = value & bit_mask
        bits[place >> _U6] |= _U1 << (place & _U63)
        slot = value & slot_mask
        while table[slot] != _U0:
            slot = (slot + _U1) & slot_mask
        table[slot] = value


@kernel(
    "void(uint64[::1], uint64[::1], uint64[::1], int64[::1], int64[::1], uint64[::1], uint64, "
    "out int64[::1], out int64[::1])"
)
def count_common(
    bits: Hashes,
    table: Hashes,
    hashes: Hashes,
    starts: _Counts,
    ends: _Counts,
    thetas: Hashes,
    theta: Any,
    in_other: _Counts,
    in_both: _Counts,
) -> None:
    """For each of many sketches, count its hashes below both thresholds, and those among them that are in the table."""
    bit_mask = np.uint64(len(bits) * 64 - 1)
    slot_mask = np.uint64(len(table) - 1)
    for number in range(len(thetas)):
        start, end = starts[number], ends[number]
        if thetas[number] > theta:
            low = start
            while low < end:
                middle = (low + end) >> 1
                if hashes[middle] < theta:
                    low = middle + 1
                else:
                    end = middle
        found = 0
        for i in range(start, end):
            value = hashes[i]
            place = value & bit_mask
            if (bits[place >> _U6] >> (place & _U63)) & _U1 != _U0:
                slot = value & slot_mask
                while table[slot] != _U0 and table[slot] != value:
                    slot = (slot + _U1) & slot_mask
                if table[slot] == value:
                    found += 1
        in_other[number] = end - start
        in_both[number] = found
