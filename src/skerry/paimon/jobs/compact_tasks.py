"""Compaction bucket by bucket: finding what to do in a state, and compacting one bucket in a task.

Spec: docs/formats/paimon.md § 10.5.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import pyarrow as pa

from skerry.paimon.jobs.compact_plan import (
    CompactionUnit,
    TreeShape,
    plan_full,
    plan_small_files,
    plan_universal,
    sorted_runs,
)
from skerry.paimon.manifests.live_files import live_entries
from skerry.paimon.manifests.manifest import FileSource, ManifestEntry
from skerry.paimon.merging import Records
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.file_splits import FileSplits, key_sections
from skerry.paimon.planning.splits import VectorLocation
from skerry.paimon.planning.vector_locations import VectorKey
from skerry.paimon.reading.rows import SplitReader
from skerry.paimon.writing.data_files import BucketFiles, BucketLocation, WrittenDataFile
from skerry.paimon.writing.key_sorting import file_rows
from skerry.paimon.writing.layout import WriteLayout
from skerry.table.owned_files import give_up

__all__ = ["BucketTask", "CompactionRules", "RewriteReason", "TaskResult", "plan_compaction", "run_task"]


class RewriteReason(Enum):
    """Why files of a bucket are rewritten."""

    ASKED = "asked for"
    """All buckets are to be merged."""
    DELETES = "deletes"
    """Rows of its files are deleted by deletion vectors."""
    MANY_RUNS = "many sorted runs"
    """Readers would have to merge too many runs."""
    MANY_SMALL = "many small files"
    """There are many files much smaller than the target."""


@dataclass(frozen=True, slots=True)
class CompactionRules:
    """Which buckets to compact.

    Args:
        full: Merge every bucket to one run of its highest level, or rewrite all files of an append table; else only
            what is out of shape.
        choose: Only these partitions (rows with arity).
        min_input_files: Number of small files of an append table from which on they are joined;
            `compaction.min.file-num` if None.
        buckets: Only these buckets of partitions.
    """

    full: bool = False
    choose: Callable[[Collection[bytes]], Collection[bytes]] | None = None
    min_input_files: int | None = None
    buckets: frozenset[tuple[bytes, int]] | None = None


@dataclass(frozen=True, slots=True)
class BucketTask:
    """What compaction does in one bucket; picklable.

    Args:
        entries: The files to merge, in the order of their rows.
        reason: Why it is rewritten.
        unit: How the tree is changed; None in append tables.
        vectors: The deletion vectors of its files.
    """

    entries: tuple[ManifestEntry, ...]
    reason: RewriteReason
    unit: CompactionUnit | None = None
    vectors: Mapping[VectorKey, VectorLocation] = field(default_factory=dict)

    @property
    def key(self) -> tuple[bytes, int]:
        """Partition and bucket."""
        return self.entries[0].partition, self.entries[0].bucket

    @property
    def size_bytes(self) -> int:
        """Bytes of the files."""
        return sum(entry.file.file_size for entry in self.entries)


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of a task; picklable.

    Args:
        removed: Files that are rewritten or move to another level.
        moved: Files at their new level.
        written: New files.
    """

    removed: tuple[ManifestEntry, ...]
    moved: tuple[ManifestEntry, ...] = ()
    written: tuple[WrittenDataFile, ...] = ()


# Planning ------------------------------------------------------------------------------------------------------------


def plan_compaction(state: PaimonState, layout: WriteLayout, rules: CompactionRules) -> list[BucketTask]:
    """The tasks to do in a state."""
    live = live_entries(state)
    if rules.choose is not None:
        chosen = set(rules.choose({entry.partition for entry in live}))
        live = [entry for entry in live if entry.partition in chosen]
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = {}
    for entry in live:
        key = entry.partition, entry.bucket
        if rules.buckets is None or key in rules.buckets:
            buckets.setdefault(key, []).append(entry)
    if layout.has_keys:
        return [task for entries in buckets.values() if (task := _tree_task(layout, entries, rules.full)) is not None]
    splits = FileSplits(state, layout)
    return [task for entries in buckets.values() for task in _small_file_tasks(layout, splits, entries, rules)]


def _small_file_tasks(
    layout: WriteLayout, splits: FileSplits, entries: Sequence[ManifestEntry], rules: CompactionRules
) -> Iterable[BucketTask]:
    least = layout.options.compaction_min_file_num if rules.min_input_files is None else rules.min_input_files
    vectors = {key: vector for entry in entries if (vector := splits.vectors.get(key := _key(entry))) is not None}
    for group in plan_small_files(
        entries,
        layout.target_file_size,
        least,
        must={entry.file.file_name for entry in entries} if rules.full else {name for _, _, name in vectors},
        is_ordered=layout.options.bucket > 0,
    ):
        own = {key: vectors[key] for key in map(_key, group) if key in vectors}
        reason = RewriteReason.ASKED if rules.full else RewriteReason.DELETES if own else RewriteReason.MANY_SMALL
        yield BucketTask(tuple(group), reason, vectors=own)


def _key(entry: ManifestEntry) -> VectorKey:
    return entry.partition, entry.bucket, entry.file.file_name


def _tree_task(layout: WriteLayout, entries: Sequence[ManifestEntry], full: bool) -> BucketTask | None:
    shape = TreeShape.from_options(layout.options)
    runs = sorted_runs(entry.file for entry in entries)
    unit = plan_full(runs, shape) if full else plan_universal(runs, shape)
    if unit is None:
        return None
    by_file = {(entry.file.file_name, entry.file.level): entry for entry in entries}
    chosen = tuple(by_file[file.file_name, file.level] for file in unit.files)
    return BucketTask(chosen, RewriteReason.ASKED if full else RewriteReason.MANY_RUNS, unit)


# Execution -----------------------------------------------------------------------------------------------------------


def run_task(state: PaimonState, layout: WriteLayout, task: BucketTask) -> TaskResult:
    """Rewrite the files of a bucket; if that fails, what was written is removed.

    Args:
        state: The state that was planned.
        layout: How the table's files are written.
        task: The task.
    """
    splits = FileSplits(state, layout, task.vectors)
    return _merge_tree(state, layout, splits, task) if task.unit is not None else _join(state, layout, splits, task)


def _join(state: PaimonState, layout: WriteLayout, splits: FileSplits, task: BucketTask) -> TaskResult:
    """Join files one after the other, leaving out deleted rows."""
    bucket = _location_of(layout, task.entries[0])
    first = min(entry.file.min_sequence_number for entry in task.entries)
    files = BucketFiles(layout, bucket, source=FileSource.COMPACT, first_sequence_number=first)
    try:
        for batch in SplitReader(state, state.arrow_schema).batches([splits.raw(task.entries)]):
            files.write(pa.Table.from_batches([batch]))
        return TaskResult(task.entries, (), tuple(files.close()))
    except BaseException:
        files.abort()
        raise


def _location_of(layout: WriteLayout, entry: ManifestEntry) -> BucketLocation:
    folder = layout.bucket_folder(entry.partition, entry.bucket)
    return BucketLocation(entry.partition, entry.bucket, entry.total_buckets, folder)


def _merge_tree(state: PaimonState, layout: WriteLayout, splits: FileSplits, task: BucketTask) -> TaskResult:
    """Merge overlapping files; large files that overlap no other only move to the new level."""
    unit = task.unit
    assert unit is not None
    removed: list[ManifestEntry] = []
    moved: list[ManifestEntry] = []
    written: list[WrittenDataFile] = []
    pending: list[list[ManifestEntry]] = []

    def flush() -> None:
        if pending:
            written.extend(_merge_sections(state, layout, splits, pending, unit))
            removed.extend(entry for section in pending for entry in section)
            pending.clear()

    try:
        for section in key_sections(task.entries, layout.schema):
            if len(section) > 1 or _must_be_written(layout, section[0], unit):
                pending.append(section)
                continue
            flush()  # or its file would overlap the one that stays
            (entry,) = section
            if entry.file.level != unit.output_level:
                removed.append(entry)
                moved.append(replace(entry, file=replace(entry.file, level=unit.output_level)))
        flush()
    except BaseException:
        give_up(layout.storage, (location for file in written for location in file.locations))
        raise
    return TaskResult(tuple(removed), tuple(moved), tuple(written))


def _must_be_written(layout: WriteLayout, entry: ManifestEntry, unit: CompactionUnit) -> bool:
    """Whether a file that overlaps no other is rewritten all the same: small ones, and those with deletes to drop."""
    file = entry.file
    return file.file_size < layout.target_file_size // 2 or (unit.drops_deletes and file.delete_row_count != 0)


def _merge_sections(
    state: PaimonState,
    layout: WriteLayout,
    splits: FileSplits,
    sections: Sequence[Sequence[ManifestEntry]],
    unit: CompactionUnit,
) -> list[WrittenDataFile]:
    bucket = _location_of(layout, sections[0][0])
    files = BucketFiles(layout, bucket, level=unit.output_level, source=FileSource.COMPACT)
    reader = SplitReader(state, state.arrow_schema)
    try:
        for section in sections:
            for records in reader.records([splits.merged(section)]):
                kept = _kept(records, unit)
                if len(kept):
                    files.write(file_rows(layout, kept))
        return files.close()
    except BaseException:
        files.abort()
        raise


def _kept(records: Records, unit: CompactionUnit) -> Records:
    """The records that still have an effect: deletes have none if no older level remains."""
    adds = (records.kinds & 1) == 0
    return records.take(adds.nonzero()[0]) if unit.drops_deletes and not adds.all() else records
