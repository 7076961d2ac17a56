"""SQL queries over tables of a catalog, which skerry plans and Spark reads.

Spark's own parser finds the names of tables in a query, so that its whole grammar is supported; on Spark
Connect, where it is not accessible, sqlglot does. Spark's optimizer finds the conditions on each table:
files without matching rows are then left out, and the query is built again over the others.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import skerry
from skerry.catalog import Catalog, Table
from skerry.errors import NotFoundError
from skerry.spark.reading.pushed_conditions import pushed_conditions
from skerry.spark.reading.read import TableFrame, read, read_candidates, version_of
from skerry.spark.reading.table_names import TableReference, is_query, names_by_sqlglot, names_in_plan, not_a_query
from skerry.spark.runtime.jvm import is_classic
from skerry.spark.runtime.settings import FIELD_ID_SETTING, OPTIMIZER_SETTING

__all__ = ["sql"]

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
    """
    tables = catalog if isinstance(catalog, Catalog) else skerry.connect(catalog, create=False)
    found = _resolve(spark, query, tables, namespace)
    if not is_classic(spark):
        return found.run({name: read(spark, table) for name, table in found.tables.items()})
    settings = (spark.conf.get(FIELD_ID_SETTING, ""), spark.conf.get(OPTIMIZER_SETTING, ""))
    whole = {name: _frame(_Asked(spark, table, settings)) for name, table in found.tables.items()}
    outlined = found.run({name: table.outline for name, table in whole.items()})
    chosen = {name: table.frame for name, table in whole.items() if table.frame is not table.outline}
    worth = {name: found.tables[name] for name, table in whole.items() if table.file_count > 1 or name in chosen}
    if worth:
        by_relation = {table.name: table.schema for table in worth.values()}
        wanted = pushed_conditions(outlined, by_relation)
        for name, table in worth.items():
            if table.name in wanted and (fewer := _fewer(spark, table, settings, wanted[table.name], whole[name])):
                chosen[name] = fewer.frame
    return found.run({name: chosen.get(name, table.frame) for name, table in whole.items()}) if chosen else outlined


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
        state: Its name and version, which distinguish it from others.
    """

    spark: SparkSession
    table: Table = field(compare=False)
    settings: tuple[str | None, ...]
    where: str | None = None
    state: tuple[str, str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", (self.table.name, version_of(self.table)))


@functools.lru_cache(_KEPT)
def _frame(asked: _Asked) -> TableFrame:
    return read_candidates(asked.spark, asked.table, asked.where)


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
        return self.spark.sql(self.query, **frames) if frames else self.spark.sql(self.query)


def _resolve(spark: SparkSession, query: str, catalog: Catalog, namespace: str | None) -> _Resolved:
    """Replace the catalog's tables in a query by names of their own.

    Raises:
        NotFoundError: Neither Spark nor the catalog has such a table.
    """
    references, inner = _references(spark, query)
    names: dict[str, str] = {}
    is_own: dict[str, bool] = {}
    text, rest = [], 0
    for reference in sorted(references, key=lambda reference: reference.start):
        parts = reference.parts
        if len(parts) == 1:
            if namespace is None or parts[0].lower() in inner:
                continue
            parts = (namespace, *parts)
        written = query[reference.start : reference.stop]
        if written not in is_own:
            is_own[written] = not spark.catalog.tableExists(written)
        if is_own[written]:
            field_name = names.setdefault(".".join(parts), f"table_{len(names)}")
            alias = "" if reference.has_alias else " AS `" + parts[-1].replace("`", "``") + "`"
            text += [_literal(query[rest : reference.start]), "{", field_name, "}", _literal(alias)]
            rest = reference.stop
    if not names:
        return _Resolved(spark, query, {})
    tables = {field_name: _load(catalog, name) for name, field_name in names.items()}
    return _Resolved(spark, "".join([*text, _literal(query[rest:])]), tables)


def _literal(text: str) -> str:
    """Escape a text for a format string."""
    return text.replace("{", "{{").replace("}", "}}")


def _load(catalog: Catalog, name: str) -> Table:
    try:
        return catalog.load_table(name)
    except NotFoundError as error:
        raise NotFoundError(f"neither Spark nor the catalog has a table {name}: {error.message}") from None


def _references(spark: SparkSession, query: str) -> tuple[list[TableReference], set[str]]:
    """The tables that a query names, and the names of its own subqueries."""
    if not is_classic(spark):
        return names_by_sqlglot(query)
    parsed: Any = spark._jsparkSession.sessionState().sqlParser().parsePlan(query)
    if not is_query(spark.sparkContext._gateway, parsed):
        raise not_a_query(query)
    return names_in_plan(parsed)
