"""Analyze: sketching the rows that are not sketched yet, and publishing sketches of all rows.

Files of append tables are read one by one. In primary-key tables the rows of a bucket result from merging all its
files, so that a bucket is read as a whole, and its sample covers all of its files.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from skerry.errors import ConflictError
from skerry.paimon.change_request import ChangeRequest, commit_files, redo_after_conflicts
from skerry.paimon.manifests.live_files import live_entries
from skerry.paimon.manifests.manifest import ManifestEntry
from skerry.paimon.metadata.snapshot import CommitKind
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.operations import CommitId, TableChange
from skerry.paimon.operations.samples import partition_key
from skerry.paimon.planning.file_splits import FileSplits
from skerry.paimon.planning.row_sections import stitched_entries
from skerry.paimon.planning.splits import Split
from skerry.paimon.reading.rows import SplitReader
from skerry.paimon.statistics.samples import delete_key, sample_of
from skerry.paimon.writing.data_files import WrittenDataFile
from skerry.paimon.writing.layout import WriteLayout
from skerry.table.rows.schema import leaf
from skerry.table.statistics.column_statistics import SketchPolicy
from skerry.table.statistics.file_groups import SketchedFile, key_of
from skerry.table.statistics.group_samples import GroupSamples
from skerry.table.statistics.row_sample import RowSample
from skerry.table.statistics.sketching import BatchSketcher
from skerry.table.statistics.table_sample import TableSample, max_groups
from skerry.table.summaries import AnalyzeSummary
from skerry.table.work.tasks import JobProgress
from skerry.theta import Sample

__all__ = ["analyze"]


class _PublishSample:
    """Publish samples of exactly one snapshot, of the columns of one schema."""

    def __init__(self, snapshot_id: int, schema_id: int, sample: TableSample, commit_id: CommitId) -> None:
        self._snapshot_id = snapshot_id
        self._schema_id = schema_id
        self._sample = sample
        self._commit_id = commit_id
        self.files: tuple[WrittenDataFile, ...] = ()
        self.superseded: list[WrittenDataFile] = []
        self.was_done = False

    def apply(self, base: PaimonState) -> TableChange | None:
        is_other = base.snapshot is None or base.snapshot.id != self._snapshot_id
        if is_other or base.schema.id != self._schema_id:
            raise ConflictError("the table has changed since it was sketched", location=base.name, retryable=False)
        return TableChange(CommitKind.ANALYZE, self._commit_id, sample=self._sample)


def analyze(request: ChangeRequest, columns: Sequence[str] | None = None, *, full: bool = False) -> AnalyzeSummary:
    """Sketch the rows of a branch that are not sketched yet, and publish sketches of all rows.

    Args:
        request: The branch.
        columns: Dotted names; those that the table's options select if None.
        full: Whether to sketch all files again.

    Raises:
        SchemaError: A column does not exist.
        ConflictError: Others kept changing the table.
    """

    def attempt(state: PaimonState) -> AnalyzeSummary:
        if state.snapshot is None:
            return AnalyzeSummary(None)
        wanted = _columns(state, columns)
        known = sample_of(state)
        if full or not wanted <= set(known.groups.columns):
            known = TableSample()
        kept, pending = _pending(state, known.groups)
        sketched = _sketch_all(request, state, pending, wanted)
        limit = max_groups(state.properties)
        groups = kept.with_columns(wanted).with_files(sketched, max_groups=limit)
        if not sketched and not known.missing_files and known.exact_columns >= wanted:
            return AnalyzeSummary(state.snapshot.id, len(wanted))
        commit_id = request.commit_id or CommitId.fresh()
        after = commit_files(
            request, _PublishSample(state.snapshot.id, state.schema.id, TableSample(groups), commit_id)
        )
        return AnalyzeSummary(
            after.snapshot.id if after.snapshot is not None else None,
            len(groups.columns),
            len(sketched),
            sum(found.row_count for found in sketched),
        )

    return redo_after_conflicts(request, attempt)


def _columns(state: PaimonState, names: Sequence[str] | None) -> set[int]:
    policy = SketchPolicy.from_properties(state.properties)
    if names is None:
        return {column.field_id for column in policy.columns(state.arrow_schema, created=True)}
    return {leaf(state.arrow_schema, name).field_id for name in names}


def _pending(state: PaimonState, groups: GroupSamples) -> tuple[GroupSamples, list[list[ManifestEntry]]]:
    """The samples that are exact, and the files of the others, in parts that are read together."""
    live = live_entries(state)
    has_keys = bool(state.schema.primary_keys)
    parts: dict[object, list[ManifestEntry]] = {}
    if state.options.data_evolution:
        buckets: dict[object, list[ManifestEntry]] = {}
        for entry in live:
            buckets.setdefault((entry.partition, entry.bucket), []).append(entry)
        groups_of = (stitched_entries(entries, location=state.name) for entries in buckets.values())
        parts = {group[0].file.file_name: group for groups in groups_of for group in groups}
    for entry in () if parts else live:
        part = (entry.partition, entry.bucket) if has_keys else entry.file.file_name
        parts.setdefault(part, []).append(entry)
    part_of = {key_of(entry.file.file_name): part for part, entries in parts.items() for entry in entries}
    good = [row for row, group in enumerate(groups.groups) if group.exact and group.files.keys() <= part_of.keys()]
    while True:  # a group that overlaps a part which must be read is not exact either
        covered = {file for row in good for file in groups.groups[row].files}
        bad = {part for file, part in part_of.items() if file not in covered}
        left = [row for row in good if all(part_of[file] not in bad for file in groups.groups[row].files)]
        if len(left) == len(good):
            return groups.only_groups(good), [entries for part, entries in parts.items() if part in bad]
        good = left


def _sketch_all(
    request: ChangeRequest, state: PaimonState, parts: Sequence[Sequence[ManifestEntry]], columns: set[int]
) -> list[SketchedFile]:
    """The samples of parts, each made by a task."""
    layout = WriteLayout(state.name, state.location, state.storage, state.schema, state.branch)
    splits = FileSplits(state, layout)
    tasks = [_part(splits, part, has_keys=layout.has_keys) for part in parts]
    work = functools.partial(_sketch, state, columns)
    total = sum(map(len, parts))
    found: list[SketchedFile] = []
    rows = size = 0
    for part, sketched in zip(parts, request.executor.map(work, tasks), strict=True):
        found += sketched
        rows += sum(file.row_count for file in sketched)
        size += sum(entry.file.file_size for entry in part)
        if request.progress is not None:
            request.progress(JobProgress("sketch", len(found), total, rows, size))
    return found


@dataclass(frozen=True, slots=True)
class _Part:
    """Files that are read together; picklable."""

    entries: tuple[ManifestEntry, ...]
    split: Split
    deleted: tuple[int, ...]


def _part(splits: FileSplits, entries: Sequence[ManifestEntry], *, has_keys: bool) -> _Part:
    vectors = map(splits.vector, entries)
    return _Part(
        tuple(entries),
        splits.merged(entries) if has_keys else splits.raw(entries),
        tuple(found.cardinality or 0 if found is not None else 0 for found in vectors),
    )


def _sketch(state: PaimonState, columns: set[int], part: _Part) -> list[SketchedFile]:
    """The samples of a part: its first file holds those of all rows, the others have none."""
    sketcher, rows = BatchSketcher(state.arrow_schema, columns, samples_rows=True, is_whole=False), 0
    for batch in SplitReader(state, state.arrow_schema).batches([part.split]):
        sketcher.update(batch)
        rows += batch.num_rows
    nothing = {field_id: Sample() for field_id in columns}
    sampled = sketcher.row_sample()
    has_keys = bool(state.schema.primary_keys)
    return [
        SketchedFile(
            entry.file.file_name,
            partition_key(entry.partition, entry.bucket, has_keys=has_keys),
            0 if number else rows,
            nothing if number else sketcher.samples,
            0 if has_keys else delete_key(entry.file.file_name, deleted),
            None if sampled is None else RowSample() if number else sampled,
        )
        for number, (entry, deleted) in enumerate(zip(part.entries, part.deleted, strict=True))
    ]
