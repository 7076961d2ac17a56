"""Merge rows into a Paimon table by key: with the rules of every merge, but rows are read and written whole."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skerry.errors import SchemaError, UnsupportedError
from skerry.paimon.change_request import ChangeRequest, redo_after_conflicts
from skerry.paimon.jobs.append import append_batches
from skerry.paimon.jobs.row_changes import file_count, merged_positions, replace_positions
from skerry.paimon.jobs.row_tasks import POSITION_FIELDS, Decided, RowJob, find_keys, find_row_ids
from skerry.paimon.jobs.row_transforms import transform_positions, transform_rows
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.deletion_positions import Positions
from skerry.paimon.writing.lineage import ROW_ID_FIELD
from skerry.storage import join
from skerry.table.arguments import Rows
from skerry.table.merging import (
    NOTHING,
    Insert,
    KeyFacts,
    MergeClauses,
    MergeRules,
    MergeSource,
    RemoteRows,
    StagedSource,
    Update,
    bind_rules,
    index_source,
    key_facts,
    key_predicate,
    refuse_repeated,
    refuse_repeated_keys,
    stage,
)
from skerry.table.merging.rules import RowNumbers
from skerry.table.owned_files import owned_files
from skerry.table.predicate import Predicate, disjunction
from skerry.table.rows.incoming import conform, open_stream
from skerry.table.rows.keys import KeyIndex
from skerry.table.summaries import RowChangeSummary

if TYPE_CHECKING:
    from skerry.table.indexes.conditions import ValueCondition

__all__ = ["merge", "upsert"]

_STEP_ROWS = 1 << 17
_FOLDER = "skerry-rows"


def upsert(request: ChangeRequest, data: Rows, on: Sequence[str]) -> RowChangeSummary:
    """Update the rows whose keys are among the new rows, and insert the other new rows.

    Args:
        request: The branch.
        data: The new rows, with all columns of the table.
        on: The key columns; in a primary-key table its primary key.

    Raises:
        SchemaError: The data does not fit the table, or has a key twice; the message names it.
        UnsupportedError: `on` is not the primary key of a table that has one.
    """
    rows = open_stream(data).read_all()

    def attempt(state: PaimonState) -> RowChangeSummary:
        job = RowJob.of(request, state)
        if state.options.data_evolution:
            source = index_source(conform(rows, state.arrow_schema).read_all(), tuple(on), state.arrow_schema)
            refuse_repeated_keys(source)
            clauses = MergeClauses(Update(), Insert())
            return transform_positions(job, _Merge.of(source, state, clauses))
        new = conform(rows, state.arrow_schema).read_all()
        keys = upsert_keys(state, on)
        index = KeyIndex.of([new.column(key) for key in keys])
        refuse_repeated_keys(MergeSource(new, tuple(keys), index))
        if state.schema.primary_keys:
            written, after = append_batches(request, state, new.to_batches())
            snapshot = after.snapshot.id if after.snapshot is not None else None
            return RowChangeSummary(snapshot, new.num_rows, updated_rows=None, added_files=len(written.files))
        keyed = new.filter(pa.array(index.first >= 0))
        fields = [state.arrow_schema.field(key) for key in keys]
        values = [keyed.column(key).combine_chunks() for key in keys]
        among = _Among(key_predicate(fields, values), _sought(state, fields, values))
        if state.options.row_tracking:
            return _replace_tracked(job, new, index, keys, among)
        return replace_positions(job, _matching(job, index, keys, among), new, updates=True, unless=among.predicate)

    return redo_after_conflicts(request, attempt)


@dataclass(frozen=True, slots=True)
class _Among:
    """Where the rows are that have one of some keys.

    Args:
        predicate: Holds for all of them, and few others.
        sought: The keys, as the table's indexes look them up.
    """

    predicate: Predicate
    sought: tuple[ValueCondition, ...]


def _sought(state: PaimonState, fields: Sequence[pa.Field], values: Sequence[pa.Array]) -> tuple[ValueCondition, ...]:
    """Keys as indexes look them up; none if there are no indexes."""
    if not state.is_indexed or not values:
        return ()
    from skerry.table.indexes.conditions import key_values  # imports shards, which few tables need

    return key_values(fields, values)


def upsert_keys(state: PaimonState, on: Sequence[str]) -> list[str]:
    """The key columns of an upsert: those that are given, otherwise the primary key.

    Raises:
        SchemaError: There are none, or one does not exist.
        UnsupportedError: They are not the primary key of a table that has one.
    """
    keys = list(on) or list(state.schema.primary_keys)
    for key in keys:
        state.schema.field(key)
    if not keys:
        raise SchemaError("an upsert needs key columns (on): the table has no primary key", location=state.name)
    if state.schema.primary_keys and set(keys) != set(state.schema.primary_keys):
        raise UnsupportedError(
            f"rows of a table with primary key {', '.join(state.schema.primary_keys)} are upserted by that key only, "
            f"not by {', '.join(keys)}",
            location=state.name,
        )
    return keys


def _matching(job: RowJob, index: KeyIndex, keys: Sequence[str], among: _Among) -> dict[str, Positions]:
    """Positions of the rows that have one of the keys, by name of the data file; only of files that can have one."""
    splits, schema = job.splits(among.predicate, among.sought), job.state.arrow_schema
    columns = pa.schema([*(schema.field(key) for key in keys), *POSITION_FIELDS])
    work = functools.partial(find_keys, job.reader(columns, tasks=len(splits)), index, keys)
    return merged_positions(list(job.run("find", work, splits, file_count)))


def _replace_tracked(
    job: RowJob, new: pa.Table, index: KeyIndex, keys: Sequence[str], among: _Among
) -> RowChangeSummary:
    """Replace rows by key so that they keep their ids; of several rows with a key the least id stays."""
    splits, schema = job.splits(among.predicate, among.sought), job.state.arrow_schema
    columns = pa.schema([*(schema.field(key) for key in keys), ROW_ID_FIELD, *POSITION_FIELDS])
    work = functools.partial(find_row_ids, job.reader(columns, tasks=len(splits)), index, keys)
    parts = list(job.run("find", work, splits, file_count))
    numbers, ids = (
        (
            np.concatenate([np.zeros(0, np.int64), *found])
            for found in zip(*((part.numbers, part.row_ids) for part in parts), strict=True)
        )
        if parts
        else (np.zeros(0, np.int64),) * 2
    )
    order = np.lexsort((ids, numbers))
    known, firsts = np.unique(numbers[order], return_index=True)
    is_new = np.full(new.num_rows, True)
    is_new[known] = False
    tracked = new.take(pa.array(known)).append_column(ROW_ID_FIELD, pa.array(ids[order][firsts]))
    positions = merged_positions(part.positions for part in parts)
    fresh = new.filter(pa.array(is_new))
    return replace_positions(job, positions, fresh, tracked=tracked, updates=True, unless=among.predicate)


def merge(
    request: ChangeRequest, data: Rows | RemoteRows, on: str | Sequence[str], clauses: MergeClauses
) -> RowChangeSummary:
    """Merge rows into a table; see `skerry.iceberg.jobs.merge.merge`.

    Raises:
        ConflictError: Others kept changing the same rows.
        FormatError: A condition or value is not valid SQL.
        SchemaError: The source, a condition or a value does not fit, or several of its rows match one of the table.
        UnsupportedError: The table's merge engine does not simply replace rows.
    """
    keys = (on,) if isinstance(on, str) else tuple(on)
    if isinstance(data, RemoteRows):
        return _merge_in_tasks(request, data, keys, clauses)
    rows = open_stream(data).read_all()

    def prepare(state: PaimonState) -> _Merge:
        source = index_source(rows, keys, state.arrow_schema)
        return _Merge.of(source, state, clauses)

    return transform_rows(request, prepare)


def _merge_in_tasks(
    request: ChangeRequest, data: RemoteRows, keys: tuple[str, ...], clauses: MergeClauses
) -> RowChangeSummary:
    """Merge rows that tasks have: they leave them in files, from which other tasks read what they need."""
    state = request.target.load()
    columns = StagedSource.schema_of(data.schema, keys, state.arrow_schema)
    bind_rules(columns, keys, state.arrow_schema, clauses)  # before any work
    storage, folder = state.storage, join(state.location, _FOLDER, str(uuid.uuid4()))
    with owned_files(storage, folder) as files:
        staged = stage(data, storage, folder)

        def prepare(state: PaimonState) -> _Merge:
            source = StagedSource(staged, keys, state.arrow_schema)
            facts = source.facts(request.executor, with_values=state.is_indexed)
            rules = bind_rules(source.schema, keys, state.arrow_schema, clauses)
            fields = [state.arrow_schema.field(name) for name in keys]
            return _Merge(source, facts, rules, _sought(state, fields, facts.values or ()))

        done = transform_rows(request, prepare)
        files.remove()
    return done


class _Merge:
    """A merge on one state of a table; a `skerry.paimon.jobs.row_tasks.RowTransform`."""

    def __init__(
        self,
        source: MergeSource | StagedSource,
        facts: KeyFacts,
        rules: MergeRules,
        sought: tuple[ValueCondition, ...] = (),
    ) -> None:
        self._source = source
        self._facts = replace(facts, values=None)
        self._rules = rules
        self.sought = () if rules.has_by_source else sought

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "sought": ()}  # tasks do not plan

    @classmethod
    def of(cls, source: MergeSource, state: PaimonState, clauses: MergeClauses) -> _Merge:
        """Merge rows of this process."""
        facts = key_facts(source, state.arrow_schema, with_values=state.is_indexed)
        rules = bind_rules(source.schema, source.on, state.arrow_schema, clauses)
        fields = [state.arrow_schema.field(name) for name in source.on]
        return cls(source, facts, rules, _sought(state, fields, facts.values or ()))

    @property
    def predicate(self) -> Predicate:
        """Holds for all rows of the table that the merge may change."""
        keys = self._facts.in_files
        return disjunction([keys, self._rules.by_source_predicate()]) if self._rules.has_by_source else keys

    def decide(self, batch: pa.RecordBatch) -> Decided:
        """Decide what happens to rows of the table."""
        source = self._source.holding((*self._rules.deciding_columns, *self._rules.new_columns))
        rows = source.index.find([batch.column(name) for name in source.on])
        hit = rows >= 0
        refuse_repeated(source, self._rules, rows[hit])
        actions = self._rules.decide(source, rows, batch)
        decided = np.flatnonzero(actions != NOTHING)
        is_update = self._rules.updates[actions[decided]]
        updated = decided[is_update]
        new = batch.slice(0, 0)
        if len(updated):
            new = self._rules.updated(source, rows[updated], batch.take(pa.array(updated)), actions[updated])
        matched = np.unique(rows[hit])
        if source.index.repeated.any():
            matched = np.flatnonzero(source.matched([matched]))
        return Decided(decided[~is_update], updated, new, matched)

    def added(self, matched: Iterable[RowNumbers]) -> Iterator[pa.RecordBatch]:
        """The rows of the source that match no row, as they are inserted."""
        known = np.unique(np.concatenate([np.zeros(0, np.int64), *matched]))
        first = 0
        for part in self._source.parts() if self._rules.inserts else ():
            is_new = np.ones(part.rows.num_rows, bool)
            among = np.searchsorted(known, [first, first + len(is_new)])
            is_new[known[slice(*among.tolist())] - first] = False
            new = np.flatnonzero(is_new)
            for start in range(0, len(new), _STEP_ROWS):
                yield from self._rules.inserted(part, new[start : start + _STEP_ROWS])
            first += len(is_new)
