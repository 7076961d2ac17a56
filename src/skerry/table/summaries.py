"""What operations on tables have done, in numbers, whatever the table format; and how a compaction is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa

from skerry.table.table_files import FileKind, TableFile

__all__ = [
    "AnalyzeSummary",
    "ChangeSummary",
    "CompactOptions",
    "CompactSummary",
    "DeletesSummary",
    "ExpireSummary",
    "ManifestSummary",
    "MigrationSummary",
    "OrphanFile",
    "OrphanSummary",
    "RowChanges",
]


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


@dataclass(frozen=True, slots=True)
class AnalyzeSummary:
    """What an analyze did.

    Args:
        snapshot_id: The snapshot that was described, None for a table without rows.
        columns: Columns whose sketches are published.
        files: Files read: those that no sample covered.
        rows: Rows in them.
    """

    snapshot_id: int | None
    columns: int = 0
    files: int = 0
    rows: int = 0


@dataclass(frozen=True, slots=True)
class CompactSummary:
    """What a compaction did, or would do.

    Args:
        snapshot_id: The snapshot that holds the new files, or the one that was read if nothing was done; None for a
            table without rows.
        groups: Groups of files written anew.
        rewritten_files: Data files that are gone.
        rewritten_bytes: Their size.
        moved_files: Data files that only changed their level; Paimon only.
        added_files: Data files that replace them; 0 in a dry run.
        added_bytes: Their size.
        rows: Rows in the new files.
        removed_delete_files: Delete files, or deletion vectors, that no data file needs any more.
        reasons: How many groups were rewritten, by reason.
        conflicts: Groups given up, because other writers changed their rows again and again.
        dry_run: Whether all this was only planned.
    """

    snapshot_id: int | None
    groups: int = 0
    rewritten_files: int = 0
    rewritten_bytes: int = 0
    moved_files: int = 0
    added_files: int = 0
    added_bytes: int = 0
    rows: int = 0
    removed_delete_files: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    conflicts: int = 0
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class CompactOptions:
    """How a caller wants files to be compacted, whatever the table format.

    Args:
        sort_by: Write all files anew, their rows sorted like this.
        z_order: Write all files anew, their rows along a Z-curve of these columns.
        target_file_size_bytes: The size that files are to have; the table's property if None.
        min_input_files: So many small files of a partition are made one; what the table format holds for enough if
            None.
        min_deletes: So many delete files of a data file are folded in; None leaves deletes alone.
        full: Whether every file is rewritten.
        dry_run: Whether to tell only what would be done.
    """

    sort_by: Sequence[str] | None = None
    z_order: Sequence[str] | None = None
    target_file_size_bytes: int | None = None
    min_input_files: int | None = None
    min_deletes: int | None = 1
    full: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class ExpireSummary:
    """What was forgotten and deleted, or would be.

    Args:
        snapshot_ids: The snapshots.
        refs: Branches and tags that were too old.
        files: The files; none if the snapshots are gone and deleting failed, which the log says.
        kept_outside: Files that nothing reaches any more, and that stay because they do not lie below the table.
        dry_run: Whether nothing was changed.
    """

    snapshot_ids: tuple[int, ...] = ()
    refs: tuple[str, ...] = ()
    files: tuple[TableFile, ...] = ()
    kept_outside: tuple[TableFile, ...] = ()
    dry_run: bool = False

    @property
    def size_bytes(self) -> int:
        """Bytes of the files."""
        return sum(file.size_bytes for file in self.files)

    def count(self, kind: FileKind) -> int:
        """How many files of a kind there are among them."""
        return sum(file.kind is kind for file in self.files)


@dataclass(frozen=True, slots=True)
class DeletesSummary:
    """What was done, or would be.

    Args:
        snapshot_id: The snapshot that has the new delete files, or the one before if nothing was done; None for a
            table without rows.
        data_files: Data files whose deletes were put together.
        rewritten_delete_files: Delete files, or vectors, in place of which there are new ones.
        added_delete_files: Those; 0 in a dry run.
        dropped_delete_files: Delete files that no data file needed.
        dry_run: Whether nothing was changed.
    """

    snapshot_id: int | None
    data_files: int = 0
    rewritten_delete_files: int = 0
    added_delete_files: int = 0
    dropped_delete_files: int = 0
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class ManifestSummary:
    """What was done, or would be.

    Args:
        snapshot_id: The snapshot that has the new manifests, or the one before if nothing was done; None for a table
            without rows.
        rewritten_manifests: Manifests whose entries lie in others now.
        rewritten_bytes: Their size.
        added_manifests: Manifests in their place; 0 in a dry run.
        added_bytes: Their size.
        kept_manifests: Manifests that were left as they are.
        dry_run: Whether nothing was changed.
    """

    snapshot_id: int | None
    rewritten_manifests: int = 0
    rewritten_bytes: int = 0
    added_manifests: int = 0
    added_bytes: int = 0
    kept_manifests: int = 0
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class OrphanFile:
    """A file that nothing needs.

    Args:
        location: Where it lies.
        size_bytes: Its size.
        modified: When it was last written, with a time zone.
    """

    location: str
    size_bytes: int
    modified: datetime


@dataclass(frozen=True, slots=True)
class OrphanSummary:
    """What was deleted, or would be.

    Args:
        files: The files.
        saved: Files that were marked, and that a commit took up before they were deleted.
        kept_alike: Files that nothing seems to need, and that stay because a file that is needed, and was not found,
            may be the same one under another name.
        kept_tables: Folders of other tables inside of this one's; what is in them stays.
        listed_files: Files found in the table's folder.
        listed_bytes: Their size.
        reached_files: Files that the table needs, wherever they lie.
        dry_run: Whether nothing was deleted.
        logs: The logs that were written.
    """

    files: tuple[OrphanFile, ...] = ()
    saved: tuple[OrphanFile, ...] = ()
    kept_alike: tuple[OrphanFile, ...] = ()
    kept_tables: tuple[str, ...] = ()
    listed_files: int = 0
    listed_bytes: int = 0
    reached_files: int = 0
    dry_run: bool = False
    logs: tuple[str, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Bytes of the files."""
        return sum(file.size_bytes for file in self.files)


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


@dataclass(frozen=True, slots=True)
class MigrationSummary:
    """What a folder became, or would become.

    Args:
        files: Files that are the table's.
        size_bytes: Their size.
        schema: The table's columns.
        partition_by: Columns that folders name.
        dry_run: Whether nothing was done.
    """

    files: int
    size_bytes: int
    schema: pa.Schema
    partition_by: tuple[str, ...]
    dry_run: bool = False
