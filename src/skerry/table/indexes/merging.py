"""Merging small indexes of data files into larger ones, by what the indexes say: data files are not read.

Indexes are taken together that are of similar size, so that each is rewritten a few times only, however many are added.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from skerry import amudai
from skerry.amudai.index_merging import IndexedRows, group_alike, merge_row_indexes
from skerry.errors import SkerryError
from skerry.storage import Storage, join, name, parent
from skerry.table.indexes.building import new_index_name
from skerry.table.indexes.registry import FOLDER, IndexedFile
from skerry.table.owned_files import log_failures

__all__ = ["MergeTask", "MergedIndexes", "merge_indexes", "plan_merges", "without"]

FEWEST: Final = 8
"""So many indexes are merged, or none."""
_MERGED_BYTES: Final = 16 << 20
"""An index that was merged is not larger; merging takes some thirty times as much memory."""
_GROWTH: Final = 2
"""An index is taken in if it is at most this many times as large as those before it together."""
_SMALL_BYTES: Final = 1 << 18
"""Smaller indexes are all of similar size."""


@dataclass(frozen=True, slots=True)
class MergeTask:
    """Indexes to merge; small and picklable.

    Args:
        storage: Access to the table's files.
        table: The table's folder.
        indexes: The files of each index, in the order of their rows in it.
    """

    storage: Storage
    table: str
    indexes: tuple[tuple[IndexedFile, ...], ...]


@dataclass(frozen=True, slots=True)
class MergedIndexes:
    """What merging gave.

    Args:
        new: The new entries of the registry.
        gone: The roots and data files of the entries that they replace.
    """

    new: tuple[IndexedFile, ...] = ()
    gone: frozenset[tuple[str, str]] = frozenset()


def plan_merges(storage: Storage, table: str, entries: Iterable[IndexedFile], fewest: int = FEWEST) -> list[MergeTask]:
    """Which indexes to merge.

    Args:
        storage: Access to the table's files.
        table: The table's folder.
        entries: The indexes of data files.
        fewest: So many indexes are merged, or none.
    """
    roots: dict[str, list[IndexedFile]] = {}
    seen: set[object] = set()
    for each in sorted(entries, key=lambda entry: entry.place is None):  # a file may have an index of its own, too
        if (each.file, each.columns) not in seen:
            seen.add((each.file, each.columns))
            roots.setdefault(each.root, []).append(each)
    alike: dict[object, list[list[IndexedFile]]] = {}
    for files in roots.values():
        files.sort(key=lambda file: file.place or (0, 0))
        alike.setdefault(files[0].columns, []).append(files)
    return [
        MergeTask(storage, table, tuple(map(tuple, chosen)))
        for indexes in alike.values()
        for chosen in _of_similar_size(indexes)
        if len(chosen) >= max(fewest, 2)
    ]


def _of_similar_size(indexes: list[list[IndexedFile]]) -> list[list[list[IndexedFile]]]:
    found: list[list[list[IndexedFile]]] = []
    total = 0
    for files in sorted(indexes, key=lambda files: files[0].size_bytes):
        size = files[0].size_bytes
        is_too_large = not found or size > _GROWTH * max(total, _SMALL_BYTES) or total + size > _MERGED_BYTES
        if is_too_large:
            found.append([])
            total = 0
        found[-1].append(files)
        total += size
    return found


def merge_indexes(task: MergeTask) -> MergedIndexes:
    """Write one index for several, or some, if the types of columns have changed.

    Nothing is merged if one of them is damaged, which is logged.
    """
    opened = [(source, index) for index in task.indexes if (source := _opened(task, index)) is not None]
    new: list[IndexedFile] = []
    merged: list[IndexedFile] = []
    with log_failures("small indexes were not merged"):
        for places in group_alike([source for source, _ in opened]):
            if len(places) > 1:
                files = [file for place in places for file in opened[place][1]]
                new += _merged(task, [opened[place][0] for place in places], files)
                merged += files
    return MergedIndexes(tuple(new), frozenset((file.root, file.file) for file in merged))


def _merged(task: MergeTask, sources: Sequence[IndexedRows], files: Sequence[IndexedFile]) -> list[IndexedFile]:
    """One index for several, which have the same columns."""
    location = join(task.table, FOLDER, new_index_name(".amudai.shard"))
    written = merge_row_indexes(sources, location, storage=task.storage)
    size = written.size_bytes + sum(task.storage.size(file) for file in written.index_files)
    parts = tuple(name(file) for file in written.index_files)
    counts = [count for source in sources for _, count in source.ranges]
    places = zip(accumulate(counts, initial=0), counts, strict=False)
    return [
        replace(file, root=name(location), parts=parts, size_bytes=size, place=place)
        for file, place in zip(files, places, strict=True)
    ]


def _opened(task: MergeTask, index: Sequence[IndexedFile]) -> IndexedRows | None:
    """An index whose root can be read, and is of the files that it should be of."""
    folder = parent(index[0].location(task.table))
    try:
        shard = amudai.ShardFile(
            join(task.table, FOLDER, index[0].root), allowed_locations=[folder], storage=task.storage
        )
    except SkerryError:
        return None
    total = int(shard.metadata.directory.total_record_count)
    ranges = tuple(file.place or (0, total) for file in index)
    stops = [first + count for first, count in ranges]
    follow = all(stop <= first for stop, (first, _) in zip(stops, ranges[1:], strict=False))
    return IndexedRows(shard, ranges) if follow and stops[-1] <= total else None


def without(entries: Iterable[IndexedFile], merged: Collection[tuple[str, str]]) -> list[IndexedFile]:
    """Entries but for those of merged indexes."""
    return [each for each in entries if (each.root, each.file) not in merged]
