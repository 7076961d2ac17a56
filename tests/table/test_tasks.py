"""Threads as an executor: order, errors, and how far ahead they run."""

import threading
import time

import pytest

from skerry.errors import FormatError
from skerry.table.tasks import ThreadExecutor


@pytest.mark.parametrize("workers", [1, 2, 8, None])
def test_results_come_in_the_order_of_the_tasks(workers):
    def slow_for_the_first(task):
        time.sleep(0.01 if task == 0 else 0)
        return task * 2

    assert list(ThreadExecutor(workers).map(slow_for_the_first, range(50))) == [2 * n for n in range(50)]


def test_no_tasks():
    assert list(ThreadExecutor(2).map(str, [])) == []


@pytest.mark.parametrize("workers", [1, 3])
def test_the_first_error_is_raised_as_it_was_and_ends_the_job(workers):
    seen = []

    def task(number):
        seen.append(number)
        if number == 3:
            raise FormatError("bad magic", location="f", offset=4)
        return number

    with pytest.raises(FormatError, match="bad magic") as caught:
        list(ThreadExecutor(workers).map(task, range(1000)))
    assert caught.value.offset == 4
    assert len(seen) < 100


def test_threads_do_not_run_far_ahead_of_the_consumer():
    started = []
    lock = threading.Lock()

    def task(number):
        with lock:
            started.append(number)
        return number

    results = ThreadExecutor(2).map(task, range(1000))
    next(results)
    time.sleep(0.05)
    assert len(started) <= 10
    assert sum(results) == sum(range(1, 1000))
