"""How requests to a REST catalog are authorized: bearer tokens, OAuth2 with renewal, user and password.

Spec: Iceberg REST specification, `/v1/oauth/tokens`; RFC 6749, Client Credentials Grant; RFC 8693, Request.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode, urljoin

from skerry.errors import AccessDeniedError, FormatError, SchemaError, StorageError, UnsupportedError
from skerry.http.http_client import Answer, HttpClient, HttpError, text_properties
from skerry.storage import decode_json, redact

__all__ = ["Authentication", "Bearer", "OAuth2", "authentication_of"]

_FORM: Final = "application/x-www-form-urlencoded"
_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105  a type, no token
_DEFAULT_SCOPE: Final = "catalog"
_EARLY: Final = 0.1
"""The part of its life before whose end a token is renewed."""
_MAX_EARLY_S: Final = 300.0
_MAX_SECONDS: Final = 1e11
"""Thousands of years: of a moment since 1970, and of a token's life."""
_PAUSE_S: Final = 10.0
"""After a renewal that failed, while the old token is still valid."""


class Authentication:
    """No authorization; the base of all others."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that no message may contain."""
        return ()

    def header(self) -> str | None:
        """The value of the header `Authorization`.

        Raises:
            AccessDeniedError: The server refuses to give a token.
            StorageError: It cannot be reached.
        """
        return None

    def renew(self) -> bool:
        """Get a new token because the server refused the last one; returns whether there is one."""
        return False


class Bearer(Authentication):
    """A token that does not change.

    Args:
        token: The token.
    """

    def __init__(self, token: str) -> None:
        self._token = token

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that no message may contain."""
        return (self._token,)

    def header(self) -> str:
        """The value of the header `Authorization`."""
        return f"Bearer {self._token}"


class Basic(Authentication):
    """A user's name and password.

    Args:
        user: The user.
        password: The password.
    """

    def __init__(self, user: str, password: str) -> None:
        self._password = password
        self._encoded = base64.b64encode(f"{user}:{password}".encode()).decode()

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that no message may contain."""
        return (self._password, self._encoded)

    def header(self) -> str:
        """The value of the header `Authorization`."""
        return f"Basic {self._encoded}"


class OAuth2(Authentication):
    """Tokens that are renewed before they expire.

    With a credential, each token is requested by it; with a token alone, it is exchanged for a later one.

    Args:
        client: Sends the requests.
        server: The address of the token endpoint.
        credential: `client id:secret`, or a secret.
        token: The first token.
        parameters: Further parameters of each request: scope, audience, resource.
        lifetime_s: How long a token lives if neither it nor the server says so.
        in_header: Whether the credential is sent as user and password, not in the form.
    """

    def __init__(
        self,
        client: HttpClient,
        server: str,
        *,
        credential: str | None = None,
        token: str | None = None,
        parameters: Mapping[str, str] | None = None,
        lifetime_s: float | None = None,
        in_header: bool = False,
    ) -> None:
        self._in_header = in_header
        self._client = client
        self._server = server
        self._credential = credential
        self._parameters = dict(parameters or {})
        self._lifetime_s = lifetime_s
        self._token: str | None = None
        self._renew_at: float | None = None
        self._lock = threading.Lock()
        if token is not None:
            self._accept(token, None)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that no message may contain."""
        found = (self._token, self._credential, self._secret)
        return tuple(text for text in found if text)

    @property
    def _secret(self) -> str | None:
        if self._credential is None:
            return None
        name, colon, secret = self._credential.partition(":")
        return secret if colon else name

    def header(self) -> str:
        """The value of the header `Authorization`, renewed if its token is about to expire."""
        with self._lock:
            if self._token is None or (self._renew_at is not None and time.monotonic() >= self._renew_at):
                self._request()
            return f"Bearer {self._token}"

    def renew(self) -> bool:
        """Get a new token because the server refused the last one; returns whether there is one."""
        if self._credential is None:
            return False
        with self._lock:
            self._token = None
            self._request()
        return True

    def _request(self) -> None:
        """Request a token; a failure is none while the old one may still be valid."""
        try:
            found = self._ask()
        except (AccessDeniedError, StorageError, FormatError):
            if self._token is None or self._credential is not None:
                raise
            self._renew_at = time.monotonic() + _PAUSE_S
            return
        self._accept(found["access_token"], _seconds(found.get("expires_in")))

    def _accept(self, token: str, lifetime_s: float | None) -> None:
        lifetime = lifetime_s if lifetime_s is not None else _expires_in(token)
        lifetime = self._lifetime_s if lifetime is None else lifetime
        self._token = token
        self._renew_at = None
        if lifetime is not None:
            self._renew_at = time.monotonic() + lifetime - min(_EARLY * lifetime, _MAX_EARLY_S)

    def _ask(self) -> dict[str, Any]:
        headers = {"Content-Type": _FORM, "Accept": "application/json"}
        if self._credential is not None and self._in_header:
            form = {"grant_type": "client_credentials"}
            headers["Authorization"] = Basic(*self._credential.split(":", 1)).header()
        elif self._credential is not None:
            name, colon, secret = self._credential.partition(":")
            form = {"grant_type": "client_credentials", "client_secret": secret if colon else name}
            if colon:
                form["client_id"] = name
        else:
            form = {"grant_type": _EXCHANGE, "subject_token": str(self._token), "subject_token_type": _ACCESS_TOKEN}
            headers["Authorization"] = f"Bearer {self._token}"
        body = urlencode({**form, **self._parameters}).encode()
        where = redact(self._server)
        try:
            answer = self._client.send("POST", self._server, headers, body)
        except HttpError as error:
            raise StorageError(f"no token could be requested: {error}", location=where) from error
        if answer.status != 200:
            kind = AccessDeniedError if 400 <= answer.status < 500 else StorageError
            raise kind(f"no token was given: status {answer.status}{self._reason(answer)}", location=where)
        found = _object(answer)
        if found is None or not isinstance(found.get("access_token"), str):
            raise FormatError("the answer has no access token", location=where, rule="RFC 6749, Successful Response")
        return found

    def _reason(self, answer: Answer) -> str:
        """What the server says about a refusal, without what it repeats of the request."""
        found = _object(answer) or {}
        text = " ".join(str(found[key]) for key in ("error", "error_description") if isinstance(found.get(key), str))
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return f": {text[:200]}" if text else ""


class _PyIcebergAuthentication(Authentication):
    """One of PyIceberg's classes for it: Google's, Entra's, or the user's own.

    Args:
        manager: PyIceberg's object.
    """

    def __init__(self, manager: Any) -> None:
        self._manager = manager

    def header(self) -> str | None:
        """The value of the header `Authorization`."""
        try:
            found = self._manager.auth_header()
        except Exception as error:
            raise AccessDeniedError(f"no token was given: {type(error).__name__}") from error
        return None if found is None else str(found)


def authentication_of(properties: Mapping[str, Any], client: HttpClient) -> Authentication:
    """The authorization that a catalog's properties ask for, under PyIceberg's names.

    Raises:
        SchemaError: They are not complete.
        UnsupportedError: That kind is not supported.
    """
    chosen = text_properties(properties, "auth")
    if chosen:
        return _chosen(chosen, client)
    credential, token = properties.get("credential"), properties.get("token")
    if credential is None and token is None:
        return Authentication()
    uri = str(properties["uri"]).rstrip("/") + "/"
    try:
        server = urljoin(uri, str(properties.get("oauth2-server-uri") or "v1/oauth/tokens"))
    except ValueError as error:
        raise SchemaError(f"catalog property 'oauth2-server-uri' is not an address: {error}") from None
    parameters = {"scope": str(properties.get("scope") or _DEFAULT_SCOPE)}
    parameters |= {name: str(properties[name]) for name in ("audience", "resource") if properties.get(name)}
    if credential is not None:
        return OAuth2(client, server, credential=str(credential), parameters=parameters)
    lifetime = properties.get("token-expires-in-ms")
    wanted = all(_is_on(properties, name) for name in ("token-refresh-enabled", "token-exchange-enabled"))
    if not wanted or (lifetime is None and _expires_in(str(token)) is None):
        return Bearer(str(token))
    return OAuth2(
        client,
        server,
        token=str(token),
        parameters=parameters,
        lifetime_s=_lifetime_s("token-expires-in-ms", lifetime, 1000),
    )


def _chosen(auth: Mapping[str, Any], client: HttpClient) -> Authentication:
    if auth.get("type") is None:
        raise SchemaError("catalog property 'auth' has no 'type'")
    kind = str(auth["type"])
    own = text_properties(auth, kind)
    missing = {"basic": ("username", "password"), "oauth2": ("client_id", "client_secret", "token_url")}.get(kind, ())
    for name in missing:
        if own.get(name) is None:
            raise SchemaError(f"catalog property 'auth.{kind}.{name}' is missing")
    match kind:
        case "noop":
            return Authentication()
        case "basic":
            return Basic(str(own["username"]), str(own["password"]))
        case "oauth2":
            return OAuth2(
                client,
                str(own["token_url"]),
                credential=f"{own['client_id']}:{own['client_secret']}",
                parameters={"scope": str(own["scope"])} if own.get("scope") else {},
                lifetime_s=_lifetime_s(f"auth.{kind}.expires_in", own.get("expires_in")),
                in_header=True,
            )
    from pyiceberg.catalog.rest.auth import AuthManagerFactory  # slow to load, and rarely needed

    try:
        manager = AuthManagerFactory.create(str(auth.get("impl") or kind), dict(own))
    except Exception as error:
        raise UnsupportedError(f"authorization of type {kind!r} cannot be set up: {type(error).__name__}") from error
    return _PyIcebergAuthentication(manager)


def _is_on(properties: Mapping[str, Any], name: str) -> bool:
    return str(properties.get(name, "true")).strip().lower() != "false"


def _lifetime_s(name: str, value: Any, units: int = 1) -> float | None:
    """How long a token lives, as a property says; None if it does not."""
    try:
        found = None if value in (None, "") else _seconds(float(value) / units)
    except (ValueError, TypeError):
        found = None
    if found is None and value not in (None, ""):
        raise SchemaError(f"catalog property {name!r} must be a positive number, found {str(value)[:40]!r}")
    return found


def _expires_in(token: str) -> float | None:
    """Seconds until a JSON Web Token expires; None for other tokens.

    Spec: RFC 7519, "exp" (Expiration Time) Claim.
    """
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        found = decode_json(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return None
    expires = _seconds(found.get("exp")) if isinstance(found, dict) else None
    return None if expires is None else expires - time.time()


def _seconds(value: Any) -> float | None:
    """A time that a server gave; None if it makes no sense."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MAX_SECONDS:
        return None
    return float(value)


def _object(answer: Answer) -> dict[str, Any] | None:
    try:
        found = decode_json(answer.body)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
