"""The command line program `skerry`; its commands are listed in `skerry.cli.app`.

It computes nothing: what it prints comes from `skerry.catalog` and `skerry.spark`. They are imported when a command
needs them, so that help is printed immediately.

Exit codes: 0 done; 1 the request or the data is wrong, or something is missing; 2 wrong usage of the command line;
3 another writer won, nothing was changed, trying again is safe; 4 the outcome of a commit is unknown, look at the table
before trying again; 130 interrupted; 141 the reader of the output has gone.
"""

from __future__ import annotations

import gc
import io
import sys
import warnings
from typing import TextIO

__all__ = ["main"]


class _NoPandas:
    """An import hook that hides pandas, whether it is installed or not.

    PyArrow imports pandas when it first converts a Python value, which takes a third of a second; only the command that
    runs on Spark uses it.
    """

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Refuse one name and leave all others to the next finder.

        Raises:
            ModuleNotFoundError: The name is pandas.
        """
        if name == "pandas":
            raise ModuleNotFoundError("the command line does not use pandas", name=name)


# Importing a command makes some eighty thousand objects that all live until the process ends. The collector would look
# for garbage among them again and again, for a tenth of the time of a short command.
_OBJECTS_BETWEEN_COLLECTIONS = 100_000


def _print_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning as errors are printed: one line, without the place in the library that gave it."""
    if issubclass(category, UserWarning):
        print("warning:", " ".join(str(message).split()), file=sys.stderr)


def main() -> None:
    """Run the command line of this process."""
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    if "ingest" not in sys.argv:
        sys.meta_path.insert(0, _NoPandas)
    warnings.showwarning = _print_warning
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a character that the output's encoding lacks must not fail a command
    from skerry.cli.app import app

    try:
        app(prog_name="skerry")
    finally:
        gc.freeze()  # nor need the interpreter look at them once more at its end
