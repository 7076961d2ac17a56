"""Where a query names tables: as Spark's parser has understood it, or, without a JVM, as sqlglot has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlglot
from py4j.java_gateway import is_instance_of
from sqlglot import exp
from sqlglot.errors import SqlglotError

from skerry.errors import FormatError, UnsupportedError

__all__ = ["Place", "is_query", "names_by_sqlglot", "names_in_plan", "not_a_query"]


@dataclass(frozen=True, slots=True)
class Place:
    """One place where a query names a table.

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


_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"
_STATEMENTS = tuple(f"{_LOGICAL}.{kind}" for kind in ("Command", "ParsedStatement"))


def is_query(gateway: Any, plan: Any) -> bool:
    """Whether a text asks for rows, and neither changes nor describes anything.

    Args:
        gateway: To the JVM.
        plan: What Spark's parser made of the text.
    """
    if plan.nodeName() == "UnresolvedWith":
        plan = plan.child()
    return not any(is_instance_of(gateway, plan, kind) for kind in _STATEMENTS)


def not_a_query(text: str) -> UnsupportedError:
    """The error that says of a statement that it is none."""
    return UnsupportedError(
        f"sql runs queries, and no other statements ({text.strip():.30}…): rows are changed by table.append, delete, "
        "upsert and merge, or skerry.spark.ingest and merge; what is not about the catalog's tables goes to spark.sql"
    )


def names_in_plan(plan: Any, *, has_alias: bool = False) -> tuple[list[Place], set[str]]:
    """The tables that a query names, and the names that it gives to queries of its own, in lower case.

    Args:
        plan: What Spark's parser made of the query.
        has_alias: Whether the plan is named by what stands around it.
    """
    kind = plan.nodeName()
    found: list[Place] = []
    inner: set[str] = set()
    if kind == "UnresolvedRelation":
        origin = plan.origin()
        parts = tuple(plan.multipartIdentifier().mkString("\n").split("\n"))
        return [Place(parts, origin.startIndex().get(), origin.stopIndex().get() + 1, has_alias)], set()
    below = [plan.children(), plan.subqueries()]
    if kind == "UnresolvedWith":
        relations = plan.cteRelations()
        inner.update(relations.apply(index)._1().lower() for index in range(relations.size()))
        below.append(plan.innerChildren())
    is_named = kind in ("SubqueryAlias", "Sample", "RelationTimeTravel")
    for nested in below:
        for index in range(nested.size()):
            places, names = names_in_plan(nested.apply(index), has_alias=is_named)
            found += places
            inner |= names
    return list({place.start: place for place in found}.values()), inner


def names_by_sqlglot(query: str) -> tuple[list[Place], set[str]]:
    """The same without Spark.

    Raises:
        FormatError: The text is no query that sqlglot can read.
        UnsupportedError: It is another statement.
    """
    try:
        tree = sqlglot.parse_one(query, dialect="spark")
    except (SqlglotError, RecursionError) as error:
        raise FormatError(f"no SQL query: {error}") from None
    if not isinstance(tree, exp.Query | exp.Values):
        raise not_a_query(query)
    places = []
    for table in tree.find_all(exp.Table):
        identifiers = [part for part in table.parts if isinstance(part, exp.Identifier)]
        if len(identifiers) < len(table.parts):
            continue  # a function that gives a table
        start, stop = identifiers[0].meta["start"], identifiers[-1].meta["end"] + 1
        places.append(Place(tuple(part.name for part in identifiers), start, stop, bool(table.alias)))
    return places, {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
