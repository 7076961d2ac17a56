"""Results that threads share: computed once, given up when they weigh too much."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from skerry.table.work.read_ahead import SharedCache, read_ahead, scan_pool


def test_threads_that_want_the_same_wait_for_the_one_that_computes_it():
    cache, computed = SharedCache(100), []
    ready = threading.Barrier(4)

    def want(_):
        ready.wait()
        return cache.get("key", compute, len)

    def compute():
        computed.append(1)
        time.sleep(0.02)
        return "result"

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(want, range(4))) == {"result"}
    assert computed == [1]


def test_the_least_recently_used_are_given_up_and_the_newest_is_kept():
    cache, computed = SharedCache(10), []

    def get(key, size):
        return cache.get(key, lambda: computed.append(key) or "x" * size, len)

    for key in "abac":  # a is used again, so that b goes when c comes
        get(key, 4)
    assert computed == ["a", "b", "c"]
    get("a", 4)
    get("b", 4)
    assert computed == ["a", "b", "c", "b"]
    get("large", 99)
    get("large", 99)
    get("a", 4)
    assert computed == ["a", "b", "c", "b", "large", "a"]


def test_a_failure_is_told_and_not_kept():
    cache = SharedCache(10)

    def fail():
        raise ValueError("first")

    with pytest.raises(ValueError, match="first"):
        cache.get("key", fail, len)
    assert cache.get("key", lambda: "later", len) == "later"


def test_a_stream_that_is_given_up_waits_for_no_thread():
    """The garbage collector may close it in a thread for which waiting never ends."""
    begun, released = threading.Event(), threading.Event()

    def work(number):
        if number:
            begun.set()
            assert released.wait(60)
        return number

    def stream():
        with scan_pool(1, is_local=False) as pool:
            yield from read_ahead(pool, work, range(3), lambda _: 1, 2)

    rows = stream()
    assert next(rows) == 0
    assert begun.wait(60)
    rows.close()  # would wait for the thread
    assert not released.is_set()
    released.set()
