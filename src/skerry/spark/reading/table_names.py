"""Names of tables in a query, as parsed by Spark or, without a JVM, by sqlglot."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import sqlglot
from py4j.java_gateway import is_instance_of
from sqlglot import exp
from sqlglot.errors import SqlglotError

from skerry.errors import SkerryError, UnsupportedError
from skerry.planner.tables import invalid_query
from skerry.spark.reading.plan_nodes import nodes_of

__all__ = ["TableReference", "is_query", "names_by_sqlglot", "names_in_plan", "not_a_query"]


@dataclass(frozen=True, slots=True)
class TableReference:
    """One occurrence of a table's name in a query.

    Args:
        parts: The name.
        start: Its start in the text.
        stop: Its end.
        has_alias: Whether the query gives it another name.
    """

    parts: tuple[str, ...]
    start: int
    stop: int
    has_alias: bool


_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"
_NAMING = ("SubqueryAlias", "Sample", "RelationTimeTravel")
"""Nodes that name what is below them."""
_PLACE = re.compile(r"Origin\(Some\(\d+\),Some\(\d+\),Some\((\d+)\),Some\((\d+)\)")
_STATEMENTS = tuple(f"{_LOGICAL}.{kind}" for kind in ("Command", "ParsedStatement"))


def is_query(gateway: Any, plan: Any) -> bool:
    """Whether a text is a query, which neither changes nor describes anything.

    Args:
        gateway: To the JVM.
        plan: The result of Spark's parser.
    """
    if plan.nodeName() == "UnresolvedWith":
        plan = plan.child()
    return not any(is_instance_of(gateway, plan, kind) for kind in _STATEMENTS)


def not_a_query(text: str) -> UnsupportedError:
    """The error for a statement that is not a query."""
    return UnsupportedError(
        f"sql runs queries, and no other statements ({text.strip():.30}…): rows are changed by table.append, delete, "
        "upsert and merge, or skerry.spark.ingest and merge; what is not about the catalog's tables goes to spark.sql"
    )


def names_in_plan(plan: Any) -> tuple[list[TableReference], set[str]]:
    """The tables that a query names, and the names of its own subqueries, in lower case.

    Args:
        plan: The result of Spark's parser.
    """
    found: dict[int, TableReference] = {}
    inner: set[str] = set()
    for node in nodes_of(plan):
        if node.kind == "UnresolvedWith":
            relations = plan.apply(node.number).cteRelations()
            inner.update(relations.apply(index)._1().lower() for index in range(relations.size()))
        elif node.kind == "UnresolvedRelation":
            relation = plan.apply(node.number)
            place = _PLACE.match(relation.origin().toString())
            if place is None:
                raise SkerryError("Spark's parser does not say where the query names a table")
            parts = tuple(relation.multipartIdentifier().mkString("\n").split("\n"))
            has_alias = node.parent is not None and node.parent.kind in _NAMING
            start = int(place[1])
            found[start] = TableReference(parts, start, int(place[2]) + 1, has_alias)
    return list(found.values()), inner


def names_by_sqlglot(query: str) -> tuple[list[TableReference], set[str]]:
    """Like `names_in_plan`, without Spark.

    Raises:
        FormatError: The text is not a query that sqlglot can parse.
        UnsupportedError: It is another statement.
    """
    try:
        tree = sqlglot.parse_one(query, dialect="spark")
    except (SqlglotError, RecursionError) as error:
        raise invalid_query(error) from None
    if not isinstance(tree, exp.Query | exp.Values):
        raise not_a_query(query)
    references = []
    for table in tree.find_all(exp.Table):
        identifiers = [part for part in table.parts if isinstance(part, exp.Identifier)]
        if len(identifiers) < len(table.parts):
            continue  # a table-valued function
        start, stop = identifiers[0].meta["start"], identifiers[-1].meta["end"] + 1
        references.append(TableReference(tuple(part.name for part in identifiers), start, stop, bool(table.alias)))
    return references, {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
