"""The application: all commands by name."""

from __future__ import annotations

import click

from skerry._version import __version__
from skerry.cli.commands import LazyCommands
from skerry.cli.failures import ReportingGroup

__all__ = ["app"]

_COMMANDS = LazyCommands(
    {
        "ingest": "skerry.cli.ingest",
        "ls": "skerry.cli.listing",
        "show": "skerry.cli.listing",
        "stats": "skerry.cli.stats",
        "health": "skerry.cli.health",
        "analyze": "skerry.cli.analyze",
        "scan": "skerry.cli.scan",
        "search": "skerry.cli.indexing",
        "index": "skerry.cli.indexing",
        "append": "skerry.cli.changing",
        "update": "skerry.cli.changing",
        "delete": "skerry.cli.changing",
        "upsert": "skerry.cli.changing",
        "compact": "skerry.cli.compact",
        "expire": "skerry.cli.expire",
        "remove-orphans": "skerry.cli.orphans",
        "rewrite-manifests": "skerry.cli.rewrite",
        "rewrite-deletes": "skerry.cli.rewrite",
        "rewrite-file-indexes": "skerry.cli.rewrite",
        "migrate": "skerry.cli.migrate",
        "copy": "skerry.cli.copying",
        "relocate": "skerry.cli.relocate",
        "joinable": "skerry.cli.joinable",
        "sql": "skerry.cli.queries",
        "explain": "skerry.cli.queries",
        "inspect": "skerry.cli.inspect",
        "serve": "skerry.cli.inspect",
        "refs": "skerry.cli.refs",
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
