"""Queries over the tables of a catalog: choose a join order from the tables' statistics.

Every table is loaded once per query, so that all its uses in the query read the same snapshot.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from skerry.catalog.names import parts_of
from skerry.catalog.queries.metadata_tables import MetadataTable, PastTable, QueryCatalog, load_relation
from skerry.catalog.view import DIALECT, View, ViewDefinition
from skerry.errors import MissingDependencyError, NotFoundError, SchemaError, SkerryError, UnsupportedError
from skerry.planner.explanation import QueryPlan, SelectPlan
from skerry.planner.groups import share_of_groups
from skerry.planner.joined_samples import SampledInput
from skerry.planner.joins import JoinGraph
from skerry.planner.ordering import JoinPlan, plan_joins
from skerry.planner.query import Block, Member, Query, Source, parse_query
from skerry.planner.relations import EXACTLY_ONE, Estimate, Relation, row_bytes
from skerry.planner.selectivity import ASSUMED_EQUALITY, ASSUMED_RANGE, damped, share_of_rows
from skerry.planner.tables import TableUse, ViewText
from skerry.table.predicate import parse
from skerry.table.rows.schema import leaf, leaves
from skerry.table.statistics.column_statistics import ColumnStatistics
from skerry.wkb import PLANAR, shapes_of

if TYPE_CHECKING:
    from skerry.table.table import Table

__all__ = ["QueryPlanning", "explain_query", "plan_table_joins", "run_query", "view_schema"]

_UNKNOWN_ROWS = 1000.0
_ASSUMED_SUBQUERY = 0.5
_OPTIMIZERS_OFF = "join_order,build_side_probe_side"
"""DuckDB does not know the size of a stream, and its own choice of a join order would undo ours."""

_NO_EXTENSIONS: Final[dict[str, Any]] = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
_CLOSED: Final = ("python_enable_replacements = false", "enable_external_access = false", "lock_configuration = true")
"""Settings that isolate DuckDB once the tables are registered: a query sees only these and cannot undo the settings."""


class QueryPlanning:
    """Tables and statistics of one query, each loaded once.

    Args:
        catalog: The catalog of the tables.
    """

    def __init__(self, catalog: QueryCatalog) -> None:
        self._catalog = catalog
        self._tables: dict[str, Table | MetadataTable | PastTable] = {}
        self._statistics: dict[str, dict[str, ColumnStatistics]] = {}

    def table(self, name: str) -> Table | MetadataTable | PastTable:
        """A table; always the same state."""
        if name not in self._tables:
            self._tables[name] = load_relation(self._catalog, name)
        return self._tables[name]

    def need(self, use: TableUse) -> None:
        """Say which columns of a metadata table will be read, so that it is read once."""
        table = self.table(use.table)
        if isinstance(table, MetadataTable):
            table.need(use.columns)

    def schema(self, name: str) -> pa.Schema:
        """A table's columns."""
        return self.table(name).schema

    def relation_of(self, name: str) -> pa.Schema | ViewText:
        """The columns of a table, or a view.

        Raises:
            NotFoundError: There is neither.
        """
        try:
            return self.schema(name)
        except NotFoundError as error:
            if error.location is not None or (view := self._view(name)) is None:
                raise
            return view

    def _view(self, name: str) -> ViewText | None:
        try:
            view = self._catalog.load_view(name)
        except NotFoundError as error:
            if error.location is not None:
                raise
            return None
        sql, dialect = view.query_for(DIALECT)
        namespace = view.definition.namespace
        return ViewText(
            name, sql, dialect, view.schema.names, parts_of(namespace) if namespace else (), view.catalog_names
        )

    def scan(self, use: TableUse) -> Any:
        """Scan a table for one of its uses in the query."""
        return self.table(use.table).scan(use.columns, _all_of(use.where))

    # ---- relations ----

    def relation(self, source: Source, results: Mapping[int, _Result]) -> Relation:
        """Estimates for an input of a SELECT."""
        if source.use is not None:
            return self._of_table(source, source.use, results)
        assumptions: list[str] = []
        result = results.get(id(source.block))
        if result is None:
            assumptions.append(f"{source.name}: {_UNKNOWN_ROWS:,.0f} rows (its query is not planned)")
            result = _Result(Estimate(_UNKNOWN_ROWS, 0.0, math.inf), {}, {})
        filtered = _with_guesses(result.rows, source.opaque, assumptions)
        return Relation(
            source.name,
            None,
            result.rows,
            filtered,
            result.columns,
            result.types,
            tuple(source.opaque),
            row_bytes(result.types),
            tuple(assumptions),
        )

    def _of_table(self, source: Source, use: TableUse, results: Mapping[int, _Result]) -> Relation:
        table = self.table(use.table)
        if use.table not in self._statistics:
            self._statistics[use.table] = table.statistics()
        columns = self._statistics[use.table]
        assumptions: list[str] = []
        rows = filtered = _rows_of(table, None)
        predicate, share = None, 1.0
        if source.filters:
            where = _all_of(source.filters)
            possible = _rows_of(table, where)
            by_id = {column.field_id: column for column in columns.values()}
            predicate = parse(where, table.schema)
            likely = rows.rows * share_of_rows(predicate, by_id, rows.rows, assumptions)
            filtered = replace(possible, rows=min(max(likely, possible.lower), possible.upper))
            share = filtered.rows / rows.rows if rows.rows else 1.0
        sampled = next((column.sampled for column in columns.values() if column.sampled is not None), None)
        for member in source.members:
            share_inside = _share_of_members(member, columns, results.get(id(member.block)))
            assumptions.append(f"{member.text}: {share_inside:.2%} of rows")
            filtered = filtered.times(share_inside, 0.0, 1.0)
        filtered = _with_guesses(filtered, source.opaque, assumptions)
        types = {found.name: found.type for found in leaves(table.schema)}
        needed = {name: types[name] for name in use.columns if name in types}
        return Relation(
            source.name,
            use.table,
            rows,
            filtered,
            columns,
            types,
            (*source.filters, *(member.text for member in source.members), *source.opaque),
            row_bytes(needed),
            tuple(f"{source.name}: {text}" for text in assumptions),
            None if sampled is None else SampledInput(sampled, predicate, share, rows.rows, use.table),
        )

    # ---- selects ----

    def select(self, block: Block, results: Mapping[int, _Result]) -> tuple[JoinGraph, JoinPlan, _Result]:
        """Plan one SELECT."""
        relations = [self.relation(source, results) for source in block.sources]
        residual = [(names, _guess(text)) for names, text in block.residual]
        graph = JoinGraph.of(relations, block.equalities, residual)
        for names, text in block.residual:
            graph.notes[f"{text}: {_guess(text):.0%} of rows of {' × '.join(sorted(names))}"] = None
        plan = plan_joins(graph, keep_order=not block.free)
        rows = plan.rows
        if not block.free:  # an outer join keeps at least the first input
            first = relations[0].filtered
            rows = Estimate(max(rows.rows, first.rows), 0.0, max(rows.upper, first.upper))
            plan = replace(plan, rows=rows)
        by_name = {relation.name: relation for relation in relations}
        rows = _grouped(rows, block, by_name)
        columns = {
            name: by_name[source].columns[column]
            for name, (source, column) in block.outputs.items()
            if column in by_name[source].columns
        }
        types = {
            name: by_name[source].types[column]
            for name, (source, column) in block.outputs.items()
            if column in by_name[source].types
        }
        return graph, plan, _Result(rows, columns, types)


@dataclass(frozen=True, slots=True)
class _Result:
    """Estimates for the result of a SELECT; its columns' distinct counts are those of the tables."""

    rows: Estimate
    columns: Mapping[str, ColumnStatistics]
    types: Mapping[str, pa.DataType]


def explain_query(catalog: QueryCatalog, sql: str) -> QueryPlan:
    """Plan a query; see `Catalog.explain`."""
    return _plan(QueryPlanning(catalog), sql)[1]


def run_query(catalog: QueryCatalog, sql: str) -> pa.Table:
    """Run a query on DuckDB; see `Catalog.sql`."""
    planning = QueryPlanning(catalog)
    query, _ = _plan(planning, sql)
    with _connected(query, planning) as connection:
        return _run(connection, query.sql()).rename_columns(query.names)


@contextmanager
def _connected(query: Query, planning: QueryPlanning) -> Iterator[Any]:
    """DuckDB with the tables of a query, and nothing else.

    Raises:
        MissingDependencyError: It is not installed.
    """
    try:
        import duckdb
    except ImportError as error:
        raise MissingDependencyError("sql() needs DuckDB: pip install 'skerry[duckdb]'") from error
    with duckdb.connect(config=_NO_EXTENSIONS) as connection:
        connection.execute(f"SET disabled_optimizers = '{_OPTIMIZERS_OFF}'")
        try:
            for use in query.uses:
                scan = planning.scan(use)
                _check_types(scan.schema, use.table)
                connection.register(use.key, scan)
            for setting in _CLOSED:
                connection.execute(f"SET {setting}")
            yield connection
        except duckdb.Error as error:
            raise SkerryError(f"DuckDB refused the query: {error}") from error


def _check_types(schema: pa.Schema, table: str) -> None:
    """Refuse columns that DuckDB does not take.

    Raises:
        UnsupportedError: One is a geography.
    """
    for column in schema:
        shapes = shapes_of(column)
        if shapes is not None and shapes.edges != PLANAR:
            raise UnsupportedError(
                f"column {column.name!r} of {table} is a geography, which DuckDB does not have; leave it out of the "
                "query, or read the table with scan(where=…)"
            )


def _run(connection: Any, sql: str, limit: int | None = None) -> pa.Table:
    relation = connection.sql(sql)
    found: pa.Table = (relation if limit is None else relation.limit(limit)).to_arrow_table()
    return found


def view_schema(catalog: QueryCatalog, name: str, queries: Mapping[str, str], namespace: Sequence[str]) -> pa.Schema:
    """The columns of a view that is about to be created, as DuckDB tells their types.

    Args:
        catalog: The catalog.
        name: The view.
        queries: Its query by dialect.
        namespace: The namespace of tables that the query names without one.
    """
    now = datetime.fromtimestamp(0, UTC)
    new = View(
        name, pa.schema([]), ViewDefinition(0, now, queries, ".".join(namespace)), (), {}, "", "", (catalog.name,)
    )
    sql, dialect = new.query_for(DIALECT)
    planning = QueryPlanning(catalog)
    query = parse_query(sql, planning.relation_of, ViewText(name, sql, dialect, (), namespace, (catalog.name,)))
    with _connected(query, planning) as connection:
        types = _run(connection, query.sql(), limit=0).schema.types
    return pa.schema(list(zip(query.names, types, strict=True)))


def plan_table_joins(
    catalog: QueryCatalog,
    tables: Mapping[str, str] | Sequence[str],
    on: Sequence[tuple[str, str]],
    where: Mapping[str, str] | None = None,
) -> JoinPlan:
    """Plan joins of tables without SQL; see `Catalog.plan_joins`."""
    planning = QueryPlanning(catalog)
    named = dict(tables) if isinstance(tables, Mapping) else {name.rsplit(".", 1)[-1]: name for name in tables}
    schemas = {name: planning.schema(table) for name, table in named.items()}
    for pair in on:
        if isinstance(pair, str) or len(pair) != 2:
            raise SchemaError(f"on= must be a list of pairs of columns, as in [('a.id', 'b.id')], found {pair!r}")
    equalities = [(_column_of(first, schemas), _column_of(second, schemas)) for first, second in on]
    conditions = dict(where or {})
    for name in conditions:
        if name not in named:
            raise SchemaError(f"a condition names {name!r}, which is not one of {', '.join(named)}")
    relations = []
    for name, table in named.items():
        use = TableUse(name, table, schemas[name], list(schemas[name].names))
        source = Source(name, use, None, [conditions[name]] if name in conditions else [])
        relations.append(planning.relation(source, {}))
    return plan_joins(JoinGraph.of(relations, equalities))


def _plan(planning: QueryPlanning, sql: str) -> tuple[Query, QueryPlan]:
    """Plan every SELECT of a query and rewrite its joins in the chosen order."""
    query = parse_query(sql, planning.relation_of)
    for use in query.uses:
        planning.need(use)
    results: dict[int, _Result] = {}
    selects = []
    for block in query.blocks:
        graph, plan, result = planning.select(block, results)
        results[id(block)] = result
        selects.append(SelectPlan(plan, result.rows))
        if plan.reordered and plan.steps:
            block.reorder(plan.tree, graph.conditions)
    return query, QueryPlan(tuple(selects), query.shown_sql())


def _column_of(text: str, schemas: Mapping[str, pa.Schema]) -> tuple[str, str]:
    name, _, column = text.partition(".")
    if name not in schemas:
        raise SchemaError(f"{text!r} is not a column of {', '.join(schemas)}: expected name.column")
    return name, leaf(schemas[name], column).name


def _rows_of(table: Table | MetadataTable | PastTable, where: str | None) -> Estimate:
    """Bounds of the rows that satisfy a condition: rows of files that match entirely, and of files that may match."""
    certain, possible = table.scan(where=where).row_bounds()
    return Estimate(float(possible), float(certain), float(possible))


def _all_of(conditions: Sequence[str]) -> str | None:
    return " AND ".join(f"({condition})" for condition in conditions) or None


def _with_guesses(rows: Estimate, conditions: Sequence[str], assumptions: list[str]) -> Estimate:
    for condition in conditions:
        share = _guess(condition)
        assumptions.append(f"{condition}: {share:.0%} of rows")
        rows = rows.times(share, 0.0, 1.0)
    return rows


def _guess(condition: str) -> float:
    """The assumed selectivity of a condition without statistics."""
    text = condition.upper()
    if "SELECT " in text:
        return _ASSUMED_SUBQUERY
    if " LIKE " in text:
        return 1.0 - ASSUMED_EQUALITY if text.startswith("NOT ") or " NOT LIKE " in text else ASSUMED_EQUALITY
    is_range = any(sign in text for sign in ("<", ">"))
    return ASSUMED_EQUALITY if "=" in text and not is_range else ASSUMED_RANGE


def _share_of_members(member: Member, columns: Mapping[str, ColumnStatistics], result: _Result | None) -> float:
    """The share of rows whose value is in the result of a SELECT, all of whose values are taken to be in the column."""
    known = columns.get(member.column)
    if result is None or known is None or not known.ndv or not known.freshness.is_fresh:
        return _ASSUMED_SUBQUERY
    (output,) = member.block.select.selects
    inside = result.columns.get(output.alias_or_name)
    distinct = min(result.rows.rows, inside.ndv if inside is not None and inside.ndv else math.inf)
    share = min(1.0, distinct / known.ndv)
    return 1.0 - share if member.negated else share


def _having(block: Block, relations: Mapping[str, Relation], group_rows: float) -> float:
    """The share of groups that their conditions leave."""
    shares = []
    for condition in block.having:
        values = None
        if condition is not None and condition.column is not None:
            name, column = condition.column
            sampled = relations[name].sampled
            values = None if sampled is None else sampled.values_of(column)
        share = None if condition is None else share_of_groups(condition, values, group_rows)
        shares.append(ASSUMED_RANGE if share is None else share)
    return damped(shares)


def _grouped(rows: Estimate, block: Block, relations: Mapping[str, Relation]) -> Estimate:
    """Rows of the result after GROUP BY, HAVING and LIMIT."""
    before = rows.rows
    if block.groups is not None:
        if not block.groups:
            rows = EXACTLY_ONE
        else:
            known = [relations[key[0]].fresh(key[1]) if key is not None else None for key in block.groups]
            distinct = math.prod((column.ndv or 1.0) + _has_nulls(column) for column in known if column is not None)
            most = math.prod((column.upper or math.inf) + _has_nulls(column) for column in known if column is not None)
            if None in known:  # an unknown column may be distinct in every row
                distinct, most = max(distinct, rows.rows), math.inf
            rows = Estimate(min(distinct, rows.rows), min(1.0, rows.lower), min(most, rows.upper))
    if block.having:
        share = _having(block, relations, before / max(rows.rows, 1.0))
        rows = rows.times(max(share, min(1.0, 0.5 / max(rows.rows, 1.0))), 0.0, 1.0)
    return rows if block.limit is None else rows.at_most(float(block.limit))


def _has_nulls(column: ColumnStatistics) -> int:
    """1 for the group of nulls, if there are any."""
    return int(bool(column.null_count))
