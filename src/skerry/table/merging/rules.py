"""The rules of a merge, bound to columns: which clause applies to a pair of rows, and with what result.

Everything is computed on whole columns; nothing here reads or writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.errors import SchemaError
from skerry.table.merging.clauses import Clause, Delete, Update
from skerry.table.merging.pairs import SOURCE, TARGET, Columns, Condition, Pairs, PairSchema, Term
from skerry.table.predicate import ALWAYS_TRUE, Predicate, disjunction
from skerry.table.rows.incoming import conform
from skerry.table.rows.keys import KeyIndex
from skerry.table.rows.schema import empty_batch, nearest

__all__ = ["NOTHING", "MergeRules", "MergeSource"]

Actions: TypeAlias = npt.NDArray[np.int16]
RowNumbers: TypeAlias = npt.NDArray[np.int64]
NOTHING = -1
"""The action of rows that no clause applies to."""


@dataclass(frozen=True)
class MergeSource:
    """The rows that are merged into a table, with an index of their keys.

    Args:
        rows: One array per column; columns that the table has too have its types.
        on: Names of the key columns.
        index: The rows by key.
    """

    rows: pa.Table
    on: tuple[str, ...]
    index: KeyIndex

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self.rows.schema

    def holding(self, columns: Iterable[str]) -> MergeSource:
        """The source with at least some columns; see `skerry.table.merging.staged.StagedSource`."""
        return self

    def for_tasks(self, columns: Iterable[str]) -> MergeSource:
        """The source as it is sent to tasks that need its keys and some columns."""
        names = list(dict.fromkeys((*self.on, *columns)))
        return MergeSource(self.rows.select(names), self.on, self.index)

    def parts(self) -> Iterator[MergeSource]:
        """All rows, in one or several sources."""
        yield self

    def matched(self, rows: Iterable[RowNumbers]) -> npt.NDArray[np.bool_]:
        """bool[rows]: whether a row's key is that of one of the given rows, which are the first with their keys."""
        hit = np.zeros(self.rows.num_rows, bool)
        for some in rows:
            hit[some] = True
        if self.index.repeated.any():
            hit = hit[np.maximum(self.index.first, 0)] & (self.index.first >= 0)
        return hit

    def columns(self, names: Sequence[str], rows: RowNumbers) -> dict[tuple[str, str], pa.Array]:
        """Some columns of some rows, in the form of pairs; -1 is a row of nulls."""
        indices = pa.array(rows, mask=rows < 0) if (rows < 0).any() else pa.array(rows)
        return {(SOURCE, name): _one_array(self.rows.column(name)).take(indices) for name in names}

    def describe_key(self, row: int) -> str:
        """A row's key for messages: `id=7, day=2024-01-01`."""
        return ", ".join(f"{name}={self.rows.column(name)[row]}" for name in self.on)


@dataclass(frozen=True)
class _Rule:
    """A bound clause: its condition, and the new value of each column of the table."""

    clause: Clause
    condition: Condition | None
    terms: Mapping[str, Term]


class MergeRules:
    """The effect of a merge on every row.

    The clauses for rows of the table are numbered: those for matched rows first, then those for rows that match no row
    of the source. That number is a row's *action*.

    Args:
        source: Columns of the source.
        table: Columns of the table.
        on: Names of the key columns.
        matched: Clauses for rows of the table that a row of the source matches.
        not_matched: Clauses for rows of the source that match no row of the table.
        not_matched_by_source: Clauses for rows of the table that no row of the source matches.

    Raises:
        FormatError: A condition or value is not valid SQL.
        SchemaError: A column does not exist, a value does not fit, or a column of the source is never used.
        UnsupportedError: A condition or value uses a feature that is not supported.
    """

    def __init__(
        self,
        source: pa.Schema,
        table: pa.Schema,
        on: Sequence[str],
        *,
        matched: Sequence[Clause] = (),
        not_matched: Sequence[Clause] = (),
        not_matched_by_source: Sequence[Clause] = (),
    ) -> None:
        self._source, self._table = source, table
        nothing = pa.schema([])
        pairs = PairSchema(source, table)
        self._matched = tuple(_bind(clause, pairs, table, source) for clause in matched)
        by_source = PairSchema(nothing, table, TARGET)
        self._by_source = tuple(_bind(clause, by_source, table, nothing) for clause in not_matched_by_source)
        of_source = PairSchema(source, nothing, SOURCE)
        self._inserts = tuple(_bind(clause, of_source, table, source) for clause in not_matched)
        self._check_use(on)

    # ---- what is needed ----

    @property
    def _of_table(self) -> tuple[_Rule, ...]:
        return (*self._matched, *self._by_source)

    @property
    def has_by_source(self) -> bool:
        """Whether rows that no row of the source matches may change."""
        return bool(self._by_source)

    @property
    def inserts(self) -> bool:
        """Whether rows are inserted."""
        return bool(self._inserts)

    @property
    def allows_repeated_keys(self) -> bool:
        """Whether several rows of the source may match a row, because all matched rows are deleted."""
        return bool(self._matched) and isinstance(self._matched[0].clause, Delete) and not self._matched[0].condition

    @cached_property
    def condition_columns(self) -> tuple[str, ...]:
        """Columns of the table that conditions use."""
        return _of_side(TARGET, [rule.condition.columns for rule in self._of_table if rule.condition is not None])

    @cached_property
    def kept_columns(self) -> tuple[str, ...]:
        """Columns of the table that new values use, including those that stay unchanged."""
        return _of_side(TARGET, [term.columns for rule in self._of_table for term in rule.terms.values()])

    @cached_property
    def deciding_columns(self) -> tuple[str, ...]:
        """Columns of the source that conditions on rows of the table use."""
        return _of_side(SOURCE, [rule.condition.columns for rule in self._matched if rule.condition is not None])

    @cached_property
    def new_columns(self) -> tuple[str, ...]:
        """Columns of the source that new values of the table's rows use."""
        return _of_side(SOURCE, [term.columns for rule in self._matched for term in rule.terms.values()])

    @property
    def is_empty(self) -> bool:
        """Whether there are no clauses."""
        return not (self._of_table or self._inserts)

    @property
    def changes_rows(self) -> bool:
        """Whether rows of the table may be updated or deleted."""
        return bool(self._of_table)

    @property
    def updates(self) -> npt.NDArray[np.bool_]:
        """bool[actions]: whether an action is an update, not a delete."""
        return np.array([isinstance(rule.clause, Update) for rule in self._of_table], bool)

    def by_source_predicate(self) -> Predicate:
        """A predicate for all rows that may change although no row of the source matches them."""
        tests = [
            ALWAYS_TRUE if rule.condition is None else rule.condition.on_target(self._table) or ALWAYS_TRUE
            for rule in self._by_source
        ]
        return disjunction(tests)

    # ---- decisions ----

    def decide(self, source: MergeSource, rows: RowNumbers, target: pa.RecordBatch) -> Actions:
        """Decide which clause applies to each row of the table.

        Args:
            source: The source.
            rows: int64[n], per row of the table the row of the source that matches it, -1 if none does.
            target: n rows of the table with at least the columns `condition_columns`.

        Returns:
            int16[n], the actions.
        """
        actions = np.full(len(rows), NOTHING, np.int16)
        for rules, chosen, first in (
            (self._matched, np.flatnonzero(rows >= 0), 0),
            (self._by_source, np.flatnonzero(rows < 0), len(self._matched)),
        ):
            if rules and len(chosen):
                names = _of_side(SOURCE, [rule.condition.columns for rule in rules if rule.condition is not None])
                pairs = Pairs(
                    len(chosen),
                    {
                        **source.columns(names, rows[chosen]),
                        **{(TARGET, name): _taken(target, name, chosen) for name in self.condition_columns},
                    },
                )
                actions[chosen] = _first_true(rules, pairs, first)
        return actions

    def updated(
        self, source: MergeSource, rows: RowNumbers, target: pa.RecordBatch, actions: Actions
    ) -> pa.RecordBatch:
        """The new values of updated rows.

        Args:
            source: The source.
            rows: int64[n], per row the row of the source that matches it, -1 if none does.
            target: n rows of the table with at least the columns `kept_columns`.
            actions: int16[n], all of them updates.

        Returns:
            n rows of the table's schema, in the same order.

        Raises:
            SchemaError: A new value does not fit its column.
        """
        parts, order = [], []
        for action in np.unique(actions).tolist():
            rule = self._of_table[action]
            chosen = np.flatnonzero(actions == action)
            columns = [term.columns for term in rule.terms.values()]
            pairs = Pairs(
                len(chosen),
                {
                    **source.columns(_of_side(SOURCE, columns), rows[chosen]),
                    **{(TARGET, name): _taken(target, name, chosen) for name in _of_side(TARGET, columns)},
                },
            )
            parts.append(self._values(rule, pairs))
            order.append(chosen)
        changed = pa.concat_batches(parts)
        if len(parts) == 1:
            return changed
        return changed.take(pa.array(np.argsort(np.concatenate(order), kind="stable")))

    def inserted(self, source: MergeSource, rows: RowNumbers) -> list[pa.RecordBatch]:
        """The rows to insert for rows of the source without a match.

        Args:
            source: The source.
            rows: int64[n], the rows without a match.

        Returns:
            Rows of the table's schema.

        Raises:
            SchemaError: A value does not fit its column, or a required one is missing.
        """
        names = _of_side(SOURCE, [rule.condition.columns for rule in self._inserts if rule.condition is not None])
        actions = _first_true(self._inserts, Pairs(len(rows), source.columns(names, rows)), 0)
        parts = []
        for action, rule in enumerate(self._inserts):
            chosen = rows[actions == action]
            if len(chosen):
                names = _of_side(SOURCE, [term.columns for term in rule.terms.values()])
                parts.append(self._values(rule, Pairs(len(chosen), source.columns(names, chosen))))
        return parts

    def blind(self, source: MergeSource) -> tuple[RowNumbers, list[pa.RecordBatch]] | None:
        """The result of the merge without reading the table: the keys to delete, and the rows to write for them.

        It is known if a row of the source ends as the same row of the table whether it has a match or not: fully
        updated or inserted with the same values, deleted or not inserted, untouched.

        Returns:
            int64[n] rows of the source whose keys are to be deleted, and rows of the table's schema; None if some row
            of the source has two possible results.
        """
        if self._by_source or any(side == TARGET for rule in self._matched for side, _ in _needs(rule)):
            return None
        rows = np.arange(source.rows.num_rows)
        keyed = source.index.first >= 0
        names = _of_side(SOURCE, [_needs(rule) for rule in (*self._matched, *self._inserts)])
        pairs = Pairs(len(rows), source.columns(names, rows))
        matched = np.where(keyed, _first_true(self._matched, pairs, 0), NOTHING)
        inserted = _first_true(self._inserts, pairs, 0)
        is_update = np.append([isinstance(rule.clause, Update) for rule in self._matched], False)[matched]
        if (keyed & (is_update != (inserted != NOTHING))).any():
            return None
        parts = []
        for update, insert in np.unique(np.stack([matched, inserted], 1)[inserted != NOTHING], axis=0).tolist():
            rule = self._inserts[insert]
            if update != NOTHING and not _gives_the_same(self._matched[update], rule):
                return None
            chosen = rows[(matched == update) & (inserted == insert)]
            names = _of_side(SOURCE, [term.columns for term in rule.terms.values()])
            parts.append(self._values(rule, Pairs(len(chosen), source.columns(names, chosen))))
        return rows[matched != NOTHING], parts

    def _values(self, rule: _Rule, pairs: Pairs) -> pa.RecordBatch:
        batches = conform(_table(rule.terms, pairs), self._table).read_all().combine_chunks().to_batches()
        return pa.concat_batches(batches) if batches else empty_batch(self._table)

    def _check_use(self, on: Sequence[str]) -> None:
        """Refuse columns of the source that neither the table nor any clause uses: a misspelt one would be lost."""
        rules = (*self._of_table, *self._inserts)
        used = {name for rule in rules for side, name in _needs(rule) if side == SOURCE}
        for name in self._source.names:
            if name not in used and name not in on and name not in self._table.names:
                raise SchemaError(
                    f"column {name!r} of the source is not a column of the table, and no clause uses it"
                    f"{nearest(name, self._table.names)}"
                )


def _table(terms: Mapping[str, Term], pairs: Pairs) -> pa.Table:
    """The values of terms, one column each."""
    batch = cache(lambda: pairs.batch)  # only expressions use it, often several
    return pa.table({name: term.array(pairs, batch) for name, term in terms.items()})


def _bind(clause: Clause, pairs: PairSchema, table: pa.Schema, source: pa.Schema) -> _Rule:
    condition = Condition.of(clause.where, pairs)
    if isinstance(clause, Delete):
        return _Rule(clause, condition, {})
    kept = isinstance(clause, Update)
    if clause.values is None:
        given = {name: Term.column(SOURCE, name) for name in source.names if name in table.names}
        if not given:
            raise SchemaError(f"{type(clause).__name__}() has no values, and there is no source to take them from")
    else:
        if not clause.values:
            raise SchemaError(f"{type(clause).__name__}({{}}) sets no column")
        for name in clause.values:
            if name not in table.names:
                raise SchemaError(f"the table has no column {name!r}{nearest(name, table.names)}")
        given = {name: Term.of(value, table.field(name), pairs) for name, value in clause.values.items()}
    terms = {
        name: given[name] if name in given else Term.column(TARGET, name)
        for name in table.names
        if kept or name in given
    }
    rule = _Rule(clause, condition, terms)
    conform(_table(terms, pairs.empty()), table).read_all()
    return rule


def _needs(rule: _Rule) -> Columns:
    columns = [term.columns for term in rule.terms.values()]
    return frozenset().union(*columns, rule.condition.columns if rule.condition is not None else ())


def _gives_the_same(update: _Rule, insert: _Rule) -> bool:
    """Whether an update that keeps no column of the table and an insert write the same values."""
    given, other = update.clause.values, insert.clause.values  # type: ignore[union-attr]
    if given is None or other is None:
        return given is other
    return {name: repr(value) for name, value in given.items()} == {name: repr(value) for name, value in other.items()}


def _of_side(side: str, columns: Sequence[Columns]) -> tuple[str, ...]:
    return tuple(sorted({name for found in columns for of, name in found if of == side}))


def _taken(target: pa.RecordBatch, name: str, rows: RowNumbers) -> pa.Array:
    column = target.column(name)
    return column if len(rows) == len(column) else column.take(pa.array(rows))


def _first_true(rules: Sequence[_Rule], pairs: Pairs, first: int) -> Actions:
    """The first rule whose condition is true, per pair, numbered from `first`."""
    actions = np.full(pairs.count, NOTHING, np.int16)
    for number, rule in enumerate(rules, first):
        open_ = actions == NOTHING
        actions[open_ & rule.condition.mask(pairs) if rule.condition is not None else open_] = number
    return actions


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
