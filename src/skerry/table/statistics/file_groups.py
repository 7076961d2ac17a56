"""Data files and groups of data files in samples; groups identify their files by 64-bit keys."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import xxhash

from skerry.table.statistics.row_sample import RowSample
from skerry.theta import Sample

__all__ = ["FileGroup", "SketchedFile", "ThinnedGroup", "deletes_key", "key_of"]


def key_of(name: str) -> int:
    """The 64-bit key of a name (xxh3); 0 for the empty one."""
    return xxhash.xxh3_64_intdigest(name.encode()) if name else 0


def deletes_key(names: Iterable[str]) -> int:
    """The 64-bit key of a set of deletes: the XOR of the keys of their names.

    The key of a set that gained some deletes and lost others is its old key XOR their keys.
    """
    return functools.reduce(operator.xor, map(key_of, names), 0)


@dataclass(frozen=True, slots=True)
class SketchedFile:
    """A data file whose values have been sampled.

    Args:
        location: Its location.
        partition: Identifies the partition of its rows, by spec and values.
        row_count: Its live rows.
        samples: By field id, samples of the live rows.
        deletes: Key of the deletes that were applied to it, 0 for none: see `deletes_key`.
        rows: Some of its live rows; None if none were sampled.
        schema_id: The schema by which its values were hashed; None if that of the operation.
    """

    location: str
    partition: str
    row_count: int
    samples: Mapping[int, Sample]
    deletes: int = 0
    rows: RowSample | None = None
    schema_id: int | None = None


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files that are tracked together. Names are stored as 64-bit keys: see `key_of`.

    Args:
        files: By key of the location, the key of the deletes that were applied to the file.
        partitions: Keys of the partitions that rows of the group may belong to.
        row_count: Rows that were sampled.
        exact: False if files or rows that the bitmaps still count were removed.
    """

    files: Mapping[int, int]
    partitions: frozenset[int]
    row_count: int
    exact: bool = True

    def merged(self, other: FileGroup) -> FileGroup:
        """Both groups merged into one."""
        return FileGroup(
            {**self.files, **other.files},
            self.partitions | other.partitions,
            self.row_count + other.row_count,
            self.exact and other.exact,
        )


@dataclass(frozen=True, slots=True, eq=False)
class ThinnedGroup:
    """A group that lost rows, with the hashes that went with them.

    Args:
        before: Its files as sampled, by key of the location with the key of their deletes.
        deletes: The key of the deletes that now apply to those files that lost rows.
        row_count: The remaining rows.
        gone: By field id, uint64[n], the hashes of the column's sample that no remaining row has.
        positions: By key of the file, int64[n], the positions of the rows that are gone, ascending.
        thetas: By field id, the threshold below which hashes were looked for.
    """

    before: Mapping[int, int]
    deletes: Mapping[int, int]
    row_count: int
    gone: Mapping[int, npt.NDArray[np.uint64]]
    positions: Mapping[int, npt.NDArray[np.int64]] = field(default_factory=dict)
    thetas: Mapping[int, int] = field(default_factory=dict)
