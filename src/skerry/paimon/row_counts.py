"""What a change of rows has done."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RowCounts"]


@dataclass(frozen=True, slots=True)
class RowCounts:
    """What a change of rows has done.

    Args:
        snapshot_id: The snapshot that holds the change, the one before if there was none; None for a table without.
        inserted_rows: Rows that were written as new ones.
        updated_rows: Rows that have a new form; None if nobody looked.
        deleted_rows: Rows that are gone; likewise.
        added_files: Data files written.
        removed_files: Data files that the table does not have any more.
        added_vectors: Deletion vectors written.
    """

    snapshot_id: int | None
    inserted_rows: int = 0
    updated_rows: int | None = 0
    deleted_rows: int | None = 0
    added_files: int = 0
    removed_files: int = 0
    added_vectors: int = 0
