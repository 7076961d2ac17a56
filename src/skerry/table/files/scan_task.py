"""What planning hands to reading: the files that remain, and how it came to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from skerry.table.files.data_file import DataFile, DeleteFile

__all__ = ["FileScanTask", "ScanPlan", "ScanStep", "sum_steps"]


@dataclass(frozen=True, slots=True)
class FileScanTask:
    """A data file to be read, or a part of one; small and picklable.

    Args:
        data_file: The file, without the column metrics that planning is done with.
        matches_all: Whether its metrics prove that every row that is not deleted is wanted, so that none needs testing.
        constants: Physical values by field id, for columns that the file may lack: those of identity partitions, and
            defaults of columns added later.
        deletes: What takes rows away.
        sequence_number: Data sequence number of the file; None where the table format has none.
        first_row_id: Row id of the file's first row; None where rows have no ids.
        start_byte: Row groups that begin before this offset belong to another task.
        end_byte: Row groups that begin at or after this offset belong to another task; None for the end of the file.
    """

    data_file: DataFile
    matches_all: bool = False
    constants: Mapping[int, Any] = field(default_factory=dict)
    deletes: tuple[DeleteFile, ...] = ()
    sequence_number: int | None = None
    first_row_id: int | None = None
    start_byte: int = 0
    end_byte: int | None = None


@dataclass(frozen=True, slots=True)
class ScanStep:
    """One step of planning: how much came in, how much went on, and why the rest did not.

    Args:
        name: What was judged, and by what.
        total: Manifests or files that came in.
        kept: Those that went on.
        total_rows: Rows in those that came in; None if the metadata does not tell.
        kept_rows: Rows in those that went on; likewise.
        dropped: Why the others did not go on, as reason and number.
    """

    name: str
    total: int
    kept: int
    total_rows: int | None
    kept_rows: int | None
    dropped: tuple[tuple[str, int], ...] = ()


def sum_steps(steps: Iterable[ScanStep], name: str) -> ScanStep:
    """The same step of several plans, taken together."""
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
        tasks: What to read, in the order of the metadata; a sequence that need not hold all its tasks at a time.
        steps: How planning came to it.
    """

    tasks: Tasks
    steps: tuple[ScanStep, ...]
