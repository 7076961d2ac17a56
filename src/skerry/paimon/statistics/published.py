"""The statistics that a commit publishes: sketches of all rows if they are known, and counts for other engines.

Spec: docs/formats/paimon.md § 3.1, § 12.7; Paimon spec, Snapshot (statistics, properties).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace

from skerry.paimon.manifests.live_files import live_entries
from skerry.paimon.manifests.manifest import FileKind
from skerry.paimon.metadata.snapshot import CommitKind, Snapshot
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.operations.change import TableChange
from skerry.paimon.statistics.samples import FILE_PROPERTY, read_published, sample_of, write_published
from skerry.paimon.statistics.statistics_file import ColStats, StatisticsFile, encode_statistics
from skerry.table.owned_files import OwnedFiles
from skerry.table.rows.schema import Leaf, leaves
from skerry.table.statistics.column_estimates import estimate
from skerry.table.statistics.column_statistics import SketchPolicy
from skerry.table.statistics.table_sample import TableSample, max_groups
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
    after = change.sample
    if after is None:
        assert change.samples is not None
        after = sample_of(base).after(change.samples, max_groups=max_groups(base.properties))
    if not after.groups.columns:
        return snapshot
    exact = after.exact_columns | _carried_keys(base, change, after)
    wanted = policy.columns(base.arrow_schema, created=True)
    sketches = {leaf.field_id: after.groups.sketch(leaf.field_id) for leaf in wanted if leaf.field_id in exact}
    name = f"{uuid.uuid4()}.stats"
    snapshot = replace(snapshot, properties={**(snapshot.properties or {}), FILE_PROPERTY: name})
    write_published(base, snapshot, name, sketches, after, files)
    return _with_counts(base, snapshot, sketches, after, wanted, _record_bytes(base, change), files)


def _carried_keys(base: PaimonState, change: TableChange, after: TableSample) -> set[int]:
    """Key columns all of whose values still occur: no record has deleted a key since they were fresh."""
    fields = {field.id for field in base.schema.key_fields} & set(after.groups.columns)
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
    sample: TableSample,
    columns: list[Leaf],
    record_bytes: float,
    files: OwnedFiles,
) -> Snapshot:
    """Add a statistics file in Paimon's format to the snapshot, for engines that do not know sketches."""
    if sample.missing_files:
        return snapshot
    known = {leaf.field_id for leaf in leaves(base.arrow_schema) if len(leaf.path) == 1}
    counts = {}
    for leaf in columns:
        if leaf.field_id not in known or leaf.field_id not in sample.groups.columns:
            continue
        sketch = sketches.get(leaf.field_id)
        ndv = sketch.estimate() if sketch is not None else estimate(sample.groups, leaf.field_id).ndv
        if ndv is not None:
            counts[leaf.name] = ColStats(col_id=leaf.field_id, distinct_count=round(ndv))
    if not counts:
        return snapshot
    rows = sum(group.row_count for group in sample.groups.groups)
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
