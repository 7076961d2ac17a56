"""Who is let in: this computer, with the token, by GET, under the page's own name."""

from __future__ import annotations

import pytest
from pages import Client
from starlette.responses import PlainTextResponse

from skerry.web.guard import HEADERS, Guard

TOKEN = "right"
BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def client():
    return Client(Guard(PlainTextResponse("inside"), TOKEN, 80))


def test_nobody_comes_in_without_the_token(client):
    assert client.get("/").status == 403
    assert client.get("/", token="wrong").status == 403
    assert client.get("/", headers={"cookie": "skerry-80=wrong"}).status == 403
    assert client.get("/", headers={"cookie": "skerry-80"}).status == 403
    assert client.get("/", headers={"authorization": "Bearer é"}).status == 403
    assert client.get("/", headers=BEARER).text == "inside"


def test_the_token_becomes_a_cookie_and_leaves_the_address(client):
    answer = client.get("/table", t="a&b", token=TOKEN)
    assert (answer.status, answer.headers["location"]) == (303, "/table?t=a%26b")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert client.get("/", headers={"cookie": cookie.split(";")[0]}).text == "inside"


def test_the_redirection_stays_on_this_server(client):
    assert client.get("//evil.example/x", headers={}).status == 403
    guard = Guard(PlainTextResponse("inside"), TOKEN, 80)
    assert guard._enter("//evil.example/x", [], TOKEN).headers["location"] == "/evil.example/x"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:81", "", "127.0.0.1:80.evil"]
)
def test_other_names_are_refused_whatever_they_know(client, host):
    assert client.get("/", headers={"host": host, **BEARER}).status == 421


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_nothing_but_reading_is_answered(client, method):
    assert client.get("/", method=method, headers=BEARER).status == 405


def test_every_answer_forbids_what_comes_from_elsewhere(client):
    for answer in (client.get("/"), client.get("/", headers=BEARER), client.get("/", headers={"host": "x"})):
        assert {name: answer.headers[name.lower()] for name in HEADERS} == HEADERS
    policy = HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
