"""Threads that work ahead of a consumer, in order and within bounds."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from skerry.threads import StreamThreads

__all__ = ["SharedCache", "WorkPool", "default_threads", "read_ahead", "scan_pool"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_SMALL: Final = 1 << 16
"""Weight in bytes up to which the calling thread works itself."""
_SECONDS_HERE: Final = 0.01
"""How long it does so, in all; then there is enough work for threads."""


class WorkPool(StreamThreads):
    """Threads of one scan or plan, that `read_ahead` uses only where they pay.

    Starting a thread and handing it work costs about a millisecond of processor time, more than a small file in the
    local file system takes. The calling thread therefore does such work itself, for a short time. Remote files are
    always left to threads, which wait for them concurrently.

    Args:
        threads: How many there are at most; they are started when they are needed.
        name: Part of their names.
        is_local: Whether the files are in the local file system.
    """

    def __init__(self, threads: int, name: str, *, is_local: bool) -> None:
        super().__init__(threads, thread_name_prefix=f"skerry-{name}")
        self._ahead = 2 * threads
        self._seconds_left = _SECONDS_HERE if is_local else 0.0

    def leaves(self, weight: int) -> bool:
        """Whether work of that weight, in bytes, is left to the calling thread."""
        return weight <= _SMALL and self._seconds_left > 0

    def run_here(self, function: Callable[[_Item], _Result], item: _Item) -> _Result:
        """Do work in the calling thread."""
        start = time.perf_counter()
        try:
            return function(item)
        finally:
            self._seconds_left -= time.perf_counter() - start

    def in_order(self, function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
        """Map in threads, in order, a few items ahead of the consumer."""
        return read_ahead(self, function, items, lambda _: 1, self._ahead)


def read_ahead(
    pool: WorkPool,
    function: Callable[[_Item], _Result],
    items: Iterable[_Item],
    weight: Callable[[_Item], int],
    capacity: int,
) -> Iterator[_Result]:
    """Map in threads, in order, ahead of the consumer as far as the weights of pending results allow.

    Args:
        pool: The threads.
        function: What to do with an item.
        items: The items.
        weight: The weight of an item's result, in bytes; 1 for what is known to be short.
        capacity: Maximum sum of the weights of results that the consumer has not taken.
    """
    under_way: deque[tuple[Future[_Result], int]] = deque()
    load = 0
    for item in items:
        size = weight(item)
        if not under_way and pool.leaves(size):
            yield pool.run_here(function, item)
            continue
        under_way.append((pool.submit(function, item), size))
        load += size
        while load >= capacity:
            future, done = under_way.popleft()
            load -= done
            yield future.result()
    while under_way:
        yield under_way.popleft()[0].result()


def scan_pool(threads: int, *, is_local: bool) -> WorkPool:
    """Threads of a scan."""
    return WorkPool(threads, "scan", is_local=is_local)


class SharedCache:
    """Results that several threads need, each computed once; the least recently used are evicted.

    Args:
        capacity: Maximum sum of the results' weights. The newest result is kept even if it is heavier.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._load = 0
        self._results: OrderedDict[Hashable, Future[Any]] = OrderedDict()
        self._weights: dict[Hashable, int] = {}
        self._lock = threading.Lock()

    def known(self, key: Hashable) -> Any:
        """The result for a key, if it is there and computed; else None."""
        with self._lock:
            if key not in self._weights:
                return None
            self._results.move_to_end(key)
            return self._results[key].result()

    def get(self, key: Hashable, compute: Callable[[], _Result], weight: Callable[[_Result], int]) -> _Result:
        """The result for a key, computed if necessary.

        Args:
            key: Its key.
            compute: Computes it; not called if another call has done so or is doing so.
            weight: Its weight.

        Raises:
            Exception: What `compute` raises; it is called again the next time.
        """
        future: Future[_Result] = Future()
        with self._lock:
            found = self._results.setdefault(key, future)
            self._results.move_to_end(key)
        if found is not future:
            result: _Result = found.result()
            return result
        try:
            computed = compute()
        except BaseException as error:
            with self._lock:
                del self._results[key]
            future.set_exception(error)
            raise
        future.set_result(computed)
        with self._lock:
            self._weights[key] = weight(computed)
            self._load += self._weights[key]
            self._shrink(key)
        return computed

    def _shrink(self, newest: Hashable) -> None:
        leaving, load = [], self._load
        for key in self._results:
            if load <= self._capacity:
                break
            if key in self._weights and key != newest:
                leaving.append(key)
                load -= self._weights[key]
        for key in leaving:
            del self._results[key], self._weights[key]
        self._load = load


def default_threads() -> int:
    """One thread per core that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
