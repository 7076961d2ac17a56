"""Dynamic buckets: every bucket has an index file with the hashes of all keys that were ever assigned to it.

Spec: docs/formats/paimon.md § 7.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from skerry.errors import SchemaError
from skerry.paimon.manifests.hash_index import read_hashes
from skerry.paimon.manifests.index_manifest import HASH, IndexManifestEntry
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.writing.layout import WriteLayout

__all__ = ["MOST_BUCKETS", "DynamicBuckets", "KeyBuckets", "OneBucket"]

MOST_BUCKETS: Final = 32767

_Hashes = npt.NDArray[np.int32]


class KeyBuckets(Protocol):
    """Finds the bucket of a key."""

    def assign(self, partition: bytes, hashes: _Hashes) -> _Hashes:
        """int32[n] The bucket of every key, by its hash."""
        ...

    def write(self, layout: WriteLayout) -> tuple[IndexManifestEntry, ...]:
        """Write index files for buckets with new keys."""
        ...


@dataclass(frozen=True, slots=True)
class OneBucket:
    """The single bucket that is known to contain all keys; a `KeyBuckets`."""

    bucket: int

    def assign(self, partition: bytes, hashes: _Hashes) -> _Hashes:
        """int32[n] This bucket for every key."""
        return np.full(len(hashes), self.bucket, np.int32)

    def write(self, layout: WriteLayout) -> tuple[IndexManifestEntry, ...]:
        """Write nothing: there are no new keys."""
        return ()


@dataclass(slots=True)
class _Partition:
    """The keys of one partition."""

    hashes: _Hashes = field(default_factory=lambda: np.empty(0, np.int32))
    """Ascending."""
    buckets: _Hashes = field(default_factory=lambda: np.empty(0, np.int32))
    """The bucket of each."""
    counts: list[int] = field(default_factory=list)
    """Number of hashes by bucket."""
    order: dict[int, list[_Hashes]] = field(default_factory=dict)
    """By bucket, its hashes in insertion order."""
    changed: set[int] = field(default_factory=set)


class DynamicBuckets:
    """The keys of a table's dynamic buckets, including newly added ones.

    Args:
        layout: Layout of the table's files.
        entries: The hash indexes of the state.
    """

    def __init__(self, layout: WriteLayout, entries: Iterable[IndexManifestEntry]) -> None:
        self._layout = layout
        self.base = tuple(entry for entry in entries if entry.index_type == HASH)
        self._partitions: dict[bytes, _Partition] = {}

    @classmethod
    def of(cls, state: PaimonState, entries: Iterable[IndexManifestEntry]) -> DynamicBuckets:
        """The dynamic buckets of a state."""
        return cls(WriteLayout.of(state), entries)

    def assign(self, partition: bytes, hashes: _Hashes) -> _Hashes:
        """int32[n] The bucket of every key, by its hash; new ones are put into the first bucket that has room."""
        known = self._partition(partition)
        distinct, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        places = np.searchsorted(known.hashes, distinct)
        is_known = np.zeros(len(distinct), np.bool_)
        inside = places < len(known.hashes)
        is_known[inside] = known.hashes[places[inside]] == distinct[inside]
        chosen = np.empty(len(distinct), np.int32)
        chosen[is_known] = known.buckets[places[is_known]]
        new = np.flatnonzero(~is_known)
        if len(new):
            arrivals = new[np.argsort(first[new], kind="stable")]
            chosen[arrivals] = self._make_room(known, distinct[arrivals])
            hashes_now = np.concatenate([known.hashes, distinct[new]])
            order = np.argsort(hashes_now, kind="stable")
            known.hashes = hashes_now[order]
            known.buckets = np.concatenate([known.buckets, chosen[new]])[order]
        return chosen[inverse.reshape(-1)]

    def write(self, layout: WriteLayout) -> tuple[IndexManifestEntry, ...]:
        """Write a complete index file for every bucket that has new keys."""
        written = []
        prefix, count = layout.new_name(), 0
        for partition, known in self._partitions.items():
            for bucket in sorted(known.changed):
                hashes = np.concatenate(known.order[bucket])
                data = hashes.astype(">i4").tobytes()
                name = f"index-{prefix}-{count}"
                count += 1
                layout.storage.write(layout.index_file(partition, bucket, name), data)
                written.append(IndexManifestEntry(partition, bucket, HASH, name, len(data), len(hashes)))
        return tuple(written)

    def _partition(self, partition: bytes) -> _Partition:
        known = self._partitions.get(partition)
        if known is None:
            known = self._partitions[partition] = self._read(partition)
        return known

    def _read(self, partition: bytes) -> _Partition:
        known = _Partition()
        hashes, buckets = [known.hashes], [known.buckets]
        for entry in self.base:
            if entry.partition != partition:
                continue
            found = read_hashes(
                self._layout.storage, self._layout.index_file(partition, entry.bucket, entry.file_name), entry
            )
            known.counts += [0] * (entry.bucket + 1 - len(known.counts))
            known.counts[entry.bucket] += len(found)
            known.order[entry.bucket] = [found]
            hashes.append(found)
            buckets.append(np.full(len(found), entry.bucket, np.int32))
        every = np.concatenate(hashes)
        known.hashes, firsts = np.unique(every, return_index=True)
        known.buckets = np.concatenate(buckets)[firsts]
        return known

    def _make_room(self, known: _Partition, hashes: _Hashes) -> _Hashes:
        """Assign buckets to new keys, in order."""
        options = self._layout.options
        target = max(options.dynamic_bucket_target_rows, 1)
        most = options.dynamic_bucket_max if options.dynamic_bucket_max > 0 else MOST_BUCKETS
        chosen = np.empty(len(hashes), np.int32)
        start = bucket = 0
        while start < len(hashes):
            if bucket == len(known.counts):
                if bucket >= most:
                    if options.dynamic_bucket_max <= 0:
                        raise SchemaError(
                            f"a partition has at most {MOST_BUCKETS} buckets; raise dynamic-bucket.target-row-num"
                        )
                    stop, bucket = len(hashes), int(np.argmin(known.counts))
                    self._put(known, bucket, hashes[start:stop], chosen[start:stop])
                    break
                known.counts.append(0)
            room = target - known.counts[bucket]
            if room > 0:
                stop = min(start + room, len(hashes))
                self._put(known, bucket, hashes[start:stop], chosen[start:stop])
                start = stop
            bucket += 1
        return chosen

    @staticmethod
    def _put(known: _Partition, bucket: int, hashes: _Hashes, chosen: _Hashes) -> None:
        chosen[:] = bucket
        known.counts[bucket] += len(hashes)
        known.order.setdefault(bucket, []).append(hashes)
        known.changed.add(bucket)
