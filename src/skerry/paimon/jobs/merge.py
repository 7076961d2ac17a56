"""Merge rows into a Paimon table by key: the rules are those of every merge, the rows are read and written whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skerry.paimon.change_request import ChangeRequest
from skerry.paimon.jobs.row_tasks import Decided
from skerry.paimon.jobs.row_transforms import transform_rows
from skerry.paimon.metadata.state import PaimonState
from skerry.table.merging import (
    NOTHING,
    MergeClauses,
    MergeRules,
    MergeSource,
    bind_rules,
    key_predicate,
    read_source,
    refuse_repeated,
)
from skerry.table.merging.rules import Rows
from skerry.table.predicate import Predicate, disjunction
from skerry.table.rows.incoming import open_stream
from skerry.table.summaries import RowChanges

__all__ = ["merge"]

_STEP_ROWS = 1 << 17


def merge(request: ChangeRequest, data: Any, on: str | Sequence[str], clauses: MergeClauses) -> RowChanges:
    """Merge rows into a table; see `skerry.iceberg.jobs.merge.merge`.

    Raises:
        ConflictError: Others changed the same rows, again and again.
        FormatError: A condition or value is no SQL.
        SchemaError: The source, a condition or a value does not fit, or several of its rows match one of the table.
        UnsupportedError: The table's merge engine makes something else of rows that are written.
    """
    rows = open_stream(data).read_all()
    keys = (on,) if isinstance(on, str) else tuple(on)

    def prepare(state: PaimonState) -> _Merge:
        source = read_source(rows, keys, state.arrow_schema)
        return _Merge(state.arrow_schema, source, bind_rules(source, state.arrow_schema, clauses))

    return transform_rows(request, prepare)


class _Merge:
    """A merge on one state of a table; a `skerry.paimon.jobs.row_tasks.RowTransform`."""

    def __init__(self, schema: pa.Schema, source: MergeSource, rules: MergeRules) -> None:
        self._schema = schema
        self._source = source
        self._rules = rules

    @property
    def predicate(self) -> Predicate:
        """Holds for all rows of the table that the merge may change."""
        keyed = self._source.index.first >= 0
        rows = self._source.rows if keyed.all() else self._source.rows.filter(pa.array(keyed))
        fields = [self._schema.field(name) for name in self._source.on]
        keys = key_predicate(fields, [rows.column(name).combine_chunks() for name in self._source.on])
        return disjunction([keys, self._rules.by_source_predicate()]) if self._rules.has_by_source else keys

    def decide(self, batch: pa.RecordBatch) -> Decided:
        """What becomes of rows of the table."""
        rows = self._source.index.find([batch.column(name) for name in self._source.on])
        hit = rows >= 0
        refuse_repeated(self._source, self._rules, rows[hit])
        actions = self._rules.decide(self._source, rows, batch)
        decided = np.flatnonzero(actions != NOTHING)
        is_update = self._rules.updates[actions[decided]]
        updated = decided[is_update]
        new = batch.slice(0, 0)
        if len(updated):
            new = self._rules.updated(self._source, rows[updated], batch.take(pa.array(updated)), actions[updated])
        return Decided(decided[~is_update], updated, new, np.unique(rows[hit]))

    def added(self, matched: Iterable[Rows]) -> Iterator[pa.RecordBatch]:
        """The rows of the source that match nothing, as they are inserted."""
        is_matched = np.zeros(self._source.rows.num_rows, bool)
        for rows in matched:
            is_matched[rows] = True
        first = self._source.index.first  # a match is told of the first row with the key
        new = np.flatnonzero((first < 0) | ~is_matched[np.maximum(first, 0)])
        if self._rules.inserts:
            for start in range(0, len(new), _STEP_ROWS):
                yield from self._rules.inserted(self._source, new[start : start + _STEP_ROWS])
