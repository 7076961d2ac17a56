"""The public entry point: `connect` to a catalog, load its tables; the clauses of a merge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skerry.catalog.catalog import Catalog
from skerry.catalog.connection import connect
from skerry.catalog.table_opening import open_table
from skerry.table.table import Table

if TYPE_CHECKING:
    from skerry.table.merging import Delete as Delete
    from skerry.table.merging import Insert as Insert
    from skerry.table.merging import Update as Update

__all__ = ["Catalog", "Delete", "Insert", "Table", "Update", "connect", "open_table"]


def __getattr__(name: str) -> Any:
    """The clauses of a merge, which load when they are first asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from skerry.table import merging

    return getattr(merging, name)
