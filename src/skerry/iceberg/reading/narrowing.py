"""What indexes leave of a plan's files."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from skerry.iceberg.planning.planned_files import PlannedFiles
from skerry.table.files.data_file import DataFile
from skerry.table.files.scan_task import FileScanTask, ScanPlan, ScanStep
from skerry.table.work.read_ahead import WorkPool

__all__ = ["FindRows", "few_tasks", "narrow", "narrowed_tasks"]

_STEP: Final = "files by index"
_FEW_FILES: Final = 64
_FEW_ROWS: Final = 100
"""So many rows are read in less time than it takes to begin with threads."""
_Rows: TypeAlias = npt.NDArray[np.int64]
FindRows: TypeAlias = Callable[[DataFile], _Rows | None]
"""The rows of a file that indexes leave: int64[n], ascending; None if none helps."""


def narrow(plan: ScanPlan[PlannedFiles], find: FindRows, threads: int, *, local: bool) -> ScanPlan[PlannedFiles]:
    """Ask the indexes of all files of a plan.

    Args:
        plan: The plan, of whole files.
        find: What finds the rows of a file.
        threads: How many files are asked at once.
        local: Whether indexes are in the local file system.

    Returns:
        The plan without the files of which no row is left, with a step that counts rows.
    """
    tasks = plan.tasks
    with WorkPool(threads, "index", is_local=local) as pool:
        rows = list(pool.in_order(lambda task: None if task.matches_all else find(task.data_file), tasks))
    if all(each is None for each in rows):
        return plan
    narrowed = tasks.narrowed(rows)
    whole = np.array([each is None for each in rows], bool)
    count = int(tasks.record_counts[whole].sum()) + sum(len(each) for each in rows if each is not None)
    dropped = len(tasks) - len(narrowed)
    reasons = (("no row by the indexes", dropped),) if dropped else ()
    step = ScanStep(_STEP, len(tasks), len(narrowed), tasks.row_count, count, reasons)
    return replace(plan, tasks=narrowed, steps=(*plan.steps, step))


def few_tasks(
    tasks: Iterable[FileScanTask], find: Callable[[FileScanTask], _Rows | None]
) -> tuple[list[FileScanTask], Iterator[FileScanTask] | None]:
    """Ask the indexes of whole files in the calling thread, for as long as they leave few rows.

    Args:
        tasks: The files.
        find: What finds the rows of a file.

    Returns:
        The files of which rows are left, and those that were not asked any more: None if indexes leave few rows of all.
    """
    found: list[FileScanTask] = []
    count = 0
    remaining = iter(tasks)
    for place, task in enumerate(remaining):
        rows = None if place == _FEW_FILES else find(task)
        if rows is None:
            return found, itertools.chain([task], remaining)
        count += len(rows)
        if len(rows):
            found.append(replace(task, rows=rows))
        if count > _FEW_ROWS:
            return found, remaining
    return found, None


def narrowed_tasks(
    tasks: Iterable[FileScanTask], find: FindRows, threads: int, *, local: bool
) -> Iterator[FileScanTask]:
    """Ask the indexes of whole files, one after another, as they are needed.

    Args:
        tasks: The files.
        find: What finds the rows of a file.
        threads: How many files are asked at once.
        local: Whether indexes are in the local file system.

    Yields:
        The files of which rows are left.
    """

    def narrowed(task: FileScanTask) -> FileScanTask | None:
        rows = None if task.matches_all else find(task.data_file)
        if rows is None:
            return task
        return replace(task, rows=rows) if len(rows) else None

    with WorkPool(threads, "index", is_local=local) as pool:
        for each in pool.in_order(narrowed, tasks):
            if each is not None:
                yield each
