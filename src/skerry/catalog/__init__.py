"""The public entry point: `connect` to a catalog, load its tables; the clauses of a merge."""

from skerry.catalog.catalog import Catalog
from skerry.catalog.connection import connect
from skerry.table.merging import Delete, Insert, Update
from skerry.table.table import Table

__all__ = ["Catalog", "Delete", "Insert", "Table", "Update", "connect"]
