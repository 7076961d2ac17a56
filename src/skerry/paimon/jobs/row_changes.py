"""Row changes in append tables: rows are found by position, and changed in one commit.

Files are rewritten without the rows, or deletion vectors list them if the table has those.

Spec: docs/formats/paimon.md § 4.3, § 12.1.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from skerry.errors import ConflictError
from skerry.paimon.change_request import commit_files
from skerry.paimon.jobs.row_tasks import FileRewrite, RowJob, rewrite_file
from skerry.paimon.manifests.live_files import index_entries, live_entries
from skerry.paimon.manifests.manifest import FileSource, ManifestEntry
from skerry.paimon.metadata.snapshot import CommitKind
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.operations import IndexChange, ReplaceFiles
from skerry.paimon.operations.row_vectors import FileKey, change_vectors
from skerry.paimon.planning.deletion_positions import Positions
from skerry.paimon.planning.file_splits import FileSplits
from skerry.paimon.planning.splits import Split
from skerry.paimon.statistics.samples import delete_key
from skerry.paimon.writing.bucket_states import BucketStates
from skerry.paimon.writing.data_files import WrittenDataFile
from skerry.paimon.writing.lineage import ROW_ID_FIELD, updated_rows
from skerry.paimon.writing.table_writers import write_rows
from skerry.storage import name
from skerry.table.predicate import Predicate
from skerry.table.rows.incoming import conform
from skerry.table.summaries import RowChangeSummary

__all__ = ["file_count", "merged_positions", "refuse_new_rows", "replace_positions"]


def file_count(split: Split) -> int:
    """How many files a split has."""
    return sum(1 for _ in split.files)


def merged_positions(parts: Iterable[Mapping[str, Positions]]) -> dict[str, Positions]:
    """Positions by name of the data file, ascending, of parts that may have the same files; int64[n] each."""
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
    tracked: pa.Table | None = None,
    updates: bool = False,
    unless: Predicate | None = None,
) -> RowChangeSummary:
    """Delete rows by position, and add others in the same commit.

    Args:
        job: The attempt.
        found: Positions by name of the data file.
        new: The rows to add.
        tracked: Further rows to add: new versions of deleted ones, followed by `ROW_ID_FIELD`; they keep their ids.
        updates: Whether they are updated versions of the deleted rows.
        unless: Rows that would have been found, had they existed. A row that is added because its key does not exist
            requires the work to be repeated when a rival has added one with its key.

    Raises:
        ConflictError: Another writer has changed what was relied on; the work must be repeated.
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
        for rows, how in ((_conformed(state, new), layout), (_tracked(state, tracked), layout.with_lineage)):
            if rows is not None:
                written += write_rows(how, rows.to_batches(), BucketStates.of(state), None).files
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
            check=functools.partial(refuse_new_rows, job, unless) if unless is not None and new is not None else None,
            properties=job.request.properties,
        )
        after = commit_files(job.request, operation)
    taken = sum(map(len, found.values()))
    rows = sum(part.num_rows for part in (new, tracked) if part is not None)
    return RowChangeSummary(
        after.snapshot.id if after.snapshot is not None else None,
        inserted_rows=rows - taken if updates and taken <= rows else 0 if updates else rows,
        updated_rows=taken if updates else 0,
        deleted_rows=0 if updates else taken,
        added_files=len(written),
        removed_files=len(removed),
        added_delete_files=len(partial) if layout.options.deletion_vectors else 0,
    )


def _conformed(state: PaimonState, rows: pa.Table | None) -> pa.Table | None:
    return None if rows is None else conform(rows, state.arrow_schema).read_all()


def _tracked(state: PaimonState, rows: pa.Table | None) -> pa.Table | None:
    """Updated rows as they are written."""
    if rows is None or not rows.num_rows:
        return None
    values = conform(rows.select(state.arrow_schema.names), state.arrow_schema).read_all()
    return updated_rows(values, rows.column(ROW_ID_FIELD.name))


def refuse_new_rows(job: RowJob, predicate: Predicate, base: PaimonState) -> None:
    """Refuse a base with files that may hold rows of a predicate and that the job has not seen.

    Compaction moves rows and adds none. A rival's copy of rows that it has not changed counts as new: the work is
    repeated, and nothing is lost.

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
