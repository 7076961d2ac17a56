"""A merge on one state of a table: rows are matched, new ones written, and the changes committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from skerry.iceberg.jobs.merging.matching import (
    POSITION,
    ROW_ID,
    Matcher,
    RowUpdate,
    RowUpdater,
    TaskMatches,
    with_lineage,
)
from skerry.iceberg.jobs.rewrite import FileChange, Matches
from skerry.iceberg.jobs.row_changes import ChangeRequest, Found, apply_changes
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.operations.change_mode import ChangeMode
from skerry.iceberg.reading.scan import Scan, scan
from skerry.iceberg.writing.table_writers import write_batches
from skerry.table.files.scan_task import FileScanTask
from skerry.table.indexes.definitions import PIECES_PROPERTY
from skerry.table.merging import KeyFacts, MergeRules, MergeSource, StagedSource
from skerry.table.merging.rules import RowNumbers
from skerry.table.owned_files import OwnedFiles
from skerry.table.predicate import Predicate, disjunction
from skerry.table.statistics.written_file import WrittenFile
from skerry.table.summaries import RowChangeSummary

if TYPE_CHECKING:
    from skerry.table.indexes.conditions import ValueCondition

__all__ = ["Attempt", "Written", "by_file", "without_values"]


class HasMatches(Protocol):
    """What a task has matched in a part of a data file."""

    @property
    def matches(self) -> Matches:
        """The rows to be updated or deleted."""
        ...


Part = TypeVar("Part", bound=HasMatches)

_STEP_ROWS = 1 << 17


@dataclass(frozen=True)
class Written:
    """What a merge has written before its commit.

    Args:
        files: New data files, with inserted rows and, unless files are copied, updated ones.
        updated_rows: Rows of the table that change.
        deleted_rows: Rows of the table that are deleted.
        changes: The rows of data files that are updated or deleted.
    """

    files: Sequence[WrittenFile]
    updated_rows: int
    deleted_rows: int
    changes: Sequence[FileChange]


class Attempt:
    """A merge on one state of the table, whose source is in the memory of this process.

    Args:
        request: The table, and how to change it.
        state: The state.
        source: The source.
        facts: What is known about its keys.
        rules: The clauses.
    """

    def __init__(
        self,
        request: ChangeRequest,
        state: TableState,
        source: MergeSource | StagedSource,
        facts: KeyFacts,
        rules: MergeRules,
    ) -> None:
        self._request = request
        self._state = state
        self._source = source
        self._facts = facts
        self._rules = rules
        self._layout = request.table.layout(ref=request.ref, lineage=rules.changes_rows)
        self._update = RowUpdate(source.for_tasks(rules.new_columns), rules, self._layout.lineage)
        self._copies = request.mode(state) is ChangeMode.COPY_ON_WRITE

    def run(self) -> RowChangeSummary:
        """Match, write and commit."""
        with self._layout.owned_files() as owned:
            written = self._written(owned)
            done = apply_changes(
                self._request,
                Found(
                    self._state,
                    self._layout,
                    self._changed(self._facts.in_files),
                    written.changes,
                    written=written.files,
                    updates=self._rules.updates,
                    update=self._update if self._copies and written.updated_rows else None,
                ),
            )
        inserted = sum(file.data_file.record_count for file in written.files)
        return replace(
            done,
            inserted_rows=inserted - (0 if self._copies else written.updated_rows),
            updated_rows=written.updated_rows,
            deleted_rows=written.deleted_rows,
        )

    def _written(self, owned: OwnedFiles) -> Written:
        """Match rows, and write those that are new."""
        assert isinstance(self._source, MergeSource)
        found = self._match(self._matcher())
        new = np.flatnonzero(~self._source.matched(part.matched for _, part in found))
        found = [(task, part) for task, part in found if len(part.matches)]
        updated = sum(int(self._rules.updates[part.matches.actions].sum()) for _, part in found)
        deleted = sum(len(part.matches) for _, part in found) - updated
        batches = self._inserted(self._source, new) if self._copies else self._new_rows(self._source, found, new)
        files = write_batches(self._layout, batches)
        return Written(files, updated, deleted, by_file([(task, part.matches) for task, part in found]))

    # ---- finding ----

    def _changed(self, keys: Predicate) -> Predicate:
        """Holds for all rows of the table that the merge may change."""
        return disjunction([keys, self._rules.by_source_predicate()]) if self._rules.has_by_source else keys

    def _sought(self) -> tuple[ValueCondition, ...]:
        """The keys as indexes look them up; none if there are no indexes, or if rows without a key change as well."""
        if PIECES_PROPERTY not in self._state.properties or self._rules.has_by_source or self._facts.values is None:
            return ()
        from skerry.table.indexes.conditions import key_values  # imports shards, which few tables need

        fields = [self._state.schema.field(name) for name in self._source.on]
        return key_values(fields, self._facts.values)

    def _matcher(self) -> Matcher:
        """Matches the rows of a part of a file; files are pruned by many ranges of keys, rows by one."""
        with_row_ids = self._layout.lineage and not self._rules.kept_columns
        columns = dict.fromkeys([*self._source.on, *self._rules.condition_columns, POSITION])
        where = self._changed(self._facts.in_rows)
        reader = self._scan([*columns, *([ROW_ID] if with_row_ids else [])], where).row_reader()
        source = self._source.for_tasks(self._rules.deciding_columns)
        return Matcher(reader, source, self._rules, with_row_ids)

    def _tasks(self, where: Predicate) -> list[FileScanTask]:
        """The parts of files that may have rows to change."""
        return list(self._scan(list(self._source.on), where).plan(indexed=True, keys=self._sought()))

    def _match(self, matcher: Callable[[FileScanTask], Part]) -> list[tuple[FileScanTask, Part]]:
        """Match the rows of all files that may contain a key; the results have matches."""
        tasks = self._tasks(self._changed(self._facts.in_files))
        found = []
        rows = 0
        for number, (task, part) in enumerate(zip(tasks, self._request.executor.map(matcher, tasks), strict=True), 1):
            found.append((task, part))
            rows += len(part.matches)
            self._request.report("match", number, len(tasks), rows)
        return found

    def _scan(self, columns: Sequence[str], where: Predicate) -> Scan:
        return scan(self._state, columns, where, ref=self._request.ref, threads=1)

    def _updater(self) -> RowUpdater:
        """Computes updated rows that keep some of their columns, which are read."""
        columns = [*self._rules.kept_columns, POSITION, *([ROW_ID] if self._layout.lineage else [])]
        return RowUpdater(scan(self._state, columns, ref=self._request.ref, threads=1).row_reader(), self._update)

    # ---- writing ----

    def _inserted(self, source: MergeSource, new: RowNumbers) -> Iterator[pa.RecordBatch]:
        """The unmatched rows of the source, as they are inserted."""
        if self._rules.inserts:
            for start in range(0, len(new), _STEP_ROWS):
                for batch in self._rules.inserted(source, new[start : start + _STEP_ROWS]):
                    yield with_lineage(batch, None) if self._layout.lineage else batch

    def _new_rows(
        self, source: MergeSource, found: Sequence[tuple[FileScanTask, TaskMatches]], new: RowNumbers
    ) -> Iterator[pa.RecordBatch]:
        """The updated rows, and the inserted ones."""
        if self._rules.kept_columns:
            yield from self._read_and_update(found)
        else:
            for _, part in found:
                yield from self._update_unread(part)
        yield from self._inserted(source, new)

    def _update_unread(self, part: TaskMatches) -> Iterator[pa.RecordBatch]:
        """Updated rows that keep none of their old values but their id."""
        updated = np.flatnonzero(self._rules.updates[part.matches.actions])
        for start in range(0, len(updated), _STEP_ROWS):
            some = updated[start : start + _STEP_ROWS]
            ids = None if part.row_ids is None else part.row_ids.take(pa.array(some))
            yield self._update(
                part.matches.source_rows[some], without_values(len(some), ids), part.matches.actions[some]
            )

    def _read_and_update(self, found: Sequence[tuple[FileScanTask, TaskMatches]]) -> Iterator[pa.RecordBatch]:
        """Updated rows that keep some of their columns, which are read."""
        tasks = []
        for task, part in found:
            matches = part.matches.where(self._rules.updates[part.matches.actions])
            if len(matches):
                tasks.append((replace(task, matches_all=True, rows=matches.positions), matches))
        rows = 0
        for number, batches in enumerate(self._request.executor.map(self._updater(), tasks), 1):
            yield from batches
            rows += sum(batch.num_rows for batch in batches)
            self._request.report("update", number, len(tasks), rows)


def without_values(count: int, row_ids: pa.Array | None) -> pa.RecordBatch:
    """Old rows of which nothing is needed but, with row lineage, their ids."""
    if row_ids is not None:
        return pa.record_batch([row_ids], names=[ROW_ID])
    return pa.record_batch([pa.nulls(count)], names=[""])


def by_file(found: Sequence[tuple[FileScanTask, Matches]]) -> list[FileChange]:
    """The matches in the parts of files, by file."""
    parts: dict[str, list[tuple[FileScanTask, Matches]]] = {}
    for task, matches in found:
        parts.setdefault(task.data_file.location, []).append((task, matches))
    return [
        FileChange(tuple(task for task, _ in of_file), Matches.concatenated([matches for _, matches in of_file]))
        for of_file in parts.values()
    ]
