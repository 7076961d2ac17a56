"""The Iceberg tables of a catalog."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from skerry.catalog.names import check_choice, folder_names, identifier_of, parts_of
from skerry.catalog.stores import FILE_FORMATS, NewTable
from skerry.errors import AlreadyExistsError, NotFoundError, SchemaError
from skerry.iceberg.catalogs.base import IcebergCatalog, NewIcebergTable
from skerry.iceberg.catalogs.loading import load_state
from skerry.iceberg.evolution.property_checks import check_properties
from skerry.iceberg.handle import IcebergHandle
from skerry.iceberg.metadata.arrow_schema import to_arrow_schema, to_iceberg_schema, with_identifier
from skerry.iceberg.partitioning.partitions import partition_spec
from skerry.iceberg.partitioning.sorting import sort_order
from skerry.iceberg.statistics.sketch_cache import table_sketches
from skerry.iceberg.table import IcebergTable
from skerry.iceberg.writing.file_writers import check_columns
from skerry.storage import join
from skerry.table.rows.metadata_columns import check_new_names
from skerry.table.statistics.joinable import TableSketches
from skerry.table.table import TableCatalog

__all__ = ["IcebergTables"]

_VERSIONS = (1, 2, 3)
_USUAL_VERSION = 2


class IcebergTables:
    """The methods of `skerry.catalog.stores.TableStore` on a catalog of Iceberg tables.

    Args:
        catalog: The catalog.
    """

    def __init__(self, catalog: IcebergCatalog) -> None:
        self.catalog = catalog
        self._pyiceberg: Any = None

    def list_namespaces(self) -> list[str]:
        """All namespaces."""
        return sorted(".".join(namespace) for namespace in self.catalog.all_namespaces())

    def create_namespace(self, name: str, properties: Mapping[str, str]) -> None:
        """Create a namespace."""
        self.catalog.create_namespace(parts_of(name), dict(properties))

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
        check_choice("file_format", table.file_format, FILE_FORMATS)
        version = _USUAL_VERSION if table.format_version is None else table.format_version
        if version not in _VERSIONS:
            raise SchemaError(f"format_version must be 1, 2 or 3, found {version!r}")
        check_new_names(table.schema.names)
        schema = with_identifier(to_iceberg_schema(table.schema, format_version=version), table.primary_key)
        settings = {"format-version": str(version), **table.properties}
        if table.file_format != FILE_FORMATS[0]:
            settings.setdefault("write.format.default", table.file_format)
        check_properties(settings, to_arrow_schema(schema))
        check_columns(to_arrow_schema(schema), settings)
        identifier = identifier_of(name)
        new = NewIcebergTable(
            schema,
            partition_spec(schema, table.partition_by),
            sort_order(schema, table.sort_by),
            table.location or self._own_location(identifier),
            settings,
        )
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

    def register(self, name: str, metadata_path: str) -> None:
        """Register an existing table by its metadata file.

        Raises:
            AlreadyExistsError: There is a table of that name.
            FormatError: The file is not table metadata; nothing was registered.
            NotFoundError: There is no such file.
            UnsupportedError: Its format version is not supported.
        """
        identifier = identifier_of(name)
        self.catalog.check_metadata(metadata_path)
        self._ensure_namespace(identifier[:-1])
        self.catalog.register_table(identifier, metadata_path)

    def versions(self) -> dict[str, str]:
        """Metadata files by table, if the catalog can list them all at once."""
        found = self.catalog.metadata_locations()
        return {".".join(table): location for table, location in found.items()}

    def sketches(self, name: str, known: tuple[str, TableSketches] | None) -> tuple[str, TableSketches]:
        """A table's metadata file and fresh sketches."""
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
