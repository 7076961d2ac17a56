"""SQL queries over tables of a catalog, which skerry plans and Spark reads.

Spark's own parser finds the names of tables in a query, so that its whole grammar is supported; on Spark
Connect, where it is not accessible, sqlglot does. Spark's optimizer finds the conditions on each table:
files without matching rows are then left out, and the query is built again over the others.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlglot
from pyspark.sql import DataFrame, SparkSession
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

import skerry
from skerry.catalog import Catalog, Table
from skerry.catalog.view import View
from skerry.errors import NotFoundError, SchemaError, UnsupportedError
from skerry.planner.tables import invalid_query, parse_tree
from skerry.spark.reading.pushed_conditions import SampledTable, pushed_conditions, row_factors
from skerry.spark.reading.read import TableFrame, read, read_candidates, version_of
from skerry.spark.reading.table_names import TableReference, is_query, names_by_sqlglot, names_in_plan, not_a_query
from skerry.spark.runtime.failures import in_one_line
from skerry.spark.runtime.jvm import is_classic
from skerry.spark.runtime.settings import FIELD_ID_SETTING, OPTIMIZER_SETTING

__all__ = ["sql"]

_CALLS_JAVA = ("java_method", "reflect", "try_reflect")
"""Functions of Spark that call any static Java method."""

_KEPT = 64
"""Tables, and parts of tables, whose frames are cached between queries."""


def sql(
    spark: SparkSession, query: str, catalog: Catalog | str | os.PathLike[str], *, namespace: str | None = None
) -> DataFrame:
    """Run a query over tables of a catalog, with their statistics in the plan.

    Conditions of the query select files if Spark's optimizer finds that they concern a single table. Names
    that Spark resolves itself (a view of the session, a table of its own catalogs) are left to it. The session is
    unchanged afterwards: no view remains. On Spark Connect rows are the same, and small tables have broadcast hints.

    Args:
        spark: The session, classic or Spark Connect.
        query: The query, in Spark's SQL.
        catalog: The catalog, or what `skerry.connect` takes.
        namespace: The namespace of tables named without one.

    Returns:
        The result as a frame; nothing has been read yet. It is bound to the tables' newest snapshots.

    Raises:
        FormatError: Spark Connect: the query cannot be parsed.
        NotFoundError: Neither Spark nor the catalog has such a table.
        UnsupportedError: The text is not a query: it would change something.
        pyspark.errors.AnalysisException: Spark does not understand it; the message is one line, without the plan.
    """
    tables = catalog if isinstance(catalog, Catalog) else skerry.connect(catalog, create=False)
    found = _resolve(spark, query, tables, namespace)
    if not is_classic(spark):
        return found.run({name: read(spark, table) for name, table in found.tables.items()})
    settings = (spark.conf.get(FIELD_ID_SETTING, ""), spark.conf.get(OPTIMIZER_SETTING, ""))
    whole = {name: _frame(_Asked(spark, table, settings)) for name, table in found.tables.items()}
    outlined = found.run({name: table.outline for name, table in whole.items()})
    wheres: dict[str, str] = {}
    chosen = {name: table.frame for name, table in whole.items() if table.frame is not table.outline}
    worth = {name: found.tables[name] for name, table in whole.items() if table.file_count > 1 or name in chosen}
    if worth:
        by_relation = {table.name: table.schema for table in worth.values()}
        wanted = pushed_conditions(outlined, by_relation)
        for name, table in worth.items():
            if table.name in wanted and (fewer := _fewer(spark, table, settings, wanted[table.name], whole[name])):
                chosen[name] = fewer.frame
                wheres[name] = wanted[table.name]
    frames = {name: chosen.get(name, table.frame) for name, table in whole.items()}
    frame = found.run(frames) if chosen else outlined
    factors = _factors(_Planned(spark, query, namespace, settings, _states(found, wheres)), frame, found, whole)
    steered = {
        name: _frame(_Asked(spark, found.tables[name], settings, wheres.get(name), factor)).frame
        for name, factor in factors.items()
    }
    return found.run(frames | steered) if steered else frame


@dataclass(frozen=True, slots=True)
class _Planned:
    """What the plan of a query depends on: its text, the session with its settings, the tables and their files."""

    spark: SparkSession
    query: str
    namespace: str | None
    settings: tuple[str | None, ...]
    states: tuple[tuple[str, str], ...]


def _states(found: _Resolved, wheres: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((version_of(table), wheres.get(name, "")) for name, table in found.tables.items())


_known_factors: OrderedDict[_Planned, Mapping[str, float]] = OrderedDict()
"""By field, the factors of the queries asked last."""


def _factors(
    planned: _Planned, frame: DataFrame, found: _Resolved, whole: Mapping[str, TableFrame]
) -> Mapping[str, float]:
    """By what the row counts of a query's tables are multiplied, by their fields."""
    known = _known_factors.get(planned)
    if known is None:
        sampled = {
            found.tables[name].name: SampledTable(found.tables[name].schema, table.row_count, table.sampled)
            for name, table in whole.items()
        }
        by_table = row_factors(frame, sampled) if len(found.tables) > 1 else {}
        names = {table.name: name for name, table in found.tables.items()}
        known = _known_factors[planned] = {names[table]: factor for table, factor in by_table.items()}
        while len(_known_factors) > _KEPT:
            _known_factors.popitem(last=False)
    return known  # other threads may have dropped it again


def _fewer(
    spark: SparkSession, table: Table, settings: tuple[str | None, ...], where: str, whole: TableFrame
) -> TableFrame | None:
    """The files that may contain rows for which a condition is true, if they are not all."""
    if table.scan(where=where).file_count == whole.file_count:
        return None
    return _frame(_Asked(spark, table, settings, where))


@dataclass(frozen=True)
class _Asked:
    """A request for a frame of a table; equal ones share the frame.

    Args:
        spark: The session.
        table: The table.
        settings: Settings of the session that affect it.
        where: The condition that selects files.
        row_factor: How many times the rows the plan is told.
        state: Its name and version, which distinguish it from others.
    """

    spark: SparkSession
    table: Table = field(compare=False)
    settings: tuple[str | None, ...]
    where: str | None = None
    row_factor: float = 1.0
    state: tuple[str, str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", (self.table.name, version_of(self.table)))


@functools.lru_cache(_KEPT)
def _frame(asked: _Asked) -> TableFrame:
    return read_candidates(asked.spark, asked.table, asked.where, asked.row_factor)


# Names ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Resolved:
    """A query whose tables are resolved.

    Args:
        spark: The session.
        query: The query, in which each table of the catalog is a field of a format string.
        tables: The tables, by these fields.
    """

    spark: SparkSession
    query: str
    tables: Mapping[str, Table]

    def run(self, frames: Mapping[str, DataFrame]) -> DataFrame:
        """Run the query over frames of the tables."""
        with in_one_line():
            return self.spark.sql(self.query, **frames) if frames else self.spark.sql(self.query)


def _resolve(spark: SparkSession, query: str, catalog: Catalog, namespace: str | None) -> _Resolved:
    """Replace the catalog's tables in a query by names of their own, and its views by their queries.

    Raises:
        NotFoundError: Neither Spark nor the catalog has such a table.
        SchemaError: Views refer to each other.
    """
    resolver = _Resolver(spark, catalog)
    text = resolver.resolve(query, namespace, ())
    return _Resolved(spark, text, resolver.tables) if resolver.tables else _Resolved(spark, text.format(), {})


class _Resolver:
    """Makes format strings of queries, whose fields are the catalog's tables.

    Args:
        spark: The session.
        catalog: The catalog.
    """

    def __init__(self, spark: SparkSession, catalog: Catalog) -> None:
        self.tables: dict[str, Table] = {}
        self._spark = spark
        self._catalog = catalog
        self._found: dict[str, str | View] = {}
        self._is_own: dict[str, bool] = {}

    def resolve(self, query: str, namespace: str | None, views: tuple[View, ...]) -> str:
        """A query as a format string.

        Args:
            query: The query.
            namespace: The namespace of tables named without one.
            views: The views around it, outer ones first.
        """
        references, inner = _references(self._spark, query)
        text, rest = [], 0
        for reference in sorted(references, key=lambda reference: reference.start):
            parts = reference.parts
            if len(parts) == 1:
                if namespace is None or parts[0].lower() in inner:
                    continue
                parts = (namespace, *parts)
            elif views and len(parts) > 2 and parts[0] in views[-1].catalog_names:
                parts = parts[1:]
            if not self._belongs_here(query[reference.start : reference.stop], views):
                continue
            alias = "" if reference.has_alias else " AS `" + parts[-1].replace("`", "``") + "`"
            text += [_literal(query[rest : reference.start]), self._relation(".".join(parts), views), _literal(alias)]
            rest = reference.stop
        return "".join([*text, _literal(query[rest:])])

    def _belongs_here(self, written: str, views: tuple[View, ...]) -> bool:
        """Whether a name is not one that Spark knows; in a view, names of its own session mean nothing."""
        if views:
            return True
        if written not in self._is_own:
            self._is_own[written] = not self._spark.catalog.tableExists(written)
        return self._is_own[written]

    def _relation(self, name: str, views: tuple[View, ...]) -> str:
        """The field of a table, or the query of a view."""
        if name not in self._found:
            self._found[name] = self._load(name)
        found = self._found[name]
        if isinstance(found, str):
            return f"{{{found}}}"
        if name in (view.name for view in views):
            raise SchemaError(f"views refer to each other: {' → '.join(view.name for view in (*views, found))}")
        columns = ", ".join("`" + column.replace("`", "``") + "`" for column in found.schema.names)
        query = self.resolve(_in_spark(found), found.definition.namespace or None, (*views, found))
        return f"(SELECT * FROM ({query}) AS `query`({_literal(columns)}))"  # noqa: S608  as the view says

    def _load(self, name: str) -> str | View:
        """A table, as the name of its field, or a view."""
        try:
            table = self._catalog.load_table(name)
        except NotFoundError as error:
            if error.location is None and self._catalog.view_exists(name):
                return self._catalog.load_view(name)
            raise NotFoundError(f"neither Spark nor the catalog has a table {name}: {error.message}") from None
        field_name = f"table_{len(self.tables)}"
        self.tables[field_name] = table
        return field_name


def _in_spark(view: View) -> str:
    """The query of a view in Spark's SQL, translated if the view has none.

    Whoever runs a query has written it, or knows who has; a view may be anybody's. So it must not call Java.

    Raises:
        FormatError: It cannot be parsed.
        UnsupportedError: It is in an unknown dialect, is not one query, or calls Java.
    """
    sql, dialect = view.query_for("spark")
    try:
        text = sql if dialect == "spark" else str(parse_tree(sql, dialect).sql(dialect="spark"))
        tokens = sqlglot.tokenize(text, read="spark")
    except SqlglotError as error:
        raise invalid_query(error) from None
    for token, following in itertools.pairwise(tokens):
        if token.text.lower() in _CALLS_JAVA and following.token_type is TokenType.L_PAREN:
            raise UnsupportedError(f"view {view.name!r} calls {token.text}: views cannot call Java")
    return text


def _literal(text: str) -> str:
    """Escape a text for a format string."""
    return text.replace("{", "{{").replace("}", "}}")


def _references(spark: SparkSession, query: str) -> tuple[list[TableReference], set[str]]:
    """The tables that a query names, and the names of its own subqueries."""
    if not is_classic(spark):
        return names_by_sqlglot(query)
    parsed: Any = spark._jsparkSession.sessionState().sqlParser().parsePlan(query)
    if not is_query(spark.sparkContext._gateway, parsed):
        raise not_a_query(query)
    return names_in_plan(parsed)
