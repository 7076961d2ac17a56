"""Partitions of hash indexes that are asked so often that they are kept decoded.

Reading a few blocks for every look-up costs more than half a millisecond, for files that do not have the value, too. In
memory a look-up costs a microsecond. A partition is kept while its index is open; when there is no room, others are
read block by block as before: nothing is pushed out, so that look-ups in many files do not take turns.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skerry.kernels import kernel

__all__ = ["ResidentBuckets", "reserve_memory"]

_CAPACITY: Final = 128 << 20
"""Bytes that are kept of all indexes."""
_Integers = npt.NDArray[np.int64]


class _Memory:
    """How much is kept.

    What is given back is only noted: an object ends wherever the collector runs, which may be in a thread that holds
    the lock.
    """

    def __init__(self) -> None:
        self._used = 0
        self._freed: deque[int] = deque()
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Take memory; false if there is not so much left."""
        with self._lock:
            if self._settled() + size > _CAPACITY:
                return False
            self._used += size
        return True

    def free(self, size: int) -> None:
        """Give memory back; takes no lock."""
        self._freed.append(size)

    @property
    def used(self) -> int:
        """Bytes that are kept."""
        with self._lock:
            return self._settled()

    def _settled(self) -> int:
        while self._freed:
            self._used -= self._freed.popleft()
        return self._used


_memory: Final = _Memory()


def reserve_memory(owner: object, size: int) -> bool:
    """Reserve memory for as long as an object lives; false if there is not so much left.

    Args:
        owner: What keeps the memory.
        size: Bytes.
    """
    if not _memory.take(size):
        return False
    weakref.finalize(owner, _memory.free, size)
    return True


@dataclass(frozen=True, slots=True)
class ResidentBuckets:
    """A partition, decoded.

    Args:
        edges: int64[buckets + 1], where the keys of each bucket begin.
        hashes: uint64[keys].
        row_edges: int64[keys + 1], where the rows of each key begin; None if each has one.
        rows: int64[rows].
    """

    edges: _Integers
    hashes: npt.NDArray[np.uint64]
    row_edges: _Integers | None
    rows: _Integers

    @staticmethod
    def size_of(buckets: int, keys: int, rows: int) -> int:
        """The memory of a partition: as many rows as keys mean that each key has one."""
        return 8 * (buckets + keys + rows + 1 + (keys + 1 if rows != keys else 0))

    def find(self, keys: npt.NDArray[np.uint64]) -> tuple[_Integers, _Integers] | None:
        """The rows of keys.

        Args:
            keys: uint64[n], ascending and distinct.

        Returns:
            int64[m] places among `keys`, and int64[m] rows; None if a bucket has a key twice, which none has.
        """
        places, entries = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
        count = int(find_in_memory(keys, self.edges, self.hashes, places, entries))
        if count < 0:
            return None
        places, entries = places[:count], entries[:count]
        if self.row_edges is None:
            return places, self.rows[entries]
        starts = self.row_edges[entries]
        lengths = self.row_edges[entries + 1] - starts
        ends = np.cumsum(lengths)
        within = np.arange(int(lengths.sum())) + np.repeat(starts - ends + lengths, lengths)
        return np.repeat(places, lengths), self.rows[within]


@kernel("int64(uint64[::1], int64[::1], uint64[::1], out int64[::1], out int64[::1])")
def find_in_memory(keys: Any, edges: Any, hashes: Any, places: Any, entries: Any) -> int:
    """Find the entries of keys in their buckets.

    Args:
        keys: The keys.
        edges: Where the entries of each bucket begin, of which there are a power of two.
        hashes: The keys of all entries.
        places: Gets the places of the keys that are there.
        entries: Gets their entries.

    Returns:
        How many are there; -1 if there is no room for them.
    """
    mask = np.uint64(len(edges) - 2)
    count = 0
    for place in range(len(keys)):
        bucket = np.int64(keys[place] & mask)
        for entry in range(edges[bucket], edges[bucket + 1]):
            if hashes[entry] == keys[place]:
                if count == len(places):
                    return -1
                places[count] = place
                entries[count] = entry
                count += 1
    return count
