"""The application: all commands by name."""

from __future__ import annotations

import click

from skerry._version import __version__
from skerry.cli.commands import LazyCommands
from skerry.cli.failures import ReportingGroup

__all__ = ["app"]

_COMMANDS = LazyCommands(
    {
        "ingest": "skerry.cli.writing.ingest",
        "ls": "skerry.cli.reading.listing",
        "show": "skerry.cli.reading.listing",
        "stats": "skerry.cli.reading.stats",
        "health": "skerry.cli.reading.health",
        "analyze": "skerry.cli.upkeep.analyze",
        "scan": "skerry.cli.reading.scan",
        "changes": "skerry.cli.reading.changes",
        "search": "skerry.cli.upkeep.indexing",
        "index": "skerry.cli.upkeep.indexing",
        "create": "skerry.cli.writing.tables",
        "drop": "skerry.cli.writing.tables",
        "rename": "skerry.cli.writing.tables",
        "set": "skerry.cli.writing.tables",
        "alter": "skerry.cli.writing.tables",
        "append": "skerry.cli.writing.changing",
        "overwrite": "skerry.cli.writing.changing",
        "update": "skerry.cli.writing.changing",
        "delete": "skerry.cli.writing.changing",
        "upsert": "skerry.cli.writing.changing",
        "compact": "skerry.cli.upkeep.compact",
        "expire": "skerry.cli.upkeep.expire",
        "remove-orphans": "skerry.cli.upkeep.orphans",
        "rewrite-manifests": "skerry.cli.upkeep.rewrite",
        "rewrite-deletes": "skerry.cli.upkeep.rewrite",
        "rewrite-file-indexes": "skerry.cli.upkeep.rewrite",
        "migrate": "skerry.cli.moving.migrate",
        "copy": "skerry.cli.moving.copying",
        "relocate": "skerry.cli.moving.relocate",
        "joinable": "skerry.cli.reading.joinable",
        "sql": "skerry.cli.reading.queries",
        "explain": "skerry.cli.reading.queries",
        "inspect": "skerry.cli.reading.inspect",
        "serve": "skerry.cli.reading.inspect",
        "refs": "skerry.cli.writing.refs",
    }
)


@click.group(
    cls=ReportingGroup,
    name="skerry",
    commands=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.option(
    "--debug", is_flag=True, envvar="SKERRY_DEBUG", show_envvar=True, help="Also print the traceback of an error."
)
@click.version_option(__version__, message="skerry %(version)s", help="Print the version.")
def app(debug: bool) -> None:
    """Lakehouse tables whose statistics arrive with their rows.

    Results are tables in a terminal, tab-separated values in a pipe, and JSON with --json.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 conflict with another writer (nothing changed, try again), 4 outcome
    of a commit unknown (look at the table first).
    """
