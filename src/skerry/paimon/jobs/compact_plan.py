"""Which files of a bucket are merged, and to which level: pure functions of the files' metadata.

A bucket of a primary-key table is a tree of sorted runs: every file of level 0 is one, and so is each higher level as a
whole. Readers merge the runs, so that their number must stay small.

Spec: docs/formats/paimon.md § 9.5, § 10.5.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from skerry.paimon.manifests.manifest import DataFileMeta, ManifestEntry
from skerry.paimon.metadata.options import CoreOptions

__all__ = [
    "CompactionUnit",
    "SortedRun",
    "TreeShape",
    "plan_full",
    "plan_level_0",
    "plan_small_files",
    "plan_universal",
    "sorted_runs",
]


@dataclass(frozen=True, slots=True)
class SortedRun:
    """Files whose keys do not overlap.

    Args:
        level: Their level; a run of level 0 has one file.
        files: The files.
    """

    level: int
    files: tuple[DataFileMeta, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of its files."""
        return sum(file.file_size for file in self.files)


@dataclass(frozen=True, slots=True)
class CompactionUnit:
    """What one compaction of a bucket does.

    Args:
        output_level: The level that its result is written to.
        runs: The runs to merge: always the newest ones.
        drops_deletes: Whether no older level remains, so that deletes can be dropped: the output is the highest level.
    """

    output_level: int
    runs: tuple[SortedRun, ...]
    drops_deletes: bool

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """All files that are merged."""
        return tuple(file for run in self.runs for file in run.files)


@dataclass(frozen=True, slots=True)
class TreeShape:
    """Limits for the shape of a bucket's tree.

    Args:
        trigger: Number of sorted runs from which on they are merged.
        size_ratio: How much larger, in percent, the next run may be to be merged with those before it.
        max_size_amplification: Limit for the size of all newer runs, in percent of the oldest run.
        num_levels: Levels, level 0 included.
    """

    trigger: int = 5
    size_ratio: int = 1
    max_size_amplification: int = 200
    num_levels: int = 6

    @classmethod
    def from_options(cls, options: CoreOptions) -> TreeShape:
        """The shape that a table's options ask for."""
        return cls(
            options.compaction_trigger,
            options.size_ratio,
            options.max_size_amplification_percent,
            options.num_levels,
        )

    def max_level(self, runs: Sequence[SortedRun]) -> int:
        """The highest level; a tree that is already higher stays so."""
        return max(self.num_levels - 1, *(run.level for run in runs), 1)


def sorted_runs(files: Iterable[DataFileMeta]) -> list[SortedRun]:
    """The sorted runs of a bucket, the newest first.

    Spec: docs/formats/paimon.md § 9.5.
    """
    levels: dict[int, list[DataFileMeta]] = {}
    for file in files:
        levels.setdefault(file.level, []).append(file)
    newest = sorted(levels.pop(0, []), key=_age, reverse=True)
    runs = [SortedRun(0, (file,)) for file in newest]
    return runs + [SortedRun(level, tuple(levels[level])) for level in sorted(levels)]


def _age(file: DataFileMeta) -> tuple[int, int, int, str]:
    return file.max_sequence_number, file.min_sequence_number, file.creation_time or 0, file.file_name


def plan_full(runs: Sequence[SortedRun], shape: TreeShape, *, must: Collection[str] = ()) -> CompactionUnit | None:
    """Merge all runs to the highest level; None if that has been done.

    Args:
        runs: As `sorted_runs` gives them.
        shape: The desired shape.
        must: Names of files that are rewritten in any case: those with deletion vectors.
    """
    if not runs:
        return None
    top = shape.max_level(runs)
    is_done = len(runs) == 1 and runs[0].level == top
    if is_done and not any(file.delete_row_count or file.file_name in must for file in runs[0].files):
        return None
    return CompactionUnit(top, tuple(runs), True)


def plan_universal(runs: Sequence[SortedRun], shape: TreeShape) -> CompactionUnit | None:
    """Merge the newest runs if there are too many; None if the tree is in shape.

    Args:
        runs: As `sorted_runs` gives them.
        shape: The desired shape.

    Spec: docs/formats/paimon.md § 10.5.
    """
    if len(runs) < shape.trigger:
        return None
    sizes = [run.size_bytes for run in runs]
    if sum(sizes[:-1]) * 100 > shape.max_size_amplification * sizes[-1]:
        return _unit(runs, len(runs), shape)
    count = _grown(sizes, 1, shape.size_ratio)
    if count > 1:
        return _unit(runs, count, shape)
    if len(runs) > shape.trigger:
        return _unit(runs, _grown(sizes, len(runs) - shape.trigger + 1, shape.size_ratio), shape)
    return None


def plan_level_0(runs: Sequence[SortedRun], shape: TreeShape) -> CompactionUnit | None:
    """Take all files of level 0 to a higher level, with older runs of about their size; None if there are none.

    Args:
        runs: As `sorted_runs` gives them.
        shape: The desired shape.

    Spec: docs/formats/paimon.md § 10.5.
    """
    count = sum(run.level == 0 for run in runs)
    if not count:
        return None
    return _unit(runs, _grown([run.size_bytes for run in runs], count, shape.size_ratio), shape)


def _grown(sizes: Sequence[int], count: int, size_ratio: int) -> int:
    """How many of the newest runs to merge: at least `count`, and more as long as the next one is not much larger."""
    size = sum(sizes[:count])
    while count < len(sizes) and size * (100 + size_ratio) >= sizes[count] * 100:
        size += sizes[count]
        count += 1
    return count


def _unit(runs: Sequence[SortedRun], count: int, shape: TreeShape) -> CompactionUnit:
    """Merge the newest `count` runs, and more if the result would have to be at level 0."""
    top = shape.max_level(runs)
    level = runs[count].level - 1 if count < len(runs) else top
    while level <= 0 and count < len(runs):
        level = runs[count].level
        count += 1
    if count == len(runs):
        level = top
    rest = runs[count:]
    return CompactionUnit(level, tuple(runs[:count]), level >= max((run.level for run in rest), default=0))


def plan_small_files(
    entries: Sequence[ManifestEntry],
    target_bytes: int,
    least: int,
    *,
    must: Collection[str] = (),
    is_ordered: bool = False,
) -> list[list[ManifestEntry]]:
    """Which files of an append table's bucket are joined into one.

    Args:
        entries: The bucket's files.
        target_bytes: Target size of a file.
        least: Number of small files from which on they are joined, even if they do not fill one.
        must: Names of files that are rewritten in any case: those with deleted rows, or all files.
        is_ordered: Whether rows keep the order of their sequence numbers, so that only neighbours are joined.

    Returns:
        Groups of files, each in the order of their sequence numbers.
    """
    ordered = sorted(entries, key=lambda entry: (entry.file.min_sequence_number, entry.file.creation_time or 0))
    groups: list[list[ManifestEntry]] = [[]]
    size = 0
    for entry in ordered:
        is_small = entry.file.file_size < target_bytes // 2 or entry.file.file_name in must
        if not is_small and not is_ordered:
            continue
        if not is_small or (groups[-1] and size + entry.file.file_size > target_bytes):
            groups.append([])
            size = 0
        if is_small:
            groups[-1].append(entry)
            size += entry.file.file_size

    def is_worth(group: Sequence[ManifestEntry]) -> bool:
        return len(group) >= max(least, 2) or any(entry.file.file_name in must for entry in group)

    return [group for group in groups if is_worth(group)]
