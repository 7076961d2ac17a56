"""What is known about values below table level: a sample per column, and which groups of files hold what of it.

A *group* is a set of data files, mostly of one partition; there is a bounded number of them. Per column the table keeps
the smallest hashes of all values with their threshold θ (the *sample*), and per group a bitmap that tells which of
these hashes occur in the group. Every hash below θ that occurs anywhere is in the sample, so the distinct values of any
set of groups are estimated by the union of their bitmaps: files may come and go, and what remains needs no rescan.

A group of which files or rows have been removed since it was sketched is no longer *exact*: its bitmap may have too
many bits, never too few. As long as exact groups hold all of them too, that makes no difference.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import xxhash

from skerry.theta import Sample, ThetaSketch
from skerry.theta.layout import EMPTY_SKETCH, MAX_THETA, CompactSketch

__all__ = ["ColumnSample", "FileGroup", "GroupSamples", "SketchedFile", "key_of"]

SAMPLE_HASHES = 8192
MAX_GROUPS = 128
PUBLISHED_HASHES = 4096

_Bits: TypeAlias = npt.NDArray[np.uint8]
_Hashes: TypeAlias = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class SketchedFile:
    """A data file whose values are sampled.

    Args:
        location: Where it lies.
        partition: Names the partition that its rows belong to, spec and values.
        row_count: Rows that are alive in it.
        samples: By field id, samples of the rows that are alive.
        deletes: Names the deletes that were applied to it; empty for none.
    """

    location: str
    partition: str
    row_count: int
    samples: Mapping[int, Sample]
    deletes: str = ""


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
class ColumnSample:
    """The sample of one column and its bitmaps.

    Args:
        theta: Threshold; every hash below it that occurs in a group is in `hashes`.
        hashes: uint64[n], ascending.
        members: uint8[groups, ceil(n / 8)], bit i of row g (least significant first) for hash i in group g.
    """

    theta: int
    hashes: _Hashes
    members: _Bits

    @classmethod
    def empty(cls, groups: int) -> ColumnSample:
        """The sample of a column without values."""
        return cls(MAX_THETA, np.empty(0, np.uint64), np.empty((groups, 0), np.uint8))

    def present(self, rows: Any = slice(None)) -> npt.NDArray[np.bool_]:
        """bool[n]: which hashes occur in the chosen groups."""
        return _unpack(np.bitwise_or.reduce(self.members[rows], axis=0), len(self.hashes))

    def union(self, rows: Any = slice(None)) -> CompactSketch:
        """The distinct values of the chosen groups."""
        hashes = self.hashes[self.present(rows)]
        return CompactSketch(self.theta, hashes, False) if len(hashes) or self.theta < MAX_THETA else EMPTY_SKETCH

    def with_group(self, sample: CompactSketch) -> ColumnSample:
        """The column with one more group."""
        theta = min(self.theta, sample.theta)
        added = sample.hashes[: np.searchsorted(sample.hashes, np.uint64(theta))]
        kept = int(np.searchsorted(self.hashes, np.uint64(theta)))
        hashes = np.union1d(self.hashes[:kept], added)
        if len(hashes) > SAMPLE_HASHES:
            theta = int(hashes[SAMPLE_HASHES])
            hashes = hashes[:SAMPLE_HASHES]
            added = added[: np.searchsorted(added, np.uint64(theta))]
            kept = int(np.searchsorted(self.hashes, np.uint64(theta)))
        groups = len(self.members)
        bits = np.zeros((groups + 1, len(hashes)), np.bool_)
        bits[:groups, np.searchsorted(hashes, self.hashes[:kept])] = _unpack(self.members, kept)
        bits[groups, np.searchsorted(hashes, added)] = True
        return ColumnSample(theta, hashes, _pack(bits))

    def with_rows(self, members: _Bits) -> ColumnSample:
        """The column with other bitmaps over the same hashes; hashes that no group holds are dropped.

        The threshold stays: what is left is still every hash below it.
        """
        if not len(members):
            return ColumnSample.empty(0)
        present = _unpack(np.bitwise_or.reduce(members, axis=0), len(self.hashes))
        if present.all():
            return ColumnSample(self.theta, self.hashes, members)
        return ColumnSample(self.theta, self.hashes[present], _pack(_unpack(members, len(self.hashes))[:, present]))


def key_of(name: str) -> int:
    """Sixty-four bits that stand for a name (xxh3); 0 for the empty one."""
    return xxhash.xxh3_64_intdigest(name.encode()) if name else 0


@dataclass(frozen=True, slots=True, eq=False)
class GroupSamples:
    """The groups of a table's files and the samples of its columns.

    Args:
        groups: The groups; together they are all files that were sampled.
        columns: By field id, the columns that every group was sampled for.
    """

    groups: tuple[FileGroup, ...] = ()
    columns: Mapping[int, ColumnSample] = field(default_factory=dict)

    @property
    def files(self) -> dict[int, int]:
        """By key of the location, the key of the deletes that were applied to each file."""
        return {location: deletes for group in self.groups for location, deletes in group.files.items()}

    def with_files(self, files: Sequence[SketchedFile], *, max_groups: int = MAX_GROUPS) -> GroupSamples:
        """Take in files, each as a group of its own as long as there are not too many.

        Args:
            files: The files; a column that one of them was not sampled for is given up.
            max_groups: More groups than this are merged: first those of the same partition, the smallest first.
        """
        if not files:
            return self
        columns = set.intersection(*(set(file.samples) for file in files))
        if self.groups:
            columns &= set(self.columns)
        groups = list(self.groups)
        samples = {id_: self.columns.get(id_, ColumnSample.empty(0)) for id_ in columns}
        pending = _by_partition(files) if len(self.groups) + len(files) > max_groups else [[file] for file in files]
        for together in pending:
            groups.append(
                FileGroup(
                    {key_of(file.location): key_of(file.deletes) for file in together},
                    frozenset(key_of(file.partition) for file in together),
                    sum(file.row_count for file in together),
                )
            )
            for id_ in columns:
                samples[id_] = samples[id_].with_group(_union([file.samples[id_] for file in together]))
        return GroupSamples(tuple(groups), samples).bounded(max_groups)

    def without_files(self, locations: Collection[str]) -> GroupSamples:
        """Let files go: groups that lose all of theirs are dropped, those that lose some are no longer exact."""
        gone = {key_of(location) for location in locations}
        groups, rows = [], []
        for row, group in enumerate(self.groups):
            left = {location: deletes for location, deletes in group.files.items() if location not in gone}
            if left:
                groups.append(group if len(left) == len(group.files) else replace(group, files=left, exact=False))
                rows.append(row)
        if len(rows) == len(self.groups):
            return GroupSamples(tuple(groups), self.columns)
        columns = {id_: column.with_rows(column.members[rows]) for id_, column in self.columns.items()}
        return GroupSamples(tuple(groups), columns)

    def with_deletes(self, deletes: Mapping[str, str]) -> GroupSamples:
        """Note that rows of files were deleted since: their groups are no longer exact.

        Args:
            deletes: By location, what names the deletes that apply to the file now.
        """
        now = {key_of(location): key_of(name) for location, name in deletes.items()}
        groups = []
        for group in self.groups:
            changed = {file: now[file] for file, known in group.files.items() if now.get(file, known) != known}
            groups.append(replace(group, files={**group.files, **changed}, exact=False) if changed else group)
        return GroupSamples(tuple(groups), self.columns)

    def with_columns(self, field_ids: Collection[int]) -> GroupSamples:
        """Keep only some columns."""
        return GroupSamples(self.groups, {id_: self.columns[id_] for id_ in field_ids if id_ in self.columns})

    def bounded(self, max_groups: int) -> GroupSamples:
        """Merge groups until there are no more than so many."""
        if len(self.groups) <= max_groups:
            return self
        groups = list(self.groups)
        parts = [[row] for row in range(len(groups))]
        while len(groups) > max_groups:
            one, other = _closest(groups)
            groups[one] = groups[one].merged(groups.pop(other))
            parts[one] += parts.pop(other)
        columns = {
            id_: column.with_rows(np.stack([np.bitwise_or.reduce(column.members[rows], axis=0) for rows in parts]))
            for id_, column in self.columns.items()
        }
        return GroupSamples(tuple(groups), columns)

    def is_exact(self, field_id: int) -> bool:
        """Whether the sample of a column is that of the rows that are alive, and of no others."""
        rows = [row for row, group in enumerate(self.groups) if group.exact]
        if len(rows) == len(self.groups):
            return True
        column = self.columns[field_id]
        return bool(np.array_equal(column.present(rows), column.present())) if rows else not len(column.hashes)

    def sketch(self, field_id: int) -> ThetaSketch:
        """The sketch of a column over all groups, as tables publish it: at most 4,096 hashes."""
        return _published(self.columns[field_id].union())

    def sketch_of(self, field_id: int, rows: Sequence[int]) -> ThetaSketch:
        """The sketch of a column over some groups."""
        return _published(self.columns[field_id].union(list(rows)))


def _published(sketch: CompactSketch) -> ThetaSketch:
    if len(sketch.hashes) > PUBLISHED_HASHES:
        sketch = CompactSketch(int(sketch.hashes[PUBLISHED_HASHES]), sketch.hashes[:PUBLISHED_HASHES], False)
    return ThetaSketch.from_compact(sketch)


def _union(samples: Sequence[Sample]) -> CompactSketch:
    if len(samples) == 1:
        return samples[0].compact
    merged = Sample(samples[0].k, samples[0].seed)
    for sample in samples:
        merged.merge(sample)
    return merged.compact


def _by_partition(files: Sequence[SketchedFile]) -> list[list[SketchedFile]]:
    found: dict[str, list[SketchedFile]] = {}
    for file in files:
        found.setdefault(file.partition, []).append(file)
    return list(found.values())


def _closest(groups: Sequence[FileGroup]) -> tuple[int, int]:
    """Two groups to merge: the two smallest of one partition, else the two smallest; exact ones with exact ones."""
    by_place: dict[Any, list[int]] = {}
    for row, group in enumerate(groups):
        by_place.setdefault((group.partitions, group.exact), []).append(row)
    for row in range(len(groups)):
        by_place.setdefault(groups[row].exact, []).append(row)
    together = [rows for key, rows in by_place.items() if not isinstance(key, bool) and len(rows) > 1]
    apart = [rows for key, rows in by_place.items() if isinstance(key, bool) and len(rows) > 1]
    candidates = together or apart or [list(range(len(groups)))]
    pairs = [sorted(sorted(rows, key=lambda row: groups[row].row_count)[:2]) for rows in candidates]
    one, other = min(pairs, key=lambda pair: sum(groups[row].row_count for row in pair))
    return one, other


def _unpack(bits: _Bits, count: int) -> npt.NDArray[np.bool_]:
    return np.unpackbits(bits, axis=-1, count=count, bitorder="little").view(np.bool_)


def _pack(bits: npt.NDArray[np.bool_]) -> _Bits:
    return np.packbits(bits, axis=-1, bitorder="little")
