"""Adding rows: to append tables, and changes by key to primary-key tables.

Sequence numbers determine which record of a key is the newest. They continue those of the bucket, so that when another
writer was first in a bucket, ours are raised: in append tables only the manifest records them, else files are
rewritten.

Spec: docs/formats/paimon.md § 4.1, § 8.7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from skerry.errors import ConflictError
from skerry.paimon.manifests.index_manifest import HASH
from skerry.paimon.manifests.live_files import index_entries, live_entries
from skerry.paimon.manifests.manifest import FileKind, ManifestEntry
from skerry.paimon.metadata.paths import POSTPONE_BUCKET
from skerry.paimon.metadata.snapshot import CommitKind
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.operations.change import CommitId, IndexChange, TableChange
from skerry.paimon.operations.conflicts import check_entries
from skerry.paimon.operations.lookup import find_commit
from skerry.paimon.operations.samples import added_samples
from skerry.paimon.writing.bucket_states import BucketStates
from skerry.paimon.writing.data_files import WrittenDataFile
from skerry.paimon.writing.dynamic_buckets import DynamicBuckets
from skerry.paimon.writing.layout import WriteLayout
from skerry.paimon.writing.renumbering import renumbered
from skerry.paimon.writing.table_writers import WrittenRows
from skerry.table.statistics.table_sample import SampleChange

__all__ = ["AppendRows"]


class AppendRows:
    """Publish what a writer has written.

    Args:
        layout: How the files were written.
        written: The files.
        bucket_states: The buckets as the writer knew them.
        indexes: The keys of dynamic buckets as the writer knew them; None for other tables.
        commit_id: Who commits.
        properties: The snapshot's properties.
        watermark: Event time that the rows have reached.
        exclusive: Whether it is a conflict when others have written to the same buckets since the writer began; in
            tables whose keys move between partitions, to any bucket, and always.
        replaces: The files whose rows waited for buckets, which they have now.

    Attributes:
        superseded: Files that were rewritten; nothing refers to them.
        was_done: Whether the commit existed before, so that nothing refers to the files.
    """

    def __init__(
        self,
        layout: WriteLayout,
        written: WrittenRows,
        bucket_states: BucketStates,
        indexes: DynamicBuckets | None = None,
        *,
        commit_id: CommitId | None = None,
        properties: Mapping[str, str] | None = None,
        watermark: int | None = None,
        exclusive: bool = False,
        replaces: Sequence[ManifestEntry] = (),
    ) -> None:
        self._layout = layout
        self.files = written.files
        self._indexes = written.indexes
        self._bucket_states = bucket_states
        self._known_indexes = indexes.base if indexes is not None else None
        self._commit_id = commit_id or CommitId.fresh()
        self._properties = dict(properties or {})
        self._watermark = watermark
        self._exclusive = exclusive
        self._removed = tuple(replace(entry, kind=FileKind.DELETE) for entry in replaces)
        self.superseded: list[WrittenDataFile] = []
        self.was_done = False

    def apply(self, base: PaimonState) -> TableChange | None:
        """Adapt the files to the base.

        Raises:
            ConflictError: Another writer has changed how rows are assigned to buckets.
        """
        self.was_done = find_commit(base, self._commit_id) is not None
        if not (self.files or self._removed) or self.was_done:
            return None
        if self._removed:
            check_entries(live_entries(base), self._removed)
        if self._layout.has_keys or self._layout.options.bucket > 0:
            if self._exclusive or self._layout.moves_keys:
                self._check_others(base)
            self._bucket_states = self._bucket_states.at(base)
            self._check_buckets(base)
            self._move_behind()
        waits = any(file.bucket.number == POSTPONE_BUCKET for file in self.files)
        added = tuple(file.entry() for file in self.files if not file.is_changelog)
        return TableChange(
            CommitKind.COMPACT if self._removed else CommitKind.APPEND,
            self._commit_id,
            (*self._removed, *added),
            tuple(file.entry() for file in self.files if file.is_changelog),
            self._index_change(base),
            SampleChange() if waits else added_samples(base, self._layout, self.files),
            properties=self._properties,
            watermark=self._watermark,
        )

    def _check_others(self, base: PaimonState) -> None:
        """Refuse records that rely on what was read of buckets to which others have written since.

        Raises:
            ConflictError: The work must be repeated.
        """
        written = self._bucket_states.written_since(base)
        if self._layout.moves_keys:
            is_lost = written is None or bool(written)
        else:
            is_lost = written is None or any(file.bucket.key in written for file in self.files)
        if is_lost:
            what = "rows" if self._layout.moves_keys else "the same bucket"
            raise ConflictError(
                f"another writer has changed {what}, or snapshots have expired since it was read",
                location=base.name,
                retryable=False,
            )

    def _check_buckets(self, base: PaimonState) -> None:
        """Refuse rows that were assigned to another number of buckets than their partition has.

        Raises:
            ConflictError: The work must be repeated.
        """
        for file in self.files:
            if file.bucket.number == POSTPONE_BUCKET:
                continue
            total = self._bucket_states.total_buckets.get(file.bucket.partition, file.bucket.total_buckets)
            if total != file.bucket.total_buckets:
                raise ConflictError(
                    f"a partition now has {total} buckets, but rows were written for {file.bucket.total_buckets}",
                    location=base.name,
                    retryable=False,
                )

    def _move_behind(self) -> None:
        """Raise the rows' sequence numbers above those of their buckets."""
        by_bucket: dict[tuple[bytes, int], list[WrittenDataFile]] = {}
        for file in self.files:
            by_bucket.setdefault(file.bucket.key, []).append(file)
        moved: list[WrittenDataFile] = []
        for key, files in by_bucket.items():
            least = min(file.file.min_sequence_number for file in files)
            shift = self._bucket_states.next_sequence(*key) - least
            if key[1] == POSTPONE_BUCKET:
                shift = 0  # records are numbered when they get a bucket
            if self._layout.has_keys:
                shift = max(shift, 0)
            for file in files:
                if not shift:
                    moved.append(file)
                elif self._layout.has_keys:
                    moved += renumbered(self._layout, file, shift)
                    self.superseded.append(file)
                else:
                    moved.append(_shifted(file, shift))
        self.files = tuple(moved)

    def _index_change(self, base: PaimonState) -> IndexChange:
        if self._known_indexes is None:
            return IndexChange()
        now = tuple(entry for entry in index_entries(base) if entry.index_type == HASH)
        if {entry.file_name for entry in now} != {entry.file_name for entry in self._known_indexes}:
            raise ConflictError(
                "another writer has meanwhile put keys into dynamic buckets", location=base.name, retryable=False
            )
        changed = {(entry.partition, entry.bucket) for entry in self._indexes}
        return IndexChange(self._indexes, tuple(entry for entry in now if (entry.partition, entry.bucket) in changed))


def _shifted(file: WrittenDataFile, shift: int) -> WrittenDataFile:
    meta = file.file
    first, last = meta.min_sequence_number + shift, meta.max_sequence_number + shift
    return replace(file, file=replace(meta, min_sequence_number=first, max_sequence_number=last))
