"""Distinct counts of a snapshot's columns, from published sketches or from samples.

Published sketches take precedence. If a column has none for this snapshot, samples may still answer: another writer may
have dropped a partition, moved rows, or deleted rows that were sketched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.metadata.statistics_file import StatisticsFile
from skerry.iceberg.statistics.published import UNREADABLE, hashed_as_ours, read_sketches
from skerry.iceberg.statistics.registered import freshness, latest_blobs, ndv_of, since
from skerry.table.rows.schema import Leaf
from skerry.table.statistics.column_estimates import Estimate, FilesAsked, estimate
from skerry.table.statistics.column_statistics import FRESH, Freshness, FreshnessState

__all__ = ["of_files", "of_snapshot"]

_NO_SAMPLE = Freshness(FreshnessState.ABSENT, "no samples below table level; run analyze")


def of_snapshot(
    state: TableState, snapshot: Snapshot, columns: Sequence[Leaf], *, with_sketches: bool
) -> Mapping[int, Estimate]:
    """Estimates of all rows, by field id; without sketches only their freshness."""
    found = latest_blobs(state, snapshot)
    how_fresh = {leaf.field_id: freshness(state, snapshot, leaf, found.get(leaf.field_id)) for leaf in columns}
    fresh = [field_id for field_id, state_ in how_fresh.items() if state_.is_fresh]
    file = state.statistics_file(snapshot.snapshot_id)
    estimates = {field_id: Estimate(FRESH) for field_id in fresh}
    if with_sketches and file is not None:
        try:
            estimates |= _published(state, snapshot, file, fresh)
        except UNREADABLE as error:
            lost = Freshness(FreshnessState.ABSENT, f"the statistics file cannot be read; run analyze: {error}")
            how_fresh |= dict.fromkeys(fresh, lost)
            estimates.clear()
            fresh.clear()
    if len(fresh) == len(columns):
        return estimates
    from skerry.iceberg.statistics.samples import published_sample  # not needed where every count is published
    from skerry.table.statistics.table_sample import TableSample

    sample = published_sample(state, snapshot) or TableSample()
    covered_rows = sum(group.row_count for group in sample.groups.groups)
    for leaf in columns:
        field_id, blob = leaf.field_id, found.get(leaf.field_id)
        if field_id in estimates:
            continue
        is_sampled = field_id in sample.groups.columns
        if is_sampled and not sample.missing_files:
            estimates[field_id] = estimate(sample.groups, field_id)
        elif how_fresh[field_id].state is FreshnessState.ABSENT or blob is None:
            estimates[field_id] = Estimate(how_fresh[field_id])
        elif is_sampled and blob[0].snapshot_id != snapshot.snapshot_id:
            reason = since(state.metadata, snapshot, blob[0], covered_rows)
            estimates[field_id] = Estimate(
                Freshness(FreshnessState.STALE, reason), sample.groups.sketch(field_id).estimate()
            )
        else:
            estimates[field_id] = Estimate(how_fresh[field_id], ndv_of(blob[1]))
    return estimates


def _published(
    state: TableState, snapshot: Snapshot, file: StatisticsFile, field_ids: Sequence[int]
) -> dict[int, Estimate]:
    """What a statistics file says of a snapshot's columns.

    Raises:
        FormatError: It is damaged.
        NotFoundError: It is missing.
    """
    sketches = read_sketches(state.storage, file, snapshot, field_ids)
    estimates = {field_id: Estimate.of(sketch) for field_id, sketch in sketches.items()}
    for field_id in sketches.keys() - set(hashed_as_ours(state, file, sketches)):
        estimates[field_id] = replace(estimates[field_id], sketch=None)  # the count is right, only the hashes differ
    return estimates


def of_files(
    state: TableState, snapshot: Snapshot, columns: Sequence[Leaf], asked: FilesAsked
) -> Mapping[int, Estimate]:
    """Estimates for the rows that satisfy a condition, by field id."""
    from skerry.iceberg.statistics.samples import sample_of

    sample = sample_of(state, snapshot)
    groups = sample.groups
    return {
        leaf.field_id: estimate(groups, leaf.field_id, asked, sample.own)
        if leaf.field_id in groups.columns
        else Estimate(_NO_SAMPLE)
        for leaf in columns
    }
