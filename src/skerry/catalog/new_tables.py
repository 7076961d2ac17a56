"""Tables created for rows that are about to be written: they are dropped again if that fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from skerry.errors import CommitUnknownError
from skerry.iceberg.cleaning.reachability import metadata_files
from skerry.iceberg.table import IcebergTable
from skerry.table.owned_files import PublishStep, log_failures, owned_files
from skerry.table.table import Table

__all__ = ["made_for_rows"]


class _Tables(Protocol):
    """Can drop tables: a catalog, or its tables of one format."""

    def drop_table(self, name: str, *, purge: bool = False) -> None: ...


@contextmanager
def made_for_rows(catalog: _Tables, table: Table) -> Iterator[None]:
    """Drop a new table if the block raises and has not committed any rows to it.

    Only its metadata is deleted. Files named by a commit in progress stay, and that commit finds that the table is
    gone.
    """
    with owned_files(table.storage) as files:
        PublishStep((), files)  # the catalog refers to them
        try:
            yield
        except CommitUnknownError:
            raise
        except BaseException:
            with log_failures("the new table was not removed"):
                if not table.refresh().snapshots():
                    if isinstance(table, IcebergTable):
                        files.add(*metadata_files(table.handle.state))
                    catalog.drop_table(table.name, purge=not isinstance(table, IcebergTable))
                    files.unpublish()
            raise
