"""Row-by-row transformations of a Paimon table, decided by the caller, as a merge needs them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from skerry.errors import UnsupportedError
from skerry.paimon.change_request import ChangeRequest, redo_after_conflicts
from skerry.paimon.jobs.column_changes import change_columns
from skerry.paimon.jobs.record_changes import change_records
from skerry.paimon.jobs.row_changes import merged_positions, refuse_new_rows, replace_positions
from skerry.paimon.jobs.row_tasks import POSITION_FIELDS, RowJob, RowTransform, decide_positions
from skerry.paimon.metadata.options import MergeEngine
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.writing.lineage import ROW_ID_FIELD
from skerry.table.summaries import RowChangeSummary

__all__ = ["transform_positions", "transform_rows"]


def transform_rows(request: ChangeRequest, prepare: Callable[[PaimonState], RowTransform]) -> RowChangeSummary:
    """Read rows, decide about them, and commit the decisions; repeated on the new state if others committed first.

    Args:
        request: The branch, and where tasks run.
        prepare: Makes the transform for a state.

    Raises:
        ConflictError: Others kept changing the same rows.
        UnsupportedError: The table's merge engine does not simply replace rows.
    """

    def attempt(state: PaimonState) -> RowChangeSummary:
        job = RowJob.of(request, state)
        transform = prepare(state)
        return _transform_records(job, transform) if state.schema.primary_keys else transform_positions(job, transform)

    return redo_after_conflicts(request, attempt)


def _transform_records(job: RowJob, transform: RowTransform) -> RowChangeSummary:
    engine = job.layout.options.merge_engine
    if engine is not MergeEngine.DEDUPLICATE:
        raise UnsupportedError(
            f"table option merge-engine={engine.value}: written rows do not simply replace those with their key",
            location=job.state.name,
        )
    return change_records(job, transform)


def transform_positions(job: RowJob, transform: RowTransform) -> RowChangeSummary:
    """Decide about the rows of an append table, and commit the decisions; see `transform_rows`."""
    schema, predicate = job.state.arrow_schema, transform.predicate
    splits = job.splits(predicate, transform.sought)
    ids = (ROW_ID_FIELD,) if job.layout.options.row_tracking else ()
    reader = job.reader(pa.schema([*schema, *ids, *POSITION_FIELDS]), predicate, tasks=len(splits))
    work = functools.partial(decide_positions, reader, transform)
    parts = list(job.run("match", work, splits, lambda split: sum(1 for _ in split.files)))
    updated = [batch for part in parts for batch in part.updated]
    added = list(transform.added([part.matched for part in parts]))
    tracked = pa.Table.from_batches(updated) if ids and updated else None
    if job.layout.options.data_evolution:
        found = merged_positions([part.positions for part in parts])
        new = pa.Table.from_batches([batch.cast(schema) for batch in added], schema)
        changed = frozenset[str]().union(*(part.changed for part in parts))
        check = functools.partial(refuse_new_rows, job, predicate) if added else None
        return change_columns(job, found, tracked, changed, new, check=check)
    new = pa.Table.from_batches([batch.cast(schema) for batch in (*(() if ids else updated), *added)], schema)
    found = merged_positions([part.positions for part in parts])
    done = replace_positions(
        job, found, new if new.num_rows else None, tracked=tracked, unless=predicate if added else None
    )
    return replace(
        done,
        inserted_rows=sum(batch.num_rows for batch in added),
        updated_rows=sum(batch.num_rows for batch in updated),
        deleted_rows=sum(part.deleted for part in parts),
    )
