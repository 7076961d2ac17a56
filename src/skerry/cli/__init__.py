"""The command line: `skerry ingest|ls|show|stats|scan|delete|upsert`.

It computes nothing: what it prints comes from `skerry.catalog` and `skerry.spark`. They load when a command needs
them, so that help answers at once.

Exit codes: 0 done; 1 the request or the data is wrong, or something is missing; 2 wrong usage of the command line;
3 another writer won, nothing was changed, trying again is safe; 4 the outcome of a commit is unknown, look at the table
before trying again; 130 interrupted; 141 the reader of the output has gone.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line of this process."""
    from skerry.cli.app import app

    app()
