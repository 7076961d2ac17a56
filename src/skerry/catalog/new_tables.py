"""Tables that are made for rows which are about to come: without them they go again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from skerry.errors import CommitUnknownError
from skerry.iceberg.cleaning.reachability import metadata_files
from skerry.iceberg.table import IcebergTable
from skerry.table.owned_files import PublishStep, owned_files, passed_over

if TYPE_CHECKING:
    from skerry.catalog.catalog import Catalog
    from skerry.catalog.table import Table

__all__ = ["made_for_rows"]


@contextmanager
def made_for_rows(catalog: Catalog, table: Table) -> Iterator[None]:
    """Drop a new table if the block ends by an exception and has brought it no rows.

    Nothing but its metadata is deleted: what a commit under way names stays, and the commit finds no table any more.
    """
    inner = table.implementation
    with owned_files(inner.state.storage) as files:
        PublishStep((), files)  # the catalog refers to them
        try:
            yield
        except CommitUnknownError:
            raise
        except BaseException:
            with passed_over("the new table was not removed"):
                if not table.refresh().snapshots():
                    is_iceberg = isinstance(inner, IcebergTable)
                    if is_iceberg:
                        files.add(*metadata_files(inner.state))
                    catalog.drop_table(table.name, purge=not is_iceberg)
                    files.unpublish()
            raise
