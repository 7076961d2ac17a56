"""Data files as samples know them: one by one as they were sketched, then in groups that name them by 64 bits each."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import xxhash

from skerry.theta import Sample

__all__ = ["FileGroup", "SketchedFile", "ThinnedGroup", "deletes_key", "key_of"]


def key_of(name: str) -> int:
    """Sixty-four bits that stand for a name (xxh3); 0 for the empty one."""
    return xxhash.xxh3_64_intdigest(name.encode()) if name else 0


def deletes_key(names: Iterable[str]) -> int:
    """Sixty-four bits that stand for a set of deletes: their names' keys, exclusively or-ed.

    So the key of a set that gained some deletes and lost others is its old key and theirs, exclusively or-ed.
    """
    return functools.reduce(operator.xor, map(key_of, names), 0)


@dataclass(frozen=True, slots=True)
class SketchedFile:
    """A data file whose values are sampled.

    Args:
        location: Where it lies.
        partition: Names the partition that its rows belong to, spec and values.
        row_count: Rows that are alive in it.
        samples: By field id, samples of the rows that are alive.
        deletes: Key of the deletes that were applied to it, 0 for none: see `deletes_key`.
    """

    location: str
    partition: str
    row_count: int
    samples: Mapping[int, Sample]
    deletes: int = 0


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files that are known together. Names are kept as keys, 64 bits each: see `key_of`.

    Args:
        files: By key of the location, the key of the deletes that were applied to the file.
        partitions: Keys of the partitions that rows of the group may belong to.
        row_count: Rows that were sampled.
        exact: False once files or rows were removed that the bitmaps still count.
    """

    files: Mapping[int, int]
    partitions: frozenset[int]
    row_count: int
    exact: bool = True

    def merged(self, other: FileGroup) -> FileGroup:
        """Both groups as one."""
        return FileGroup(
            {**self.files, **other.files},
            self.partitions | other.partitions,
            self.row_count + other.row_count,
            self.exact and other.exact,
        )


@dataclass(frozen=True, slots=True, eq=False)
class ThinnedGroup:
    """A group that has lost rows, of which somebody looked up what they took along.

    Args:
        before: Its files as they were sampled, by key of the location with the key of their deletes.
        deletes: The key of the deletes that apply now to those files of which rows are gone.
        row_count: Rows that are left.
        gone: By field id, uint64[n], the hashes of the column's sample that no row which is left has.
    """

    before: Mapping[int, int]
    deletes: Mapping[int, int]
    row_count: int
    gone: Mapping[int, npt.NDArray[np.uint64]]
