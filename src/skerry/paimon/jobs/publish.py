"""Publishing what tasks have written to a Paimon table: appending, overwriting or upserting; each batch once.

Tasks write with `write_share`, wherever they run; the driver publishes what all of them have written, as one snapshot.

**Who writes buckets.** Rows of append tables become data files in the tasks: their sequence numbers are recorded in the
manifest only, where publishing numbers the files of one bucket consecutively. In primary-key tables a record's number
is stored in its file and decides which record of a key counts, so that one writer must assign the numbers of a bucket;
in dynamic buckets one writer must also know all keys of a partition. Callers that can bring the rows of a bucket into
one task say so (`owns_buckets`), and the task writes them; if a bucket is nevertheless in several shares, the later
ones are rewritten with higher numbers. Spark's Python data source cannot ask for such a distribution: there tasks leave
their rows in files sorted by bucket, and publishing writes bucket by bucket, with the memory of what a writer sorts at
a time. That also writes a bucket's rows to one file instead of one per task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from skerry.errors import UnsupportedError
from skerry.paimon.change_request import ChangeRequest, commit_files, redo_after_conflicts
from skerry.paimon.handle import PaimonHandle
from skerry.paimon.jobs.append import append_batches, overwrite_partitions
from skerry.paimon.jobs.compact import compact_invisible
from skerry.paimon.jobs.expire_partitions import expire_due_partitions
from skerry.paimon.jobs.merge import upsert, upsert_keys
from skerry.paimon.jobs.once import commit_once
from skerry.paimon.jobs.shuffle_files import Group, ShuffleFile, read_groups, write_shuffle_file
from skerry.paimon.jobs.waiting_rows import place_before
from skerry.paimon.metadata.paths import POSTPONE_BUCKET
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.operations import AppendRows, OverwritePartitions
from skerry.paimon.writing.bucket_states import BucketStates
from skerry.paimon.writing.data_files import WrittenDataFile
from skerry.paimon.writing.layout import WriteLayout
from skerry.paimon.writing.renumbering import renumbered
from skerry.paimon.writing.routing import Router
from skerry.paimon.writing.table_writers import WrittenRows, write_rows
from skerry.storage import join
from skerry.table.connector.publication import Publication, WriteMode
from skerry.table.merging import MergeSource, refuse_repeated_keys
from skerry.table.owned_files import OwnedFiles, owned_files
from skerry.table.rows.incoming import conform, open_batches
from skerry.table.rows.keys import KeyIndex
from skerry.table.stream_batch import StreamBatch

__all__ = ["Share", "ShareLayout", "check_publication", "owned_shares", "publish", "publish_shares", "write_share"]

_FOLDER = "skerry-rows"
"""The folder of spilled rows; Paimon does not know it, and abandoned files there count as orphans."""


@dataclass(frozen=True)
class ShareLayout:
    """What tasks need to write their shares; picklable.

    Args:
        files: How the table's data files are written. Everything written with it carries the id of one job in its name.
        bucket_states: The buckets that tasks write to; empty if they need not know.
        owns_buckets: Whether all rows of a bucket are in one task.
    """

    files: WriteLayout
    bucket_states: BucketStates = field(default_factory=BucketStates)
    owns_buckets: bool = False

    @classmethod
    def of(cls, table: PaimonHandle, publication: Publication, *, owns_buckets: bool = False) -> ShareLayout:
        """The layout for a write to the newest state of a table.

        Args:
            table: The table.
            publication: How the rows will be published.
            owns_buckets: Whether the caller brings all rows of a bucket to one task, which then writes the bucket. It
                makes no difference to append tables, or to dynamic buckets, whose rows are spilled for one writer.

        Raises:
            SchemaError: The publication does not fit the table.
            UnsupportedError: An option of the table is not supported for writing.
        """
        state = table.branch_state(publication.ref)
        check_publication(state, publication)
        files = WriteLayout.of(state)
        owns = owns_buckets and files.has_keys and files.options.bucket > 0
        owns = owns and not files.waits and publication.mode is not WriteMode.UPSERT
        writes_buckets = files.options.bucket > 0 and (owns or not files.has_keys)
        bucket_states = (
            BucketStates.of(state) if writes_buckets and publication.mode is WriteMode.APPEND else BucketStates()
        )
        return cls(files, bucket_states, owns)

    @property
    def waiting_folder(self) -> str:
        """Where rows are spilled."""
        return join(self.files.location, _FOLDER)

    def rows_wait(self, mode: WriteMode) -> bool:
        """Whether tasks leave rows to the publisher, and write no data files."""
        return mode is WriteMode.UPSERT or (self.files.has_keys and not self.owns_buckets)


@dataclass(frozen=True, slots=True)
class Share:
    """What a task has written; picklable.

    Args:
        files: Data files.
        shuffle_files: Files of rows that are yet to be put into buckets, or to be merged.
    """

    files: tuple[WrittenDataFile, ...] = ()
    shuffle_files: tuple[ShuffleFile, ...] = ()

    @property
    def locations(self) -> list[str]:
        """All its files."""
        return [location for file in self.files for location in file.locations] + [
            file.location for file in self.shuffle_files
        ]


def check_publication(state: PaimonState, publication: Publication) -> None:
    """Refuse what a table cannot do with rows.

    Raises:
        SchemaError: The key columns of an upsert are missing, or not those of the table.
        UnsupportedError: The upserts would be blind.
    """
    if publication.blind:
        raise UnsupportedError(
            "Paimon tables have no blind upserts: append replaces rows by primary key without reading them",
            location=state.name,
        )
    if publication.mode is not WriteMode.UPSERT:
        return
    upsert_keys(state, publication.on)


def write_share(layout: ShareLayout, mode: WriteMode, batches: Iterable[pa.RecordBatch]) -> Share:
    """Write a task's rows; if that fails, all their files are removed.

    Args:
        layout: How they are written.
        mode: How they will be published.
        batches: Rows whose columns fit the table's.

    Raises:
        SchemaError: Columns, types or a value do not fit.
    """
    reader = open_batches(batches)
    if reader is None:
        return Share()
    files = layout.files
    schema = files.schema.arrow_schema
    rows = conform(reader, schema)
    if not layout.rows_wait(mode):
        return Share(files=write_rows(files, rows, layout.bucket_states, None).files)
    router = Router(files, lambda partition: files.options.bucket)

    def split(batch: pa.RecordBatch) -> Iterator[tuple[Group, pa.RecordBatch]]:
        if files.moves_keys:  # a key's rows stay in order, whatever their partitions
            yield (b"", 0), batch
            return
        for bucket, part, _ in router.split(batch):
            yield bucket.key, part

    location = join(layout.waiting_folder, f"rows-{files.new_name()}.arrow")
    return Share(shuffle_files=(write_shuffle_file(files.storage, location, schema, rows, split),))


@contextmanager
def owned_shares(layout: ShareLayout, shares: Iterable[Share]) -> Iterator[OwnedFiles]:
    """Own what tasks have written; see `skerry.table.owned_files`."""
    with owned_files(layout.files.storage) as files:
        files.add(*(location for share in shares for location in share.locations))
        yield files


def publish(
    table: PaimonHandle,
    layout: ShareLayout,
    shares: Sequence[Share],
    publication: Publication,
    *,
    batch: StreamBatch | None = None,
) -> bool:
    """Publish what all tasks have written, as one snapshot; see `publish_shares`.

    Returns:
        Whether it was published now; if not, the table had the batch, and what was written again is removed.
    """
    return publish_shares(table, layout, shares, publication, batch=batch) is not None


def publish_shares(
    table: PaimonHandle,
    layout: ShareLayout,
    shares: Sequence[Share],
    publication: Publication,
    *,
    batch: StreamBatch | None = None,
) -> PaimonState | None:
    """Publish what all tasks have written, as one snapshot.

    Args:
        table: The table.
        layout: The layout that the shares were written with.
        shares: What was written.
        publication: How to publish it.
        batch: The batch of a stream, which is committed once.

    Returns:
        The branch's state if it was published now; None if the table had the batch, and what was written again is
        removed.

    Raises:
        ConflictError: Other writers kept changing the same rows; what was written is removed.
        CommitUnknownError: The outcome is unknown; nothing was cleaned up.
        SchemaError: Rows or keys do not fit; what was written is removed.
    """
    with owned_shares(layout, shares) as files:
        write = _Write(layout, shares, publication)
        request = table.request(publication.ref, publication.properties)
        if table.state.options.bucket == POSTPONE_BUCKET:
            place_before(request, appends=publication.mode in (WriteMode.APPEND, WriteMode.UPSERT))
        if batch is None:
            write.commit(request)
            published = True
        else:
            published = commit_once(request, batch, write.commit)
        files.remove([file.location for file in write.shuffle_files] if published else None)
    compact_invisible(request)
    if request.target.newest is not None:
        expire_due_partitions(request, request.target.newest, table.partition_check)
    state = table.keep(request)
    return state if published else None


class _Write:
    """One write, about to be committed."""

    def __init__(self, layout: ShareLayout, shares: Sequence[Share], publication: Publication) -> None:
        self._layout = layout
        self._shares = shares
        self._publication = publication
        self.shuffle_files = [file for share in shares for file in share.shuffle_files]

    def commit(self, request: ChangeRequest) -> None:
        """Commit what was written, by its mode."""
        _PUBLISHERS[self._publication.mode](self, request)

    # ---- modes ----

    def append(self, request: ChangeRequest) -> None:
        """Add the rows."""
        if self.shuffle_files:
            redo_after_conflicts(request, lambda state: append_batches(request, state, self._rows(state)))
            return
        written, superseded = _in_order(self._layout.files, self._shares)
        operation = AppendRows(self._layout.files, written, self._layout.bucket_states, properties=request.properties)
        operation.superseded += superseded
        commit_files(request, operation)

    def overwrite(self, request: ChangeRequest, *, dynamic: bool = False) -> None:
        """Replace all rows, or those of the partitions that get rows."""
        files = self._layout.files
        if self._layout.rows_wait(self._publication.mode):
            schema = files.schema.arrow_schema
            rows = pa.RecordBatchReader.from_batches(schema, (batch for _, batch in self._shuffled_batches()))
            overwrite_partitions(request, rows, None, dynamic=dynamic)
            return
        written, superseded = _in_order(files, self._shares)
        choose = None
        if dynamic and files.schema.partition_keys:
            choose = {file.bucket.partition for file in written.files}.intersection
        operation = OverwritePartitions(files, written, choose, properties=request.properties)
        operation.superseded += superseded
        commit_files(request, operation)

    def upsert(self, request: ChangeRequest) -> None:
        """Replace the rows that have the same keys."""
        if not self.shuffle_files:
            return
        if self._layout.files.has_keys:
            redo_after_conflicts(request, lambda state: append_batches(request, state, self._rows(state, unique=True)))
            return
        schema = self._layout.files.schema.arrow_schema
        rows = pa.RecordBatchReader.from_batches(schema, (batch for _, batch in self._shuffled_batches()))
        upsert(request, rows, self._publication.on)

    # ---- shuffle files ----

    def _shuffled_batches(self) -> Iterator[tuple[Group, pa.RecordBatch]]:
        for group, batches in read_groups(self._layout.files.storage, self.shuffle_files):
            for batch in batches:
                yield group, batch

    def _rows(self, state: PaimonState, *, unique: bool = False) -> Iterator[pa.RecordBatch]:
        """The rows of shuffle files, bucket by bucket, with the columns of a state."""
        storage, schema = self._layout.files.storage, self._layout.files.schema.arrow_schema
        for _, batches in read_groups(storage, self.shuffle_files):
            checked = _refuse_repeated(batches, state.schema.primary_keys) if unique else batches
            yield from conform(pa.RecordBatchReader.from_batches(schema, checked), state.arrow_schema)


_PUBLISHERS: dict[WriteMode, Callable[[_Write, ChangeRequest], None]] = {
    WriteMode.APPEND: _Write.append,
    WriteMode.OVERWRITE: _Write.overwrite,
    WriteMode.OVERWRITE_PARTITIONS: partial(_Write.overwrite, dynamic=True),
    WriteMode.UPSERT: _Write.upsert,
}


def _refuse_repeated(batches: Iterable[pa.RecordBatch], keys: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The batches of a bucket, checked for repeated keys.

    Raises:
        SchemaError: Two rows have one key; the message names it.
    """
    seen: list[pa.RecordBatch] = []
    for batch in batches:
        seen.append(batch.select(list(keys)))
        yield batch
    if not seen:
        return
    rows = pa.Table.from_batches(seen)
    refuse_repeated_keys(MergeSource(rows, tuple(keys), KeyIndex.of(rows.columns)))


# Sequence numbers ----------------------------------------------------------------------------------------------------


def _in_order(layout: WriteLayout, shares: Sequence[Share]) -> tuple[WrittenRows, list[WrittenDataFile]]:
    """The files of all shares, renumbered so that no two records of a bucket have the same sequence number.

    Returns:
        The files, and those that were rewritten for it.
    """
    ends: dict[tuple[bytes, int], int] = {}
    files: list[WrittenDataFile] = []
    superseded: list[WrittenDataFile] = []
    for share in shares:
        by_bucket: dict[tuple[bytes, int], list[WrittenDataFile]] = {}
        for file in share.files:
            by_bucket.setdefault(file.bucket.key, []).append(file)
        for bucket, found in by_bucket.items():
            least = min(file.file.min_sequence_number for file in found)
            shift = max(ends.get(bucket, least) - least, 0)
            moved = [moved for file in found for moved in (_moved(layout, file, shift) if shift else [file])]
            superseded += found if shift and layout.has_keys else []
            files += moved
            ends[bucket] = max(file.file.max_sequence_number for file in moved) + 1
    return WrittenRows(tuple(files)), superseded


def _moved(layout: WriteLayout, file: WrittenDataFile, shift: int) -> Sequence[WrittenDataFile]:
    if layout.has_keys:
        return renumbered(layout, file, shift)
    meta = file.file
    first, last = meta.min_sequence_number + shift, meta.max_sequence_number + shift
    return [replace(file, file=replace(meta, min_sequence_number=first, max_sequence_number=last))]
