"""The server: one process on the loopback interface, until it is interrupted."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import uvicorn

from skerry.web.app import application
from skerry.web.guard import Guard
from skerry.web.source import Source

__all__ = ["HOST", "serve", "start"]

HOST = "127.0.0.1"


class _Server(uvicorn.Server):
    """A server that listens on a socket of its own."""

    def __init__(self, config: uvicorn.Config, listening: socket.socket) -> None:
        super().__init__(config)
        self._listening = listening

    def run(self, sockets: Any = None) -> None:
        """Serve until `should_exit` is set, or in the main thread until the process is interrupted."""
        super().run([self._listening])


def start(source: Source, *, port: int = 0, path: str = "/") -> tuple[uvicorn.Server, str]:
    """Listen, so that requests wait until the server runs.

    Args:
        source: What to show.
        port: The port; a free one if 0.
        path: The first page.

    Returns:
        The server, to be run; and the address to open, with its token.

    Raises:
        OSError: The port is taken.
    """
    listening = socket.create_server((HOST, port))
    port = listening.getsockname()[1]
    token = secrets.token_urlsafe(32)
    config = uvicorn.Config(
        Guard(application(source), token, port),
        log_level="error",
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=1,
    )
    address = f"http://{HOST}:{port}{path}{'&' if '?' in path else '?'}token={token}"
    return _Server(config, listening), address


def serve(source: Source, *, port: int = 0, path: str = "/", started: Callable[[str], None] = print) -> None:
    """Serve until the process is interrupted.

    Args:
        source: What to show.
        port: The port; a free one if 0.
        path: The first page.
        started: Gets the address to open, with its token.

    Raises:
        OSError: The port is taken.
    """
    server, address = start(source, port=port, path=path)
    started(address)
    with suppress(KeyboardInterrupt):  # which uvicorn raises again when it has ended: the usual end
        server.run()
