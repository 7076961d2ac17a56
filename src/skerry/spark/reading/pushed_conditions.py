"""Conditions of a query on each table, extracted from Spark's optimized plan.

The optimizer pushes every condition as close to the tables as possible, infers some, and folds constants. Conditions
directly over a table are read as Spark's SQL and translated to skerry's conditions. Those that cannot be translated
are left out: the rest still holds for all rows that the query can use.
"""

from __future__ import annotations

import datetime
import re
import zoneinfo
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import sqlglot
from pyspark.sql import DataFrame
from sqlglot import exp
from sqlglot.errors import SqlglotError

from skerry.errors import FormatError, SchemaError, UnsupportedError
from skerry.spark.reading.plan_nodes import PlanNode, nodes_of
from skerry.spark.reading.relations import RELATION, relation_table
from skerry.table.predicate import parse
from skerry.table.statistics.histogram import SampledRows

__all__ = ["SampledTable", "pushed_conditions", "row_factors", "to_own_sql"]

_DIALECT = "spark"
_NUMBER = re.compile(r"\d+(\.\d*)?(E[+-]?\d+)?", re.IGNORECASE)
_CLOSE = 1.25
"""Spark's estimate stays where it and ours differ by less than this factor."""
_UTC = frozenset({"UTC", "Etc/UTC", "GMT", "Z", "+00:00"})


@dataclass(frozen=True, slots=True, eq=False)
class SampledTable:
    """A table whose sampled rows tell how many rows conditions leave.

    Args:
        schema: Its columns.
        row_count: Its rows.
        sampled: Sampled rows of all of them.
    """

    schema: pa.Schema
    row_count: int
    sampled: SampledRows | None

    def rows_of(self, where: str, expected: float) -> float | None:
        """Rows that satisfy a condition; None if samples say nothing.

        Args:
            where: The condition.
            expected: As many are expected by other means.
        """
        if self.sampled is None or not self.row_count:
            return None
        found = self.sampled.share_of(parse(where, self.schema))
        return None if found is None else found.updated(min(1.0, expected / self.row_count)) * self.row_count


def pushed_conditions(frame: DataFrame, schemas: Mapping[str, pa.Schema]) -> dict[str, str]:
    """The condition that holds for all rows of a table that a query can use, for tables that have one.

    Args:
        frame: The query, of a classic session.
        schemas: The tables' columns, by the names of their relations.

    Returns:
        SQL conditions for scans, by table.
    """
    plan = frame._jdf.queryExecution().optimizedPlan()
    found: dict[str, list[str | None]] = {}
    for table, over in _relations(plan, nodes_of(plan), schemas):
        found.setdefault(table, []).append(None if over is None else over.condition().sql())
    zone = _zone(frame)
    wanted: dict[str, str] = {}
    for table, conditions in found.items():
        own = [None if text is None else to_own_sql(text, schemas[table], zone) for text in conditions]
        known = dict.fromkeys(text for text in own if text is not None)
        if None not in own:
            wanted[table] = " OR ".join(f"({text})" for text in known)
    return wanted


def row_factors(frame: DataFrame, tables: Mapping[str, SampledTable]) -> dict[str, float]:
    """By what the row counts of tables have to be multiplied for Spark to expect as many rows as their samples say.

    Spark multiplies the shares of conditions, as if columns were independent, and takes those that it cannot estimate
    (`LIKE`, comparisons of columns) to leave all rows. A table's own rows are changed, so a table that the query reads
    in several places, under different conditions, is left alone.

    Args:
        frame: The query, of a classic session.
        tables: The tables by the names of their relations.

    Returns:
        The factors by table, where Spark's estimate is far from ours; none if the query joins nothing.
    """
    plan = frame._jdf.queryExecution().optimizedPlan()
    nodes = nodes_of(plan)
    if all(node.kind != "Join" for node in nodes):
        return {}
    found: dict[str, dict[str | None, float]] = {}
    for name, over in _relations(plan, nodes, tables):
        rows = None if over is None else over.stats().rowCount()
        is_known = rows is not None and rows.isDefined()
        text = over.condition().sql() if over is not None and is_known else None
        found.setdefault(name, {})[text] = float(str(rows.get())) if rows is not None and is_known else 0.0
    zone, factors = _zone(frame), {}
    for name, conditions in found.items():
        text, expected = next(iter(conditions.items()))
        own = None if text is None or len(conditions) > 1 else to_own_sql(text, tables[name].schema, zone, partly=False)
        rows = None if own is None else tables[name].rows_of(own, expected)
        if rows is not None and expected and not 1 / _CLOSE < rows / expected < _CLOSE:
            factors[name] = rows / expected
    return factors


def _zone(frame: DataFrame) -> str:
    return str(frame.sparkSession.conf.get("spark.sql.session.timeZone"))


def _relations(plan: Any, nodes: Iterable[PlanNode], tables: Collection[str]) -> Iterator[tuple[str, Any]]:
    """The relations of some tables in a plan, each with the filter directly over it, None if there is none."""
    for node in nodes:
        table = _table_of(plan.apply(node.number), tables) if node.kind == RELATION else None
        if table is not None and table in tables:
            over = None if node.is_subquery else node.parent
            yield table, plan.apply(over.number) if over is not None and over.kind == "Filter" else None


def _table_of(relation: Any, tables: Collection[str]) -> str | None:
    """The table of a relation; its text usually says it, by one call instead of five."""
    text = relation.simpleString(0)
    named = [table for table in tables if text.startswith(f"Relation {table}[")]
    return named[0] if len(named) == 1 else relation_table(relation)


def to_own_sql(text: str, schema: pa.Schema, zone: str, *, partly: bool = True) -> str | None:
    """Translate a condition to skerry's SQL, without the parts that cannot be translated.

    Args:
        text: A condition on one table in Spark's SQL.
        schema: The table's columns.
        zone: The time zone of the points in time in the text.
        partly: Whether parts may be left out.

    Returns:
        A condition that is true for all rows for which the given one is; None if nothing can be translated, or not all
        that must be.
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
            if partly:
                continue
            return None
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
            case exp.Anonymous(this=str(name), expressions=[column]) if name.lower() == "isnotnull":
                return f"{self._column(column)} IS NOT NULL"
            case exp.Like() | exp.Contains() | exp.EndsWith() if _is_text(node.expression):
                return self._pattern(node)
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
                if isinstance(node.this.unnest(), exp.Column) and isinstance(node.expression.unnest(), exp.Column):
                    return self._of_columns(node, sign)
                if isinstance(node.this.unnest(), exp.Column):
                    return f"{self._column(node.this)} {sign} {self._value(node.expression)}"
                return f"{self._value(node.this)} {sign} {self._column(node.expression)}"
        raise UnsupportedError(f"{node.key} cannot be translated")

    def _of_columns(self, node: Any, sign: str) -> str:
        """Translate a comparison of two columns.

        Raises:
            UnsupportedError: Their types differ, or are floating, of which NaN and -0.0 are compared by other rules.
        """
        sides = [self._column(side) for side in (node.this, node.expression)]
        types = [self._schema.field(side.unnest().name).type for side in (node.this, node.expression)]
        if types[0] != types[1] or pa.types.is_floating(types[0]) or pa.types.is_nested(types[0]):
            raise UnsupportedError("columns whose values Spark may compare in another way")
        return f"{sides[0]} {sign} {sides[1]}"

    def _pattern(self, node: Any) -> str:
        """Translate `LIKE`, `contains` and `endswith`.

        Raises:
            UnsupportedError: The pattern has a backslash, which escapes in Spark.
        """
        text, column = node.expression.name, self._column(node.this)
        if "\\" in text:
            raise UnsupportedError("a pattern with an escape")
        if isinstance(node, exp.Like):
            return f"{column} LIKE {_quoted(text)}"
        return f"{'contains' if isinstance(node, exp.Contains) else 'ends_with'}({column}, {_quoted(text)})"

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


def _is_text(node: Any) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)


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
