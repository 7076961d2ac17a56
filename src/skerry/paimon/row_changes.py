"""Deleting and replacing rows where they are.

In append tables rows are found by position; then files are written anew without them, or deletion vectors name them
where the table has those. In primary-key tables rows are taken away by records of kind -D with their keys.

Spec: `formats/paimon.md` §§ 4, 8, 10, 12.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import SchemaError, UnsupportedError
from skerry.paimon.changing import (
    ChangeRequest,
    append_batches,
    commit_files,
    overwrite_partitions,
    redo_after_conflicts,
)
from skerry.paimon.file_splits import FileSplits
from skerry.paimon.live_files import index_entries, live_entries
from skerry.paimon.manifest import ManifestEntry
from skerry.paimon.operations import IndexChange, ReplaceFiles
from skerry.paimon.options import MergeEngine
from skerry.paimon.partition_choice import names_partitions, partitions_where
from skerry.paimon.planning import ScanPlanner
from skerry.paimon.reading import SplitReader
from skerry.paimon.row_counts import RowCounts
from skerry.paimon.row_vectors import FileKey, Positions, change_vectors
from skerry.paimon.samples import delete_key
from skerry.paimon.snapshot import CommitKind
from skerry.paimon.splits import Split
from skerry.paimon.state import PaimonState
from skerry.paimon.writing.bucket_book import BucketBook
from skerry.paimon.writing.data_files import BucketFiles, BucketPlace, WrittenDataFile
from skerry.paimon.writing.layout import WriteLayout
from skerry.paimon.writing.table_writers import KIND_COLUMN, write_rows
from skerry.storage import name
from skerry.table.incoming import conform, open_stream
from skerry.table.keys import KeyIndex
from skerry.table.metadata_columns import FILE, METADATA_COLUMNS, POSITION
from skerry.table.predicate import ALWAYS_TRUE, Predicate, conjuncts_of, parse, row_mask
from skerry.table.schema import field_id

__all__ = [
    "DELETE_KIND",
    "INSERT_KIND",
    "PLACE_FIELDS",
    "UPDATE_AFTER_KIND",
    "UPDATE_BEFORE_KIND",
    "RowJob",
    "delete",
    "overwrite",
    "positions_by_file",
    "refuse_deletes",
    "replace_positions",
    "upsert",
    "with_kind",
    "write_records",
]

PLACE_FIELDS: Final = tuple(field for field in METADATA_COLUMNS if field_id(field) in (FILE, POSITION))
INSERT_KIND: Final = 0
UPDATE_BEFORE_KIND: Final = 1
UPDATE_AFTER_KIND: Final = 2
DELETE_KIND: Final = 3


@dataclass(frozen=True)
class RowJob:
    """One attempt at changing rows of a state."""

    request: ChangeRequest
    state: PaimonState
    layout: WriteLayout

    @classmethod
    def of(cls, request: ChangeRequest, state: PaimonState) -> RowJob:
        """Begin.

        Raises:
            UnsupportedError: The table is of a kind whose rows are not changed.
        """
        layout = WriteLayout.of(state)
        if layout.options.row_tracking:
            raise UnsupportedError(
                "table option row-tracking.enabled=true: rows of such tables are not changed, as files that are "
                "written anew would lose their row ids",
                location=state.name,
            )
        return cls(request, state, layout)

    def splits(self, predicate: Predicate) -> Iterable[Split]:
        """The splits that can hold rows of a predicate."""
        planner = ScanPlanner(self.state, conjuncts_of(predicate), _threads())
        return planner.plan(self.state.snapshot).splits

    def reader(self, columns: pa.Schema, predicate: Predicate = ALWAYS_TRUE) -> SplitReader:
        """A reader of rows."""
        return SplitReader(self.state, columns, predicate, _threads())


def _threads() -> int:
    return min(os.cpu_count() or 1, 8)


def delete(request: ChangeRequest, where: str | Any) -> RowCounts:
    """Delete the rows that a condition holds for.

    Raises:
        ConflictError: Others changed the same rows, again and again.
        FormatError: `where` is no condition.
        SchemaError: `where` does not fit the table's columns, or is None.
        UnsupportedError: The table's merge engine knows no deletes.
    """
    if where is None:
        raise SchemaError("delete needs a condition; 'TRUE' deletes all rows")

    def attempt(state: PaimonState) -> RowCounts:
        job = RowJob.of(request, state)
        predicate = parse(where, state.arrow_schema)
        if state.schema.primary_keys:
            return write_records(job, _deletes(job, predicate), inserted=0)
        return replace_positions(job, _positions(job, predicate), None)

    return redo_after_conflicts(request, attempt)


def overwrite(request: ChangeRequest, data: Any, where: str | Any) -> RowCounts:
    """Put rows in place of those that a condition holds for, in one commit.

    Whole partitions are replaced by metadata alone, if the new rows lie in them: elsewhere there may be buckets
    already, which go on as they are.
    """
    rows = open_stream(data).read_all()

    def attempt(state: PaimonState) -> RowCounts:
        job = RowJob.of(request, state)
        predicate = parse(where, state.arrow_schema)
        if names_partitions(predicate, state.schema):
            new = conform(rows, state.arrow_schema).read_all()
            inside = all(pc.all(row_mask(predicate, batch)).as_py() for batch in new.to_batches())
            if inside or not (state.schema.primary_keys or state.options.bucket > 0):
                return overwrite_partitions(request, new, partitions_where(predicate, state.schema))
        if state.schema.primary_keys:
            records = itertools.chain(
                _deletes(job, predicate), with_kind(conform(rows, state.arrow_schema), INSERT_KIND)
            )
            return write_records(job, records, inserted=rows.num_rows)
        return replace_positions(job, _positions(job, predicate), rows)

    return redo_after_conflicts(request, attempt)


def upsert(request: ChangeRequest, data: Any, on: Sequence[str]) -> RowCounts:
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

    def attempt(state: PaimonState) -> RowCounts:
        job = RowJob.of(request, state)
        new = conform(rows, state.arrow_schema).read_all()
        keys = _keys(state, on)
        index = KeyIndex.of([new.column(key) for key in keys])
        _refuse_repeated(index, new, keys)
        if state.schema.primary_keys:
            return write_records(job, with_kind(new.to_batches(), INSERT_KIND), inserted=new.num_rows, replaces=True)
        return replace_positions(job, _matching(job, index, keys), new, updates=True)

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


# Records -------------------------------------------------------------------------------------------------------------


def refuse_deletes(job: RowJob) -> None:
    """Refuse tables in which a record of kind -D does not take a row away.

    Raises:
        UnsupportedError: This is one; the message names the option.
    """
    options = job.layout.options
    removes = options.options.get(f"{options.merge_engine.value}.remove-record-on-delete", "false").lower() == "true"
    if options.ignore_delete:
        raise UnsupportedError("table option ignore-delete=true: rows cannot be deleted", location=job.state.name)
    if options.merge_engine is not MergeEngine.DEDUPLICATE and not removes:
        raise UnsupportedError(
            f"table option merge-engine={options.merge_engine.value}: rows cannot be deleted", location=job.state.name
        )
    if options.rowkind_field is not None:
        raise UnsupportedError(
            f"table option rowkind.field={options.rowkind_field}: rows are deleted by rows that say so",
            location=job.state.name,
        )


def _deletes(job: RowJob, predicate: Predicate) -> Iterator[pa.RecordBatch]:
    """Records that take away the rows of a predicate."""
    refuse_deletes(job)
    yield from with_kind(job.reader(job.state.arrow_schema, predicate).batches(job.splits(predicate)), DELETE_KIND)


def with_kind(batches: Iterable[pa.RecordBatch], kind: int) -> Iterator[pa.RecordBatch]:
    """Rows as records of one kind."""
    for batch in batches:
        yield batch.append_column(KIND_COLUMN, pa.repeat(pa.scalar(kind, pa.int8()), batch.num_rows))


def write_records(
    job: RowJob, batches: Iterable[pa.RecordBatch], *, inserted: int, replaces: bool = False
) -> RowCounts:
    """Commit records, unless another writer has changed their buckets since the rows were read."""
    written, state = append_batches(job.request, job.state, batches, exclusive=not replaces)
    return RowCounts(
        state.snapshot.id if state.snapshot is not None else None,
        inserted_rows=inserted,
        updated_rows=None if replaces else 0,
        deleted_rows=0 if replaces else written.row_count - inserted,
        added_files=len(written.files),
    )


# Positions -----------------------------------------------------------------------------------------------------------


def _positions(job: RowJob, predicate: Predicate) -> dict[str, Positions]:
    """int64[n] Positions of the rows of a predicate, by name of the data file."""
    reader = job.reader(pa.schema(PLACE_FIELDS), predicate)
    return positions_by_file(reader.batches(job.splits(predicate)))


def _matching(job: RowJob, index: KeyIndex, keys: Sequence[str]) -> dict[str, Positions]:
    """Positions of the rows that have one of the keys, by name of the data file."""
    schema = job.state.arrow_schema
    reader = job.reader(pa.schema([*(schema.field(key) for key in keys), *PLACE_FIELDS]))

    def found() -> Iterator[pa.RecordBatch]:
        for batch in reader.batches(job.splits(ALWAYS_TRUE)):
            hits = index.find([batch.column(key) for key in keys]) >= 0
            if hits.any():
                yield batch.filter(pa.array(hits))

    return positions_by_file(found())


def positions_by_file(batches: Iterable[pa.RecordBatch]) -> dict[str, Positions]:
    """int64[n] Positions by name of the data file, ascending, of batches that end with `PLACE_FIELDS`."""
    parts: dict[str, list[Positions]] = {}
    for batch in batches:
        files = batch.column(PLACE_FIELDS[0].name).dictionary_encode()
        places = np.asarray(batch.column(PLACE_FIELDS[1].name))
        codes = np.asarray(files.indices)
        for code, location in enumerate(files.dictionary.to_pylist()):
            parts.setdefault(name(location), []).append(places[codes == code])
    return {location: np.sort(np.concatenate(found)) for location, found in parts.items()}


def replace_positions(
    job: RowJob, found: Mapping[str, Positions], new: pa.Table | None, *, updates: bool = False
) -> RowCounts:
    """Take rows away by position, and add others in the same commit."""
    layout, state = job.layout, job.state
    live = {entry.file.file_name: entry for entry in live_entries(state)} if found else {}
    touched = {file: live[file] for file in found}
    splits = FileSplits(state, layout)
    whole = [entry for file, entry in touched.items() if len(found[file]) == _alive_rows(splits, entry)]
    names = {entry.file.file_name for entry in whole}
    partial = {file: entry for file, entry in touched.items() if file not in names}
    written: list[WrittenDataFile] = []
    index = IndexChange()
    try:
        if new is not None:
            written += write_rows(layout, conform(new, state.arrow_schema), BucketBook.of(state), None).files
        if layout.options.deletion_vectors:
            vectors = {_key(entry): found[file] for file, entry in partial.items()}
            index = change_vectors(layout, index_entries(state), vectors, map(_key, whole))
            removed, kept = whole, list(partial.values())
        else:
            for file, entry in partial.items():
                written += _rewrite(job, splits, entry, found[file])
            gone = [entry for entry in touched.values() if splits.vector(entry) is not None]
            index = change_vectors(layout, index_entries(state), {}, map(_key, gone)) if gone else index
            removed, kept = list(touched.values()), []
    except BaseException:
        layout.storage.delete([location for file in written for location in file.locations])
        raise
    operation = ReplaceFiles(
        layout,
        removed,
        written,
        CommitKind.OVERWRITE,
        index=index,
        kept=kept,
        deletes={entry.file.file_name: _more_deletes(splits, entry, found[entry.file.file_name]) for entry in kept},
        properties=job.request.properties,
    )
    created = [layout.index_file(entry.partition, entry.bucket, entry.file_name) for entry in index.added]
    after = commit_files(job.request, operation, created)
    taken, rows = sum(map(len, found.values())), new.num_rows if new is not None else 0
    return RowCounts(
        after.snapshot.id if after.snapshot is not None else None,
        inserted_rows=rows - taken if updates and taken <= rows else 0 if updates else rows,
        updated_rows=taken if updates else 0,
        deleted_rows=0 if updates else taken,
        added_files=len(written),
        removed_files=len(removed),
        added_vectors=len(partial) if layout.options.deletion_vectors else 0,
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


def _rewrite(job: RowJob, splits: FileSplits, entry: ManifestEntry, gone: Positions) -> list[WrittenDataFile]:
    """Write a file's rows again, without some."""
    layout = job.layout
    folder = layout.bucket_folder(entry.partition, entry.bucket)
    place = BucketPlace(entry.partition, entry.bucket, entry.total_buckets, folder)
    files = BucketFiles(layout, place, first_sequence_number=entry.file.min_sequence_number)
    columns = pa.schema([*job.state.arrow_schema, PLACE_FIELDS[1]])
    try:
        for batch in job.reader(columns).batches([splits.raw([entry])]):
            is_gone = np.isin(np.asarray(batch.column(batch.num_columns - 1)), gone, assume_unique=True)
            rows = batch.select(job.state.arrow_schema.names).filter(pa.array(~is_gone))
            if rows.num_rows:
                files.write(pa.Table.from_batches([rows]))
        return files.close()
    except BaseException:
        files.abort()
        raise
