"""What we send to REST catalogs: addresses, parameters, tokens, signatures; and the options that they answer with."""

from __future__ import annotations

import base64
import json
import sys
import time
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog as PyIcebergRestCatalog
from scripted_server import METADATA, Reply, catalog_script, failure, serving, table_reply
from table_server import Tables, table_server

import skerry
from skerry.errors import (
    AccessDeniedError,
    CommitUnknownError,
    FormatError,
    MissingDependencyError,
    SchemaError,
    SkerryError,
    UnsupportedError,
)
from skerry.http.http_client import HttpClient
from skerry.iceberg.catalogs.opening import open_catalog
from skerry.iceberg.catalogs.records import MetadataWrite, NewIcebergTable
from skerry.iceberg.catalogs.rest import RestCatalog
from skerry.iceberg.catalogs.rest_authentication import OAuth2
from skerry.iceberg.metadata.partition_spec import PartitionSpec
from skerry.iceberg.metadata.requirements import AssertRefSnapshotId
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.sort_order import SortOrder
from skerry.iceberg.metadata.table_updates import SetPropertiesUpdate
from skerry.storage import Storage
from skerry.table.owned_files import OwnedFiles

NAME = ("n", "t")
LOAD = ("GET", "/namespaces/n/tables/t")
COMMIT = ("POST", "/namespaces/n/tables/t")
TOKENS = ("POST", "/oauth/tokens")


def commit(catalog, table):
    return catalog.commit_table(
        table,
        (AssertRefSnapshotId(ref="main", snapshot_id=None),),
        (SetPropertiesUpdate(updates={"a": "b"}),),
        MetadataWrite(OwnedFiles(Storage())),
    )


def test_defaults_are_overridden_by_the_user_and_both_by_the_server():
    config = {"defaults": {"a": "d", "b": "d", "c": "d"}, "overrides": {"c": "o", "prefix": "ws/lake"}}
    with serving(catalog_script(**config)) as server:
        catalog = RestCatalog("c", {"uri": server.uri, "b": "u", "c": "u", "warehouse": "a lake"})
        assert [catalog.properties[name] for name in "abc"] == ["d", "u", "o"]
        catalog.list_namespaces()
        paths = [request.path for request in server.requests]
    assert paths == ["/v1/config?warehouse=a%20lake", "/v1/ws/lake/namespaces"]


def test_a_server_may_name_another_address_but_not_without_encryption():
    with serving(catalog_script()) as there, serving(catalog_script(overrides={"uri": there.uri})) as server:
        RestCatalog("c", {"uri": server.uri}).list_namespaces()
        assert [request.path for request in there.requests] == ["/v1/namespaces"]
    with pytest.raises(SchemaError, match="begins with http:// or https://"):
        RestCatalog("c", {"uri": "ftp://host"})


@pytest.mark.parametrize(
    "identifier",
    [
        ("n", "t"),
        ("a", "b c", "t"),
        ("ü", "%41"),
        ("a/b", "x?y#z"),
        ("a&b=c", "d+e;f"),
        ("☃", "日 本"),
        ("a'\"", "(t)"),
    ],
)
@pytest.mark.parametrize("separator", [None, "%2E", "."])
def test_names_in_addresses_are_those_of_pyiceberg(identifier, separator):
    overrides = {"prefix": "p"} | ({"namespace-separator": separator} if separator else {})
    with serving(lambda _: failure(404)) as server:
        script = catalog_script(overrides=overrides)
        server.script = lambda request: (
            script(request) if request.path.startswith("/v1/config") else table_reply(namespaces=[], identifiers=[])
        )
        for catalog in (PyIcebergRestCatalog("c", uri=server.uri), RestCatalog("c", {"uri": server.uri})):
            catalog.load_table(identifier)
            catalog.list_tables(identifier[:-1])
            catalog.drop_table(identifier)
    sent = [(request.method, request.path.partition("?")[0]) for request in server.requests[2:]]
    theirs, ours = sent[: len(sent) // 2], sent[len(sent) // 2 :]
    assert ours == theirs
    parts = unquote(ours[0][1].split("/")[4]).split(unquote(separator or "\x1f"))
    assert tuple(parts) == identifier[:-1]


def test_namespaces_below_another_are_asked_for_by_its_name():
    with serving(catalog_script()) as server:
        RestCatalog("c", {"uri": server.uri}).list_namespaces(("a&b", "c"))
        assert parse_qs(urlsplit(server.requests[-1].path).query) == {"parent": ["a&b\x1fc"]}


def test_listings_come_in_pages():
    pages = {
        None: {"namespaces": [["a"], ["b"]], "next-page-token": "p 2"},
        "p 2": {"namespaces": [], "next-page-token": "p3"},
        "p3": {"namespaces": [["c"]], "next-page-token": None},
    }

    def page(request):
        query = parse_qs(urlsplit(request.path).query)
        assert query["pageSize"] == ["2"]
        return Reply(200, pages[query.get("pageToken", [None])[0]])

    with serving(catalog_script({("GET", "/namespaces"): page})) as server:
        catalog = RestCatalog("c", {"uri": server.uri, "rest-page-size": "2"})
        assert catalog.list_namespaces() == [("a",), ("b",), ("c",)]


def test_what_is_sent_for_a_table():
    answers = {
        ("POST", "/namespaces/n/tables"): table_reply(),
        ("POST", "/namespaces/n/register"): table_reply(),
        ("POST", "/tables/rename"): Reply(204),
        ("DELETE", "/namespaces/n/tables/t"): Reply(204),
        ("POST", "/namespaces/n/tables/u"): table_reply(),
    }
    with serving(catalog_script(answers)) as server:
        catalog = RestCatalog("c", {"uri": server.uri, "header.X-Mine": "yes"})
        table = NewIcebergTable(
            Schema(schema_id=0), PartitionSpec(), SortOrder(order_id=0), "s3://b/t/", {"format-version": "2"}
        )
        created = catalog.create_table(("n", "u"), table)
        catalog.register_table(("n", "u"), "s3://b/m.json")
        catalog.rename_table(NAME, ("m", "u"))
        catalog.drop_table(NAME)
        catalog.drop_table(NAME, purge=True)
        commit(catalog, created)
        *_, create, register, rename, drop, purge, update = server.requests
    assert create.json == {
        "name": "u",
        "location": "s3://b/t",
        "schema": {"type": "struct", "schema-id": 0, "fields": []},
        "partition-spec": {"spec-id": 0, "fields": []},
        "write-order": {"order-id": 0, "fields": []},
        "stage-create": False,
        "properties": {"format-version": "2"},
    }
    assert register.json == {"name": "u", "metadata-location": "s3://b/m.json", "overwrite": False}
    assert rename.json == {
        "source": {"namespace": ["n"], "name": "t"},
        "destination": {"namespace": ["m"], "name": "u"},
    }
    assert (drop.path, purge.path) == tuple(
        f"/v1/namespaces/n/tables/t?purgeRequested={asked}" for asked in ("false", "true")
    )
    assert update.path == "/v1/namespaces/n/tables/u"
    assert update.json == {
        "identifier": {"namespace": ["n"], "name": "u"},
        "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}],
        "updates": [{"action": "set-properties", "updates": {"a": "b"}}],
    }
    for request in server.requests:
        assert request.headers["x-iceberg-access-delegation"] == "vended-credentials"
        assert request.headers["x-mine"] == "yes"
        assert "authorization" not in request.headers


def test_a_header_cannot_begin_another():
    with pytest.raises(SchemaError, match=r"'header\.X-Mine' has characters"):
        RestCatalog("c", {"uri": "http://127.0.0.1:1", "header.X-Mine": "a\r\nAuthorization: b"})


def test_whether_a_table_exists_is_asked_as_the_server_can():
    offered = ["HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}", "HEAD /v1/{prefix}/namespaces/{namespace}"]
    answers = {("HEAD", "/namespaces/n/tables/t"): Reply(204), ("HEAD", "/namespaces/n"): Reply(200)}
    for endpoints, method in ((offered, "HEAD"), ([], "GET")):
        with serving(catalog_script(answers, endpoints=endpoints)) as server:
            catalog = RestCatalog("c", {"uri": server.uri})
            assert catalog.table_exists(NAME)
            assert catalog.namespace_exists(("n",))
            assert not catalog.table_exists(("n", "u"))
            assert not catalog.namespace_exists(("m",))
            assert {request.method for request in server.requests[1:]} == {method}


def test_the_credentials_with_the_longest_prefix_open_the_files():
    vended = [
        {"prefix": "s3://bucket/", "config": {"s3.access-key-id": "bucket"}},
        {"prefix": "s3://bucket/lake/", "config": {"s3.access-key-id": "lake", "s3.session-token": "hush-hush"}},
        {"prefix": "s3://bucket/lake/other", "config": {"s3.access-key-id": "other"}},
        {"prefix": "gs://", "config": {"gcs.oauth2.token": "no"}},
    ]
    reply = table_reply(**{"config": {"s3.access-key-id": "config", "s3.region": "r"}, "storage-credentials": vended})
    with serving(catalog_script({LOAD: reply})) as server:
        catalog = RestCatalog("c", {"uri": server.uri, "s3.endpoint": "http://store", "s3.region": "x"})
        table = catalog.load_table(NAME)
    assert catalog.storage_of(table).options == {
        "s3.endpoint": "http://store",
        "s3.region": "r",
        "s3.access-key-id": "lake",
        "s3.session-token": "hush-hush",
    }
    assert "hush" not in f"{table!r}{catalog.storage_of(table)!r}"


READS = {
    "count": lambda table: table.scan().count(),
    "explain": lambda table: table.scan().explain(),
    "changes": lambda table: table.changes().to_arrow(),
    "delete": lambda table: table.delete("id = 7"),
}


@pytest.mark.parametrize("read", READS)
def test_a_server_that_wants_to_plan_scans_and_does_not_offer_it(tmp_path, read):
    tables = Tables(tmp_path, ("a",), pa.schema([("id", pa.int64())]), {})
    with table_server(tables) as server:
        catalog = skerry.connect(f"rest+{server.uri}")
        for mode in ({}, {"scan-planning-mode": "client"}):
            tables.config = mode
            READS[read](catalog.load_table("n.a"))
        tables.config = {"scan-planning-mode": "server"}
        table = catalog.load_table("n.a")
        table.append(pa.table({"id": [1]}))
        if read == "delete":  # rows that we look for ourselves
            READS[read](table)
        else:
            with pytest.raises(UnsupportedError, match=r"does not offer 'POST .*/tables/{table}/plan'"):
                READS[read](table)
        assert table.statistics()["id"].ndv == 1


def test_options_that_a_writer_set_as_table_properties_are_ignored():
    metadata = {**METADATA, "properties": {"s3.endpoint": "http://thief"}}
    with serving(catalog_script({LOAD: table_reply(metadata=metadata)})) as server:
        catalog = RestCatalog("c", {"uri": server.uri})
        assert catalog.storage_of(catalog.load_table(NAME)).options == {}


def test_the_token_of_a_table_is_used_for_its_commits_alone():
    answers = {LOAD: table_reply(config={"token": "of-the-table"}), COMMIT: table_reply()}
    with serving(catalog_script(answers)) as server:
        catalog = RestCatalog("c", {"uri": server.uri, "token": "of-the-catalog"})
        commit(catalog, catalog.load_table(NAME))
        catalog.list_namespaces()
        sent = [request.headers["authorization"] for request in server.requests]
    assert sent == [f"Bearer of-the-{owner}" for owner in ("catalog", "catalog", "table", "catalog")]


def tokens(*answers):
    """A token endpoint that gives `token-1`, `token-2` … with lives of so many seconds, or fails."""
    given = []

    def answer(request):
        reply = answers[min(len(given), len(answers) - 1)]
        given.append(request)
        if isinstance(reply, Reply):
            return reply
        life = {} if reply is None else {"expires_in": reply}
        return Reply(200, {"access_token": f"token-{len(given)}", "token_type": "bearer", **life})

    return answer, given


def test_a_credential_gives_tokens_that_are_renewed_before_they_expire(monkeypatch):
    answer, given = tokens(100, None)
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with serving(catalog_script({TOKENS: answer})) as server:
        options = {"uri": server.uri, "credential": "me:s3cr:et", "scope": "all", "audience": "you"}
        catalog = RestCatalog("c", options)
        for step in (0, 89, 2, 10_000):
            now[0] += step
            catalog.list_namespaces()
        sent = [request.headers["authorization"] for request in server.seen("GET")]
    assert sent == ["Bearer token-1"] * 3 + ["Bearer token-2"] * 2
    form = {key: value[0] for key, value in parse_qs(given[0].body.decode()).items()}
    assert form == {
        "grant_type": "client_credentials",
        "client_id": "me",
        "client_secret": "s3cr:et",
        "scope": "all",
        "audience": "you",
    }
    assert given[0].headers["content-type"] == "application/x-www-form-urlencoded"


def test_a_token_that_the_server_no_longer_accepts_is_replaced_once():
    answer, given = tokens(None)

    def guarded(request):
        accepted = request.headers["authorization"] == "Bearer token-2"
        return table_reply() if accepted else failure(401, "NotAuthorizedException", "token-1 has expired")

    with serving(catalog_script({TOKENS: answer, LOAD: guarded})) as server:
        catalog = RestCatalog("c", {"uri": server.uri, "credential": "me:secret"})
        assert catalog.load_table(NAME).identifier == NAME
        assert len(given) == 2
        server.script = catalog_script({TOKENS: answer, LOAD: failure(419, message="token-3 and token-4 and secret")})
        with pytest.raises(AccessDeniedError) as caught:
            catalog.load_table(NAME)
        assert len(given) == 3
    assert "token-3 and token-4" not in str(caught.value)
    assert "secret" not in str(caught.value)


def jwt(expires):
    parts = ({"alg": "none"}, {"exp": expires})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + ".x"


def test_a_token_that_says_when_it_expires_is_exchanged_for_a_later_one(monkeypatch):
    answer, given = tokens(Reply(500), None)
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    token = jwt(time.time() + 100)
    with serving(catalog_script({TOKENS: answer})) as server:
        catalog = RestCatalog("c", {"uri": server.uri, "token": token})
        for step in (0, 85, 10, 5, 10):  # the endpoint fails at first: the old token is still good
            now[0] += step
            catalog.list_namespaces()
        sent = [request.headers["authorization"] for request in server.seen("GET")]
    assert sent == [f"Bearer {token}"] * 5 + ["Bearer token-2"]
    form = {key: value[0] for key, value in parse_qs(given[1].body.decode()).items()}
    assert form == {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": token,
        "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "scope": "catalog",
    }
    assert given[1].headers["authorization"] == f"Bearer {token}"


@pytest.mark.parametrize("options", [{"token-refresh-enabled": "false"}, {"token-exchange-enabled": "false"}])
def test_a_token_is_not_exchanged_if_that_is_switched_off(options):
    answer, given = tokens(None)
    with serving(catalog_script({TOKENS: answer})) as server:
        RestCatalog("c", {"uri": server.uri, "token": jwt(time.time() - 5), **options}).list_namespaces()
    assert given == []


@pytest.mark.parametrize(
    ("server_uri", "path"), [("/login", "/login"), ("auth/token", "/auth/token"), (None, "/v1/oauth/tokens")]
)
def test_where_tokens_are_requested(server_uri, path):
    answer, given = tokens(None)
    with serving(catalog_script({("POST", path): answer})) as server:
        options = {} if server_uri is None else {"oauth2-server-uri": server_uri}
        RestCatalog("c", {"uri": server.uri, "credential": "secret", **options})
        assert [request.path for request in given] == [path]
        assert parse_qs(given[0].body.decode())["client_secret"] == ["secret"]
        assert "client_id" not in parse_qs(given[0].body.decode())


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply(401, {"error": "invalid_client", "error_description": "not the-secret-we-have"}), AccessDeniedError),
        (Reply(400, b"nonsense"), AccessDeniedError),
        (Reply(200, {"token": "x"}), FormatError),
        (Reply(200, {"access_token": 5}), FormatError),
        (Reply(200, b"\xff"), FormatError),
    ],
)
def test_a_token_that_is_not_given(reply, error):
    with serving(catalog_script({TOKENS: reply})) as server, pytest.raises(error) as caught:
        RestCatalog("c", {"uri": server.uri, "credential": "me:the-secret-we-have"})
    assert "the-secret-we-have" not in str(caught.value)


def test_secrets_are_in_no_text():
    answer, _ = tokens(None)
    with serving(catalog_script({TOKENS: answer})) as server:
        catalog = open_catalog("c", {"uri": server.uri, "credential": "me:hush-hush", "header.X-Key": "hush-hush"})
        login = OAuth2(HttpClient(), server.uri, credential="me:hush-hush")
        texts = [repr(catalog), str(catalog), repr(catalog._server), repr(login), str(catalog.load_table(NAME))]
    assert not [text for text in texts if "hush" in text or "token-1" in text]


def test_a_token_that_no_header_can_have_is_in_no_message():
    """One that was read from a file often ends with a line break."""
    with serving(catalog_script()) as server, pytest.raises(SchemaError, match="header 'Authorization'") as caught:
        RestCatalog("c", {"uri": server.uri, "token": "hush-hush\n"})
    assert server.requests == []
    assert "hush" not in str(caught.value)


def test_an_empty_token_does_not_blur_messages():
    with serving(catalog_script({LOAD: failure(403, message="not for you")})) as server:
        catalog = RestCatalog("c", {"uri": server.uri, "token": ""})
        with pytest.raises(AccessDeniedError, match="not for you"):
            catalog.load_table(NAME)


@pytest.mark.parametrize("expires", [10**400, 1e308, -5, True, None, "soon"])
def test_a_life_that_makes_no_sense_is_none(expires):
    part = base64.urlsafe_b64encode(json.dumps({"exp": expires}).encode()).decode().rstrip("=")
    answer = {"access_token": f"a.{part}.b", "expires_in": expires}
    script = catalog_script({("POST", "/v1/oauth/tokens"): Reply(200, answer)})
    with serving(script) as server:
        catalog = RestCatalog("c", {"uri": server.uri, "credential": "id:hush"})
        assert catalog.list_namespaces() == [("n",)]
        assert len(server.seen("POST", "/tokens")) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"uri": None}, "needs its address"),
        ({"rest.client.socket-timeout-ms": "9" * 30}, "from 1 to 999999999"),
        ({"rest.client.socket-timeout-ms": "0"}, "from 1 to 999999999"),
        ({"credential": "a:b", "oauth2-server-uri": "http://[x"}, "'oauth2-server-uri' is not an address"),
        ({"token": "x", "token-expires-in-ms": "9" * 400}, "'token-expires-in-ms' must be a positive number"),
        ({"auth": {"type": ["basic"]}}, "cannot be set up"),
        (
            {"auth": {"type": "basic", "basic": {"username": "u", "password": None}}},
            r"auth\.basic\.password' is missing",
        ),
        (
            {
                "auth.type": "oauth2",
                "auth.oauth2.client_id": "a",
                "auth.oauth2.client_secret": "s",
                "auth.oauth2.token_url": "http://x",
                "auth.oauth2.expires_in": "soon",
            },
            r"'auth\.oauth2\.expires_in' must be a positive number",
        ),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(SkerryError, match=message):
        RestCatalog("c", {"uri": "http://127.0.0.1:1", **options})


@pytest.mark.parametrize("nested", [True, False])
def test_user_and_password(nested):
    auth = {"type": "basic", "basic": {"username": "me", "password": "pass:word"}}
    dotted = {"auth.type": "basic", "auth.basic.username": "me", "auth.basic.password": "pass:word"}
    with serving(catalog_script()) as server:
        RestCatalog("c", {"uri": server.uri, **({"auth": auth} if nested else dotted)})
        PyIcebergRestCatalog("c", uri=server.uri, auth=auth)
        ours, theirs = (request.headers["authorization"] for request in server.requests)
    assert ours == theirs
    with pytest.raises(SchemaError, match=r"'auth.basic.password' is missing"):
        RestCatalog("c", {"uri": server.uri, "auth": {"type": "basic", "basic": {"username": "me"}}})


class Custom:
    """A way to log in of the user's own, in the form that PyIceberg defines."""

    def __init__(self, word):
        self.word = word

    def auth_header(self):
        return f"Custom {self.word}"


def test_a_way_to_log_in_of_the_users_own():
    auth = {"type": "custom", "impl": f"{__name__}.Custom", "custom": {"word": "please"}}
    with serving(catalog_script()) as server:
        RestCatalog("c", {"uri": server.uri, "auth": auth})
        assert server.requests[0].headers["authorization"] == "Custom please"


def test_signatures_are_those_of_pyiceberg(monkeypatch):
    import datetime

    import botocore.auth

    moment = datetime.datetime(2026, 1, 2, 3, 4, 5)
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda **_: moment)
    options = {
        "rest.sigv4-enabled": "true",
        "rest.signing-region": "eu-west-1",
        "rest.signing-name": "glue",
        "client.access-key-id": "AKIDEXAMPLE",
        "client.secret-access-key": "hush-hush",
        "client.session-token": "session",
        "client.region": "us-east-1",
        "auth": {"type": "noop"},
        "warehouse": "a lake",
        "header.User-Agent": "one",
        "header.Accept": "*/*",
        "header.Accept-Encoding": "gzip",
        "header.X-Client-Version": "one",
        "header.Content-Type": "application/json",
    }
    with serving(catalog_script()) as server:
        RestCatalog("c", {"uri": server.uri, **options})
        ours = server.requests[-1].headers
        assert "hush" not in str(server.requests)
    scheme, _, rest = ours["authorization"].partition(" ")
    parts = dict(part.split("=", 1) for part in rest.split(", "))
    assert scheme == "AWS4-HMAC-SHA256"
    assert parts["Credential"] == "AKIDEXAMPLE/20260102/eu-west-1/glue/aws4_request"
    assert parts["Signature"] == signature(server, ours, parts["SignedHeaders"], moment)


def signature(server, headers, names, moment):
    """The signature by the description of it, without any library."""
    import hashlib
    import hmac

    path, _, query = server.requests[-1].path.partition("?")
    signed = "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in names.split(";"))
    canonical = "\n".join(("GET", path, query, signed, names, hashlib.sha256(b"").hexdigest()))
    scope = f"{moment:%Y%m%d}/eu-west-1/glue/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{moment:%Y%m%dT%H%M%SZ}\n{scope}\n{digest}"
    key = b"AWS4hush-hush"
    for part in (*scope.split("/"),):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def test_a_token_beside_a_signature_moves_aside():
    options = {
        "rest.sigv4-enabled": "true",
        "rest.signing-region": "eu-west-1",
        "client.access-key-id": "AKIDEXAMPLE",
        "client.secret-access-key": "hush-hush",
        "token": "tok",
    }
    with serving(catalog_script({COMMIT: table_reply()})) as server:
        catalog = RestCatalog("c", {"uri": server.uri, **options})
        commit(catalog, catalog.load_table(NAME))
        headers = server.requests[-1].headers
    assert headers["original-authorization"] == "Bearer tok"
    assert headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")


def test_signing_without_the_library_is_refused_by_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "botocore", None)
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(MissingDependencyError, match="needs botocore"):
        RestCatalog("c", {"uri": "http://127.0.0.1:1", "rest.sigv4-enabled": "true"})


def test_a_table_that_was_created_but_cannot_be_read_may_exist():
    with serving(catalog_script({("POST", "/namespaces/n/tables"): Reply(200, {})})) as server:
        catalog = RestCatalog("c", {"uri": server.uri})
        with pytest.raises(CommitUnknownError, match=r"table 'n\.u' was created, but"):
            catalog.create_table(("n", "u"), NewIcebergTable(Schema(), PartitionSpec(), SortOrder(order_id=0)))
