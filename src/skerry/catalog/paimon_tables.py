"""The Paimon tables of a warehouse folder: `<namespace>.db/<table>`, each recognised by its schema files.

Spec: docs/formats/paimon.md § 1.1.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from skerry.catalog.names import identifier_of, parts_of
from skerry.catalog.stores import NewTable
from skerry.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    NotFoundError,
    SchemaError,
    StorageError,
    UnsupportedError,
)
from skerry.storage import Storage, allowed_locations, join, local_path, name
from skerry.table.owned_files import after_publish
from skerry.table.table import TableCatalog

if TYPE_CHECKING:
    from skerry.paimon.handle import PaimonHandle
    from skerry.paimon.table import PaimonTable
    from skerry.table.statistics.joinable import TableSketches

__all__ = ["PaimonTables"]

_SUFFIX = ".db"
_MARK = ".skerry-namespace"
"""Object stores have no empty folders: this file marks a namespace."""


class PaimonTables:
    """The methods of `skerry.catalog.stores.TableStore` on a folder.

    Args:
        warehouse: The folder.
        options: Options of its storage.
    """

    def __init__(self, warehouse: str, options: Mapping[str, str]) -> None:
        self.warehouse = warehouse
        self.storage = Storage(options, allowed_locations(options))

    def list_namespaces(self) -> list[str]:
        """Names of the folders `….db`."""
        names = [name(folder) for folder in self.storage.list_folder(self.warehouse).folders]
        return sorted(text.removesuffix(_SUFFIX) for text in names if text.endswith(_SUFFIX) and text != _SUFFIX)

    def create_namespace(self, name: str, properties: Mapping[str, str]) -> None:
        """Create a namespace."""
        if properties:
            raise UnsupportedError("namespaces of Paimon tables are folders and have no properties")
        try:
            self.storage.write(join(self._namespace(parts_of(name)), _MARK), b"")
        except AlreadyExistsError:
            raise AlreadyExistsError(f"namespace {name!r} already exists") from None

    def drop_namespace(self, name: str) -> None:
        """Remove a namespace's folder, in which only our mark may be."""
        self._delete_namespace(name)

    def _delete_namespace(self, name: str) -> None:
        folder = self._namespace(parts_of(name))
        mark, path = join(folder, _MARK), local_path(folder)
        files = (file.location for file in self.storage.list(folder))
        if (held := next((file for file in files if file != mark), None)) is not None:
            raise SchemaError(f"namespace {name!r} is not empty: a file is in its folder", location=held)
        self.storage.delete([mark])
        if path is not None:
            try:
                for below, _, _ in os.walk(path, topdown=False):  # dropped tables leave folders without files
                    Path(below).rmdir()
            except OSError as error:
                raise StorageError(f"its folder cannot be removed: {error.strerror}", location=folder) from error

    def list_tables(self, namespace: str) -> list[str]:
        """Names of the tables in a namespace."""
        parts = parts_of(namespace)
        if len(parts) > 1:
            return []
        folders = self.storage.list_folder(self._namespace(parts)).folders
        return sorted(f"{namespace}.{name(folder)}" for folder in folders if self._is_table(folder))

    def exists(self, name: str) -> bool:
        """Whether there is a table of that name."""
        parts = identifier_of(name)
        return len(parts) == 2 and self._is_table(self._location(parts))

    def location(self, name: str) -> str:
        """The folder of a table of that name, whether there is one or not."""
        return self._location(identifier_of(name))

    def create(self, name: str, table: NewTable) -> None:
        """Create a table."""
        from skerry.catalog.paimon_creation import create_paimon_table

        if table.location is not None:
            raise UnsupportedError("the name of a Paimon table determines its folder: leave out location=")
        if table.format_version is not None:
            raise UnsupportedError("format_version= is only for Iceberg tables")
        location = self.location(name)
        if not self._is_table(location) and self._remains(location):
            raise AlreadyExistsError(
                f"the folder of table {name!r} contains snapshots of a table whose drop was interrupted: "
                f"drop_table({name!r}, purge=True) deletes the remaining files",
                location=location,
            )
        try:
            create_paimon_table(self.storage, location, name, table)
        except AlreadyExistsError:
            raise AlreadyExistsError(f"table {name!r} already exists") from None

    def load(self, name: str, catalog: TableCatalog | None = None) -> PaimonTable:
        """Load a table."""
        from skerry.paimon.table import PaimonTable

        if not self.exists(name):
            raise NotFoundError(f"no Paimon table {name!r}")
        return PaimonTable(self._handle(name), catalog)

    def _handle(self, name: str) -> PaimonHandle:
        from skerry.catalog.iceberg_following import IcebergFollower
        from skerry.paimon.handle import PaimonHandle

        return PaimonHandle.open(self.storage, self.location(name), name=name, follower=IcebergFollower())

    def rename(self, name: str, to: str) -> None:
        """Move a table's folder."""
        if not self.exists(name):
            raise NotFoundError(f"no Paimon table {name!r}")
        self._move(name, to)

    def _move(self, name: str, to: str) -> None:
        """Move a table's folder."""
        source, target = self.location(name), self.location(to)
        old, new = local_path(source), local_path(target)
        if old is None or new is None:
            raise UnsupportedError("a Paimon table is its folder, and an object store cannot move a folder atomically")
        if not os.path.isdir(Path(new).parent):
            raise NotFoundError(f"no namespace {to.rpartition('.')[0]!r}")
        try:
            Path(old).rename(new)
        except OSError as error:
            if not os.path.lexists(old):
                raise CommitUnknownError(f"the table may have been moved: {error}", location=target) from error
            raise StorageError(f"the table's folder cannot be moved: {error.strerror}", location=source) from error

    def drop(self, name: str, *, purge: bool) -> None:
        """Delete a table's folder or what is left of it."""
        if not self.exists(name) and not self.has_remains(name):
            raise NotFoundError(f"no Paimon table {name!r}")
        if not purge:
            raise SchemaError("a Paimon table is its folder: purge=True drops it with its files", location=name)
        self._delete(name)

    def _delete(self, name: str) -> None:
        """Delete a table's folder, schemas first, so that it disappears at once for readers."""
        from skerry.paimon.metadata.paths import TablePaths

        location = self.location(name)
        schemas = [file.location for file in self.storage.list_folder(TablePaths(location).schemas).files]
        try:
            self.storage.delete(schemas)
        except StorageError as error:
            raise CommitUnknownError(f"the table may or may not be dropped: {error}", location=location) from error
        with after_publish("deleting the files of the dropped table"):
            self.storage.delete(file.location for file in self.storage.list(location))

    def has_remains(self, name: str) -> bool:
        """Whether there is no table of that name, but snapshots of one whose drop was interrupted."""
        parts = identifier_of(name)
        return len(parts) == 2 and not self.exists(name) and self._remains(self._location(parts))

    def _remains(self, location: str) -> bool:
        from skerry.paimon.metadata.paths import TablePaths

        return bool(self.storage.list_folder(TablePaths(location).snapshots).files)

    def versions(self) -> dict[str, str]:
        """Empty: each table's folder must be read."""
        return {}

    def sketches(self, name: str, known: tuple[str, TableSketches] | None) -> tuple[str, TableSketches]:
        """A table's newest snapshot and fresh sketches."""
        from skerry.paimon.statistics.sketches import table_sketches

        table = self.load(name)
        version = table.version
        return known if known is not None and known[0] == version else (version, table_sketches(table.handle.state))

    def _is_table(self, location: str) -> bool:
        from skerry.paimon.metadata.paths import TablePaths
        from skerry.paimon.metadata.schemas import schema_ids

        return bool(schema_ids(self.storage, TablePaths(location)))

    def _namespace(self, parts: tuple[str, ...]) -> str:
        if len(parts) > 1:
            self._refuse_nesting(parts)
        return join(self.warehouse, parts[0] + _SUFFIX)

    def _location(self, parts: tuple[str, ...]) -> str:
        if len(parts) > 2:
            self._refuse_nesting(parts[:-1])
        return join(self.warehouse, parts[0] + _SUFFIX, parts[1])

    @staticmethod
    def _refuse_nesting(parts: tuple[str, ...]) -> NoReturn:
        raise UnsupportedError(f"namespaces of Paimon tables do not nest: {'.'.join(parts)!r}")
