"""The command line: `skerry ingest|ls|show|stats|scan|delete|upsert`.

It computes nothing: what it prints comes from `skerry.catalog` and `skerry.spark`. They load when a command needs
them, so that help answers at once.

Exit codes: 0 done; 1 the request or the data is wrong, or something is missing; 2 wrong usage of the command line;
3 another writer won, nothing was changed, trying again is safe; 4 the outcome of a commit is unknown, look at the table
before trying again; 130 interrupted; 141 the reader of the output has gone.
"""

from __future__ import annotations

import io
import sys

__all__ = ["main"]


class _NoPandas:
    """Finds no pandas, whether it is installed or not.

    PyArrow imports it at the first value that it takes from Python, which takes a third of a second; no command but the
    one on Spark has any use for it.
    """

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Refuse one name, and leave all others to the next finder.

        Raises:
            ModuleNotFoundError: It is pandas.
        """
        if name == "pandas":
            raise ModuleNotFoundError("the command line does without pandas", name=name)


def main() -> None:
    """Run the command line of this process."""
    if "ingest" not in sys.argv:
        sys.meta_path.insert(0, _NoPandas)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # what the output's encoding lacks is no reason to fail
    from skerry.cli.app import app

    app()
