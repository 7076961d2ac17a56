"""Threads that work ahead of a consumer, in order and within bounds."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

__all__ = ["SharedCache", "default_threads", "read_ahead", "scan_pool"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def read_ahead(
    pool: ThreadPoolExecutor,
    function: Callable[[_Item], _Result],
    items: Iterable[_Item],
    weight: Callable[[_Item], int],
    capacity: int,
) -> Iterator[_Result]:
    """Map in threads, in order, ahead of the consumer as far as the weights of pending results allow."""
    under_way: deque[tuple[Future[_Result], int]] = deque()
    load = 0
    for item in items:
        under_way.append((pool.submit(function, item), weight(item)))
        load += under_way[-1][1]
        while load >= capacity:
            future, done = under_way.popleft()
            load -= done
            yield future.result()
    while under_way:
        yield under_way.popleft()[0].result()


@contextmanager
def scan_pool(threads: int) -> Iterator[ThreadPoolExecutor]:
    """Threads of a scan; when its consumer stops, work that has not begun is cancelled."""
    pool = ThreadPoolExecutor(threads, thread_name_prefix="skerry-scan")
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


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
        for key in list(self._results) if self._load > self._capacity else ():
            if key in self._weights and key != newest:
                del self._results[key]
                self._load -= self._weights.pop(key)
            if self._load <= self._capacity:
                return


def default_threads() -> int:
    """One thread per core that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
