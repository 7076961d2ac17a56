"""Threads that work for a stream of results."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

__all__ = ["StreamThreads"]


class StreamThreads(ThreadPoolExecutor):
    """Threads that a generator may own: when it is closed, they are left alone instead of waited for.

    The garbage collector closes a generator that was given up, in whichever thread it runs, and whatever that thread is
    doing: in one that is being started, and holds the interpreter's list of threads, waiting for another never ends.
    """

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Cancel work that has not begun, and wait for the rest unless the generator is being closed."""
        self.shutdown(wait=kind is not GeneratorExit, cancel_futures=True)
