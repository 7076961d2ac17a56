"""What a run takes: by the clock, and by the processors of this process and of all that it has started."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Times:
    """Seconds of a run.

    Args:
        clock_s: By the clock.
        processor_s: Of all processors; on a machine that has other work it says more.
    """

    clock_s: float
    processor_s: float

    def __str__(self) -> str:
        return f"{self.clock_s:.2f} s, {self.processor_s:.2f} s of processors"


def timed(run: Callable[[], object]) -> Times:
    """Run, and tell what it took. Threads and processes that end meanwhile count as far as their parents waited."""
    processors, clock = _processor_s(), time.perf_counter()
    run()
    return Times(time.perf_counter() - clock, _processor_s() - processors)


def _processor_s() -> float:
    """Seconds of this process and all below it, ended ones that were waited for included. On Linux."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            process = int(folder.name)
            parents[process] = int(fields[1])
            ticks[process] = sum(map(int, fields[11:15]))  # user and system, of its own and of its children
    ours = {os.getpid()}
    while below := {process for process, parent in parents.items() if parent in ours} - ours:
        ours |= below
    return sum(ticks.get(process, 0) for process in ours) / os.sysconf("SC_CLK_TCK")
