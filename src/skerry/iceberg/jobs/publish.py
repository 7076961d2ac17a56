"""Publish what tasks wrote: append, overwrite or upsert; batches of streams exactly once.

Tasks write with `write_share`, wherever they run; the driver publishes the files of all tasks as one snapshot.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from skerry.errors import ConflictError, SchemaError, UnsupportedError
from skerry.iceberg.handle import IcebergHandle
from skerry.iceberg.jobs.merge import upsert, upsert_staged
from skerry.iceberg.jobs.once import BatchWasThereError, OnceTable
from skerry.iceberg.jobs.row_changes import ChangeRequest
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.operations import (
    AppendFiles,
    OverwriteFiles,
    StreamBatch,
)
from skerry.iceberg.planning.live_files import live_data_files
from skerry.iceberg.writing.layout import FileLayout
from skerry.iceberg.writing.table_writers import PartitionedWriter, write_batches
from skerry.storage import Storage, join
from skerry.table.commit import RetryPolicy
from skerry.table.connector.publication import Publication, WriteMode
from skerry.table.files.data_file import DataFile
from skerry.table.merging import StagedPart, StagedRows, stage_part
from skerry.table.owned_files import OwnedFiles, owned_files
from skerry.table.rows.incoming import conform, open_batches
from skerry.table.statistics.table_sample import partition_name
from skerry.table.statistics.written_file import WrittenFile
from skerry.table.work.tasks import Executor, ThreadExecutor

__all__ = ["Publication", "Share", "WriteMode", "check_publication", "owned_shares", "publish", "write_share"]

# A task leaves at most this much, so that one machine can combine the rests of thousands of tasks.
_FEW_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Share:
    """The files that a task wrote; picklable.

    Args:
        files: Data files.
        rows: Files of Arrow batches still to be combined with those of other tasks.
        staged: Rows still to be merged.
    """

    files: tuple[WrittenFile, ...] = ()
    rows: tuple[str, ...] = ()
    staged: StagedPart | None = None

    @property
    def locations(self) -> list[str]:
        """All files of it."""
        return [*(file.data_file.location for file in self.files), *self.passing]

    @property
    def passing(self) -> list[str]:
        """Those that are no longer needed after the commit."""
        return [*self.rows, *(part.location for part in (self.staged,) if part is not None)]


def check_publication(publication: Publication) -> None:
    """Refuse write modes that Iceberg tables cannot do.

    Raises:
        SchemaError: An upsert has no key columns.
    """
    if publication.mode is WriteMode.UPSERT and not publication.on:
        raise SchemaError("an upsert needs key columns (on)")


def write_share(layout: FileLayout, mode: WriteMode, batches: Iterable[pa.RecordBatch]) -> Share:
    """Write a task's rows; if that fails, everything written is removed.

    A task writes no data files for partitions of which it has few rows: otherwise every task would write one. These
    rows are kept in a file of Arrow batches, and the driver combines them. Of encrypted tables
    there are no such files, which would not be encrypted.

    Args:
        layout: The layout of the files; all of them go to its folder.
        mode: How the rows will be published.
        batches: Rows whose columns fit the table's.

    Raises:
        SchemaError: Columns, types or a value do not fit.
    """
    reader = open_batches(batches)
    if reader is None:
        return Share()
    with owned_files(layout.storage) as files:
        if mode is WriteMode.UPSERT:
            encrypts = layout.key_bytes is not None
            return Share(staged=stage_part(layout.storage, layout.folder, reader, files, encrypts=encrypts))
        writer = PartitionedWriter(layout)
        rows: tuple[str, ...] = ()
        try:
            for batch in conform(reader, layout.schema):
                writer.write(batch)
            if layout.key_bytes is None and (few := writer.take_small(_FEW_BYTES)):
                rows = (_leave(layout, layout.schema, few, files),)
            return Share(tuple(writer.close()), rows)
        except BaseException:
            writer.abort()
            raise


def _leave(layout: FileLayout, schema: pa.Schema, batches: Iterable[pa.RecordBatch], owned: OwnedFiles) -> str:
    """Write rows to a file for the driver."""
    location = join(layout.folder, f"{uuid.uuid4()}.arrows")
    owned.add(location)
    with layout.storage.open_output(location) as sink, pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return location


def _left(storage: Storage, locations: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """Rows that tasks left to the driver."""
    for location in locations:
        with storage.open_input(location) as file:
            yield from pa.ipc.open_stream(file)


def _put_together(layout: FileLayout, shares: Iterable[Share]) -> Share:
    """Write data files of the rows that tasks left to the driver."""
    locations = [location for share in shares for location in share.rows]
    return Share(tuple(write_batches(layout, _left(layout.storage, locations)))) if locations else Share()


@contextmanager
def owned_shares(layout: FileLayout, shares: Iterable[Share]) -> Iterator[OwnedFiles]:
    """Own what tasks wrote; see `skerry.table.owned_files`."""
    with owned_files(layout.storage) as files:
        files.add(*(location for share in shares for location in share.locations))
        yield files


def publish(
    table: IcebergHandle,
    layout: FileLayout,
    shares: Sequence[Share],
    publication: Publication,
    *,
    batch: StreamBatch | None = None,
    executor: Executor | None = None,
) -> bool:
    """Publish what all tasks wrote, as one snapshot.

    Args:
        table: The table.
        layout: The layout with which it was written.
        shares: What was written.
        publication: How to publish it.
        batch: The batch of a stream, to be committed once.
        executor: Runs the tasks of an upsert; threads of this process by default.

    Returns:
        Whether it was published now; otherwise the table had the batch, and what was written is removed.

    Raises:
        ConflictError: Other writers repeatedly changed the same rows; what was written is removed.
        CommitUnknownError: The outcome is unknown; nothing was cleaned up.
        SchemaError: Rows or keys do not fit; what was written is removed.
    """
    once = None if batch is None else OnceTable(table, batch)
    with owned_shares(layout, shares) as files:
        check_publication(publication)
        published = once is None or not once.has_batch()
        if published:
            if publication.mode is not WriteMode.UPSERT:
                together = _put_together(layout, shares)
                files.add(*together.locations)
                shares = [*shares, together]
            target = table if once is None else once
            try:
                _PUBLISHERS[publication.mode](target, layout.storage, shares, publication, executor or ThreadExecutor())
            except BatchWasThereError:
                published = False
        files.remove([location for share in shares for location in share.passing] if published else None)
    return published


# Modes ---------------------------------------------------------------------------------------------------------------


def _append(
    table: IcebergHandle, storage: Storage, shares: Sequence[Share], publication: Publication, executor: Executor
) -> None:
    files = [file for share in shares for file in share.files]
    table.commit(AppendFiles.of(files, ref=publication.ref, properties=publication.properties))


def _overwrite(
    table: IcebergHandle, storage: Storage, shares: Sequence[Share], publication: Publication, executor: Executor
) -> None:
    files = [file for share in shares for file in share.files]
    state = table.refresh()
    for left in reversed(range(RetryPolicy.from_properties(state.properties).num_retries + 1)):
        snapshot = state.branch(publication.ref)
        live = [] if snapshot is None else live_data_files(state, snapshot)
        if publication.mode is WriteMode.OVERWRITE_PARTITIONS:
            live = _of_partitions(live, files, state)
        operation = OverwriteFiles(
            added=tuple(files),
            removed_files=tuple(file.location for file in live),
            starting_snapshot_id=None if snapshot is None else snapshot.snapshot_id,
            ref=publication.ref,
            properties=publication.properties,
        )
        try:
            table.commit(operation)
            return
        except ConflictError as conflict:
            # nothing was read: rows of concurrent writers are overwritten as well
            if conflict.retryable or not left:
                raise
        state = table.refresh()


def _of_partitions(live: Sequence[DataFile], files: Sequence[WrittenFile], state: TableState) -> list[DataFile]:
    """The files of the partitions of new rows.

    Raises:
        UnsupportedError: Files of another partition spec may contain rows of these partitions.
    """
    others = {file.spec_id for file in live} - {state.spec.spec_id}
    if others and files:
        raise UnsupportedError(
            f"files of an older partition spec ({min(others)}) may contain rows of the overwritten partitions; "
            "compact the table first",
            location=state.name,
        )
    wanted = {partition_name(file.data_file.spec_id, file.data_file.partition) for file in files}
    return [file for file in live if partition_name(file.spec_id, file.partition) in wanted]


def _upsert(
    table: IcebergHandle, storage: Storage, shares: Sequence[Share], publication: Publication, executor: Executor
) -> None:
    parts = tuple(share.staged for share in shares if share.staged is not None)
    if not parts:
        return
    request = ChangeRequest(table, "merge", publication.ref, publication.properties, executor)
    staged = StagedRows(storage, f"{parts[0].location}-matches", parts[0].schema, parts)
    if publication.blind:
        batches = (batch for pack in staged.packs(0) for batch in staged.of_pack(pack))
        rows = pa.RecordBatchReader.from_batches(staged.schema, batches)
        upsert(request, rows, publication.on, blind=True)
    else:
        upsert_staged(request, staged, publication.on)


_PUBLISHERS = {
    WriteMode.APPEND: _append,
    WriteMode.OVERWRITE: _overwrite,
    WriteMode.OVERWRITE_PARTITIONS: _overwrite,
    WriteMode.UPSERT: _upsert,
}
