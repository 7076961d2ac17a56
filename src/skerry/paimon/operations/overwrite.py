"""Replacing files: whole partitions, or files whose rows were rewritten.

Spec: docs/formats/paimon.md § 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from skerry.errors import ConflictError
from skerry.paimon.manifests.live_files import index_entries, live_entries
from skerry.paimon.manifests.manifest import FileKind, ManifestEntry
from skerry.paimon.metadata.snapshot import CommitKind
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.operations.change import CommitId, IndexChange, TableChange
from skerry.paimon.operations.conflicts import check_entries, check_indexes, check_levels
from skerry.paimon.operations.samples import replaced_samples
from skerry.paimon.planning.row_sections import is_dedicated_name
from skerry.paimon.writing.data_files import WrittenDataFile
from skerry.paimon.writing.layout import WriteLayout
from skerry.paimon.writing.table_writers import WrittenRows
from skerry.table.statistics.table_sample import SampleChange

__all__ = ["OverwritePartitions", "ReplaceFiles", "deleted"]


def deleted(entry: ManifestEntry) -> ManifestEntry:
    """The entry that deletes a file."""
    return replace(entry, kind=FileKind.DELETE)


def _rows_key(entry: ManifestEntry) -> object:
    """What files of columns of the same rows have in common."""
    first = entry.file.first_row_id
    return entry.file.file_name if first is None else (entry.partition, first)


class OverwritePartitions:
    """Replace everything that some partitions hold at the time of the commit.

    Args:
        layout: How the new files were written.
        written: The new files.
        choose: Which of the existing partitions (rows with arity) are replaced; all of them if None.
        commit_id: Who commits.
        properties: The snapshot's properties.

    Attributes:
        removed: The files that were replaced.
        removed_rows: Rows in them, except those that were deleted before.
        superseded: Changelog files, which an overwrite does not publish.
    """

    def __init__(
        self,
        layout: WriteLayout,
        written: WrittenRows,
        choose: Callable[[Collection[bytes]], Collection[bytes]] | None = None,
        *,
        commit_id: CommitId | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self._layout = layout
        self.files = tuple(file for file in written.files if not file.is_changelog)
        self._indexes = written.indexes
        self._choose = choose
        self._commit_id = commit_id or CommitId.fresh()
        self._properties = dict(properties or {})
        self.removed: list[ManifestEntry] = []
        self.removed_rows = 0
        self.superseded = [file for file in written.files if file.is_changelog]
        self.was_done = False

    def apply(self, base: PaimonState) -> TableChange | None:
        """The change, with what is replaced in the base."""
        live = live_entries(base)
        indexes = index_entries(base)
        if self._choose is not None:
            chosen = set(self._choose({entry.partition for entry in live}))
            live = [entry for entry in live if entry.partition in chosen]
            indexes = [entry for entry in indexes if entry.partition in chosen]
        self.removed = live
        marked = sum(vector.cardinality or 0 for entry in indexes for vector in entry.deletion_vectors_ranges or ())
        counts = {
            _rows_key(entry): entry.file.row_count for entry in live if not is_dedicated_name(entry.file.file_name)
        }
        self.removed_rows = sum(counts.values()) - marked
        if not live and not self.files:
            return None
        return TableChange(
            CommitKind.OVERWRITE,
            self._commit_id,
            (*map(deleted, live), *(file.entry() for file in self.files)),
            index=IndexChange(self._indexes, tuple(indexes)),
            samples=replaced_samples(self._layout, live, self.files),
            properties=self._properties,
        )


class ReplaceFiles:
    """Replace files by others that hold their rows, or the remaining ones.

    Args:
        layout: How the new files were written.
        removed: The files to remove.
        files: The files to add, and changelog files of a compaction.
        kind: COMPACT if the table's rows stay the same, else OVERWRITE.
        moved: Files to move from one level to another.
        index: Index files to add and remove.
        kept: Files that stay, and that the change relies on: those with new deletion vectors.
        deletes: By name of a file that stays, how the key of its deletes changes.
        check: Refuses a base with files that the work should have considered.
        commit_id: Who commits.
        properties: The snapshot's properties.
    """

    def __init__(  # noqa: PLR0913  options, by name
        self,
        layout: WriteLayout,
        removed: Collection[ManifestEntry],
        files: Collection[WrittenDataFile],
        kind: CommitKind,
        *,
        moved: Collection[ManifestEntry] = (),
        index: IndexChange | None = None,
        kept: Collection[ManifestEntry] = (),
        deletes: Mapping[str, int] | None = None,
        check: Callable[[PaimonState], None] | None = None,
        commit_id: CommitId | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self._layout = layout
        self._removed = tuple(removed)
        self.files = tuple(files)
        self._moved = tuple(moved)
        self._kind = kind
        self._index = index or IndexChange()
        self._kept = tuple(kept)
        self._deletes = dict(deletes or {})
        self._check = check
        self._commit_id = commit_id or CommitId.fresh()
        self._properties = dict(properties or {})
        self.superseded: list[WrittenDataFile] = []
        self.was_done = False

    def apply(self, base: PaimonState) -> TableChange | None:
        """The change, if nothing that it relies on has changed.

        Raises:
            ConflictError: A file was removed, or others have filled its level.
        """
        if not (self._removed or self.files or self._index):
            return None
        if self._check is not None:
            self._check(base)
        added = [file.entry() for file in self.files if not file.is_changelog]
        entries = (*map(deleted, self._removed), *self._moved, *added)
        touched = {entry.partition for entry in (*entries, *self._kept)}
        live = live_entries(base, touched)
        after = check_entries(live, entries)
        present = {entry.identity for entry in after}
        for entry in self._kept:
            if entry.identity not in present:
                raise ConflictError(
                    f"data file {entry.file.file_name} was removed by another writer",
                    location=base.name,
                    retryable=False,
                )
        if self._layout.has_keys:
            check_levels(after, self._layout.schema)
        check_indexes(index_entries(base), self._index, entries)
        return TableChange(
            self._kind,
            self._commit_id,
            entries,
            tuple(file.entry() for file in self.files if file.is_changelog),
            index=self._index,
            samples=self._samples(live),
            properties=self._properties,
        )

    def _samples(self, live: Collection[ManifestEntry]) -> SampleChange:
        """The effect on samples; files that only move to another level keep theirs."""
        moved = {entry.file.file_name for entry in self._moved}
        removed = [entry for entry in self._removed if entry.file.file_name not in moved]
        gone = {entry.identity for entry in self._removed}
        touched = {(entry.partition, entry.bucket) for entry in self._removed}
        others = [entry for entry in live if entry.identity not in gone and (entry.partition, entry.bucket) in touched]
        change = replaced_samples(
            self._layout,
            removed,
            self.files,
            same_rows=self._kind is CommitKind.COMPACT,
            is_newest=not (self._layout.has_keys and any(entry.file.level == 0 for entry in others)),
        )
        return replace(change, deletes=self._deletes)
