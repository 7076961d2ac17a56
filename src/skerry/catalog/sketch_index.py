"""The sketches of all tables of a catalog, kept from one question to the next.

What a table has is known by its metadata file: as long as a catalog names the same one, nothing has changed. An SQL
catalog names those of all tables in one query; others are asked table by table, in threads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from sqlalchemy import select
from sqlalchemy.orm import Session

from skerry.errors import SkerryError
from skerry.iceberg.commit import load_state
from skerry.iceberg.sketch_cache import table_sketches
from skerry.table.joinable import NotCompared, TableSketches

__all__ = ["SketchIndex"]

_THREADS = 8


class SketchIndex:
    """The fresh sketches of a catalog's tables; what has not changed since it was last asked is not read again.

    Args:
        catalog: The PyIceberg catalog.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._tables: dict[str, tuple[str, TableSketches]] = {}
        self._lock = threading.Lock()

    def read(self, names: Iterable[str]) -> tuple[list[TableSketches], list[NotCompared]]:
        """Bring the index up to date.

        Args:
            names: The tables to know of; others are forgotten.

        Returns:
            The tables' sketches in the order of their names, and the tables that could not be read, with the reason.
        """
        wanted = sorted(names)
        with self._lock:
            locations = self._metadata_locations()
            stale = [
                name for name in wanted if name not in self._tables or self._tables[name][0] != locations.get(name)
            ]
            broken = []
            with ThreadPoolExecutor(_THREADS, thread_name_prefix="skerry-sketches") as pool:
                for name, found in zip(stale, pool.map(self._load, stale), strict=True):
                    if isinstance(found, SkerryError):
                        self._tables.pop(name, None)
                        broken.append(NotCompared(name, None, str(found)))
                    else:
                        self._tables[name] = found
            self._tables = {name: self._tables[name] for name in wanted if name in self._tables}
            return [sketches for _, sketches in self._tables.values()], broken

    def _metadata_locations(self) -> dict[str, str | None]:
        """Metadata files by table, where the catalog tells them all at once."""
        if not isinstance(self._catalog, SqlCatalog):
            return {}
        query = select(IcebergTables).where(IcebergTables.catalog_name == self._catalog.name)
        with Session(self._catalog.engine) as session:
            rows = session.scalars(query)
            return {f"{row.table_namespace}.{row.table_name}": row.metadata_location for row in rows}

    def _load(self, name: str) -> tuple[str, TableSketches] | SkerryError:
        """A table's metadata file and sketches; the error of a table that cannot be read is part of the answer."""
        try:
            state = load_state(self._catalog, tuple(name.split(".")))
            known = self._tables.get(name)
            if known is not None and known[0] == state.metadata_location:
                return known
            return state.metadata_location, table_sketches(state)
        except SkerryError as error:
            return error
