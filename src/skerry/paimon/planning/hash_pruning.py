"""Pruning dynamic buckets by their hash indexes: which of them can have the keys that a condition names.

The index of a bucket has four bytes for each key that was ever assigned to it. It is read only if it is smaller than
the files that it may exclude.

Spec: docs/formats/paimon.md § 7.3, § 9.3.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from skerry.paimon.manifests.hash_index import read_hashes
from skerry.paimon.manifests.index_manifest import HASH, read_index_manifest
from skerry.paimon.metadata.snapshot import Snapshot
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.vector_locations import index_locations
from skerry.paimon.values.byte_spans import Longs
from skerry.table.work.read_ahead import WorkPool

__all__ = ["buckets_with_hashes"]


def buckets_with_hashes(
    state: PaimonState,
    snapshot: Snapshot,
    buckets: Sequence[tuple[bytes, int]],
    sizes: Longs,
    hashes: npt.NDArray[np.int32],
    pool: WorkPool,
) -> npt.NDArray[np.bool_]:
    """Which buckets can have a key with one of some hashes.

    Args:
        state: The table.
        snapshot: The snapshot to read.
        buckets: Partitions and numbers.
        sizes: int64[buckets] Bytes of the files of each.
        hashes: int32[n] The hashes.
        pool: Threads that read index files.

    Raises:
        FormatError: An index is corrupt.
        NotFoundError: It does not exist.
        SkerryError: It is outside the table's folder.
    """
    may = np.full(len(buckets), True)
    if snapshot.index_manifest is None:
        return may
    found = read_index_manifest(state.storage, state.paths.manifest(snapshot.index_manifest))
    entries = {(entry.partition, entry.bucket): entry for entry in found if entry.index_type == HASH}
    wanted = [
        row
        for row, (bucket, size) in enumerate(zip(buckets, sizes.tolist(), strict=True))
        if bucket in entries and entries[bucket].file_size < size
    ]
    chosen = [entries[buckets[row]] for row in wanted]
    located = list(zip(chosen, index_locations(state, chosen), strict=True))
    verdicts = pool.in_order(
        lambda one: bool(np.isin(hashes, read_hashes(state.storage, one[1], one[0])).any()), located
    )
    may[wanted] = list(verdicts)
    return may
