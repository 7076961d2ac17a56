"""The application: all commands by name."""

from __future__ import annotations

from typing import Annotated

import typer

from skerry._version import __version__
from skerry.cli.analyze import analyze
from skerry.cli.changing import delete, upsert
from skerry.cli.compact import compact
from skerry.cli.expire import expire
from skerry.cli.explain import explain
from skerry.cli.failures import ReportingGroup
from skerry.cli.health import health
from skerry.cli.ingest import ingest
from skerry.cli.inspect import inspect
from skerry.cli.joinable import joinable
from skerry.cli.listing import ls, show
from skerry.cli.migrate import migrate
from skerry.cli.orphans import remove_orphans
from skerry.cli.refs import refs
from skerry.cli.relocate import relocate
from skerry.cli.rewrite import rewrite_deletes, rewrite_manifests
from skerry.cli.scan import scan
from skerry.cli.stats import stats

__all__ = ["app"]

app = typer.Typer(
    name="skerry",
    cls=ReportingGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"skerry {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[
        bool, typer.Option("--debug", envvar="SKERRY_DEBUG", help="Also print the traceback of an error.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Lakehouse tables whose statistics arrive with their rows.

    Results are tables in a terminal, tab-separated values in a pipe, and JSON with --json.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 conflict with another writer (nothing changed, try again), 4 outcome
    of a commit unknown (look at the table first).
    """


for _command in (
    ingest,
    ls,
    show,
    stats,
    health,
    analyze,
    scan,
    delete,
    upsert,
    compact,
    expire,
    remove_orphans,
    rewrite_manifests,
    rewrite_deletes,
    migrate,
    relocate,
    joinable,
    explain,
    inspect,
):
    app.command()(_command)
app.add_typer(refs, name="refs")
