"""Append rows to a table, and replace whole partitions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

import pyarrow as pa

from skerry.errors import UnsupportedError
from skerry.paimon.change_request import ChangeRequest, commit_files, redo_after_conflicts
from skerry.paimon.jobs.key_places import key_places
from skerry.paimon.manifests.live_files import index_entries
from skerry.paimon.manifests.manifest import ManifestEntry
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.operations import AppendRows, OverwritePartitions
from skerry.paimon.operations.lookup import find_commit
from skerry.paimon.writing.bucket_states import BucketStates
from skerry.paimon.writing.cross_partition import CrossPartitionKeys
from skerry.paimon.writing.dynamic_buckets import DynamicBuckets
from skerry.paimon.writing.layout import WriteLayout
from skerry.paimon.writing.table_writers import WrittenRows, write_rows, write_waiting
from skerry.table.arguments import Rows
from skerry.table.rows.incoming import conform, open_stream
from skerry.table.summaries import RowChangeSummary

__all__ = [
    "append",
    "append_batches",
    "commit_rows",
    "known_buckets",
    "overwrite_partitions",
]


def append(request: ChangeRequest, data: Rows) -> PaimonState:
    """Add rows; in a primary-key table, records by key.

    Args:
        request: The branch.
        data: Anything with the Arrow C stream interface.
    """
    state = request.target.load()
    if request.commit_id is not None and find_commit(state, request.commit_id) is not None:
        return state
    if state.options.bucket != -1 or not state.schema.primary_keys:
        return _append(request, state, data)
    # dynamic buckets have one writer at a time, so that rows may have to be written again
    rows = open_stream(data).read_all()
    return redo_after_conflicts(request, lambda state: _append(request, state, rows))


def _append(request: ChangeRequest, state: PaimonState, data: Rows) -> PaimonState:
    batches: Iterable[pa.RecordBatch] = conform(data, state.arrow_schema)
    return append_batches(request, state, batches)[1]


def append_batches(
    request: ChangeRequest, state: PaimonState, batches: Iterable[pa.RecordBatch], *, exclusive: bool = False
) -> tuple[WrittenRows, PaimonState]:
    """Write batches of a state's columns, optionally followed by `KIND_COLUMN`, and commit them.

    Args:
        request: The branch.
        state: The state that they were made for.
        batches: The rows.
        exclusive: Whether other writers must not have written to the same buckets since.

    Returns:
        What was written, and the state after the commit.
    """
    layout = WriteLayout.of(state)
    bucket_states, indexes = known_buckets(request, state, layout)
    if layout.waits:
        written = write_waiting(layout, batches)
    else:
        written = write_rows(layout, batches, bucket_states, indexes)
    return written, commit_rows(request, layout, written, bucket_states, indexes, exclusive=exclusive)


def commit_rows(
    request: ChangeRequest,
    layout: WriteLayout,
    written: WrittenRows,
    bucket_states: BucketStates,
    indexes: DynamicBuckets | CrossPartitionKeys | None,
    *,
    exclusive: bool = False,
    replaces: Sequence[ManifestEntry] = (),
) -> PaimonState:
    """Commit rows that were written.

    Args:
        request: The branch.
        layout: How they were written.
        written: The files.
        bucket_states: The buckets as they were before.
        indexes: The keys of dynamic buckets, or of all partitions; None for other tables.
        exclusive: Whether other writers must not have written to the same buckets since.
        replaces: The files whose rows waited for buckets, which they have now.
    """
    operation = AppendRows(
        layout,
        written,
        bucket_states,
        indexes if isinstance(indexes, DynamicBuckets) else None,
        commit_id=request.commit_id,
        properties=request.properties,
        watermark=request.watermark,
        exclusive=exclusive,
        replaces=replaces,
    )
    after = commit_files(request, operation, _indexes(layout, written))
    if isinstance(indexes, CrossPartitionKeys) and not operation.was_done:
        indexes.keep(after)
        request.keys[after.branch] = indexes
    return after


def known_buckets(
    request: ChangeRequest, state: PaimonState, layout: WriteLayout
) -> tuple[BucketStates, DynamicBuckets | CrossPartitionKeys | None]:
    """Its buckets, none where no writer needs them; and the keys of dynamic buckets, or of all partitions."""
    if not layout.has_keys and layout.options.bucket < 0:
        return BucketStates(), None
    known = request.bucket_states.get(state.branch)
    bucket_states = request.bucket_states[state.branch] = BucketStates.of(state) if known is None else known.at(state)
    if layout.moves_keys:
        return bucket_states, key_places(request, state, layout)
    is_dynamic = layout.has_keys and layout.options.bucket == -1
    return bucket_states, DynamicBuckets.of(state, index_entries(state)) if is_dynamic else None


def _indexes(layout: WriteLayout, written: WrittenRows) -> list[str]:
    return [layout.index_file(entry.partition, entry.bucket, entry.file_name) for entry in written.indexes]


# Overwriting partitions ----------------------------------------------------------------------------------------------


def overwrite_partitions(
    request: ChangeRequest,
    data: Rows | None,
    choose: Callable[[Collection[bytes]], Collection[bytes]] | None,
    *,
    dynamic: bool = False,
) -> RowChangeSummary:
    """Replace whole partitions with rows.

    Args:
        request: The branch.
        data: The new rows; None for none.
        choose: Which of the existing partitions are replaced; all of them if None.
        dynamic: Replace only the partitions that get rows.
    """
    state = request.target.load()
    layout = WriteLayout.of(state)
    written = WrittenRows()
    if data is not None:
        indexes: DynamicBuckets | CrossPartitionKeys | None = None
        if layout.moves_keys:
            if choose is not None or dynamic:
                raise UnsupportedError(
                    "single partitions of a table whose primary key lacks a partition key are not overwritten: the "
                    "keys of the new rows may be in others",
                    location=state.name,
                )
            indexes = CrossPartitionKeys(layout, state)
        elif layout.has_keys and layout.options.bucket == -1:
            indexes = DynamicBuckets(layout, ())
        batches = conform(data, state.arrow_schema)
        written = write_rows(layout, batches, BucketStates(), indexes)
    if dynamic and layout.schema.partition_keys:
        touched = {file.bucket.partition for file in written.files}
        choose = touched.intersection
    operation = OverwritePartitions(layout, written, choose, commit_id=request.commit_id, properties=request.properties)
    after = commit_files(request, operation, _indexes(layout, written))
    return RowChangeSummary(
        after.snapshot.id if after.snapshot is not None else None,
        inserted_rows=written.row_count,
        deleted_rows=None if layout.has_keys else operation.removed_rows,
        added_files=len(operation.files),
        removed_files=len(operation.removed),
    )
