"""Credentials that a REST catalog vends for the files of a table, now and again when they expire.

Spec: Iceberg REST specification.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from skerry.iceberg.catalogs.rest_server import RestServer, texts

__all__ = ["VendedCredentials", "vended_options"]

_CREDENTIALS: Final = "namespaces/{namespace}/tables/{table}/credentials"
_TABLE: Final = "namespaces/{namespace}/tables/{table}"


class VendedCredentials:
    """Asks a server for later credentials of one table; by loading the table, if it has no endpoint for that.

    A copy in another process logs in with the token of this one, not with what the token was requested with.

    Args:
        server: The server; its properties in another process, where it is opened when it is needed.
        identifier: The table.
        locations: Its folder and its metadata file, which select among several credentials.
        token: A token for this table alone.
        plan: The scan planned by the server whose files they are for; None for all files of the table.
    """

    def __init__(
        self,
        server: RestServer | Mapping[str, Any],
        identifier: tuple[str, ...],
        locations: tuple[str, ...],
        token: str | None = None,
        plan: str | None = None,
    ) -> None:
        self._server = server
        self._identifier = identifier
        self._locations = locations
        self._token = token
        self._plan = plan
        self._lock = threading.Lock()

    def __call__(self) -> dict[str, str]:
        """The storage options of the newest credentials.

        Raises:
            SkerryError: The server does not give any.
        """
        server = self._opened()
        names = {
            "namespace": server.namespace_path(self._identifier[:-1]),
            "table": quote(self._identifier[-1], safe=""),
        }
        endpoint = _CREDENTIALS if server.offers(f"GET /v1/{{prefix}}/{_CREDENTIALS}") else _TABLE
        query = {"planId": self._plan} if self._plan is not None and endpoint == _CREDENTIALS else {}
        answer = server.call("GET", endpoint, names=names, query=query, token=self._token)
        found = server.object(answer, "the credentials")
        options = vended_options(found, *self._locations)
        if not options:
            raise server.nonsense("there are no credentials for the table's files")
        return options

    def _opened(self) -> RestServer:
        with self._lock:
            if not isinstance(self._server, RestServer):
                self._server = RestServer(self._server)
            return self._server

    def __reduce__(self) -> tuple[Any, ...]:
        server = self._server.task_properties() if isinstance(self._server, RestServer) else self._server
        return VendedCredentials, (server, self._identifier, self._locations, self._token, self._plan)

    def __repr__(self) -> str:
        return f"VendedCredentials({'.'.join(self._identifier)!r})"


def vended_options(found: Mapping[str, Any], *locations: str) -> dict[str, str]:
    """The options that an answer has for a table's files: of credentials, those whose prefix is the longest that fits.

    Args:
        found: The answer: a table, or credentials alone.
        locations: The table's folder, and its metadata file.
    """
    offered = found.get("storage-credentials")
    fitting = [
        (len(entry["prefix"]), texts(entry, "config"))
        for entry in (offered if isinstance(offered, list) else [])
        if isinstance(entry, dict) and isinstance(entry.get("prefix"), str)
        if any(f"{location.rstrip('/')}/".startswith(entry["prefix"]) for location in locations)
    ]
    return {**texts(found, "config"), **max(fitting, key=lambda entry: entry[0], default=(0, {}))[1]}
