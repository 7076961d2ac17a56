"""The tables of a query: parsing of its text, keys for the tables, and queries in the place of views."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from skerry.errors import FormatError, SchemaError, UnsupportedError
from skerry.planner.inputs import check_inputs
from skerry.variant import is_variant

__all__ = ["AS_OF", "TableUse", "ViewText", "invalid_query", "parse_tree", "resolve_tables", "stored_column"]

_ESCAPE: Final = re.compile(r"\x1b\[[0-9;]*m")
_MAX_VIEWS: Final = 1000
"""Views of views may be many more than their definitions."""


@dataclass(slots=True)
class TableUse:
    """One reference to a table in a query.

    Args:
        key: The table's name in the executed query.
        table: Its name in the catalog.
        schema: Its columns.
        columns: Those that the query needs, in the order of the schema, then values inside of variants.
        where: Conditions that can be evaluated when the table is read.
    """

    key: str
    table: str
    schema: pa.Schema
    columns: list[str] = field(default_factory=list)
    where: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ViewText:
    """A view that a query names.

    Args:
        name: Its dotted name.
        sql: Its query.
        dialect: The dialect of SQL, by a name that sqlglot knows.
        columns: Names of its columns.
        namespace: The namespace of tables that its query names without one.
        catalogs: Names by which its query may call the catalog.
    """

    name: str
    sql: str
    dialect: str
    columns: Sequence[str]
    namespace: Sequence[str]
    catalogs: Sequence[str]


def stored_column(column: Any, schema: pa.Schema) -> tuple[Any, Any, pa.DataType | None]:
    """A column in a query, or the field of a struct that is asked of it, as the table spells it.

    Args:
        column: The column, in a tree.
        schema: The table's.

    Returns:
        What of the tree is the column or field; the same without the table's name, quoted; and its type, None if the
        table does not have it.
    """
    value, names = column, [column.name]
    while isinstance(value.parent, exp.Dot) and value.parent.this is value:
        value = value.parent
        names.append(value.name)
    type_: pa.DataType | None = None
    fields: list[pa.Field] = list(schema)
    for number, name in enumerate(names):
        alike = [field for field in fields if field.name.lower() == name.lower()]
        type_ = alike[0].type if len(alike) == 1 else None
        names[number] = name if type_ is None else alike[0].name
        fields = list(type_) if type_ is not None and pa.types.is_struct(type_) and not is_variant(type_) else []
    quoted = [exp.to_identifier(name, quoted=True) for name in names]
    return value, exp.Dot.build([exp.column(quoted[0]), *quoted[1:]]) if names[1:] else exp.column(quoted[0]), type_


AS_OF: Final = "\0as of "
"""What separates a table's name from the version of it that a query reads, `version:7` for example."""


def invalid_query(error: Exception) -> FormatError:
    """The error for what sqlglot cannot parse, without its escape sequences for terminals."""
    return FormatError(f"not a valid SQL query: {_ESCAPE.sub('', str(error))}")


def parse_tree(sql: str, dialect: str) -> Any:
    """The tree of one query.

    Args:
        sql: The text.
        dialect: The dialect of SQL.

    Raises:
        FormatError: It is not one statement.
        SqlglotError: It is not valid SQL.
        UnsupportedError: It is another statement, or has inputs that are not allowed.
    """
    statements = [tree for tree in sqlglot.parse(sql, dialect=dialect) if tree is not None]
    if len(statements) != 1:
        raise FormatError(f"expected one query, found {len(statements)} statements")
    tree: Any = statements[0]
    if not isinstance(tree, exp.Query):
        raise UnsupportedError(f"expected a query, found {tree.key.upper()}")
    check_inputs(tree)
    return tree


def resolve_tables(
    tree: Any, relation_of: Callable[[str], pa.Schema | ViewText], view: ViewText | None = None
) -> tuple[list[TableUse], list[ViewText]]:
    """Give every table of the catalog its key, and put queries in the place of views; names of CTEs stay.

    Args:
        tree: A query, which is changed.
        relation_of: Returns the schema of a table of the catalog by its dotted name, or a view; raises NotFoundError.
        view: The view whose query it is, if any.

    Returns:
        The tables, and the views.

    Raises:
        FormatError: The query of a view is not valid.
        SchemaError: A view refers to itself.
        UnsupportedError: A table's columns differ only in case, or the query of a view is not supported.
    """
    resolver = _Resolver(relation_of)
    resolver.resolve(tree, () if view is None else (view,), "skerry_")
    return resolver.uses, resolver.views


class _Resolver:
    def __init__(self, relation_of: Callable[[str], pa.Schema | ViewText]) -> None:
        self.uses: list[TableUse] = []
        self._relation_of = relation_of
        self.views: list[ViewText] = []

    def resolve(self, tree: Any, views: tuple[ViewText, ...], prefix: str) -> None:
        """Resolve the tables of a query.

        Args:
            tree: The query.
            views: The views around it, outer ones first.
            prefix: What keys begin with.
        """
        ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
        while any(name.startswith(prefix) for name in ctes):
            prefix += "_"
        for table in list(tree.find_all(exp.Table)):
            if not table.args.get("db") and table.name.lower() in ctes:
                continue
            name = _full_name([part.name for part in table.parts], views) + _taken_version(table)
            relation = self._relation_of(name)
            if not table.alias:
                table.set("alias", exp.TableAlias(this=table.this.copy()))
            if isinstance(relation, ViewText):
                self._put_view(table, relation, views, prefix)
            else:
                self._put_key(table, name, relation, prefix)

    def _put_key(self, table: Any, name: str, schema: pa.Schema, prefix: str) -> None:
        if len({column.lower() for column in schema.names}) < len(schema.names):
            raise UnsupportedError(f"columns of {name} differ only in case, which SQL does not distinguish")
        use = TableUse(f"{prefix}{len(self.uses)}", name, schema)
        self.uses.append(use)
        for part in ("db", "catalog"):
            table.set(part, None)
        table.set("this", exp.to_identifier(use.key))

    def _put_view(self, table: Any, view: ViewText, around: tuple[ViewText, ...], prefix: str) -> None:
        """Put a view's query in the place of its name; its columns are called as the view says."""
        self.views.append(view)
        if len(self.views) > _MAX_VIEWS:
            raise UnsupportedError(f"a query of more than {_MAX_VIEWS} views is not supported")
        query = _parse_view(view, around)
        self.resolve(query, (*around, view), prefix)
        alias = table.args["alias"]
        if not alias.args.get("columns"):
            alias.set("columns", [exp.to_identifier(name, quoted=True) for name in view.columns])
        rest = {key: value for key, value in table.args.items() if key not in ("this", "db", "catalog", "alias")}
        table.replace(exp.Subquery(this=query, alias=alias, **rest))


def _taken_version(table: Any) -> str:
    """The version of a table that a query names, in the form in which it is part of the table's name."""
    version = table.args.get("version")
    if version is None:
        return ""
    value = version.expression
    if version.this not in ("VERSION", "TIMESTAMP") or version.args.get("kind") != "AS OF":
        raise UnsupportedError(f"{version.sql(dialect='duckdb')} is not supported: FOR VERSION or TIMESTAMP AS OF is")
    if isinstance(value, exp.Cast):
        value = value.this
    if not isinstance(value, exp.Literal):
        raise UnsupportedError(f"the version of a table must be a constant, found {value.sql(dialect='duckdb')}")
    table.set("version", None)
    kind = "ref" if version.this == "VERSION" and value.is_string else version.this.lower()
    return f"{AS_OF}{kind}:{value.this}"


def _full_name(parts: Sequence[str], views: Sequence[ViewText]) -> str:
    """The dotted name of a table in the catalog; in the query of a view, its namespace and catalog may be left out."""
    if views:
        view = views[-1]
        if len(parts) == 1:
            parts = [*view.namespace, *parts]
        elif len(parts) > 2 and parts[0] in view.catalogs:
            parts = parts[1:]
    return ".".join(parts)


def _parse_view(view: ViewText, around: Sequence[ViewText]) -> Any:
    """The tree of a view's query.

    Raises:
        FormatError: It cannot be parsed.
        SchemaError: The view is in its own query.
        UnsupportedError: It uses what is not supported, or another number of columns than the view has.
    """
    if view.name in (outer.name for outer in around):
        raise SchemaError(f"views refer to each other: {' → '.join(one.name for one in (*around, view))}")
    try:
        tree = parse_tree(view.sql, view.dialect)
    except SqlglotError as error:
        raise FormatError(f"view {view.name!r}: {invalid_query(error).message}") from None
    except (FormatError, UnsupportedError) as error:
        error.message = f"view {view.name!r}: {error.message}"
        raise
    if not tree.is_star and len(tree.selects) != len(view.columns):
        raise FormatError(f"view {view.name!r} has {len(view.columns)} columns, its query {len(tree.selects)}")
    return tree
