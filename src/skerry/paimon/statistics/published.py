"""The statistics that a commit publishes: sketches of all rows if they are known, and counts for other engines.

Spec: docs/formats/paimon.md § 3.1, § 12.7; Paimon spec, Snapshot (statistics, properties).
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from skerry.paimon.manifests.live_files import live_entries
from skerry.paimon.manifests.manifest import FileKind
from skerry.paimon.metadata.snapshot import CommitKind, Snapshot
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.operations.change import TableChange
from skerry.paimon.statistics.samples import (
    CONTINUED_PROPERTY,
    FILE_PROPERTY,
    continued,
    read_published,
    sample_of,
    unchanged_columns,
    write_published,
)
from skerry.paimon.statistics.statistics_file import ColStats, StatisticsFile, encode_statistics
from skerry.table.owned_files import OwnedFiles
from skerry.table.rows.schema import Leaf, leaves
from skerry.table.statistics.column_estimates import estimate
from skerry.table.statistics.column_statistics import SketchPolicy
from skerry.table.statistics.file_groups import FileGroup
from skerry.table.statistics.group_samples import GroupSamples, fits
from skerry.table.statistics.pieces.growing import Growth, appended, changed
from skerry.table.statistics.table_sample import SampleChange, TableSample, max_groups
from skerry.theta import ThetaSketch

__all__ = ["stage_statistics"]


def stage_statistics(base: PaimonState, snapshot: Snapshot, change: TableChange, files: OwnedFiles) -> Snapshot:
    """Add the statistics to a snapshot, writing their files.

    Args:
        base: The state before.
        snapshot: The new snapshot.
        change: What the commit does.
        files: Owns what is written.

    Returns:
        The snapshot. A statistics file of another writer is inherited as long as the schema is the same.
    """
    previous = base.snapshot
    if previous is not None and previous.schema_id == snapshot.schema_id:
        snapshot = replace(snapshot, statistics=previous.statistics)
    policy = SketchPolicy.from_properties(base.properties)
    if not policy.enabled or (change.samples is None and change.sample is None):
        return snapshot
    data_bytes = sum(entry.file.file_size for entry in change.entries if entry.kind is FileKind.ADD)
    sample, after = _after(base, change, data_bytes)
    if not after.columns:
        return snapshot
    exact = after.exact | _carried_keys(base, change, after)
    wanted = policy.columns(base.arrow_schema, created=True)
    sketches = {leaf.field_id: after.sketch(leaf.field_id) for leaf in wanted if leaf.field_id in exact}
    stored = sketches
    if isinstance(sample, Growth) and not fits(sketches.values(), data_bytes):
        stored = {field_id: sketch for field_id, sketch in sketches.items() if field_id not in after.exact}
    name = f"{uuid.uuid4()}.stats"
    properties = {**(snapshot.properties or {}), FILE_PROPERTY: name}
    if isinstance(sample, Growth):
        properties[CONTINUED_PROPERTY] = ",".join(sample.names)
    snapshot = replace(snapshot, properties=properties)
    write_published(base, snapshot, name, stored, sample, files)
    return _with_counts(base, snapshot, sketches, after, wanted, _record_bytes(base, change), files)


@dataclass(frozen=True, slots=True)
class _After:
    """What is asked of the samples after a commit.

    Args:
        groups: The groups of files.
        columns: Field ids of the columns.
        exact: Those of them whose samples describe exactly the live rows.
        missing_files: Live data files that are in no group.
        sketch: The sketch of a column.
        whole: All samples, put together.
    """

    groups: Sequence[FileGroup]
    columns: Collection[int]
    exact: frozenset[int]
    missing_files: int
    sketch: Callable[[int], ThetaSketch]
    whole: Callable[[], GroupSamples]

    @classmethod
    def of(cls, sample: TableSample) -> _After:
        """All samples after a commit."""
        groups = sample.groups
        return cls(
            groups.groups,
            groups.columns,
            frozenset(sample.exact_columns),
            sample.missing_files,
            groups.sketch,
            lambda: groups,
        )


def _after(base: PaimonState, change: TableChange, data_bytes: int) -> tuple[TableSample | Growth, _After]:
    """The samples after a commit, as they are to be written and as they are to be asked."""
    if change.sample is not None:
        return change.sample, _After.of(change.sample)
    assert change.samples is not None
    known, samples = continued(base), _as_types_are_now(base, change.samples)
    grown = None if known is None else appended(known, samples, base.properties, data_bytes)
    if grown is not None and grown.sketches is not None:
        found = grown.sketches
        return grown, _After(
            grown.piece.groups,
            found.keys(),
            grown.exact or frozenset(),
            0,
            lambda field_id: ThetaSketch.from_compact(found[field_id]),
            functools.cache(grown.groups),
        )
    whole = sample_of(base).after(samples, max_groups=max_groups(base.properties))
    piece = None if known is None else changed(known, whole, data_bytes)
    return whole if piece is None else piece, _After.of(whole)


def _as_types_are_now(base: PaimonState, samples: SampleChange) -> SampleChange:
    """The change of samples, without columns whose values were hashed before their type changed.

    United with hashes of the new type's bytes, these values would count twice.
    """
    older = samples.schema_ids - {base.schema.id}
    if not older:
        return samples
    columns = {leaf.field_id for leaf in leaves(base.arrow_schema)}
    return samples.without_columns(
        frozenset().union(*(columns - unchanged_columns(base, schema_id) for schema_id in older))
    )


def _carried_keys(base: PaimonState, change: TableChange, after: _After) -> set[int]:
    """Key columns all of whose values still occur: no record has deleted a key since they were fresh."""
    fields = {field.id for field in base.schema.key_fields} & set(after.columns)
    is_kept = change.kind is CommitKind.COMPACT or (
        change.kind is CommitKind.APPEND and not any(entry.file.delete_row_count for entry in change.entries)
    )
    hides = base.options.batch_reads_skip_level_0  # so that compaction is what adds and removes keys
    if not fields or not is_kept or hides or after.missing_files:
        return set()
    if base.snapshot is None:
        return fields
    published = read_published(base, base.snapshot)
    return fields & set(published.sketches) if published is not None else set()


def _record_bytes(base: PaimonState, change: TableChange) -> float:
    """The mean size of a record in the files that a commit adds, else in those that it is about."""
    added = [entry.file for entry in change.entries if entry.kind is FileKind.ADD]
    files = added or [entry.file for entry in change.entries or live_entries(base)]
    return sum(file.file_size for file in files) / max(sum(file.row_count for file in files), 1)


def _with_counts(
    base: PaimonState,
    snapshot: Snapshot,
    sketches: Mapping[int, ThetaSketch],
    after: _After,
    columns: list[Leaf],
    record_bytes: float,
    files: OwnedFiles,
) -> Snapshot:
    """Add a statistics file in Paimon's format to the snapshot, for engines that do not know sketches."""
    if after.missing_files:
        return snapshot
    known = {leaf.field_id for leaf in leaves(base.arrow_schema) if len(leaf.path) == 1}
    counts = {}
    for leaf in columns:
        if leaf.field_id not in known or leaf.field_id not in after.columns:
            continue
        sketch = sketches.get(leaf.field_id)
        ndv = sketch.estimate() if sketch is not None else estimate(after.whole(), leaf.field_id).ndv
        if ndv is not None:
            counts[leaf.name] = ColStats(col_id=leaf.field_id, distinct_count=round(ndv))
    if not counts:
        return snapshot
    rows = sum(group.row_count for group in after.groups)
    statistics = StatisticsFile(
        snapshot_id=snapshot.id,
        schema_id=snapshot.schema_id,
        merged_record_count=rows,  # an upper bound, as the counts are, until the table is compacted or analyzed
        merged_record_size=round(rows * record_bytes),  # Java's table of statistics fails without it
        col_stats=counts,
    )
    name = f"stat-{uuid.uuid4()}-0"
    location = base.paths.statistics(name)
    files.add(location)
    base.storage.write(location, encode_statistics(statistics))
    return replace(snapshot, statistics=name)
