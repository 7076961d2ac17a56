"""Who may ask: this computer, with the token, by GET, under the page's own name; and what browsers are told.

The server listens on the loopback interface, where every program and every web page of this computer can reach it.
A random token keeps other users and programs out; the Host header is checked because a foreign page can give its own
name the address 127.0.0.1 (DNS rebinding); the content security policy lets no script, style, font or request come from
or go to anywhere else.
"""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["HEADERS", "Guard"]

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_PARAMETER: Final = "token"


class Guard:
    """Middleware in front of every request.

    Args:
        app: What answers those that may ask.
        token: What they must know: as `?token=…` of the first page, which becomes a cookie, or as a bearer token.
        port: The port of the server, which the Host header must name.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app = app
        self._token = token
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self._cookie = f"skerry-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, refuse or pass on a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refusal = self._refusal(scope)
        await (self._app if refusal is None else refusal)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if headers.get("host") not in self._hosts:
            return PlainTextResponse("This server answers to 127.0.0.1 only.\n", 421)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("This server only shows; it changes nothing.\n", 405, {"Allow": "GET, HEAD"})
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in query if name == _PARAMETER]
        if given:
            return self._enter(scope["path"], [pair for pair in query if pair[0] != _PARAMETER], given[-1])
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if self._is_token(bearer) or self._is_token(self._cookie_of(headers)):
            return None
        return PlainTextResponse("Open the address that `skerry serve` has printed: it contains the token.\n", 403)

    def _enter(self, path: str, rest: list[tuple[str, str]], token: str) -> Response:
        """Keep the token in a cookie, and out of the address, the history and the reader's screenshots."""
        if not self._is_token(token):
            return PlainTextResponse("This token belongs to another run of `skerry serve`.\n", 403)
        own_path = "/" + path.lstrip("/")  # never `//host`, which would be another server
        answer = RedirectResponse(own_path + (f"?{urlencode(rest)}" if rest else ""), 303)
        answer.set_cookie(self._cookie, token, httponly=True, samesite="strict", path="/")
        return answer

    def _cookie_of(self, headers: Headers) -> str:
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return ""
        return "" if morsel is None else morsel.value

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._token.encode())
