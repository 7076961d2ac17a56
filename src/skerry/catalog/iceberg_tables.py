"""The Iceberg tables of a catalog."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from skerry.arguments import check_text
from skerry.catalog.names import folder_names, identifier_of, parts_of
from skerry.catalog.stores import NewTable
from skerry.errors import AlreadyExistsError, NotFoundError
from skerry.iceberg.catalogs.base import IcebergCatalog
from skerry.iceberg.catalogs.loading import load_state
from skerry.iceberg.handle import IcebergHandle
from skerry.iceberg.table import IcebergTable
from skerry.storage import Storage, join
from skerry.table.table import TableCatalog

if TYPE_CHECKING:
    from skerry.table.statistics.joinable import TableSketches

__all__ = ["IcebergTables"]


class IcebergTables:
    """The methods of `skerry.catalog.stores.TableStore` on a catalog of Iceberg tables.

    Args:
        catalog: The catalog.
    """

    def __init__(self, catalog: IcebergCatalog) -> None:
        self.catalog = catalog
        self._pyiceberg: Any = None

    def list_namespaces(self) -> list[str]:
        """All namespaces that a dotted name can express: other programs create some with empty parts."""
        return sorted(".".join(namespace) for namespace in self.catalog.all_namespaces() if all(namespace))

    def create_namespace(self, name: str, properties: Mapping[str, str]) -> None:
        """Create a namespace."""
        self.catalog.create_namespace(parts_of(name), dict(properties))

    def drop_namespace(self, name: str) -> None:
        """Remove a namespace without tables."""
        self.catalog.drop_namespace(parts_of(name))

    def list_tables(self, namespace: str) -> list[str]:
        """Names of the tables in a namespace."""
        try:
            return [".".join(table) for table in self.catalog.list_tables(parts_of(namespace))]
        except NotFoundError:
            return []

    def exists(self, name: str) -> bool:
        """Whether there is a table of that name, even if its metadata cannot be read."""
        return self.catalog.table_exists(identifier_of(name))

    def create(self, name: str, table: NewTable) -> None:
        """Create a table."""
        from skerry.catalog.iceberg_creation import new_iceberg_table

        identifier = identifier_of(name)
        check_text("location", table.location)
        location = table.location or self._own_location(identifier)
        new = new_iceberg_table(table, location, why_not_encrypted=self.catalog.why_not_encrypted())
        self._ensure_namespace(identifier[:-1])
        self.catalog.create_table(identifier, new)

    def load(self, name: str, catalog: TableCatalog | None = None) -> IcebergTable:
        """Load a table."""
        return IcebergTable(IcebergHandle(self.catalog, identifier_of(name)), catalog)

    def rename(self, name: str, to: str) -> None:
        """Rename a table; its files stay where they are."""
        self.catalog.rename_table(identifier_of(name), identifier_of(to))

    def drop(self, name: str, *, purge: bool) -> None:
        """Remove a table from the catalog; its metadata is read only to delete the files it refers to."""

        def drop() -> None:
            self.catalog.drop_table(identifier_of(name))

        if purge:
            self.load(name).purge(drop)
        else:
            drop()

    def register(
        self, name: str, metadata_path: str, *, prefixes: Mapping[str, str] | None = None, replaces: str | None = None
    ) -> None:
        """Register an existing table by its metadata file.

        Raises:
            AlreadyExistsError: There is a table of that name.
            ConflictError: The table of that name is at another state than `replaces` says.
            FormatError: The file is not table metadata; nothing was registered.
            NotFoundError: There is no such file.
            UnsupportedError: Its format version is not supported.
        """
        identifier = identifier_of(name)
        if replaces is None and self.exists(name):
            raise AlreadyExistsError(f"table {name!r} already exists")
        if prefixes:
            from skerry.iceberg.relocation import renamed_metadata

            metadata_path = renamed_metadata(Storage(self.catalog.properties), metadata_path, prefixes)
        self.catalog.check_metadata(metadata_path)
        if replaces is not None:
            self.catalog.replace_metadata(identifier, replaces, metadata_path)
            return
        self._ensure_namespace(identifier[:-1])
        self.catalog.register_table(identifier, metadata_path)

    def location(self, name: str) -> str:
        """The folder of a new table of that name."""
        identifier = identifier_of(name)
        return self._own_location(identifier) or self.catalog.default_location(identifier)

    def versions(self) -> dict[str, str]:
        """Metadata files by table, if the catalog can list them all at once."""
        found = self.catalog.metadata_locations()
        return {".".join(table): location for table, location in found.items()}

    def sketches(self, name: str, known: tuple[str, TableSketches] | None) -> tuple[str, TableSketches]:
        """A table's metadata file and fresh sketches."""
        from skerry.iceberg.statistics.sketch_cache import table_sketches  # slow to load

        state = load_state(self.catalog, identifier_of(name))
        if known is not None and known[0] == state.metadata_location:
            return known
        return state.metadata_location, table_sketches(state)

    def _own_location(self, identifier: tuple[str, ...]) -> str | None:
        """The location of a new table whose name would be misread in a location; None to let the catalog choose."""
        folders, warehouse = folder_names(identifier), self.catalog.properties.get("warehouse")
        if folders is None or warehouse is None or not self.catalog.keeps_warehouse:
            return None
        return join(warehouse, *folders)

    def _ensure_namespace(self, namespace: tuple[str, ...]) -> None:
        if not self.catalog.namespace_exists(namespace):
            with suppress(AlreadyExistsError):  # another writer created it
                self.catalog.create_namespace(namespace)

    def pyiceberg(self) -> Any:
        """PyIceberg's object for the same catalog."""
        if self._pyiceberg is None:
            from skerry.iceberg.catalogs.pyiceberg_catalogs import as_pyiceberg  # slow to load

            self._pyiceberg = as_pyiceberg(self.catalog)
        return self._pyiceberg
