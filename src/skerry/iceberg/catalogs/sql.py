"""A catalog in a SQL database, shared with Iceberg Java's JDBC catalog and PyIceberg's SQL catalog.

A table is a row that names its metadata file. A commit writes the next metadata file, and replaces the name in the row
if it still is the one that the commit builds on.

Spec: Iceberg spec, Metastore Tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from skerry.databases.sql_database import SqlDatabase
from skerry.errors import AlreadyExistsError, CatalogLockedError, ConflictError, NotFoundError
from skerry.iceberg.catalogs import sql_views
from skerry.iceberg.catalogs.base import IcebergCatalog
from skerry.iceberg.catalogs.metadata_files import (
    kept_storage,
    metadata_after,
    new_metadata_location,
    read_metadata,
    write_metadata,
)
from skerry.iceberg.catalogs.records import (
    CatalogTable,
    CatalogView,
    Identifier,
    MetadataWrite,
    NewIcebergTable,
    NewView,
    TableCommit,
)
from skerry.iceberg.catalogs.sql_tables import NewLocation, SqlTables, open_tables
from skerry.storage import Storage, join
from skerry.table.owned_files import owned_files
from skerry.table.sending import Sending

if TYPE_CHECKING:
    from skerry.iceberg.metadata.requirements import TableRequirement
    from skerry.iceberg.metadata.table_updates import TableUpdate

__all__ = ["SqlCatalog"]

_FALSE: Final = ("false", "0", "no", "off", "f", "n")


class SqlCatalog(IcebergCatalog):
    """A catalog in a SQLite or PostgreSQL database. Its tables are created if they do not exist.

    Args:
        name: Its name in the database.
        properties: `uri` and `warehouse`; `schema_version` (`v1` adds a column for the type of rows to tables that an
            older program created) and `init_catalog_tables` as PyIceberg takes them.

    Attributes:
        database: The database.

    Raises:
        CatalogLockedError: Another process has locked the database.
        SchemaError: A property has no valid value.
        StorageError: The database cannot be reached.
        UnsupportedError: It is another kind of database.
    """

    def __init__(self, name: str, properties: Mapping[str, Any]) -> None:
        super().__init__(name, properties)
        self.database = SqlDatabase(str(self.properties["uri"]))
        self._tables: SqlTables = open_tables(
            self.database,
            name,
            version=str(self.properties.get("schema_version", "v0")),
            create=str(self.properties.get("init_catalog_tables", "true")).strip().lower() not in _FALSE,
        )
        self._files: Storage | None = None

    @property
    def keeps_warehouse(self) -> bool:
        """Whether the property `warehouse` is the folder that new tables are created in."""
        return True

    @property
    def is_private(self) -> bool:
        """Whether no other connection can open the same catalog."""
        return self.database.dialect.is_private

    def list_namespaces(self, parent: Identifier = ()) -> list[Identifier]:
        """The namespaces directly below another."""
        depth = len(parent) + 1
        known = self._known_namespaces()
        if parent and not any(name[: depth - 1] == parent for name in known):
            raise NotFoundError(f"no namespace {'.'.join(parent)!r}")
        return sorted({name[:depth] for name in known if len(name) >= depth and name[: depth - 1] == parent})

    def all_namespaces(self) -> list[Identifier]:
        """All namespaces, at every depth."""
        known = self._known_namespaces()
        return sorted({name[:depth] for name in known for depth in range(1, len(name) + 1)})

    def _known_namespaces(self) -> set[Identifier]:
        return {tuple(name.split(".")) for name in self._tables.namespaces()}

    def namespace_exists(self, namespace: Identifier) -> bool:
        """Whether there is such a namespace."""
        return self._tables.has_namespace(".".join(namespace))

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str] | None = None) -> None:
        """Create a namespace."""
        self._tables.add_namespace(".".join(namespace), properties or {})

    def drop_namespace(self, namespace: Identifier) -> None:
        """Remove a namespace without tables, views and namespaces."""
        self._tables.remove_namespace(".".join(namespace))

    def namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        """The properties of a namespace."""
        found = self._tables.namespace_properties(".".join(namespace))
        if not found and not self.namespace_exists(namespace):
            raise NotFoundError(f"no namespace {'.'.join(namespace)!r}")
        return found

    def list_tables(self, namespace: Identifier) -> list[Identifier]:
        """The tables of a namespace."""
        found = [(*namespace, name) for _, name, _ in self._tables.tables(".".join(namespace))]
        if not found and not self.namespace_exists(namespace):
            raise NotFoundError(f"no namespace {'.'.join(namespace)!r}")
        return found

    def metadata_locations(self) -> dict[Identifier, str]:
        """The metadata files of all tables."""
        return {(*space.split("."), name): location or "" for space, name, location in self._tables.tables()}

    def table_exists(self, identifier: Identifier) -> bool:
        """Whether there is a table of that name, even if its metadata cannot be read."""
        return self._tables.has_table(*_key(identifier))

    def load_table(self, identifier: Identifier, known: CatalogTable | None = None) -> CatalogTable:
        """Load a table's newest state."""
        location = self._tables.metadata_location(*_key(identifier))
        if known is not None and known.metadata_location == location:
            return known
        return CatalogTable(identifier, read_metadata(self._storage(), location), location)

    def create_table(self, identifier: Identifier, table: NewIcebergTable) -> CatalogTable:
        """Create a table in a namespace that exists."""
        from skerry.iceberg.metadata.creation import new_table_metadata  # not needed for reading

        folder = (table.location or self.default_location(identifier)).rstrip("/")
        if self.table_exists(identifier):
            raise AlreadyExistsError(f"table {'.'.join(identifier)!r} already exists")
        metadata = new_table_metadata(table.schema, table.partition_spec, table.sort_order, folder, table.properties)
        location = new_metadata_location(metadata)
        storage = self._storage()
        with owned_files(storage) as files:
            files.add(location)
            write_metadata(storage, location, metadata)
            with Sending(files) as sending:
                self._tables.add_table(*_key(identifier), location, sending)
        return CatalogTable(identifier, metadata, location)

    def check_metadata(self, location: str) -> None:
        """Read a metadata file before the catalog refers to it."""
        read_metadata(self._storage(), location)

    def register_table(self, identifier: Identifier, metadata_location: str) -> None:
        """Register an existing table by its metadata file."""
        self._tables.add_table(*_key(identifier), metadata_location)

    @property
    def can_replace_metadata(self) -> bool:
        """Yes."""
        return True

    def replace_metadata(self, identifier: Identifier, old: str, new: str) -> None:
        """Make a table be what another metadata file says, if it still is what one said."""
        self._tables.replace_locations([NewLocation(*_key(identifier), old, new)])

    def rename_table(self, identifier: Identifier, to: Identifier) -> None:
        """Rename a table."""
        self._tables.rename_table(*_key(identifier), *_key(to))

    def drop_table(self, identifier: Identifier) -> None:
        """Remove a table from the catalog; its files stay."""
        self._tables.remove_table(*_key(identifier))

    def commit_table(
        self,
        table: CatalogTable,
        requirements: Sequence[TableRequirement],
        updates: Sequence[TableUpdate],
        write: MetadataWrite,
    ) -> CatalogTable:
        """Apply updates to a table's newest state, if it meets the requirements."""
        key, storage = _key(table.identifier), self._storage()
        current = self._tables.metadata_location(*key)
        known = current == table.metadata_location
        base = table.metadata if known else read_metadata(storage, current)
        if base.location != table.metadata.location:  # relocated: a snapshot would name manifests that are gone
            raise ConflictError(f"the table was moved to {base.location} in the meantime")
        metadata = metadata_after(base, current, requirements, updates)
        if metadata == base:
            return CatalogTable(table.identifier, base, current, table.config)
        location = new_metadata_location(metadata, current)
        write.files.add(location)
        write.location, write.predecessor = location, current
        write_metadata(storage, location, metadata)

        self._replace([NewLocation(*key, current, location)], [write])
        return CatalogTable(table.identifier, metadata, location, table.config)

    def check_transactions(self) -> None:
        """Do nothing: a transaction of the database changes any number of tables."""

    def commit_tables(self, commits: Sequence[TableCommit]) -> list[CatalogTable]:
        """Replace the metadata files of several tables in one transaction of the database."""
        storage = self._storage()
        changes: list[NewLocation] = []
        found: list[CatalogTable] = []
        for commit in commits:
            table, write, old = commit.table, commit.write, commit.table.metadata_location
            metadata = metadata_after(table.metadata, old, commit.requirements, commit.updates)
            location = new_metadata_location(metadata, old)
            write.files.add(location)
            write.location, write.predecessor = location, old
            write_metadata(storage, location, metadata)
            changes.append(NewLocation(*_key(table.identifier), old, location))
            found.append(CatalogTable(table.identifier, metadata, location, table.config))
        self._replace(changes, [commit.write for commit in commits])
        return found

    def _replace(self, changes: Sequence[NewLocation], writes: Sequence[MetadataWrite]) -> None:
        def sending() -> None:
            for write in writes:
                write.may_have_effect = True

        try:
            self._tables.replace_locations(changes, sending)
        except CatalogLockedError:
            for write in writes:
                write.may_have_effect = False
            raise

    # ---- views ----

    def list_views(self, namespace: Identifier) -> list[Identifier]:
        """The views of a namespace; none in a database whose rows do not say what they are."""
        if not self.namespace_exists(namespace):
            raise NotFoundError(f"no namespace {'.'.join(namespace)!r}")
        if not self._tables.has_types:
            return []
        return [(*namespace, name) for _, name, _ in self._tables.views.tables(".".join(namespace))]

    def load_view(self, identifier: Identifier) -> CatalogView:
        """Load a view's newest state."""
        if not self._tables.has_types:
            raise NotFoundError(f"no view {'.'.join(identifier)!r}")
        return sql_views.load_view(self._tables.views, self._storage(), identifier)

    def create_view(self, identifier: Identifier, new: NewView) -> CatalogView:
        """Create a view in a namespace that exists."""
        views = self._tables.views
        if self.table_exists(identifier):
            raise AlreadyExistsError(f"table {'.'.join(identifier)!r} already exists")
        return sql_views.create_view(views, self._storage(), identifier, self.default_location(identifier), new)

    def replace_view(self, view: CatalogView, new: NewView) -> CatalogView:
        """Give a view another definition."""
        return sql_views.replace_view(self._tables.views, self._storage(), view, new)

    def rename_view(self, identifier: Identifier, to: Identifier) -> None:
        """Rename a view."""
        self._tables.views.rename_table(*_key(identifier), *_key(to))

    def drop_view(self, identifier: Identifier) -> None:
        """Remove a view from the catalog; its files stay."""
        self._tables.views.remove_table(*_key(identifier))

    def default_location(self, identifier: Identifier) -> str:
        """The folder of a new table or view: in that of its namespace, or of the warehouse."""
        namespace, name = _key(identifier)
        folder = self._tables.namespace_properties(namespace).get("location")
        if folder:
            return join(folder.rstrip("/"), name)
        warehouse = self.properties.get("warehouse")
        if not warehouse:
            raise self._without_warehouse()
        return join(str(warehouse).rstrip("/"), namespace, name)

    def _storage(self) -> Storage:
        """Access to metadata files; connections are kept as long as the options are the same."""
        self._files = kept_storage(self._files, self.properties)
        return self._files

    def close(self) -> None:
        """Close idle connections."""
        self.database.close()


def _key(identifier: Identifier) -> tuple[str, str]:
    """Namespace and name, as rows have them."""
    return ".".join(identifier[:-1]), identifier[-1]
