"""What a scan will do, told before it does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from skerry.table.files.scan_task import ScanStep

__all__ = ["ExplainedPlan", "Explanation", "PlannedTasks"]


class PlannedTasks(Protocol):
    """What planning leaves to read."""

    def __len__(self) -> int: ...

    @property
    def size_bytes(self) -> int:
        """Bytes of the files."""

    @property
    def unfiltered_count(self) -> int:
        """Files whose rows are all wanted."""


class ExplainedPlan(Protocol):
    """A plan as an explanation needs it; `skerry.table.files.scan_task.ScanPlan` is one."""

    @property
    def tasks(self) -> PlannedTasks:
        """What is read."""

    @property
    def steps(self) -> tuple[ScanStep, ...]:
        """How planning came to it."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a scan will do; `str()` lays it out for people.

    Args:
        table: The table's name.
        snapshot_id: The snapshot that is read; None for a table without rows so far.
        columns: Names of the columns that are delivered.
        where: The condition as it was understood, in SQL.
        limit: Most rows.
        plan: Files and how planning came to them.
        split_bytes: How large tasks are at most where files can be cut .
        split_count: How many tasks that makes.
    """

    table: str
    snapshot_id: int | None
    columns: tuple[str, ...]
    where: str
    limit: int | None
    plan: ExplainedPlan
    split_bytes: int
    split_count: int

    def __str__(self) -> str:
        lines = [f"scan of {self.table}, snapshot {self.snapshot_id}", f"  columns  {', '.join(self.columns)}"]
        lines.append(f"  where    {self.where}")
        if self.limit is not None:
            lines.append(f"  limit    {self.limit:,}")
        width = max([25, *(len(step.name) + 1 for step in self.plan.steps)])
        for step in self.plan.steps:
            rows = "" if step.kept_rows is None else f"{step.kept_rows:,} of {step.total_rows:,} rows"
            lines.append(f"  {step.name:<{width}}{step.kept:>7,} of {step.total:>7,}  {rows}".rstrip())
            lines += [f"    dropped {count:>7,}  {reason}" for reason, count in step.dropped]
        files = self.plan.tasks
        lines.append(
            f"  to read                  {len(files):>7,} files, {files.size_bytes:,} bytes, "
            f"{files.unfiltered_count:,} without filter"
        )
        lines.append(f"  split                    {self.split_count:>7,} tasks of at most {self.split_bytes:,} bytes")
        return "\n".join(lines)
