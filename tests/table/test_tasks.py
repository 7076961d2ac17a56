"""Threads as an executor: order, errors, and how far ahead they run."""

import threading
import time

import pytest

from skerry.errors import FormatError
from skerry.storage import Storage
from skerry.table.owned_files import owned_files
from skerry.table.work.tasks import ThreadExecutor


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


def test_no_thread_writes_any_more_when_files_are_removed(tmp_path):
    """The consumer fails, as a progress callback may, while tasks are at work."""
    storage, written = Storage(), threading.Event()

    def write(number):
        if number:
            written.wait(5)  # until the first result has been taken
            storage.write(f"{tmp_path}/table/{number}", b"")
        return number

    def work():
        with owned_files(storage, f"{tmp_path}/table") as files:
            for _ in files.map(ThreadExecutor(4), write, range(40)):
                written.set()
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert list(storage.list(f"{tmp_path}/table")) == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("skerry_")]
