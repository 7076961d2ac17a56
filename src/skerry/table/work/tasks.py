"""Tasks and executors. A task is a small picklable record and a module-level function; its result is picklable too."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from skerry.storage import Storage

__all__ = ["Executor", "FileTask", "JobProgress", "ProgressCallback", "ThreadExecutor"]

Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class FileTask:
    """A file to read; picklable.

    Args:
        location: Its location.
        storage: Its storage. It may contain credentials, and so is never printed.
    """

    location: str
    storage: Storage = field(repr=False)


class Executor(Protocol):
    """Runs a function over tasks, in some place."""

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Yield the results in the order of the tasks; the first error ends the job and is raised unchanged."""
        ...


@dataclass(frozen=True, slots=True)
class ThreadExecutor:
    """Runs tasks in threads of this process. Kernels, codecs and Arrow release the GIL, so threads scale.

    Args:
        max_workers: Number of threads; the machine's processors by default.
    """

    max_workers: int | None = None

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Yield the results in the order of the tasks, with a bounded number of finished results waiting."""
        workers = min(self.max_workers or os.cpu_count() or 1, max(len(tasks), 1))
        if workers == 1:
            yield from map(function, tasks)
            return
        with ThreadPoolExecutor(workers, thread_name_prefix="skerry") as pool:
            waiting: deque[Future[Result]] = deque()
            try:
                for task in tasks:
                    waiting.append(pool.submit(function, task))
                    if len(waiting) >= 4 * workers:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The progress of a job.

    Args:
        step: The current step, for display.
        done_files: Files finished.
        total_files: Files in all, None if unknown.
        done_rows: Rows finished.
        done_bytes: Bytes finished.
    """

    step: str
    done_files: int = 0
    total_files: int | None = None
    done_rows: int = 0
    done_bytes: int = 0


ProgressCallback = Callable[[JobProgress], None]
"""Called with a job's progress, in the thread that runs the job."""
