"""Set operations on compact sketches: the result is a sample of a set again, with the smallest threshold.

The rules are those of DataSketches, whose results they equal in threshold and hashes. None depends on the order of
its operands (difference apart) or on how they were made.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from skerry.theta.bounds import ratio_bounds
from skerry.theta.layout import EMPTY_SKETCH, MAX_THETA, CompactSketch, Hashes

__all__ = ["below", "difference", "intersection", "jaccard", "smallest", "union"]


def below(hashes: Hashes, theta: int) -> Hashes:
    """The part of ascending hashes below a threshold (a view)."""
    return hashes[: int(np.searchsorted(hashes, np.uint64(theta)))]


def smallest(sketch: CompactSketch, count: int) -> CompactSketch:
    """The sketch cut to its smallest hashes; the first one left out becomes the threshold."""
    if len(sketch.hashes) <= count:
        return sketch
    return CompactSketch(int(sketch.hashes[count]), sketch.hashes[:count], False)


def union(sketches: Iterable[CompactSketch]) -> CompactSketch:
    """What the sketches saw together, however many hashes that are."""
    seen = [sketch for sketch in sketches if not sketch.is_empty]
    if len(seen) < 2:
        return seen[0] if seen else EMPTY_SKETCH
    theta = min(sketch.theta for sketch in seen)
    hashes = np.concatenate([below(sketch.hashes, theta) for sketch in seen])
    hashes.sort(kind="stable")  # which merges ascending runs; `np.unique` would take 20 times as long
    is_new = np.ones(len(hashes), bool)
    np.not_equal(hashes[1:], hashes[:-1], out=is_new[1:])
    return _sketch(theta, hashes[is_new])


def intersection(sketches: Iterable[CompactSketch]) -> CompactSketch:
    """What every one of the sketches saw."""
    first, *rest = sketches
    theta, hashes = first.theta, first.hashes
    if first.is_empty:
        return EMPTY_SKETCH
    for sketch in rest:
        if sketch.is_empty:
            return EMPTY_SKETCH
        theta = min(theta, sketch.theta)
        hashes = np.intersect1d(below(hashes, theta), below(sketch.hashes, theta), assume_unique=True)
    return _sketch(theta, hashes)


def difference(a: CompactSketch, b: CompactSketch) -> CompactSketch:
    """What `a` saw and `b` did not."""
    if a.is_empty or b.is_empty:
        return a
    theta = min(a.theta, b.theta)
    return _sketch(theta, np.setdiff1d(below(a.hashes, theta), below(b.hashes, theta), assume_unique=True))


def jaccard(a: CompactSketch, b: CompactSketch, std_devs: float = 2.0) -> tuple[float, float, float]:
    """Lower bound, estimate and upper bound of |A∩B| / |A∪B|."""
    if a.is_empty or b.is_empty:
        same = float(a.is_empty and b.is_empty)
        return same, same, same
    theta = min(a.theta, b.theta)
    if a.theta == b.theta and np.array_equal(a.hashes, b.hashes):
        return 1.0, 1.0, 1.0
    in_a, in_b = below(a.hashes, theta), below(b.hashes, theta)
    common = len(np.intersect1d(in_a, in_b, assume_unique=True))
    return ratio_bounds(len(in_a) + len(in_b) - common, common, theta, std_devs)


def _sketch(theta: int, hashes: Hashes) -> CompactSketch:
    """Nothing left of sets that were seen whole is the empty set; of samples, it may be a set too small to show."""
    if len(hashes) == 0 and theta == MAX_THETA:
        return EMPTY_SKETCH
    return CompactSketch(theta, hashes, False)
