"""Explanation of a scan: what it will read, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from skerry.table.files.scan_task import ScanStep

__all__ = ["ExplainedPlan", "Explanation", "PlannedTasks"]


class PlannedTasks(Protocol):
    """The files that remain after planning."""

    def __len__(self) -> int: ...

    @property
    def size_bytes(self) -> int:
        """Total size of the files in bytes."""

    @property
    def unfiltered_count(self) -> int:
        """Number of files whose rows are all wanted."""


class ExplainedPlan(Protocol):
    """The parts of a plan that an explanation shows; `skerry.table.files.scan_task.ScanPlan` is one."""

    @property
    def tasks(self) -> PlannedTasks:
        """The files to read."""

    @property
    def steps(self) -> tuple[ScanStep, ...]:
        """The steps of planning."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a scan will do; `str()` formats it for people.

    Args:
        table: The table's name.
        snapshot_id: The snapshot that is read; None for a table without snapshots.
        columns: Names of the returned columns.
        where: The condition as it was parsed, in SQL.
        limit: Maximum number of rows.
        plan: The files, and the steps of planning.
        split_bytes: Maximum size of a task, if files can be split.
        split_count: Number of tasks.
        planned_by: What planned the scan, if not this process from the table's metadata.
    """

    table: str
    snapshot_id: int | None
    columns: tuple[str, ...]
    where: str
    limit: int | None
    plan: ExplainedPlan
    split_bytes: int
    split_count: int
    planned_by: str | None = None

    def _repr_html_(self) -> str:
        from skerry.markup import Column, definitions, element, table
        from skerry.markup.plots import share_bar
        from skerry.table.display import framed
        from skerry.table.work.quantities import size

        columns = [
            Column[ScanStep]("step", lambda step: step.name),
            Column[ScanStep]("kept", lambda step: f"{step.kept:,} of {step.total:,}", right=True),
            Column[ScanStep](
                "", lambda step: share_bar(step.kept / step.total if step.total else 0.0, f"{step.kept:,}")
            ),
            Column[ScanStep]("rows", lambda step: "" if step.kept_rows is None else f"{step.kept_rows:,}", right=True),
            Column[ScanStep](
                "left out", lambda step: [element("div", f"{number:,} {reason}") for reason, number in step.dropped]
            ),
        ]
        tasks = self.plan.tasks
        facts = {
            "snapshot": str(self.snapshot_id),
            "where": element("code", self.where),
            "to read": f"{size(tasks.size_bytes)} in {len(tasks):,} files",
            "without filter": f"{tasks.unfiltered_count:,}",
            "tasks": f"{self.split_count:,}",
        }
        return framed(f"Scan of {self.table}", definitions(facts), table(list(self.plan.steps), columns, caption=""))

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        lines = [f"scan of {self.table}, snapshot {self.snapshot_id}", f"  columns  {', '.join(self.columns)}"]
        lines.append(f"  where    {self.where}")
        if self.limit is not None:
            lines.append(f"  limit    {self.limit:,}")
        if self.planned_by is not None:
            lines.append(f"  planned  by {self.planned_by}")
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
