"""The allowed inputs of a query: tables of the catalog, its own subqueries and lists, and nothing of the host machine.

DuckDB accepts any function, and any text, as a table: files, addresses, its own settings. Queries are untrusted, so
only inputs that are known to be harmless pass; in addition, the caller locks down the engine.
"""

from __future__ import annotations

from typing import Any, Final

from sqlglot import exp

from skerry.errors import UnsupportedError

__all__ = ["check_inputs"]

_DIALECT: Final = "duckdb"
_REFUSED: Final = frozenset(
    {"current_setting", "getenv", "getvariable", "query", "query_table", "sleep_ms", "write_log"}
)
"""Functions of DuckDB that read the process instead of the rows."""


def check_inputs(tree: Any) -> None:
    """Refuse table functions, statements within the query, and functions that read the process.

    Args:
        tree: sqlglot's tree of a query.

    Raises:
        UnsupportedError: It has one; the message shows it.
    """
    inputs = (exp.Query, exp.Table, exp.Unnest, exp.Values, exp.Lateral, exp.Pivot, exp.Paren)
    for node in tree.find_all(exp.From, exp.Join, exp.Lateral, exp.Subquery, exp.Pivot):
        inner = node.this
        if inner is not None and not isinstance(inner, inputs):
            raise UnsupportedError(f"table functions are not supported: {_text(inner)}")
    for table in tree.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier):
            raise UnsupportedError(f"table functions are not supported: {_text(table)}")
    for statement in tree.find_all(
        exp.DML, exp.DDL, exp.Command, exp.Describe, exp.Copy, exp.Attach, exp.Set, exp.Pragma
    ):
        if not isinstance(statement, exp.Query):
            raise UnsupportedError(f"a query must only read, found {statement.key.upper()}: {_text(statement)}")
    for function in tree.find_all(exp.Anonymous):
        if function.name.lower() in _REFUSED:
            raise UnsupportedError(f"function {function.name.lower()} is not supported: it does not depend on rows")


def _text(node: Any) -> str:
    return str(node.sql(dialect=_DIALECT))[:200]
