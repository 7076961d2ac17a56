"""Changing a table's rows: write files, commit, and clean up or do it again when others were first.

A conflict that the commit loop cannot get over means that the work was done for a state that is gone: rows were spread
over other buckets, or files that were written anew are taken away. Then everything is done again on the new state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from skerry.errors import ConflictError
from skerry.paimon.commit import PaimonTarget, retry_policy
from skerry.paimon.manifests.live_files import index_entries
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.operations import AppendRows, CommitId, OverwritePartitions, TableChange
from skerry.paimon.operations.lookup import find_commit
from skerry.paimon.writing.bucket_book import BucketBook
from skerry.paimon.writing.data_files import WrittenDataFile
from skerry.paimon.writing.dynamic_buckets import DynamicBuckets
from skerry.paimon.writing.layout import WriteLayout
from skerry.paimon.writing.table_writers import WrittenRows, write_rows
from skerry.table.commit import commit
from skerry.table.owned_files import owned_files
from skerry.table.rows.incoming import conform, open_stream
from skerry.table.summaries import RowChanges
from skerry.table.tasks import Executor, ThreadExecutor, Watcher

__all__ = [
    "ChangeRequest",
    "append",
    "append_batches",
    "commit_files",
    "commit_rows",
    "known_buckets",
    "overwrite_partitions",
    "redo_after_conflicts",
]

Result = TypeVar("Result")


class _FileOperation(Protocol):
    """An operation that publishes files which were written for it."""

    files: tuple[WrittenDataFile, ...]
    superseded: list[WrittenDataFile]
    was_done: bool

    def apply(self, base: PaimonState) -> TableChange | None: ...


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """Where and how rows are changed.

    Args:
        target: The branch.
        properties: The snapshot's properties.
        commit_id: Who commits what; a commit that was made already is not made again.
        watermark: Event time that the rows have reached.
        books: The buckets of branches as they were known last; kept by whoever writes to a table again and again.
        executor: Where files are read and written.
        watcher: Called with the progress.
    """

    target: PaimonTarget
    properties: Mapping[str, str] = field(default_factory=dict)
    commit_id: CommitId | None = None
    watermark: int | None = None
    books: dict[str, BucketBook] = field(default_factory=dict)
    executor: Executor = field(default_factory=ThreadExecutor)
    watcher: Watcher | None = None


def redo_after_conflicts(request: ChangeRequest, attempt: Callable[[PaimonState], Result]) -> Result:
    """Do work on the newest state, again when others have changed what it relied on.

    Raises:
        ConflictError: They did so again and again.
    """
    state = request.target.load()
    for wait in retry_policy(state).waits_s():
        try:
            return attempt(state)
        except ConflictError as error:
            if error.retryable:
                raise
        time.sleep(wait)
        state = request.target.load()
    return attempt(state)


def commit_files(request: ChangeRequest, operation: _FileOperation, indexes: Iterable[str] = ()) -> PaimonState:
    """Commit an operation, and remove the files that belong to nothing afterwards.

    Args:
        request: Where to.
        operation: The operation; its files are owned here.
        indexes: Index files that were written for it.

    Raises:
        ConflictError: Other writers won every race, or it does not go together with what they did.
        CommitUnknownError: The outcome is unknown; nothing was cleaned up.
    """
    with owned_files(request.target.storage) as files:
        files.add(*indexes)
        files.add_found(lambda: _locations((*operation.files, *operation.superseded)))
        state = commit(operation, request.target, retry_policy)
        files.remove(None if operation.was_done else _locations(operation.superseded))
    return state


def _locations(files: Iterable[WrittenDataFile]) -> list[str]:
    return [location for file in files for location in file.locations]


# Adding rows ---------------------------------------------------------------------------------------------------------


def append(request: ChangeRequest, data: Any) -> PaimonState:
    """Add rows, or in a primary-key table records by key.

    Args:
        request: Where to.
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


def _append(request: ChangeRequest, state: PaimonState, data: Any) -> PaimonState:
    batches: Iterable[pa.RecordBatch] = conform(data, state.arrow_schema)
    return append_batches(request, state, batches)[1]


def append_batches(
    request: ChangeRequest, state: PaimonState, batches: Iterable[pa.RecordBatch], *, exclusive: bool = False
) -> tuple[WrittenRows, PaimonState]:
    """Write batches of a state's columns, `KIND_COLUMN` perhaps behind them, and commit them.

    Args:
        request: Where to.
        state: The state that they were made for.
        batches: The rows.
        exclusive: Whether nobody else may have written to the same buckets since.

    Returns:
        What was written, and the state after the commit.
    """
    layout = WriteLayout.of(state)
    book, indexes = known_buckets(request, state, layout)
    written = write_rows(layout, batches, book, indexes)
    return written, commit_rows(request, layout, written, book, indexes, exclusive=exclusive)


def commit_rows(
    request: ChangeRequest,
    layout: WriteLayout,
    written: WrittenRows,
    book: BucketBook,
    indexes: DynamicBuckets | None,
    *,
    exclusive: bool = False,
) -> PaimonState:
    """Commit rows that were written.

    Args:
        request: Where to.
        layout: How they were written.
        written: The files.
        book: The buckets as they were before.
        indexes: The keys of dynamic buckets; None for other tables.
        exclusive: Whether nobody else may have written to the same buckets since.
    """
    operation = AppendRows(
        layout,
        written,
        book,
        indexes,
        commit_id=request.commit_id,
        properties=request.properties,
        watermark=request.watermark,
        exclusive=exclusive,
    )
    return commit_files(request, operation, _indexes(layout, written))


def known_buckets(
    request: ChangeRequest, state: PaimonState, layout: WriteLayout
) -> tuple[BucketBook, DynamicBuckets | None]:
    """The buckets of a state, none where no writer asks for any, and the keys of those that are dynamic."""
    if not layout.has_keys and layout.options.bucket < 0:
        return BucketBook(), None
    known = request.books.get(state.branch)
    book = request.books[state.branch] = BucketBook.of(state) if known is None else known.at(state)
    is_dynamic = layout.has_keys and layout.options.bucket == -1
    return book, DynamicBuckets.of(state, index_entries(state)) if is_dynamic else None


def _indexes(layout: WriteLayout, written: WrittenRows) -> list[str]:
    return [layout.index_file(entry.partition, entry.bucket, entry.file_name) for entry in written.indexes]


# Overwriting partitions ----------------------------------------------------------------------------------------------


def overwrite_partitions(
    request: ChangeRequest,
    data: Any | None,
    choose: Callable[[Collection[bytes]], Collection[bytes]] | None,
    *,
    dynamic: bool = False,
) -> RowChanges:
    """Put rows in the place of whole partitions.

    Args:
        request: Where to.
        data: The new rows; None for none.
        choose: Which of the partitions that exist are replaced; all of them if None.
        dynamic: Replace just those that get rows.
    """
    state = request.target.load()
    layout = WriteLayout.of(state)
    written = WrittenRows()
    if data is not None:
        indexes = DynamicBuckets(layout, ()) if layout.has_keys and layout.options.bucket == -1 else None
        batches = conform(data, state.arrow_schema)
        written = write_rows(layout, batches, BucketBook(), indexes)
    if dynamic and layout.schema.partition_keys:
        touched = {file.place.partition for file in written.files}
        choose = touched.intersection
    operation = OverwritePartitions(layout, written, choose, commit_id=request.commit_id, properties=request.properties)
    after = commit_files(request, operation, _indexes(layout, written))
    return RowChanges(
        after.snapshot.id if after.snapshot is not None else None,
        inserted_rows=written.row_count,
        deleted_rows=None if layout.has_keys else operation.removed_rows,
        added_files=len(operation.files),
        removed_files=len(operation.removed),
    )
