"""Compaction bucket by bucket: finding what to do in a state, and compacting one bucket in a task.

Spec: docs/formats/paimon.md § 10.5.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import pyarrow as pa

from skerry.paimon.jobs.compact_plan import (
    CompactionUnit,
    TreeShape,
    plan_full,
    plan_level_0,
    plan_small_files,
    plan_universal,
    sorted_runs,
)
from skerry.paimon.jobs.compact_row_ranges import plan_row_ranges, stitch_rows
from skerry.paimon.jobs.record_expiry import RecordExpiry
from skerry.paimon.manifests.live_files import live_entries
from skerry.paimon.manifests.manifest import FileSource, ManifestEntry
from skerry.paimon.merging import Records
from skerry.paimon.metadata.options import ChangelogProducer, MergeEngine
from skerry.paimon.metadata.paths import POSTPONE_BUCKET
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.deletion_positions import Positions
from skerry.paimon.planning.file_splits import FileSplits, key_sections
from skerry.paimon.planning.splits import Split, VectorLocation
from skerry.paimon.planning.vector_locations import VectorKey
from skerry.paimon.reading.compacting import CompactedRecords, FullMerge, LookupMerge
from skerry.paimon.reading.key_lookup import BucketFiles as FilesWithKeys
from skerry.paimon.reading.key_lookup import KeyLookup
from skerry.paimon.reading.rows import SplitReader
from skerry.paimon.recent_runs import RecentRows
from skerry.paimon.writing.clustering import Clustering
from skerry.paimon.writing.data_files import BucketFiles, BucketLocation, WrittenDataFile
from skerry.paimon.writing.key_sorting import file_rows
from skerry.paimon.writing.layout import WriteLayout
from skerry.paimon.writing.lineage import read_columns, stored_rows
from skerry.table.owned_files import give_up

__all__ = ["BucketTask", "CompactionRules", "RewriteReason", "TaskResult", "plan_compaction", "run_task"]


class RewriteReason(Enum):
    """Why files of a bucket are rewritten."""

    ASKED = "asked for"
    """All buckets are to be merged."""
    DELETES = "deletes"
    """Rows of its files are deleted by deletion vectors."""
    LEVEL_0 = "files of level 0"
    """Compaction by look-up takes them to a higher level, and finds out what they change."""
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
        clustering: Rewrite all files of an append table, with rows in this order.
    """

    full: bool = False
    choose: Callable[[Collection[bytes]], Collection[bytes]] | None = None
    min_input_files: int | None = None
    buckets: frozenset[tuple[bytes, int]] | None = None
    clustering: Clustering | None = None


@dataclass(frozen=True, slots=True)
class BucketTask:
    """What compaction does in one bucket; picklable.

    Args:
        entries: The files to merge, in the order of their rows.
        reason: Why it is rewritten.
        unit: How the tree is changed; None in append tables.
        vectors: The deletion vectors of these files, and of older ones.
        older: Files of higher levels than the unit's output, where keys are looked up.
    """

    entries: tuple[ManifestEntry, ...]
    reason: RewriteReason
    unit: CompactionUnit | None = None
    vectors: Mapping[VectorKey, VectorLocation] = field(default_factory=dict)
    older: tuple[ManifestEntry, ...] = ()

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
        written: New files, changelog files among them.
        deleted: int64[n] By older file, the positions of rows that newer ones have replaced; by new file that keeps the
            ids of its rows, those of rows that are deleted; ascending.
    """

    removed: tuple[ManifestEntry, ...]
    moved: tuple[ManifestEntry, ...] = ()
    written: tuple[WrittenDataFile, ...] = ()
    deleted: Mapping[VectorKey, Positions] = field(default_factory=dict)


# Planning ------------------------------------------------------------------------------------------------------------


def plan_compaction(state: PaimonState, layout: WriteLayout, rules: CompactionRules) -> list[BucketTask]:
    """The tasks to do in a state."""
    live = live_entries(state, None if rules.buckets is None else {partition for partition, _ in rules.buckets})
    if rules.choose is not None:
        chosen = set(rules.choose({entry.partition for entry in live}))
        live = [entry for entry in live if entry.partition in chosen]
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = {}
    for entry in live:
        key = entry.partition, entry.bucket
        if entry.bucket != POSTPONE_BUCKET and (rules.buckets is None or key in rules.buckets):
            buckets.setdefault(key, []).append(entry)
    splits = FileSplits(state, layout)
    if state.options.data_evolution:
        return [
            task for entries in buckets.values() for task in _row_range_tasks(state, layout, splits, entries, rules)
        ]
    if layout.has_keys:
        tasks = (_tree_task(state, layout, splits, entries, full=rules.full) for entries in buckets.values())
        return [task for task in tasks if task is not None]
    return [task for entries in buckets.values() for task in _small_file_tasks(layout, splits, entries, rules)]


def _small_file_tasks(
    layout: WriteLayout, splits: FileSplits, entries: Sequence[ManifestEntry], rules: CompactionRules
) -> Iterable[BucketTask]:
    least = layout.options.compaction_min_file_num if rules.min_input_files is None else rules.min_input_files
    vectors = _vectors(splits, entries)
    if rules.clustering is not None:  # all rows, so that each file has a part of the order
        yield BucketTask(tuple(entries), RewriteReason.ASKED, vectors=vectors)
        return
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


def _row_range_tasks(
    state: PaimonState,
    layout: WriteLayout,
    splits: FileSplits,
    entries: Sequence[ManifestEntry],
    rules: CompactionRules,
) -> Iterable[BucketTask]:
    least = layout.options.compaction_min_file_num if rules.min_input_files is None else rules.min_input_files
    for files in plan_row_ranges(entries, layout, 2 if rules.full else least, location=state.name):
        reason = RewriteReason.ASKED if rules.full else RewriteReason.MANY_SMALL
        yield BucketTask(tuple(files), reason, vectors=_vectors(splits, files))


def _key(entry: ManifestEntry) -> VectorKey:
    return entry.partition, entry.bucket, entry.file.file_name


def _vectors(splits: FileSplits, entries: Iterable[ManifestEntry]) -> dict[VectorKey, VectorLocation]:
    """The deletion vectors of files."""
    return {key: vector for entry in entries if (vector := splits.vectors.get(key := _key(entry))) is not None}


def _tree_task(
    state: PaimonState, layout: WriteLayout, splits: FileSplits, entries: Sequence[ManifestEntry], *, full: bool
) -> BucketTask | None:
    shape, options = TreeShape.from_options(layout.options), layout.options
    runs = sorted_runs(entry.file for entry in entries)
    vectors = _vectors(splits, entries)
    must = {name for _, _, name in vectors}
    if full and (expiry := RecordExpiry.of(layout.schema)) is not None:
        must |= {entry.file.file_name for entry in entries if expiry.has_expired(state, entry.file)}
    unit = plan_full(runs, shape, must=must) if full else plan_universal(runs, shape)
    reason = RewriteReason.MANY_RUNS
    if unit is None and not full and options.compacts_by_lookup:
        unit, reason = plan_level_0(runs, shape), RewriteReason.LEVEL_0
    if unit is None:
        return None
    if options.deletion_vectors:  # older records of a key are found and marked: its delete has then done its work
        unit = replace(unit, drops_deletes=True)
    by_file = {(entry.file.file_name, entry.file.level): entry for entry in entries}
    chosen = tuple(by_file[file.file_name, file.level] for file in unit.files)
    looks_up = options.compacts_by_lookup and any(run.level == 0 for run in unit.runs)
    older = tuple(entry for entry in entries if entry.file.level > unit.output_level) if looks_up else ()
    return BucketTask(chosen, RewriteReason.ASKED if full else reason, unit, vectors, older)


# Execution -----------------------------------------------------------------------------------------------------------


def run_task(state: PaimonState, layout: WriteLayout, clustering: Clustering | None, task: BucketTask) -> TaskResult:
    """Rewrite the files of a bucket; if that fails, what was written is removed.

    Args:
        state: The state that was planned.
        layout: How the table's files are written.
        clustering: The order of rows; None to keep theirs.
        task: The task.
    """
    if state.options.data_evolution:
        bucket = _location_of(layout, task.entries[0])
        file, deleted = stitch_rows(state, layout, bucket, task.entries, task.vectors)
        return TaskResult(task.entries, (), (file,), deleted)
    splits = FileSplits(state, layout, task.vectors)
    if task.unit is not None:
        return _TreeMerge(state, layout, splits, task).run()
    return _join(state, layout, splits, task, clustering)


def _join(
    state: PaimonState, layout: WriteLayout, splits: FileSplits, task: BucketTask, clustering: Clustering | None
) -> TaskResult:
    """Join files one after the other, leaving out deleted rows, or sort the rows of all."""
    bucket = _location_of(layout, task.entries[0])
    first = min(entry.file.min_sequence_number for entry in task.entries)
    layout = layout.with_lineage
    files = BucketFiles(layout, bucket, source=FileSource.COMPACT, first_sequence_number=first)
    columns = read_columns(layout, state.arrow_schema)

    def read(columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        return _reader(state, columns).batches([splits.raw(task.entries)])

    rows = read(columns)
    if clustering is not None:
        rows = clustering.batches(
            read,
            columns,
            most_rows=sum(entry.file.row_count for entry in task.entries),
            file_bytes=layout.target_file_size,
            range_bytes=state.options.merge_memory_bytes,
        )
    try:
        for batch in rows:
            files.write(stored_rows(batch))
        return TaskResult(task.entries, (), tuple(files.close()))
    except BaseException:
        files.abort()
        raise


def _reader(state: PaimonState, columns: pa.Schema) -> SplitReader:
    return SplitReader(state, columns, memory_bytes=state.options.merge_memory_bytes, recent=True)


def _location_of(layout: WriteLayout, entry: ManifestEntry) -> BucketLocation:
    folder = layout.bucket_folder(entry.partition, entry.bucket)
    return BucketLocation(entry.partition, entry.bucket, entry.total_buckets, folder)


class _TreeMerge:
    """Merges overlapping files of a bucket; large files that overlap no other only move to the new level."""

    def __init__(self, state: PaimonState, layout: WriteLayout, splits: FileSplits, task: BucketTask) -> None:
        assert task.unit is not None
        self._task = task
        self._layout = layout
        self._splits = splits
        self._unit = task.unit
        self._state = state
        self._expiry = RecordExpiry.of(layout.schema) if task.unit.drops_deletes else None
        self._bucket = _location_of(layout, task.entries[0])
        self._reader = _reader(state, state.arrow_schema)
        self._sections = key_sections(task.entries, layout.schema)
        self._merge = _merge_of(state, splits, task)
        self._changes = BucketFiles(layout, self._bucket, level=self._unit.output_level, is_changelog=True)
        self._removed: list[ManifestEntry] = []
        self._moved: list[ManifestEntry] = []
        self._written: list[WrittenDataFile] = []

    def run(self) -> TaskResult:
        """Do it; if that fails, what was written is removed."""
        pending: list[list[ManifestEntry]] = []
        try:
            for section in self._sections:
                if len(section) > 1 or self._must_be_written(section[0]):
                    pending.append(section)
                    continue
                self._write(pending)  # or its file would overlap the one that stays
                pending = []
                if section[0].file.level != self._unit.output_level:
                    self._move(section[0])
            self._write(pending)
            written = (*self._written, *self._changes.close())
        except BaseException:
            self._changes.abort()
            give_up(self._layout.storage, (location for file in self._written for location in file.locations))
            raise
        return TaskResult(tuple(self._removed), tuple(self._moved), written, self._marked())

    def _marked(self) -> Mapping[VectorKey, Positions]:
        if not isinstance(self._merge, LookupMerge) or not self._layout.options.deletion_vectors:
            return {}
        return {_key(self._task.older[number]): rows for number, rows in self._merge.found_rows().items()}

    def _must_be_written(self, entry: ManifestEntry) -> bool:
        """Whether a file that overlaps no other is rewritten all the same: small ones, and those with other records."""
        return entry.file.file_size < self._layout.target_file_size // 2 or self._changes_records(entry)

    def _changes_records(self, entry: ManifestEntry) -> bool:
        """Whether there are deleted rows to drop, or records of level 0 to merge with rows of older files."""
        file, options = entry.file, self._layout.options
        if self._task.reason is RewriteReason.ASKED and _key(entry) in self._task.vectors:
            return True
        if self._expiry is not None and self._expiry.has_expired(self._state, file):
            return True
        if self._unit.drops_deletes and (file.delete_row_count != 0 or not self._task.older):
            return file.delete_row_count != 0
        is_whole = options.merge_engine is MergeEngine.DEDUPLICATE and not options.sequence_fields
        return isinstance(self._merge, LookupMerge) and file.level == 0 and not is_whole

    def _move(self, entry: ManifestEntry) -> None:
        """Move a file to the new level; its records are new to those who follow the table."""
        self._removed.append(entry)
        self._moved.append(replace(entry, file=replace(entry.file, level=self._unit.output_level)))
        if self._merge is not None and (isinstance(self._merge, FullMerge) or entry.file.level == 0):
            for found in self._reader.merged([self._splits.merged([entry])], self._merge):
                self._note(found)

    def _write(self, sections: Sequence[Sequence[ManifestEntry]]) -> None:
        """Merge sections into new files; a single file of a table with changelog moves even if it is small."""
        if not sections:
            return
        files = [file for section in sections for file in section]
        if self._merge is not None and len(files) == 1 and not self._changes_records(files[0]):
            if files[0].file.level != self._unit.output_level:
                self._move(files[0])
            return
        output = BucketFiles(self._layout, self._bucket, level=self._unit.output_level, source=FileSource.COMPACT)
        recent = RecentRows(self._layout.options, merges_again=not self._unit.drops_deletes)
        try:
            for section in sections:
                for records in self._merged(self._splits.merged(section)):
                    kept = _kept(records, self._unit, self._expiry)
                    if len(kept):
                        rows = file_rows(self._layout, kept)
                        output.write(rows)
                        recent.add(rows)
            written = output.close()
            self._written.extend(written)
        except BaseException:
            output.abort()
            raise
        recent.keep(((file.location, file.file.row_count) for file in written), evicts=False)
        self._removed.extend(files)

    def _merged(self, split: Split) -> Iterator[Records]:
        if self._merge is None:
            yield from self._reader.records([split])
            return
        for found in self._reader.merged([split], self._merge):
            self._note(found)
            yield found.records

    def _note(self, found: CompactedRecords) -> None:
        if len(found.changes):
            self._changes.write(file_rows(self._layout, found.changes))


def _merge_of(state: PaimonState, splits: FileSplits, task: BucketTask) -> FullMerge | LookupMerge | None:
    """How records are merged if the table has a changelog by compaction, or compaction looks keys up."""
    unit = task.unit
    assert unit is not None
    if state.options.changelog_producer is ChangelogProducer.FULL_COMPACTION:
        return FullMerge(state.schema, unit.output_level) if unit.drops_deletes else None
    if not state.options.compacts_by_lookup or not any(run.level == 0 for run in unit.runs):
        return None
    if not task.older:
        return LookupMerge(state, unit.output_level)
    older = FilesWithKeys.of(state.schema, splits, task.older)
    return LookupMerge(state, unit.output_level, older, KeyLookup.of(state))


def _kept(records: Records, unit: CompactionUnit, expiry: RecordExpiry | None) -> Records:
    """The records that still have an effect: deletes, and what has expired, have none if no older level remains."""
    if not unit.drops_deletes:
        return records
    adds = (records.kinds & 1) == 0
    if expiry is not None:
        adds &= ~expiry.expired(records.values.column(expiry.column.name))
    return records if adds.all() else records.take(adds.nonzero()[0])
