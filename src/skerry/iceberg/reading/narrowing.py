"""What indexes leave of a plan's files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from skerry.iceberg.planning.planned_files import PlannedFiles
from skerry.table.files.data_file import DataFile
from skerry.table.files.scan_task import ScanPlan, ScanStep
from skerry.table.work.read_ahead import WorkPool

__all__ = ["narrow"]

_STEP: Final = "files by index"
_Rows = npt.NDArray[np.int64]


def narrow(
    plan: ScanPlan[PlannedFiles], find: Callable[[DataFile], _Rows | None], threads: int, *, local: bool
) -> ScanPlan[PlannedFiles]:
    """Ask the indexes of all files of a plan.

    Args:
        plan: The plan, of whole files.
        find: The rows of a file that indexes leave: int64[n], ascending; None if none helps.
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
