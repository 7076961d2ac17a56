"""The plan of what to fetch together, against its definition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skerry.storage.ranges import Fetch, plan_fetches

MIB = 1 << 20


def test_ranges_close_together_are_one_fetch():
    assert plan_fetches([100, 0, 50], [10, 10, 10], 40) == [Fetch(0, 110, (1, 2, 0))]
    assert plan_fetches([100, 0, 50], [10, 10, 10], 39) == [
        Fetch(0, 10, (1,)),
        Fetch(50, 10, (2,)),
        Fetch(100, 10, (0,)),
    ]
    assert plan_fetches([5, 0], [1, 5], 0) == [Fetch(0, 6, (1, 0))]


def test_empty_ranges_are_not_fetched():
    assert plan_fetches([], [], 10) == []
    assert plan_fetches([5, 7], [0, 0], 10) == []


def test_large_ranges_stay_apart_unless_one_holds_the_other():
    assert len(plan_fetches([0, 10 * MIB], [10 * MIB, 10 * MIB], MIB)) == 2
    assert plan_fetches([0, 5], [40 * MIB, 10], MIB) == [Fetch(0, 40 * MIB, (0, 1))]


@given(
    ranges=st.lists(st.tuples(st.integers(0, 40 * MIB), st.integers(0, 20 * MIB)), max_size=20),
    gap=st.sampled_from([0, 1, 1000, MIB]),
)
def test_every_range_lies_in_one_fetch_and_fetches_waste_at_most_the_gaps(ranges, gap):
    offsets, lengths = [offset for offset, _ in ranges], [length for _, length in ranges]
    fetches = plan_fetches(offsets, lengths, gap)
    assert sorted(i for fetch in fetches for i in fetch.wanted) == [i for i, length in enumerate(lengths) if length]
    for fetch in fetches:
        reached = fetch.offset
        for i in fetch.wanted:
            assert fetch.offset <= offsets[i]
            assert offsets[i] + lengths[i] <= fetch.offset + fetch.length
            assert offsets[i] <= reached + gap
            reached = max(reached, offsets[i] + lengths[i])
        assert reached == fetch.offset + fetch.length
    assert [fetch.offset for fetch in fetches] == sorted(fetch.offset for fetch in fetches)
