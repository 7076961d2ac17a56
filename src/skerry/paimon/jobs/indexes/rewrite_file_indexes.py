"""Rewriting file indexes: files get the indexes that the table's options ask for; their rows stay where they are.

A file keeps its name, so that its deletion vector and its samples stay valid; only its metadata changes. An index file
gets a new name, because readers of older snapshots need the other one, and an index in the manifest some bytes that no
other has: Java takes a file for deleted if there ever was a DELETE entry that names its index as well.

Spec: docs/formats/paimon.md § 5.5, § 12.2.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from skerry.paimon.change_request import ChangeRequest, redo_after_conflicts
from skerry.paimon.commit import retry_policy
from skerry.paimon.file_index import decode_container
from skerry.paimon.manifests.live_files import live_entries
from skerry.paimon.manifests.manifest import ManifestEntry
from skerry.paimon.metadata.index_settings import IndexSettings
from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.metadata.snapshot import CommitKind
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.metadata.validation import check_rewritable
from skerry.paimon.operations import ReplaceFiles
from skerry.paimon.planning.file_splits import FileSplits
from skerry.paimon.planning.partition_choice import PartitionChoice
from skerry.paimon.reading.data_files import open_data_file, partition_scalars
from skerry.paimon.writing.file_indexes import INDEX_SUFFIX, FileIndexWriter
from skerry.paimon.writing.layout import WriteLayout
from skerry.storage import join
from skerry.table.commit import commit
from skerry.table.owned_files import OwnedFiles
from skerry.table.summaries import FileIndexSummary
from skerry.table.work.tasks import JobProgress

__all__ = ["rewrite_file_indexes"]

_BATCH_ROWS: Final = 1 << 16
_REDUNDANT_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class _Task:
    """A file whose indexes are rewritten; picklable.

    Args:
        entry: The file.
        location: Its location.
        indexes: The indexes that it gets, by the names that its own schema has.
    """

    entry: ManifestEntry
    location: str
    indexes: tuple[IndexSettings, ...]

    @property
    def folder(self) -> str:
        """Where the file and its index are."""
        return self.location.rpartition("/")[0]


def rewrite_file_indexes(
    request: ChangeRequest,
    choose: PartitionChoice | None = None,
    *,
    full: bool = False,
    dry_run: bool = False,
) -> FileIndexSummary:
    """Rewrite the indexes of files that have others than the table's options ask for.

    Args:
        request: The branch, and where files are read.
        choose: Only these partitions (rows with arity).
        full: Also files that have the right indexes: their options may have changed.
        dry_run: Only report what would be done.

    Raises:
        ConflictError: Others kept replacing the files.
        CommitUnknownError: The outcome is unknown; nothing was cleaned up.
        FormatError: A file or its index is corrupt.
        UnsupportedError: A column cannot have an index, or files may have columns of the same rows; the message names
            the option.
    """

    def attempt(state: PaimonState) -> FileIndexSummary:
        layout = WriteLayout.of(state)
        check_rewritable(state.schema, "indexes of old files are not rewritten", state.name)
        tasks = list(_tasks(state, layout, choose, full=full))
        snapshot_id = state.snapshot.id if state.snapshot is not None else None
        if dry_run or not tasks:
            size = sum(task.entry.file.file_size for task in tasks)
            return FileIndexSummary(snapshot_id, len(tasks), size, dry_run=dry_run)
        with layout.owned_files({task.folder for task in tasks}) as owned:
            return _commit(request, state, layout, tasks, owned)

    return redo_after_conflicts(request, attempt)


# Planning ------------------------------------------------------------------------------------------------------------


def _tasks(
    state: PaimonState,
    layout: WriteLayout,
    choose: PartitionChoice | None,
    *,
    full: bool,
) -> Iterator[_Task]:
    live = live_entries(state) if state.snapshot is not None else []
    chosen = None if choose is None else set(choose({entry.partition for entry in live}))
    splits = FileSplits(state, layout, {})
    for entry in live:
        if chosen is not None and entry.partition not in chosen:
            continue
        then = state.schema_by_id(entry.file.schema_id)
        indexes = _named_then(layout.indexes, state.schema, then)
        task = _Task(entry, splits.location(entry), indexes)
        if full or _present(state, task) != {(one.name, one.type) for one in indexes}:
            yield task


def _named_then(indexes: tuple[IndexSettings, ...], now: TableSchema, then: TableSchema) -> tuple[IndexSettings, ...]:
    """The indexes of columns that a file has, by their names in it."""
    names = {field.id: field.name for field in then.fields}
    found = ((one, names.get(now.field(one.column).id)) for one in indexes)
    return tuple(replace(one, column=name) for one, name in found if name is not None)


def _present(state: PaimonState, task: _Task) -> set[tuple[str, str]]:
    """The name and type of each index that a file has."""
    file = task.entry.file
    found = file.embedded_index
    location = None
    names = [name for name in file.extra_files if name.endswith(INDEX_SUFFIX)]
    if found is None and names:
        location = join(task.folder, names[0])
        found = state.storage.read(location)
    if found is None:
        return set()
    return {(name, type_) for name, types in decode_container(found, location=location).items() for type_ in types}


# Execution -----------------------------------------------------------------------------------------------------------


def _commit(
    request: ChangeRequest, state: PaimonState, layout: WriteLayout, tasks: list[_Task], owned: OwnedFiles
) -> FileIndexSummary:
    added: list[ManifestEntry] = []
    rows = size = 0
    work = functools.partial(_rewrite, state, layout)
    for task, entry in zip(tasks, owned.map(request.executor, work, tasks), strict=True):
        added.append(entry)
        rows += entry.file.row_count
        size += task.entry.file.file_size
        if request.progress is not None:
            request.progress(JobProgress("index", len(added), len(tasks), rows, size))
    operation = ReplaceFiles(
        layout,
        [task.entry for task in tasks],
        [],
        CommitKind.COMPACT,
        moved=added,
        commit_id=request.commit_id,
        properties=request.properties,
    )
    after = commit(operation, request.target, retry_policy)
    snapshot_id = after.snapshot.id if after.snapshot is not None else None
    beside = sum(any(name.endswith(INDEX_SUFFIX) for name in entry.file.extra_files) for entry in added)
    return FileIndexSummary(snapshot_id, len(tasks), size, beside)


def _rewrite(state: PaimonState, layout: WriteLayout, task: _Task) -> ManifestEntry:
    """Read the indexed columns of a file, whatever the kind of its rows, and write its index."""
    entry, file = task.entry, task.entry.file
    then = state.schema_by_id(file.schema_id)
    writer = FileIndexWriter(layout, task.indexes, then)
    names = dict.fromkeys(one.column for one in task.indexes)
    if names:
        wanted = pa.schema([then.arrow_schema.field(name) for name in names])
        split_file = FileSplits(state, layout, {}).file(entry)
        values = partition_scalars(state.schema, entry.partition)
        opened = open_data_file(state.storage, split_file, then, then, wanted, values)
        for part in opened.parts:
            for batch in opened.batches(part, _BATCH_ROWS):
                writer.update(pa.Table.from_batches([batch]))
    name = f"{file.file_name}-{layout.new_name()}{INDEX_SUFFIX}"
    beside, embedded = writer.finish(join(task.folder, name), redundant=os.urandom(_REDUNDANT_BYTES))
    others = tuple(name for name in file.extra_files if not name.endswith(INDEX_SUFFIX))
    return replace(entry, file=replace(file, extra_files=(*others, *beside), embedded_index=embedded))
