"""The tables in which SQL catalogs keep names, shared with Iceberg Java's JDBC catalog and PyIceberg's SQL catalog.

`iceberg_tables` has a row per table or view; databases made by older programs have no column `iceberg_type`, and hold
tables only. `iceberg_namespace_properties` has a row per property of a namespace. One database may hold several
catalogs, by `catalog_name`. A namespace's parts are joined by dots; it exists if a row names it, or one below it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from skerry.databases.sql_database import SqlConnection, SqlDatabase
from skerry.errors import AlreadyExistsError, ConflictError, NotFoundError, SchemaError, StorageError, UnsupportedError

__all__ = ["NewLocation", "SqlTables", "open_tables"]

_CREATE_TABLES: Final = """\
CREATE TABLE IF NOT EXISTS iceberg_tables (
    catalog_name VARCHAR(255) NOT NULL,
    table_namespace VARCHAR(255) NOT NULL,
    table_name VARCHAR(255) NOT NULL,
    metadata_location VARCHAR(1000),
    previous_metadata_location VARCHAR(1000),
    iceberg_type VARCHAR(5),
    PRIMARY KEY (catalog_name, table_namespace, table_name)
)"""
_CREATE_PROPERTIES: Final = """\
CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (
    catalog_name VARCHAR(255) NOT NULL,
    namespace VARCHAR(255) NOT NULL,
    property_key VARCHAR(255) NOT NULL,
    property_value VARCHAR(1000) NOT NULL,
    PRIMARY KEY (catalog_name, namespace, property_key)
)"""
_ADD_TYPE: Final = "ALTER TABLE iceberg_tables ADD COLUMN iceberg_type VARCHAR(5)"
_MAX_NAME: Final = 255
_MAX_LOCATION: Final = 1000
_EXISTS: Final = {"exists": "true"}
"""What a namespace without properties has, so that there is a row of it."""
_KEY: Final = "catalog_name = ? AND table_namespace = ? AND table_name = ?"
_VERSIONS: Final = ("v0", "v1")


@dataclass(frozen=True, slots=True)
class NewLocation:
    """A table that gets another metadata file.

    Args:
        namespace: Its namespace.
        name: Its own name.
        old: The metadata file that it must have.
        new: The one that it gets.
    """

    namespace: str
    name: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class SqlTables:
    """The names of the tables, or of the views, of one catalog in a database.

    Args:
        database: The database.
        catalog: The catalog's name.
        has_types: Whether rows say that they are a table or a view; without, all are tables.
        kind: `TABLE`, or `VIEW` for the views; what is said of tables below is then true of them.
    """

    database: SqlDatabase
    catalog: str
    has_types: bool
    kind: str = "TABLE"

    @property
    def views(self) -> SqlTables:
        """The views of the same catalog.

        Raises:
            UnsupportedError: Its rows do not say what they are.
        """
        if not self.has_types:
            raise UnsupportedError(
                "this catalog was created by an older program, and its tables have no column for views: "
                "connect with schema_version='v1' to add it"
            )
        return replace(self, kind="VIEW")

    @property
    def _noun(self) -> str:
        return self.kind.lower()

    @property
    def _taken(self) -> str:
        return "table" if self.kind == "TABLE" else "table or view"

    @property
    def _is_table(self) -> str:
        """The condition for rows of the kind."""
        if self.kind != "TABLE":
            return f" AND iceberg_type = '{self.kind}'"
        return " AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)" if self.has_types else ""

    def namespaces(self) -> set[str]:
        """All namespaces that a row names."""
        with self.database.reading() as connection:
            return {
                str(name)
                for (name,) in connection.rows(
                    "SELECT table_namespace FROM iceberg_tables WHERE catalog_name = ? "
                    "UNION SELECT namespace FROM iceberg_namespace_properties WHERE catalog_name = ?",
                    (self.catalog, self.catalog),
                )
            }

    def has_namespace(self, namespace: str) -> bool:
        """Whether a namespace exists."""
        with self.database.reading() as connection:
            return self._has_namespace(connection, namespace)

    def _has_namespace(self, connection: SqlConnection, namespace: str) -> bool:
        # not LIKE, which ignores case in SQLite
        below, length = f"{namespace}.", len(namespace) + 1
        return any(
            connection.rows(
                f"SELECT 1 FROM {table} "
                f"WHERE catalog_name = ? AND ({column} = ? OR substr({column}, 1, ?) = ?) LIMIT 1",
                (self.catalog, namespace, length, below),
            )
            for table, column in (
                ("iceberg_namespace_properties", "namespace"),
                ("iceberg_tables", "table_namespace"),
            )
        )

    def add_namespace(self, namespace: str, properties: Mapping[str, str]) -> None:
        """Create a namespace.

        Raises:
            AlreadyExistsError: It exists.
            SchemaError: Its name is too long.
        """
        _check_length("the namespace", namespace, _MAX_NAME)
        with self.database.writing() as connection:
            if self._has_namespace(connection, namespace):
                raise AlreadyExistsError(f"namespace {namespace!r} already exists")
            for key, value in (properties or _EXISTS).items():
                connection.change(
                    "INSERT INTO iceberg_namespace_properties (catalog_name, namespace, property_key, property_value) "
                    "VALUES (?, ?, ?, ?)",
                    (self.catalog, namespace, key, value),
                )

    def remove_namespace(self, namespace: str) -> None:
        """Remove a namespace.

        Raises:
            NotFoundError: There is no such namespace.
            SchemaError: A table, a view or a namespace is in it.
        """
        with self.database.writing() as connection:
            connection.change(
                "DELETE FROM iceberg_namespace_properties WHERE catalog_name = ? AND namespace = ?",
                (self.catalog, namespace),
            )
            if self._has_namespace(connection, namespace):  # by a row of what is in it; the transaction is taken back
                raise SchemaError(f"namespace {namespace!r} is not empty")

    def namespace_properties(self, namespace: str) -> dict[str, str]:
        """The properties of a namespace; none if there is no such namespace."""
        with self.database.reading() as connection:
            found = connection.rows(
                "SELECT property_key, property_value FROM iceberg_namespace_properties "
                "WHERE catalog_name = ? AND namespace = ?",
                (self.catalog, namespace),
            )
        return {str(key): str(value) for key, value in found if value is not None}  # Java's schema allows null

    def tables(self, namespace: str | None = None) -> Iterator[tuple[str, str, str | None]]:
        """Namespace, name and metadata file of the tables, of one namespace or of all."""
        statement = "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables WHERE catalog_name = ?"
        only = "" if namespace is None else " AND table_namespace = ?"
        with self.database.reading() as connection:
            rows = connection.rows(
                f"{statement}{only}{self._is_table} ORDER BY table_namespace, table_name",
                (self.catalog,) if namespace is None else (self.catalog, namespace),
            )
        for found, name, location in rows:
            yield str(found), str(name), None if location is None else str(location)

    def metadata_location(self, namespace: str, name: str) -> str:
        """The metadata file of a table.

        Raises:
            NotFoundError: There is no such table.
        """
        with self.database.reading() as connection:
            rows = connection.rows(
                f"SELECT metadata_location FROM iceberg_tables WHERE {_KEY}{self._is_table}",
                (self.catalog, namespace, name),
            )
        if not rows or not rows[0][0]:
            raise NotFoundError(f"no {self._noun} {f'{namespace}.{name}'!r}")
        return str(rows[0][0])

    def has_table(self, namespace: str, name: str) -> bool:
        """Whether there is a table of that name."""
        with self.database.reading() as connection:
            return bool(
                connection.rows(
                    f"SELECT 1 FROM iceberg_tables WHERE {_KEY}{self._is_table}",
                    (self.catalog, namespace, name),
                )
            )

    def add_table(self, namespace: str, name: str, location: str, sending: Callable[[], None] = lambda: None) -> None:
        """Add a table to a namespace that exists.

        Args:
            namespace: The namespace.
            name: Its own name.
            location: Its metadata file.
            sending: Called just before the change may have an effect.

        Raises:
            AlreadyExistsError: There is a table or view of that name.
            NotFoundError: There is no such namespace.
            SchemaError: A name or location is too long.
        """
        _check_length("the table's name", name, _MAX_NAME)
        _check_length("the location of the metadata file", location, _MAX_LOCATION)
        row = {
            "catalog_name": self.catalog,
            "table_namespace": namespace,
            "table_name": name,
            "metadata_location": location,
            **({"iceberg_type": self.kind} if self.has_types else {}),
        }
        marks = ", ".join("?" * len(row))
        with self.database.writing(sending) as connection:
            self._require_namespace(connection, namespace)
            try:
                connection.change(f"INSERT INTO iceberg_tables ({', '.join(row)}) VALUES ({marks})", list(row.values()))
            except AlreadyExistsError:
                raise AlreadyExistsError(f"{self._taken} {f'{namespace}.{name}'!r} already exists") from None

    def replace_locations(self, changes: Sequence[NewLocation], sending: Callable[[], None] = lambda: None) -> None:
        """Replace the metadata files of tables, all or none, if each still is `old`.

        Args:
            changes: The tables; changed in the order of their names, so that two writers do not wait for each other.
            sending: Called just before the changes may have an effect.

        Raises:
            ConflictError: One is another one.
            SchemaError: A location is too long.
        """
        for change in changes:
            _check_length("the location of the metadata file", change.new, _MAX_LOCATION)
        with self.database.writing(sending) as connection:
            for change in sorted(changes, key=lambda change: (change.namespace, change.name)):
                changed = connection.change(
                    "UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ? "
                    f"WHERE {_KEY}{self._is_table} AND metadata_location = ?",
                    (change.new, change.old, self.catalog, change.namespace, change.name, change.old),
                )
                if changed != 1:
                    name = f"{change.namespace}.{change.name}"
                    raise ConflictError(f"{self._noun} {name!r} was changed by another process")

    def rename_table(self, namespace: str, name: str, to_namespace: str, to_name: str) -> None:
        """Rename a table.

        Raises:
            AlreadyExistsError: There is a table or view of the new name.
            NotFoundError: There is no such table, or no such namespace to move to.
            SchemaError: The new name is too long.
        """
        _check_length("the table's name", to_name, _MAX_NAME)
        with self.database.writing() as connection:
            self._require_namespace(connection, to_namespace)
            try:
                changed = connection.change(
                    f"UPDATE iceberg_tables SET table_namespace = ?, table_name = ? WHERE {_KEY}{self._is_table}",
                    (to_namespace, to_name, self.catalog, namespace, name),
                )
            except AlreadyExistsError:
                raise AlreadyExistsError(f"{self._taken} {f'{to_namespace}.{to_name}'!r} already exists") from None
            if changed != 1:
                raise NotFoundError(f"no {self._noun} {f'{namespace}.{name}'!r}")

    def remove_table(self, namespace: str, name: str) -> None:
        """Remove a table.

        Raises:
            NotFoundError: There is no such table.
        """
        with self.database.writing() as connection:
            statement = f"DELETE FROM iceberg_tables WHERE {_KEY}{self._is_table}"
            if connection.change(statement, (self.catalog, namespace, name)) != 1:
                raise NotFoundError(f"no {self._noun} {f'{namespace}.{name}'!r}")

    def _require_namespace(self, connection: SqlConnection, namespace: str) -> None:
        if not self._has_namespace(connection, namespace):
            raise NotFoundError(f"no namespace {namespace!r}")


def open_tables(database: SqlDatabase, catalog: str, *, version: str = "v0", create: bool = True) -> SqlTables:
    """Find the tables in a database; create them if they do not exist.

    Args:
        database: The database.
        catalog: The catalog's name in it.
        version: `v1` to add the column `iceberg_type` to tables that do not have it.
        create: Whether missing tables are created.

    Raises:
        CatalogLockedError: Another process has locked the database.
        SchemaError: There is no such version.
        StorageError: The database cannot be reached.
    """
    if version.lower() not in _VERSIONS:
        raise SchemaError(f"schema_version must be v0 or v1, found {version!r}")
    has_types = _find(database)
    if has_types is None and create:
        _define(database, _CREATE_TABLES, _CREATE_PROPERTIES)
        has_types = _find(database)
    if has_types is False and version.lower() == "v1":
        _define(database, _ADD_TYPE)
        has_types = True
    return SqlTables(database, catalog, has_types is not False)


def _find(database: SqlDatabase) -> bool | None:
    """Whether the tables have a column for the type; None if they do not exist."""
    with database.reading() as connection:
        for column, has_types in (("iceberg_type", True), ("table_namespace", False)):
            with suppress(NotFoundError):
                connection.rows(f"SELECT {column} FROM iceberg_tables, iceberg_namespace_properties LIMIT 0")
                return has_types
    return None


def _define(database: SqlDatabase, *statements: str) -> None:
    """Define tables or columns; tried twice, since another process may do so at the same time."""
    for is_last in (False, True):
        try:
            with database.writing() as connection:
                for statement in statements:
                    connection.change(statement)
            return
        except (AlreadyExistsError, StorageError):
            if is_last and not _find(database):
                raise


def _check_length(what: str, text: str, limit: int) -> None:
    if len(text) > limit:
        raise SchemaError(f"{what} has {len(text)} characters, SQL catalogs allow {limit}: {text[:60]}…")
