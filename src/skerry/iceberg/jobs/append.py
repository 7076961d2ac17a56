"""Append rows in one process: normalise, write files, commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from skerry.iceberg.handle import IcebergHandle
from skerry.iceberg.jobs.analyze import catch_up
from skerry.iceberg.jobs.once import BatchWasThereError, OnceTable
from skerry.iceberg.metadata.state import MAIN, TableState
from skerry.iceberg.writing.table_writers import write_batches
from skerry.table.arguments import Rows
from skerry.table.rows.incoming import conform
from skerry.table.stream_batch import StreamBatch
from skerry.table.work.tasks import JobProgress, ProgressCallback

__all__ = ["append", "append_once"]


def append(
    table: IcebergHandle,
    data: Rows,
    *,
    ref: str = MAIN,
    staged: bool = False,
    properties: Mapping[str, str] | None = None,
    progress: ProgressCallback | None = None,
) -> TableState:
    """Append rows to a table.

    Args:
        table: The table.
        data: Anything with the Arrow C stream interface.
        ref: The branch.
        staged: Whether the branch does not move.
        properties: Further entries of the snapshot summary.
        progress: Called after every batch.

    Raises:
        NotFoundError: There is no such branch.
        SchemaError: The data does not fit, or `ref` is a tag; nothing was written.
        ConflictError: Other writers won every race; the files written were removed.
        CommitUnknownError: The outcome is unknown; nothing was cleaned up.
    """
    table.refresh().branch(ref)
    state = catch_up(table, ref)
    layout = table.layout(ref=ref)
    with layout.owned_files():
        files = write_batches(layout, _counted(conform(data, state.schema), progress))
        return table.append(files, ref=ref, properties=properties, staged=staged)


def append_once(
    table: IcebergHandle,
    data: Rows,
    batch: StreamBatch,
    *,
    ref: str = MAIN,
    properties: Mapping[str, str] | None = None,
    progress: ProgressCallback | None = None,
) -> bool:
    """Append a batch of a stream, unless the table has it already; see `append`.

    Returns:
        Whether it was appended now.
    """
    once = OnceTable(table, batch)
    try:
        if once.has_batch():
            return False
        append(once, data, ref=ref, properties=properties, progress=progress)
    except BatchWasThereError:
        return False
    finally:
        table.state = once.state
    return True


def _counted(batches: pa.RecordBatchReader, progress: ProgressCallback | None) -> Iterator[pa.RecordBatch]:
    rows = size = 0
    for batch in batches:
        yield batch
        rows += batch.num_rows
        size += batch.nbytes
        if progress is not None:
            progress(JobProgress("write", done_rows=rows, done_bytes=size))
