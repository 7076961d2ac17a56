"""What changes of a table have done, in numbers, whatever the table format."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RowChanges"]


@dataclass(frozen=True, slots=True)
class RowChanges:
    """What a change of rows has done.

    Args:
        snapshot_id: The snapshot that holds the changes, the one before if there were none; None for a table without.
        inserted_rows: Rows that were written as new ones.
        updated_rows: Rows that have a new form; None if nobody looked.
        deleted_rows: Rows that are gone; likewise.
        added_files: Data files written.
        removed_files: Data files that the table does not have any more.
        added_delete_files: Delete files written; a deletion vector counts as one.
    """

    snapshot_id: int | None
    inserted_rows: int = 0
    updated_rows: int | None = 0
    deleted_rows: int | None = 0
    added_files: int = 0
    removed_files: int = 0
    added_delete_files: int = 0
