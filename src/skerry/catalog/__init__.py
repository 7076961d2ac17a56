"""The public way in: `connect` to a catalog, load its tables; the clauses of a merge."""

from skerry.catalog.catalog import Catalog
from skerry.catalog.connection import connect
from skerry.catalog.table import Table
from skerry.table.merging import Delete, Insert, Update

__all__ = ["Catalog", "Delete", "Insert", "Table", "Update", "connect"]
