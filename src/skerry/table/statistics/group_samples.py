"""Samples of groups of data files: a sample per column, and bitmaps of the hashes that occur in each group.

A *group* is a set of data files, mostly of one partition; their number is bounded. Per column the table stores the
smallest hashes of all values with their threshold θ (the *sample*, a bottom-k sketch), and per group a bitmap of the
hashes that occur in it. Every hash below θ that occurs anywhere is in the sample, so the distinct values of any
set of groups are estimated by the union of their bitmaps: files may be added and removed without rescanning the rest.

A group of which files or rows have been removed since it was sketched is no longer *exact*: its bitmap may have too
many bits, never too few. If exact groups contain all of these hashes too, that makes no difference.
"""

from __future__ import annotations

import functools
import heapq
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from skerry.table.statistics.column_sample import ColumnSample
from skerry.table.statistics.file_groups import FileGroup, SketchedFile, ThinnedGroup, key_of
from skerry.table.statistics.row_sample import RowSample, united
from skerry.theta import ThetaSketch
from skerry.theta.layout import CompactSketch
from skerry.theta.setops import smallest, union

__all__ = ["GroupSamples", "fits", "groups_with", "rows_of_files"]

MAX_GROUPS = 128
PUBLISHED_HASHES = 4096
_BLOB_BYTES = 64
"""Header of a published sketch, and its metadata in the footer."""
_ALWAYS_BYTES = 8 * (8 * PUBLISHED_HASHES + _BLOB_BYTES)
"""Sketches of eight columns: 256 KiB of hashes."""
_SHARE = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class GroupSamples:
    """The groups of a table's files and the samples of its columns.

    Args:
        groups: The groups; together they are all files that were sampled.
        columns: By field id, the columns that were sampled in every group.
        rows: Some of the rows; None if there are files, and none of them was sampled.
    """

    groups: tuple[FileGroup, ...] = ()
    columns: Mapping[int, ColumnSample] = field(default_factory=dict)
    rows: RowSample | None = field(default_factory=RowSample)

    @property
    def files(self) -> dict[int, int]:
        """By key of the location, the key of the deletes that were applied to each file."""
        return {location: deletes for group in self.groups for location, deletes in group.files.items()}

    @property
    def size_bytes(self) -> int:
        """The memory that hashes, bitmaps and rows take."""
        rows = 0 if self.rows is None else self.rows.size_bytes
        return rows + sum(column.hashes.nbytes + column.members.nbytes for column in self.columns.values())

    def with_files(self, files: Sequence[SketchedFile], *, max_groups: int = MAX_GROUPS) -> GroupSamples:
        """Add files, each as a group of its own as long as there are not too many.

        Args:
            files: The files; columns that were not sampled in all of them are dropped.
            max_groups: More groups than this are merged: first those of the same partition, the smallest first.
        """
        if not files:
            return self
        pending = _pending(files, len(self.groups), max_groups)
        groups = [_group_of(together) for together in pending]
        columns = set.intersection(*(set(file.samples) for file in files))
        samples = {
            id_: [union(file.samples[id_].compact for file in together) for together in pending] for id_ in columns
        }
        is_sampled = any(file.rows is not None for file in files) or (self.groups and self.rows is not None)
        rows = rows_of_files(files) if is_sampled else None
        return self._with_groups(groups, samples, [rows]).bounded(max_groups)

    def with_groups_of(self, other: GroupSamples, *, max_groups: int = MAX_GROUPS) -> GroupSamples:
        """Add the groups of other files; columns that were not sampled in them are dropped."""
        if not other.groups:
            return self
        rows = range(len(other.groups))
        samples = {id_: [column.group(row) for row in rows] for id_, column in other.columns.items()}
        return self._with_groups(other.groups, samples, [other.rows]).bounded(max_groups)

    def _with_groups(
        self,
        groups: Sequence[FileGroup],
        samples: Mapping[int, Sequence[CompactSketch]],
        rows: Sequence[RowSample | None],
    ) -> GroupSamples:
        known = [self.rows, *rows] if self.groups else rows
        every = [part for part in known if part is not None]
        columns = samples.keys() & self.columns.keys() if self.groups else samples.keys()
        return GroupSamples(
            (*self.groups, *groups),
            {id_: self.columns.get(id_, ColumnSample.empty(0)).with_groups(samples[id_]) for id_ in columns},
            united(every) if len(every) == len(known) else None,
        )

    def without_files(self, locations: Collection[str]) -> GroupSamples:
        """Remove files: groups that lose all of theirs are dropped, those that lose some are no longer exact."""
        if not locations and self.groups:
            return self
        gone = {key_of(location) for location in locations}
        return self._only_files(lambda file: file not in gone)

    def reconciled(self, live: Mapping[int, int]) -> GroupSamples:
        """The samples that are still valid after other writers have changed the table.

        Args:
            live: By key of the location, the key of the deletes of each current file of the table.
        """
        return self._only_files(live.__contains__).with_deletes(live)

    def _only_files(self, is_kept: Callable[[int], bool]) -> GroupSamples:
        groups, rows = [], []
        for row, group in enumerate(self.groups):
            left = {location: deletes for location, deletes in group.files.items() if is_kept(location)}
            if left:
                groups.append(group if len(left) == len(group.files) else replace(group, files=left, exact=False))
                rows.append(row)
        columns = self.columns if len(rows) == len(self.groups) else self._members_of(rows)
        return GroupSamples(tuple(groups), columns, self._rows_of_files(is_kept, groups))

    def _rows_of_files(self, is_kept: Callable[[int], bool], groups: Sequence[FileGroup]) -> RowSample | None:
        if not groups:
            return RowSample()
        return None if self.rows is None else self.rows.only_files(is_kept)

    def only_groups_within(self, locations: Collection[str]) -> GroupSamples:
        """Keep only the groups whose files are all among some."""
        wanted = {key_of(location) for location in locations}
        return self.only_groups([row for row, group in enumerate(self.groups) if group.files.keys() <= wanted])

    def only_groups(self, rows: Sequence[int]) -> GroupSamples:
        """Keep only some of the groups."""
        if len(rows) == len(self.groups):
            return self
        groups = tuple(self.groups[row] for row in rows)
        kept = {location for group in groups for location in group.files}
        return GroupSamples(groups, self._members_of(rows), self._rows_of_files(kept.__contains__, groups))

    def _members_of(self, rows: Sequence[int]) -> dict[int, ColumnSample]:
        return {id_: column.with_rows(column.members[list(rows)]) for id_, column in self.columns.items()}

    def with_deletes(self, now: Mapping[int, int], *, same_rows: bool = False) -> GroupSamples:
        """Record that rows of files have been deleted: their groups are no longer exact.

        Args:
            now: By key of the location, the key of the deletes that apply to the file now.
            same_rows: Whether these deletes only replace others that deleted the same rows, so that no group changes.
        """
        if not now:
            return self
        groups = []
        all_changed: set[int] = set()
        for group in self.groups:
            changed = {file: now[file] for file, known in group.files.items() if now.get(file, known) != known}
            exact = group.exact and (same_rows or not changed)
            groups.append(replace(group, files={**group.files, **changed}, exact=exact) if changed else group)
            all_changed |= changed.keys()
        return GroupSamples(tuple(groups), self.columns, self._rows_blurred(() if same_rows else all_changed))

    def _rows_blurred(self, files: Collection[int]) -> RowSample | None:
        return None if self.rows is None else self.rows.with_blurred(files)

    def with_thinned(self, thinned: Iterable[ThinnedGroup]) -> GroupSamples:
        """Remove the hashes of deleted rows; the groups stay exact.

        Only exact groups with exactly these files and deletes are thinned, and only if all of their columns were
        searched, up to their thresholds: another writer may have sampled the table again in the meantime.
        """
        groups, columns, left = list(self.groups), dict(self.columns), self.rows
        for thin in thinned:
            if not columns.keys() <= thin.gone.keys():
                continue
            if any(column.theta > thin.thetas.get(id_, column.theta) for id_, column in columns.items()):
                continue
            for row, group in enumerate(groups):
                if group.exact and group.files == thin.before:
                    files = {**group.files, **thin.deletes}
                    groups[row] = replace(group, files=files, row_count=thin.row_count)
                    columns = {id_: column.without(row, thin.gone[id_]) for id_, column in columns.items()}
                    left = None if left is None else left.without_rows(thin.positions)
        return GroupSamples(tuple(groups), columns, left)

    def with_rows_gone(self, partition: str | None, deletes: int) -> GroupSamples:
        """Record that unknown rows may have been deleted: groups are no longer exact.

        Args:
            partition: Only rows of this partition; of all partitions if None.
            deletes: Key of the deletes.
        """
        place = None if partition is None else key_of(partition)
        touched = {row for row, group in enumerate(self.groups) if place is None or place in group.partitions}
        return GroupSamples(
            tuple(
                replace(group, files={file: known ^ deletes for file, known in group.files.items()}, exact=False)
                if row in touched
                else group
                for row, group in enumerate(self.groups)
            ),
            self.columns,
            self._rows_blurred({file for row in touched for file in self.groups[row].files}),
        )

    def with_resketched(self, files: Sequence[SketchedFile], *, max_groups: int = MAX_GROUPS) -> GroupSamples:
        """Replace groups that are no longer exact by files that were sampled again.

        A group is replaced if all of its files were sampled again, with the deletes that currently apply.
        """
        if not files:
            return self
        known = self.files
        again = {key: file for file in files if known.get(key := key_of(file.location)) == file.deletes}
        replaced = [group for group in self.groups if not group.exact and group.files.keys() <= again.keys()]
        if not replaced:
            return self
        rows = [row for row, group in enumerate(self.groups) if group not in replaced]
        return self.only_groups(rows).with_files(
            [again[key] for group in replaced for key in group.files], max_groups=max_groups
        )

    def with_files_rewritten(
        self, removed: Collection[str], files: Sequence[SketchedFile], *, max_groups: int = MAX_GROUPS
    ) -> GroupSamples:
        """Replace files by others with the same rows.

        A group that loses only some of its files stays exact if it is merged with the files that now contain its rows:
        those of its partitions, or all new ones if rows may have moved between partitions.

        Args:
            removed: Locations of the replaced files.
            files: The new files.
            max_groups: See `with_files`.
        """
        gone = {key_of(location) for location in removed}
        partial = [
            row
            for row, group in enumerate(self.groups)
            if group.exact and 0 < len(group.files.keys() & gone) < len(group.files)
        ]
        if not partial or not files:
            return self.without_files(removed).with_files(files, max_groups=max_groups)
        added = GroupSamples().with_files(files, max_groups=len(files))
        joined = self.with_groups_of(added, max_groups=len(self.groups) + len(files))
        open_ = [*partial, *range(len(self.groups), len(joined.groups))]
        parts = _connected(joined.groups, open_, frozenset(key_of(file.partition) for file in files))
        rows = [*parts, *([row] for row in range(len(self.groups)) if row not in partial)]
        merged = joined._merged(rows)  # noqa: SLF001  of the same class
        groups = [
            replace(group, files={key: deletes for key, deletes in group.files.items() if key not in gone})
            if number < len(parts)
            else group
            for number, group in enumerate(merged.groups)
        ]
        left = GroupSamples(tuple(groups), merged.columns, merged._rows_of_files(lambda key: key not in gone, groups))  # noqa: SLF001
        return left.without_files(removed).bounded(max_groups)

    def with_column(self, field_id: int, samples: Sequence[CompactSketch]) -> GroupSamples:
        """Add or replace a column.

        Args:
            field_id: Its id.
            samples: Its samples, group by group.
        """
        column = ColumnSample.empty(0).with_groups(samples) if samples else ColumnSample.empty(0)
        return GroupSamples(self.groups, {**self.columns, field_id: column}, self.rows)

    def with_columns(self, field_ids: Collection[int]) -> GroupSamples:
        """Keep only some columns."""
        columns = {id_: self.columns[id_] for id_ in field_ids if id_ in self.columns}
        return GroupSamples(self.groups, columns, None if self.rows is None else self.rows.with_columns(columns))

    def bounded(self, max_groups: int) -> GroupSamples:
        """Merge groups until there are at most a number of them."""
        if len(self.groups) <= max_groups:
            return self
        return self._merged(_merged_rows(self.groups, max_groups))

    def _merged(self, parts: Sequence[list[int]]) -> GroupSamples:
        """Merge groups as given, each row in one part."""
        groups = tuple(functools.reduce(FileGroup.merged, (self.groups[row] for row in rows)) for rows in parts)
        order = [row for rows in parts for row in rows]
        starts = [0, *itertools.accumulate(map(len, parts[:-1]))]
        columns = {
            id_: column.with_rows(np.bitwise_or.reduceat(column.members[order], starts, axis=0))
            for id_, column in self.columns.items()
        }
        return GroupSamples(groups, columns, self.rows)

    def rows_of(self, files: Collection[int]) -> list[int]:
        """Rows of the groups that contain some files, by the keys of their locations."""
        return [row for row, group in enumerate(self.groups) if not group.files.keys().isdisjoint(files)]

    def is_exact(self, field_id: int) -> bool:
        """Whether the sample of a column describes exactly the live rows."""
        rows = [row for row, group in enumerate(self.groups) if group.exact]
        if len(rows) == len(self.groups):
            return True
        column = self.columns[field_id]
        return bool(np.array_equal(column.present(rows), column.present())) if rows else not len(column.hashes)

    def sketch(self, field_id: int, rows: Sequence[int] | None = None) -> ThetaSketch:
        """The sketch of a column, as tables publish it: at most 4,096 hashes.

        Args:
            field_id: The column.
            rows: Only these groups; all if None.
        """
        column = self.columns[field_id]
        found = column.union() if rows is None else column.union(list(rows))
        return ThetaSketch.from_compact(smallest(found, PUBLISHED_HASHES))


def fits(sketches: Iterable[ThetaSketch], data_bytes: int) -> bool:
    """Whether sketches take no more than a commit of some bytes may write: a tenth, or what eight columns take."""
    size = sum(8 * len(sketch.hashes) + _BLOB_BYTES for sketch in sketches)
    return size <= max(_ALWAYS_BYTES, int(data_bytes * _SHARE))


def groups_with(groups: Sequence[FileGroup], files: Sequence[SketchedFile], max_groups: int) -> tuple[FileGroup, ...]:
    """The groups of samples to which files are added, as `GroupSamples.with_files` makes them."""
    added = map(_group_of, _pending(files, len(groups), max_groups))
    return GroupSamples((*groups, *added)).bounded(max_groups).groups


def rows_of_files(files: Sequence[SketchedFile]) -> RowSample:
    """The sampled rows of files; those of which none were sampled are blurred."""
    return united([_rows_of(file) for file in files])


def _pending(files: Sequence[SketchedFile], groups: int, max_groups: int) -> list[list[SketchedFile]]:
    """The files that make a group each: one, or those of a partition if there would be too many groups."""
    return _by_partition(files) if groups + len(files) > max_groups else [[file] for file in files]


def _group_of(files: Sequence[SketchedFile]) -> FileGroup:
    return FileGroup(
        {key_of(file.location): file.deletes for file in files},
        frozenset(key_of(file.partition) for file in files),
        sum(file.row_count for file in files),
    )


def _rows_of(file: SketchedFile) -> RowSample:
    key = key_of(file.location)
    return RowSample(blurred=frozenset((key,))) if file.rows is None else file.rows.of_file(key)


def _by_partition(files: Sequence[SketchedFile]) -> list[list[SketchedFile]]:
    found: dict[str, list[SketchedFile]] = {}
    for file in files:
        found.setdefault(file.partition, []).append(file)
    return list(found.values())


def _merged_rows(groups: Sequence[FileGroup], max_groups: int) -> list[list[int]]:
    """Choose the groups to merge: small ones of one partition, then small ones; preferably exact with exact ones."""
    places: Sequence[Callable[[FileGroup], Any]] = (
        lambda group: (group.partitions, group.exact),
        lambda group: group.exact,
        lambda group: None,
    )
    parts = [(group.row_count, [row]) for row, group in enumerate(groups)]
    for place in places:
        heaps: dict[Any, list[tuple[int, list[int]]]] = {}
        for part in parts:
            heaps.setdefault(place(groups[part[1][0]]), []).append(part)
        _merge_smallest(list(heaps.values()), len(parts) - max_groups)
        parts = [part for heap in heaps.values() for part in heap]
        if len(parts) <= max_groups:
            break
    return [rows for _, rows in parts]


def _connected(groups: Sequence[FileGroup], rows: Sequence[int], come: frozenset[int]) -> list[list[int]]:
    """Partition groups into those that share partitions; all together if a partition has no new file."""
    parts: list[tuple[frozenset[int], list[int]]] = []
    is_apart = all(groups[row].partitions <= come for row in rows)
    for row in rows:
        places, together = groups[row].partitions if is_apart else come, [row]
        for part in [part for part in parts if part[0] & places]:
            parts.remove(part)
            places, together = places | part[0], part[1] + together
        parts.append((places, together))
    return [together for _, together in parts]


def _merge_smallest(heaps: Sequence[list[tuple[int, list[int]]]], count: int) -> None:
    """Repeatedly merge the two smallest parts of one heap, each time of the heap where they are smallest."""
    for heap in heaps:
        heapq.heapify(heap)
    pairs = [(_smallest_pair(heap), number) for number, heap in enumerate(heaps) if len(heap) > 1]
    heapq.heapify(pairs)
    while count > 0 and pairs:
        number = heapq.heappop(pairs)[1]
        heap = heaps[number]
        (size, rows), (other_size, other_rows) = heapq.heappop(heap), heapq.heappop(heap)
        heapq.heappush(heap, (size + other_size, rows + other_rows))
        if len(heap) > 1:
            heapq.heappush(pairs, (_smallest_pair(heap), number))
        count -= 1


def _smallest_pair(heap: list[tuple[int, list[int]]]) -> int:
    return heap[0][0] + min(heap[1:3])[0]
