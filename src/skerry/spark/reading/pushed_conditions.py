"""Conditions of a query on each table, extracted from Spark's optimized plan.

The optimizer pushes every condition as close to the tables as possible, infers some, and folds constants. Conditions
directly over a table are read as Spark's SQL and translated to skerry's conditions. Those that cannot be translated
are left out: the rest still holds for all rows that the query can use.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import pyarrow as pa
import sqlglot
from pyspark.sql import DataFrame
from sqlglot import exp
from sqlglot.errors import SqlglotError

from skerry.errors import FormatError, SchemaError, UnsupportedError
from skerry.spark.reading.plan_nodes import nodes_of
from skerry.spark.reading.relations import RELATION, relation_table
from skerry.table.predicate import parse

__all__ = ["pushed_conditions", "to_own_sql"]

_DIALECT = "spark"
_NUMBER = re.compile(r"\d+(\.\d*)?(E[+-]?\d+)?", re.IGNORECASE)
_UTC = frozenset({"UTC", "Etc/UTC", "GMT", "Z", "+00:00"})


def pushed_conditions(frame: DataFrame, schemas: Mapping[str, pa.Schema]) -> dict[str, str]:
    """The condition that holds for all rows of a table that a query can use, for tables that have one.

    Args:
        frame: The query, of a classic session.
        schemas: The tables' columns, by the names of their relations.

    Returns:
        SQL conditions for scans, by table.
    """
    found: dict[str, list[str | None]] = {}
    for table, condition in _relations(frame._jdf.queryExecution().optimizedPlan(), schemas):
        found.setdefault(table, []).append(condition)
    zone = str(frame.sparkSession.conf.get("spark.sql.session.timeZone"))
    wanted: dict[str, str] = {}
    for table, conditions in found.items():
        own = [None if text is None else to_own_sql(text, schemas[table], zone) for text in conditions]
        known = dict.fromkeys(text for text in own if text is not None)
        if None not in own:
            wanted[table] = " OR ".join(f"({text})" for text in known)
    return wanted


def _relations(plan: Any, tables: Collection[str]) -> Iterator[tuple[str, str | None]]:
    """The relations of some tables in a plan, each with the condition directly over it."""
    for node in nodes_of(plan):
        table = _table_of(plan.apply(node.number), tables) if node.kind == RELATION else None
        if table is not None and table in tables:
            over = None if node.is_subquery else node.parent
            if over is not None and over.kind == "Filter":
                yield table, plan.apply(over.number).condition().sql()
            else:
                yield table, None


def _table_of(relation: Any, tables: Collection[str]) -> str | None:
    """The table of a relation; its text usually says it, by one call instead of five."""
    text = relation.simpleString(0)
    named = [table for table in tables if text.startswith(f"Relation {table}[")]
    return named[0] if len(named) == 1 else relation_table(relation)


def to_own_sql(text: str, schema: pa.Schema, zone: str) -> str | None:
    """Translate a condition to skerry's SQL, without the parts that cannot be translated.

    Args:
        text: A condition on one table in Spark's SQL.
        schema: The table's columns.
        zone: The time zone of the points in time in the text.

    Returns:
        A condition that is true for all rows for which the given one is; None if nothing can be translated.
    """
    try:
        tree = sqlglot.parse_one(text, dialect=_DIALECT)
    except (SqlglotError, RecursionError):
        return None
    words = _Words(schema, zone)
    parts, kept = [tree], []
    while parts:
        part = parts.pop().unnest()
        if isinstance(part, exp.And):
            parts += [part.expression, part.this]
            continue
        try:
            own = words.of(part)
            parse(own, schema)
        except (FormatError, SchemaError, UnsupportedError, RecursionError):
            continue
        kept.append(f"({own})")
    return " AND ".join(kept) or None


class _Words:
    """Translates a condition, as a whole or not at all.

    Args:
        schema: The table's columns.
        zone: The time zone of points in time.
    """

    def __init__(self, schema: pa.Schema, zone: str) -> None:
        self._schema = schema
        self._zone = zone

    def of(self, node: Any) -> str:
        """Translate a condition.

        Raises:
            UnsupportedError: A part of it cannot be translated.
        """
        node = node.unnest()
        comparisons = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
        match node:
            case exp.And() | exp.Or():
                return f"({self.of(node.this)} {node.key.upper()} {self.of(node.expression)})"
            case exp.Not():
                return f"(NOT {self.of(node.this)})"
            case exp.Is(expression=exp.Null()):
                return f"{self._column(node.this)} IS NULL"
            case exp.IsNan():
                return f"{self._column(node.this)} IS NAN"
            case exp.In() if node.expressions and not node.args.get("query"):
                values = ", ".join(map(self._value, node.expressions))
                return f"{self._column(node.this)} IN ({values})"
            case exp.StartsWith(expression=exp.Literal(is_string=True)):
                prefix = node.expression.name
                if not set(prefix).isdisjoint("%_\\"):
                    raise UnsupportedError("a prefix that LIKE would treat as a pattern")
                return f"{self._column(node.this)} LIKE {_quoted(prefix + '%')}"
            case exp.Column():
                return self._column(node)
        for kind, sign in comparisons.items():
            if type(node) is kind:
                if isinstance(node.this.unnest(), exp.Column):
                    return f"{self._column(node.this)} {sign} {self._value(node.expression)}"
                return f"{self._value(node.this)} {sign} {self._column(node.expression)}"
        raise UnsupportedError(f"{node.key} cannot be translated")

    def _column(self, node: Any) -> str:
        node = node.unnest()
        if not isinstance(node, exp.Column) or len(node.parts) > 2:
            raise UnsupportedError("only columns of the table are known")
        names = [part.name for part in node.parts]
        if names[-1] not in self._schema.names or (len(names) > 1 and self._is_struct(names[0])):
            raise UnsupportedError("not a column of the table, or perhaps a field of a struct")
        return '"' + names[-1].replace('"', '""') + '"'

    def _is_struct(self, name: str) -> bool:
        return name in self._schema.names and pa.types.is_struct(self._schema.field(name).type)

    def _value(self, node: Any) -> str:
        """Translate a constant.

        Raises:
            UnsupportedError: It is not a constant, or an ambiguous one.
        """
        node = node.unnest()
        if isinstance(node, exp.Literal):
            return _quoted(node.name) if node.is_string else str(node.name)
        if isinstance(node, exp.Boolean):
            return str(bool(node.this)).upper()
        if isinstance(node, exp.HexString):
            return f"X'{node.name}'"
        if isinstance(node, exp.Neg):
            return f"-{self._value(node.this)}"
        if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
            return self._of_type(node.this, node.to)
        raise UnsupportedError(f"not a constant: {node.key}")

    def _of_type(self, literal: Any, type_: Any) -> str:
        kinds = exp.DataType.Type
        numbers = {kinds.BIGINT, kinds.SMALLINT, kinds.TINYINT, kinds.DOUBLE, kinds.FLOAT, kinds.DECIMAL}
        if type_.this in numbers and _NUMBER.fullmatch(literal.name):
            return str(literal.name)
        words: dict[Any, Callable[[str], str]] = {
            kinds.DATE: lambda text: f"DATE {_quoted(text)}",
            kinds.TIMESTAMPNTZ: lambda text: f"TIMESTAMP {_quoted(text)}",
            kinds.TIMESTAMPTZ: lambda text: f"TIMESTAMP {_quoted(_moment(text, self._zone))}",
            kinds.TIMESTAMPLTZ: lambda text: f"TIMESTAMP {_quoted(_moment(text, self._zone))}",
        }
        if literal.is_string and type_.this in words:
            return words[type_.this](literal.name)
        raise UnsupportedError(f"a constant of type {type_} cannot be translated")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _moment(text: str, zone: str) -> str:
    """Convert a point in time to UTC.

    Raises:
        UnsupportedError: It does not exist or is ambiguous.
    """
    if zone in _UTC:
        return f"{text}+00:00"
    try:
        local = datetime.datetime.fromisoformat(text).replace(tzinfo=zoneinfo.ZoneInfo(zone))
    except (ValueError, zoneinfo.ZoneInfoNotFoundError):
        raise UnsupportedError(f"not a valid local time: {text!r} in {zone}") from None
    if local.utcoffset() != local.replace(fold=1).utcoffset():
        raise UnsupportedError(f"ambiguous local time: {text} in {zone}")
    return local.astimezone(datetime.UTC).isoformat(" ")
