"""Deleting and replacing rows where they are.

In append tables rows are found by position; then files are written anew without them, or deletion vectors name them
where the table has those. In primary-key tables rows are taken away by records of kind -D with their keys.

Spec: `formats/paimon.md` §§ 4, 8, 10, 12.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import ConflictError, SchemaError, UnsupportedError
from skerry.paimon.change_request import ChangeRequest, commit_files, redo_after_conflicts
from skerry.paimon.jobs.append import append_batches, overwrite_partitions
from skerry.paimon.jobs.record_changes import DeleteRows, change_records
from skerry.paimon.jobs.row_tasks import PLACE_FIELDS, FileRewrite, RowJob, find_keys, find_rows, rewrite_file
from skerry.paimon.manifests.live_files import index_entries, live_entries
from skerry.paimon.manifests.manifest import FileSource, ManifestEntry
from skerry.paimon.metadata.snapshot import CommitKind
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.operations import IndexChange, ReplaceFiles
from skerry.paimon.operations.row_vectors import FileKey, change_vectors
from skerry.paimon.planning.deletion_positions import Positions
from skerry.paimon.planning.file_splits import FileSplits
from skerry.paimon.planning.partition_choice import names_partitions, partitions_where
from skerry.paimon.planning.splits import Split
from skerry.paimon.statistics.samples import delete_key
from skerry.paimon.writing.bucket_book import BucketBook
from skerry.paimon.writing.data_files import WrittenDataFile
from skerry.paimon.writing.table_writers import write_rows
from skerry.storage import name
from skerry.table.merging import key_predicate
from skerry.table.predicate import ALWAYS_TRUE, Predicate, parse, row_mask
from skerry.table.rows.incoming import conform, open_stream
from skerry.table.rows.keys import KeyIndex
from skerry.table.summaries import RowChanges

__all__ = ["delete", "merged_positions", "overwrite", "replace_positions", "upsert"]


def delete(request: ChangeRequest, where: str | Any) -> RowChanges:
    """Delete the rows that a condition holds for; whole partitions by metadata alone.

    Raises:
        ConflictError: Others changed the same rows, again and again.
        FormatError: `where` is no condition.
        SchemaError: `where` does not fit the table's columns, or is None.
        UnsupportedError: The table's merge engine knows no deletes.
    """
    if where is None:
        raise SchemaError("delete needs a condition; 'TRUE' deletes all rows")

    def attempt(state: PaimonState) -> RowChanges:
        predicate = parse(where, state.arrow_schema)
        if names_partitions(predicate, state.schema):
            return overwrite_partitions(request, None, partitions_where(predicate, state.schema))
        job = RowJob.of(request, state)
        if state.schema.primary_keys:
            return change_records(job, DeleteRows(predicate))
        return replace_positions(job, _positions(job, predicate), None)

    return redo_after_conflicts(request, attempt)


def overwrite(request: ChangeRequest, data: Any, where: str | Any = None) -> RowChanges:
    """Replace the rows that a condition holds for, all rows if it is None, in one commit.

    Whole partitions are replaced by metadata alone, if the new rows lie in them: elsewhere there may be buckets
    already, which go on as they are.
    """
    if where is None:
        return overwrite_partitions(request, data, None)
    rows = open_stream(data).read_all()

    def attempt(state: PaimonState) -> RowChanges:
        job = RowJob.of(request, state)
        predicate = parse(where, state.arrow_schema)
        if names_partitions(predicate, state.schema):
            new = conform(rows, state.arrow_schema).read_all()
            inside = all(pc.all(row_mask(predicate, batch)).as_py() for batch in new.to_batches())
            if inside or not (state.schema.primary_keys or state.options.bucket > 0):
                return overwrite_partitions(request, new, partitions_where(predicate, state.schema))
        if state.schema.primary_keys:
            return change_records(job, DeleteRows(predicate, conform(rows, state.arrow_schema)))
        return replace_positions(job, _positions(job, predicate), rows)

    return redo_after_conflicts(request, attempt)


def upsert(request: ChangeRequest, data: Any, on: Sequence[str]) -> RowChanges:
    """Update the rows that have the keys of new rows, and insert the new rows whose keys no row has.

    Args:
        request: Where to.
        data: The new rows, with all columns of the table.
        on: The key columns; in a primary-key table its primary key.

    Raises:
        SchemaError: The data does not fit the table, or a key is in it twice; the message names it.
        UnsupportedError: `on` is not the primary key of a table that has one.
    """
    rows = open_stream(data).read_all()

    def attempt(state: PaimonState) -> RowChanges:
        job = RowJob.of(request, state)
        new = conform(rows, state.arrow_schema).read_all()
        keys = _keys(state, on)
        index = KeyIndex.of([new.column(key) for key in keys])
        _refuse_repeated(index, new, keys)
        if state.schema.primary_keys:
            written, after = append_batches(request, state, new.to_batches())
            snapshot = after.snapshot.id if after.snapshot is not None else None
            return RowChanges(snapshot, new.num_rows, updated_rows=None, added_files=len(written.files))
        keyed = new.filter(pa.array(index.first >= 0))
        fields = [state.arrow_schema.field(key) for key in keys]
        among = key_predicate(fields, [keyed.column(key).combine_chunks() for key in keys])
        return replace_positions(job, _matching(job, index, keys), new, updates=True, unless=among)

    return redo_after_conflicts(request, attempt)


def _keys(state: PaimonState, on: Sequence[str]) -> list[str]:
    keys = list(on) or list(state.schema.primary_keys)
    for key in keys:
        state.schema.field(key)
    if not keys:
        raise SchemaError("upsert needs key columns: the table has no primary key")
    if state.schema.primary_keys and set(keys) != set(state.schema.primary_keys):
        raise UnsupportedError(
            f"rows of a table with primary key {', '.join(state.schema.primary_keys)} are upserted by that key only, "
            f"not by {', '.join(keys)}",
            location=state.name,
        )
    return keys


def _refuse_repeated(index: KeyIndex, rows: pa.Table, keys: Sequence[str]) -> None:
    repeated = np.flatnonzero(index.repeated)
    if len(repeated):
        values = {key: rows.column(key)[int(repeated[0])].as_py() for key in keys}
        raise SchemaError(f"the key {values} is in the data twice")


# Positions -----------------------------------------------------------------------------------------------------------


def _positions(job: RowJob, predicate: Predicate) -> dict[str, Positions]:
    """int64[n] Positions of the rows of a predicate, by name of the data file."""
    splits = job.splits(predicate)
    reader = job.reader(pa.schema(PLACE_FIELDS), predicate, tasks=len(splits))
    return merged_positions(list(job.run("find", functools.partial(find_rows, reader), splits, _file_count)))


def _matching(job: RowJob, index: KeyIndex, keys: Sequence[str]) -> dict[str, Positions]:
    """Positions of the rows that have one of the keys, by name of the data file."""
    splits, schema = job.splits(ALWAYS_TRUE), job.state.arrow_schema
    columns = pa.schema([*(schema.field(key) for key in keys), *PLACE_FIELDS])
    work = functools.partial(find_keys, job.reader(columns, tasks=len(splits)), index, keys)
    return merged_positions(list(job.run("find", work, splits, _file_count)))


def _file_count(split: Split) -> int:
    return sum(1 for _ in split.files)


def merged_positions(parts: Iterable[Mapping[str, Positions]]) -> dict[str, Positions]:
    """int64[n] Positions by name of the data file, ascending, of parts that may have the same files."""
    found: dict[str, list[Positions]] = {}
    for part in parts:
        for file, positions in part.items():
            found.setdefault(file, []).append(positions)
    return {file: np.sort(np.concatenate(positions)) for file, positions in found.items()}


def replace_positions(
    job: RowJob,
    found: Mapping[str, Positions],
    new: pa.Table | None,
    *,
    updates: bool = False,
    unless: Predicate | None = None,
) -> RowChanges:
    """Take rows away by position, and add others in the same commit.

    Args:
        job: The attempt.
        found: Positions by name of the data file.
        new: The rows that come.
        updates: Whether they are those that go, as they are now.
        unless: Rows that would have been found, had they been there. Who adds a row because there is none with its key
            must do the work again when a rival has added one.

    Raises:
        ConflictError: Another writer has changed what was relied on; the work must be done again.
    """
    layout, state = job.layout, job.state
    live = {entry.file.file_name: entry for entry in live_entries(state)} if found else {}
    touched = {file: live[file] for file in found}
    splits = FileSplits(state, layout)
    whole = [entry for file, entry in touched.items() if len(found[file]) == _alive_rows(splits, entry)]
    names = {entry.file.file_name for entry in whole}
    partial = {file: entry for file, entry in touched.items() if file not in names}
    written: list[WrittenDataFile] = []
    index = IndexChange()
    touched_folders = {layout.bucket_folder(entry.partition, entry.bucket) for entry in partial.values()}
    with layout.owned_files(touched_folders) as owned:
        if new is not None:
            written += write_rows(layout, conform(new, state.arrow_schema), BucketBook.of(state), None).files
            owned.add(*(location for file in written for location in file.locations))
        if layout.options.deletion_vectors:
            vectors = {_key(entry): found[file] for file, entry in partial.items()}
            index = change_vectors(layout, index_entries(state), vectors, map(_key, whole), owned=owned)
            removed, kept = whole, list(partial.values())
        else:
            rewrites = [FileRewrite(entry, splits.raw([entry]), found[file]) for file, entry in partial.items()]
            work = functools.partial(rewrite_file, state, layout)
            for files in job.run("rewrite", work, rewrites, lambda task: 1, owned):
                written += files
            gone = [entry for entry in touched.values() if splits.vector(entry) is not None]
            if gone:
                index = change_vectors(layout, index_entries(state), {}, map(_key, gone), owned=owned)
            removed, kept = list(touched.values()), []
        operation = ReplaceFiles(
            layout,
            removed,
            written,
            CommitKind.OVERWRITE,
            index=index,
            kept=kept,
            deletes={entry.file.file_name: _more_deletes(splits, entry, found[entry.file.file_name]) for entry in kept},
            check=functools.partial(_refuse_new_rows, job, unless) if unless is not None and new is not None else None,
            properties=job.request.properties,
        )
        after = commit_files(job.request, operation)
    taken, rows = sum(map(len, found.values())), new.num_rows if new is not None else 0
    return RowChanges(
        after.snapshot.id if after.snapshot is not None else None,
        inserted_rows=rows - taken if updates and taken <= rows else 0 if updates else rows,
        updated_rows=taken if updates else 0,
        deleted_rows=0 if updates else taken,
        added_files=len(written),
        removed_files=len(removed),
        added_delete_files=len(partial) if layout.options.deletion_vectors else 0,
    )


def _refuse_new_rows(job: RowJob, predicate: Predicate, base: PaimonState) -> None:
    """Refuse a base that has files which may hold rows of a predicate, and which the job has not seen.

    Compaction moves rows and adds none. A rival's copy of rows that it has left alone counts as new: the work is done
    once more, and nothing is lost.

    Raises:
        ConflictError: There are such files.
    """
    if base.snapshot == job.state.snapshot:
        return
    seen = {entry.file.file_name for entry in live_entries(job.state)}
    new = {
        entry.file.file_name
        for entry in live_entries(base)
        if entry.file.file_name not in seen and entry.file.file_source is not FileSource.COMPACT
    }
    if not new:
        return
    for split in RowJob.of(job.request, base).splits(predicate):
        for file in split.files:
            if name(file.location) in new:
                raise ConflictError(
                    f"another writer has added data file {name(file.location)}, which may hold the same rows",
                    location=base.name,
                    retryable=False,
                )


def _more_deletes(splits: FileSplits, entry: ManifestEntry, found: Positions) -> int:
    """How the key of a file's deletes changes when more of its rows are deleted."""
    name, before = entry.file.file_name, entry.file.row_count - _alive_rows(splits, entry)
    return delete_key(name, before) ^ delete_key(name, before + len(found))


def _key(entry: ManifestEntry) -> FileKey:
    return entry.partition, entry.bucket, entry.file.file_name


def _alive_rows(splits: FileSplits, entry: ManifestEntry) -> int:
    vector = splits.vector(entry)
    return entry.file.row_count - (vector.cardinality or 0 if vector is not None else 0)
