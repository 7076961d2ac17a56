"""The Iceberg tables of a catalog: adapts PyIceberg's catalogs and translates their errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import pyiceberg.catalog as pyiceberg_catalog
from pyiceberg.catalog.sql import IcebergTables as CatalogRows
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitStateUnknownException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    ServerError,
    TableAlreadyExistsError,
)
from sqlalchemy import select
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session

from skerry.catalog.names import check_choice, folder_names, identifier_of, parts_of
from skerry.catalog.stores import FILE_FORMATS, NewTable
from skerry.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    FormatError,
    NotFoundError,
    SchemaError,
    SkerryError,
    StorageError,
    UnsupportedError,
)
from skerry.iceberg.evolution.property_checks import check_properties
from skerry.iceberg.handle import IcebergHandle
from skerry.iceberg.metadata.arrow_schema import to_arrow_schema, to_iceberg_schema, with_identifier
from skerry.iceberg.metadata.loading import load_state
from skerry.iceberg.metadata.reading import check_metadata, metadata_errors
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
    """The methods of `skerry.catalog.stores.TableStore` on a PyIceberg catalog.

    Args:
        catalog: The catalog.
    """

    def __init__(self, catalog: pyiceberg_catalog.Catalog) -> None:
        self.catalog = catalog

    def list_namespaces(self) -> list[str]:
        """All namespaces."""

        def below(parent: tuple[str, ...]) -> list[str]:
            found = []
            for namespace in self.catalog.list_namespaces(parent) if parent else self.catalog.list_namespaces():
                parts = tuple(namespace)
                if len(parts) > len(parent) and parts[: len(parent)] == parent:
                    found += [".".join(parts), *(below(parts) if len(parts) > 1 or not parent else [])]
            return found

        with _catalog_errors():
            return sorted(set(below(())))

    def create_namespace(self, name: str, properties: Mapping[str, str]) -> None:
        """Create a namespace."""
        with _catalog_errors():
            self.catalog.create_namespace(parts_of(name), dict(properties))

    def list_tables(self, namespace: str) -> list[str]:
        """Names of the tables in a namespace."""
        with _catalog_errors():
            try:
                return [".".join(table) for table in self.catalog.list_tables(parts_of(namespace))]
            except NoSuchNamespaceError:
                return []

    def exists(self, name: str) -> bool:
        """Whether there is a table of that name, even if its metadata cannot be read."""
        with _catalog_errors(name):
            try:
                with metadata_errors():
                    return bool(self.catalog.table_exists(identifier_of(name)))
            except (FormatError, NotFoundError, UnsupportedError):  # of the metadata file that the catalog names
                return True

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
        with _catalog_errors(name):
            self._ensure_namespace(identifier[:-1])
            with self._unknown_outcomes(name):
                self.catalog.create_table(
                    identifier,
                    schema=schema,
                    location=table.location or self._own_location(identifier),
                    partition_spec=partition_spec(schema, table.partition_by),
                    sort_order=sort_order(schema, table.sort_by),
                    properties=settings,
                )

    def load(self, name: str, catalog: TableCatalog | None = None) -> IcebergTable:
        """Load a table."""
        with _catalog_errors(name):
            return IcebergTable(IcebergHandle(self.catalog, identifier_of(name)), catalog)

    def rename(self, name: str, to: str) -> None:
        """Rename a table; its files stay where they are."""
        with _catalog_errors(name), self._unknown_outcomes(to):
            self.catalog.rename_table(identifier_of(name), identifier_of(to))

    def drop(self, name: str, *, purge: bool) -> None:
        """Remove a table from the catalog; its metadata is read only to delete the files it refers to."""

        def drop() -> None:
            with _catalog_errors(name), self._unknown_outcomes(name):
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
        with _catalog_errors(name):
            check_metadata(self.catalog, metadata_path)
            self._ensure_namespace(identifier[:-1])
            with self._unknown_outcomes(name):
                self.catalog.register_table(identifier, metadata_path)

    def versions(self) -> dict[str, str]:
        """Metadata files by table, if the catalog can list them all at once."""
        if not isinstance(self.catalog, SqlCatalog):
            return {}
        query = select(CatalogRows).where(CatalogRows.catalog_name == self.catalog.name)
        with Session(self.catalog.engine) as session:
            rows = session.scalars(query)
            return {f"{row.table_namespace}.{row.table_name}": row.metadata_location or "" for row in rows}

    def sketches(self, name: str, known: tuple[str, TableSketches] | None) -> tuple[str, TableSketches]:
        """A table's metadata file and fresh sketches."""
        with _catalog_errors(name):
            state = load_state(self.catalog, identifier_of(name))
            if known is not None and known[0] == state.metadata_location:
                return known
            return state.metadata_location, table_sketches(state)

    def _own_location(self, identifier: tuple[str, ...]) -> str | None:
        """The location of a new table whose name would be misread in a location; None to let the catalog choose."""
        folders, warehouse = folder_names(identifier), self.catalog.properties.get("warehouse")
        if folders is None or warehouse is None or not isinstance(self.catalog, SqlCatalog):
            return None
        return join(warehouse, *folders)

    def _ensure_namespace(self, namespace: tuple[str, ...]) -> None:
        if not self.catalog.namespace_exists(namespace):
            with suppress(NamespaceAlreadyExistsError):  # another writer created it
                self.catalog.create_namespace(namespace)

    @contextmanager
    def _unknown_outcomes(self, name: str) -> Iterator[None]:
        """Wrap a change to the catalog: a database or server that fails may have applied it nevertheless.

        A catalog may also create a table and then fail to read it.

        Args:
            name: The table that exists afterwards.

        Raises:
            CommitUnknownError: It failed in such a way.
        """
        try:
            yield
        except (IntegrityError, FileNotFoundError, FileExistsError, PermissionError):
            raise  # refused
        except StorageError as error:
            is_there = False
            with suppress(Exception):  # the catalog may fail as well
                is_there = bool(self.catalog.table_exists(identifier_of(name)))
            if is_there:
                raise CommitUnknownError(f"table {name!r} exists now, but: {error}", location=name) from error
            raise
        except (DBAPIError, ServerError, CommitStateUnknownException, OSError) as error:  # requests raises OSError
            raise CommitUnknownError(
                f"the catalog may or may not have applied the change: {type(error).__name__}: {error}", location=name
            ) from error


@contextmanager
def _catalog_errors(name: str = "") -> Iterator[None]:
    """Translate PyIceberg's exceptions to ours."""
    try:
        yield
    except SkerryError:
        raise
    except (NoSuchTableError, NoSuchNamespaceError) as error:
        raise NotFoundError(str(error)) from None
    except TableAlreadyExistsError:
        raise AlreadyExistsError(f"table {name!r} already exists") from None
    except (NamespaceAlreadyExistsError, NamespaceNotEmptyError) as error:
        raise AlreadyExistsError(str(error)) from None
    except Exception as error:
        raise SkerryError(f"the catalog failed: {type(error).__name__}: {error}") from error
