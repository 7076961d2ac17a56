"""An HTTP server whose answers a test writes, good and bad ones, and which records what it was asked."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Request:
    """What the server was asked; names of headers in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """An answer: of JSON, of bytes, or of raw bytes on the connection with a pause before each."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    raw: tuple[bytes, ...] = ()
    pause_s: float = 0.0
    hang: bool = False


Script = Callable[[Request], Reply]


@dataclass
class ScriptedServer:
    """A server on this machine."""

    uri: str
    script: Script
    requests: list[Request] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def seen(self, method: str, part: str = "") -> list[Request]:
        return [request for request in self.requests if request.method == method and part in request.path]


@contextmanager
def serving(script: Script, tls: ssl.SSLContext | None = None) -> Iterator[ScriptedServer]:
    """Run a server, encrypted if a context is given."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except OSError:  # the client has gone
                self.close_connection = True

        def answer(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.command, self.path, headers, self.rfile.read(size))
            server.requests.append(request)
            reply = server.script(request)
            if reply.hang:
                server.ended.wait(60)
                self.close_connection = True
            elif reply.raw:
                self.close_connection = True
                for part in reply.raw:
                    time.sleep(reply.pause_s)
                    self.wfile.write(part)
                    self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
            else:
                data = reply.body if isinstance(reply.body, bytes) else _encoded(reply.body)
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = answer  # noqa: N815  as the library calls them

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:  # clients leave in the middle
            pass

    http = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        http.socket = tls.wrap_socket(http.socket, server_side=True, do_handshake_on_connect=False)
    server = ScriptedServer(f"http{'s' * (tls is not None)}://127.0.0.1:{http.server_port}", script)
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.ended.set()
        http.shutdown()
        thread.join()
        http.server_close()


def _encoded(body: Any) -> bytes:
    return b"" if body is None else json.dumps(body).encode()


def failure(status: int, kind: str = "SomeException", message: str = "no", **headers: str) -> Reply:
    """A refusal in the form of the specification."""
    return Reply(status, {"error": {"message": message, "type": kind, "code": status}}, headers)


METADATA: dict[str, Any] = {
    "format-version": 2,
    "table-uuid": "11111111-2222-3333-4444-555555555555",
    "location": "s3://bucket/lake/t",
    "last-sequence-number": 0,
    "last-updated-ms": 1,
    "last-column-id": 1,
    "schemas": [
        {
            "type": "struct",
            "schema-id": 0,
            "fields": [{"id": 1, "name": "k", "type": "long", "required": False}],
        }
    ],
    "current-schema-id": 0,
    "partition-specs": [{"spec-id": 0, "fields": []}],
    "default-spec-id": 0,
    "last-partition-id": 999,
    "sort-orders": [{"order-id": 0, "fields": []}],
    "default-sort-order-id": 0,
    "properties": {},
}
LOCATION = "s3://bucket/lake/t/metadata/00000-a.metadata.json"


def table_reply(**more: Any) -> Reply:
    """A table as a server loads it."""
    return Reply(200, {"metadata-location": LOCATION, "metadata": METADATA, **more})


def catalog_script(answers: dict[tuple[str, str], Reply | Script] | None = None, **config: Any) -> Script:
    """A script of a catalog: answers by method and end of the path, on top of a configuration and one table `n.t`."""
    known: dict[tuple[str, str], Reply | Script] = {
        ("GET", "/v1/config"): Reply(200, {"defaults": {}, "overrides": {}, **config}),
        ("GET", "/namespaces"): Reply(200, {"namespaces": [["n"]]}),
        ("GET", "/namespaces/n"): Reply(200, {"namespace": ["n"], "properties": {}}),
        ("GET", "/namespaces/n/tables"): Reply(200, {"identifiers": [{"namespace": ["n"], "name": "t"}]}),
        ("GET", "/namespaces/n/tables/t"): table_reply(),
        **(answers or {}),
    }

    def script(request: Request) -> Reply:
        path = request.path.partition("?")[0]
        for (method, end), reply in reversed(known.items()):
            if method == request.method and path.endswith(end):
                return reply(request) if callable(reply) else reply
        return failure(404, "NoSuchThingException", path)

    return script
