"""The Paimon tables of a JDBC catalog: their names are rows of a SQL database, shared with Paimon Java and pypaimon.

Spec: docs/formats/paimon.md § 16.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from skerry.catalog.iceberg_following import IcebergFollower
from skerry.catalog.names import identifier_of, parts_of
from skerry.catalog.paimon_tables import PaimonTables
from skerry.catalog.stores import NewTable
from skerry.errors import CommitUnknownError, NotFoundError, SchemaError, SkerryError, StorageError
from skerry.paimon.catalogs.jdbc_lock import CatalogLock, JdbcAuthority, copied_options, shared_database
from skerry.paimon.catalogs.jdbc_tables import open_jdbc_tables
from skerry.paimon.handle import PaimonHandle
from skerry.paimon.metadata.option_values import parse_bool, parse_duration_ms
from skerry.paimon.metadata.paths import TablePaths
from skerry.paimon.metadata.schemas import latest_schema
from skerry.storage import is_local, local_path
from skerry.table.owned_files import owned_files
from skerry.table.sending import Sending

__all__ = ["JdbcPaimonTables"]

_KEY: Final = "catalog-key"
_DEFAULT_KEY: Final = "jdbc"
_LOCK: Final = "lock.enabled"
_MAX_SLEEP: Final = "lock-check-max-sleep"
_TIMEOUT: Final = "lock-acquire-timeout"


class JdbcPaimonTables(PaimonTables):
    """The methods of `skerry.catalog.stores.TableStore` on a SQL database and a folder.

    Args:
        uri: The address of the SQL database.
        options: `warehouse`, `catalog-key`, `lock.enabled`, `lock-check-max-sleep`, `lock-acquire-timeout` as in
            Paimon Java, and options of the storage.

    Raises:
        CatalogLockedError: Another process has locked the database.
        SchemaError: An option has no valid value.
        StorageError: The database cannot be reached.
        UnsupportedError: It is another kind of database.
    """

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        super().__init__(options["warehouse"], options)
        self._uri = uri
        self._key = options.get(_KEY, _DEFAULT_KEY)
        self._lock = _lock_of(options, is_object_store=not is_local(self.warehouse))
        self._names = open_jdbc_tables(shared_database(uri), self._key)

    def list_namespaces(self) -> list[str]:
        """The databases."""
        return self._names.databases()

    def create_namespace(self, name: str, properties: Mapping[str, str]) -> None:
        """Create a database."""
        self._names.add_database(name, self._namespace(parts_of(name)), properties)

    def drop_namespace(self, name: str) -> None:
        """Remove a database without tables; its folder goes if nothing else is in it."""
        self._names.remove_database(name)
        with suppress(SchemaError, StorageError):
            self._delete_namespace(name)

    def list_tables(self, namespace: str) -> list[str]:
        """Names of the tables in a namespace."""
        parts = parts_of(namespace)
        return [f"{namespace}.{name}" for name in self._names.tables(namespace)] if len(parts) == 1 else []

    def exists(self, name: str) -> bool:
        """Whether there is a table of that name."""
        parts = identifier_of(name)
        return len(parts) == 2 and self._names.has_table(*parts)

    def create(self, name: str, table: NewTable) -> None:
        """Create a table: its first schema, then its row; without the row the schema is removed again."""
        database, own = self._split(name)
        if not self._names.has_database(database):
            self.create_namespace(database, {})
        paths = TablePaths(self.location(name))
        with owned_files(self.storage) as files, self._authority(name).locked():
            super().create(name, table)
            files.add(paths.schema(0))
            options = copied_options(latest_schema(self.storage, paths))
            with Sending(files) as sending:
                self._names.add_table(database, own, options, sending)

    def rename(self, name: str, to: str) -> None:
        """Move a table's folder, then rename its row; if that fails, the folder moves back."""
        source, target = self._split(name), self._split(to)
        if not self.exists(name):
            raise NotFoundError(f"no Paimon table {name!r}")
        if not self._names.has_database(target[0]):
            raise NotFoundError(f"no namespace {target[0]!r}")
        folder = local_path(self.location(to))
        if folder is not None:  # databases have no folder until they have a table
            Path(folder).parent.mkdir(parents=True, exist_ok=True)
        with self._authority(name).locked():
            self._move(name, to)
            try:
                self._names.rename_table(source, target)
            except CommitUnknownError:
                raise
            except SkerryError:
                self._move(to, name)
                raise

    def drop(self, name: str, *, purge: bool) -> None:
        """Remove a table's row, then delete its folder."""
        if not self.exists(name):
            super().drop(name, purge=purge)
            return
        if not purge:
            raise SchemaError("a Paimon table is its folder: purge=True drops it with its files", location=name)
        self._names.remove_table(*self._split(name))
        self._delete(name)

    def _handle(self, name: str) -> PaimonHandle:
        return PaimonHandle.open(
            self.storage,
            self.location(name),
            name=name,
            authority=self._authority(name),
            follower=IcebergFollower(),
        )

    def _authority(self, name: str) -> JdbcAuthority:
        return JdbcAuthority(self._uri, self._key, *self._split(name), lock=self._lock)

    def _split(self, name: str) -> tuple[str, str]:
        """Database and own name of a table."""
        parts = identifier_of(name)
        if len(parts) > 2:
            self._refuse_nesting(parts[:-1])
        return parts[0], parts[1]


def _lock_of(options: Mapping[str, str], *, is_object_store: bool) -> CatalogLock | None:
    usual = CatalogLock()
    if not (parse_bool(_LOCK, options[_LOCK]) if _LOCK in options else is_object_store):
        return None
    return CatalogLock(
        parse_duration_ms(_MAX_SLEEP, options[_MAX_SLEEP]) / 1000 if _MAX_SLEEP in options else usual.max_sleep_s,
        parse_duration_ms(_TIMEOUT, options[_TIMEOUT]) / 1000 if _TIMEOUT in options else usual.acquire_timeout_s,
    )
