"""The progress of a job below the cell of a notebook. Loaded only in a notebook's kernel."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from skerry.markup import Html, element
from skerry.table.work.tasks import JobProgress, ProgressCallback

__all__ = ["notebook_bar"]

_EVERY_S: Final = 0.25
"""Each update is a message to the browser."""


@dataclass(frozen=True, slots=True)
class _Bar:
    """A step with its files and its pace; without a step, nothing."""

    step: str = ""
    done_files: int = 0
    total_files: int | None = None
    pace: str = ""

    def _repr_html_(self) -> Html:
        if not self.step:
            return Html()
        value = self.done_files if self.total_files else None
        bar = element("progress", value=value, max=self.total_files or None, aria_label=self.step)
        return element("div", self.step, " ", bar, " ", element("small", self.pace))


@contextmanager
def notebook_bar(
    display: Callable[..., Any],
    first: str,
    pace: Callable[[JobProgress], str],
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[ProgressCallback]:
    """Show a bar while a job runs; it goes when the job ends.

    Args:
        display: IPython's function of that name.
        first: What is shown until the job reports for the first time.
        pace: Says how fast the job is.
        clock: A monotonic clock in seconds.

    Yields:
        The callback for the job.
    """
    shown = display(_Bar(first), display_id=True)
    last = clock() - _EVERY_S

    def update(progress: JobProgress) -> None:
        nonlocal last
        described, now = pace(progress), clock()
        if now - last >= _EVERY_S:
            last = now
            shown.update(_Bar(progress.step, progress.done_files, progress.total_files, described))

    try:
        yield update
    finally:
        shown.update(_Bar())
