"""The sample of one column (a bottom-k sketch): the smallest hashes of its values, and bitmaps of groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from skerry.theta.layout import EMPTY_SKETCH, MAX_THETA, CompactSketch
from skerry.theta.setops import below

__all__ = ["SAMPLE_HASHES", "ColumnSample", "distinct", "gaps", "narrowed", "widened"]

SAMPLE_HASHES = 8192
_TOGETHER = 8
_FEW_PLACES = 64

_Bits: TypeAlias = npt.NDArray[np.uint8]
_Flags: TypeAlias = npt.NDArray[np.bool_]
_Hashes: TypeAlias = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnSample:
    """The sample of one column and its bitmaps.

    Args:
        theta: Threshold; every hash below it that occurs in a group is in `hashes`.
        hashes: uint64[n], ascending.
        members: uint8[groups, ceil(n / 8)], bit i of row g (least significant first) for hash i in group g.
    """

    theta: int
    hashes: _Hashes
    members: _Bits

    @classmethod
    def empty(cls, groups: int) -> ColumnSample:
        """The sample of a column without values."""
        return cls(MAX_THETA, np.empty(0, np.uint64), np.empty((groups, 0), np.uint8))

    def present(self, rows: Any = slice(None)) -> npt.NDArray[np.bool_]:
        """bool[n]: which hashes occur in the given groups."""
        return _unpack(np.bitwise_or.reduce(self.members[rows], axis=0), len(self.hashes))

    def union(self, rows: Any = slice(None)) -> CompactSketch:
        """The distinct values of the given groups."""
        hashes = self.hashes[self.present(rows)]
        return CompactSketch(self.theta, hashes, False) if len(hashes) or self.theta < MAX_THETA else EMPTY_SKETCH

    def group(self, row: int) -> CompactSketch:
        """The distinct values of one group."""
        return CompactSketch(self.theta, self.hashes[self.present([row])], False)

    def with_groups(self, samples: Sequence[CompactSketch]) -> ColumnSample:
        """Add groups, all at once, since every hash is then looked up only once."""
        theta = min(self.theta, *(sample.theta for sample in samples))
        if not len(self.members) and len(samples) == 1 and len(samples[0].hashes) <= SAMPLE_HASHES:
            hashes = below(samples[0].hashes, theta)  # the first of a table: as they are
            return ColumnSample(theta, hashes, _pack(np.ones((1, len(hashes)), np.bool_)))
        held = self.present()
        hashes = below(self.hashes[held], theta)
        for start in range(0, len(samples), _TOGETHER):  # the threshold falls, so that ever fewer hashes are sorted
            parts = [below(sample.hashes, theta) for sample in samples[start : start + _TOGETHER]]
            hashes = distinct([hashes, *parts])
            if len(hashes) > SAMPLE_HASHES:
                theta = int(hashes[SAMPLE_HASHES])
                hashes = hashes[:SAMPLE_HASHES]
        groups, kept = len(self.members), len(below(self.hashes, theta))
        bits = np.zeros((groups + len(samples), len(hashes)), np.bool_)
        held = held[:kept]
        stays = narrowed(_unpack(self.members, kept), np.flatnonzero(~held))
        bits[:groups] = widened(stays, gaps(self.hashes[:kept][held], hashes))
        for row, sample in enumerate(samples, groups):
            bits[row, np.searchsorted(hashes, below(sample.hashes, theta))] = True
        return ColumnSample(theta, hashes, _pack(bits))

    def without(self, row: int, hashes: _Hashes) -> ColumnSample:
        """Remove hashes from the group in a row."""
        if not len(hashes):
            return self
        places = np.searchsorted(self.hashes, hashes)
        found = places < len(self.hashes)
        found[found] = self.hashes[places[found]] == hashes[found]
        bits = _unpack(self.members[row], len(self.hashes)).copy()
        bits[places[found]] = False
        members = self.members.copy()
        members[row] = _pack(bits)
        return ColumnSample(self.theta, self.hashes, members)

    def below(self, theta: int) -> ColumnSample:
        """Only hashes below a threshold."""
        if theta >= self.theta:
            return self
        hashes = below(self.hashes, theta)
        return ColumnSample(theta, hashes, _pack(_unpack(self.members, len(hashes))))

    def with_rows(self, members: _Bits) -> ColumnSample:
        """The column with other bitmaps over the same hashes, some of which may then be in no group.

        The threshold stays: the sample still has every hash below it. Without groups it becomes empty.
        """
        return ColumnSample(self.theta, self.hashes, members) if len(members) else ColumnSample.empty(0)


def distinct(parts: Sequence[_Hashes]) -> _Hashes:
    """The hashes of all parts, which ascend, distinct and ascending; `np.unique` would take 20 times as long."""
    hashes = np.concatenate(parts)
    hashes.sort(kind="stable")  # which merges ascending runs
    is_new = np.ones(len(hashes), np.bool_)
    np.not_equal(hashes[1:], hashes[:-1], out=is_new[1:])
    return hashes[is_new]


def gaps(hashes: _Hashes, values: _Hashes) -> npt.NDArray[np.int64]:
    """Where the values lie that ascending hashes lack: before which of these, in order."""
    places = np.searchsorted(hashes, values)
    is_new = np.ones(len(values), np.bool_)
    inside = places < len(hashes)
    is_new[inside] = hashes[places[inside]] != values[inside]
    return places[is_new]


def widened(bits: _Flags, places: npt.NDArray[np.int64]) -> _Flags:
    """bool[groups, n] with false ones before some places, in order."""
    made = np.zeros((len(bits), bits.shape[1] + len(places)), np.bool_)
    if len(places) > _FEW_PLACES:
        is_old = np.ones(made.shape[1], np.bool_)
        is_old[places + np.arange(len(places))] = False
        made[:, is_old] = bits
        return made
    start = 0
    for before, place in enumerate([*places.tolist(), bits.shape[1]]):
        made[:, start + before : place + before] = bits[:, start:place]
        start = place
    return made


def narrowed(bits: _Flags, places: npt.NDArray[np.int64]) -> _Flags:
    """bool[groups, n] without the hashes at some places, in order."""
    if len(places) > _FEW_PLACES:
        return np.delete(bits, places, axis=1)
    made = np.empty((len(bits), bits.shape[1] - len(places)), np.bool_)
    start = 0
    for before, place in enumerate([*places.tolist(), bits.shape[1]]):
        made[:, start - before : place - before] = bits[:, start:place]
        start = place + 1
    return made


def _unpack(bits: _Bits, count: int) -> npt.NDArray[np.bool_]:
    return np.unpackbits(bits, axis=-1, count=count, bitorder="little").view(np.bool_)


def _pack(bits: npt.NDArray[np.bool_]) -> _Bits:
    return np.packbits(bits, axis=-1, bitorder="little")
