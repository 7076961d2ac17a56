"""Merge rows into a table by key: update or delete matching rows, insert the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skerry.iceberg.jobs.matching import POSITION, ROW_ID, Matcher, RowUpdate, RowUpdater, TaskMatches, with_lineage
from skerry.iceberg.jobs.merge_without_read import merge_blind
from skerry.iceberg.jobs.rewrite import FileChange, Matches
from skerry.iceberg.jobs.row_changes import (
    ChangeRequest,
    Found,
    apply_changes,
    redo_after_conflicts,
)
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.operations.change_mode import ChangeMode
from skerry.iceberg.reading.scan import Scan, scan
from skerry.iceberg.writing.table_writers import write_batches
from skerry.table.arguments import Rows
from skerry.table.files.scan_task import FileScanTask
from skerry.table.indexes.definitions import PIECES_PROPERTY
from skerry.table.merging import (
    MAX_RANGES,
    MergeClauses,
    MergeRules,
    MergeSource,
    bind_rules,
    index_source,
    key_predicate,
    refuse_repeated_keys,
)
from skerry.table.merging.rules import RowNumbers
from skerry.table.predicate import Predicate, disjunction
from skerry.table.rows.incoming import open_stream
from skerry.table.summaries import RowChangeSummary

if TYPE_CHECKING:
    from skerry.table.indexes.conditions import ValueCondition

__all__ = ["merge", "upsert"]

_STEP_ROWS = 1 << 17


def upsert(request: ChangeRequest, data: Rows, on: str | Sequence[str], *, blind: bool = False) -> RowChangeSummary:
    """Update the rows with the keys of new rows, and insert the new rows with new keys.

    Args:
        request: The table, and how to change it.
        data: The new rows; columns of the table that they lack stay as they are.
        on: The key columns.
        blind: Do not read the table: delete the keys, whether they exist or not, and insert the rows.

    Raises:
        SchemaError: The data does not fit the table, or a key is in it twice.
        ConflictError: Other writers repeatedly changed the same rows.
        UnsupportedError: It cannot be done without reading the table.
    """
    return _merge(request, data, on, MergeClauses("update", "insert"), blind=blind, unique=True)


def merge(
    request: ChangeRequest, data: Rows, on: str | Sequence[str], clauses: MergeClauses, *, blind: bool = False
) -> RowChangeSummary:
    """Merge rows into a table.

    Args:
        request: The table, and how to change it.
        data: The source, anything with the Arrow C stream interface. It is held in memory.
        on: The key columns, which have the same names in the source and in the table.
        clauses: What to do with rows that match, and with those that do not.
        blind: Do not read the table: delete keys whether they exist or not, and insert rows.

    Raises:
        ConflictError: Other writers repeatedly changed the same rows.
        FormatError: A condition or value is not valid SQL.
        SchemaError: The source, a condition or a value does not fit the table, or several rows of the source match one
            row of the table.
        UnsupportedError: It cannot be done without reading the table.
    """
    return _merge(request, data, on, clauses, blind=blind, unique=False)


def _merge(
    request: ChangeRequest,
    data: Rows,
    on: str | Sequence[str],
    clauses: MergeClauses,
    *,
    blind: bool,
    unique: bool,
) -> RowChangeSummary:
    rows = open_stream(data).read_all()
    keys = (on,) if isinstance(on, str) else tuple(on)

    def attempt(state: TableState) -> RowChangeSummary:
        source = index_source(rows, keys, state.schema)
        if unique or blind:
            refuse_repeated_keys(source)
        rules = bind_rules(source, state.schema, clauses)
        if blind:
            return merge_blind(request, state, source, rules)
        return _Attempt(request, state, source, rules).run()

    return redo_after_conflicts(request, attempt)


class _Attempt:
    """A merge on one state of the table."""

    def __init__(self, request: ChangeRequest, state: TableState, source: MergeSource, rules: MergeRules) -> None:
        self._request = request
        self._state = state
        self._source = source
        self._rules = rules
        self._layout = request.table.layout(ref=request.ref, lineage=rules.changes_rows)
        self._update = RowUpdate(source, rules, self._layout.lineage)

    def run(self) -> RowChangeSummary:
        """Match, write and commit."""
        filter_ = self._predicate()
        found = self._match(filter_)
        matched = np.zeros(self._source.rows.num_rows, bool)
        for _, part in found:
            matched[part.matched] = True
        first = self._source.index.first  # matches are reported for the first row with the key
        new = np.flatnonzero((first < 0) | ~matched[np.maximum(first, 0)])
        found = [(task, part) for task, part in found if len(part.matches)]
        updated = sum(int(self._rules.updates[part.matches.actions].sum()) for _, part in found)
        deleted = sum(len(part.matches) for _, part in found) - updated
        copies = self._request.mode(self._state) is ChangeMode.COPY_ON_WRITE
        with self._layout.owned_files():
            batches = self._inserted(new) if copies else self._new_rows(found, new)
            written = write_batches(self._layout, batches)
            done = apply_changes(
                self._request,
                Found(
                    self._state,
                    self._layout,
                    filter_,
                    _by_file(found),
                    written=written,
                    updates=self._rules.updates,
                    update=self._update if copies and updated else None,
                ),
            )
        inserted = sum(file.data_file.record_count for file in written) - (0 if copies else updated)
        return replace(done, inserted_rows=inserted, updated_rows=updated, deleted_rows=deleted)

    # ---- finding ----

    def _predicate(self, max_ranges: int = MAX_RANGES) -> Predicate:
        """A predicate that is true for all rows of the table that the merge may change."""
        fields, values = self._keys()
        keys = key_predicate(fields, values, max_ranges=max_ranges)
        return disjunction([keys, self._rules.by_source_predicate()]) if self._rules.has_by_source else keys

    def _keys(self) -> tuple[list[pa.Field], list[pa.Array]]:
        """The key columns of the table, and the keys of the source without those that have a null."""
        keyed = self._source.index.first >= 0
        rows = self._source.rows if keyed.all() else self._source.rows.filter(pa.array(keyed))
        fields = [self._state.schema.field(name) for name in self._source.on]
        return fields, [rows.column(field.name).combine_chunks() for field in fields]

    def _sought(self) -> tuple[ValueCondition, ...]:
        """The keys as indexes look them up; none if there are no indexes, or if rows without a key change as well."""
        if PIECES_PROPERTY not in self._state.properties or self._rules.has_by_source:
            return ()
        from skerry.table.indexes.conditions import key_values  # imports shards, which few tables need

        return key_values(*self._keys())

    def _match(self, filter_: Predicate) -> list[tuple[FileScanTask, TaskMatches]]:
        """Match the rows of all files that may contain a key. Files are pruned by many ranges of keys, rows by one."""
        with_row_ids = self._layout.lineage and not self._rules.kept_columns
        columns = dict.fromkeys([*self._source.on, *self._rules.condition_columns, POSITION])
        reader = self._scan([*columns, *([ROW_ID] if with_row_ids else [])], self._predicate(max_ranges=1)).row_reader()
        tasks = list(self._scan(list(self._source.on), filter_).plan(indexed=True, keys=self._sought()))
        matcher = Matcher(reader, self._source, self._rules, with_row_ids)
        found = []
        rows = 0
        for number, (task, part) in enumerate(zip(tasks, self._request.executor.map(matcher, tasks), strict=True), 1):
            found.append((task, part))
            rows += len(part.matches)
            self._request.report("match", number, len(tasks), rows)
        return found

    def _scan(self, columns: Sequence[str], where: Predicate) -> Scan:
        return scan(self._state, columns, where, ref=self._request.ref, threads=1)

    # ---- writing ----

    def _inserted(self, new: RowNumbers) -> Iterator[pa.RecordBatch]:
        """The unmatched rows of the source, as they are inserted."""
        if self._rules.inserts:
            for start in range(0, len(new), _STEP_ROWS):
                for batch in self._rules.inserted(self._source, new[start : start + _STEP_ROWS]):
                    yield with_lineage(batch, None) if self._layout.lineage else batch

    def _new_rows(self, found: Sequence[tuple[FileScanTask, TaskMatches]], new: RowNumbers) -> Iterator[pa.RecordBatch]:
        """The updated rows, and the inserted ones."""
        if self._rules.kept_columns:
            yield from self._read_and_update(found)
        else:
            for _, part in found:
                yield from self._update_unread(part)
        yield from self._inserted(new)

    def _update_unread(self, part: TaskMatches) -> Iterator[pa.RecordBatch]:
        """Updated rows that keep none of their old values but their id."""
        updated = np.flatnonzero(self._rules.updates[part.matches.actions])
        for start in range(0, len(updated), _STEP_ROWS):
            some = updated[start : start + _STEP_ROWS]
            if part.row_ids is not None:
                old = pa.record_batch([part.row_ids.take(pa.array(some))], names=[ROW_ID])
            else:
                old = pa.record_batch([pa.nulls(len(some))], names=[""])
            yield self._update(part.matches.source_rows[some], old, part.matches.actions[some])

    def _read_and_update(self, found: Sequence[tuple[FileScanTask, TaskMatches]]) -> Iterator[pa.RecordBatch]:
        """Updated rows that keep some of their columns, which are read."""
        tasks = []
        for task, part in found:
            matches = part.matches.where(self._rules.updates[part.matches.actions])
            if len(matches):
                tasks.append((replace(task, matches_all=True, rows=matches.positions), matches))
        columns = [*self._rules.kept_columns, POSITION, *([ROW_ID] if self._layout.lineage else [])]
        reader = scan(self._state, columns, ref=self._request.ref, threads=1).row_reader()
        rows = 0
        for number, batches in enumerate(self._request.executor.map(RowUpdater(reader, self._update), tasks), 1):
            yield from batches
            rows += sum(batch.num_rows for batch in batches)
            self._request.report("update", number, len(tasks), rows)


def _by_file(found: Sequence[tuple[FileScanTask, TaskMatches]]) -> list[FileChange]:
    """The matches in the parts of files, by file."""
    parts: dict[str, list[tuple[FileScanTask, Matches]]] = {}
    for task, part in found:
        parts.setdefault(task.data_file.location, []).append((task, part.matches))
    return [
        FileChange(tuple(task for task, _ in of_file), Matches.concatenated([matches for _, matches in of_file]))
        for of_file in parts.values()
    ]
