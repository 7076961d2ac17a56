"""The locks of Paimon's JDBC catalog: a row per table while one of its snapshots or schemas is being published.

Paimon Java takes them where `lock.enabled` is set, by default for warehouses on object stores, where its own way to
create a file is not atomic. Ours is; the lock keeps Java from checking for a file that we are about to create.

Spec: docs/formats/paimon.md § 16.1; Paimon Java, `JdbcCatalogLock`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from skerry.databases.sql_database import SqlDatabase
from skerry.errors import AlreadyExistsError, CatalogLockedError, CommitUnknownError, StorageError
from skerry.paimon.catalogs.jdbc_tables import JdbcTables, define_tables
from skerry.paimon.metadata.authority import Authority
from skerry.paimon.metadata.paths import TablePaths
from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.metadata.snapshot import Snapshot
from skerry.storage import Storage
from skerry.table.owned_files import after_publish, log_failures

__all__ = ["CatalogLock", "JdbcAuthority", "copied_options", "shared_database"]

_CREATE: Final = """\
CREATE TABLE IF NOT EXISTS paimon_distributed_locks (
    lock_id VARCHAR(255) NOT NULL,
    acquired_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL,
    expire_time_seconds BIGINT DEFAULT 0 NOT NULL,
    PRIMARY KEY (lock_id)
)"""
_HELD_S: Final = {
    "sqlite": "strftime('%s', 'now') - strftime('%s', acquired_at)",
    "postgresql": "EXTRACT(EPOCH FROM AGE(NOW(), acquired_at))",
}
"""How long a row has been there, in seconds, by the database's clock."""
_FIRST_PAUSE_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class CatalogLock:
    """How tables of a catalog are locked.

    Args:
        max_sleep_s: The longest pause between two attempts to take a lock (`lock-check-max-sleep`).
        acquire_timeout_s: How long to try, and when a lock that nobody releases expires (`lock-acquire-timeout`).
    """

    max_sleep_s: float = 8.0
    acquire_timeout_s: float = 480.0

    @contextmanager
    def held(self, sql: SqlDatabase, name: str) -> Iterator[None]:
        """Hold the lock of a name.

        Raises:
            CatalogLockedError: Others have held it for too long, or the database failed; nothing has begun.
        """
        deadline = time.monotonic() + self.acquire_timeout_s
        pause_s = _FIRST_PAUSE_S
        while not self._take(sql, name):
            if time.monotonic() + pause_s > deadline:
                raise CatalogLockedError(
                    f"the lock {name!r} was held by others for {self.acquire_timeout_s:g} s; nothing was changed",
                    location=sql.dialect.location,
                )
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, self.max_sleep_s)
        try:
            yield
        finally:
            with log_failures(f"lock {name!r} was not released, and expires"), sql.writing() as connection:
                connection.change("DELETE FROM paimon_distributed_locks WHERE lock_id = ?", (name,))

    def _take(self, sql: SqlDatabase, name: str) -> bool:
        held_s = _HELD_S[sql.dialect.url.dialect]
        try:
            with sql.writing() as connection:
                connection.change(
                    f"DELETE FROM paimon_distributed_locks WHERE {held_s} > expire_time_seconds AND lock_id = ?",
                    (name,),
                )
                connection.change(
                    "INSERT INTO paimon_distributed_locks (lock_id, expire_time_seconds) VALUES (?, ?)",
                    (name, int(self.acquire_timeout_s)),
                )
        except AlreadyExistsError:
            return False
        except (StorageError, CommitUnknownError) as error:
            raise CatalogLockedError(
                f"the lock {name!r} cannot be taken; nothing was changed: {error.message}", location=error.location
            ) from error
        return True


@dataclass(frozen=True)
class JdbcAuthority(Authority):
    """Publishes in files, as everywhere, under the catalog's lock if there is one.

    Args:
        uri: The address of the SQL database.
        catalog_key: The catalog's name in it.
        database: The table's database.
        table: Its name.
        lock: How it is locked; None for no locks.
    """

    uri: str = field(repr=False)
    catalog_key: str
    database: str
    table: str
    lock: CatalogLock | None = None

    def create_snapshot(self, storage: Storage, paths: TablePaths, snapshot: Snapshot, base: Snapshot | None) -> None:
        """See `Authority.create_snapshot`.

        Raises:
            CatalogLockedError: Others hold the lock; nothing was published.
        """
        with self.locked():
            super().create_snapshot(storage, paths, snapshot, base)

    def create_schema(
        self, storage: Storage, paths: TablePaths, schema: TableSchema, base: TableSchema | None = None
    ) -> None:
        """See `Authority.create_schema`; options of the main branch are copied into the SQL database."""
        with self.locked():
            super().create_schema(storage, paths, schema, base)
        if base is not None:
            with after_publish("copying the table's options into the catalog"):
                JdbcTables(shared_database(self.uri), self.catalog_key).set_options(
                    self.database, self.table, copied_options(schema)
                )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the table's lock, if the catalog has locks.

        Raises:
            CatalogLockedError: Others hold it, or the database failed; nothing has begun.
        """
        if self.lock is None:
            yield
            return
        sql = shared_database(self.uri)
        define_tables(sql, {"paimon_distributed_locks": _CREATE})
        with self.lock.held(sql, f"{self.catalog_key}.{self.database}.{self.table}"):
            yield


def shared_database(uri: str) -> SqlDatabase:
    """A SQL database: one object for all tables of the process, so that they share connections.

    Raises:
        SchemaError: That is not an address.
        UnsupportedError: It is another kind of database.
    """
    with _opening:
        found = _opened.get(uri)
        if found is None:
            found = _opened[uri] = SqlDatabase(uri)
        return found


_opened: Final[dict[str, SqlDatabase]] = {}
_opening: Final = threading.Lock()


def copied_options(schema: TableSchema) -> dict[str, str]:
    """What the catalog copies of a schema: its options and its keys, as Paimon Java does."""
    found = dict(schema.options)
    for name, columns in (
        ("primary-key", schema.primary_keys),
        ("partition", schema.partition_keys),
        ("bucket-key", schema.bucket_keys if schema.options.get("bucket", "-1") != "-1" else ()),
    ):
        if columns:
            found.setdefault(name, ",".join(columns))
    return found
