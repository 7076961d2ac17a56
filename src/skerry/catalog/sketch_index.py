"""The sketches of all tables of a catalog, cached between queries.

Tables are cached by version: as long as the catalog reports the same version, nothing has changed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from skerry.catalog.stores import TableStore
from skerry.errors import NotFoundError, SkerryError
from skerry.table.statistics.joinable import NotCompared, TableSketches

__all__ = ["SketchIndex"]

_THREADS = 8


class SketchIndex:
    """The fresh sketches of a catalog's tables; only tables that changed since the last refresh are read.

    Args:
        stores: Where the tables are.
    """

    def __init__(self, stores: Sequence[TableStore]) -> None:
        self._stores = tuple(stores)
        self._tables: dict[str, tuple[str, TableSketches]] = {}
        self._lock = threading.Lock()

    def read(self, names: Iterable[str]) -> tuple[list[TableSketches], list[NotCompared]]:
        """Bring the index up to date.

        Args:
            names: The tables to keep; others are forgotten.

        Returns:
            The tables' sketches in the order of their names, and the tables that could not be read, with the reason.
        """
        wanted = sorted(names)
        with self._lock:
            versions = {name: version for store in self._stores for name, version in store.versions().items()}
            stale = [name for name in wanted if name not in self._tables or self._tables[name][0] != versions.get(name)]
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

    def _load(self, name: str) -> tuple[str, TableSketches] | SkerryError:
        """A table's version and sketches; the error of a table that cannot be read is part of the answer."""
        known = self._tables.get(name)
        for store in self._stores:
            try:
                return store.sketches(name, known)
            except NotFoundError as error:
                if error.location is not None:  # of a file
                    return error
            except SkerryError as error:
                return error
        return NotFoundError(f"no table {name!r}")
