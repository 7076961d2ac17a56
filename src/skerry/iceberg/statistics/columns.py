"""Column statistics of a snapshot, or of the rows that match a condition, with their freshness.

Published sketches take precedence. If a column has none for this snapshot, samples may still answer: another writer may
have dropped a partition, moved rows, or deleted rows that were sketched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.statistics.published import (
    freshness,
    hashed_as_ours,
    latest_statistics,
    ndv_of,
    read_sketches,
    since,
)
from skerry.table.arguments import Condition
from skerry.table.rows.schema import Leaf, leaves
from skerry.table.statistics.column_estimates import Estimate, FilesAsked, estimate
from skerry.table.statistics.column_statistics import FRESH, ColumnStatistics, Freshness, FreshnessState

if TYPE_CHECKING:
    from skerry.table.files.data_file import DataFile
    from skerry.table.files.scan_task import FileScanTask

__all__ = ["column_freshness", "column_statistics", "distinct_counts"]

_NO_SNAPSHOT = Freshness(FreshnessState.ABSENT, "the table has no snapshot")
_NO_SAMPLE = Freshness(FreshnessState.ABSENT, "no samples below table level; run analyze")


def column_freshness(state: TableState, snapshot: Snapshot | None) -> dict[str, Freshness]:
    """The freshness of every primitive column's distinct count for a snapshot.

    If every column's sketch is published for the snapshot, metadata is enough; otherwise samples are read.
    """
    columns = leaves(state.schema)
    if snapshot is None:
        return {leaf.name: _NO_SNAPSHOT for leaf in columns}
    estimates = _of_snapshot(state, snapshot, columns, with_sketches=False)
    return {leaf.name: estimates[leaf.field_id].freshness for leaf in columns}


def column_statistics(
    state: TableState, snapshot: Snapshot | None, where: Condition | None = None
) -> dict[str, ColumnStatistics]:
    """The statistics of every primitive column of a snapshot, in schema order, by dotted name.

    Counts of nulls and bounds come from the data files' metrics, distinct counts from sketches.

    Args:
        state: The table.
        snapshot: The snapshot; None for a table without.
        where: Only of rows that satisfy this condition: SQL text, a PyArrow expression, or a predicate. Data files are
            not read: what their metadata does not determine widens the bounds.
    """
    columns = leaves(state.schema)
    if snapshot is None:
        return {leaf.name: ColumnStatistics(leaf.name, leaf.field_id, freshness=_NO_SNAPSHOT) for leaf in columns}
    from skerry.iceberg.planning.live_files import live_data_files  # not needed for the freshness alone

    files: Sequence[DataFile] = live_data_files(state, snapshot)
    tasks = None
    counts_nulls = True
    if where is not None:
        from skerry.iceberg.reading.scan import Scan

        tasks = list(Scan(state, snapshot, state.metadata.schema(), where=where).plan())
        counts_nulls = all(task.matches_all for task in tasks)
        wanted = {task.data_file.location for task in tasks}
        files = [file for file in files if file.location in wanted]
    estimates = distinct_counts(state, snapshot, tasks)
    return {leaf.name: _statistics(leaf, files, estimates[leaf.field_id], counts_nulls) for leaf in columns}


def distinct_counts(
    state: TableState, snapshot: Snapshot, tasks: Iterable[FileScanTask] | None = None
) -> Mapping[int, Estimate]:
    """The distinct counts of all primitive columns, by field id.

    Args:
        state: The table.
        snapshot: The snapshot.
        tasks: Only in these of its files, and only in some rows of files that do not match wholly.
    """
    columns = leaves(state.schema)
    if tasks is None:
        return _of_snapshot(state, snapshot, columns, with_sketches=True)
    whole: dict[str, int] = {}
    partial: dict[str, int] = {}
    for task in tasks:
        (whole if task.matches_all else partial)[task.data_file.location] = task.data_file.record_count
    return _of_files(state, snapshot, columns, FilesAsked.of(whole, partial))


def _statistics(leaf: Leaf, files: Sequence[DataFile], found: Estimate, counts_nulls: bool) -> ColumnStatistics:
    from skerry.iceberg.planning.live_files import column_metrics

    metrics = column_metrics(files, leaf)
    return ColumnStatistics(
        column=leaf.name,
        field_id=leaf.field_id,
        ndv=found.ndv,
        lower=found.lower,
        upper=found.upper,
        null_count=metrics.null_count if counts_nulls else None,
        min=metrics.min,
        max=metrics.max,
        freshness=found.freshness,
        sketch=found.sketch,
    )


def _of_snapshot(
    state: TableState, snapshot: Snapshot, columns: Sequence[Leaf], *, with_sketches: bool
) -> Mapping[int, Estimate]:
    """Estimates of all rows, by field id; without sketches only their freshness."""
    found = {leaf.field_id: latest_statistics(state, snapshot, leaf.field_id) for leaf in columns}
    how_fresh = {leaf.field_id: freshness(state, snapshot, leaf, found[leaf.field_id]) for leaf in columns}
    fresh = [field_id for field_id, state_ in how_fresh.items() if state_.is_fresh]
    file = state.statistics_file(snapshot.snapshot_id)
    estimates = {field_id: Estimate(FRESH) for field_id in fresh}
    if with_sketches and file is not None:
        sketches = read_sketches(state.storage, file, snapshot, fresh)
        estimates |= {field_id: Estimate.of(sketch) for field_id, sketch in sketches.items()}
        comparable = hashed_as_ours(state, file, sketches)
        for field_id in sketches.keys() - comparable:  # the count is right, only the hashes differ
            estimates[field_id] = replace(estimates[field_id], sketch=None)
    if len(fresh) == len(columns):
        return estimates
    from skerry.iceberg.statistics.samples import sample_of  # not needed where every count is published

    sample = sample_of(state, snapshot)
    covered_rows = sum(group.row_count for group in sample.groups.groups)
    for leaf in columns:
        field_id, blob = leaf.field_id, found[leaf.field_id]
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


def _of_files(
    state: TableState, snapshot: Snapshot, columns: Sequence[Leaf], asked: FilesAsked
) -> Mapping[int, Estimate]:
    """Estimates for the rows that satisfy a condition, by field id."""
    from skerry.iceberg.statistics.samples import sample_of  # not needed where every count is published

    sample = sample_of(state, snapshot)
    groups = sample.groups
    return {
        leaf.field_id: estimate(groups, leaf.field_id, asked, sample.own)
        if leaf.field_id in groups.columns
        else Estimate(_NO_SAMPLE)
        for leaf in columns
    }
