"""Scans of a table, current or historical; with `scan.fallback-branch`, of two branches.

Each partition is read from the branch itself if it exists there, else from the fallback branch. A partition exists if
it has files, even if a condition excludes all its rows.

Spec: docs/formats/paimon.md § 9.7; Paimon documentation, Manage Branches; Paimon Java, `FallbackReadFileStoreTable`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from skerry.paimon.metadata.fallback_branch import check_agreement, fallback_at_tag, fallback_at_time, fallback_state
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.metadata.time_travel import state_as_of, state_at_ref, state_at_snapshot, to_millis
from skerry.paimon.metadata.validation import check_readable
from skerry.paimon.planning.planned_splits import PlannedSplits, PlanUnion, SplitUnion
from skerry.paimon.reading.branches import BranchReader
from skerry.paimon.reading.rows import SplitReader
from skerry.paimon.reading.scan import PaimonScan
from skerry.table.arguments import Condition
from skerry.table.selection import check_snapshot

__all__ = ["FallbackScan", "scan"]


class FallbackScan(PaimonScan):
    """Rows of a branch, and of the partitions that exist only on its fallback branch.

    Args:
        state: As in `PaimonScan`, which has the other arguments.
        fallback: The other branch, with the snapshot to read.

    Raises:
        SchemaError: The branches have different columns; else as `PaimonScan`.
    """

    def __init__(self, state: PaimonState, fallback: PaimonState, **how: Any) -> None:
        check_readable(fallback.schema)
        check_agreement(state, fallback)
        self._fallback = fallback
        super().__init__(state, **how)

    def reads(self) -> list[tuple[SplitReader, PlannedSplits]]:
        """See `PaimonScan.reads`."""
        return list(zip(self.readers(), self._plan().splits.parts, strict=True))

    def readers(self) -> Sequence[SplitReader]:
        """See `PaimonScan.readers`."""
        return self.row_reader().readers

    @property
    def version(self) -> str:
        """See `PaimonScan.version`."""
        return f"{super().version} {self._fallback.branch} {self._fallback.version}"

    def row_reader(self) -> BranchReader:
        """See `PaimonScan.row_reader`."""
        return BranchReader((self._reader(self._state), self._reader(self._fallback)))

    def _plan(self) -> PlanUnion:
        own = self._plan_of(self._state, list_partitions=True)
        other = self._plan_of(self._fallback, own.partitions)
        steps = (replace(step, name=f"{self._fallback.branch}: {step.name}") for step in other.steps)
        return PlanUnion(SplitUnion((own.splits, other.splits)), (*own.steps, *steps))

    @property
    def _has_positions(self) -> bool:
        return super()._has_positions and not self._fallback.schema.primary_keys


def scan(
    state: PaimonState,
    columns: Sequence[str] | None = None,
    where: Condition | None = None,
    *,
    limit: int | None = None,
    snapshot: int | None = None,
    ref: str | None = None,
    as_of: datetime | None = None,
    threads: int | None = None,
    memory_bytes: int | None = None,
    highest_level: bool = False,
) -> PaimonScan:
    """Describe a read of a table, current or historical.

    Args:
        state: The newest state of a branch.
        columns: Dotted names, in the order of the result; all columns if None.
        where: SQL text, a PyArrow expression, or a predicate.
        limit: Maximum number of rows.
        snapshot: Read this snapshot.
        ref: Read the newest snapshot of this branch, or this tag.
        as_of: Read what was current at this time; UTC if it has no zone.
        threads: How many files are planned and read in parallel; by default one per core.
        memory_bytes: Approximate memory limit for reading and merging.
        highest_level: Whether only files of the highest level are read, which need no merging.

    Returns:
        The scan. Snapshots, tags and moments are read with the schema of their time, branches with their newest. The
        fallback branch is read as of the same time; for a tag, at its own tag of the same name.

    Raises:
        NotFoundError: The snapshot or reference does not exist, or nothing was current at that time.
        SchemaError: More than one of `snapshot`, `ref` and `as_of` is given, `columns` or `where` do not fit, or the
            fallback branch has other columns.
    """
    check_snapshot(snapshot, ref, as_of)
    fallback: PaimonState | None
    if snapshot is not None:
        chosen = state_at_snapshot(state, snapshot)
        fallback = None if chosen.snapshot is None else fallback_at_time(state, chosen.snapshot.time_millis)
    elif ref is not None:
        chosen = state_at_ref(state, ref)
        fallback = fallback_state(chosen) if chosen.branch == ref else fallback_at_tag(state, ref)
    elif as_of is not None:
        chosen, fallback = state_as_of(state, as_of), fallback_at_time(state, to_millis(as_of))
    else:
        chosen, fallback = state, fallback_state(state)
    how: dict[str, Any] = {
        "limit": limit,
        "threads": threads,
        "memory_bytes": memory_bytes,
        "highest_level": highest_level,
    }
    if fallback is None:
        return PaimonScan(chosen, columns=columns, where=where, **how)
    return FallbackScan(chosen, fallback, columns=columns, where=where, **how)
