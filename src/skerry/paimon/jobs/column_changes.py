"""Row changes where several files have columns of the same rows: updates write files of the changed columns alone.

Updated rows stay where they are: a new file has the changed columns of all rows of their group; of BLOB columns, all
rows of a BLOB file with an updated one. Deleted rows are listed by the deletion vector of the group's oldest file; new
rows are appended.

Spec: docs/formats/paimon.md § 8.10, § 8.11.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.errors import ConflictError, UnsupportedError
from skerry.paimon.change_request import commit_files
from skerry.paimon.jobs.compact_row_ranges import ONE_FILE
from skerry.paimon.jobs.row_tasks import RowJob
from skerry.paimon.manifests.index_manifest import IndexManifestEntry
from skerry.paimon.manifests.live_files import index_entries, live_entries
from skerry.paimon.manifests.manifest import ManifestEntry
from skerry.paimon.metadata.snapshot import CommitKind
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.operations import IndexChange, ReplaceFiles
from skerry.paimon.operations.conflicts import check_row_ranges
from skerry.paimon.operations.row_vectors import change_vectors
from skerry.paimon.planning.deletion_positions import Positions
from skerry.paimon.planning.file_splits import FileSplits
from skerry.paimon.planning.row_sections import is_dedicated_name, stitched_entries
from skerry.paimon.planning.splits import Split
from skerry.paimon.reading.rows import SplitReader
from skerry.paimon.statistics.samples import delete_key
from skerry.paimon.writing.bucket_states import BucketStates
from skerry.paimon.writing.data_files import BucketFiles, BucketLocation, WrittenDataFile
from skerry.paimon.writing.dedicated_files import BlobFiles
from skerry.paimon.writing.layout import WriteLayout
from skerry.paimon.writing.lineage import ROW_ID_FIELD
from skerry.paimon.writing.table_writers import write_rows
from skerry.storage import join
from skerry.table.owned_files import give_up
from skerry.table.rows.incoming import conform
from skerry.table.rows.schema import LARGE_OBJECT_KEY
from skerry.table.summaries import RowChangeSummary

__all__ = ["change_columns"]


@dataclass(frozen=True, slots=True)
class _Group:
    """Files that have columns of the same rows, the oldest first."""

    entries: tuple[ManifestEntry, ...]

    @property
    def anchor(self) -> ManifestEntry:
        return self.entries[0]

    @property
    def first_row_id(self) -> int:
        return self.anchor.file.first_row_id or 0


@dataclass(frozen=True, slots=True)
class _Update:
    """New values of some columns of a group; picklable.

    Args:
        bucket: Where the group is.
        first_row_id: The id of its first row.
        pieces: By BLOB column, ranges of rows that are in one file; all rows together.
        split: Its files, deleted rows included.
        rows: The rows with new values, as int64[n] distances from the first, ascending.
        values: The changed columns of these rows.
    """

    bucket: BucketLocation
    first_row_id: int
    pieces: Mapping[str, tuple[tuple[int, int], ...]]
    split: Split
    rows: npt.NDArray[np.int64]
    values: pa.Table


def change_columns(
    job: RowJob,
    found: Mapping[str, Positions],
    updated: pa.Table | None,
    changed: Collection[str],
    added: pa.Table | None,
    *,
    check: Callable[[PaimonState], None] | None = None,
) -> RowChangeSummary:
    """Delete and update rows by position, and add others in the same commit.

    Args:
        job: The attempt.
        found: Positions of deleted and updated rows, by name of the oldest file of their group.
        updated: The new version of the updated ones, followed by `ROW_ID_FIELD`.
        changed: The columns in which it differs.
        added: The rows to add.
        check: Refuses a base with rows that the work should have considered.

    Raises:
        ConflictError: Another writer has changed what was relied on; the work must be repeated.
        UnsupportedError: Rows are deleted and the table has no deletion vectors, or a changed column cannot be written.
    """
    layout, state = job.layout, job.state
    groups = {group.anchor.file.file_name: group for group in _groups(state)} if found else {}
    touched = [groups[name] for name in found]
    names = [name for name in state.arrow_schema.names if name in changed]
    _check_columns(layout, names)
    deleted = _deleted(touched, found, updated)
    if deleted and not layout.options.deletion_vectors:
        raise UnsupportedError(
            "rows of a table with data-evolution.enabled=true are deleted by deletion vectors only: create it with "
            "deletion-vectors.enabled=true",
            location=state.name,
        )
    written: list[WrittenDataFile] = []
    index = IndexChange()
    splits = FileSplits(state, layout)
    updates = list(_updates(splits, layout, touched, updated, names))
    with layout.owned_files({update.bucket.folder for update in updates}) as owned:
        if added is not None and added.num_rows:
            rows = conform(added, state.arrow_schema)
            written += write_rows(layout, rows, BucketStates.of(state), None).files
            owned.add(*(location for file in written for location in file.locations))
        work = functools.partial(_write_columns, state, layout, tuple(names))
        written += itertools.chain.from_iterable(job.run("rewrite", work, updates, lambda update: 1, owned))
        if deleted:
            vectors = {_key(groups[name].anchor): positions for name, positions in deleted.items()}
            index = change_vectors(layout, index_entries(state), vectors, owned=owned)
        outdated = _outdated_indexes(state, touched, names) if updates else ()
        index = replace(index, removed=(*index.removed, *outdated))
        operation = ReplaceFiles(
            layout,
            [],
            written,
            CommitKind.OVERWRITE if deleted else CommitKind.APPEND,
            index=index,
            kept=[entry for group in touched for entry in group.entries],
            deletes={name: _more_deletes(splits, groups[name].anchor, len(gone)) for name, gone in deleted.items()},
            check=functools.partial(_check_base, state, touched, names if updates else (), check),
            properties=job.request.properties,
        )
        after = commit_files(job.request, operation)
    return RowChangeSummary(
        after.snapshot.id if after.snapshot is not None else None,
        inserted_rows=0 if added is None else added.num_rows,
        updated_rows=0 if updated is None else updated.num_rows,
        deleted_rows=sum(map(len, deleted.values())),
        added_files=len(written),
        added_delete_files=len(deleted),
    )


def _groups(state: PaimonState) -> Iterator[_Group]:
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = {}
    for entry in live_entries(state):
        buckets.setdefault((entry.partition, entry.bucket), []).append(entry)
    for entries in buckets.values():
        for group in stitched_entries(entries, location=state.name):
            yield _Group(tuple(group))


def _check_columns(layout: WriteLayout, names: Sequence[str]) -> None:
    for name in names:
        if name in layout.schema.partition_keys:
            raise UnsupportedError(
                f"partition key {name!r} cannot be updated in a table with data-evolution.enabled=true, whose rows "
                "stay in their files",
                location=layout.name,
            )


def _deleted(
    touched: Sequence[_Group], found: Mapping[str, Positions], updated: pa.Table | None
) -> dict[str, Positions]:
    """The positions that are found and not updated."""
    ids = np.zeros(0, np.int64) if updated is None else np.asarray(updated.column(ROW_ID_FIELD.name))
    gone = {}
    for group in touched:
        name = group.anchor.file.file_name
        left = np.setdiff1d(found[name], ids - group.first_row_id)
        if len(left):
            gone[name] = left
    return gone


def _updates(
    splits: FileSplits, layout: WriteLayout, touched: Sequence[_Group], updated: pa.Table | None, names: Sequence[str]
) -> Iterator[_Update]:
    """The updates of each group."""
    if updated is None or not names:
        return
    ids = np.asarray(updated.column(ROW_ID_FIELD.name))
    order = np.argsort(ids, kind="stable")
    values = updated.select(list(names)).take(pa.array(order))
    ids = ids[order]
    for group in touched:
        anchor, first = group.anchor, group.first_row_id
        low, high = np.searchsorted(ids, [first, first + anchor.file.row_count]).tolist()
        if low < high:
            folder = layout.bucket_folder(anchor.partition, anchor.bucket)
            bucket = BucketLocation(anchor.partition, anchor.bucket, anchor.total_buckets, folder)
            split = _whole(splits.raw(group.entries))
            new = values.slice(low, high - low)
            pieces = {name: _pieces(splits.state, group, name) for name in names if name in _blobs(splits.state)}
            yield _Update(bucket, first, pieces, split, ids[low:high] - first, new)


def _blobs(state: PaimonState) -> frozenset[str]:
    """The BLOB columns."""
    return frozenset(field.name for field in state.arrow_schema if LARGE_OBJECT_KEY in (field.metadata or {}))


def _pieces(state: PaimonState, group: _Group, column: str) -> tuple[tuple[int, int], ...]:
    """The ranges of rows of a group that the newest files of a BLOB column have, or that no file has."""
    own, count = state.schema.field(column).id, group.anchor.file.row_count
    bounds = {0, count}
    for entry in group.entries:
        file = entry.file
        then = state.schema_by_id(file.schema_id)
        if is_dedicated_name(file.file_name) and own in {then.field(name).id for name in file.write_cols or ()}:
            first = (file.first_row_id or 0) - group.first_row_id
            bounds |= {first, first + file.row_count}
    return tuple(itertools.pairwise(sorted(bounds)))


def _whole(split: Split) -> Split:
    """A split without deletion vectors: a file of columns has all rows of its group."""
    sections = tuple(
        replace(section, runs=tuple(tuple(replace(file, deletion_vector=None) for file in run) for run in section.runs))
        for section in split.sections
    )
    return replace(split, sections=sections)


def _write_columns(
    state: PaimonState, layout: WriteLayout, names: tuple[str, ...], task: _Update
) -> list[WrittenDataFile]:
    """Write the changed columns of a group."""
    blobs = [name for name in names if name in task.pieces]
    others = tuple(name for name in names if name not in blobs)
    written: list[WrittenDataFile] = []
    try:
        for name in blobs:
            written += _write_blobs(state, layout, name, task)
        if others:
            written.append(_write_ordinary(state, layout, others, task))
    except BaseException:
        give_up(layout.storage, (location for file in written for location in file.locations))
        raise
    return written


def _write_blobs(state: PaimonState, layout: WriteLayout, name: str, task: _Update) -> Iterator[WrittenDataFile]:
    """Write a BLOB column of the ranges that have updated rows; the bytes of the other rows are copied."""
    schema = pa.schema([state.arrow_schema.field(name)])
    new = conform(task.values.select([name]), schema).read_all().combine_chunks()
    options = {**state.schema.options, "blob-as-descriptor": "true"}
    described = replace(state, schema=replace(state.schema, options=options))
    old = pa.Table.from_batches(SplitReader(described, schema).batches([task.split]), schema).combine_chunks()
    for begin, end in task.pieces[name]:
        low, high = np.searchsorted(task.rows, [begin, end]).tolist()
        if low == high:
            continue
        files = BlobFiles(layout, task.bucket.folder, name)
        try:
            for batch in old.slice(begin, end - begin).to_batches():
                files.write(_merged(batch, task.rows[low:high] - begin, new.slice(low, high - low)))
            found = files.close()
        except BaseException:
            files.abort()
            raise
        first = task.first_row_id + begin
        for file in found:
            location = join(task.bucket.folder, file.file_name)
            yield WrittenDataFile(task.bucket, replace(file, first_row_id=first), (location,))
            first += file.row_count


def _write_ordinary(state: PaimonState, layout: WriteLayout, names: tuple[str, ...], task: _Update) -> WrittenDataFile:
    """Write changed columns of all rows of a group."""
    schema = pa.schema([state.arrow_schema.field(name) for name in names])
    options = {**layout.schema.options, **ONE_FILE}
    own = replace(layout, columns=names, schema=replace(layout.schema, options=options))
    files = BucketFiles(own, task.bucket)
    new = conform(task.values.select(list(names)), schema).read_all().combine_chunks()
    row = 0
    try:
        for batch in SplitReader(state, schema).batches([task.split]):
            low, high = np.searchsorted(task.rows, [row, row + batch.num_rows]).tolist()
            files.write(_merged(batch, task.rows[low:high] - row, new.slice(low, high - low)))
            row += batch.num_rows
        (written,) = files.close()
    except BaseException:
        files.abort()
        raise
    return replace(written, file=replace(written.file, first_row_id=task.first_row_id))


def _merged(batch: pa.RecordBatch, rows: npt.NDArray[np.int64], new: pa.Table) -> pa.Table:
    """A batch with new values in some rows."""
    if not len(rows):
        return pa.Table.from_batches([batch])
    places = np.arange(batch.num_rows)
    places[rows] = batch.num_rows + np.arange(len(rows))
    columns = [
        pa.chunked_array([column, *fresh.chunks], column.type).take(pa.array(places))
        for column, fresh in zip(batch.columns, new.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=batch.schema)


_UPDATE_ACTION: Final = "global-index.column-update-action"


def _outdated_indexes(
    state: PaimonState, touched: Sequence[_Group], names: Sequence[str]
) -> tuple[IndexManifestEntry, ...]:
    """The global indexes of changed columns in the partitions of changed groups, which are dropped.

    Raises:
        UnsupportedError: There are some, and the table's options do not allow to drop them.
    """
    found = _indexes_of(state, touched, names)
    action = state.schema.options.get(_UPDATE_ACTION, "THROW_ERROR").strip().upper()
    if found and action != "DROP_PARTITION_INDEX":
        raise UnsupportedError(
            f"a column with a global index ({found[0].index_type}) is updated: set the table option "
            f"{_UPDATE_ACTION}=DROP_PARTITION_INDEX to drop the index of the partition",
            location=state.name,
        )
    return found


def _indexes_of(state: PaimonState, touched: Sequence[_Group], names: Sequence[str]) -> tuple[IndexManifestEntry, ...]:
    """The global indexes of columns in the partitions of groups."""
    ids = {state.schema.field(name).id for name in names}
    partitions = {group.anchor.partition for group in touched}
    return tuple(
        entry
        for entry in index_entries(state)
        if entry.global_index is not None
        and entry.partition in partitions
        and ids & {entry.global_index.index_field_id, *(entry.global_index.extra_field_ids or ())}
    )


def _check_base(
    state: PaimonState,
    touched: Sequence[_Group],
    names: Sequence[str],
    check: Callable[[PaimonState], None] | None,
    base: PaimonState,
) -> None:
    """Refuse a base in which others have written columns of the same rows, or indexed those that change.

    Raises:
        ConflictError: They have.
    """
    if check is not None:
        check(base)
    if base.snapshot == state.snapshot:
        return
    if set(_indexes_of(base, touched, names)) - set(_indexes_of(state, touched, names)):
        raise ConflictError("another writer has indexed the columns that change", location=base.name, retryable=False)
    check_row_ranges(state, [entry for group in touched for entry in group.entries], base)


def _key(entry: ManifestEntry) -> tuple[bytes, int, str]:
    return entry.partition, entry.bucket, entry.file.file_name


def _more_deletes(splits: FileSplits, entry: ManifestEntry, count: int) -> int:
    """How the key of a file's deletes changes when so many more of its rows are deleted."""
    vector = splits.vector(entry)
    before = 0 if vector is None else vector.cardinality or 0
    name = entry.file.file_name
    return delete_key(name, before) ^ delete_key(name, before + count)
