"""What is served: the tables of a catalog, one table by its folder, or one file."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from skerry.catalog import connect, open_table
from skerry.errors import NotFoundError
from skerry.storage import Storage, absolute, is_local, is_within, local_path, name
from skerry.table.work.remembered import Remembered

if TYPE_CHECKING:
    from skerry.catalog import Catalog
    from skerry.table.table import Table

__all__ = ["Source", "open_source"]

Value = TypeVar("Value")

_REMEMBERED: Final = {"files": 4, "ranks": 4, "plans": 2}
"""How many values of a kind are remembered, most of them small."""
_REMEMBERED_OTHERS: Final = 128


@dataclass(slots=True)
class Source:
    """What is served.

    Args:
        title: Its name, at the top of every page.
        catalog: The catalog whose tables are served.
        only: The one table that is served, where there is no catalog.
        file: The one file that is served, by its storage and location, where there is no table.
    """

    title: str
    catalog: Catalog | None = None
    only: Table | None = None
    file: tuple[Storage, str] | None = None
    _remembered: dict[str, Remembered[tuple[Any, ...], tuple[Any]]] = field(default_factory=dict)

    def names(self) -> list[str]:
        """The names of the tables, in alphabetical order."""
        if self.catalog is not None:
            return self.catalog.list_tables()
        return [] if self.only is None else [self.only.name]

    def table(self, name: str) -> Table:
        """The newest state of a table.

        Raises:
            NotFoundError: There is no such table.
        """
        if self.catalog is not None:
            return self.catalog.load_table(name)
        if self.only is None or name != self.only.name:
            raise NotFoundError(f"no table {name!r}: {self.title} is served alone")
        return self.only.refresh()

    def file_of(self, table: str, path: str) -> tuple[Storage, str]:
        """A file by its location or, of a table's files, by its path below the table's folder.

        Raises:
            NotFoundError: The file is not one that is served.
        """
        if self.file is not None:
            return self.file
        found = self.table(table)
        folder = found.location
        location = path if "://" in path or path.startswith("/") else f"{folder.rstrip('/')}/{path}"
        if not is_within(folder, location):
            raise NotFoundError(f"{path!r} is not in the folder of {table}, whose files alone are shown")
        return found.storage, location

    def remembers(self, key: tuple[Any, ...]) -> bool:
        """Whether something was made for a key, and is still there."""
        alike = self._remembered.get(key[0])
        return alike is not None and alike.find(key) is not None

    def remember(self, key: tuple[Any, ...], make: Callable[[], Value]) -> Value:
        """What was made for a key before, or is made now; a key is a kind of value, and a table's state."""
        kind = key[0]
        alike = self._remembered.setdefault(kind, Remembered(_REMEMBERED.get(kind, _REMEMBERED_OTHERS)))
        known = alike.find(key)  # in a tuple, since a value may be None
        return known[0] if known is not None else alike.keep(key, (make(),))[0]


def open_source(target: str, properties: dict[str, str]) -> Source:
    """Find out what a name or location means.

    Args:
        target: A file, the folder of a table, or what `skerry.connect` takes.
        properties: Catalog properties, or storage options.

    Raises:
        NotFoundError: There is no such thing.
    """
    if is_local(target) and "://" not in target:
        location = absolute(target)
        path = local_path(location)
        if path is not None:
            if os.path.isfile(path) and not location.endswith(".metadata.json"):
                return Source(name(location), file=(Storage(properties), location))
            folders = {entry.name for entry in os.scandir(path) if entry.is_dir()} if os.path.isdir(path) else set()
            if "metadata" in folders or {"schema", "snapshot"} <= folders or location.endswith(".metadata.json"):
                table = open_table(location, **properties)
                return Source(table.name, only=table)
    return Source(name(target.rstrip("/")) or target, catalog=connect(target, create=False, **properties))
