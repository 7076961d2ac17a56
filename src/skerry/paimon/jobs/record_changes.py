"""Row changes in primary-key tables: new records with higher sequence numbers than those of their buckets.

A task decides about all rows of a bucket and writes its records; no other task assigns sequence numbers in that bucket
meanwhile. Records for other buckets, rows with a new key and new rows are written when all tasks are done, with higher
sequence numbers: a row may take over the key of another.

Spec: docs/formats/paimon.md § 7, § 8.5, § 8.7.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skerry.errors import UnsupportedError
from skerry.paimon.jobs.append import commit_rows, known_buckets
from skerry.paimon.jobs.row_tasks import (
    INSERT_KIND,
    UPDATE_AFTER_KIND,
    BucketRows,
    ChangedBucket,
    Decided,
    RowJob,
    RowTransform,
    change_bucket,
    with_kind,
)
from skerry.paimon.metadata.options import MergeEngine
from skerry.paimon.planning.splits import Split
from skerry.paimon.writing.bucket_states import BucketStates
from skerry.paimon.writing.table_writers import WrittenRows, write_rows
from skerry.table.predicate import Predicate
from skerry.table.summaries import RowChangeSummary

if TYPE_CHECKING:
    from skerry.table.indexes.conditions import IndexCondition

__all__ = ["DeleteRows", "change_records", "refuse_deletes"]


def refuse_deletes(job: RowJob) -> None:
    """Refuse tables in which a record of kind -D does not delete a row.

    Raises:
        UnsupportedError: This is such a table; the message names the option.
    """
    options = job.layout.options
    removes = options.options.get(f"{options.merge_engine.value}.remove-record-on-delete", "false").lower() == "true"
    if options.ignore_delete:
        raise UnsupportedError("table option ignore-delete=true: rows cannot be deleted", location=job.state.name)
    if options.merge_engine is not MergeEngine.DEDUPLICATE and not removes:
        raise UnsupportedError(
            f"table option merge-engine={options.merge_engine.value}: rows cannot be deleted", location=job.state.name
        )
    if options.rowkind_field is not None:
        raise UnsupportedError(
            f"table option rowkind.field={options.rowkind_field}: rows are deleted by writing rows of that kind",
            location=job.state.name,
        )


class DeleteRows:
    """Deletes the rows of a predicate, and adds others; a `RowTransform`.

    Args:
        predicate: Which rows.
        rows: Those to add.
    """

    def __init__(self, predicate: Predicate, rows: Iterable[pa.RecordBatch] = ()) -> None:
        self._predicate = predicate
        self._rows = tuple(rows)

    @property
    def predicate(self) -> Predicate:
        """Which rows."""
        return self._predicate

    @property
    def sought(self) -> tuple[IndexCondition, ...]:
        """Nothing beyond the predicate."""
        return ()

    def decide(self, batch: pa.RecordBatch) -> Decided:
        """Delete all of them."""
        return Decided(np.arange(batch.num_rows), np.zeros(0, np.int64), batch.slice(0, 0))

    def added(self, matched: Iterable[Any]) -> Iterable[pa.RecordBatch]:
        """The rows to add."""
        return self._rows

    def __getstate__(self) -> dict[str, Any]:
        return {"_predicate": self._predicate, "_rows": ()}  # tasks only delete


def change_records(job: RowJob, transform: RowTransform) -> RowChangeSummary:
    """Decide about the rows of a table, bucket by bucket, and commit the resulting records.

    Raises:
        ConflictError: Another writer has changed the same buckets since; the work must be done again.
        UnsupportedError: Records do not delete rows in this table.
    """
    refuse_deletes(job)
    layout, state = job.layout, job.state
    if layout.moves_keys and layout.options.merge_engine is not MergeEngine.DEDUPLICATE:
        raise UnsupportedError(
            f"table option merge-engine={layout.options.merge_engine.value}: rows of a table whose primary key lacks a "
            "partition key are changed by records only, which go to the partition of their key",
            location=state.name,
        )
    bucket_states, indexes = known_buckets(job.request, state, layout)
    predicate = transform.predicate
    tasks = _by_bucket(job.splits(predicate, transform.sought), bucket_states)
    folders = {layout.bucket_folder(task.splits[0].partition, task.splits[0].bucket) for task in tasks}
    with layout.owned_files(folders) as owned:
        reader = job.reader(state.arrow_schema, predicate, tasks=len(tasks))
        work = functools.partial(change_bucket, layout, reader, transform)
        parts = list(job.run("change", work, tasks, _file_count, owned))
        added: list[pa.RecordBatch] = list(transform.added([part.matched for part in parts]))
        files = tuple(file for part in parts for file in part.files)
        later = bucket_states.after((file.bucket.key, file.file.max_sequence_number) for file in files)
        rest = write_rows(layout, _records(parts, added), later, indexes)
        row_count = rest.row_count + sum(part.deleted + 2 * part.updated for part in parts)
        written = WrittenRows((*files, *rest.files), rest.indexes, row_count)
        after = commit_rows(job.request, layout, written, bucket_states, indexes, exclusive=True)
    return RowChangeSummary(
        after.snapshot.id if after.snapshot is not None else None,
        inserted_rows=sum(batch.num_rows for batch in added),
        updated_rows=sum(part.updated for part in parts),
        deleted_rows=sum(part.deleted for part in parts),
        added_files=len(written.files),
    )


def _records(parts: Iterable[ChangedBucket], added: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The records to write when all tasks are done."""
    moved = itertools.chain.from_iterable(part.moved for part in parts)
    return itertools.chain(with_kind(moved, UPDATE_AFTER_KIND), with_kind(added, INSERT_KIND))


def _by_bucket(splits: Iterable[Split], bucket_states: BucketStates) -> list[BucketRows]:
    """The splits of each bucket as one task."""
    buckets: dict[tuple[bytes, int], list[Split]] = {}
    for split in splits:
        buckets.setdefault((split.partition, split.bucket), []).append(split)
    return [BucketRows(tuple(found), bucket_states.next_sequence(*key)) for key, found in buckets.items()]


def _file_count(task: BucketRows) -> int:
    return sum(1 for split in task.splits for _ in split.files)
