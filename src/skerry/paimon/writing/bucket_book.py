"""What writers and commits must know of a table's buckets: how many there are, and how far sequence numbers have come.

Spec: `formats/paimon.md` §§ 7, 8 (sequence number).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from skerry.errors import NotFoundError
from skerry.paimon.live_files import delta_entries, live_entries
from skerry.paimon.manifest import FileKind, ManifestEntry
from skerry.paimon.snapshot import CommitKind
from skerry.paimon.snapshots import read_snapshot
from skerry.paimon.state import PaimonState

__all__ = ["BucketBook"]

_MAX_STEPS = 64


@dataclass(frozen=True, slots=True)
class BucketBook:
    """The buckets of a state.

    Args:
        snapshot_id: The snapshot that it is of; 0 for none.
        total_buckets: By partition (a row with arity), the number of buckets that its files were written for.
        max_sequence: By partition and bucket, the greatest sequence number of any file.
    """

    snapshot_id: int = 0
    total_buckets: dict[bytes, int] = field(default_factory=dict)
    max_sequence: dict[tuple[bytes, int], int] = field(default_factory=dict)

    @classmethod
    def of(cls, state: PaimonState) -> BucketBook:
        """Read the manifests of a state."""
        if state.snapshot is None:
            return cls()
        return cls(state.snapshot.id)._with(live_entries(state))

    def at(self, state: PaimonState) -> BucketBook:
        """The book of a later state, made from what was committed since, where that can be read still."""
        snapshot = state.snapshot
        if snapshot is None or snapshot.id == self.snapshot_id:
            return self
        if not self.snapshot_id < snapshot.id <= self.snapshot_id + _MAX_STEPS:
            return BucketBook.of(state)
        book = BucketBook(snapshot.id, dict(self.total_buckets), dict(self.max_sequence))
        for snapshot_id in range(self.snapshot_id + 1, snapshot.id + 1):
            try:
                step = (
                    snapshot if snapshot_id == snapshot.id else read_snapshot(state.storage, state.paths, snapshot_id)
                )
            except NotFoundError:
                return BucketBook.of(state)
            if step.commit_kind is CommitKind.OVERWRITE:
                return BucketBook.of(state)
            book = book._with(delta_entries(state, step))
        return book

    def _with(self, entries: Iterable[ManifestEntry]) -> BucketBook:
        for entry in entries:
            if entry.kind is not FileKind.ADD:
                continue
            self.total_buckets[entry.partition] = entry.total_buckets
            key = entry.partition, entry.bucket
            self.max_sequence[key] = max(self.max_sequence.get(key, -1), entry.file.max_sequence_number)
        return self

    def next_sequence(self, partition: bytes, bucket: int) -> int:
        """The sequence number of the next record of a bucket."""
        return self.max_sequence.get((partition, bucket), -1) + 1
