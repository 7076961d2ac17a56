"""Changes of existing rows: by adding delete files, or by replacing data files.

Each operation was built by reading one snapshot, its *starting snapshot*. What others committed since then is validated
in every attempt by `skerry.iceberg.operations.conflicts`.

Spec: Iceberg spec, Row-level Deletes, Commit Conflict Resolution and Retry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from skerry.errors import ConflictError, SchemaError
from skerry.iceberg.manifests.manifest import EntryStatus, FileContent, ManifestEntry
from skerry.iceberg.metadata.state import MAIN, TableState
from skerry.iceberg.operations.change import DeleteKey, SnapshotChange
from skerry.iceberg.operations.conflicts import Conflicts, Isolation
from skerry.table.files.data_file import DataFile
from skerry.table.predicate import ALWAYS_TRUE, Predicate
from skerry.table.statistics.file_groups import SketchedFile, ThinnedGroup, key_of
from skerry.table.statistics.table_sample import SampleChange, delete_name, partition_name, sketched_files
from skerry.table.statistics.written_file import WrittenFile

__all__ = ["OverwriteFiles", "RewriteFiles", "RowDelta"]

NewFile = ManifestEntry | WrittenFile
"""A data file to add: a written file with samples, or a manifest entry."""


class _AddsFiles:
    """An operation that adds data files."""

    __slots__ = ()
    added: tuple[NewFile, ...]

    @property
    def data_files(self) -> tuple[DataFile, ...]:
        """The files that it adds."""
        return tuple(each.data_file for each in self.added)


@dataclass(frozen=True, slots=True)
class RowDelta(_AddsFiles):
    """Add delete files, and with them data files that contain the updated rows.

    A job that deletes and inserts rows must not lose concurrent changes of the same rows. Under any isolation, the data
    files of new deletes must still exist, and no other writer may have added deletion vectors for them. If rows are
    added too, which replace deleted ones, no other writer may have deleted rows of those files. Under serializable
    isolation, no other writer may have added rows that match the filter.

    Args:
        added: Data files to add.
        added_deletes: Delete files to add.
        removed_files: Locations of data files to remove.
        removed_deletes: Delete files to remove, such as the vectors that new ones replace.
        starting_snapshot_id: The snapshot that was read; None if the table had none.
        isolation: `serializable` or `snapshot`.
        conflict_filter: What the job read: rows that others added and that it excludes are not a conflict.
        ref: The branch.
        properties: Further entries of the snapshot summary.
        staged: Whether the branch does not move.
        referenced_files: Locations of the data files of the deletes that are not in their entries: one position delete
            file may apply to many data files.
        delete_changes: By location of a data file, the key of the deletes that it gains or loses
            (`skerry.table.statistics.file_groups.deletes_key`); derived from the new deletes alone if None.
        thinned: Groups of files for which the values removed by deleted rows are known.
        resketched: Files whose remaining rows were sampled.
    """

    added: tuple[NewFile, ...] = ()
    added_deletes: tuple[ManifestEntry, ...] = ()
    removed_files: tuple[str, ...] = ()
    removed_deletes: tuple[DeleteKey, ...] = ()
    starting_snapshot_id: int | None = None
    isolation: str = Isolation.SERIALIZABLE.value
    conflict_filter: Predicate = ALWAYS_TRUE
    ref: str = MAIN
    properties: Mapping[str, str] = field(default_factory=dict)
    staged: bool = False
    referenced_files: tuple[str, ...] = ()
    delete_changes: Mapping[str, int] | None = None
    thinned: tuple[ThinnedGroup, ...] = ()
    resketched: tuple[SketchedFile, ...] = ()

    def apply(self, base: TableState) -> SnapshotChange | None:
        """Decide the change of `base`; None without files.

        Raises:
            ConflictError: Changes since the starting snapshot conflict with this one (not retryable).
        """
        if not (self.added or self.added_deletes or self.removed_files or self.removed_deletes):
            return None
        _check_version(base, self.added_deletes)
        changed = {*_referenced(self.added_deletes), *self.referenced_files, *self.removed_files}
        conflicts = Conflicts(base, self.ref, self.starting_snapshot_id)
        conflicts.refuse_removed_files(changed, unless_rows_deleted=not self.added)
        conflicts.refuse_new_vectors(changed)
        if self.added:
            conflicts.refuse_new_deletes(self.conflict_filter, of=changed)
        if Isolation.parse(self.isolation) is Isolation.SERIALIZABLE:
            conflicts.refuse_new_rows(self.conflict_filter)
        removes_rows = bool(self.added_deletes or self.removed_files)
        if removes_rows or self.removed_deletes:
            operation = "overwrite" if self.added else "delete"
        else:
            operation = "append"
        return SnapshotChange(
            operation=operation,
            added=_entries(self.added),
            samples=self._sample_change(base),
            ref=self.ref,
            properties=self.properties,
            staged=self.staged,
            added_deletes=self.added_deletes,
            removed=frozenset(self.removed_files),
            removed_deletes=frozenset(self.removed_deletes),
        )

    def _sample_change(self, base: TableState) -> SampleChange:
        changes = self.delete_changes
        return replace(
            _sample_change(self.added, self.removed_files),
            deletes=_delete_changes(self.added_deletes, self.referenced_files) if changes is None else changes,
            thinned=self.thinned,
            resketched=self.resketched,
            rows_gone=_rows_gone(base, self.added_deletes, self.referenced_files),
        )


@dataclass(frozen=True, slots=True)
class OverwriteFiles(_AddsFiles):
    """Replace data files by others with different rows: copy-on-write changes and overwrites.

    Under any isolation, the removed files must still exist, and no other writer may have deleted rows of them. Under
    serializable isolation, no other writer may have added rows that match the filter.

    Args:
        added: Data files to add.
        removed_files: Locations of the data files to remove.
        starting_snapshot_id: The snapshot that was read; None if the table had none.
        isolation: `serializable` or `snapshot`.
        conflict_filter: What the job read.
        ref: The branch.
        properties: Further entries of the snapshot summary.
        staged: Whether the branch does not move.
        resketched: Remaining files that were sampled again because their group loses others.
    """

    added: tuple[NewFile, ...] = ()
    removed_files: tuple[str, ...] = ()
    starting_snapshot_id: int | None = None
    isolation: str = Isolation.SERIALIZABLE.value
    conflict_filter: Predicate = ALWAYS_TRUE
    ref: str = MAIN
    properties: Mapping[str, str] = field(default_factory=dict)
    staged: bool = False
    resketched: tuple[SketchedFile, ...] = ()

    def apply(self, base: TableState) -> SnapshotChange | None:
        """Decide the replacement in `base`; None without files.

        Raises:
            ConflictError: Changes since the starting snapshot conflict with this one (not retryable).
        """
        if not (self.added or self.removed_files):
            return None
        removed = frozenset(self.removed_files)
        conflicts = Conflicts(base, self.ref, self.starting_snapshot_id)
        conflicts.refuse_removed_files(removed)
        conflicts.refuse_new_deletes(self.conflict_filter, of=removed)
        if Isolation.parse(self.isolation) is Isolation.SERIALIZABLE:
            conflicts.refuse_new_rows(self.conflict_filter)
        operation = "append" if not removed else "overwrite" if self.added else "delete"
        change = replace(_sample_change(self.added, self.removed_files), resketched=self.resketched)
        return SnapshotChange(
            operation=operation,
            added=_entries(self.added),
            samples=change,
            ref=self.ref,
            properties=self.properties,
            staged=self.staged,
            removed=removed,
        )


@dataclass(frozen=True, slots=True)
class RewriteFiles(_AddsFiles):
    """Replace data files by others with the same rows: compaction.

    The snapshot's operation is `replace`, and the table's fresh sketches are carried over. No other writer may have
    deleted rows of the removed files in the meantime, except by equality deletes if the new files keep a sequence
    number: then those deletes are also younger than the new files, and still apply.

    Args:
        added: Data files to add.
        removed_files: Locations of the data files to remove.
        removed_deletes: Delete files to remove, since no data file needs them.
        sequence_number: Data sequence number of the new files, usually that of the starting snapshot; None for that of
            the commit.
        starting_snapshot_id: The snapshot that was read.
        ref: The branch.
        properties: Further entries of the snapshot summary.
        staged: Whether the branch does not move.
        added_deletes: Delete files to add, such as vectors that replace many small position delete files.
        delete_changes: By location of a data file, the key of the deletes that it gains or loses, which delete the same
            rows (`skerry.table.statistics.file_groups.deletes_key`).
    """

    added: tuple[NewFile, ...] = ()
    removed_files: tuple[str, ...] = ()
    removed_deletes: tuple[DeleteKey, ...] = ()
    sequence_number: int | None = None
    starting_snapshot_id: int | None = None
    ref: str = MAIN
    properties: Mapping[str, str] = field(default_factory=dict)
    staged: bool = False
    added_deletes: tuple[ManifestEntry, ...] = ()
    delete_changes: Mapping[str, int] = field(default_factory=dict)

    def apply(self, base: TableState) -> SnapshotChange | None:
        """Decide the replacement in `base`; None without files to remove.

        Raises:
            ConflictError: Changes since the starting snapshot conflict with this one (not retryable).
            SchemaError: Files are added and none removed, which would add rows; or the sequence number is not used yet.
        """
        if not (self.removed_files or self.removed_deletes):
            if self.added or self.added_deletes:
                raise SchemaError("a rewrite can only replace files, but none are removed")
            return None
        _check_version(base, self.added_deletes)
        removed, referenced = frozenset(self.removed_files), _referenced(self.added_deletes)
        conflicts = Conflicts(base, self.ref, self.starting_snapshot_id)
        conflicts.refuse_removed_files(removed | referenced)
        conflicts.refuse_new_vectors(referenced)
        conflicts.refuse_new_deletes(ALWAYS_TRUE, of=removed, by_keys=self.sequence_number is None)
        # concurrent equality deletes still apply to the new files, but are not in their samples
        rows_gone: dict[str | None, int] = {None: 0} if conflicts.may_have_new_key_deletes() else {}
        change = replace(
            _sample_change(self.added, self.removed_files),
            same_rows=True,
            rows_gone=rows_gone,
            deletes=self.delete_changes,
        )
        return SnapshotChange(
            operation="replace",
            added=self._numbered(base),
            samples=change,
            ref=self.ref,
            properties=self.properties,
            staged=self.staged,
            added_deletes=self.added_deletes,
            removed=removed,
            removed_deletes=frozenset(self.removed_deletes),
        )

    def _numbered(self, base: TableState) -> tuple[ManifestEntry, ...]:
        """The new files with the sequence number that they keep; version 1 has none."""
        entries, number = _entries(self.added), self.sequence_number
        if number is None or base.metadata.format_version == 1:
            return entries
        last = base.metadata.last_sequence_number
        if number > last:
            raise SchemaError(f"rewritten files cannot keep sequence number {number}: the table's last is {last}")
        return tuple(replace(entry, sequence_number=number) for entry in entries)


def _entries(files: Iterable[NewFile]) -> tuple[ManifestEntry, ...]:
    return tuple(
        ManifestEntry(EntryStatus.ADDED, file.data_file) if isinstance(file, WrittenFile) else file for file in files
    )


def _sample_change(added: Iterable[NewFile], removed: Iterable[str]) -> SampleChange:
    """The sample change of added and removed files; manifest entries have no samples."""
    files = tuple(added)
    written = [file for file in files if isinstance(file, WrittenFile)]
    sampled, unsampled_files = sketched_files(written)
    unsampled_files += len(files) - len(written)
    return SampleChange(added=sampled, unsampled_files=unsampled_files, removed=frozenset(removed))


def _delete_changes(deletes: Iterable[ManifestEntry], referenced: Iterable[str]) -> dict[str, int]:
    """The keys of the deletes that data files gain."""
    changes: dict[str, int] = {}
    for entry in deletes:
        if entry.content is FileContent.POSITION_DELETES:
            named = entry.referenced_data_file
            key = key_of(delete_name(entry.data_file.location, entry.content_offset))
            for location in referenced if named is None else (named,):
                changes[location] = changes.get(location, 0) ^ key
    return changes


def _rows_gone(
    base: TableState, deletes: Iterable[ManifestEntry], referenced: tuple[str, ...]
) -> dict[str | None, int]:
    """The keys of deletes that do not name their data files, by the partition to which they apply; None for all."""
    specs = base.metadata.specs()
    gone: dict[str | None, int] = {}
    for entry in deletes:
        by_keys = entry.content is FileContent.EQUALITY_DELETES
        if not by_keys and (entry.referenced_data_file is not None or referenced):
            continue
        file = entry.data_file
        everywhere = specs[file.spec_id].is_unpartitioned()
        partition = None if everywhere else partition_name(file.spec_id, file.partition)
        gone[partition] = gone.get(partition, 0) ^ key_of(delete_name(file.location, None))
    return gone


def _referenced(deletes: Iterable[ManifestEntry]) -> set[str]:
    """The data files that deletes name; position deletes of several files name none."""
    return {entry.referenced_data_file for entry in deletes if entry.referenced_data_file is not None}


def _check_version(base: TableState, deletes: Iterable[ManifestEntry]) -> None:
    """Refuse delete files of another format version: the table may have been upgraded since they were written.

    Raises:
        ConflictError: Version 1 has no delete files, version 2 no vectors, and version 3 adds no position delete files.

    Spec: Iceberg spec, Row-level Deletes.
    """
    version = base.metadata.format_version
    for entry in deletes:
        positions = entry.content is FileContent.POSITION_DELETES
        if version >= 3 and positions and not entry.is_deletion_vector:
            problem = "version 3 adds deletion vectors, not position delete files"
        elif version < 3 and entry.is_deletion_vector:
            problem = "deletion vectors need version 3"
        elif version < 2:
            problem = "delete files need version 2"
        else:
            continue
        raise ConflictError(
            f"the delete files were written for another format version, the table has {version}: {problem}",
            retryable=False,
            location=entry.data_file.location,
            rule="Iceberg spec, Row-level Deletes",
        )
