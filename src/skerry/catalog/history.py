"""A table's past and its branches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from skerry.catalog.handle import TableHandle

__all__ = ["Snapshot", "TableHistory"]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One state of a table's rows.

    Args:
        snapshot_id: Its id.
        parent_id: The snapshot that it was made from, None for the first.
        sequence_number: Order of commits; 0 in version 1 tables.
        timestamp: When it was committed, UTC.
        operation: `append`, `replace`, `overwrite` or `delete`.
        summary: What it added and removed, and totals, as text by key.
        has_statistics: Whether a statistics file is registered for it.
    """

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    timestamp: datetime
    operation: str
    summary: Mapping[str, str]
    has_statistics: bool


class TableHistory(TableHandle):
    """Snapshots, branches and tags of a table."""

    def snapshots(self) -> list[Snapshot]:
        """All snapshots that have not expired, oldest first."""
        metadata = self._table.state.metadata
        with_statistics = {file.snapshot_id for file in metadata.statistics}
        found = [
            Snapshot(
                snapshot_id=snapshot.snapshot_id,
                parent_id=snapshot.parent_snapshot_id,
                sequence_number=snapshot.sequence_number or 0,
                timestamp=datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC),
                operation=snapshot.summary.operation.value if snapshot.summary else "append",
                summary=dict(snapshot.summary.additional_properties) if snapshot.summary else {},
                has_statistics=snapshot.snapshot_id in with_statistics,
            )
            for snapshot in metadata.snapshots
        ]
        return sorted(found, key=lambda snapshot: (snapshot.sequence_number, snapshot.timestamp))

    def current_snapshot(self) -> Snapshot | None:
        """The snapshot that a scan reads; None for a table without rows so far."""
        current = self._table.state.snapshot()
        if current is None:
            return None
        return next(snapshot for snapshot in self.snapshots() if snapshot.snapshot_id == current.snapshot_id)

    def refs(self) -> dict[str, int]:
        """Snapshot ids by branch and tag name."""
        return {name: ref.snapshot_id for name, ref in self._table.state.metadata.refs.items()}

    def history(self) -> list[tuple[datetime, int]]:
        """When which snapshot became the current one, oldest first."""
        return [
            (datetime.fromtimestamp(entry.timestamp_ms / 1000, UTC), entry.snapshot_id)
            for entry in self._table.state.metadata.snapshot_log
        ]
