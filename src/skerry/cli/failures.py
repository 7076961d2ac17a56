"""Errors on the command line: one clear line and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

import typer
from typer.core import TyperGroup

from skerry.errors import CommitUnknownError, ConflictError, SkerryError

__all__ = ["ReportingGroup"]

FAILED, CONFLICT, UNKNOWN, INTERRUPTED, PIPE_CLOSED = 1, 3, 4, 130, 141


class ReportingGroup(TyperGroup):
    """The group of all commands: turns errors of skerry into a line on standard error and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        try:
            return super().invoke(ctx)
        except SkerryError as error:
            if ctx.params.get("debug"):
                traceback.print_exc()
            _report(str(error))
            raise typer.Exit(_exit_code(error)) from None
        except KeyboardInterrupt:
            _report("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # Whoever read the output has seen enough; the interpreter must not try to flush what is left.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(PIPE_CLOSED) from None


def _exit_code(error: SkerryError) -> int:
    if isinstance(error, ConflictError):
        return CONFLICT
    return UNKNOWN if isinstance(error, CommitUnknownError) else FAILED


def _report(message: str) -> None:
    line = " ".join(message.split())
    typer.secho("error: ", fg=typer.colors.RED, bold=True, err=True, nl=False)
    typer.echo(line, err=True)
