"""SQL over tables of a catalog, each of them read by `skerry.spark.read`.

Spark's own parser says where in the text tables are named, so that whatever its grammar allows is understood.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import skerry
from skerry.catalog import Catalog
from skerry.errors import NotFoundError, UnsupportedError
from skerry.spark.jvm import is_classic
from skerry.spark.reading import read

__all__ = ["sql"]


def sql(
    spark: SparkSession, query: str, catalog: Catalog | str | os.PathLike[str], *, namespace: str | None = None
) -> DataFrame:
    """Run a query whose tables are those of a catalog, with their statistics in the plan.

    A name that Spark resolves itself (a view of the session, a table of its own catalogs) is left to it. The session is
    as before afterwards: no view stays.

    Args:
        spark: A classic session.
        query: The query, in Spark's SQL.
        catalog: The catalog, or what `skerry.connect` takes.
        namespace: Where tables are that are named without one.

    Returns:
        The result as a frame; nothing has been read yet. It is bound to the tables' newest snapshots.

    Raises:
        NotFoundError: Neither Spark nor the catalog has such a table.
        UnsupportedError: The session is one of Spark Connect.
    """
    if not is_classic(spark):
        raise UnsupportedError("skerry.spark.sql needs a classic session: read() the tables, and name the frames")
    tables = catalog if isinstance(catalog, Catalog) else skerry.connect(catalog, create=False)
    parsed = spark._jsparkSession.sessionState().sqlParser().parsePlan(query)
    found, inner = _names(parsed)
    views: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        for place in sorted(found, key=lambda place: place.start, reverse=True):
            parts = place.parts
            if len(parts) == 1:
                if namespace is None or parts[0].lower() in inner:
                    continue
                parts = (namespace, *parts)
            if spark.catalog.tableExists(query[place.start : place.stop]):
                continue
            name = ".".join(parts)
            if name not in views:
                views[name] = stack.enter_context(_view(spark, tables, name))
            alias = "" if place.has_alias else " AS `" + parts[-1].replace("`", "``") + "`"
            query = query[: place.start] + views[name] + alias + query[place.stop :]
        return spark.sql(query)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a query names a table.

    Args:
        parts: The name.
        start: Where it begins in the text.
        stop: Where it ends.
        has_alias: Whether the query gives it another name.
    """

    parts: tuple[str, ...]
    start: int
    stop: int
    has_alias: bool


def _names(plan: Any, *, has_alias: bool = False) -> tuple[list[_Place], set[str]]:
    """The tables that a parsed query names, and the names that it gives to queries of its own."""
    kind = plan.getClass().getSimpleName()
    found: list[_Place] = []
    inner: set[str] = set()
    if kind == "UnresolvedRelation":
        origin = plan.origin()
        parts = tuple(plan.multipartIdentifier().mkString("\n").split("\n"))
        found.append(_Place(parts, origin.startIndex().get(), origin.stopIndex().get() + 1, has_alias))
    if kind == "UnresolvedWith":
        relations = plan.cteRelations()
        inner.update(relations.apply(index)._1().lower() for index in range(relations.size()))
    is_named = kind in ("SubqueryAlias", "Sample", "RelationTimeTravel")
    for nested in (plan.children(), plan.innerChildren(), plan.subqueries()):
        for index in range(nested.size()):
            places, names = _names(nested.apply(index), has_alias=is_named)
            found += places
            inner |= names
    return list({place.start: place for place in found}.values()), inner


@contextlib.contextmanager
def _view(spark: SparkSession, catalog: Catalog, name: str) -> Iterator[str]:
    """A temporary view of a table, for as long as Spark looks its name up."""
    view = f"skerry_{uuid.uuid4().hex}"
    try:
        table = catalog.load_table(name)
    except NotFoundError as error:
        raise NotFoundError(f"neither Spark nor the catalog has a table {name}: {error.message}") from None
    read(spark, table).createTempView(view)
    try:
        yield view
    finally:
        spark.catalog.dropTempView(view)
