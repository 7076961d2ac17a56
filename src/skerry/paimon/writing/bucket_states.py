"""The state of a table's buckets for writers and commits: bucket counts, sequence numbers and levels.

Spec: docs/formats/paimon.md § 7, § 8.7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from skerry.paimon.manifests.live_files import delta_entries, live_entries
from skerry.paimon.manifests.manifest import FileKind, ManifestEntry
from skerry.paimon.metadata.paths import POSTPONE_BUCKET
from skerry.paimon.metadata.snapshot import CommitKind, Snapshot
from skerry.paimon.metadata.snapshots import find_snapshot
from skerry.paimon.metadata.state import PaimonState

__all__ = ["BucketStates"]

_MAX_STEPS = 64


@dataclass(frozen=True, slots=True)
class BucketStates:
    """The states of the buckets of a table state.

    Args:
        snapshot_id: Its snapshot; 0 for none.
        made_by: The name of that snapshot's own manifest list, which no other snapshot of this number has.
        total_buckets: By partition (a row with arity), the number of buckets that its files were written for.
        max_sequence: By partition and bucket, the greatest sequence number of any file.
        levels: By partition and bucket, the number of files at each level.
    """

    snapshot_id: int = 0
    made_by: str = ""
    total_buckets: dict[bytes, int] = field(default_factory=dict)
    max_sequence: dict[tuple[bytes, int], int] = field(default_factory=dict)
    levels: dict[tuple[bytes, int], Counter[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, state: PaimonState) -> BucketStates:
        """Read the manifests of a state."""
        if state.snapshot is None:
            return cls()
        empty = cls(state.snapshot.id, state.snapshot.delta_manifest_list)
        return empty._with(live_entries(state))

    def at(self, state: PaimonState) -> BucketStates:
        """The bucket states of a later table state, updated by the commits since, if these can still be read."""
        snapshot = state.snapshot
        if snapshot is None:
            return BucketStates()
        if (snapshot.id, snapshot.delta_manifest_list) == (self.snapshot_id, self.made_by):
            return self
        steps = self._steps(state, snapshot)
        if steps is None:
            return BucketStates.of(state)
        bucket_states = BucketStates(
            snapshot.id,
            snapshot.delta_manifest_list,
            dict(self.total_buckets),
            dict(self.max_sequence),
            {key: Counter(files) for key, files in self.levels.items()},
        )
        for step in steps:
            bucket_states._with(delta_entries(state, step))
        return bucket_states

    def _steps(self, state: PaimonState, snapshot: Snapshot) -> list[Snapshot] | None:
        """The snapshots since, if they are few and all of them only add files."""
        if snapshot.id > self.snapshot_id + _MAX_STEPS:
            return None
        steps = self._snapshots_since(state, snapshot)
        if steps is None or any(step.commit_kind is CommitKind.OVERWRITE for step in steps):
            return None
        return steps

    def _snapshots_since(self, state: PaimonState, snapshot: Snapshot) -> list[Snapshot] | None:
        """The snapshots after this one up to another; None if one of them has expired or they do not follow it."""
        if not 0 < self.snapshot_id < snapshot.id:
            return None
        between = range(self.snapshot_id, snapshot.id)
        known, *later = [find_snapshot(state.storage, state.paths, number) for number in between]
        if known is None or known.delta_manifest_list != self.made_by:
            return None
        steps = [*(found for found in later if found is not None), snapshot]
        return steps if len(steps) == len(later) + 1 else None

    def written_since(self, state: PaimonState) -> Collection[tuple[bytes, int]] | None:
        """The buckets whose records have changed up to a later table state; None if that can no longer be read.

        Sequence numbers do not tell: a full compaction drops delete records, and those of the next writer begin below.
        """
        snapshot = state.snapshot
        if snapshot is None:
            return () if not self.snapshot_id else None
        if (snapshot.id, snapshot.delta_manifest_list) == (self.snapshot_id, self.made_by):
            return ()
        steps = self._snapshots_since(state, snapshot)
        if steps is None:
            return None
        return {
            (entry.partition, entry.bucket)
            for step in steps
            if step.commit_kind is not CommitKind.COMPACT
            for entry in delta_entries(state, step)
        }

    def _with(self, entries: Iterable[ManifestEntry]) -> BucketStates:
        for entry in entries:
            key = entry.partition, entry.bucket
            files = self.levels.setdefault(key, Counter())
            if entry.kind is not FileKind.ADD:
                files[entry.file.level] -= 1
                continue
            files[entry.file.level] += 1
            if entry.bucket == POSTPONE_BUCKET:
                continue  # where neither numbers of buckets nor of records are known
            self.total_buckets[entry.partition] = entry.total_buckets
            self.max_sequence[key] = max(self.max_sequence.get(key, -1), entry.file.max_sequence_number)
        return self

    def of_partition(self, partition: bytes) -> BucketStates:
        """What a writer of one partition needs."""
        newest = {key: number for key, number in self.max_sequence.items() if key[0] == partition}
        totals = {partition: self.total_buckets[partition]} if partition in self.total_buckets else {}
        return BucketStates(self.snapshot_id, self.made_by, totals, newest)

    @property
    def has_waiting(self) -> bool:
        """Whether rows wait for their buckets."""
        return any(bucket == POSTPONE_BUCKET and files[0] > 0 for (_, bucket), files in self.levels.items())

    def next_sequence(self, partition: bytes, bucket: int) -> int:
        """The sequence number of the next record of a bucket."""
        return self.max_sequence.get((partition, bucket), -1) + 1

    def run_count(self, partition: bytes, bucket: int) -> int:
        """The number of sorted runs of a bucket: files of level 0, and further levels with files."""
        files = self.levels.get((partition, bucket), Counter())
        return max(files[0], 0) + sum(count > 0 for level, count in files.items() if level > 0)

    def after(self, numbers: Iterable[tuple[tuple[bytes, int], int]]) -> BucketStates:
        """The bucket states after further records were written, for more records in the same commit.

        Args:
            numbers: Partition and bucket, with the greatest sequence number that was assigned there.
        """
        newest = dict(self.max_sequence)
        for key, number in numbers:
            newest[key] = max(newest.get(key, -1), number)
        return replace(self, max_sequence=newest)
