"""Progress bars for long work: on standard error, or below the cell of a notebook."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias

from skerry.errors import SchemaError
from skerry.table.work.quantities import count, size
from skerry.table.work.tasks import JobProgress, ProgressCallback
from skerry.table.work.telemetry import span

__all__ = ["Pace", "Progress", "progress_callback", "show_progress"]

Progress: TypeAlias = bool | ProgressCallback | None
"""How a job reports progress: True for a bar, a callable that gets `JobProgress` records, None for nothing."""


@contextmanager
def progress_callback(progress: Progress, first: str, *locations: str) -> Iterator[ProgressCallback | None]:
    """Open the progress callback that the argument `progress` of a method asks for, and a span of the whole job.

    Args:
        progress: The argument.
        first: What is shown until the job reports for the first time.
        locations: The folders of its tables, which get heartbeats.

    Raises:
        SchemaError: It is something else.
    """
    if progress and progress is not True and not callable(progress):
        raise SchemaError(f"progress takes True, None or a callable, found {type(progress).__name__}: {progress!r}")
    with span(first), ExitStack() as stack:
        callback = stack.enter_context(show_progress(first)) if progress is True else progress or None
        for location in locations:
            from skerry.table.work.heartbeats import heartbeat  # not needed for reading

            callback = stack.enter_context(heartbeat(first, location, callback))
        yield callback


@contextmanager
def show_progress(first: str) -> Iterator[ProgressCallback | None]:
    """Show a bar with rows and bytes per second while a job runs, in a terminal or a notebook; elsewhere show nothing.

    Args:
        first: What is shown until the job reports for the first time.

    Yields:
        The callback for the job; None if nobody would see a bar.
    """
    display = _notebook_display()
    if display is not None:
        from skerry.table.work.notebook_progress import notebook_bar

        with notebook_bar(display, first, Pace().describe) as callback:
            yield callback
        return
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[pace]}"),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(first, total=None, pace="")
        pace = Pace()

        def update(progress: JobProgress) -> None:
            bar.update(
                task,
                description=progress.step,
                total=progress.total_files,
                completed=progress.done_files,
                pace=pace.describe(progress),
            )

        yield update


def _notebook_display() -> Callable[..., Any] | None:
    """IPython's `display` if this process is the kernel of a notebook; None in a terminal."""
    ipython = sys.modules.get("IPython")
    if ipython is None or not hasattr(ipython.get_ipython(), "kernel"):
        return None
    display: Callable[..., Any] = ipython.display.display
    return display


class Pace:
    """The speed of a job's steps; each counts its rows and bytes from zero.

    Args:
        clock: A monotonic clock in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._step = ""
        self._begin = 0.0

    def describe(self, progress: JobProgress) -> str:
        """`1,200,000 rows (300,000/s), 48 MB (12 MB/s), 3 of 8 files, about 7 s left`, without unknown parts."""
        now = self._clock()
        if progress.step != self._step:
            self._step, self._begin = progress.step, now
        seconds = max(now - self._begin, 0.1)
        parts = []
        if progress.done_rows:
            parts.append(f"{count(progress.done_rows)} rows ({count(round(progress.done_rows / seconds))}/s)")
        if progress.done_bytes:
            parts.append(f"{size(progress.done_bytes)} ({size(round(progress.done_bytes / seconds))}/s)")
        if progress.total_files is not None:
            parts.append(f"{count(progress.done_files)} of {count(progress.total_files)} files")
            if 0 < progress.done_files < progress.total_files:
                left = seconds / progress.done_files * (progress.total_files - progress.done_files)
                parts.append(f"about {_duration(left)} left")
        return ", ".join(parts)


def _duration(seconds: float) -> str:
    """`40 s`, `3 min`, `2.5 h`."""
    if seconds < 100:
        return f"{max(round(seconds), 1)} s"
    return f"{round(seconds / 60)} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"
