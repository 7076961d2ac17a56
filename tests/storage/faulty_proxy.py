"""An HTTP proxy between skerry and a store, which loses or spoils answers as networks and stores do."""

from __future__ import annotations

import http.client
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from services import S3Server

CONFLICT = b"""<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>ConditionalRequestConflict</Code><Message>Conflicting operation in progress</Message></Error>"""


@dataclass
class Fault:
    """What happens to some requests.

    Args:
        method: Their method.
        path: A pattern found in their path with query.
        answer: The status to answer with; 0 closes the connection without an answer.
        takes_effect: Whether the request reaches the store before.
        times: How many requests it happens to.
    """

    method: str
    path: str
    answer: int
    takes_effect: bool = False
    times: int = 1


@dataclass
class FaultyProxy(S3Server):
    """A proxy as a server; `requests` are those that came to it.

    Args:
        faults: What is to happen; a fault that has happened often enough is taken out.
    """

    faults: list[Fault] = field(default_factory=list)

    def next_fault(self, method: str, path: str) -> Fault | None:
        """The fault of a request, if there is one."""
        for fault in self.faults:
            if fault.method == method and re.search(fault.path, path):
                fault.times -= 1
                if not fault.times:
                    self.faults.remove(fault)
                return fault
        return None


@contextmanager
def faulty_proxy(server: S3Server) -> Iterator[FaultyProxy]:
    """Stand between a server and its clients."""
    target = urlsplit(server.endpoint).netloc
    proxy = FaultyProxy("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            proxy.requests.append((self.command, self.path))
            fault = proxy.next_fault(self.command, self.path)
            if fault is None or fault.takes_effect:
                status, headers, content = self.forward(body)
            if fault is None:
                self.answer(status, headers, content)
            elif fault.answer:
                self.answer(fault.answer, [], CONFLICT if fault.answer == 409 else b"")
            else:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)

        def forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            upstream = http.client.HTTPConnection(target)
            upstream.request(self.command, self.path, body, dict(self.headers))
            response = upstream.getresponse()
            found = response.status, response.getheaders(), response.read()
            upstream.close()
            return found

        def answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
            self.send_response_only(status)
            has_length = False
            for name, value in headers:
                if name.lower() not in ("connection", "transfer-encoding"):
                    self.send_header(name, value)
                    has_length |= name.lower() == "content-length"
            if not has_length:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            pass

    for method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.handle_any)
    http_server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http_server.daemon_threads = True
    proxy.endpoint = f"http://127.0.0.1:{http_server.server_port}"
    thread = threading.Thread(target=http_server.serve_forever, args=[0.01], name="faulty proxy", daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        http_server.shutdown()
        thread.join()
        http_server.server_close()
