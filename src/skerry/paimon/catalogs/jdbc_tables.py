"""The tables in which Paimon's JDBC catalog keeps names, shared with Paimon Java and pypaimon.

`paimon_tables` has a row per table, `paimon_database_properties` one per property of a database, of which it has one at
least, and `paimon_table_properties` copies of tables' options. One SQL database may hold several catalogs, by
`catalog_key`. A table's files are in `<warehouse>/<database>.db/<table>`.

Spec: docs/formats/paimon.md § 16.1; Paimon documentation, JDBC Catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from skerry.databases.sql_database import SqlConnection, SqlDatabase
from skerry.errors import AlreadyExistsError, NotFoundError, SchemaError, StorageError

__all__ = ["JdbcTables", "define_tables", "open_jdbc_tables"]

_NAME: Final = "VARCHAR(255) NOT NULL"
_CREATE: Final = {
    "paimon_tables": f"""\
CREATE TABLE IF NOT EXISTS paimon_tables (
    catalog_key {_NAME},
    database_name {_NAME},
    table_name {_NAME},
    PRIMARY KEY (catalog_key, database_name, table_name)
)""",
    "paimon_database_properties": f"""\
CREATE TABLE IF NOT EXISTS paimon_database_properties (
    catalog_key {_NAME},
    database_name {_NAME},
    property_key VARCHAR(255),
    property_value VARCHAR(1000),
    PRIMARY KEY (catalog_key, database_name, property_key)
)""",
    "paimon_table_properties": f"""\
CREATE TABLE IF NOT EXISTS paimon_table_properties (
    catalog_key {_NAME},
    database_name {_NAME},
    table_name {_NAME},
    property_key {_NAME},
    property_value VARCHAR(1000),
    PRIMARY KEY (catalog_key, database_name, table_name, property_key)
)""",
}
_MAX_VALUE: Final = 1000
_KEY: Final = "catalog_key = ? AND database_name = ? AND table_name = ?"
_EXISTS: Final = {"exists": "true"}
"""What every database has, so that there is a row of it."""


@dataclass(frozen=True, slots=True)
class JdbcTables:
    """The names of the tables of one catalog in a SQL database.

    Args:
        sql: The SQL database.
        catalog_key: The catalog's name in it.
    """

    sql: SqlDatabase
    catalog_key: str

    def databases(self) -> list[str]:
        """All databases, in alphabetical order."""
        with self.sql.reading() as connection:
            rows = connection.rows(
                "SELECT database_name FROM paimon_tables WHERE catalog_key = ? "
                "UNION SELECT database_name FROM paimon_database_properties WHERE catalog_key = ?",
                (self.catalog_key, self.catalog_key),
            )
        return sorted(str(name) for (name,) in rows)

    def add_database(self, database: str, location: str, properties: Mapping[str, str]) -> None:
        """Create a database.

        Args:
            database: Its name.
            location: Its folder.
            properties: Further properties.

        Raises:
            AlreadyExistsError: It exists.
            CommitUnknownError: It may or may not have been created.
        """
        with self.sql.writing() as connection:
            if self._has_database(connection, database):
                raise AlreadyExistsError(f"namespace {database!r} already exists")
            for key, value in ({**_EXISTS, "location": location} | dict(properties)).items():
                connection.change(
                    "INSERT INTO paimon_database_properties (catalog_key, database_name, property_key, property_value) "
                    "VALUES (?, ?, ?, ?)",
                    (self.catalog_key, database, key, value),
                )

    def remove_database(self, database: str) -> None:
        """Remove a database.

        Raises:
            SchemaError: A table is in it.
        """
        with self.sql.writing() as connection:
            connection.change(
                "DELETE FROM paimon_database_properties WHERE catalog_key = ? AND database_name = ?",
                (self.catalog_key, database),
            )
            if self._has_database(connection, database):  # by a row of a table; the transaction is taken back
                raise SchemaError(f"namespace {database!r} is not empty")

    def has_database(self, database: str) -> bool:
        """Whether a database exists."""
        with self.sql.reading() as connection:
            return self._has_database(connection, database)

    def _has_database(self, connection: SqlConnection, database: str) -> bool:
        return any(
            connection.rows(
                f"SELECT 1 FROM {table} WHERE catalog_key = ? AND database_name = ? LIMIT 1",
                (self.catalog_key, database),
            )
            for table in ("paimon_database_properties", "paimon_tables")
        )

    def tables(self, database: str) -> list[str]:
        """The names of the tables in a database, in alphabetical order."""
        with self.sql.reading() as connection:
            rows = connection.rows(
                "SELECT table_name FROM paimon_tables WHERE catalog_key = ? AND database_name = ?",
                (self.catalog_key, database),
            )
        return sorted(str(name) for (name,) in rows)

    def has_table(self, database: str, table: str) -> bool:
        """Whether there is a table of that name."""
        with self.sql.reading() as connection:
            rows = connection.rows(f"SELECT 1 FROM paimon_tables WHERE {_KEY}", (self.catalog_key, database, table))
        return bool(rows)

    def add_table(self, database: str, table: str, options: Mapping[str, str], sending: Callable[[], None]) -> None:
        """Add a table to a database that exists.

        Args:
            database: The database.
            table: Its name.
            options: What is copied of its schema.
            sending: Called just before the change may have an effect.

        Raises:
            AlreadyExistsError: There is a table of that name.
            NotFoundError: There is no such database.
        """
        with self.sql.writing(sending) as connection:
            if not self._has_database(connection, database):
                raise NotFoundError(f"no namespace {database!r}")
            try:
                connection.change(
                    "INSERT INTO paimon_tables (catalog_key, database_name, table_name) VALUES (?, ?, ?)",
                    (self.catalog_key, database, table),
                )
            except AlreadyExistsError:
                raise AlreadyExistsError(f"table {f'{database}.{table}'!r} already exists") from None
            self._set_options(connection, database, table, options)

    def set_options(self, database: str, table: str, options: Mapping[str, str]) -> None:
        """Copy a table's options, which only list them for other programs."""
        with self.sql.writing() as connection:
            self._set_options(connection, database, table, options)

    def _set_options(self, connection: SqlConnection, database: str, table: str, options: Mapping[str, str]) -> None:
        key = (self.catalog_key, database, table)
        connection.change(f"DELETE FROM paimon_table_properties WHERE {_KEY}", key)
        for name, value in options.items():
            if len(value) <= _MAX_VALUE:
                connection.change(
                    "INSERT INTO paimon_table_properties "
                    "(catalog_key, database_name, table_name, property_key, property_value) VALUES (?, ?, ?, ?, ?)",
                    (*key, name, value),
                )

    def rename_table(self, source: tuple[str, str], target: tuple[str, str]) -> None:
        """Rename a table.

        Raises:
            AlreadyExistsError: There is a table of the new name.
            NotFoundError: There is no such table, or no such database to move to.
        """
        with self.sql.writing() as connection:
            if not self._has_database(connection, target[0]):
                raise NotFoundError(f"no namespace {target[0]!r}")
            try:
                changed = [
                    connection.change(
                        f"UPDATE {table} SET database_name = ?, table_name = ? WHERE {_KEY}",
                        (*target, self.catalog_key, *source),
                    )
                    for table in ("paimon_tables", "paimon_table_properties")
                ]
            except AlreadyExistsError:
                raise AlreadyExistsError(f"table {'.'.join(target)!r} already exists") from None
            if changed[0] != 1:
                raise NotFoundError(f"no table {'.'.join(source)!r}")

    def remove_table(self, database: str, table: str) -> None:
        """Remove a table.

        Raises:
            NotFoundError: There is no such table.
        """
        with self.sql.writing() as connection:
            key = (self.catalog_key, database, table)
            connection.change(f"DELETE FROM paimon_table_properties WHERE {_KEY}", key)
            if connection.change(f"DELETE FROM paimon_tables WHERE {_KEY}", key) != 1:
                raise NotFoundError(f"no table {f'{database}.{table}'!r}")


def open_jdbc_tables(sql: SqlDatabase, catalog_key: str) -> JdbcTables:
    """Find the tables in a SQL database; create them if they do not exist.

    Raises:
        CatalogLockedError: Another process has locked the database.
        StorageError: The database cannot be reached.
    """
    define_tables(sql, _CREATE)
    return JdbcTables(sql, catalog_key)


def define_tables(sql: SqlDatabase, statements: Mapping[str, str]) -> None:
    """Define tables that do not exist; tried twice, since another process may do so at the same time."""
    for is_last in (False, True):
        missing = [name for name in statements if not _is_defined(sql, name)]
        if not missing:
            return
        try:
            with sql.writing() as connection:
                for name in missing:
                    connection.change(statements[name])
            return
        except (AlreadyExistsError, StorageError):
            if is_last:
                raise


def _is_defined(sql: SqlDatabase, table: str) -> bool:
    with sql.reading() as connection, suppress(NotFoundError):
        connection.rows(f"SELECT 1 FROM {table} LIMIT 0")
        return True
    return False
