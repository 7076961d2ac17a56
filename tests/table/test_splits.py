"""Tasks of large files: every byte once, at offsets where readers may begin, as large as the target allows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.iceberg.planning.splits import plan_splits


def split(files, target):
    """Tasks by file; `files` are sizes and split offsets."""
    sizes = np.array([size for size, _ in files], np.int64)
    offsets = np.cumsum([0, *(len(places) for _, places in files)])
    places = np.array([place for _, places in files for place in places], np.int64)
    splits = plan_splits(sizes, offsets, places, target)
    tasks = list(zip(splits.starts.tolist(), splits.ends.tolist(), strict=True))
    return [tasks[first:last] for first, last in itertools.pairwise(splits.offsets.tolist())]


def plain(size, places, target):
    """The same for one file, one step after the other."""
    sound = all(0 <= place < size for place in places) and all(a < b for a, b in itertools.pairwise(places))
    tasks, start = [], 0
    cuts = [*places[1:], size] if sound else [size]
    for here, after in itertools.pairwise(cuts):
        if after - start > target:
            tasks.append((start, here))
            start = here
    return [*tasks, (start, -1)]


@pytest.mark.parametrize(
    ("size", "places", "target", "tasks"),
    [
        (100, [4, 30, 60, 90], 1000, [(0, -1)]),
        (100, [4, 30, 60, 90], 50, [(0, 30), (30, 60), (60, -1)]),
        (100, [4, 30, 60, 90], 60, [(0, 60), (60, -1)]),
        (100, [4, 30, 60, 90], 1, [(0, 30), (30, 60), (60, 90), (90, -1)]),
        (100, [4, 80], 50, [(0, 80), (80, -1)]),
        (100, [4], 10, [(0, -1)]),
        (100, [], 10, [(0, -1)]),
        (100, [4, 60, 30], 10, [(0, -1)]),
        (100, [4, 30, 30], 10, [(0, -1)]),
        (100, [4, 100], 10, [(0, -1)]),
        (100, [-1, 30], 10, [(0, -1)]),
        (0, [], 10, [(0, -1)]),
    ],
)
def test_a_file_is_cut_where_readers_may_begin(size, places, target, tasks):
    assert split([(size, places)], target) == [tasks]
    assert split([(50, [4]), (size, places), (7, [])], target) == [[(0, -1)], tasks, [(0, -1)]]


FILES = st.lists(
    st.one_of(
        st.tuples(st.integers(1, 200), st.sets(st.integers(0, 199), max_size=8).map(sorted)),
        st.tuples(st.integers(0, 200), st.lists(st.integers(-5, 210), max_size=4)),
    ),
    max_size=6,
)


@given(files=FILES, target=st.integers(1, 220))
def test_splits_agree_with_their_plain_twin(files, target):
    assert split(files, target) == [plain(size, places, target) for size, places in files]


def test_no_files_have_no_tasks():
    assert split([], 10) == []
