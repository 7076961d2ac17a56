"""Catalogs that PyIceberg opens: Glue, Hive, DynamoDB, BigQuery, MySQL, and those of other libraries.

This and PyIceberg's configuration are all that PyIceberg is loaded for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from pyiceberg.catalog import Catalog, MetastoreCatalog, load_catalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NotInstalledError,
    ServerError,
    TableAlreadyExistsError,
    UnauthorizedError,
)
from pyiceberg.table import CommitTableResponse, Table

from skerry.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    MissingDependencyError,
    NotFoundError,
    SchemaError,
    SkerryError,
    StorageError,
    UnsupportedError,
)
from skerry.iceberg.catalogs.base import IcebergCatalog
from skerry.iceberg.catalogs.metadata_files import read_metadata
from skerry.iceberg.catalogs.pyiceberg_files import FILE_IO, table_storage
from skerry.iceberg.catalogs.pyiceberg_models import (
    Call,
    calling,
    install,
    own_metadata,
    py_change,
    py_schema,
    py_sort_order,
    py_spec,
)
from skerry.iceberg.catalogs.records import CatalogTable, Identifier, MetadataWrite, NewIcebergTable
from skerry.iceberg.metadata.requirements import TableRequirement
from skerry.iceberg.metadata.table_updates import TableUpdate
from skerry.storage import Storage, redact

__all__ = ["PyIcebergCatalog", "as_pyiceberg"]

# A catalog returns these before it changes anything.
_REFUSED: Final = (NoSuchTableError, BadRequestError, UnauthorizedError, ForbiddenError)
_DENIED: Final = (UnauthorizedError, ForbiddenError)
_UNKNOWN: Final = (ServerError, CommitStateUnknownException, OSError)  # requests raises OSError


def _load(name: str, properties: Mapping[str, Any]) -> Catalog:
    """PyIceberg's object of a catalog, which reads and writes files through our storage.

    Raises:
        MissingDependencyError: It needs a library that is not installed.
        SkerryError: PyIceberg cannot open it.
    """
    try:
        return install(load_catalog(name, **{**FILE_IO, **properties}))
    except SkerryError:
        raise
    except NotInstalledError as error:
        if not str(properties.get("uri", "")).startswith("mysql"):
            raise MissingDependencyError(f"cannot open catalog {name!r}: {error}") from error
        raise MissingDependencyError(
            "a catalog in MySQL needs a driver of SQLAlchemy: pip install mysqlclient for mysql://, or pip install "
            "pymysql for mysql+pymysql://"
        ) from error
    except Exception as error:
        location = redact(str(properties.get("uri", name)))
        raise SkerryError(
            f"cannot open catalog {name!r}: {type(error).__name__}: {error}", location=location
        ) from error


def as_pyiceberg(catalog: IcebergCatalog) -> Catalog:
    """PyIceberg's object for the same catalog, for operations that only PyIceberg has.

    Raises:
        SkerryError: PyIceberg cannot open it.
        UnsupportedError: The catalog is in the memory of one connection.
    """
    if isinstance(catalog, PyIcebergCatalog):
        return catalog.inner
    if catalog.is_private:
        raise UnsupportedError("a catalog in memory cannot be opened again by PyIceberg")
    return _load(catalog.name, catalog.properties)


class PyIcebergCatalog(IcebergCatalog):
    """A catalog that PyIceberg opens.

    Args:
        name: Its name in PyIceberg's configuration, or any.
        properties: Properties as PyIceberg takes them.

    Attributes:
        inner: PyIceberg's object.

    Raises:
        SkerryError: PyIceberg cannot open it.
    """

    def __init__(self, name: str, properties: Mapping[str, Any]) -> None:
        self.inner = _load(name, properties)
        super().__init__(str(self.inner.name), self.inner.properties)
        self._is_metastore = isinstance(self.inner, MetastoreCatalog)
        if hasattr(self.inner, "engine"):
            _end_failed_transactions(self.inner.engine)

    @property
    def writes_metadata(self) -> bool:
        """Whether commits write the new metadata file themselves."""
        return self._is_metastore

    @property
    def keeps_warehouse(self) -> bool:
        """Whether the property `warehouse` is the folder that new tables are created in."""
        return hasattr(self.inner, "engine")

    def list_namespaces(self, parent: Identifier = ()) -> list[Identifier]:
        """The namespaces directly below another."""
        with _errors():
            found = self.inner.list_namespaces(parent) if parent else self.inner.list_namespaces()
            return [tuple(namespace) for namespace in found]

    def all_namespaces(self) -> list[Identifier]:
        """All namespaces; many of these catalogs have one level only, and refuse to list a second."""
        found = self.list_namespaces()
        for namespace in found:
            with suppress(Exception):
                found += [name for name in self.list_namespaces(namespace) if name not in found]
        return sorted(set(found))

    def namespace_exists(self, namespace: Identifier) -> bool:
        """Whether there is such a namespace."""
        with _errors():
            return bool(self.inner.namespace_exists(namespace))

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str] | None = None) -> None:
        """Create a namespace."""
        with _errors(changes=".".join(namespace)):
            self.inner.create_namespace(namespace, dict(properties or {}))

    def drop_namespace(self, namespace: Identifier) -> None:
        """Remove a namespace without tables and namespaces."""
        with _errors(changes=".".join(namespace)):
            self.inner.drop_namespace(namespace)

    def namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        """The properties of a namespace."""
        with _errors():
            return dict(self.inner.load_namespace_properties(namespace))

    def list_tables(self, namespace: Identifier) -> list[Identifier]:
        """The tables of a namespace."""
        with _errors():
            return [tuple(table) for table in self.inner.list_tables(namespace)]

    def table_exists(self, identifier: Identifier) -> bool:
        """Whether there is a table of that name, even if its metadata cannot be read."""
        try:
            with _errors():
                return bool(self.inner.table_exists(identifier))
        except SkerryError as error:
            if error.location is not None and not isinstance(error, StorageError):  # of the metadata file
                return True
            raise

    def load_table(self, identifier: Identifier, known: CatalogTable | None = None) -> CatalogTable:
        """Load a table's newest state."""
        with _errors(".".join(identifier)):
            return self._state(identifier, self.inner.load_table(identifier))

    def create_table(self, identifier: Identifier, table: NewIcebergTable) -> CatalogTable:
        """Create a table in a namespace that exists."""
        name = ".".join(identifier)
        with _errors(name, changes=name, call=Call(new=table)):
            created = self.inner.create_table(
                identifier,
                schema=py_schema(table.schema),
                location=table.location,
                partition_spec=py_spec(table.partition_spec),
                sort_order=py_sort_order(table.sort_order),
                properties=dict(table.properties),
            )
            return self._state(identifier, created)

    def check_metadata(self, location: str) -> None:
        """Read a metadata file before the catalog refers to it."""
        if self._is_metastore:
            read_metadata(Storage(self.properties), location)

    def register_table(self, identifier: Identifier, metadata_location: str) -> None:
        """Register an existing table by its metadata file."""
        with _errors(".".join(identifier), changes=".".join(identifier)):
            self.inner.register_table(identifier, metadata_location)

    def rename_table(self, identifier: Identifier, to: Identifier) -> None:
        """Rename a table."""
        with _errors(".".join(identifier), changes=".".join(to)):
            self.inner.rename_table(identifier, to)

    def drop_table(self, identifier: Identifier) -> None:
        """Remove a table from the catalog; its files stay."""
        with _errors(".".join(identifier), changes=".".join(identifier)):
            self.inner.drop_table(identifier)

    def commit_table(
        self,
        table: CatalogTable,
        requirements: Sequence[TableRequirement],
        updates: Sequence[TableUpdate],
        write: MetadataWrite,
    ) -> CatalogTable:
        """Apply updates to a table's newest state, if it meets the requirements."""
        name = ".".join(table.identifier)
        write.may_have_effect = not self._is_metastore
        try:
            response = self._commit(table, requirements, updates, write)
        except CommitFailedException as error:
            raise ConflictError(str(error), location=name) from error
        except _REFUSED as error:
            write.may_have_effect = False
            kind = AccessDeniedError if isinstance(error, _DENIED) else SkerryError
            raise kind(f"the catalog refused the commit: {error}", location=name) from error
        except SkerryError:
            raise
        except Exception as error:
            if not write.may_have_effect:
                message = f"the commit failed before it was sent: {type(error).__name__}: {error}"
                raise SkerryError(message, location=name) from error
            message = f"the commit may or may not have happened: {type(error).__name__}: {error}"
            raise CommitUnknownError(message, location=name) from error
        try:
            metadata = own_metadata(response.metadata)
        except SkerryError as error:
            raise CommitUnknownError(f"the commit was accepted, but: {error}", location=name) from error
        return CatalogTable(table.identifier, metadata, response.metadata_location, table.config)

    def _commit(
        self,
        table: CatalogTable,
        requirements: Sequence[TableRequirement],
        updates: Sequence[TableUpdate],
        write: MetadataWrite,
    ) -> CommitTableResponse:
        handle: Any = _Named(table.identifier, table.config)
        if self._is_metastore:  # it hands them to us again, see pyiceberg_models
            given: Any = (tuple(requirements), tuple(updates))
            with calling(Call(write=write)):
                return self.inner.commit_table(handle, *given)
        change = py_change(table.identifier, requirements, updates)
        return self.inner.commit_table(handle, change.requirements, change.updates)

    def _state(self, identifier: Identifier, table: Table) -> CatalogTable:
        config = table_storage(table, self.properties).options
        return CatalogTable(identifier, own_metadata(table.metadata), table.metadata_location, config)

    def close(self) -> None:
        """Close all connections."""
        self.inner.close()


class _Named:
    """All that catalogs ask of the table that a commit changes.

    Args:
        identifier: Its name.
        config: What the catalog gave for it alone.
    """

    def __init__(self, identifier: Identifier, config: Mapping[str, str]) -> None:
        self._identifier = identifier
        self.config = config

    def name(self) -> Identifier:
        """Namespace parts and table name."""
        return self._identifier


def _end_failed_transactions(engine: Any) -> None:
    """Make an engine of SQLAlchemy roll back a transaction whose COMMIT failed, and close its connection."""
    from sqlalchemy import event

    def end(context: Any) -> None:
        if context.connection is not None and context.statement is None:
            with suppress(Exception):
                context.connection.connection.dbapi_connection.rollback()
            context.is_disconnect = True  # the pool closes the connection and opens another
            context.invalidate_pool_on_disconnect = False  # its other connections may continue

    event.listen(engine, "handle_error", end)


@contextmanager
def _errors(name: str = "", *, changes: str | None = None, call: Call | None = None) -> Iterator[None]:
    """Translate PyIceberg's exceptions to ours, and let PyIceberg use our metadata.

    Args:
        name: The table concerned.
        changes: What exists after a change to the catalog; None if nothing is changed.
        call: More about the call.
    """
    try:
        with calling(call):
            yield
    except SkerryError:
        raise
    except NoSuchTableError:
        raise NotFoundError(f"no table {name!r}") from None
    except NoSuchNamespaceError as error:
        raise NotFoundError(str(error)) from None
    except TableAlreadyExistsError:
        raise AlreadyExistsError(f"table {name!r} already exists") from None
    except NamespaceAlreadyExistsError as error:
        raise AlreadyExistsError(str(error)) from None
    except NamespaceNotEmptyError as error:
        raise SchemaError(str(error)) from None
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        if changes is not None and _may_have_effect(error):
            raise CommitUnknownError(
                f"the catalog may or may not have applied the change: {message}", location=changes
            ) from error
        kind = AccessDeniedError if isinstance(error, _DENIED) else SkerryError
        raise kind(f"the catalog failed: {message}") from error


def _may_have_effect(error: Exception) -> bool:
    """Whether a database or server that failed may have applied the change nevertheless."""
    if isinstance(error, FileNotFoundError | FileExistsError | PermissionError):
        return False
    is_database = type(error).__module__.startswith("sqlalchemy.") and type(error).__name__ != "IntegrityError"
    return is_database or isinstance(error, _UNKNOWN)
