"""A REST catalog's server: its configuration, its addresses, and what its answers mean.

Spec: Iceberg REST specification.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode

from skerry._version import __version__
from skerry.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    CommitUnknownError,
    FormatError,
    NotFoundError,
    SchemaError,
    SkerryError,
    StorageError,
    UnsupportedError,
)
from skerry.http.http_client import (
    HEADER_TEXT,
    Answer,
    HttpError,
    client_of,
    origin_of,
    text_properties,
)
from skerry.http.retries import Attempts, key_lifetime_s
from skerry.iceberg.catalogs.rest_authentication import Authentication, Bearer, authentication_of
from skerry.iceberg.catalogs.rest_signing import SigV4
from skerry.iceberg.metadata.json_records import decode_json, encode_json
from skerry.storage import redact

__all__ = ["RestServer", "texts"]

RULE: Final = "Iceberg REST specification"
_SEPARATOR: Final = "\x1f"
_NO_ENDPOINTS: Final = frozenset(
    {
        "GET /v1/{prefix}/namespaces",
        "GET /v1/{prefix}/namespaces/{namespace}",
        "POST /v1/{prefix}/namespaces",
        "POST /v1/{prefix}/namespaces/{namespace}/properties",
        "DELETE /v1/{prefix}/namespaces/{namespace}",
        "GET /v1/{prefix}/namespaces/{namespace}/tables",
        "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
        "POST /v1/{prefix}/namespaces/{namespace}/tables",
        "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
        "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}",
        "POST /v1/{prefix}/tables/rename",
        "POST /v1/{prefix}/namespaces/{namespace}/register",
    }
)
"""What a server offers that does not say so."""
_VIEW_ENDPOINTS: Final = frozenset(
    {
        "GET /v1/{prefix}/namespaces/{namespace}/views",
        "GET /v1/{prefix}/namespaces/{namespace}/views/{view}",
        "POST /v1/{prefix}/namespaces/{namespace}/views",
        "POST /v1/{prefix}/namespaces/{namespace}/views/{view}",
        "DELETE /v1/{prefix}/namespaces/{namespace}/views/{view}",
        "POST /v1/{prefix}/views/rename",
    }
)
"""What it offers as well if the property `view-endpoints-supported` says so, as in Iceberg Java."""
_EXPIRED: Final = (401, 419)
_TIMED_OUT: Final = 408
_TOO_MANY: Final = 429
_SETTINGS: Final = frozenset(
    {"uri", "token", "credential", "scope", "audience", "resource", "oauth2-server-uri", "auth", "header", "rest"}
)
_TASK_SETTINGS: Final = frozenset({"warehouse", "client", "ssl", "token-refresh-enabled", "token-exchange-enabled"})
_LOGIN: Final = frozenset({"credential", "auth", "token"})
_MAX_REASON: Final = 300


class RestServer:
    """A server, as it is configured for one warehouse.

    Args:
        properties: The catalog's properties as the user gave them.

    Attributes:
        properties: These, completed and overridden by the server.

    Raises:
        AccessDeniedError: The server refuses.
        FormatError: It does not answer as the specification says.
        MissingDependencyError: Signing needs a library that is not installed.
        SchemaError: A property has no valid value.
        StorageError: It cannot be reached.
    """

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self.properties: dict[str, Any] = dict(properties)
        self._client = client_of(properties)
        self._key_lifetime_s: float | None = None
        self._set_up()
        query = {"warehouse": str(properties["warehouse"])} if properties.get("warehouse") else {}
        found = self.object(self._call("GET", self._address("v1/config", query)), "the configuration")
        defaults, overrides = texts(found, "defaults"), texts(found, "overrides")
        self.properties = {**defaults, **properties, **overrides}
        if str(properties["uri"]).startswith("https:") and not str(self.properties["uri"]).startswith("https:"):
            raise AccessDeniedError(
                f"the server redirects the catalog to {redact(str(self.properties['uri']))}, without encryption",
                location=self._where,
            )
        endpoints = found.get("endpoints")
        has_views = str(self.properties.get("view-endpoints-supported", "")).strip().lower() == "true"
        self._endpoints = _NO_ENDPOINTS | _VIEW_ENDPOINTS if has_views else _NO_ENDPOINTS
        if isinstance(endpoints, list) and endpoints:
            self._endpoints = frozenset(" ".join(str(text).split()) for text in endpoints)
        self._key_lifetime_s = key_lifetime_s(found.get("idempotency-key-lifetime"))
        self._separator = unquote(str(self.properties.get("namespace-separator") or _SEPARATOR))
        if _settings(self.properties) != _settings(properties):
            self._set_up()

    def _set_up(self) -> None:
        """Take address, headers and authorization from the properties."""
        properties = self.properties
        if not properties.get("uri"):
            raise SchemaError("a REST catalog needs its address: the property 'uri'")
        self._uri = str(properties["uri"]).rstrip("/")
        if not self._uri.startswith(("http://", "https://")):
            raise SchemaError(f"the address of a REST catalog begins with http:// or https://: {self._where}")
        self._headers = {
            "Accept": "application/json",
            "User-Agent": f"skerry/{__version__}",
            "X-Iceberg-Access-Delegation": "vended-credentials",
        }
        for name, value in text_properties(properties, "header").items():
            if not HEADER_TEXT.fullmatch(str(value)):
                raise SchemaError(f"catalog property 'header.{name}' has characters that a header cannot have")
            known = next((known for known in self._headers if known.lower() == name.lower()), name)
            self._headers[known] = str(value)
        self._authentication: Authentication = authentication_of(properties, self._client)
        is_signed = str(properties.get("rest.sigv4-enabled", "false")).strip().lower() == "true"
        self._signer = SigV4(properties) if is_signed else None

    def __repr__(self) -> str:
        return f"RestServer({self._where!r})"

    @property
    def _where(self) -> str:
        return redact(self._uri)

    def task_properties(self) -> dict[str, Any]:
        """What a process that works for this one needs to ask the same server: instead of a credential, its token.

        Raises:
            AccessDeniedError: The server refuses to give a token.
            StorageError: It cannot be reached.
        """
        kept = {
            name: value
            for name, value in self.properties.items()
            if name.split(".")[0] in _SETTINGS or name.split(".")[0] in _TASK_SETTINGS
        }
        scheme, _, token = (self._authentication.header() or "").partition(" ")
        if scheme != "Bearer":
            return kept
        return {name: value for name, value in kept.items() if name.split(".")[0] not in _LOGIN} | {"token": token}

    def offers(self, endpoint: str) -> bool:
        """Whether the server offers an endpoint: method and path, as the specification writes them."""
        return endpoint in self._endpoints

    def namespace_path(self, namespace: tuple[str, ...]) -> str:
        """A namespace in a path."""
        return quote(self._separator, safe="").join(quote(part, safe="") for part in namespace)

    def namespace_text(self, namespace: tuple[str, ...]) -> str:
        """A namespace in a query."""
        return self._separator.join(namespace)

    def call(
        self,
        method: str,
        endpoint: str,
        *,
        names: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        token: str | None = None,
        is_read: bool = False,
    ) -> Any:
        """Send a request to an endpoint.

        Args:
            method: The HTTP method.
            endpoint: The path below the prefix, with names in braces.
            names: What stands for them, encoded.
            query: Parameters.
            body: What is sent, as JSON.
            token: A token for this table alone, instead of the catalog's.
            is_read: Whether the request changes nothing, whatever its method, and so may be repeated.

        Returns:
            The JSON of the answer; None if it has no content.

        Raises:
            AccessDeniedError: The server refused the token, or what it allows.
            AlreadyExistsError: Status 409: the name is taken, a requirement is not met.
            CommitUnknownError: The server may or may not have executed the request, which was not a read.
            FormatError: The answer of a read is not JSON.
            NotFoundError: Status 404.
            StorageError: The server cannot be reached, or failed.
            UnsupportedError: It does not offer the endpoint.
        """
        template = f"{method} /v1/{{prefix}}/{endpoint}"
        if not self.offers(template):
            raise UnsupportedError(f"the catalog's server does not offer {template!r}", location=self._where)
        path = self.endpoint_address(endpoint, names or {})
        data = None if body is None else encode_json(body)
        return self._call(method, self._address(path, query or {}), data, token, is_read=is_read)

    def _address(self, path: str, query: Mapping[str, str]) -> str:
        return f"{self._uri}/{path}{'?' + urlencode(query, quote_via=quote) if query else ''}"

    def ask_at(
        self, address: str, body: Any, token: str | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[Any, Mapping[str, str]]:
        """Send a request that changes nothing to an address of the server.

        Args:
            address: An absolute one, or one below the catalog's.
            body: What is sent, as JSON.
            token: A token for this table alone, instead of the catalog's.
            headers: Further ones, which replace none of the catalog's.

        Returns:
            The JSON of the answer, and its headers.

        Raises:
            AccessDeniedError: The server refused the token, or what it allows; or the address is of another server.
            SkerryError: As `call`.
        """
        url = address if "://" in address else f"{self._uri}/{address.lstrip('/')}"
        if origin_of(url) != origin_of(self._uri):
            raise AccessDeniedError(
                f"the catalog names another server, {redact(url)}, to which its token is not sent", location=self._where
            )
        answer, content = self._ask("POST", url, encode_json(body), token, is_read=True, headers=headers or {})
        return content, answer.headers

    def _call(
        self, method: str, url: str, body: bytes | None = None, token: str | None = None, *, is_read: bool = False
    ) -> Any:
        return self._ask(method, url, body, token, is_read=is_read)[1]

    def _ask(
        self,
        method: str,
        url: str,
        body: bytes | None,
        token: str | None,
        *,
        is_read: bool,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> tuple[Answer, Any]:
        """Send a request, again if that is safe and may help; the answer, and what it says."""
        authentication = self._authentication if token is None else Bearer(token)
        attempts = Attempts(method, self._key_lifetime_s, is_read=is_read)
        while True:
            try:
                answer = self._authorized(method, url, body, authentication, attempts.key, headers)
            except HttpError as error:
                if attempts.follows_error(error):
                    continue
                raise self._no_answer(error, attempts, authentication.secrets) from error
            except SkerryError as error:  # no token was given for another attempt
                if attempts.may_have_effect:
                    raise self._unknown(str(error)) from error
                raise
            if not attempts.follows(answer):
                return answer, self._content(answer, method, url, attempts, authentication.secrets)

    def _authorized(
        self,
        method: str,
        url: str,
        body: bytes | None,
        authentication: Authentication,
        key: str | None,
        more: Mapping[str, str],
    ) -> Answer:
        """Send a request; once more if the server no longer accepts the token, and there is a new one."""
        answer = self._send(method, url, body, authentication, key, more)
        if answer.status in _EXPIRED and authentication.renew():
            return self._send(method, url, body, authentication, key, more)
        return answer

    def _send(
        self,
        method: str,
        url: str,
        body: bytes | None,
        authentication: Authentication,
        key: str | None,
        more: Mapping[str, str],
    ) -> Answer:
        known = {name.lower() for name in self._headers}
        headers = {**{name: value for name, value in more.items() if name.lower() not in known}, **self._headers}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if key is not None:
            headers["Idempotency-Key"] = key
        authorization = authentication.header()
        if authorization is not None:
            headers["Authorization"] = authorization
        if self._signer is not None:
            headers = self._signer.signed(method, url, headers, body)
        return self._client.send(method, url, headers, body)

    def _no_answer(self, error: HttpError, attempts: Attempts, secrets: tuple[str, ...]) -> SkerryError:
        text = _without(str(error), secrets)
        if attempts.may_have_effect:
            return self._unknown(text)
        return StorageError(f"the catalog's server failed: {text}", location=self._where)

    def _unknown(self, reason: str) -> CommitUnknownError:
        return CommitUnknownError(f"the catalog may or may not have applied the change: {reason}", location=self._where)

    def _content(self, answer: Answer, method: str, url: str, attempts: Attempts, secrets: tuple[str, ...]) -> Any:
        """What an answer says; a refusal says nothing about an earlier attempt."""
        status = answer.status
        if 200 <= status < 300:
            if method == "HEAD" or not answer.body:
                return None
            try:
                return decode_json(answer.body)
            except FormatError as error:
                problem = f"the answer of {method} {redact(url)}: {error.message}"
                if attempts.is_read:
                    raise FormatError(problem, location=self._where, rule=RULE) from None
                raise CommitUnknownError(problem, location=self._where) from None
        reason = _without(_reason(answer), secrets)
        if attempts.may_have_effect:
            raise self._unknown(reason)
        if status in (*_EXPIRED, 403):
            raise AccessDeniedError(f"the catalog's server refused: {reason}", location=self._where)
        if status == 404:
            raise NotFoundError(f"the catalog's server found nothing: {reason}")
        if status == 409:
            raise AlreadyExistsError(f"the catalog's server refused: {reason}")
        if 300 <= status < 400:
            target = redact(answer.headers.get("location", ""))
            raise StorageError(
                f"the catalog's server redirects to {target}: connect there, nothing was sent on", location=self._where
            )
        if status in (405, 406, 501):
            raise UnsupportedError(f"the catalog's server does not support this: {reason}", location=self._where)
        if status >= 500 or status == _TIMED_OUT:
            raise StorageError(f"the catalog's server failed: {reason}", location=self._where)
        if status == _TOO_MANY:
            raise StorageError(f"the catalog's server has too many requests: {reason}", location=self._where)
        raise SkerryError(f"the catalog's server refused: {reason}", location=self._where)

    def object(self, found: Any, what: str) -> dict[str, Any]:
        """An answer that must be an object.

        Raises:
            FormatError: It is something else.
        """
        if not isinstance(found, dict):
            raise self.nonsense(f"{what} is not an object")
        return found

    def nonsense(self, problem: str) -> FormatError:
        """The error of an answer that does not follow the specification."""
        return FormatError(
            f"the catalog's server does not follow the protocol: {problem}", location=self._where, rule=RULE
        )

    def endpoint_address(self, endpoint: str, names: Mapping[str, str]) -> str:
        """The address of an endpoint, below the catalog's."""
        prefix = str(self.properties.get("prefix") or "").strip("/")
        return "/".join(part for part in ("v1", prefix, endpoint.format(**names)) if part)

    def without_secrets(self, text: str) -> str:
        """A text of the server's, without the secrets that it was asked with."""
        return _without(text, self._authentication.secrets)

    def close(self) -> None:
        """Close idle connections."""
        self._client.close()


def _settings(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties that decide where requests are sent, and what is sent with each."""
    return {name: value for name, value in properties.items() if name.split(".")[0] in _SETTINGS}


def _reason(answer: Answer) -> str:
    """The server's own words about a refusal, shortened."""
    try:
        found = decode_json(answer.body)
    except FormatError:
        return f"status {answer.status}"
    error = found.get("error") if isinstance(found, dict) else None
    if isinstance(error, dict):
        text = ": ".join(str(error[key]) for key in ("type", "message") if isinstance(error.get(key), str))
        return f"status {answer.status}: {' '.join(text.split())[:_MAX_REASON]}"
    return f"status {answer.status}"


def _without(text: str, secrets: tuple[str, ...]) -> str:
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def texts(found: Mapping[str, Any], name: str) -> dict[str, str]:
    """A part of an answer that maps names to text; what is not text is left out."""
    part = found.get(name)
    return {str(key): value for key, value in part.items() if isinstance(value, str)} if isinstance(part, dict) else {}
