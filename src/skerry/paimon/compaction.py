"""Compaction: fewer files and sorted runs, the same rows.

What is to be done is planned from metadata (`compaction_plan`), bucket by bucket; every bucket is then done by itself,
so that buckets can be spread over machines, and all are committed together. What others append meanwhile stays: they
write to level 0, from which only the files are taken that were there.

Spec: `formats/paimon.md` § 10, Compaction.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pyarrow as pa

from skerry.errors import UnsupportedError
from skerry.paimon.changing import ChangeRequest, commit_files, redo_after_conflicts
from skerry.paimon.compaction_plan import (
    CompactionUnit,
    TreeShape,
    plan_full,
    plan_small_files,
    plan_universal,
    sorted_runs,
)
from skerry.paimon.file_splits import FileSplits, key_sections
from skerry.paimon.live_files import index_entries, live_entries
from skerry.paimon.manifest import FileSource, ManifestEntry
from skerry.paimon.merging import Records
from skerry.paimon.operations import IndexChange, ReplaceFiles
from skerry.paimon.reading import SplitReader
from skerry.paimon.row_vectors import change_vectors
from skerry.paimon.snapshot import CommitKind
from skerry.paimon.state import PaimonState
from skerry.paimon.writing.data_files import BucketFiles, BucketPlace, WrittenDataFile
from skerry.paimon.writing.key_sorting import file_rows
from skerry.paimon.writing.layout import WriteLayout

__all__ = ["BucketTask", "CompactionCounts", "compact", "plan_compaction", "run_task"]


@dataclass(frozen=True, slots=True)
class BucketTask:
    """What compaction does in one bucket; picklable.

    Args:
        entries: The files that are merged, in the order in which their rows follow each other.
        unit: How a tree is changed; None in append tables.
    """

    entries: tuple[ManifestEntry, ...]
    unit: CompactionUnit | None = None


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What came of a task; picklable.

    Args:
        removed: Files that are written anew or move to another level.
        moved: Files under their new level.
        written: New files.
    """

    removed: tuple[ManifestEntry, ...]
    moved: tuple[ManifestEntry, ...] = ()
    written: tuple[WrittenDataFile, ...] = ()


@dataclass(frozen=True, slots=True)
class CompactionCounts:
    """What a compaction did, or would do.

    Args:
        snapshot_id: The snapshot that holds the new files, or the one that was read if nothing was done.
        buckets: Buckets that were changed.
        rewritten_files: Data files written anew.
        rewritten_bytes: Their size.
        moved_files: Data files that only changed their level.
        added_files: Data files in their place.
        added_bytes: Their size.
        rows: Rows in the new files.
        removed_vectors: Deletion vectors that were folded in.
        dry_run: Whether all this was only planned.
    """

    snapshot_id: int | None
    buckets: int = 0
    rewritten_files: int = 0
    rewritten_bytes: int = 0
    moved_files: int = 0
    added_files: int = 0
    added_bytes: int = 0
    rows: int = 0
    removed_vectors: int = 0
    dry_run: bool = False


def compact(
    request: ChangeRequest,
    *,
    full: bool = False,
    choose: Callable[[Collection[bytes]], Collection[bytes]] | None = None,
    min_input_files: int | None = None,
    target_file_size: int | None = None,
    dry_run: bool = False,
) -> CompactionCounts:
    """Compact a branch.

    Args:
        request: Where to.
        full: Merge every bucket to one run of its highest level, or write all files of an append table anew; else only
            what is out of shape.
        choose: Only these partitions.
        min_input_files: So many small files of an append table are made one; `compaction.min.file-num` if None.
        target_file_size: Bytes that files should have; `target-file-size` if None.
        dry_run: Only tell what would be done.

    Raises:
        ConflictError: Others compacted the same files, again and again.
        UnsupportedError: The table is of a kind that is not compacted here; the message names the option.
    """

    def attempt(state: PaimonState) -> CompactionCounts:
        layout = _layout(state, target_file_size)
        tasks = plan_compaction(state, layout, full=full, choose=choose, min_input_files=min_input_files)
        if dry_run or not tasks:
            return _planned(state, tasks, dry_run=dry_run)
        results = _run(state, layout, tasks)
        index = _without_vectors(state, layout, [entry for task in tasks for entry in task.entries])
        operation = ReplaceFiles(
            layout,
            [entry for result in results for entry in result.removed],
            [file for result in results for file in result.written],
            CommitKind.COMPACT,
            moved=[entry for result in results for entry in result.moved],
            index=index,
            properties=request.properties,
        )
        after = commit_files(
            request,
            operation,
            [layout.index_file(entry.partition, entry.bucket, entry.file_name) for entry in index.added],
        )
        return _done(after, results, index)

    return redo_after_conflicts(request, attempt)


def _layout(state: PaimonState, target_file_size: int | None) -> WriteLayout:
    layout = WriteLayout.of(state)
    if layout.options.row_tracking:
        raise UnsupportedError(
            "table option row-tracking.enabled=true: such tables are not compacted, as files that are written anew "
            "would lose their row ids",
            location=state.name,
        )
    if target_file_size is None:
        return layout
    options = {**layout.schema.options, "target-file-size": f"{target_file_size} b"}
    return replace(layout, schema=replace(layout.schema, options=options))


# Planning ------------------------------------------------------------------------------------------------------------


def plan_compaction(
    state: PaimonState,
    layout: WriteLayout,
    *,
    full: bool = False,
    choose: Callable[[Collection[bytes]], Collection[bytes]] | None = None,
    min_input_files: int | None = None,
) -> list[BucketTask]:
    """What there is to do in a state; see `compact`."""
    live = live_entries(state)
    if choose is not None:
        chosen = set(choose({entry.partition for entry in live}))
        live = [entry for entry in live if entry.partition in chosen]
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = {}
    for entry in live:
        buckets.setdefault((entry.partition, entry.bucket), []).append(entry)
    if layout.has_keys:
        return [task for entries in buckets.values() if (task := _tree_task(layout, entries, full)) is not None]
    least = layout.options.compaction_min_file_num if min_input_files is None else min_input_files
    vectors = FileSplits(state, layout).vectors
    tasks = []
    for entries in buckets.values():
        with_vectors = {entry.file.file_name for entry in entries if _key(entry) in vectors}
        for group in plan_small_files(
            entries, layout.target_file_size, least, must=with_vectors, is_ordered=layout.options.bucket > 0, every=full
        ):
            tasks.append(BucketTask(tuple(group)))
    return tasks


def _key(entry: ManifestEntry) -> tuple[bytes, int, str]:
    return entry.partition, entry.bucket, entry.file.file_name


def _tree_task(layout: WriteLayout, entries: Sequence[ManifestEntry], full: bool) -> BucketTask | None:
    shape = TreeShape.from_options(layout.options)
    runs = sorted_runs(entry.file for entry in entries)
    unit = plan_full(runs, shape) if full else plan_universal(runs, shape)
    if unit is None:
        return None
    by_file = {(entry.file.file_name, entry.file.level): entry for entry in entries}
    return BucketTask(tuple(by_file[file.file_name, file.level] for file in unit.files), unit)


# Execution -----------------------------------------------------------------------------------------------------------


def _run(state: PaimonState, layout: WriteLayout, tasks: Sequence[BucketTask]) -> list[TaskResult]:
    """Do the tasks side by side; if one fails, what the others have written is removed."""
    with ThreadPoolExecutor(min(len(tasks), os.cpu_count() or 1)) as pool:
        futures = [pool.submit(run_task, state, layout, task) for task in tasks]
    failures = [failure for future in futures if (failure := future.exception()) is not None]
    if failures:
        done = [future.result() for future in futures if future.exception() is None]
        _remove(layout, [file for result in done for file in result.written])
        raise failures[0]
    return [future.result() for future in futures]


def _remove(layout: WriteLayout, files: Iterable[WrittenDataFile]) -> None:
    layout.storage.delete([location for file in files for location in file.locations])


def run_task(state: PaimonState, layout: WriteLayout, task: BucketTask) -> TaskResult:
    """Write the files of a bucket anew.

    Args:
        state: The state that was planned.
        layout: How the table wants its files.
        task: What to do.
    """
    splits = FileSplits(state, layout)
    return _merge_tree(state, layout, splits, task) if task.unit is not None else _join(state, layout, splits, task)


def _join(state: PaimonState, layout: WriteLayout, splits: FileSplits, task: BucketTask) -> TaskResult:
    """One file after the other, deleted rows left out."""
    place = _place(layout, task.entries[0])
    first = min(entry.file.min_sequence_number for entry in task.entries)
    files = BucketFiles(layout, place, source=FileSource.COMPACT, first_sequence_number=first)
    try:
        for batch in SplitReader(state, state.arrow_schema).batches([splits.raw(task.entries)]):
            files.write(pa.Table.from_batches([batch]))
        return TaskResult(task.entries, (), tuple(files.close()))
    except BaseException:
        files.abort()
        raise


def _place(layout: WriteLayout, entry: ManifestEntry) -> BucketPlace:
    folder = layout.bucket_folder(entry.partition, entry.bucket)
    return BucketPlace(entry.partition, entry.bucket, entry.total_buckets, folder)


def _merge_tree(state: PaimonState, layout: WriteLayout, splits: FileSplits, task: BucketTask) -> TaskResult:
    """Merge overlapping files; large ones that overlap with nothing only move to the new level."""
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
            flush()  # or its file would reach over the one that stays
            (entry,) = section
            if entry.file.level != unit.output_level:
                removed.append(entry)
                moved.append(replace(entry, file=replace(entry.file, level=unit.output_level)))
        flush()
    except BaseException:
        _remove(layout, written)
        raise
    return TaskResult(tuple(removed), tuple(moved), tuple(written))


def _must_be_written(layout: WriteLayout, entry: ManifestEntry, unit: CompactionUnit) -> bool:
    """Whether a file is written anew though it overlaps with no other: small ones, and those with deletes to drop."""
    file = entry.file
    return file.file_size < layout.target_file_size // 2 or (unit.drops_deletes and file.delete_row_count != 0)


def _merge_sections(
    state: PaimonState,
    layout: WriteLayout,
    splits: FileSplits,
    sections: Sequence[Sequence[ManifestEntry]],
    unit: CompactionUnit,
) -> list[WrittenDataFile]:
    place = _place(layout, sections[0][0])
    files = BucketFiles(layout, place, level=unit.output_level, source=FileSource.COMPACT)
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
    """The records that still say something: where nothing lies beneath, deletes do not."""
    adds = (records.kinds & 1) == 0
    return records.take(adds.nonzero()[0]) if unit.drops_deletes and not adds.all() else records


def _without_vectors(state: PaimonState, layout: WriteLayout, entries: Iterable[ManifestEntry]) -> IndexChange:
    """The index files without the vectors of files that are written anew."""
    vectors = FileSplits(state, layout).vectors
    gone = [_key(entry) for entry in entries if _key(entry) in vectors]
    return change_vectors(layout, index_entries(state), {}, gone) if gone else IndexChange()


# Counts --------------------------------------------------------------------------------------------------------------


def _planned(state: PaimonState, tasks: Sequence[BucketTask], *, dry_run: bool) -> CompactionCounts:
    files = [entry.file for task in tasks for entry in task.entries]
    return CompactionCounts(
        state.snapshot.id if state.snapshot is not None else None,
        buckets=len({_key(task.entries[0])[:2] for task in tasks}),
        rewritten_files=len(files),
        rewritten_bytes=sum(file.file_size for file in files),
        dry_run=dry_run,
    )


def _done(state: PaimonState, results: Sequence[TaskResult], index: IndexChange) -> CompactionCounts:
    moved = {entry.file.file_name for result in results for entry in result.moved}
    rewritten = [entry for result in results for entry in result.removed if entry.file.file_name not in moved]
    added = [file.file for result in results for file in result.written]
    return CompactionCounts(
        state.snapshot.id if state.snapshot is not None else None,
        buckets=len({_key(entry)[:2] for result in results for entry in result.removed}),
        rewritten_files=len(rewritten),
        rewritten_bytes=sum(entry.file.file_size for entry in rewritten),
        moved_files=len(moved),
        added_files=len(added),
        added_bytes=sum(file.file_size for file in added),
        rows=sum(file.row_count for file in added),
        removed_vectors=sum(entry.row_count for entry in index.removed) - sum(entry.row_count for entry in index.added),
    )
