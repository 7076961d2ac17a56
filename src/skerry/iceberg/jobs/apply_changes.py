"""Apply change records: a merge in an Iceberg table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from skerry.iceberg.jobs.merge import merge
from skerry.iceberg.jobs.once import BatchWasThereError, OnceTable
from skerry.iceberg.jobs.row_changes import ChangeRequest
from skerry.jobs.change_records import NetChanges, RecordColumns, net_changes
from skerry.table.arguments import Rows
from skerry.table.merging import Delete, Insert, MergeClauses, Update
from skerry.table.rows.incoming import open_stream
from skerry.table.stream_batch import StreamBatch
from skerry.table.summaries import ChangeSummary, RowChangeSummary

__all__ = ["apply_changes"]


def apply_changes(
    request: ChangeRequest, data: Rows, columns: RecordColumns, *, batch: StreamBatch | None = None, blind: bool = False
) -> ChangeSummary:
    """Apply change records to an Iceberg table, in one commit.

    If the order columns are columns of the table, a record that is older than the row of its key is ignored.

    Args:
        request: The table, and how to change it.
        data: The records; anything with the Arrow C stream interface, held in memory.
        columns: The roles of their columns.
        batch: The batch of a stream, to be committed once.
        blind: Do not read the table: delete the keys, whether they exist or not, and insert the rows.

    Raises:
        ConflictError: Other writers repeatedly changed the same rows.
        SchemaError: The records do not fit.
        UnsupportedError: It cannot be done without reading the table.
    """
    table = request.table
    try:
        if batch is not None:
            once = OnceTable(table, batch)
            if once.has_batch():
                return replace(_outcome(request), applied=False)
            request = replace(request, table=once)
        net = net_changes(open_stream(data).read_all(), columns, request.table.refresh().schema)
        if not net.rows.num_rows:
            return replace(_outcome(request), records=net.records)
        return _summary(net, _merged(request, net, columns, blind))
    except BatchWasThereError:
        return replace(_outcome(request), applied=False)
    finally:
        table.state = request.table.state


def _merged(request: ChangeRequest, net: NetChanges, columns: RecordColumns, blind: bool) -> RowChangeSummary:
    schema = request.table.state.schema
    rows = net.rows
    for name in columns.before, columns.op:  # neither may be a column of the table, since ours are named after them
        if name in rows.column_names and name not in schema.names:
            rows = rows.drop_columns([name])
    gone = _unused("gone", [*rows.column_names, *schema.names])
    is_newer = _is_newer([name for name in columns.order_by if name in schema.names and name not in columns.on])
    if net.deletes:
        rows = rows.append_column(gone, pa.array(net.is_gone))
        delete = Delete(" AND ".join([f"source.{gone}", *([f"({is_newer})"] if is_newer else [])]))
        update = Update(where=" AND ".join([f"NOT source.{gone}", *([f"({is_newer})"] if is_newer else [])]))
        clauses = MergeClauses([delete, update], Insert(where=f"NOT source.{gone}"))
    else:
        clauses = MergeClauses(Update(where=is_newer or None), Insert())
    return merge(request, rows, columns.on, clauses, blind=blind)


def _is_newer(order: Sequence[str]) -> str:
    """A condition that is true for records that are not older than the table's row; empty if there is no order."""
    text = ""
    for name in reversed(order):
        quoted = '"' + name.replace('"', '""') + '"'
        source, target = f"source.{quoted}", f"target.{quoted}"
        if text:
            text = f"{target} IS NULL OR {source} > {target} OR ({source} = {target} AND ({text}))"
        else:
            text = f"{target} IS NULL OR {source} >= {target}"
    return text


def _unused(wanted: str, names: Sequence[str]) -> str:
    while wanted in names:
        wanted += "_"
    return wanted


def _outcome(request: ChangeRequest) -> ChangeSummary:
    return ChangeSummary(request.outcome(request.table.state).snapshot_id)


def _summary(net: NetChanges, done: RowChangeSummary) -> ChangeSummary:
    return ChangeSummary(
        done.snapshot_id,
        net.records,
        net.upserts,
        net.deletes,
        inserted_rows=None if done.updated_rows is None and net.upserts else done.inserted_rows,
        updated_rows=done.updated_rows,
        deleted_rows=done.deleted_rows,
        added_files=done.added_files,
        removed_files=done.removed_files,
        added_delete_files=done.added_delete_files,
    )
