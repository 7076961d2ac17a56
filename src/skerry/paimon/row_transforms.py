"""Rows that take each other's place, as a caller decides row by row: what a merge needs of a Paimon table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.errors import UnsupportedError
from skerry.paimon.changing import ChangeRequest, redo_after_conflicts
from skerry.paimon.options import MergeEngine
from skerry.paimon.row_changes import (
    DELETE_KIND,
    INSERT_KIND,
    PLACE_FIELDS,
    UPDATE_AFTER_KIND,
    UPDATE_BEFORE_KIND,
    RowJob,
    positions_by_file,
    refuse_deletes,
    replace_positions,
    with_kind,
    write_records,
)
from skerry.paimon.row_counts import RowCounts
from skerry.paimon.state import PaimonState
from skerry.table.predicate import Predicate

__all__ = ["Decided", "RowTransform", "transform_rows"]


@dataclass(frozen=True, slots=True)
class Decided:
    """What becomes of a batch of rows.

    Args:
        deleted: int64[n] Rows of the batch that go.
        updated: int64[m] Rows that get a new form.
        rows: Their new form, with the table's columns.
    """

    deleted: npt.NDArray[np.int64]
    updated: npt.NDArray[np.int64]
    rows: pa.RecordBatch


class RowTransform(Protocol):
    """Decides about the rows of one state of a table."""

    @property
    def predicate(self) -> Predicate:
        """Holds for every row that may change."""
        ...

    def decide(self, batch: pa.RecordBatch) -> Decided:
        """What becomes of rows, with all columns of the table; called once for each batch."""
        ...

    def added(self) -> Iterable[pa.RecordBatch]:
        """Rows that are new, asked for after all others are decided."""
        ...


def transform_rows(request: ChangeRequest, prepare: Callable[[PaimonState], RowTransform]) -> RowCounts:
    """Read rows, decide about them, and commit what was decided; again on the new state if others were first.

    Args:
        request: Where to.
        prepare: Makes the transform for a state.

    Raises:
        ConflictError: Others changed the same rows, again and again.
        UnsupportedError: The table's merge engine makes something else of rows that are written.
    """

    def attempt(state: PaimonState) -> RowCounts:
        job = RowJob.of(request, state)
        transform = prepare(state)
        if state.schema.primary_keys:
            return _transform_records(job, transform)
        return _transform_positions(job, transform)

    return redo_after_conflicts(request, attempt)


def _transform_records(job: RowJob, transform: RowTransform) -> RowCounts:
    engine = job.layout.options.merge_engine
    if engine is not MergeEngine.DEDUPLICATE:
        raise UnsupportedError(
            f"table option merge-engine={engine.value}: rows that are written do not simply take the place of others",
            location=job.state.name,
        )
    refuse_deletes(job)
    deleted = 0
    updated: list[pa.RecordBatch] = []
    added: list[pa.RecordBatch] = []

    def records() -> Iterator[pa.RecordBatch]:
        nonlocal deleted
        predicate = transform.predicate
        for batch in job.reader(job.state.arrow_schema, predicate).batches(job.splits(predicate)):
            decided = transform.decide(batch)
            deleted += len(decided.deleted)
            updated.append(decided.rows)
            yield from with_kind([batch.take(pa.array(decided.deleted))], DELETE_KIND)
            yield from with_kind([batch.take(pa.array(decided.updated))], UPDATE_BEFORE_KIND)
        # after all old forms: a row may take the key that another one had
        yield from with_kind(updated, UPDATE_AFTER_KIND)
        added.extend(transform.added())
        yield from with_kind(added, INSERT_KIND)

    done = write_records(job, records(), inserted=0)
    return _counted(done, deleted, updated, added)


def _transform_positions(job: RowJob, transform: RowTransform) -> RowCounts:
    schema, predicate = job.state.arrow_schema, transform.predicate
    places: list[pa.RecordBatch] = []
    deleted = 0
    updated: list[pa.RecordBatch] = []
    for batch in job.reader(pa.schema([*schema, *PLACE_FIELDS]), predicate).batches(job.splits(predicate)):
        decided = transform.decide(batch.select(schema.names))
        deleted += len(decided.deleted)
        updated.append(decided.rows)
        gone = pa.array(np.concatenate([decided.deleted, decided.updated]))
        places.append(batch.select([field.name for field in PLACE_FIELDS]).take(gone))
    added = list(transform.added())
    new = pa.Table.from_batches([batch.cast(schema) for batch in (*updated, *added)], schema)
    found = positions_by_file([batch for batch in places if batch.num_rows])
    return _counted(replace_positions(job, found, new if new.num_rows else None), deleted, updated, added)


def _counted(
    done: RowCounts, deleted: int, updated: Iterable[pa.RecordBatch], added: Iterable[pa.RecordBatch]
) -> RowCounts:
    return replace(
        done,
        inserted_rows=sum(batch.num_rows for batch in added),
        updated_rows=sum(batch.num_rows for batch in updated),
        deleted_rows=deleted,
    )
