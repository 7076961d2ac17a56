"""Error handling of the command line: one clear line and an exit code."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from typing import Any

import click

from skerry.cli.commands import SectionedGroup
from skerry.errors import CommitUnknownError, ConflictError, SkerryError

__all__ = ["ReportingGroup"]

FAILED, CONFLICT, UNKNOWN, INTERRUPTED, PIPE_CLOSED = 1, 3, 4, 130, 141


class ReportingGroup(SectionedGroup):
    """The group of all commands: reports skerry's errors as one line on standard error and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the named command."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except (KeyboardInterrupt, Exception) as error:
            code = _exit_code(error)
            if code is None:
                raise
            if ctx.params.get("debug"):
                traceback.print_exc()
            if code == PIPE_CLOSED or _is_output(error):
                # The reader has gone, or nothing can be written: the interpreter must not flush the rest.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if code != PIPE_CLOSED:
                _report(error)
            raise click.exceptions.Exit(code) from None


def _exit_code(error: BaseException) -> int | None:
    """The exit code of an error; None for those that click reports itself, such as wrong usage."""
    if isinstance(error, click.ClickException | click.Abort | click.exceptions.Exit):
        return None
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    return FAILED


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (ConflictError, CONFLICT),
    (CommitUnknownError, UNKNOWN),
    (KeyboardInterrupt, INTERRUPTED),
    (BrokenPipeError, PIPE_CLOSED),
)


def _is_output(error: BaseException) -> bool:
    """Whether standard output could not be written; errors of files that skerry reads and writes have other classes."""
    return isinstance(error, OSError) and not isinstance(error, SkerryError) and error.errno in _FULL


def _report(error: BaseException) -> None:
    if isinstance(error, SkerryError):
        from skerry.cli.wording import in_commands

        message = in_commands(str(error))
    elif isinstance(error, KeyboardInterrupt):
        message = "interrupted"
    elif _is_output(error) and isinstance(error, OSError):
        message = f"the output cannot be written: {error.strerror}"
    else:
        message = f"{type(error).__name__}: {error} (unexpected; skerry --debug … prints the traceback)"
    click.secho("error: ", fg="red", bold=True, err=True, nl=False)
    click.echo(" ".join(message.split()), err=True)
    if isinstance(error, SkerryError) and sys.stderr.isatty():
        click.secho(f"{type(error).__name__}: what to do is in {error.help}", dim=True, err=True)
