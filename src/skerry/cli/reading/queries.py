"""`skerry sql`: statements, one or many, or a prompt; `skerry explain`: the join order of a query."""

from __future__ import annotations

import contextlib
import csv
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from skerry.cli.display import print_json
from skerry.cli.options import catalog_options, json_option, open_catalog
from skerry.cli.wording import in_commands

if TYPE_CHECKING:
    import pyarrow as pa

    from skerry.catalog import Catalog
    from skerry.planner.explanation import QueryPlan, SelectPlan
    from skerry.planner.ordering import JoinStep
    from skerry.planner.relations import Estimate, Relation

__all__ = ["explain", "sql"]

_PROMPT: Final = "skerry> "
_MORE: Final = "   ...> "
_HISTORY_LINES: Final = 10_000
_WORDS: Final = (
    "ALTER TABLE", "AS OF", "BETWEEN", "CREATE TABLE", "DELETE FROM", "DESCRIBE", "DROP TABLE", "FROM", "GROUP BY",
    "INSERT INTO", "JOIN", "LIKE", "LIMIT", "MERGE INTO", "ORDER BY", "SELECT", "SHOW TABLES", "UPDATE", "VALUES",
    "WHERE",
)  # fmt: skip


@click.command()
@click.option("-c", "--command", "text", metavar="SQL", help="Run this, and end; several statements end with ;.")
@click.option("--csv", "as_csv", is_flag=True, help="Print rows as CSV with a header.")
@click.option("--read-only", is_flag=True, help="Refuse statements that change tables.")
@catalog_options
@json_option
def sql(
    text: str | None, as_csv: bool, read_only: bool, warehouse: str, properties: tuple[str, ...], as_json: bool
) -> None:
    """Run SQL: queries, and statements that change tables.

    Without -c a terminal gets a prompt with history and completion; otherwise statements are read from standard input.
    Needs DuckDB: pip install 'skerry[duckdb]'.
    """
    catalog = open_catalog(warehouse, properties)
    if text is None and sys.stdin.isatty():
        _converse(catalog, as_json=as_json, as_csv=as_csv, read_only=read_only)
        return
    for statement in _statements(sys.stdin.read() if text is None else text):
        _print(catalog.sql(statement, read_only=read_only), as_json=as_json, as_csv=as_csv)


def _statements(text: str) -> Iterator[str]:
    """The statements of a text, which semicolons separate."""
    from sqlglot import tokenize
    from sqlglot.errors import SqlglotError

    from skerry.planner.tables import invalid_query

    try:
        tokens = tokenize(text, read="duckdb")
    except SqlglotError as error:
        raise invalid_query(error) from None
    start = 0
    for end in [token.start for token in tokens if token.text == ";"] + [len(text)]:
        if text[start:end].strip():
            yield text[start:end].strip()
        start = end + 1


def _print(rows: pa.Table, *, as_json: bool, as_csv: bool) -> None:
    from skerry.cli.rows import TERMINAL_ROWS, print_rows

    if as_csv:
        from skerry.cli.rows import text_rows

        csv.writer(sys.stdout, lineterminator="\n").writerows([rows.column_names, *text_rows(rows)])
    else:
        print_rows(rows, as_json=as_json, at_most=TERMINAL_ROWS)


# ---- the prompt ----


def _converse(catalog: Catalog, *, as_json: bool, as_csv: bool, read_only: bool) -> None:
    """Read and run statements until the end of input; an error ends a statement, not the prompt."""
    from skerry.errors import SkerryError

    keep = _with_history(catalog)
    print(f"{catalog.name}: SQL statements end with ;  \\q or Ctrl-D leaves")
    pending = ""
    while True:
        try:
            line = input(_MORE if pending else _PROMPT)
        except KeyboardInterrupt:
            pending = ""
            print()
            continue
        except EOFError:
            print()
            break
        if not pending and line.strip() in ("\\q", "exit", "quit"):
            break
        pending += line + "\n"
        if not line.rstrip().endswith(";"):
            pending = pending if pending.strip() else ""
            continue
        try:
            for statement in _statements(pending):
                _print(catalog.sql(statement, read_only=read_only), as_json=as_json, as_csv=as_csv)
        except SkerryError as error:
            print(f"error: {in_commands(str(error))}", file=sys.stderr)
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
        pending = ""
    keep()


def _with_history(catalog: Catalog) -> Any:
    """Start history and completion, where Python has readline; returns what writes the history down."""
    try:
        import readline
    except ImportError:
        return lambda: None
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "skerry"
    history = folder / "sql_history"
    with contextlib.suppress(OSError):
        readline.read_history_file(history)
    readline.set_history_length(_HISTORY_LINES)
    readline.set_completer_delims(" \t\n,();=<>")
    readline.set_completer(_Completer(catalog).complete)
    readline.parse_and_bind("tab: complete")

    def keep() -> None:
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(history)
            history.chmod(0o600)

    return keep


class _Completer:
    """Completes keywords, names of tables, and columns of tables that the line names."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._tables: list[str] | None = None
        self._columns: dict[str, list[str]] = {}
        self._found: list[str] = []

    def complete(self, text: str, state: int) -> str | None:
        """The choice of a number for a beginning of a word, as readline asks."""
        if state == 0:
            import readline

            self._found = self.choices(text, readline.get_line_buffer())
        return self._found[state] if state < len(self._found) else None

    def choices(self, text: str, line: str) -> list[str]:
        """What a word may become in a line."""
        from skerry.errors import SkerryError

        if self._tables is None:
            try:
                self._tables = self._catalog.list_tables()
            except SkerryError:
                self._tables = []
        for table in self._tables:
            if table in line and table not in self._columns:
                try:
                    self._columns[table] = list(self._catalog.load_table(table).schema.names)
                except SkerryError:
                    self._columns[table] = []
        named = [column for table, columns in self._columns.items() if table in line for column in columns]
        words = [word if text.isupper() or not text else word.lower() for word in _WORDS]
        return sorted({word for word in (*self._tables, *named, *words) if word.startswith(text)})


# ---- plans ----


@click.command()
@click.argument("query", metavar="SQL", help="The query; - reads it from standard input.")
@catalog_options
@json_option
def explain(query: str, warehouse: str, properties: tuple[str, ...], as_json: bool) -> None:
    """Print how many rows the conditions and joins of a query leave, and the join order with the fewest rows.

    Only statistics are used: no data file is read. Every number comes with its bounds. `skerry scan --explain` shows
    which files a scan of one table reads, and why the others are skipped.
    """
    plan = open_catalog(warehouse, properties).explain(sys.stdin.read() if query == "-" else query)
    print_json(_describe(plan)) if as_json else print(plan)


def _describe(plan: QueryPlan) -> dict[str, Any]:
    return {"selects": [_select(select) for select in plan.selects], "sql": plan.sql}


def _select(select: SelectPlan) -> dict[str, Any]:
    return {
        **_rows(select.rows),
        "inputs": [_input(relation) for relation in select.joins.relations],
        "reordered": select.joins.reordered,
        "joins": [_join(step) for step in select.joins.steps],
        "assumed": list(select.joins.assumptions),
    }


def _input(relation: Relation) -> dict[str, Any]:
    return {
        "name": relation.name,
        "table": relation.table,
        "where": list(relation.where),
        "total_rows": round(relation.rows.rows),
        **_rows(relation.filtered),
    }


def _join(step: JoinStep) -> dict[str, Any]:
    sides = {"left": list(step.left), "right": list(step.right), "on": list(step.on)}
    return {**sides, **_rows(step.rows), "broadcast": step.broadcast, "how": step.how}


def _rows(estimate: Estimate) -> dict[str, float | None]:
    """An estimate with its bounds; an unknown upper bound is null."""
    found = {"rows": estimate.rows, "rows_lower": estimate.lower, "rows_upper": estimate.upper}
    return {name: round(value, 1) if math.isfinite(value) else None for name, value in found.items()}
