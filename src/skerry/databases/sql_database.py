"""Connections to a SQL database, and transactions that always end, whether they succeed or fail.

A failed transaction is rolled back and its connection closed before the failure is reported: a connection whose COMMIT
failed may show rows that no other connection will ever see, and SQLite's lock would stay taken.

A SQLite transaction that writes takes the write lock when it begins, so that it waits for the lock there and not in the
middle. Its journal stays the rollback journal: with a write-ahead log, a folder copied without its `-wal` file has no
tables, and a folder without write permission cannot be opened.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from skerry.databases.sql_dialects import Dialect, dialect_of
from skerry.errors import (
    AlreadyExistsError,
    CatalogLockedError,
    CommitUnknownError,
    NotFoundError,
    SkerryError,
    StorageError,
)

__all__ = ["SqlConnection", "SqlDatabase"]

_MAX_IDLE = 4
_FRESH_S = 1.0
"""An idle connection is checked before it is used again, unless it was used a moment ago."""


class SqlConnection:
    """One connection; statements have `?` for parameters.

    Args:
        dialect: The kind of database.

    Attributes:
        raw: The library's connection.
        used_at: When it was used last, by the monotonic clock.
        identity: What the database was when it was opened.
        is_clean: Whether it can be used again although its transaction failed.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.used_at = time.monotonic()
        self.is_clean = False
        try:
            self.raw: Any = dialect.connect()
        except Exception as error:
            if dialect.is_error(error):
                raise self._translated(error) from None
            raise
        self.identity = dialect.identity()

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> Any:
        """Execute a statement; returns the library's cursor, with its exceptions."""
        if self._dialect.placeholder != "?":
            statement = statement.replace("?", self._dialect.placeholder)
        return self.raw.execute(statement, tuple(parameters))

    def commit(self) -> None:
        """End a transaction with the library's exceptions."""
        self.raw.execute("COMMIT")

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query.

        Raises:
            CatalogLockedError: Another connection has locked them.
            NotFoundError: There is no such table or column.
            StorageError: The database failed.
        """
        with self._errors():
            return list(self.execute(statement, parameters).fetchall())

    def change(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        """Execute a statement that changes rows; returns how many.

        Raises:
            AlreadyExistsError: A row of that key exists.
            CatalogLockedError: Another connection has locked them.
            NotFoundError: There is no such table or column.
            StorageError: The database failed.
        """
        with self._errors():
            return int(self.execute(statement, parameters).rowcount)

    def roll_back(self) -> bool:
        """End a transaction without effect; returns whether that is certain."""
        try:
            self.raw.execute("ROLLBACK")
        except Exception:  # noqa: BLE001
            return False
        return True

    def close(self) -> None:
        """Close the connection, whatever state it is in."""
        with suppress(Exception):
            self.raw.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if self._dialect.is_error(error):
                raise self._translated(error) from error
            raise

    def _translated(self, error: Exception) -> SkerryError:
        dialect = self._dialect
        if dialect.is_locked(error):
            return locked(dialect)
        text = str(error).strip()
        if dialect.url.password:
            text = text.replace(dialect.url.password, "***")
        if dialect.is_duplicate(error):
            return AlreadyExistsError(text, location=dialect.location)
        if dialect.is_missing(error):
            return NotFoundError(text, location=dialect.location)
        return StorageError(f"the catalog's database failed: {type(error).__name__}: {text}", location=dialect.location)


def locked(dialect: Dialect) -> CatalogLockedError:
    """The error of a transaction that did not get a lock, and was rolled back."""
    return CatalogLockedError(
        f"catalog locked by another process for {dialect.waited}; nothing was changed", location=dialect.location
    )


class SqlDatabase:
    """A SQL database: transactions, each over a connection that no other thread uses.

    Args:
        uri: Its address: `sqlite:///file`, `postgresql://user:password@host/database`.

    Raises:
        SchemaError: That is not an address.
        UnsupportedError: It is another kind of database.
    """

    def __init__(self, uri: str) -> None:
        self.dialect = dialect_of(uri)
        self._idle: list[SqlConnection] = []
        self._inherited: list[SqlConnection] = []
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._private = threading.RLock() if self.dialect.is_private else None

    @property
    def path(self) -> str | None:
        """The database's file as an absolute path; None if it is not a file that this process has opened."""
        return self.dialect.path

    @contextmanager
    def reading(self) -> Iterator[SqlConnection]:
        """A connection for queries, each of which sees what is committed.

        Raises:
            StorageError: The database cannot be reached.
        """
        with self._connection() as connection:
            yield connection

    @contextmanager
    def writing(self, sending: Callable[[], None] = lambda: None) -> Iterator[SqlConnection]:
        """A transaction: committed when the block ends, rolled back if it ends with an exception.

        Args:
            sending: Called just before COMMIT is sent: until then nothing can have an effect.

        Raises:
            CatalogLockedError: Another process has locked the database; the transaction is rolled back.
            CommitUnknownError: COMMIT failed: the transaction may have had an effect.
            StorageError: The database cannot be reached.
        """
        dialect = self.dialect
        with self._connection() as connection:
            try:
                connection.change(dialect.begin_write)
                yield connection
                sending()
            except BaseException:
                connection.is_clean = connection.roll_back()
                raise
            try:
                connection.commit()
            except BaseException as error:
                rolled_back = connection.roll_back()
                if not dialect.is_error(error):
                    raise
                if dialect.is_locked(error) and rolled_back:
                    raise locked(dialect) from error
                raise CommitUnknownError(
                    f"the catalog may or may not have applied the change: {type(error).__name__}: {error}",
                    location=dialect.location,
                ) from error

    def close(self) -> None:
        """Close idle connections; a database in memory stays, because it would be lost."""
        if self._private is not None:
            return
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def _connection(self) -> Iterator[SqlConnection]:
        with self._private or nullcontext():
            connection = self._take()
            try:
                yield connection
            except BaseException:
                if connection.is_clean or self._private is not None:
                    self._give_back(connection)
                else:
                    connection.close()
                raise
            self._give_back(connection)

    def _take(self) -> SqlConnection:
        if os.getpid() != self._process and self._private is None:  # connections belong to the process that forked
            self._process, self._inherited, self._idle = os.getpid(), self._idle, []
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return SqlConnection(self.dialect)
            if self._private is not None or self._is_alive(connection):
                return connection
            connection.close()

    def _is_alive(self, connection: SqlConnection) -> bool:
        """Whether an idle connection still leads to the database: a server may have closed it, a file be replaced."""
        if connection.identity != self.dialect.identity():
            return False
        if time.monotonic() - connection.used_at < _FRESH_S:
            return True
        try:
            connection.rows("SELECT 1")
        except SkerryError:
            return False
        return True

    def _give_back(self, connection: SqlConnection) -> None:
        connection.used_at, connection.is_clean = time.monotonic(), False
        with self._lock:
            keep = self._private is not None or len(self._idle) < _MAX_IDLE
            if keep:
                self._idle.append(connection)
        if not keep:
            connection.close()
