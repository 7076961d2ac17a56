"""Results of operations on tables, for all table formats; and the options of a compaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa

from skerry.arguments import check_whole_number
from skerry.errors import SchemaError
from skerry.table.records import Record, Records
from skerry.table.table_files import FileKind, TableFile

__all__ = [
    "AnalyzeSummary",
    "ChangeSummary",
    "CompactOptions",
    "CompactSummary",
    "DeletesSummary",
    "ExpireSummary",
    "FileIndexSummary",
    "IndexAdvice",
    "IndexAdvices",
    "IndexSummary",
    "ManifestSummary",
    "MigrationSummary",
    "OrphanFile",
    "OrphanSummary",
    "PartitionExpireSummary",
    "RelocationSummary",
    "RowChangeSummary",
    "TableIndex",
    "TableIndexes",
    "TableRelocationSummary",
]


@dataclass(frozen=True, slots=True)
class RowChangeSummary(Record):
    """The result of a change of rows.

    Args:
        snapshot_id: The snapshot that contains the changes, or the previous one if nothing changed; None if there is
            none.
        inserted_rows: Rows that were inserted.
        updated_rows: Rows that were updated; None if the table was not read.
        deleted_rows: Rows that were deleted; None if the table was not read.
        added_files: Data files written.
        removed_files: Data files that are no longer in the table.
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
class AnalyzeSummary(Record):
    """The result of an analyze.

    Args:
        snapshot_id: The snapshot that the statistics describe; None for a table without rows.
        columns: Columns whose sketches are published.
        files: Files read: those that no sample covered.
        rows: Rows in them.
    """

    snapshot_id: int | None
    columns: int = 0
    files: int = 0
    rows: int = 0


@dataclass(frozen=True, slots=True)
class IndexSummary(Record):
    """The result of indexing data files.

    Args:
        files: Data files that have new indexes.
        rows: Rows in them.
        size_bytes: The size of these indexes.
    """

    files: int = 0
    rows: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class TableIndex(Record):
    """An index of a table.

    Args:
        column: The indexed column.
        kind: `hash`, `text` or `btree`.
        tokenizer: What a word is; None for others than `text`.
        files: Data files of the current snapshot.
        indexed_files: Those of them that have the index. The others are read as without it.
        size_bytes: The size of the indexes of these files; one file may hold indexes of several columns.
    """

    column: str
    kind: str
    tokenizer: str | None
    files: int
    indexed_files: int
    size_bytes: int


class TableIndexes(Records[TableIndex]):
    """The indexes of a table; a table in a notebook."""

    title = "Indexes"


@dataclass(frozen=True, slots=True)
class IndexAdvice(Record):
    """What a hash index of a column would cost, and would have saved; estimates.

    Args:
        column: The column.
        conditions: How many of the conditions ask for its values.
        size_bytes: The size of the index of all files.
        files: Data files that these conditions read now, in all.
        skipped_files: Those of them that the index would have left out.
        read_bytes: The size of the files.
        skipped_bytes: What of it would not have been read.
    """

    column: str
    conditions: int
    size_bytes: int
    files: int
    skipped_files: int
    read_bytes: int
    skipped_bytes: int


class IndexAdvices(Records[IndexAdvice]):
    """What indexes would have saved, by column; a table in a notebook."""

    title = "Indexes that would help"


@dataclass(frozen=True, slots=True)
class CompactSummary(Record):
    """The result of a compaction, or of its dry run.

    Args:
        snapshot_id: The snapshot with the new files, or the current one if nothing was done; None for a
            table without rows.
        groups: Groups of files that were rewritten.
        rewritten_files: Data files that were replaced.
        rewritten_bytes: Their size.
        moved_files: Data files that only changed their level; Paimon only.
        added_files: Data files that replace them; 0 in a dry run.
        added_bytes: Their size.
        rows: Rows in the new files.
        removed_delete_files: Delete files, or deletion vectors, that no data file needs any longer.
        reasons: How many groups were rewritten, by reason.
        conflicts: Groups given up because other writers kept changing their rows.
        dry_run: Whether this was only planned.
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
    """Options of a compaction, for all table formats.

    Args:
        sort_by: Rewrite all files, sorted by these columns.
        z_order: Rewrite all files, clustered along a Z-order curve of these columns.
        hilbert: Rewrite all files, clustered along a Hilbert curve of these columns.
        target_file_size_bytes: The target size of files; the table's property if None.
        min_input_files: Small files are combined if a partition has at least this many; the table format's default if
            None.
        min_deletes: Deletes are applied if a data file has at least this many delete files; None leaves deletes alone.
        full: Whether every file is rewritten.
        dry_run: Whether to only report what would be done.

    Raises:
        SchemaError: A number is not one, or too small, or several orders were given.
    """

    sort_by: Sequence[str] | None = None
    z_order: Sequence[str] | None = None
    hilbert: Sequence[str] | None = None
    target_file_size_bytes: int | None = None
    min_input_files: int | None = None
    min_deletes: int | None = 1
    full: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        if sum(order is not None for order in (self.sort_by, self.z_order, self.hilbert)) > 1:
            raise SchemaError("only one of sort_by, z_order and hilbert can be given")
        check_whole_number("target_file_size_bytes", self.target_file_size_bytes, 1)
        check_whole_number("min_input_files", self.min_input_files, 2)
        check_whole_number("min_deletes", self.min_deletes, 1)

    @property
    def curve(self) -> Sequence[str] | None:
        """The columns of a curve, of either kind."""
        return self.z_order if self.hilbert is None else self.hilbert


@dataclass(frozen=True, slots=True)
class ExpireSummary(Record):
    """What was removed, or would be.

    Args:
        snapshot_ids: The expired snapshots.
        refs: Branches and tags that were too old.
        files: The deleted files; empty if the snapshots expired but deleting failed, which is logged.
        kept_outside: Files that are no longer referenced but are kept because they are not below the table's folder.
        dry_run: Whether nothing was changed.
        changelog_ids: Snapshots of Paimon tables whose changelogs had outlived them, and have expired now.
    """

    snapshot_ids: tuple[int, ...] = ()
    refs: tuple[str, ...] = ()
    files: tuple[TableFile, ...] = ()
    kept_outside: tuple[TableFile, ...] = ()
    dry_run: bool = False
    changelog_ids: tuple[int, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Total size of the files in bytes."""
        return sum(file.size_bytes for file in self.files)

    def count(self, kind: FileKind) -> int:
        """Number of files of a kind."""
        return sum(file.kind is kind for file in self.files)


@dataclass(frozen=True, slots=True)
class DeletesSummary(Record):
    """The result of a rewrite of delete files, or of its dry run.

    Args:
        snapshot_id: The snapshot with the new delete files, or the current one if nothing was done; None for a
            table without rows.
        data_files: Data files whose deletes were merged.
        rewritten_delete_files: Delete files, or vectors, that were replaced.
        added_delete_files: Their replacements; 0 in a dry run.
        removed_delete_files: Delete files that no data file needed.
        dry_run: Whether nothing was changed.
    """

    snapshot_id: int | None
    data_files: int = 0
    rewritten_delete_files: int = 0
    added_delete_files: int = 0
    removed_delete_files: int = 0
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class FileIndexSummary(Record):
    """The result of a rewrite of file indexes, or of its dry run.

    Args:
        snapshot_id: The snapshot with the new indexes, or the current one if nothing was done; None for a table
            without rows.
        data_files: Data files whose indexes were rewritten.
        read_bytes: Their size.
        index_files: Indexes written beside them; the others are small enough for the manifest. 0 in a dry run.
        dry_run: Whether nothing was changed.
    """

    snapshot_id: int | None
    data_files: int = 0
    read_bytes: int = 0
    index_files: int = 0
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class PartitionExpireSummary(Record):
    """The partitions that expired, or would.

    Args:
        snapshot_id: The snapshot without them, or the current one if nothing was done; None for a table without rows.
        partitions: Their names, such as `day=2026-11-01`.
        files: Data files in them.
        rows: Rows in these files.
        dry_run: Whether nothing was changed.
    """

    snapshot_id: int | None
    partitions: tuple[str, ...] = ()
    files: int = 0
    rows: int = 0
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class ManifestSummary(Record):
    """The result of a rewrite of manifests, or of its dry run.

    Args:
        snapshot_id: The snapshot with the new manifests, or the current one if nothing was done; None for a table
            without rows.
        rewritten_manifests: Manifests that were replaced.
        rewritten_bytes: Their size.
        added_manifests: Their replacements; 0 in a dry run.
        added_bytes: Their size.
        kept_manifests: Manifests that were left unchanged.
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
class OrphanFile(Record):
    """A file that nothing needs.

    Args:
        location: Its location.
        size_bytes: Its size.
        modified: When it was last written, with a time zone.
    """

    location: str
    size_bytes: int
    modified: datetime


@dataclass(frozen=True, slots=True)
class OrphanSummary(Record):
    """The result of a removal of orphans, or of its dry run.

    Args:
        files: The deleted files.
        saved: Files that were marked but became part of a commit before they were deleted.
        kept_alike: Files that seem unneeded but are kept: each may be a needed file that was not found, under another
            name.
        kept_tables: Folders of other tables inside this one's; their files are kept.
        listed_files: Files found in the table's folder.
        listed_bytes: Their size.
        reached_files: Files that the table needs, wherever they are.
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
        """Total size of the files in bytes."""
        return sum(file.size_bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class ChangeSummary(Record):
    """The result of applying change records to a table.

    Args:
        snapshot_id: The snapshot that contains the changes, or the previous one if nothing changed; None if there is
            none.
        records: Number of records.
        upserts: Keys that have a row after their last record.
        deletes: Keys that have none after their last record.
        applied: Whether the records were applied now; if not, the table already had the batch and nothing was read or
            written.
        inserted_rows: Rows that were inserted; None if the table was not read.
        updated_rows: Rows that were updated; None if the table was not read.
        deleted_rows: Rows that were deleted; None if the table was not read.
        added_files: Data files written.
        removed_files: Data files that are no longer in the table.
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
class MigrationSummary(Record):
    """The result of turning a folder into a table, or of its dry run.

    Args:
        files: Files that became the table's.
        size_bytes: Their size.
        schema: The table's columns.
        partition_by: Columns that the folders' names define.
        dry_run: Whether nothing was done.
    """

    files: int
    size_bytes: int
    schema: pa.Schema
    partition_by: tuple[str, ...]
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class TableRelocationSummary(Record):
    """What was or would be rewritten of one table.

    Args:
        table: `namespace.table`.
        format: `iceberg` or `paimon`.
        location: Its folder, in the new location.
        metadata_files: Metadata files written.
        manifest_lists: Manifest lists written.
        manifests: Manifests written; for a Paimon table all metadata.
        delete_files: Position delete files written.
        statistics_files: Statistics files written.
        size_bytes: Total bytes written.
        outside_files: Files of the table outside the old location, which keep their names.
        problem: Why nothing was rewritten; empty if there was no problem.
    """

    table: str
    format: str = "iceberg"
    location: str = ""
    metadata_files: int = 0
    manifest_lists: int = 0
    manifests: int = 0
    delete_files: int = 0
    statistics_files: int = 0
    size_bytes: int = 0
    outside_files: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class RelocationSummary(Record):
    """What a relocation did or would do.

    Args:
        source: The folder that the warehouse was created in; empty if it has not moved and nothing needs to be done.
        target: The folder that it is in.
        tables: The tables whose metadata named the old location.
        dry_run: Whether nothing was changed.
    """

    source: str
    target: str
    tables: tuple[TableRelocationSummary, ...] = ()
    dry_run: bool = False
