"""What a process remembers: the entries used last, whatever threads do at the same time."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from skerry.table.work.remembered import Remembered


def test_those_used_last_are_kept():
    remembered: Remembered[int, str] = Remembered(2)
    for key in (1, 2):
        assert remembered.keep(key, str(key)) == str(key)
    assert remembered.find(1) == "1"
    remembered.keep(3, "3")
    assert [remembered.find(key) for key in (1, 2, 3)] == ["1", None, "3"]
    remembered.clear()
    assert remembered.find(1) is None


def test_threads_keep_and_find_at_the_same_time():
    remembered: Remembered[int, int] = Remembered(3)

    def work(first: int) -> None:
        for number in range(first, first + 2000):
            remembered.keep(number % 7, number % 7)
            assert remembered.find(number % 5) in (None, number % 5)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
    finally:
        sys.setswitchinterval(interval)
    assert sum(remembered.find(key) is not None for key in range(7)) == 3


def test_what_is_kept_takes_no_more_than_the_bytes():
    remembered: Remembered[int, str] = Remembered(10, limit_bytes=6, size_of=len)
    for key, value in ((1, "aaa"), (2, "bb"), (1, "a"), (3, "ccc")):
        assert remembered.keep(key, value) == value
    assert [remembered.find(key) for key in (1, 2, 3)] == ["a", "bb", "ccc"]
    assert remembered.keep(4, "too large") == "too large"
    assert remembered.find(4) is None
    remembered.keep(5, "dddd")
    assert [remembered.find(key) for key in (1, 2, 3, 5)] == [None, None, None, "dddd"]
    remembered.forget(5)
    remembered.forget(6)
    remembered.keep(7, "gggggg")
    assert remembered.find(7) == "gggggg"
