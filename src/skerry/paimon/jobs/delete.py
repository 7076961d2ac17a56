"""Delete the rows that satisfy a condition, and overwrite: delete and append in one commit.

Rows of append tables are found by position; rows of primary-key tables are deleted by records of kind -D with their
keys.

Spec: docs/formats/paimon.md § 4.3, § 8.5, § 12.1.
"""

from __future__ import annotations

import functools
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import SchemaError
from skerry.paimon.change_request import ChangeRequest, redo_after_conflicts
from skerry.paimon.jobs.append import overwrite_partitions
from skerry.paimon.jobs.column_changes import change_columns
from skerry.paimon.jobs.record_changes import DeleteRows, change_records
from skerry.paimon.jobs.row_changes import file_count, merged_positions, replace_positions
from skerry.paimon.jobs.row_tasks import POSITION_FIELDS, RowJob, find_rows
from skerry.paimon.metadata.option_values import parse_bool
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.deletion_positions import Positions
from skerry.paimon.planning.partition_choice import names_partitions, partitions_where
from skerry.table.arguments import Condition, Rows
from skerry.table.predicate import Predicate, parse, row_mask
from skerry.table.rows.incoming import conform, open_stream
from skerry.table.summaries import RowChangeSummary

__all__ = ["delete", "overwrite"]

_BY_RECORDS: Final = "delete.force-produce-changelog"


def delete(request: ChangeRequest, where: Condition) -> RowChangeSummary:
    """Delete the rows that satisfy a condition; whole partitions by metadata alone.

    Raises:
        ConflictError: Others kept changing the same rows.
        FormatError: `where` is not a valid condition.
        SchemaError: `where` does not fit the table's columns, or is None.
        UnsupportedError: The table's merge engine knows no deletes.
    """
    if where is None:
        raise SchemaError("delete needs a condition; 'TRUE' deletes all rows")

    def attempt(state: PaimonState) -> RowChangeSummary:
        predicate = parse(where, state.arrow_schema)
        by_records = state.schema.primary_keys and parse_bool(
            _BY_RECORDS, state.schema.options.get(_BY_RECORDS, "false")
        )
        if names_partitions(predicate, state.schema) and not by_records:
            return overwrite_partitions(request, None, partitions_where(predicate, state.schema))
        job = RowJob.of(request, state)
        if state.schema.primary_keys:
            return change_records(job, DeleteRows(predicate))
        return _replace(job, _positions(job, predicate), None)

    return redo_after_conflicts(request, attempt)


def overwrite(request: ChangeRequest, data: Rows, where: Condition | None = None) -> RowChangeSummary:
    """Replace the rows that satisfy a condition, all rows if it is None, in one commit.

    Whole partitions are replaced by metadata alone if the new rows belong to them: other partitions may have buckets
    already, which are continued.
    """
    if where is None:
        return overwrite_partitions(request, data, None)
    rows = open_stream(data).read_all()

    def attempt(state: PaimonState) -> RowChangeSummary:
        job = RowJob.of(request, state)
        predicate = parse(where, state.arrow_schema)
        if names_partitions(predicate, state.schema):
            new = conform(rows, state.arrow_schema).read_all()
            inside = all(pc.all(row_mask(predicate, batch)).as_py() for batch in new.to_batches())
            if (inside and not job.layout.moves_keys) or not (state.schema.primary_keys or state.options.bucket > 0):
                return overwrite_partitions(request, new, partitions_where(predicate, state.schema))
        if state.schema.primary_keys:
            return change_records(job, DeleteRows(predicate, conform(rows, state.arrow_schema)))
        return _replace(job, _positions(job, predicate), rows)

    return redo_after_conflicts(request, attempt)


def _replace(job: RowJob, found: dict[str, Positions], new: pa.Table | None) -> RowChangeSummary:
    """Delete rows by position, and add others."""
    if job.layout.options.data_evolution:
        return change_columns(job, found, None, (), new)
    return replace_positions(job, found, new)


def _positions(job: RowJob, predicate: Predicate) -> dict[str, Positions]:
    """Positions of the rows of a predicate, by name of the data file; int64[n] each."""
    splits = job.splits(predicate)
    reader = job.reader(pa.schema(POSITION_FIELDS), predicate, tasks=len(splits))
    return merged_positions(list(job.run("find", functools.partial(find_rows, reader), splits, file_count)))
