"""One sketch beside many: counts equal those of set operations, and bounds hold what exact sets say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.theta import ThetaSketch, jaccard
from skerry.theta.layout import EMPTY_SKETCH, MAX_THETA, CompactSketch
from skerry.theta.overlap import Probe, count_common, enter, pack_sketches
from torture import examples

thetas = st.sampled_from([MAX_THETA, MAX_THETA // 2, 1000, 40])


@st.composite
def sketches(draw: st.DrawFn) -> CompactSketch:
    """Sketches of small hashes, so that they have some in common and places collide."""
    theta = draw(thetas)
    # beside small hashes those that have the same lowest bits
    hashes = draw(st.sets(st.integers(1, 60) | st.integers(1, 20).map(lambda bits: bits << 20 | 5), max_size=40))
    kept = sorted(value for value in hashes if value < theta)
    return CompactSketch(theta, np.array(kept, np.uint64), not kept and theta == MAX_THETA)


@given(one=sketches(), others=st.lists(sketches(), max_size=5))
@settings(deadline=None, max_examples=examples(80))
def test_counts_are_those_of_sets(one: CompactSketch, others: list[CompactSketch]) -> None:
    found = Probe(one).overlaps(pack_sketches(others))
    for number, other in enumerate(others):
        theta = min(one.theta, other.theta)
        ours = {value for value in one.hashes.tolist() if value < theta}
        theirs = {value for value in other.hashes.tolist() if value < theta}
        counts = (found.in_one[number], found.in_other[number], found.in_both[number])
        assert counts == (len(ours), len(theirs), len(ours & theirs))
        assert int(found.thetas[number]) == theta


@given(one=sketches(), others=st.lists(sketches(), max_size=3))
@settings(deadline=None, max_examples=100)
def test_the_kernels_do_what_their_plain_twins_do(one: CompactSketch, others: list[CompactSketch]) -> None:
    packed = pack_sketches(others)
    results = []
    for fill, count in ((enter, count_common), (enter.py_func, count_common.py_func)):
        bits, table = np.zeros(64, np.uint64), np.zeros(128, np.uint64)
        fill(one.hashes, bits, table)
        counts = np.zeros((2, len(others)), np.int64)
        count(bits, table, packed.hashes, packed.starts, packed.ends, packed.thetas, np.uint64(one.theta), *counts)
        results.append([part.tolist() for part in (bits, table, counts)])
    assert results[0] == results[1]


def test_proportions_agree_with_sets_and_with_jaccard() -> None:
    mine, yours = np.arange(0, 60_000), np.arange(40_000, 240_000)
    a, b = ThetaSketch().update(mine), ThetaSketch().update(yours)
    ours, theirs, both = Probe(a.compact).overlaps(pack_sketches([b.compact])).proportions(0)
    for found, truth in ((ours, 1 / 3), (theirs, 0.1), (both, 20_000 / 240_000)):
        assert found.lower < truth < found.upper
        assert found.lower < found.estimate < found.upper
    assert (both.lower, both.estimate, both.upper) == pytest.approx(jaccard(a, b))


def test_exact_sets_have_no_doubt() -> None:
    a, b = ThetaSketch().update(np.arange(100)), ThetaSketch().update(np.arange(75, 125))
    ours, theirs, both = Probe(a.compact).overlaps(pack_sketches([b.compact])).proportions(0)
    assert (ours.lower, ours.estimate, ours.upper) == (0.25, 0.25, 0.25)
    assert (theirs.estimate, both.estimate) == (0.5, 0.2)


def test_the_empty_set_is_in_none() -> None:
    a = ThetaSketch().update(np.arange(10)).compact
    found = Probe(a).overlaps(pack_sketches([EMPTY_SKETCH, a]))
    assert found.containment().tolist() == [0.0, 1.0]
    assert Probe(EMPTY_SKETCH).overlaps(pack_sketches([a])).in_both.tolist() == [0]
    assert len(Probe(a).overlaps(pack_sketches([])).thetas) == 0


def test_packed_sketches_come_out_again() -> None:
    wide = ThetaSketch().update(np.arange(50_000)).compact
    packed = pack_sketches([wide, EMPTY_SKETCH])
    assert np.array_equal(packed.sketch(0).hashes, wide.hashes)
    assert packed.sketch(0).theta == wide.theta
    assert packed.sketch(1).is_empty
