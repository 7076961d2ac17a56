"""Access to the files of a table that a REST catalog lends: credentials, renewed when they expire, or signatures.

Spec: Iceberg REST specification.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

from skerry.http.http_client import HEADER_TEXT, HttpClient, HttpError, Limits, client_of
from skerry.iceberg.catalogs.rest_server import RestServer, texts
from skerry.iceberg.metadata.json_records import decode_json
from skerry.storage.signed import StoreAnswer

__all__ = ["SIGNING", "RemoteSigner", "VendedCredentials", "vended_options"]

SIGNING: Final = "rest.remote-signing.config"
"""The option in which what the catalog wants to be told with every request to be signed is kept, as JSON."""

_CREDENTIALS: Final = "namespaces/{namespace}/tables/{table}/credentials"
_TABLE: Final = "namespaces/{namespace}/tables/{table}"
_SIGN: Final = "namespaces/{namespace}/tables/{table}/sign"
_OLD_SIGN: Final = "v1/aws/s3/sign"
_QUERY: Final = re.compile(r"\?\S+")
_UNSIGNED: Final = "UNSIGNED-PAYLOAD"
_SIGNED_HEADERS: Final = re.compile(r"SignedHeaders=([^,\s]*)")
_MAX_AGE: Final = re.compile(r"max-age=(\d{1,9})")
_LIVES_S: Final = 30.0
_MOST_KEPT: Final = 1000
_MAX_ANSWER: Final = 8 << 30


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


class RemoteSigner:
    """Sends requests to S3 that a REST catalog signs; see `skerry.storage.signed.SignedRequests`.

    A signature is used again for the same method, address and headers as long as the catalog allows it
    (`Cache-Control: private`, for `max-age`, or 30 s as Iceberg Java does); for other ranges only if the range is not
    signed. A copy in another process logs in with the token of this one.

    Args:
        server: The server; its properties in another process, where it is opened when it is needed.
        identifier: The table.
        config: The table's configuration.
    """

    def __init__(
        self, server: RestServer | Mapping[str, Any], identifier: tuple[str, ...], config: Mapping[str, str]
    ) -> None:
        self._server = server
        self._identifier = identifier
        self._config = dict(config)
        self._lock = threading.Lock()
        self._client: HttpClient | None = None
        self._kept: dict[tuple[Any, ...], tuple[float, str, dict[str, str]]] = {}

    def send(
        self, method: str, url: str, region: str, headers: Mapping[str, str], body: bytes | memoryview
    ) -> StoreAnswer:
        """Have a request signed, and send it."""
        server, client = self._opened()
        own = {"host": urlsplit(url).netloc, "x-amz-content-sha256": _UNSIGNED, **headers}
        address, signed = self._signed(server, method, url, region, own)
        sent = {**signed, **own}
        if method in ("PUT", "POST"):
            sent["content-length"] = str(len(body))
        try:
            answer = client.send_once(method, address, sent, body if method in ("PUT", "POST") else None)
        except HttpError as error:
            return StoreAnswer(0, body=_QUERY.sub("?***", str(error)).encode())  # which may be signed
        if not answer.headers:  # a status line that was cut off looks like success
            return StoreAnswer(0, body=b"the answer was cut off")
        return StoreAnswer(answer.status, answer.headers, answer.body)

    def _signed(
        self, server: RestServer, method: str, url: str, region: str, headers: dict[str, str]
    ) -> tuple[str, dict[str, str]]:
        """The address and the headers of a request, signed."""
        plain = {name: value for name, value in headers.items() if name != "range"}
        keys = [(method, url, region, tuple(sorted(each.items()))) for each in (headers, plain)]
        with self._lock:
            for key in keys:
                until, address, found = self._kept.get(key, (0.0, "", {}))
                if until > time.monotonic():
                    return address, found
        config = self._signing()
        request = {
            "method": method,
            "region": region,
            "uri": url,
            "headers": {name: [value] for name, value in headers.items()},
            "properties": texts(config, "properties"),
            "provider": "s3",
        }
        said, about = server.ask_at(self._endpoint(server), request, self._config.get("token"), _static(config))
        answer = server.object(said, "a signature")
        address, found = _checked(server, answer, url)
        lives_s = _lives_s(about.get("cache-control", "") or found.get("cache-control", ""))
        found.pop("cache-control", None)
        if lives_s > 0:
            signs_range = "range" in _names_of_signed(found)
            if not signs_range:
                found.pop("range", None)
            with self._lock:
                if len(self._kept) >= _MOST_KEPT:
                    self._kept.clear()
                self._kept[keys[0] if signs_range else keys[1]] = (time.monotonic() + lives_s, address, found)
        return address, found

    def _endpoint(self, server: RestServer) -> str:
        """Where requests are signed: at the place that the table's configuration names, or the specification."""
        config = self._config
        base = config.get("signer.uri") or config.get("s3.signer.uri")
        named = config.get("signer.endpoint") or config.get("s3.signer.endpoint")
        if not named:
            names = {
                "namespace": server.namespace_path(self._identifier[:-1]),
                "table": quote(self._identifier[-1], safe=""),
            }
            is_new = server.offers(f"POST /v1/{{prefix}}/{_SIGN}")
            named = server.endpoint_address(_SIGN, names) if is_new else _OLD_SIGN
        return named if "://" in named or not base else f"{base.rstrip('/')}/{named.lstrip('/')}"

    def _signing(self) -> dict[str, Any]:
        found = decode_json(self._config.get(SIGNING, "{}"))
        return found if isinstance(found, dict) else {}

    def _opened(self) -> tuple[RestServer, HttpClient]:
        with self._lock:
            if not isinstance(self._server, RestServer):
                self._server = RestServer(self._server)
            if self._client is None:
                self._client = client_of(self._server.properties, Limits(answer_s=1800.0, answer_bytes=_MAX_ANSWER))
            return self._server, self._client

    def __reduce__(self) -> tuple[Any, ...]:
        server = self._server.task_properties() if isinstance(self._server, RestServer) else self._server
        return RemoteSigner, (server, self._identifier, self._config)

    def __repr__(self) -> str:
        return f"RemoteSigner({'.'.join(self._identifier)!r})"


def _checked(server: RestServer, answer: Mapping[str, Any], url: str) -> tuple[str, dict[str, str]]:
    """The signed address and headers of an answer.

    Raises:
        FormatError: They are of another request, or cannot be sent.
    """
    address, headers = answer.get("uri"), answer.get("headers")
    if not isinstance(address, str) or not isinstance(headers, dict):
        raise server.nonsense("a signature has no uri or no headers")
    parts, asked = urlsplit(address), urlsplit(url)
    if (parts.scheme, parts.netloc, parts.path) != (asked.scheme, asked.netloc, asked.path):
        raise server.nonsense("a signature is of another address than was asked for")
    found: dict[str, str] = {}
    for name, values in headers.items():
        texts_ = values if isinstance(values, list) else [values]
        if not texts_ or not all(isinstance(value, str) and HEADER_TEXT.fullmatch(value) for value in texts_):
            raise server.nonsense("a signature has a header that cannot be sent")
        found[name.lower()] = ",".join(texts_)
    return address, found


def _static(config: Mapping[str, Any]) -> dict[str, str]:
    """The headers that the catalog wants with every request to be signed; none that grants or describes something."""
    headers = config.get("headers")
    found = headers.items() if isinstance(headers, dict) else ()
    return {
        name: ",".join(map(str, values))
        for name, values in found
        if isinstance(values, list) and name.lower() not in ("authorization", "content-type", "content-length", "host")
    }


def _names_of_signed(headers: Mapping[str, str]) -> list[str]:
    """The names of the signed headers; the range among them if that cannot be seen."""
    found = _SIGNED_HEADERS.search(headers.get("authorization", ""))
    return found[1].lower().split(";") if found is not None else ["range"]


def _lives_s(text: str) -> float:
    """How long a signature may be used again, from `Cache-Control`."""
    parts = {part.strip().lower() for part in text.split(",")}
    if "private" not in parts or parts & {"no-cache", "no-store"}:
        return 0.0
    age = _MAX_AGE.search(text.lower())
    return min(float(age[1]), _LIVES_S) if age is not None else _LIVES_S
