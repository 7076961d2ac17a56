"""Apply change records: records with kinds in a primary-key table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from skerry.errors import SchemaError, UnsupportedError
from skerry.jobs.change_records import NetChanges, RecordColumns, net_changes
from skerry.paimon.change_request import ChangeRequest, redo_after_conflicts
from skerry.paimon.jobs.append import append_batches
from skerry.paimon.jobs.once import commit_once
from skerry.paimon.jobs.record_changes import refuse_deletes
from skerry.paimon.jobs.row_tasks import RowJob
from skerry.paimon.metadata.options import MergeEngine
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.writing.table_writers import KIND_COLUMN
from skerry.table.arguments import Rows
from skerry.table.rows.incoming import conform, open_stream
from skerry.table.stream_batch import StreamBatch
from skerry.table.summaries import ChangeSummary

__all__ = ["apply_changes"]


def apply_changes(
    request: ChangeRequest, data: Rows, columns: RecordColumns, *, batch: StreamBatch | None = None
) -> ChangeSummary:
    """Apply change records to a Paimon table with a primary key, in one commit.

    Existing keys are not looked up: the records replace those before. With the option
    `sequence.field`, a record that is older than the one it meets has no effect.

    Args:
        request: The table.
        data: The records; anything with the Arrow C stream interface, held in memory.
        columns: The roles of their columns; the key is the table's.
        batch: The batch of a stream, which is committed once.

    Raises:
        ConflictError: Others kept changing the same buckets.
        SchemaError: The records do not fit, or lack columns of the table.
        UnsupportedError: The table has no primary key, or does not merge rows by their last record.
    """
    if batch is None:
        return _written(request, data, columns)
    done: list[ChangeSummary] = []
    if commit_once(request, batch, lambda request: done.append(_written(request, data, columns))):
        return done[0]
    snapshot = request.target.load().snapshot
    return ChangeSummary(snapshot.id if snapshot is not None else None, applied=False)


def _written(request: ChangeRequest, data: Rows, columns: RecordColumns) -> ChangeSummary:
    records = open_stream(data).read_all()

    def attempt(state: PaimonState) -> ChangeSummary:
        job = RowJob.of(request, state)
        _check_paimon(state, columns)
        net = net_changes(records, columns, state.arrow_schema)
        missing = [field.name for field in state.arrow_schema if field.name not in net.rows.column_names]
        if missing and net.upserts:
            raise SchemaError(
                f"the records have no column {missing[0]!r}: rows of a Paimon table are written whole",
                location=state.name,
            )
        if net.deletes:
            refuse_deletes(job)
        written, after = append_batches(request, state, _with_kinds(net, state))
        return ChangeSummary(
            after.snapshot.id if after.snapshot is not None else None,
            net.records,
            net.upserts,
            net.deletes,
            inserted_rows=None if net.upserts else 0,
            updated_rows=None if net.upserts else 0,
            deleted_rows=None if net.deletes else 0,
            added_files=len(written.files),
        )

    return redo_after_conflicts(request, attempt)


def _check_paimon(state: PaimonState, columns: RecordColumns) -> None:
    """Refuse tables in which the last record of a key is not its row."""
    keys = state.schema.primary_keys
    if not keys:
        raise UnsupportedError(
            "the table has no primary key: change records go to primary-key tables", location=state.name
        )
    if set(columns.on) != set(keys):
        raise UnsupportedError(
            f"records of a table with primary key {', '.join(keys)} are applied by that key only, not by "
            f"{', '.join(columns.on)}",
            location=state.name,
        )
    engine = state.options.merge_engine
    if engine is not MergeEngine.DEDUPLICATE:
        raise UnsupportedError(
            f"table option merge-engine={engine.value}: change records hold whole rows, which require deduplicate",
            location=state.name,
        )


def _with_kinds(net: NetChanges, state: PaimonState) -> list[pa.RecordBatch]:
    """Rows of the table with their kinds; required columns missing from deletes get unused placeholders."""
    schema = state.arrow_schema
    gone = net.is_gone
    rows = net.rows
    for name in state.options.sequence_fields:
        column = rows.column(name) if name in rows.column_names else pa.nulls(rows.num_rows)
        blank = np.flatnonzero(np.asarray(column.is_null()) & gone)
        if len(blank):
            raise SchemaError(
                f"a delete has no value of column {name!r}, which is a sequence.field and decides whether the delete "
                "is newer than the row; include the column in the records",
                location=state.name,
            )
    if net.deletes:
        for field in schema:
            if not field.nullable and field.name not in state.schema.primary_keys:
                rows = _filled(rows, field, gone)
    whole = conform(rows, schema).read_all()
    return whole.append_column(KIND_COLUMN, pa.array(net.kinds)).combine_chunks().to_batches()


def _filled(rows: pa.Table, field: pa.Field, gone: np.ndarray[Any, np.dtype[np.bool_]]) -> pa.Table:
    """Fill a required column with a placeholder where the row is deleted and its value is unknown."""
    some = _some_value(field.type)
    if field.name not in rows.column_names:
        return rows.append_column(field, pa.repeat(some, rows.num_rows))
    column = rows.column(field.name)
    blank = np.asarray(column.is_null()) & gone
    if not blank.any():
        return rows
    values = pa.concat_arrays([*column.chunks, pa.repeat(some, 1)])
    places = np.where(blank, len(column), np.arange(len(column)))
    return rows.set_column(rows.column_names.index(field.name), field, values.take(pa.array(places)))


def _some_value(type_: pa.DataType) -> pa.Scalar:
    if pa.types.is_struct(type_):
        members = {child.name: _some_value(child.type) for child in type_}
        return pa.scalar({name: value.as_py() for name, value in members.items()}, type_)
    if pa.types.is_list(type_) or pa.types.is_map(type_):
        return pa.scalar([], type_)
    if pa.types.is_fixed_size_binary(type_):
        return pa.scalar(bytes(type_.byte_width), type_)
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return pa.scalar(b"" if pa.types.is_binary(type_) else "", type_)
    return pa.scalar(0, pa.int32()).cast(type_) if not pa.types.is_temporal(type_) else pa.scalar(0, type_)
