"""Column statistics of a snapshot, or of the rows that match a condition, with their freshness.

Most freshness is known from metadata alone; sketches and samples load when they are needed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.statistics.registered import freshness, latest_blobs
from skerry.table.arguments import Condition
from skerry.table.rows.schema import Leaf, leaves
from skerry.table.statistics.column_statistics import ColumnStatistics, Freshness, FreshnessState

if TYPE_CHECKING:
    from skerry.iceberg.planning.live_files import ColumnMetrics
    from skerry.table.files.scan_task import FileScanTask
    from skerry.table.statistics.column_estimates import Estimate
    from skerry.table.statistics.histogram import SampledRows
    from skerry.table.statistics.row_sample import RowSample

__all__ = ["column_freshness", "column_statistics", "distinct_counts", "sampled_rows"]

_NO_SNAPSHOT = Freshness(FreshnessState.ABSENT, "the table has no snapshot")


def column_freshness(state: TableState, snapshot: Snapshot | None) -> dict[str, Freshness]:
    """The freshness of every primitive column's distinct count for a snapshot.

    If every column's sketch is published for the snapshot, metadata is enough; otherwise samples are read.
    """
    columns = leaves(state.schema)
    if snapshot is None:
        return {leaf.name: _NO_SNAPSHOT for leaf in columns}
    last = latest_blobs(state, snapshot)
    found = {leaf.name: freshness(state, snapshot, leaf, last.get(leaf.field_id)) for leaf in columns}
    if all(known.is_fresh for known in found.values()):
        return found
    from skerry.iceberg.statistics.estimates import of_snapshot

    estimates = of_snapshot(state, snapshot, columns, with_sketches=False)
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
    from skerry.iceberg.planning.live_metrics import live_metrics  # not needed for the freshness alone

    tasks = wanted = None
    counts_nulls = True
    if where is not None:
        from skerry.iceberg.reading.scan import Scan

        tasks = list(Scan(state, snapshot, state.metadata.schema(), where=where).plan())
        counts_nulls = all(task.matches_all for task in tasks)
        wanted = {task.data_file.location for task in tasks}
    metrics = live_metrics(state, snapshot, columns, wanted)
    estimates = distinct_counts(state, snapshot, tasks)
    sampled = sampled_rows(state, snapshot, where)
    return {
        leaf.name: _statistics(leaf, metrics[leaf.field_id], estimates[leaf.field_id], counts_nulls, sampled)
        for leaf in columns
    }


def sampled_rows(state: TableState, snapshot: Snapshot, where: Condition | None = None) -> SampledRows:
    """The sampled rows of a snapshot, or those of them that satisfy a condition; nothing is read yet."""
    from skerry.table.statistics.histogram import SampledRows  # not needed for the freshness alone

    predicate = None
    if where is not None:
        from skerry.table.predicate import parse

        predicate = parse(where, state.schema)
    return SampledRows(functools.partial(_read_rows, state, snapshot), leaves(state.schema), predicate)


def _read_rows(state: TableState, snapshot: Snapshot) -> tuple[RowSample | None, int]:
    from skerry.iceberg.statistics.samples import read_rows

    return read_rows(state, snapshot)


def distinct_counts(
    state: TableState, snapshot: Snapshot, tasks: Iterable[FileScanTask] | None = None
) -> Mapping[int, Estimate]:
    """The distinct counts of all primitive columns, by field id.

    Args:
        state: The table.
        snapshot: The snapshot.
        tasks: Only in these of its files, and only in some rows of files that do not match wholly.
    """
    from skerry.iceberg.statistics.estimates import of_files, of_snapshot
    from skerry.table.statistics.column_estimates import FilesAsked

    columns = leaves(state.schema)
    if tasks is None:
        return of_snapshot(state, snapshot, columns, with_sketches=True)
    whole: dict[str, int] = {}
    partial: dict[str, int] = {}
    for task in tasks:
        (whole if task.matches_all else partial)[task.data_file.location] = task.data_file.record_count
    return of_files(state, snapshot, columns, FilesAsked.of(whole, partial))


def _statistics(
    leaf: Leaf, metrics: ColumnMetrics, found: Estimate, counts_nulls: bool, sampled: SampledRows
) -> ColumnStatistics:
    found = found.at_most(metrics.values)
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
        sampled=sampled,
    )
