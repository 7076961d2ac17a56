"""The table format's own object behind a public table, for work that executors do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skerry.errors import UnsupportedError
from skerry.iceberg.table import IcebergTable

if TYPE_CHECKING:
    from skerry.catalog import Table

__all__ = ["iceberg_table"]


def iceberg_table(table: Table) -> IcebergTable:
    """The Iceberg table behind a public one.

    Raises:
        UnsupportedError: It is of another format.
    """
    implementation = table.implementation
    if isinstance(implementation, IcebergTable):
        return implementation
    raise UnsupportedError(
        f"Spark jobs do not take {table.format} tables yet; use the methods of the table", location=table.name
    )
