"""Transactions of SQL catalogs that always end, whether they succeed or fail.

SQLAlchemy returns a connection whose COMMIT failed to its pool with the transaction still open: the next read over it
finds rows that no other connection will ever see, and SQLite's lock stays taken. Here a failed transaction is rolled
back and its connection closed before the failure is reported.

A SQLite transaction that writes takes the write lock when it begins, so that it waits for the lock there and not in the
middle. Its journal stays the rollback journal: with a write-ahead log, a folder copied without its `-wal` file has no
tables, and a folder without write permission cannot be opened.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.engine import ExceptionContext

from skerry.errors import CatalogLockedError
from skerry.iceberg.metadata.loading import in_memory

__all__ = ["end_failed_transactions", "is_locked"]

_SQLITE_DEFAULT_TIMEOUT_S = 5.0  # default of Python's module if the URI does not set a timeout
_LOCK_NOT_AVAILABLE = "55P03"  # PostgreSQL's SQLSTATE after `lock_timeout`


def end_failed_transactions(engine: Engine) -> None:
    """Make an engine end failed transactions, and report a locked database.

    Args:
        engine: The engine of a SQL catalog; its open connections are included.
    """
    event.listen(engine, "handle_error", _end_transaction)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "checkout", _lock_when_writing_begins)


def is_locked(error: BaseException | None) -> bool:
    """Whether SQLite or PostgreSQL reports a timeout while waiting for another connection's lock."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        return bool(code & 0xFF == sqlite3.SQLITE_BUSY)
    return getattr(error, "sqlstate", None) == _LOCK_NOT_AVAILABLE


def _lock_when_writing_begins(connection: Any, *_: Any) -> None:
    connection.isolation_level = "IMMEDIATE"  # Python's module then begins so before writes, not before reads


def _end_transaction(context: ExceptionContext) -> None:
    """Roll back a failed transaction, then release the connection.

    Raises:
        CatalogLockedError: The database was locked; the transaction is rolled back.
    """
    connection = context.connection
    ends_transaction = context.statement is None  # the failure of a COMMIT, ROLLBACK or BEGIN
    locked = is_locked(context.original_exception)
    if connection is None or not (ends_transaction or locked):
        return
    rolled_back = _roll_back(connection.connection.dbapi_connection)
    if not context.is_disconnect and not in_memory(connection.engine.url):
        context.is_disconnect = True  # the pool closes the connection and opens another
        context.invalidate_pool_on_disconnect = False  # its other connections may continue
    if locked and rolled_back:
        raise CatalogLockedError(
            f"catalog locked by another process for {_waited(connection.engine)}; nothing was changed",
            location=connection.engine.url.database,
        )


def _waited(engine: Engine) -> str:
    if engine.dialect.name != "sqlite":
        return "longer than lock_timeout"
    return f"{float(str(engine.url.query.get('timeout', _SQLITE_DEFAULT_TIMEOUT_S))):g} s"


def _roll_back(connection: Any) -> bool:
    try:
        connection.rollback()
    except Exception:  # noqa: BLE001
        return False
    return True
