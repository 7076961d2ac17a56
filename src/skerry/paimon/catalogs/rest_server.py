"""A server of Paimon's REST catalog: its configuration, its addresses, and what its answers mean.

Spec: docs/formats/paimon.md § 16.2; Paimon documentation, REST Catalog; Paimon Java, `RESTApi`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

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
from skerry.http.http_client import HEADER_TEXT, Answer, HttpError, client_of, text_properties
from skerry.http.retries import Attempts
from skerry.storage import redact

__all__ = ["PaimonServer", "texts"]

RULE: Final = "docs/formats/paimon.md § 16.2"
_PROVIDER: Final = "token.provider"
_BEAR: Final = "bear"
_REFUSED: Final = (401, 403)
_NOT_OFFERED: Final = (405, 406, 501)
_TIMED_OUT: Final = 408
_TOO_MANY: Final = 429
_MAX_REASON: Final = 300
_MAX_PAGES: Final = 100_000


class PaimonServer:
    """A server, as it is configured for one warehouse; picklable: a copy asks with the same token.

    Args:
        properties: The catalog's properties as the user gave them: `uri`, `warehouse` (as the server names it),
            `token.provider` and `token`, `header.…`.

    Attributes:
        properties: These, completed and overridden by the server.

    Raises:
        AccessDeniedError: The server refuses.
        FormatError: It does not answer as it should.
        SchemaError: A property has no valid value.
        StorageError: It cannot be reached.
        UnsupportedError: The kind of authentication is not supported.
    """

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._given = dict(properties)
        self._uri = str(properties["uri"]).rstrip("/")
        self._client = client_of(properties)
        self._token = _token_of(properties)
        self._headers = self._headers_of(properties)
        self.properties: dict[str, Any] = dict(properties)
        found = self._config(str(properties.get("warehouse", "")))
        kept = {name: value for name, value in properties.items() if value is not None}
        self.properties = {**texts(found, "defaults"), **kept, **texts(found, "overrides")}
        self._headers = self._headers_of(self.properties)

    def __reduce__(self) -> tuple[Any, ...]:
        return PaimonServer, (self._given,)

    def __repr__(self) -> str:
        return f"PaimonServer({self._where!r})"

    @property
    def _where(self) -> str:
        return redact(self._uri)

    def _config(self, warehouse: str) -> dict[str, Any]:
        if not warehouse:
            raise SchemaError("a REST catalog needs the name of its warehouse: connect(…, warehouse='…')")
        url = f"{self._uri}/v1/config?{urlencode({'warehouse': warehouse}, quote_via=quote)}"
        return self._object(self._ask("GET", url, None), "the configuration")

    def _headers_of(self, properties: Mapping[str, Any]) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": f"skerry/{__version__}"}
        for name, value in text_properties(properties, "header").items():
            if not HEADER_TEXT.fullmatch(str(value)):
                raise SchemaError(f"catalog property 'header.{name}' has characters that a header cannot have")
            headers[name] = str(value)
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        return headers

    # ---- requests ----

    def call(self, method: str, *path: str, query: Mapping[str, str] | None = None, body: Any = None) -> dict[str, Any]:
        """Send a request.

        Args:
            method: The HTTP method.
            path: The parts of the path below the prefix; names are encoded.
            query: Parameters.
            body: What is sent, as JSON.

        Returns:
            The answer; empty if it has no content.

        Raises:
            AccessDeniedError: The server refused the token, or what it allows.
            AlreadyExistsError: Status 409: the name is taken.
            CommitUnknownError: The server may or may not have executed the request, which was not a read.
            FormatError: The answer of a read is not an object.
            NotFoundError: Status 404.
            StorageError: The server cannot be reached, or failed.
            UnsupportedError: It does not offer this.
        """
        prefix = str(self.properties.get("prefix") or "").strip("/")
        parts = ("v1", *([prefix] if prefix else []), *path)
        url = f"{self._uri}/{'/'.join(quote(part, safe='') for part in parts)}"
        if query:
            url += "?" + urlencode(query, quote_via=quote)
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        return self._object(self._ask(method, url, data), "the answer")

    def pages(self, key: str, *path: str) -> Iterator[str]:
        """The names of all pages of a listing.

        Raises:
            SkerryError: As `call`.
        """
        query: dict[str, str] = {}
        for _ in range(_MAX_PAGES):
            found = self.call("GET", *path, query=query)
            names = found.get(key) or []
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise self.nonsense(f"{key!r} is not a list of names")
            yield from names
            token = found.get("nextPageToken")
            if not token or not names or token == query.get("pageToken"):
                return
            query = {"pageToken": str(token)}

    def _ask(self, method: str, url: str, body: bytes | None) -> Any:
        """Send a request, again if that is safe and may help."""
        headers = dict(self._headers)
        if body is not None:
            headers["Content-Type"] = "application/json"
        attempts = Attempts(method, None)
        while True:
            try:
                answer = self._client.send(method, url, headers, body)
            except HttpError as error:
                if attempts.follows_error(error):
                    continue
                text = self._without_token(str(error))
                if attempts.may_have_effect:
                    raise self._unknown(text) from error
                raise StorageError(f"the catalog's server failed: {text}", location=self._where) from error
            if not attempts.follows(answer):
                return self._content(answer, attempts)

    def _content(self, answer: Answer, attempts: Attempts) -> Any:
        """What an answer says; a refusal says nothing about an earlier attempt."""
        status = answer.status
        if 200 <= status < 300:
            if not answer.body:
                return {}
            try:
                return json.loads(answer.body)
            except (ValueError, RecursionError):
                if attempts.is_read:
                    raise self.nonsense("an answer is not JSON") from None
                raise self._unknown("its answer is not JSON") from None
        reason = self._without_token(_reason(answer))
        if attempts.may_have_effect:
            raise self._unknown(reason)
        raise self._refusal(status, reason)

    def _refusal(self, status: int, reason: str) -> SkerryError:
        text = f"the catalog's server refused: {reason}"
        if status in _REFUSED:
            return AccessDeniedError(text, location=self._where)
        if status == 404:
            return NotFoundError(f"the catalog's server found nothing: {reason}")
        if status == 409:
            return AlreadyExistsError(text)
        if status in _NOT_OFFERED:
            return UnsupportedError(f"the catalog's server does not offer this: {reason}", location=self._where)
        if status >= 500 or status in (_TIMED_OUT, _TOO_MANY) or 300 <= status < 400:
            return StorageError(f"the catalog's server failed: {reason}", location=self._where)
        return SchemaError(text, location=self._where)

    def _unknown(self, reason: str) -> CommitUnknownError:
        return CommitUnknownError(f"the catalog may or may not have applied the change: {reason}", location=self._where)

    def _object(self, found: Any, what: str) -> dict[str, Any]:
        if not isinstance(found, dict):
            raise self.nonsense(f"{what} is not an object")
        return found

    def nonsense(self, problem: str) -> FormatError:
        """The error of an answer that is not what it should be."""
        return FormatError(
            f"the catalog's server does not follow the protocol: {problem}", location=self._where, rule=RULE
        )

    def _without_token(self, text: str) -> str:
        return text.replace(self._token, "***") if self._token else text


def _token_of(properties: Mapping[str, Any]) -> str | None:
    """The bearer token; None for a server that wants none.

    Raises:
        SchemaError: There is a provider, but no token.
        UnsupportedError: The provider is another one than `bear`.
    """
    provider, token = properties.get(_PROVIDER), properties.get("token")
    if provider is not None and str(provider).strip().lower() != _BEAR:
        raise UnsupportedError(
            f"{_PROVIDER}={provider} is not supported: only bearer tokens are ({_PROVIDER}={_BEAR}); requests are not "
            "signed as DLF wants them"
        )
    if provider is not None and not token:
        raise SchemaError(f"{_PROVIDER}={_BEAR} needs the property 'token'")
    if token is not None and not HEADER_TEXT.fullmatch(str(token)):
        raise SchemaError("the property 'token' has characters that a header cannot have")
    return None if token is None else str(token)


def _reason(answer: Answer) -> str:
    """The server's own words about a refusal, shortened."""
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        return f"status {answer.status}"
    message = found.get("message") if isinstance(found, dict) else None
    text = f": {' '.join(message.split())[:_MAX_REASON]}" if isinstance(message, str) else ""
    return f"status {answer.status}{text}"


def texts(found: Mapping[str, Any], name: str) -> dict[str, str]:
    """A part of an answer that maps names to text; what is not text is left out."""
    part = found.get(name)
    return {str(key): value for key, value in part.items() if isinstance(value, str)} if isinstance(part, dict) else {}
