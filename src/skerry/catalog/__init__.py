"""The public way in: `connect` to a catalog, load its tables."""

from skerry.catalog.catalog import Catalog
from skerry.catalog.connection import connect
from skerry.catalog.table import Table

__all__ = ["Catalog", "Table", "connect"]
