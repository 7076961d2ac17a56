"""The public entry point: `connect` to a catalog, load its tables; the clauses of a merge."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from skerry.catalog.catalog import Catalog
from skerry.catalog.connection import connect
from skerry.table.table import Table

if TYPE_CHECKING:
    from skerry.catalog.table_opening import open_table as open_table
    from skerry.table.merging import Delete as Delete
    from skerry.table.merging import Insert as Insert
    from skerry.table.merging import Update as Update

__all__ = ["Catalog", "Delete", "Insert", "Table", "Update", "connect", "open_table"]

_WHERE: Final = {
    "Delete": "skerry.table.merging",
    "Insert": "skerry.table.merging",
    "Update": "skerry.table.merging",
    "open_table": "skerry.catalog.table_opening",
}


def __getattr__(name: str) -> Any:
    """What a catalog's tables can be read without, which loads when it is first asked for."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)
