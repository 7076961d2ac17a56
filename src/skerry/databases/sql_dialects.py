"""What SQLite and PostgreSQL do differently: connections, statements, and what their errors mean."""

from __future__ import annotations

import os
import sqlite3
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final

from skerry.databases.sql_url import SqlUrl, parse_sql_url
from skerry.errors import MissingDependencyError, UnsupportedError
from skerry.storage import redact

__all__ = ["SQLITE_TIMEOUT_S", "Dialect", "dialect_of"]

# How long a writer waits for another one's lock on the SQLite file. A commit holds it for milliseconds; one that has
# timed out is retried, as after a lost race.
SQLITE_TIMEOUT_S: Final = 10.0
_MAX_TIMEOUT_S: Final = 1_000_000
_CONNECT_TIMEOUT_S: Final = 30
_MEMORY: Final = ("", ":memory:")
_SQLITE_OPTIONS: Final = ("uri", "timeout")
# SQLAlchemy's options of SQLite that do not concern other libraries.
_IGNORED_OPTIONS: Final = ("isolation_level", "detect_types", "check_same_thread", "cached_statements")


class Dialect(ABC):
    """A kind of database, and how to reach one of them.

    Args:
        url: Its address.

    Attributes:
        location: The database, for messages.
        path: Its file as an absolute path; None if it is not simply a file.
        begin_write: Begins a transaction that writes.
        placeholder: Stands for a parameter.
        is_private: Whether the database is seen by one connection only, which must be kept.
    """

    begin_write: ClassVar[str] = "BEGIN"
    placeholder: ClassVar[str] = "?"
    is_private: bool = False

    def __init__(self, url: SqlUrl) -> None:
        self.url = url
        self.location = url.database
        self.path: str | None = None

    @abstractmethod
    def connect(self) -> Any:
        """Open a connection that begins no transactions by itself.

        Raises:
            MissingDependencyError: The library for it is not installed.
        """

    def identity(self) -> Any:
        """What the database is at this moment, to notice that its file was replaced."""
        return None

    @abstractmethod
    def is_error(self, error: BaseException) -> bool:
        """Whether an exception is the library's."""

    @abstractmethod
    def is_locked(self, error: BaseException) -> bool:
        """Whether another connection kept a lock for too long."""

    @abstractmethod
    def is_duplicate(self, error: BaseException) -> bool:
        """Whether a row of that key exists."""

    @abstractmethod
    def is_missing(self, error: BaseException) -> bool:
        """Whether a table or column does not exist."""

    @property
    @abstractmethod
    def waited(self) -> str:
        """How long a connection waits for a lock."""


class _Sqlite(Dialect):
    begin_write = "BEGIN IMMEDIATE"  # waits for the lock here, not in the middle

    def __init__(self, url: SqlUrl) -> None:
        super().__init__(url)
        options = dict(url.options)
        self._is_uri = options.get("uri", "").lower() in ("true", "1", "yes", "on")
        rest = {key: value for key, value in options.items() if key not in (*_SQLITE_OPTIONS, *_IGNORED_OPTIONS)}
        if rest and not self._is_uri:
            raise UnsupportedError(f"SQLite has no option {next(iter(rest))!r}", location=redact(url.database))
        try:
            self._timeout_s = float(options.get("timeout", SQLITE_TIMEOUT_S))
        except ValueError:
            raise UnsupportedError(f"SQLite's option timeout={options['timeout']!r} is not a number") from None
        if not 0 <= self._timeout_s <= _MAX_TIMEOUT_S:
            raise UnsupportedError(f"SQLite's option timeout={options['timeout']!r} is not 0 to {_MAX_TIMEOUT_S} s")
        self.is_private = url.database in _MEMORY
        if self.is_private:
            self._database = ":memory:"
        elif self._is_uri:
            self._database = url.database + "".join(
                f"{'&' if number else '?'}{key}={value}" for number, (key, value) in enumerate(rest.items())
            )
        else:
            self._database = os.path.abspath(url.database)  # noqa: PTH100  links stay what they are
            self.location = self.path = self._database

    def connect(self) -> Any:
        return sqlite3.connect(
            self._database,
            timeout=self._timeout_s,
            isolation_level=None,
            uri=self._is_uri,
            check_same_thread=False,  # one thread at a time uses it
        )

    def identity(self) -> Any:
        if self.path is None:
            return None
        try:
            found = os.stat(self.path)  # noqa: PTH116  twice as fast, before each statement
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def is_error(self, error: BaseException) -> bool:
        return isinstance(error, sqlite3.Error)

    def is_locked(self, error: BaseException) -> bool:
        return _sqlite_code(error) & 0xFF == sqlite3.SQLITE_BUSY

    def is_duplicate(self, error: BaseException) -> bool:
        return isinstance(error, sqlite3.IntegrityError)

    def is_missing(self, error: BaseException) -> bool:
        return isinstance(error, sqlite3.OperationalError) and "no such " in str(error)

    @property
    def waited(self) -> str:
        return f"{self._timeout_s:g} s"


def _sqlite_code(error: BaseException) -> int:
    return int(getattr(error, "sqlite_errorcode", 0) or 0)


class _Postgres(Dialect):
    placeholder = "%s"

    # SQLSTATE, PostgreSQL's Appendix A
    _LOCK_NOT_AVAILABLE = "55P03"
    _UNIQUE_VIOLATION = "23505"
    _UNDEFINED = ("42P01", "42703")  # table, column

    def connect(self) -> Any:
        try:
            import psycopg
        except ImportError:
            raise MissingDependencyError("catalogs in PostgreSQL need psycopg: install skerry[postgres]") from None
        url = self.url
        arguments: dict[str, Any] = {
            "host": url.host,
            "port": url.port,
            "user": url.user,
            "password": url.password,
            "dbname": url.database or None,
            "connect_timeout": _CONNECT_TIMEOUT_S,
            **dict(url.options),
        }
        given = {key: value for key, value in arguments.items() if value is not None}
        # statements are not prepared: poolers between here and the server may not support it
        return psycopg.connect(autocommit=True, prepare_threshold=None, **given)

    def is_error(self, error: BaseException) -> bool:
        return type(error).__module__.partition(".")[0] == "psycopg"

    def is_locked(self, error: BaseException) -> bool:
        return getattr(error, "sqlstate", None) == self._LOCK_NOT_AVAILABLE

    def is_duplicate(self, error: BaseException) -> bool:
        return getattr(error, "sqlstate", None) == self._UNIQUE_VIOLATION

    def is_missing(self, error: BaseException) -> bool:
        return getattr(error, "sqlstate", None) in self._UNDEFINED

    @property
    def waited(self) -> str:
        return "longer than lock_timeout"


_DIALECTS: Final[dict[str, type[Dialect]]] = {"sqlite": _Sqlite, "postgresql": _Postgres}


def dialect_of(uri: str) -> Dialect:
    """The kind of database at an address.

    Raises:
        SchemaError: It is not an address.
        UnsupportedError: It is of another kind.
    """
    url = parse_sql_url(uri)
    dialect = _DIALECTS.get(url.dialect)
    if dialect is None:
        raise UnsupportedError(f"databases of kind {url.dialect!r} are not supported", location=redact(uri))
    return dialect(url)
