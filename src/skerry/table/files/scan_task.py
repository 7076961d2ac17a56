"""The result of planning a scan: the files to read, and how they were chosen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from skerry.table.files.data_file import DataFile, DeleteFile

__all__ = ["FileScanTask", "ScanPlan", "ScanStep", "sum_steps"]


@dataclass(frozen=True, slots=True)
class FileScanTask:
    """A data file to read, or a part of one; small and picklable.

    Args:
        data_file: The file, without the column metrics that planning used.
        matches_all: Whether its metrics prove that every row that is not deleted matches, so that none needs testing.
        constants: Physical values by field id, for columns that the file may lack: those of identity partitions, and
            defaults of columns added later.
        deletes: The delete files that apply.
        sequence_number: Data sequence number of the file; None if the table format has none.
        first_row_id: Row id of the file's first row; None if rows have no ids.
        start_byte: Row groups that begin before this offset belong to another task.
        end_byte: Row groups that begin at or after this offset belong to another task; None for the end of the file.
        rows: int64[n], ascending positions in the file: no other row matches. None if indexes leave all rows.
    """

    data_file: DataFile
    matches_all: bool = False
    constants: Mapping[int, Any] = field(default_factory=dict)
    deletes: tuple[DeleteFile, ...] = ()
    sequence_number: int | None = None
    first_row_id: int | None = None
    start_byte: int = 0
    end_byte: int | None = None
    rows: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True)
class ScanStep:
    """One step of planning: how many files entered, how many remained, and why the others were dropped.

    Args:
        name: What was tested, and against what.
        total: Manifests or files that entered.
        kept: Those that remained.
        total_rows: Rows in those that entered; None if unknown.
        kept_rows: Rows in those that remained; None if unknown.
        dropped: Why the others were dropped, as reason and number.
    """

    name: str
    total: int
    kept: int
    total_rows: int | None
    kept_rows: int | None
    dropped: tuple[tuple[str, int], ...] = ()


def sum_steps(steps: Iterable[ScanStep], name: str) -> ScanStep:
    """The sums of a step of several plans."""
    total = kept = total_rows = kept_rows = 0
    dropped: Counter[str] = Counter()
    for step in steps:
        total, kept = total + step.total, kept + step.kept
        total_rows, kept_rows = total_rows + (step.total_rows or 0), kept_rows + (step.kept_rows or 0)
        dropped.update(dict(step.dropped))
    return ScanStep(name, total, kept, total_rows, kept_rows, tuple(dropped.items()))


Tasks = TypeVar("Tasks", bound=Sequence[FileScanTask], covariant=True)


@dataclass(frozen=True, slots=True)
class ScanPlan(Generic[Tasks]):
    """The files of a scan.

    Args:
        tasks: What to read, in the order of the metadata; a sequence that need not have all tasks in memory.
        steps: The steps of planning.
    """

    tasks: Tasks
    steps: tuple[ScanStep, ...]
