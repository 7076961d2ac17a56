"""Faults below everything: every call that leaves the process for a store or a catalog is counted, and one goes wrong.

What is watched are the places that all calls pass: the methods of local and object files, the sinks, the rename of a
folder, statements and commits of SQL catalogs, requests to REST catalogs, calls of Hive metastores. A
call inside another one (a file that is written is also opened) is not counted. PyArrow's reads of local files that are
open already are not seen.
"""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from skerry.databases.hive_metastore import HiveMetastore, UnansweredError
from skerry.databases.sql_database import SqlConnection
from skerry.errors import StorageError
from skerry.http.http_client import HttpClient, HttpError
from skerry.storage.local import LocalFiles, LocalSink
from skerry.storage.objects import ObjectFiles
from skerry.storage.streams import Sink

__all__ = ["Call", "Fault", "Injector", "Kind"]


class Kind(Enum):
    """What happens to a call."""

    ERROR_BEFORE = "error-before"
    ERROR_AFTER = "error-after"
    KILL = "kill"
    INTERRUPT = "interrupt"
    DELAY = "delay"


READS = ("size", "read", "read_ranges", "read_tail", "list_files", "list_folder", "open_input", "open_reader")
"""Without effect, so that an error after them is one before."""

DELAY_SECONDS = 0.05
AFTERWARDS_SECONDS = 0.2
"""How long a thread that is not the main one waits for the interrupt that it has sent there."""


@dataclass(frozen=True)
class Fault:
    """One call that goes wrong.

    Args:
        number: The call, from 1.
        kind: How.
    """

    number: int
    kind: Kind


@dataclass(frozen=True)
class Call:
    """A call that was made.

    Args:
        what: The method, or the statement's first words.
        has_effect: Whether it changes anything outside.
        writes: Whether it leaves a file.
    """

    what: str
    has_effect: bool
    writes: bool = False


@dataclass
class Injector:
    """Watches the calls of this process from `install` on, for good.

    Args:
        fault: What goes wrong; nothing if None.
    """

    fault: Fault | None = None
    calls: list[Call] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _inside: threading.local = field(default_factory=threading.local)

    def install(self) -> None:
        """Begin."""
        self._watch_files()
        self._watch_sql()
        self._watch_rest()
        self._watch_hive()

    def run(self, call: Call, error: Callable[[], Exception], act: Callable[[], Any]) -> Any:
        """Make a call, or let it go wrong."""
        if getattr(self._inside, "call", False):
            return act()
        with self._lock:
            self.calls.append(call)
            number = len(self.calls)
        self._inside.call = True
        try:
            if self.fault is None or number != self.fault.number:
                return act()
            match self.fault.kind:
                case Kind.ERROR_BEFORE:
                    raise error()
                case Kind.KILL:
                    os.kill(os.getpid(), signal.SIGKILL)
                case Kind.DELAY:
                    time.sleep(DELAY_SECONDS)
            result = act()
            match self.fault.kind:
                case Kind.ERROR_AFTER:
                    raise error()
                case Kind.INTERRUPT:
                    _interrupt()
            return result
        finally:
            self._inside.call = False

    def _wrap(self, owner: type, method: str, call: Call, error: Callable[..., Exception]) -> None:
        """Watch a method; `error` makes the fault's exception of its arguments."""
        real = getattr(owner, method)

        def watched(*arguments: Any, **keywords: Any) -> Any:
            return self.run(call, lambda: error(*arguments), lambda: real(*arguments, **keywords))

        setattr(owner, method, watched)

    def _watch_files(self) -> None:
        def failed(*_: Any) -> Exception:
            return StorageError("injected: the store failed")

        for files in (LocalFiles, ObjectFiles):
            _list_at_once(files)
            for method in READS:
                if hasattr(files, method):
                    self._wrap(files, method, Call(method, False), failed)
            self._wrap(files, "arrow_file", Call("arrow_file", False), failed)
            self._wrap(files, "open_output", Call("open_output", files is LocalFiles, True), failed)
            self._wrap(files, "write", Call("write", True, True), failed)
        self._watch_deletes(LocalFiles, failed)
        self._wrap(ObjectFiles, "delete", Call("delete", True), failed)
        self._wrap(LocalSink, "_send", Call("send", True), failed)
        for sink in _subclasses(Sink):
            self._watch_publishing(sink, failed)
        rename = os.rename

        def watched(source: str, target: str) -> None:
            self.run(Call("rename", True), lambda: OSError(errno.EIO, "injected"), lambda: rename(source, target))

        os.rename = watched  # type: ignore[assignment]

    def _watch_deletes(self, files: type, failed: Callable[..., Exception]) -> None:
        """Each file that is deleted is a call of its own, so that a fault comes between any two."""
        real = files.delete  # type: ignore[attr-defined]

        def watched(instance: Any, locations: Any) -> None:
            for location in locations:
                self.run(Call("delete", True), failed, lambda one=location: real(instance, [one]))

        files.delete = watched  # type: ignore[attr-defined]

    def _watch_publishing(self, sink: type, failed: Callable[..., Exception]) -> None:
        """A sink that fails to publish throws away what it has, as it does when the system reports the error."""
        real = sink._publish  # type: ignore[attr-defined]

        def watched(instance: Any) -> None:
            def error() -> Exception:
                instance._discard()
                return failed()

            self.run(Call("publish", True, True), error, lambda: real(instance))

        sink._publish = watched  # type: ignore[attr-defined]

    def _watch_sql(self) -> None:
        execute, commit = SqlConnection.execute, SqlConnection.commit

        def failed(connection: SqlConnection) -> Exception:
            return _operational_error(connection.raw)("injected: the database failed")

        def watched_execute(connection: SqlConnection, statement: str, parameters: Any = ()) -> Any:
            what = " ".join(statement.split()[:3])
            call = Call(f"sql {what}", not what.upper().startswith(("SELECT", "PRAGMA", "BEGIN")))
            return self.run(call, lambda: failed(connection), lambda: execute(connection, statement, parameters))

        def watched_commit(connection: SqlConnection) -> None:
            self.run(Call("sql commit", True), lambda: failed(connection), lambda: commit(connection))

        SqlConnection.execute = watched_execute  # type: ignore[method-assign]
        SqlConnection.commit = watched_commit  # type: ignore[method-assign]

    def _watch_rest(self) -> None:
        send = HttpClient._send_once

        def watched(client: Any, method: str, *arguments: Any) -> Any:
            return self.run(
                Call(f"http {method}", method not in ("GET", "HEAD")),
                lambda: HttpError("injected: the connection is broken", may_have_effect=True),
                lambda: send(client, method, *arguments),
            )

        HttpClient._send_once = watched  # type: ignore[method-assign]

    def _watch_hive(self) -> None:
        exchange = HiveMetastore._exchange

        def watched(client: Any, connected: Any, name: str, arguments: Any) -> Any:
            def error() -> Exception:
                client._close()
                return UnansweredError("injected: the connection is broken")

            has_effect = not name.startswith("get_")
            call = Call(f"hive {name}", has_effect)
            return self.run(call, error, lambda: exchange(client, connected, name, arguments))

        HiveMetastore._exchange = watched  # type: ignore[method-assign]


def _operational_error(connection: Any) -> type[Exception]:
    """The exception of a database's library for a failure of the database."""
    if isinstance(connection, sqlite3.Connection):
        return sqlite3.OperationalError
    import psycopg

    return psycopg.OperationalError


def _list_at_once(files: type) -> None:
    """Listings are generators, which would begin after the call that is watched."""
    real = files.list_files  # type: ignore[attr-defined]

    def listed(instance: Any, location: Any) -> Any:
        return iter(list(real(instance, location)))

    files.list_files = listed  # type: ignore[attr-defined]


def _subclasses(base: type) -> list[type]:
    return [kind for kind in base.__subclasses__() if "_publish" in vars(kind)]


def _interrupt() -> None:
    """Ctrl-C, which Python hands to the main thread."""
    if threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    time.sleep(AFTERWARDS_SECONDS)
