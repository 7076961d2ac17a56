"""Requests to a catalog's server: bounded in time and size, and never sent on to another server."""

from __future__ import annotations

import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, HTTPError, LocationValueError, NewConnectionError, ReadTimeoutError

from skerry.compression import decompress_gzip
from skerry.errors import FormatError, SchemaError
from skerry.storage import redact

__all__ = [
    "HEADER_TEXT",
    "Answer",
    "HttpClient",
    "HttpError",
    "Limits",
    "client_of",
    "origin_of",
    "seconds_of",
    "text_properties",
]

_CHUNK: Final = 1 << 18
_MAX_REDIRECTS: Final = 3
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_GZIP_BYTES: Final = 16 << 20
_GZIP_EXPANSION: Final = 32
_CONNECTIONS: Final = 8
HEADER_TEXT: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
"""Values that a header can have."""
_MILLISECONDS: Final = re.compile(r"\d{1,9}", re.ASCII)
_CA_VARIABLES: Final = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


class HttpError(Exception):
    """A request that got no complete answer; does not leave this package.

    Args:
        message: Why.
        may_have_effect: Whether the server may have executed it.
        may_repeat: Whether it is worth sending again, if it has no effect.
    """

    def __init__(self, message: str, *, may_have_effect: bool, may_repeat: bool = True) -> None:
        super().__init__(message)
        self.may_have_effect = may_have_effect
        self.may_repeat = may_repeat


@dataclass(frozen=True, slots=True)
class Answer:
    """A server's answer.

    Args:
        status: The HTTP status.
        headers: The headers, names in lower case.
        body: The content, decompressed.
    """

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a request.

    Args:
        connect_s: For the connection, in seconds.
        silence_s: Between two bytes of the answer, in seconds.
        answer_s: For the whole answer, in seconds.
        answer_bytes: The size of the answer.
    """

    connect_s: float = 20.0
    silence_s: float = 60.0
    answer_s: float = 300.0
    answer_bytes: int = 512 << 20


class HttpClient:
    """Sends requests; connections are kept and shared by threads.

    Proxies come from the environment (`HTTPS_PROXY`, `NO_PROXY`), certificates of authorities from the system or the
    environment (`REQUESTS_CA_BUNDLE`).

    Args:
        limits: Bounds of each request.
        ca_bundle: File or folder of certificates of authorities.
        certificate: The client's certificate.
        key: Its key, if that is another file.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        ca_bundle: str | None = None,
        certificate: str | None = None,
        key: str | None = None,
    ) -> None:
        self.limits = limits or Limits()
        options: dict[str, Any] = {"cert_file": certificate, "key_file": key}
        bundle = ca_bundle or _known_authorities()
        if bundle is not None:
            options["ca_cert_dir" if os.path.isdir(bundle) else "ca_certs"] = bundle
        self._options = {name: value for name, value in options.items() if value is not None}
        self._managers: dict[str | None, urllib3.PoolManager] = {}
        self._process = os.getpid()
        self._lock = threading.Lock()

    def send_once(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | memoryview | None = None
    ) -> Answer:
        """Send a request exactly as it is; redirects are answers, and content is not decompressed.

        Raises:
            HttpError: There is no complete answer.
        """
        return self._send_once(method, url, {"Accept-Encoding": "identity", **headers}, body, is_raw=True)

    def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None) -> Answer:
        """Send a request.

        A redirect of a read is followed within the same server; any other is returned as an answer: its headers, which
        may hold a token, are sent nowhere else.

        Raises:
            HttpError: There is no complete answer.
            SchemaError: A header cannot be sent; the message does not show it, since it may be a token.
        """
        for name, value in headers.items():
            if not HEADER_TEXT.fullmatch(str(value)):
                raise SchemaError(f"header {name!r} has a line break or other characters that cannot be sent")
        for _ in range(_MAX_REDIRECTS):
            answer = self._send_once(method, url, headers, body)
            target = answer.headers.get("location")
            if answer.status not in _REDIRECTS or target is None or method not in ("GET", "HEAD"):
                return answer
            there = _within_server(url, target)
            if there is None:
                return answer
            url = there
        return answer

    def _send_once(
        self, method: str, url: str, headers: Mapping[str, str], body: Any, *, is_raw: bool = False
    ) -> Answer:
        deadline = time.monotonic() + self.limits.answer_s
        try:
            response = self._manager(url).urlopen(
                method,
                url,
                body=body,
                headers={"Accept-Encoding": "gzip", **headers},
                timeout=urllib3.Timeout(connect=self.limits.connect_s, read=self.limits.silence_s),
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
        except (HTTPError, OSError, ValueError) as error:
            raise _failure(error, url) from error
        try:
            # the size of a chunk is a line, for which read1 waits as long as bytes come
            data = _within(
                self.limits.answer_s, response.shutdown, lambda: self._content(response, method, deadline), deadline
            )
        except (HTTPError, OSError, ValueError) as error:
            response.close()
            raise _failure(error, url) from error
        except BaseException:
            response.close()
            raise
        response.release_conn()
        found = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status, found, data if is_raw else self._decoded(data, found, url))

    def _content(self, response: urllib3.BaseHTTPResponse, method: str, deadline: float) -> bytes:
        parts: list[bytes] = []
        size = 0
        while chunk := response.read1(_CHUNK, decode_content=False):
            size += len(chunk)
            parts.append(chunk)
            if size > self.limits.answer_bytes:
                raise HttpError(
                    f"the answer is larger than {self.limits.answer_bytes:,} bytes",
                    may_have_effect=True,
                    may_repeat=False,
                )
            if time.monotonic() > deadline:
                raise _too_slow(self.limits.answer_s)
        expected = response.headers.get("content-length", "")
        if method != "HEAD" and expected.isdecimal() and size < int(expected):
            raise HttpError(f"the answer was cut off after {size:,} of {expected} bytes", may_have_effect=True)
        return b"".join(parts)

    def _decoded(self, data: bytes, headers: Mapping[str, str], url: str) -> bytes:
        coding = headers.get("content-encoding", "").strip().lower()
        if not data or coding in ("", "identity"):
            return data
        try:
            if coding in ("gzip", "x-gzip"):
                return decompress_gzip(
                    data, max_bytes=min(self.limits.answer_bytes, _GZIP_BYTES + _GZIP_EXPANSION * len(data))
                )
        except FormatError as error:
            raise HttpError(f"the answer of {redact(url)} is damaged: {error.message}", may_have_effect=True) from error
        raise HttpError(f"the answer of {redact(url)} has the unknown encoding {coding!r}", may_have_effect=True)

    def _manager(self, url: str) -> urllib3.PoolManager:
        parts = urlsplit(url)
        proxy = None if proxy_bypass(parts.hostname or "") else _proxy_of(parts.scheme)
        with self._lock:
            if self._process != os.getpid():  # connections belong to the process that forked
                self._process, self._managers = os.getpid(), {}
            manager = self._managers.get(proxy)
            if manager is None:
                shared: dict[str, Any] = {"num_pools": 4, "maxsize": _CONNECTIONS, **self._options}
                if proxy is None:
                    manager = urllib3.PoolManager(**shared)
                else:
                    login = urlsplit(proxy).netloc.rpartition("@")[0]
                    headers = urllib3.make_headers(proxy_basic_auth=unquote(login)) if login else None
                    manager = urllib3.ProxyManager(proxy, proxy_headers=headers, **shared)
                manager.pool_classes_by_scheme = _pool_classes(self.limits.answer_s)
                self._managers[proxy] = manager
            return manager

    def close(self) -> None:
        """Close idle connections; the next request opens new ones."""
        with self._lock:
            managers, self._managers = list(self._managers.values()), {}
        for manager in managers:
            manager.clear()


def _known_authorities() -> str | None:
    """Certificates of authorities that the environment names; certifi's if the system has none."""
    named = next((os.environ[name] for name in _CA_VARIABLES if os.environ.get(name)), None)
    paths = ssl.get_default_verify_paths()
    if named is not None or paths.cafile is not None or paths.capath is not None:
        return named
    try:
        import certifi
    except ImportError:
        return None
    return str(certifi.where())


def _proxy_of(scheme: str) -> str | None:
    known = getproxies()
    found = known.get(scheme) or known.get("all")
    return found if found is None or "://" in found else f"http://{found}"


def _pool_classes(limit_s: float) -> dict[str, Any]:
    """Pools whose connections do not wait longer for the head of an answer, even if it comes byte by byte."""

    class Http(HTTPConnection):
        def getresponse(self) -> Any:
            return _within(limit_s, lambda: _shut_down(self), super().getresponse)

    class Https(HTTPSConnection):
        def getresponse(self) -> Any:
            return _within(limit_s, lambda: _shut_down(self), super().getresponse)

    class HttpPool(urllib3.HTTPConnectionPool):
        ConnectionCls = Http

    class HttpsPool(urllib3.HTTPSConnectionPool):
        ConnectionCls = Https

    return {"http": HttpPool, "https": HttpsPool}


def _shut_down(connection: HTTPConnection) -> None:
    connection.sock.shutdown(socket.SHUT_RDWR)


def _within(limit_s: float, cut: Callable[[], None], wait: Callable[[], Any], deadline: float | None = None) -> Any:
    """What `wait` returns; `cut` makes it fail after the limit, or at a moment of the monotonic clock."""
    late = threading.Event()

    def end() -> None:
        late.set()
        with suppress(Exception):  # of a connection that was closed
            cut()

    timer = threading.Timer(limit_s if deadline is None else max(0.0, deadline - time.monotonic()), end)
    timer.daemon = True
    timer.start()
    try:
        found = wait()
    except Exception as error:
        if late.is_set():
            raise _too_slow(limit_s) from error
        raise
    finally:
        timer.cancel()
    if late.is_set():  # what was cut may look complete
        raise _too_slow(limit_s)
    return found


def _too_slow(limit_s: float) -> HttpError:
    return HttpError(f"the answer took longer than {limit_s:g} s", may_have_effect=True, may_repeat=False)


def _failure(error: Exception, url: str) -> HttpError:
    """What an exception of urllib3 says about the request."""
    if isinstance(error, HttpError):
        return error
    server = redact(url.partition("?")[0])
    refused = isinstance(error, NewConnectionError | ConnectTimeoutError | LocationValueError)
    is_certificate = any(isinstance(cause, ssl.SSLCertVerificationError) for cause in (error, *error.args))
    if isinstance(error, ConnectTimeoutError | ReadTimeoutError):
        reason = "it does not answer in time"
    else:
        reason = f"{type(error).__name__}: {error}"
    return HttpError(
        f"{server} cannot be reached: {reason}" if refused else f"the request to {server} failed: {reason}",
        may_have_effect=not (refused or is_certificate or isinstance(error, UnicodeError)),
        may_repeat=not (is_certificate or isinstance(error, ConnectTimeoutError | ReadTimeoutError | ValueError)),
    )


def _within_server(url: str, target: str) -> str | None:
    """Where a redirect leads; None if that is another server, or no address."""
    try:
        there = urljoin(url, target)
        return there if origin_of(there) == origin_of(url) else None
    except ValueError:
        return None


def origin_of(url: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port: what a token may be sent to."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def text_properties(properties: Mapping[str, Any], name: str) -> dict[str, str]:
    """A group of properties: nested as in a configuration file (`ssl: cabundle: …`), or dotted (`ssl.cabundle`)."""
    nested = properties.get(name)
    found = dict(nested) if isinstance(nested, Mapping) else {}
    found.update(
        {key.removeprefix(f"{name}."): value for key, value in properties.items() if key.startswith(f"{name}.")}
    )
    return found


def client_of(properties: Mapping[str, Any], usual: Limits | None = None) -> HttpClient:
    """A client with the limits and certificates that a catalog's properties name.

    `rest.client.connection-timeout-ms` and `rest.client.socket-timeout-ms` are Iceberg Java's, `ssl` is PyIceberg's.

    Raises:
        SchemaError: A limit is not a positive number.
    """
    usual = usual or Limits()
    limits = Limits(
        seconds_of(properties, "rest.client.connection-timeout-ms", usual.connect_s),
        seconds_of(properties, "rest.client.socket-timeout-ms", usual.silence_s),
        usual.answer_s,
        usual.answer_bytes,
    )
    tls = text_properties(properties, "ssl")
    client = text_properties(tls, "client")
    return HttpClient(limits, ca_bundle=tls.get("cabundle"), certificate=client.get("cert"), key=client.get("key"))


def seconds_of(properties: Mapping[str, Any], name: str, default: float) -> float:
    """A catalog property that is a time in milliseconds, in seconds.

    Raises:
        SchemaError: It is not a positive number.
    """
    text = properties.get(name)
    if text is None:
        return default
    found = str(text).strip()
    if not _MILLISECONDS.fullmatch(found) or int(found) == 0:
        raise SchemaError(
            f"catalog property {name!r} must be a number of milliseconds from 1 to 999999999, found {found[:40]!r}"
        )
    return int(found) / 1000
