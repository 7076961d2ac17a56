"""Column statistics of a table, or of the part that satisfies a condition, and their freshness."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.paimon.manifests.live_files import live_entries
from skerry.paimon.manifests.manifest import batch_of
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.entry_columns import value_metrics
from skerry.paimon.planning.plan import ScanPlanner
from skerry.paimon.planning.planned_splits import PlannedFiles
from skerry.paimon.statistics.samples import read_published, sample_of
from skerry.table.arguments import Condition
from skerry.table.predicate import Column, FieldMetrics, Predicate, conjuncts_of, parse
from skerry.table.rows.schema import Leaf, leaves
from skerry.table.rows.values import natural_value
from skerry.table.statistics.column_estimates import Estimate, FilesAsked, estimate
from skerry.table.statistics.column_statistics import ColumnStatistics, Freshness, FreshnessState
from skerry.table.statistics.histogram import SampledRows
from skerry.table.statistics.row_sample import RowSample

__all__ = ["column_bounds", "column_freshness", "column_statistics", "file_statistics", "sampled_rows"]

_NO_SNAPSHOT: Final = Freshness(FreshnessState.ABSENT, "the table has no snapshot")
_NEVER: Final = Freshness(FreshnessState.ABSENT, "never sketched over all rows; run analyze")


def column_freshness(state: PaimonState) -> dict[str, Freshness]:
    """The freshness of the distinct count of every primitive column, without reading data."""
    columns = leaves(state.arrow_schema)
    if state.snapshot is None:
        return {leaf.name: _NO_SNAPSHOT for leaf in columns}
    found = _of_all_rows(state, columns)
    return {leaf.name: found[leaf.field_id].freshness for leaf in columns}


def column_statistics(state: PaimonState, where: Condition | None = None) -> dict[str, ColumnStatistics]:
    """The statistics of every primitive column, in schema order, by dotted name.

    Args:
        state: The table.
        where: Only for rows that satisfy a condition: SQL text, a PyArrow expression, or a predicate. Data files are
            not read: uncertainty in their metadata widens the bounds.

    Raises:
        FormatError: `where` is not a valid condition.
        SchemaError: `where` does not fit the table's columns.
    """
    columns = leaves(state.arrow_schema)
    if state.snapshot is None:
        return {leaf.name: ColumnStatistics(leaf.name, leaf.field_id, freshness=_NO_SNAPSHOT) for leaf in columns}
    predicate = parse(where, state.arrow_schema)
    files = ScanPlanner(state, conjuncts_of(predicate)).plan(state.snapshot).tasks
    estimates = _of_all_rows(state, columns) if where is None else _of_files(state, columns, files)
    found = _of_columns(state, files, estimates, counts_nulls=_has_all_rows(state, files))
    sampled = sampled_rows(state, None if where is None else predicate)
    return {name: replace(known, sampled=sampled) for name, known in found.items()}


def sampled_rows(state: PaimonState, predicate: Predicate | None = None) -> SampledRows:
    """The sampled rows of a table that satisfy a condition; nothing is read yet."""
    return SampledRows(functools.partial(_read_rows, state), leaves(state.arrow_schema), predicate)


def _read_rows(state: PaimonState) -> tuple[RowSample | None, int]:
    sample = sample_of(state)
    return sample.groups.rows, sample.missing_files


def column_bounds(state: PaimonState, files: PlannedFiles, freshness: Freshness) -> dict[str, ColumnStatistics]:
    """Minima, maxima and, where known, null counts of some files, without distinct counts.

    Args:
        state: The table, with the snapshot of the files.
        files: The files.
        freshness: Why there are no distinct counts.
    """
    estimates = {leaf.field_id: Estimate(freshness) for leaf in leaves(state.arrow_schema)}
    return _of_columns(state, files, estimates, counts_nulls=_has_all_rows(state, files))


def file_statistics(state: PaimonState, files: PlannedFiles, *, are_all: bool) -> dict[str, ColumnStatistics]:
    """The statistics of the columns over all rows of some files, for query planners.

    Null counts include all rows of the files, so that they are too high if rows were replaced or deleted.

    Args:
        state: The table, with the snapshot of the files.
        files: The files.
        are_all: Whether these are all files of the snapshot.
    """
    columns = leaves(state.arrow_schema)
    estimates = _of_all_rows(state, columns) if are_all else _of_files(state, columns, files, are_whole=True)
    names = files.entries.column("_FILE_NAME").to_pylist()
    sampled = sampled_rows(state).of_files(names, are_all=are_all)
    found = _of_columns(state, files, estimates, counts_nulls=True)
    return {name: replace(known, sampled=sampled) for name, known in found.items()}


def _has_all_rows(state: PaimonState, files: PlannedFiles) -> bool:
    """Whether all rows of files are rows of the table, and match."""
    stitched = files.has_rows is not None and not files.has_rows.all()
    return not (state.schema.primary_keys or files.vectors or stitched) and bool(files.matches_all.all())


def _of_columns(
    state: PaimonState, files: PlannedFiles, estimates: Mapping[int, Estimate], *, counts_nulls: bool
) -> dict[str, ColumnStatistics]:
    names = set(files.entries.column("_FILE_NAME").to_pylist())
    entries = [entry for entry in live_entries(state) if entry.file.file_name in names]
    schemas = {number: state.schema_by_id(number) for number in {entry.file.schema_id for entry in entries}}
    lookup = value_metrics(batch_of(entries), schemas)
    return {
        leaf.name: _statistics(
            leaf, lookup(Column(leaf.field_id, leaf.path, leaf.type)), estimates[leaf.field_id], counts_nulls
        )
        for leaf in leaves(state.arrow_schema)
    }


def _statistics(leaf: Leaf, metrics: FieldMetrics | None, found: Estimate, counts_nulls: bool) -> ColumnStatistics:
    nulls = None
    if metrics is not None and counts_nulls and (metrics.null_counts >= 0).all():
        nulls = int(metrics.null_counts.sum())
    if metrics is not None and (metrics.value_counts >= 0).all():
        found = found.at_most(int((metrics.value_counts - np.maximum(metrics.null_counts, 0)).sum()))
    return ColumnStatistics(
        column=leaf.name,
        field_id=leaf.field_id,
        ndv=found.ndv,
        lower=found.lower,
        upper=found.upper,
        null_count=nulls,
        min=None if metrics is None else _bound(metrics.lower, metrics, "min"),
        max=None if metrics is None else _bound(metrics.upper, metrics, "max"),
        freshness=found.freshness,
        sketch=found.sketch,
    )


def _bound(values: pa.Array, metrics: FieldMetrics, which: str) -> Any:
    """The least or greatest bound; None if a file with values has none."""
    has_values = (metrics.value_counts < 0) | (metrics.null_counts < 0) | (metrics.null_counts < metrics.value_counts)
    is_unknown = np.asarray(values.is_null()) & has_values
    if is_unknown.any() or not len(values):
        return None
    bound = pc.min_max(values)[which]
    if not bound.is_valid or not pa.types.is_temporal(bound.type):
        return bound.as_py()
    return natural_value(bound.type, bound.value)


def _of_all_rows(state: PaimonState, columns: list[Leaf]) -> Mapping[int, Estimate]:
    """Estimates of all rows by field id: from published sketches, else from samples."""
    assert state.snapshot is not None
    published = read_published(state, state.snapshot)
    sketches = published.sketches if published is not None else {}
    estimates = {leaf.field_id: Estimate.of(sketches[leaf.field_id]) for leaf in columns if leaf.field_id in sketches}
    if len(estimates) == len(columns):
        return estimates
    sample = published.sample if published is not None else sample_of(state)
    for leaf in columns:
        if leaf.field_id in estimates:
            continue
        if leaf.field_id not in sample.groups.columns:
            estimates[leaf.field_id] = Estimate(_NEVER)
        elif sample.missing_files:
            reason = f"{sample.missing_files} data files are not sketched; run analyze"
            known = sample.groups.sketch(leaf.field_id).estimate()
            estimates[leaf.field_id] = Estimate(Freshness(FreshnessState.STALE, reason), known)
        else:
            estimates[leaf.field_id] = estimate(sample.groups, leaf.field_id)
    return estimates


def _of_files(
    state: PaimonState, columns: list[Leaf], files: PlannedFiles, *, are_whole: bool = False
) -> Mapping[int, Estimate]:
    """Estimates of the rows of some files; partially matching files contribute a part of theirs."""
    sample = sample_of(state)
    names = files.entries.column("_FILE_NAME").to_pylist()
    rows = files.entries.column("_ROW_COUNT").to_pylist()
    whole: dict[str, int] = {}
    partial: dict[str, int] = {}
    for name, count, is_whole in zip(names, rows, files.matches_all.tolist(), strict=True):
        (whole if is_whole or are_whole else partial)[name] = count
    asked = FilesAsked.of(whole, partial)
    return {
        leaf.field_id: estimate(sample.groups, leaf.field_id, asked)
        if leaf.field_id in sample.groups.columns
        else Estimate(_NEVER)
        for leaf in columns
    }
