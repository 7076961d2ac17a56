"""REST catalogs whose servers refuse, fail, or answer nonsense, slowly, partly or not at all."""

from __future__ import annotations

import gzip
import json
import time
import uuid

import pytest
from scripted_server import LOCATION, METADATA, Reply, catalog_script, failure, serving, table_reply

from skerry.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    FormatError,
    NotFoundError,
    SchemaError,
    SkerryError,
    StorageError,
    UnsupportedError,
)
from skerry.http import http_client, retries
from skerry.iceberg.catalogs.records import MetadataWrite, NewIcebergTable
from skerry.iceberg.catalogs.rest import RestCatalog
from skerry.iceberg.metadata.partition_spec import PartitionSpec
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.sort_order import SortOrder
from skerry.iceberg.metadata.table_updates import SetPropertiesUpdate
from skerry.storage import Storage
from skerry.table.owned_files import OwnedFiles

NAME = ("n", "t")
COMMIT = ("POST", "/namespaces/n/tables/t")
LOAD = ("GET", "/namespaces/n/tables/t")
INTERVAL = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "k", "type": "interval", "required": False}],
}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(retries, "_FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(retries, "_LONGEST_PAUSE_S", 0.0)


@pytest.fixture
def impatient(monkeypatch):
    # long enough for the sound answers before the broken one, on a machine that does other things
    monkeypatch.setattr(http_client, "Limits", lambda *_: limits(connect_s=3.0, silence_s=1.0, answer_s=2.0))


def limits(**changes):
    return _Limits(**{"connect_s": 5.0, "silence_s": 5.0, "answer_s": 10.0, "answer_bytes": 1 << 20, **changes})


_Limits = http_client.Limits


def commit(catalog):
    """Change a property; returns the outcome and what was noted about it."""
    write = MetadataWrite(OwnedFiles(Storage()))
    try:
        return catalog.commit_table(
            catalog.load_table(NAME), (), (SetPropertiesUpdate(updates={"a": "b"}),), write
        ), write
    except SkerryError as error:
        return error, write


def new_table():
    return NewIcebergTable(Schema(), PartitionSpec(), SortOrder(order_id=0))


CHANGES = {
    "create_namespace": (("POST", "/namespaces"), lambda catalog: catalog.create_namespace(("m",))),
    "drop_namespace": (("DELETE", "/namespaces/n"), lambda catalog: catalog.drop_namespace(("n",))),
    "create": (("POST", "/namespaces/n/tables"), lambda catalog: catalog.create_table(("n", "u"), new_table())),
    "register": (("POST", "/namespaces/n/register"), lambda catalog: catalog.register_table(("n", "u"), LOCATION)),
    "rename": (("POST", "/tables/rename"), lambda catalog: catalog.rename_table(NAME, ("n", "u"))),
    "drop": (("DELETE", "/namespaces/n/tables/t"), lambda catalog: catalog.drop_table(NAME)),
}
READS = {
    "load": (LOAD, lambda catalog: catalog.load_table(NAME)),
    "namespaces": (("GET", "/namespaces"), lambda catalog: catalog.list_namespaces()),
    "tables": (("GET", "/namespaces/n/tables"), lambda catalog: catalog.list_tables(("n",))),
    "properties": (("GET", "/namespaces/n"), lambda catalog: catalog.namespace_properties(("n",))),
}


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, SkerryError),
        (401, AccessDeniedError),
        (403, AccessDeniedError),
        (404, NotFoundError),
        (406, UnsupportedError),
        (409, ConflictError),
        (419, AccessDeniedError),
        (422, SkerryError),
        (429, StorageError),
        (301, StorageError),
        *((status, CommitUnknownError) for status in (408, 500, 502, 503, 504, 599)),
    ],
)
def test_what_a_status_says_of_a_commit(status, error):
    with serving(catalog_script({COMMIT: failure(status)})) as server:
        found, write = commit(RestCatalog("c", {"uri": server.uri}))
        sent = len(server.seen("POST"))
    assert type(found) is error
    assert write.may_have_effect == (error is CommitUnknownError)
    assert sent == (5 if status == 429 else 1)


REMEMBERS = {"idempotency-key-lifetime": "PT30M"}


@pytest.mark.parametrize(
    ("status", "attempts", "after"),
    [
        (200, 1, "committed"),
        *((status, 1, "refused") for status in (400, 401, 403, 404, 406, 409, 419, 422, 501)),
        *((status, 5, "unknown") for status in (408, 500, 502, 503, 504)),
        (505, 1, "unknown"),
        (429, 5, "refused"),
    ],
)
def test_a_server_that_remembers_requests_is_asked_again_by_the_same_key(status, attempts, after):
    reply = table_reply() if status == 200 else failure(status)
    with serving(catalog_script({COMMIT: reply}, **REMEMBERS)) as server:
        catalog = RestCatalog("c", {"uri": server.uri})
        found, write = commit(catalog)
        keys = [request.headers["idempotency-key"] for request in server.seen("POST")]
        assert write.may_have_effect == (after != "refused")
        assert isinstance(found, CommitUnknownError) == (after == "unknown")
        assert len(keys) == attempts
        assert len(set(keys)) == 1
        assert all("idempotency-key" not in request.headers for request in server.seen("GET"))
        commit(catalog)
        assert server.seen("POST")[-1].headers["idempotency-key"] != keys[0]
    key = uuid.UUID(keys[0])
    assert (key.version, key.variant, len(keys[0])) == (7, uuid.RFC_4122, 36)
    assert abs((key.int >> 80) / 1000 - time.time()) < 60


def sequence(*replies):
    """A script of one endpoint that answers with one reply after the other."""
    left = iter(replies)
    return lambda _: next(left)


CUT = Reply(raw=(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b'{"metadata'))


@pytest.mark.parametrize("lost", [CUT, failure(500), failure(503), failure(504), failure(408)])
@pytest.mark.parametrize("config", [REMEMBERS, {}], ids=["key", "no key"])
def test_a_commit_whose_answer_was_lost_is_repeated_only_by_its_key(lost, config):
    with serving(catalog_script({COMMIT: sequence(lost, table_reply())}, **config)) as server:
        found, _ = commit(RestCatalog("c", {"uri": server.uri}))
    assert isinstance(found, CommitUnknownError) == (not config)
    assert len(server.seen("POST")) == (2 if config else 1)


@pytest.mark.parametrize("lost", [CUT, failure(500)])
def test_a_commit_whose_answer_was_lost_may_have_happened_if_there_is_no_token_for_another(lost):
    """What was written for it is kept."""
    answers = {
        COMMIT: sequence(lost, failure(401)),
        ("POST", "/oauth/tokens"): sequence(Reply(200, {"access_token": "a"}), failure(400)),
    }
    with serving(catalog_script(answers, **REMEMBERS)) as server:
        found, write = commit(RestCatalog("c", {"uri": server.uri, "credential": "me:hush"}))
    assert isinstance(found, CommitUnknownError)
    assert "no token was given" in str(found)
    assert write.may_have_effect


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_has_a_key(change):
    endpoint, act = CHANGES[change]
    with serving(catalog_script({endpoint: sequence(failure(502), table_reply())}, **REMEMBERS)) as server:
        act(RestCatalog("c", {"uri": server.uri}))
        first, second = server.requests[-2:]
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]


@pytest.mark.parametrize("refusal", [400, 403, 404, 409, 422])
@pytest.mark.parametrize("lost", [CUT, failure(500)])
def test_a_refusal_says_nothing_about_an_attempt_before_it(lost, refusal):
    with serving(catalog_script({COMMIT: sequence(lost, failure(refusal))}, **REMEMBERS)) as server:
        found, write = commit(RestCatalog("c", {"uri": server.uri}))
    assert isinstance(found, CommitUnknownError)
    assert write.may_have_effect


def test_a_change_is_sent_again_when_an_unavailable_server_says_when():
    for replies, error in (
        ((failure(503, **{"Retry-After": "1"}), table_reply()), None),
        ((failure(503), table_reply()), CommitUnknownError),
        ((failure(502, **{"Retry-After": "1"}), table_reply()), CommitUnknownError),
        ((failure(503, **{"Retry-After": "1"}), failure(409)), CommitUnknownError),
    ):
        with serving(catalog_script({COMMIT: sequence(*replies)})) as server:
            found, _ = commit(RestCatalog("c", {"uri": server.uri}))
        assert error is None or isinstance(found, error)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("PT30M", 1800),
        ("PT24H", 86_400),
        ("P1DT1H1M1.5S", 90_061.5),
        ("pt5s", 5),
        *((text, None) for text in ("", "P", "PT", "PT0S", "30", "P1Y", "PT-5S", 5, None, [])),
    ],
)
def test_how_long_a_server_remembers_requests(text, seconds):
    assert retries.key_lifetime_s(text) == seconds


def test_a_key_is_not_used_after_its_time():
    with serving(catalog_script({COMMIT: failure(500)}, **{"idempotency-key-lifetime": "PT0.000001S"})) as server:
        found, _ = commit(RestCatalog("c", {"uri": server.uri}))
    assert isinstance(found, CommitUnknownError)
    assert len(server.seen("POST")) == 1


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    ("status", "error"),
    [(400, SkerryError), (401, AccessDeniedError), (404, NotFoundError), (500, CommitUnknownError)],
)
def test_what_a_status_says_of_another_change(change, status, error):
    endpoint, act = CHANGES[change]
    with (
        serving(catalog_script({endpoint: failure(status)})) as server,
        pytest.raises(SkerryError) as caught,
    ):
        act(RestCatalog("c", {"uri": server.uri}))
    assert type(caught.value) is error


@pytest.mark.parametrize("change", ["create_namespace", "create", "register", "rename"])
def test_a_name_that_is_taken(change):
    endpoint, act = CHANGES[change]
    with (
        serving(catalog_script({endpoint: failure(409)})) as server,
        pytest.raises(AlreadyExistsError, match="already exists"),
    ):
        act(RestCatalog("c", {"uri": server.uri}))


@pytest.mark.parametrize(("status", "error"), [(409, SchemaError), (404, NotFoundError)])
def test_a_namespace_that_is_not_dropped(status, error):
    endpoint, act = CHANGES["drop_namespace"]
    with serving(catalog_script({endpoint: failure(status)})) as server, pytest.raises(error, match="namespace 'n'"):
        act(RestCatalog("c", {"uri": server.uri}))


@pytest.mark.parametrize("read", READS)
def test_reads_are_sent_again_while_the_server_is_busy(read):
    endpoint, act = READS[read]
    busy = iter([failure(503, **{"Retry-After": "9"}), failure(502), failure(504), failure(429)])
    usual = catalog_script()

    def script(request):
        reply = next(busy, None) if request.path.partition("?")[0].endswith(endpoint[1]) else None
        return reply or usual(request)

    with serving(script) as server:
        catalog = RestCatalog("c", {"uri": server.uri})
        act(catalog)
        assert len(server.seen("GET", endpoint[1])) == 5
    with serving(catalog_script({endpoint: failure(503)})) as server, pytest.raises(StorageError, match="status 503"):
        act(RestCatalog("c", {"uri": server.uri}))


NONSENSE = {
    "nothing": Reply(200),
    "no JSON": Reply(200, b"<html>"),
    "no text": Reply(200, b'"\xff"'),
    "a list": Reply(200, []),
    "a number": Reply(200, 5),
    "null": Reply(200, b"null"),
    "deep": Reply(200, b"[" * 100_000),
    "empty": Reply(200, {}),
    "other types": Reply(
        200, {"namespaces": [5], "identifiers": [5], "metadata": 5, "metadata-location": 5, "properties": 5}
    ),
    "nulls": Reply(
        200, dict.fromkeys(("namespaces", "identifiers", "metadata", "metadata-location", "properties", "config"))
    ),
    "inner types": Reply(
        200,
        {
            "namespaces": [[5]],
            "identifiers": [{"name": 5}],
            "metadata": {**METADATA, "schemas": 5},
            "metadata-location": LOCATION,
            "config": [5],
            "storage-credentials": [5, {"prefix": 5}, {"prefix": "s3://bucket/", "config": 5}],
        },
    ),
    "endless pages": Reply(200, {"namespaces": [["n"]], "identifiers": [{"name": "t"}], "next-page-token": "again"}),
    "damaged": Reply(200, b"\x1f\x8bdamaged", {"Content-Encoding": "gzip"}),
    "unknown encoding": Reply(200, b"{}", {"Content-Encoding": "zip"}),
}


HARMLESS = {
    "load": {"endless pages"},
    "properties": {"empty", "other types", "nulls", "inner types", "endless pages"},  # a namespace may have none
}


@pytest.mark.parametrize(
    ("read", "nonsense"),
    [(read, nonsense) for read in READS for nonsense in NONSENSE if nonsense not in HARMLESS.get(read, ())],
)
def test_nonsense_is_refused_by_name(read, nonsense):
    endpoint, act = READS[read]
    with serving(catalog_script({endpoint: NONSENSE[nonsense]})) as server:
        catalog = RestCatalog("c", {"uri": server.uri})
        with pytest.raises((FormatError, StorageError)):
            act(catalog)


@pytest.mark.parametrize("nonsense", [name for name in NONSENSE if name != "endless pages"])
def test_a_commit_that_is_answered_with_nonsense_may_have_happened(nonsense):
    with serving(catalog_script({COMMIT: NONSENSE[nonsense]})) as server:
        found, write = commit(RestCatalog("c", {"uri": server.uri}))
    assert isinstance(found, CommitUnknownError)
    assert write.may_have_effect


@pytest.mark.parametrize("change", [{"format-version": 4}, {"schemas": [INTERVAL]}])
def test_a_commit_that_is_answered_with_metadata_of_the_future_has_happened(change):
    """Its files are kept, although the new state cannot be read."""
    reply = table_reply(metadata={**METADATA, **change})
    with serving(catalog_script({COMMIT: reply})) as server:
        found, write = commit(RestCatalog("c", {"uri": server.uri}))
    assert isinstance(found, CommitUnknownError)
    assert "the commit was accepted" in str(found)
    assert write.may_have_effect


@pytest.mark.parametrize("nonsense", ["no JSON", "a list", "null", "deep", "nothing"])
def test_a_configuration_that_is_nonsense(nonsense):
    with (
        serving(catalog_script({("GET", "/v1/config"): NONSENSE[nonsense]})) as server,
        pytest.raises(FormatError),
    ):
        RestCatalog("c", {"uri": server.uri})


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
BROKEN = {
    "closed at once": Reply(raw=(b"",)),
    "cut in the head": Reply(raw=(b"HTTP/1.1 200 O",)),
    "cut in the body": Reply(raw=(HEAD, b'{"metadata')),
    "cut in a chunk": Reply(raw=(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nabc",)),
    "no HTTP": Reply(raw=(b"SSH-2.0-OpenSSH_9.6\r\n\r\n",)),
    "a bad length": Reply(raw=(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",)),
    "too many headers": Reply(raw=(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 300 + b"\r\n",)),
    "never": Reply(hang=True),
    "a drop at a time, head": Reply(raw=tuple(bytes([byte]) for byte in b"HTTP/1.1 200 OK\r\n" * 40), pause_s=0.1),
    "a drop at a time, body": Reply(raw=(HEAD, *[b" "] * 700), pause_s=0.1),
}


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("broken", BROKEN)
def test_an_answer_that_is_cut_or_slow_ends_in_time(broken):
    with serving(catalog_script({COMMIT: BROKEN[broken]})) as server:
        began = time.monotonic()
        found, write = commit(RestCatalog("c", {"uri": server.uri}))
        assert isinstance(found, CommitUnknownError)
        assert write.may_have_effect
        assert len(server.seen("POST")) == 1
        assert time.monotonic() - began < 60  # all of it takes 68 s
    with serving(catalog_script({LOAD: BROKEN[broken]})) as server:
        catalog = RestCatalog("c", {"uri": server.uri})
        with pytest.raises((FormatError, StorageError)):
            catalog.load_table(NAME)


@pytest.mark.usefixtures("impatient")
def test_the_length_of_a_chunk_ends_in_time():
    """It is a line, so that each of its bytes is one more reason to wait."""
    drops = Reply(raw=(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *[b"0"] * 30), pause_s=0.1)
    with serving(catalog_script({LOAD: drops})) as server:
        catalog = RestCatalog("c", {"uri": server.uri})
        with pytest.raises(StorageError, match=r"took longer than 2 s"):
            catalog.load_table(NAME)


@pytest.mark.parametrize("target", ["http://[x", "http://127.0.0.1:99999999/", "//a:b/", "\x00"])
def test_a_redirect_to_no_address_is_not_followed(target):
    with serving(catalog_script({LOAD: Reply(307, None, {"Location": target})})) as server:
        catalog = RestCatalog("c", {"uri": server.uri})
        with pytest.raises(StorageError, match="redirects to"):
            catalog.load_table(NAME)


def test_a_server_that_is_not_there_has_done_nothing():
    with serving(catalog_script()) as server:
        catalog = RestCatalog("c", {"uri": server.uri})
        table = catalog.load_table(NAME)
    catalog.close()
    write = MetadataWrite(OwnedFiles(Storage()))
    with pytest.raises(StorageError, match="cannot be reached"):
        catalog.commit_table(table, (), (SetPropertiesUpdate(updates={}),), write)
    assert not write.may_have_effect


def test_answers_are_bounded(monkeypatch):
    monkeypatch.setattr(http_client, "Limits", lambda *_: limits(answer_bytes=10_000))
    large = json.dumps({"metadata-location": "x" * 20_000}).encode()
    for reply in (Reply(200, large), Reply(200, gzip.compress(large), {"Content-Encoding": "gzip"})):
        with serving(catalog_script({LOAD: reply})) as server:
            catalog = RestCatalog("c", {"uri": server.uri})
            with pytest.raises(StorageError):
                catalog.load_table(NAME)
            assert catalog.list_namespaces() == [("n",)]  # over another connection


def test_a_compressed_answer_is_read():
    reply = table_reply()
    packed = Reply(200, gzip.compress(json.dumps(reply.body).encode()), {"Content-Encoding": "gzip"})
    with serving(catalog_script({LOAD: packed})) as server:
        assert RestCatalog("c", {"uri": server.uri}).load_table(NAME).metadata_location == LOCATION


def test_a_token_is_not_sent_to_where_a_server_redirects():
    with serving(catalog_script()) as other:
        moved = Reply(307, None, {"Location": f"{other.uri}/v1/namespaces/n/tables/t"})
        with serving(catalog_script({LOAD: moved, COMMIT: moved})) as server:
            catalog = RestCatalog("c", {"uri": server.uri, "token": "hush-hush"})
            with pytest.raises(StorageError, match="redirects to http://127"):
                catalog.load_table(NAME)
        assert other.requests == []


def test_a_redirect_within_the_server_is_followed_for_reads():
    with serving(catalog_script({LOAD: Reply(308, None, {"Location": "/moved/namespaces/n/tables/u"})})) as server:
        usual = server.script
        server.script = lambda request: table_reply() if request.path.startswith("/moved/") else usual(request)
        catalog = RestCatalog("c", {"uri": server.uri, "token": "hush"})
        assert catalog.load_table(NAME).metadata.location == METADATA["location"]
        assert server.requests[-1].headers["authorization"] == "Bearer hush"
    with serving(catalog_script({LOAD: Reply(302, None, {"Location": LOAD[1]})})) as server:
        catalog = RestCatalog("c", {"uri": server.uri})
        with pytest.raises(StorageError, match="redirects"):
            catalog.load_table(NAME)


def test_an_endpoint_that_the_server_does_not_offer_is_named():
    offered = ["GET /v1/{prefix}/namespaces", "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}"]
    with serving(catalog_script(endpoints=offered)) as server:
        catalog = RestCatalog("c", {"uri": server.uri})
        assert catalog.list_namespaces() == [("n",)]
        with pytest.raises(UnsupportedError, match=r"does not offer 'POST /v1/\{prefix\}/tables/rename'"):
            catalog.rename_table(NAME, ("n", "u"))
        assert catalog.table_exists(NAME)


def test_all_snapshots_are_needed():
    with pytest.raises(UnsupportedError, match="all snapshots are needed"):
        RestCatalog("c", {"uri": "http://127.0.0.1:1", "snapshot-loading-mode": "refs"})
