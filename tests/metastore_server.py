"""A Hive metastore in this process: its Thrift interface over a socket, its tables in memory.

It does what Hive 2.3.10 does with the calls that a catalog of Iceberg makes, as `tests/foreign/test_hive_metastore.py`
shows of the real one. It can be made to fail: `answers` changes or withholds the answer to a call.
"""

from __future__ import annotations

import copy
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from skerry.databases.thrift_binary import (
    EXCEPTION,
    REPLY,
    Kind,
    Struct,
    ThriftList,
    decode_message,
    encode_message,
    integer,
    list_of,
    record,
    text,
    text_in,
    texts_in,
)

ACQUIRED, WAITING = 1, 2


class RaisedError(Exception):
    """An exception of the interface.

    Args:
        number: Its field in the answer.
        message: Its text.
    """

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number


class Metastore:
    """Databases, tables and locks.

    Attributes:
        tables: By database and name.
        locks: Locks in the order in which they were asked for.
        calls: The names of all calls.
        answers: Is given the name of a call and its encoded answer, and returns what is sent; None closes the
            connection without an answer.
        before: Is given the name of a call before it is executed.

    Args:
        forgets_locks: Whether locks end with the connection that asked for them, instead of minutes later.
    """

    def __init__(self, *, forgets_locks: bool = False) -> None:
        self.forgets_locks = forgets_locks
        self.databases: dict[str, Struct] = {"default": {1: text("default"), 3: text("file:///nowhere")}}
        self.tables: dict[tuple[str, str], Struct] = {}
        self.locks: dict[int, tuple[str, str]] = {}
        self.calls: list[str] = []
        self.compares = True
        self.answers: Callable[[str, bytes], bytes | None] = lambda _name, data: data
        self.before: Callable[[str], None] = lambda _name: None
        self.uri = ""
        self._mutex = threading.Lock()
        self._numbers = iter(range(1, 1 << 30))

    def take(self, other: Metastore) -> None:
        """Have what another one has."""
        self.databases, self.tables = copy.deepcopy((other.databases, other.tables))
        self.locks = {}

    def parameters(self, database: str, name: str) -> dict[str, str]:
        """The parameters of a table."""
        return texts_in(self.tables[database, name], 9)

    def set_parameters(self, database: str, name: str, **values: str) -> None:
        """Change parameters of a table, as somebody else might."""
        from skerry.databases.thrift_binary import texts

        table = self.tables[database, name]
        table[9] = texts(texts_in(table, 9) | values)

    def call(self, name: str, arguments: Struct) -> Struct:
        """Execute a call; its answer's fields."""
        self.before(name)
        with self._mutex:
            self.calls.append(name)
            return getattr(self, f"_{name}")({number: value for number, (_, value) in arguments.items()}) or {}

    def _set_ugi(self, _: dict[int, Any]) -> Struct:
        return {0: list_of(Kind.STRING, [])}

    def _get_all_databases(self, _: dict[int, Any]) -> Struct:
        return {0: list_of(Kind.STRING, [name.encode() for name in self.databases])}

    def _get_database(self, given: dict[int, Any]) -> Struct:
        name = given[1].decode()
        if name not in self.databases:
            raise RaisedError(1, name)
        return {0: record(self.databases[name])}

    def _create_database(self, given: dict[int, Any]) -> None:
        name = text_in(given[1], 1) or ""
        if name in self.databases:
            raise RaisedError(1, f"Database {name} already exists")
        self.databases[name] = given[1]

    def _drop_database(self, given: dict[int, Any]) -> None:
        name = given[1].decode()
        if any(database == name for database, _ in self.tables):
            raise RaisedError(2, f"Database {name} is not empty. One or more tables exist.")
        self.databases.pop(name)

    def _get_all_tables(self, given: dict[int, Any]) -> Struct:
        return {0: list_of(Kind.STRING, [n.encode() for d, n in self.tables if d == given[1].decode()])}

    def _get_table_req(self, given: dict[int, Any]) -> Struct:
        return {0: record({1: record(copy.deepcopy(self._table(given[1], 2)))})}

    def _get_table_objects_by_name_req(self, given: dict[int, Any]) -> Struct:
        names: ThriftList = given[1][2][1]
        found = [self.tables.get((text_in(given[1], 1) or "", name.decode())) for name in names.items]
        return {0: record({1: list_of(Kind.STRUCT, [table for table in found if table is not None])})}

    def _table(self, request: Struct, missing: int) -> Struct:
        key = text_in(request, 1) or "", text_in(request, 2) or ""
        if key not in self.tables:
            raise RaisedError(missing, f"{'.'.join(key)} table not found")
        return self.tables[key]

    def _create_table(self, given: dict[int, Any]) -> None:
        key = text_in(given[1], 2) or "", text_in(given[1], 1) or ""
        if key in self.tables:
            raise RaisedError(1, f"Table {key[1]} already exists")
        if key[0] not in self.databases:
            raise RaisedError(2, f"The database {key[0]} does not exist")
        self.tables[key] = given[1]

    def _alter_table_with_environment_context(self, given: dict[int, Any]) -> None:
        old = given[1].decode(), given[2].decode()
        new = text_in(given[3], 2) or "", text_in(given[3], 1) or ""
        if old not in self.tables:
            raise RaisedError(1, f"table {'.'.join(old)} doesn't exist")
        context = texts_in(given[4], 1)
        key, expected = context.get("expected_parameter_key"), context.get("expected_parameter_value")
        if key is not None and not self.compares:
            raise RaisedError(2, "Cannot update parameter with JDO, make sure direct SQL is enabled")
        found = texts_in(self.tables[old], 9).get(key or "")
        if key is not None and found != expected:
            message = f"The table has been modified. The parameter value for key '{key}' is '{found}'."
            raise RaisedError(2, f"{message} The expected was value was '{expected}'")
        if new != old and new in self.tables:
            raise RaisedError(1, f"new table {'.'.join(new)} already exists")
        del self.tables[old]
        self.tables[new] = given[3]

    def _drop_table(self, given: dict[int, Any]) -> None:
        if self.tables.pop((given[1].decode(), given[2].decode()), None) is None:
            raise RaisedError(1, "table not found")

    def _lock(self, given: dict[int, Any]) -> Struct:
        (part,) = given[1][1][1].items
        number = next(self._numbers)
        self.locks[number] = text_in(part, 3) or "", text_in(part, 4) or ""
        return self._state(number)

    def _check_lock(self, given: dict[int, Any]) -> Struct:
        number = given[1][1][1]
        if number not in self.locks:
            raise RaisedError(3, "No such lock")
        return self._state(number)

    def _unlock(self, given: dict[int, Any]) -> None:
        self.locks.pop(given[1][1][1], None)

    def _state(self, number: int) -> Struct:
        first = next(one for one, table in self.locks.items() if table == self.locks[number])
        return {0: record({1: integer(number, Kind.I64), 2: integer(ACQUIRED if first == number else WAITING)})}


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        metastore: Metastore = self.server.metastore  # type: ignore[attr-defined]
        known = set(metastore.locks)
        try:
            self._answer(metastore)
        finally:
            for number in set(metastore.locks) - known if metastore.forgets_locks else ():
                metastore.locks.pop(number, None)

    def _answer(self, metastore: Metastore) -> None:
        while True:
            try:
                _, name, number, arguments = decode_message(self._read)
            except EOFError:
                return
            try:
                answer = encode_message(name, metastore.call(name, arguments), number, REPLY)
            except RaisedError as raised:
                fields: Struct = {raised.number: record({1: text(str(raised))})}
                answer = encode_message(name, fields, number, REPLY)
            except AttributeError:
                answer = encode_message(name, {1: text(f"Invalid method name: '{name}'")}, number, EXCEPTION)
            sent = metastore.answers(name, answer)
            if sent is None:
                return
            self.wfile.write(sent)

    def _read(self, length: int) -> bytes:
        data = self.rfile.read(length)
        if len(data) < length:
            raise EOFError
        return data


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False


@contextmanager
def serving(metastore: Metastore) -> Iterator[Metastore]:
    """Serve a metastore on a free port, its `uri`."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.metastore = metastore  # type: ignore[attr-defined]
        metastore.uri = f"thrift://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield metastore
        finally:
            server.shutdown()
            thread.join()
