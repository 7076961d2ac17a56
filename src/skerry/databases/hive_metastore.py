"""A Hive metastore: the calls of its Thrift interface that a catalog needs, bounded in time and size.

Spec: Hive metastore.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from skerry.databases.thrift_binary import (
    EXCEPTION,
    REPLY,
    Kind,
    Struct,
    decode_message,
    encode_message,
    integer,
    list_of,
    record,
    text,
    text_in,
    texts,
)
from skerry.errors import FormatError, SchemaError, SkerryError
from skerry.storage import redact

__all__ = ["EXISTS", "INVALID", "MISSING", "HiveMetastore", "MetastoreError", "MetastoreLimits", "UnansweredError"]

MISSING: Final = "NoSuchObjectException"
EXISTS: Final = "AlreadyExistsException"
INVALID: Final = "InvalidOperationException"
_META: Final = "MetaException"
_INVALID_OBJECT: Final = "InvalidObjectException"
_NO_LOCK: Final = "NoSuchLockException"
_NO_TRANSACTION: Final = "NoSuchTxnException"
_ABORTED: Final = "TxnAbortedException"
_PORT: Final = 9083
_IDLE_S: Final = 2.0
"""How long a connection may have been idle that a change is sent over: the server may have closed an older one."""
_CHUNK: Final = 1 << 16
_EXCLUSIVE: Final = 3
_TABLE_LEVEL: Final = 2
_NOTHING: Final = (Kind.STOP, None)
ACQUIRED: Final = 1
WAITING: Final = 2


class MetastoreError(SkerryError):
    """What the server raised; does not leave the catalog.

    Args:
        message: Its text.
        kind: The name of the exception.
    """

    def __init__(self, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind


class UnansweredError(SkerryError):
    """A call that got no answer; does not leave the catalog.

    Args:
        message: Why.
        may_have_effect: Whether the server may have executed it.
    """

    def __init__(self, message: str, *, may_have_effect: bool = True) -> None:
        super().__init__(message)
        self.may_have_effect = may_have_effect


@dataclass(frozen=True, slots=True)
class MetastoreLimits:
    """Bounds of a call.

    Args:
        connect_s: For the connection, in seconds.
        answer_s: For the whole answer, in seconds.
        answer_bytes: The size of the answer.
    """

    connect_s: float = 20.0
    answer_s: float = 60.0
    answer_bytes: int = 256 << 20


class HiveMetastore:
    """Calls a metastore; one at a time, over one connection, which is opened when it is needed.

    Args:
        uri: `thrift://host:9083`; several, separated by commas, are tried in their order.
        user: The user that the server is told, and after colons groups; None to tell none.
        limits: Bounds of each call.

    Raises:
        SchemaError: The address is no such one.
    """

    def __init__(self, uri: str, user: str | None = None, limits: MetastoreLimits | None = None) -> None:
        self.addresses = [_address(part.strip()) for part in uri.split(",")]
        self.limits = limits or MetastoreLimits()
        self._user = user
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._used = 0.0
        self._sequence = 0

    def close(self) -> None:
        """Close the connection; it is opened again when it is needed."""
        with self._lock:
            self._close()

    # ---- databases ----

    def database_names(self) -> list[str]:
        """The names of all databases."""
        return _names(self._ask("get_all_databases", {}, {1: _META}))

    def database(self, name: str) -> Struct:
        """A database.

        Raises:
            MetastoreError: There is none of that name (`MISSING`).
        """
        return _struct(self._ask("get_database", {1: text(name)}, {1: MISSING, 2: _META}))

    def create_database(self, database: Struct) -> None:
        """Create a database."""
        self._change("create_database", {1: record(database)}, {1: EXISTS, 2: _INVALID_OBJECT, 3: _META})

    def drop_database(self, name: str) -> None:
        """Remove an empty database; its folder stays."""
        arguments = {1: text(name), 2: (Kind.BOOL, 0), 3: (Kind.BOOL, 0)}
        self._change("drop_database", arguments, {1: MISSING, 2: INVALID, 3: _META})

    # ---- tables ----

    def table_names(self, database: str) -> list[str]:
        """The names of all tables and views of a database."""
        return _names(self._ask("get_all_tables", {1: text(database)}, {1: _META}))

    def table(self, database: str, name: str) -> Struct:
        """A table or view.

        Raises:
            MetastoreError: There is none of that name (`MISSING`).
        """
        request = {1: text(database), 2: text(name)}
        answer = self._ask("get_table_req", {1: record(request)}, {1: _META, 2: MISSING})
        return _struct_of(_struct(answer), 1)

    def tables(self, database: str, names: list[str]) -> list[Struct]:
        """Tables and views by their names; those that are missing are left out."""
        request = {1: text(database), 2: list_of(Kind.STRING, [name.encode() for name in names])}
        raised = {1: _META, 2: INVALID, 3: "UnknownDBException"}
        kind, found = _struct(self._ask("get_table_objects_by_name_req", {1: record(request)}, raised)).get(1, _NOTHING)
        if kind is not Kind.LIST or (found.items and found.kind is not Kind.STRUCT):
            raise FormatError("the server's answer has no list of tables")
        return list(found.items)

    def create_table(self, table: Struct) -> None:
        """Create a table."""
        raised = {1: EXISTS, 2: _INVALID_OBJECT, 3: _META, 4: MISSING}
        self._change("create_table", {1: record(table)}, raised)

    def alter_table(self, database: str, name: str, table: Struct, context: Mapping[str, str]) -> None:
        """Replace a table.

        Args:
            database: Its database.
            name: Its name.
            table: What it is afterwards.
            context: What the server must find, `expected_parameter_key` and `expected_parameter_value` for example.
        """
        properties: Struct = {1: texts(dict(context))}
        arguments = {1: text(database), 2: text(name), 3: record(table), 4: record(properties)}
        self._change("alter_table_with_environment_context", arguments, {1: INVALID, 2: _META})

    def drop_table(self, database: str, name: str) -> None:
        """Remove a table; its files stay."""
        arguments = {1: text(database), 2: text(name), 3: (Kind.BOOL, 0)}
        self._change("drop_table", arguments, {1: MISSING, 3: _META})

    # ---- locks ----

    def lock(self, database: str, name: str, user: str, host: str) -> tuple[int, int]:
        """Ask for the exclusive lock of a table.

        Returns:
            The lock, and whether it is ours (`ACQUIRED`) or we are in the queue (`WAITING`).
        """
        part: Struct = {1: integer(_EXCLUSIVE), 2: integer(_TABLE_LEVEL), 3: text(database), 4: text(name)}
        request: Struct = {
            1: list_of(Kind.STRUCT, [part]),
            3: text(user),
            4: text(host),
            5: text("skerry"),
        }
        found = self._change("lock", {1: record(request)}, {1: _NO_TRANSACTION, 2: _ABORTED})
        return _lock_state(_struct(found))

    def check_lock(self, number: int) -> tuple[int, int]:
        """Whether a lock is ours by now; this also keeps it alive."""
        request = record({1: integer(number, Kind.I64)})
        raised = {1: _NO_TRANSACTION, 2: _ABORTED, 3: _NO_LOCK}
        return _lock_state(_struct(self._change("check_lock", {1: request}, raised)))

    def unlock(self, number: int) -> None:
        """Give a lock back."""
        request = record({1: integer(number, Kind.I64)})
        self._change("unlock", {1: request}, {1: _NO_LOCK, 2: "TxnOpenException"})

    # ---- calls ----

    def _ask(self, name: str, arguments: Struct, raised: Mapping[int, str]) -> Struct:
        """A call that changes nothing: it is repeated once over a new connection."""
        with self._lock:
            with suppress(UnansweredError):
                return self._call(name, arguments, raised)
            return self._call(name, arguments, raised)

    def _change(self, name: str, arguments: Struct, raised: Mapping[int, str]) -> Struct:
        """A call that may change something, over a connection that was in use until now, or a new one."""
        with self._lock:
            if time.monotonic() - self._used > _IDLE_S:
                self._close()
            return self._call(name, arguments, raised)

    def _call(self, name: str, arguments: Struct, raised: Mapping[int, str]) -> Struct:
        """The fields of an answer: 0 is the result.

        Raises:
            FormatError: It is nonsense.
            MetastoreError: The server raised something.
            UnansweredError: There is none.
        """
        connected = self._connected()
        found = self._exchange(connected, name, arguments)
        for number, kind in raised.items():
            if number in found and number:
                raise MetastoreError(text_in(_struct_of(found, number), 1) or kind, kind)
        return found

    def _exchange(self, connected: socket.socket, name: str, arguments: Struct) -> Struct:
        self._sequence = (self._sequence + 1) & 0x7FFFFFFF
        try:
            connected.settimeout(self.limits.answer_s)
            connected.sendall(encode_message(name, arguments, self._sequence))
            kind, called, sequence, found = decode_message(_Answer(connected, self.limits).read)
        except OSError as error:
            self._close()
            raise UnansweredError(f"{name}: {type(error).__name__}: {error}") from None
        except BaseException:  # of nonsense, or of an interrupt: the rest of the answer is still to come
            self._close()
            raise
        self._used = time.monotonic()
        if kind == EXCEPTION:
            raise MetastoreError(f"{name}: {text_in(found, 1)}", "TApplicationException")
        if kind != REPLY or called != name or sequence != self._sequence:
            self._close()
            raise FormatError(f"the server answers {called!r} (number {sequence}), expected {name!r}")
        return found

    def _connected(self) -> socket.socket:
        if self._socket is not None:
            return self._socket
        problem = ""
        for host, port in self.addresses:
            try:
                found = socket.create_connection((host, port), self.limits.connect_s)
            except OSError as error:
                problem = f"{host}:{port}: {error}"
                continue
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = found
            if self._user is not None:
                user, *groups = self._user.split(":")
                named = {1: text(user), 2: list_of(Kind.STRING, [group.encode() for group in groups])}
                self._exchange(found, "set_ugi", named)
            return found
        raise UnansweredError(f"the metastore cannot be reached: {problem}", may_have_effect=False)

    def _close(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.close()
        self._socket = None

    def __repr__(self) -> str:
        return f"HiveMetastore({', '.join(f'{host}:{port}' for host, port in self.addresses)})"


class _Answer:
    """The bytes of one answer, within its bounds."""

    def __init__(self, connected: socket.socket, limits: MetastoreLimits) -> None:
        self._socket = connected
        self._until = time.monotonic() + limits.answer_s
        self._left = limits.answer_bytes
        self._buffer = bytearray()
        self._place = 0

    def read(self, length: int) -> bytes:
        self._left -= length
        if self._left < 0:
            raise FormatError("the server's answer is too long")
        while len(self._buffer) - self._place < length:
            seconds = self._until - time.monotonic()
            if seconds <= 0:
                raise TimeoutError("the answer is not complete in time")
            self._socket.settimeout(seconds)
            if self._place:
                del self._buffer[: self._place]
                self._place = 0
            found = self._socket.recv(max(_CHUNK, min(length, 1 << 20)))
            if not found:
                raise ConnectionResetError("the server closed the connection")
            self._buffer += found
        start, self._place = self._place, self._place + length
        return bytes(self._buffer[start : self._place])


def _address(uri: str) -> tuple[str, int]:
    scheme, separator, rest = uri.partition("://")
    if not separator or scheme.lower() != "thrift" or not rest:
        raise SchemaError(f"the address of a Hive metastore is thrift://host:port, found {redact(uri)!r}")
    host, separator, port = rest.rstrip("/").rpartition(":")
    if not separator:
        host, port = port, str(_PORT)
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        raise SchemaError(f"the address of a Hive metastore is thrift://host:port, found {redact(uri)!r}")
    return host.strip("[]"), int(port)


def _struct_of(found: Struct, number: int) -> Struct:
    kind, value = found.get(number, _NOTHING)
    if kind is not Kind.STRUCT:
        raise FormatError(f"the server's answer has no struct {number}")
    return dict(value)


def _struct(found: Struct) -> Struct:
    """The result of a call, a struct."""
    return _struct_of(found, 0)


def _names(found: Struct) -> list[str]:
    kind, value = found.get(0, _NOTHING)
    if kind is not Kind.LIST or (value.items and value.kind is not Kind.STRING):
        raise FormatError("the server's answer has no list of names")
    return [name.decode(errors="replace") for name in value.items]


def _lock_state(found: Struct) -> tuple[int, int]:
    numbers = [found.get(number, _NOTHING)[1] for number in (1, 2)]
    if not all(isinstance(number, int) for number in numbers):
        raise FormatError("the server's answer has no lock")
    return int(numbers[0]), int(numbers[1])
