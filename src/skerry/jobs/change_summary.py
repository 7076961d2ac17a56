"""What change records have done to a table."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ChangeSummary"]


@dataclass(frozen=True, slots=True)
class ChangeSummary:
    """What change records have done to a table.

    Args:
        snapshot_id: The snapshot that holds the changes, the one before if there were none; None for a table without.
        records: Records that were given.
        upserts: Keys that have a row by their last record.
        deletes: Keys that have none by their last record.
        applied: Whether it was done now; else the table had the batch, and nothing was read or written.
        inserted_rows: Rows that are new; None if nobody looked whether their keys were there.
        updated_rows: Rows that have a new form; likewise.
        deleted_rows: Rows that are gone; likewise.
        added_files: Data files written.
        removed_files: Data files that the table does not have any more.
        added_delete_files: Delete files written.
    """

    snapshot_id: int | None
    records: int = 0
    upserts: int = 0
    deletes: int = 0
    applied: bool = True
    inserted_rows: int | None = 0
    updated_rows: int | None = 0
    deleted_rows: int | None = 0
    added_files: int = 0
    removed_files: int = 0
    added_delete_files: int = 0
