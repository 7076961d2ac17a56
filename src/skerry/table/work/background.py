"""Work that goes on in a thread of its own while its owner does other things."""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401  registers its hook before ours: see below
import threading
from collections.abc import Callable
from weakref import WeakSet

__all__ = ["BackgroundWork"]

_UNDER_WAY: WeakSet[threading.Thread] = WeakSet()


class BackgroundWork:
    """Work in a thread, one piece at a time; a process waits for it before it ends."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    @property
    def is_busy(self) -> bool:
        """Whether work has begun and has not ended; never in a process that was forked meanwhile."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, work: Callable[[], object]) -> None:
        """Begin work, after that which is under way.

        Args:
            work: What to do; it handles its errors.
        """
        self.wait()
        self._thread = threading.Thread(target=work, name="skerry-background")
        _UNDER_WAY.add(self._thread)
        self._thread.start()

    def wait(self) -> None:
        """Wait until the work that is under way has ended."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()


def _wait_for_all() -> None:
    for thread in list(_UNDER_WAY):
        thread.join()


# The interpreter joins threads too, but only after such a hook of the executors has made them refuse work. It is called
# after ours, because it was registered before.
threading._register_atexit(_wait_for_all)  # type: ignore[attr-defined]  # noqa: SLF001
