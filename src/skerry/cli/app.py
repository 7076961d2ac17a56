"""The application: all commands by name."""

from __future__ import annotations

import click

from skerry._version import __version__
from skerry.cli.commands import LazyCommands
from skerry.cli.failures import ReportingGroup

__all__ = ["app"]

_SECTIONS = {
    "Look": {
        "ls": ("reading.listing", "List tables: rows, size, state of their statistics."),
        "show": ("reading.listing", "Show a table: schema, partitions, snapshots, files."),
        "stats": ("reading.stats", "Show distinct counts, nulls and bounds of columns."),
        "scan": ("reading.scan", "Print the rows that meet a condition."),
        "search": ("upkeep.indexing", "Find rows by the words of a column."),
        "changes": ("reading.changes", "Print what changed between two snapshots."),
        "sql": ("reading.queries", "Run SQL: a prompt, a statement or a script."),
        "explain": ("reading.queries", "Estimate the joins of a query, and order them."),
        "joinable": ("reading.joinable", "Find columns that share values with one."),
        "inspect": ("reading.inspect", "Show metadata of a table, or the parts of a file."),
        "health": ("reading.health", "Check a table, and say what mends it."),
        "serve": ("reading.inspect", "Open the local page that shows tables and files."),
    },
    "Change rows": {
        "append": ("writing.changing", "Append the rows of files."),
        "ingest": ("writing.ingest", "Append files through Spark."),
        "overwrite": ("writing.changing", "Replace rows by those of files."),
        "update": ("writing.changing", "Compute new values of columns."),
        "delete": ("writing.changing", "Delete the rows that meet a condition."),
        "upsert": ("writing.changing", "Update rows by key, and insert the others."),
    },
    "Change tables": {
        "create": ("writing.tables", "Create a table or a namespace."),
        "alter": ("writing.tables", "Change columns, partitions, order or version."),
        "set": ("writing.tables", "Set properties of a table."),
        "rename": ("writing.tables", "Rename a table."),
        "drop": ("writing.tables", "Remove a table or an empty namespace."),
        "refs": ("writing.refs", "List, create, move and drop branches and tags."),
    },
    "Maintain": {
        "compact": ("upkeep.compact", "Rewrite many data files as a few."),
        "expire": ("upkeep.expire", "Remove old snapshots, and files that only they need."),
        "analyze": ("upkeep.analyze", "Sketch the rows that other writers have added."),
        "index": ("upkeep.indexing", "Build the indexes that data files lack."),
        "remove-orphans": ("upkeep.orphans", "Delete files that nothing needs."),
        "rewrite-manifests": ("upkeep.rewrite", "Rewrite many manifests as a few."),
        "rewrite-deletes": ("upkeep.rewrite", "Merge the delete files of each data file."),
        "rewrite-file-indexes": ("upkeep.rewrite", "Index the files of a Paimon table again."),
    },
    "Move": {
        "copy": ("moving.copying", "Copy a table to another folder or store."),
        "migrate": ("moving.migrate", "Turn a folder into a table; change a table's format."),
        "relocate": ("moving.relocate", "Move a table; make a moved warehouse whole again."),
    },
}


@click.group(
    cls=ReportingGroup,
    name="skerry",
    commands=LazyCommands(
        {name: f"skerry.cli.{module}" for part in _SECTIONS.values() for name, (module, _) in part.items()}
    ),
    sections={title: {name: summary for name, (_, summary) in part.items()} for title, part in _SECTIONS.items()},
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.option(
    "--debug", is_flag=True, envvar="SKERRY_DEBUG", show_envvar=True, help="Also print the traceback of an error."
)
@click.version_option(__version__, message="skerry %(version)s", help="Print the version.")
def app(debug: bool) -> None:
    """Lakehouse tables whose statistics arrive with their rows.

    To begin: `skerry append shop.sales sales.csv --create`, then `skerry serve`.

    Results are tables in a terminal, tab-separated values in a pipe, and JSON with --json.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 conflict with another writer (nothing changed, try again), 4 outcome
    of a commit unknown (look at the table first).
    """
