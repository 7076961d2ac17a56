"""Hash indexes: from values to the rows that may have them.

Spec: docs/formats/amudai-indexes.md § 3.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from skerry.amudai.indexes.descriptors import HashDescription
from skerry.amudai.indexes.hash_buckets import BUCKET_SCHEMA, bucket_of, find_in_buckets, partition_of
from skerry.amudai.reading.index_shard import IndexShard
from skerry.errors import FormatError
from skerry.storage import Storage

__all__ = ["HashIndexReader"]

_RULE = "docs/formats/amudai-indexes.md § 3.3"


class HashIndexReader:
    """A hash index, open for reading. Partitions are opened when they are needed.

    Args:
        storage: Where to read from.
        description: What the descriptor says.
        row_count: Rows of what the index is of.
        allowed_locations: Folders into which absolute urls may lead.
    """

    def __init__(
        self, storage: Storage, description: HashDescription, row_count: int, allowed_locations: Iterable[str] = ()
    ) -> None:
        self._storage = storage
        self._description = description
        self._row_count = row_count
        self._allowed = tuple(allowed_locations)
        self._partitions: dict[int, IndexShard] = {}

    def find(self, keys: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The rows that may hold values.

        Args:
            keys: uint64[n], the keys of the values; ascending and distinct.

        Returns:
            int64[m] places among `keys`, and int64[m] rows. Values that differ may share a key.

        Raises:
            NotFoundError: A file of the index is missing.
            FormatError: The index is damaged.
        """
        partitions = partition_of(keys, len(self._description.partitions))
        places, rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for ordinal in np.unique(partitions).tolist():
            start, stop = np.searchsorted(partitions, [ordinal, ordinal + 1]).tolist()
            found = self._find_in(ordinal, keys[start:stop])
            places.append(found[0] + start)
            rows.append(found[1])
        return np.concatenate(places), np.concatenate(rows)

    def _find_in(
        self, ordinal: int, keys: npt.NDArray[np.uint64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        shard = self._partition(ordinal)
        buckets = np.unique(bucket_of(keys, shard.record_count))
        column = shard.take(buckets).column(0).combine_chunks()
        places, rows = find_in_buckets(column, keys, location=shard.shown)
        if len(rows) and int(rows.max()) >= self._row_count:
            raise FormatError(
                f"a hash index refers to row {int(rows.max())} of {self._row_count}", location=shard.shown, rule=_RULE
            )
        return places, rows.astype(np.int64)

    def _partition(self, ordinal: int) -> IndexShard:
        found = self._partitions.get(ordinal)
        if found is None:
            reference = self._description.partitions[ordinal]
            found = IndexShard(self._storage, reference, BUCKET_SCHEMA, allowed_locations=self._allowed)
            count = found.record_count
            if count < 1 or count & (count - 1):
                raise FormatError(
                    f"a partition of {count} buckets, expected a power of two", location=found.shown, rule=_RULE
                )
            self._partitions[ordinal] = found
        return found
