"""Credentials that a REST catalog vends for a time, and that are renewed before they expire."""

from __future__ import annotations

import pickle
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest
from scripted_server import Reply, catalog_script, failure, serving, table_reply

from skerry.errors import AccessDeniedError, FormatError, StorageError
from skerry.iceberg.catalogs.loading import state_of
from skerry.iceberg.catalogs.rest import RestCatalog
from skerry.iceberg.writing.layout import file_layout
from skerry.storage import Storage
from skerry.storage.location import parse_location
from skerry.storage.objects import _CredentialProvider
from skerry.storage.renewing import RenewedCredentials, expires_at

NAME = ("n", "t")
LOAD = ("GET", "/namespaces/n/tables/t")
CREDENTIALS = ("GET", "/namespaces/n/tables/t/credentials")
AZURE = "abfss://c@acc.dfs.core.windows.net/k"
EXPIRY = {
    "s3": "s3.session-token-expires-at-ms",
    "gs": "gcs.oauth2.token-expires-at",
    "abfss": "adls.sas-token-expires-at-ms.acc",
}
OFFERED = [
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials",
]


def vended(number, life_s, prefix="s3://bucket/lake/"):
    """Credentials with a number, which live so long from now."""
    config = {
        "s3.access-key-id": f"key-{number}",
        "s3.secret-access-key": f"hush-hush-{number}",
        "s3.session-token": f"token-{number}",
        "s3.session-token-expires-at-ms": str(int((time.time() + life_s) * 1000)),
    }
    return {"prefix": prefix, "config": config}


class Clock:
    def __init__(self, monkeypatch):
        self.now = 1_000_000.0
        monkeypatch.setattr("skerry.storage.renewing.time.time", lambda: self.now)


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test moves; the library, which has one of its own, asks for credentials each time."""
    give = _CredentialProvider.__call__
    past = datetime(2000, 1, 1, tzinfo=UTC)
    monkeypatch.setattr(_CredentialProvider, "__call__", lambda provider: {**give(provider), "expires_at": past})
    return Clock(monkeypatch)


class Vending:
    """Answers of a server that vends credentials with growing numbers."""

    def __init__(self, life_s):
        self.life_s = life_s
        self.number = 0
        self.valid_until = {}
        self.fails = None

    def entries(self):
        self.number += 1
        self.valid_until[f"token-{self.number}"] = time.time() + self.life_s
        return {"storage-credentials": [vended(self.number, self.life_s), vended(99, 9, "s3://other/")]}

    def table(self, _):
        return self.fails or table_reply(**self.entries())

    def credentials(self, _):
        return self.fails or Reply(200, self.entries())

    @property
    def script(self):
        return catalog_script({LOAD: self.table, CREDENTIALS: self.credentials}, endpoints=OFFERED)


@contextmanager
def guarded_store(vending):
    """An S3 server that gives every object the content `hello`, to those with a valid token; yields what it saw."""
    seen = []

    def answer(request):
        token = request.headers.get("x-amz-security-token", "")
        seen.append(token)
        if time.time() > vending.valid_until.get(token, 0):
            return Reply(403, b"<Error><Code>ExpiredToken</Code><Message>expired</Message></Error>")
        headers = {"Last-Modified": "Wed, 21 Oct 2015 07:28:00 GMT", "ETag": '"x"'}
        return Reply(200, b"hello", headers)

    with serving(answer) as store:
        yield store.uri, seen


def connect(server, endpoint, **more):
    return RestCatalog("c", {"uri": server.uri, "s3.endpoint": endpoint, "s3.region": "r", **more})


def test_a_long_scan_outlives_its_credentials():
    vending = Vending(life_s=2.0)
    with serving(vending.script) as server, guarded_store(vending) as (endpoint, seen):
        catalog = connect(server, endpoint)
        storage = catalog.storage_of(catalog.load_table(NAME))
        end = time.monotonic() + 30
        while len(set(seen)) < 3 and time.monotonic() < end:
            assert storage.read("s3://bucket/lake/t/x") == b"hello"
            time.sleep(0.02)
        assert len(server.seen("GET", "/tables/t/credentials")) == vending.number - 1 >= 2
    assert set(seen) <= {f"token-{number}" for number in range(1, vending.number + 1)}
    assert len(set(seen)) >= 3


@pytest.mark.parametrize("offered", [OFFERED, OFFERED[:1]], ids=["credentials", "table"])
def test_where_credentials_are_asked_for(clock, offered):
    vending = Vending(life_s=900)
    script = catalog_script({LOAD: vending.table, CREDENTIALS: vending.credentials}, endpoints=offered)
    with serving(script) as server, guarded_store(vending) as (endpoint, seen):
        catalog = connect(server, endpoint)
        storage = catalog.storage_of(catalog.load_table(NAME))
        for step_s in (0, 599, 1, 0, 599, 1):
            clock.now += step_s
            assert storage.read("s3://bucket/lake/t/x") == b"hello"
        paths = [request.path.rpartition("/")[2] for request in server.requests[1:]]
    assert seen == ["token-1"] * 2 + ["token-2"] * 3 + ["token-3"]
    assert paths == ["t", *["credentials" if offered is OFFERED else "t"] * 2]


def test_all_threads_wait_for_one_renewal(clock):
    vending = Vending(life_s=900)
    with serving(vending.script) as server, guarded_store(vending) as (endpoint, _):
        catalog = connect(server, endpoint)
        storage = catalog.storage_of(catalog.load_table(NAME))
        clock.now += 700
        threads = [threading.Thread(target=storage.read, args=("s3://bucket/lake/t/x",)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert vending.number == 2


def test_writers_and_their_tasks_renew_too(clock):
    vending = Vending(life_s=900)
    with serving(vending.script) as server, guarded_store(vending) as (endpoint, seen):
        catalog = connect(server, endpoint, token="bearer-hush")
        table = catalog.load_table(NAME)
        layout = file_layout(state_of(table, catalog.storage_of(table)))
        there = pickle.loads(pickle.dumps(layout))
        clock.now += 1000
        assert there.storage.read("s3://bucket/lake/t/x") == b"hello"
        assert server.seen("GET", "/credentials")[-1].headers["authorization"] == "Bearer bearer-hush"
    assert seen == ["token-2"]


def test_a_task_in_another_process_logs_in_with_a_token_not_with_the_credential(clock):
    vending = Vending(life_s=900)
    tokens = Reply(200, {"access_token": "bearer-1", "expires_in": 3600})
    usual = vending.script
    login = {("POST", "/oauth/tokens"): tokens}

    def script(request):
        return catalog_script(login)(request) if request.method == "POST" else usual(request)

    with serving(script) as server, guarded_store(vending) as (endpoint, seen):
        catalog = connect(server, endpoint, credential="me:client-secret", **{"header.X-Mine": "yes"})
        data = pickle.dumps(catalog.storage_of(catalog.load_table(NAME)))
        assert b"client-secret" not in data
        assert b"bearer-1" in data
        clock.now += 1000
        assert pickle.loads(data).read("s3://bucket/lake/t/x") == b"hello"
        asked = server.seen("GET", "/credentials")[-1]
        assert len(server.seen("POST")) == 1
    assert asked.headers["authorization"] == "Bearer bearer-1"
    assert asked.headers["x-mine"] == "yes"
    assert seen == ["token-2"]


def test_tasks_of_one_process_share_renewals_and_connections(clock):
    vending = Vending(life_s=900)
    with serving(vending.script) as server, guarded_store(vending) as (endpoint, _):
        catalog = connect(server, endpoint)
        data = pickle.dumps(catalog.storage_of(catalog.load_table(NAME)))
        clock.now += 1000
        first, second = pickle.loads(data), pickle.loads(data)
        for storage in (first, second):
            storage.read("s3://bucket/lake/t/x")
        store, other = (found._files(parse_location("s3://bucket/lake/t/x")).store for found in (first, second))
        assert store is other
    assert vending.number == 2


@pytest.mark.spark
def test_tasks_of_spark_renew_credentials_that_expired_on_the_way(spark):
    from skerry.spark.runtime.executor import SparkExecutor

    vending = Vending(life_s=-1)
    with serving(vending.script) as server, guarded_store(vending) as (endpoint, seen):
        catalog = connect(server, endpoint, token="bearer-hush")
        storage = catalog.storage_of(catalog.load_table(NAME))
        vending.life_s = 1000
        found = list(SparkExecutor(spark).map(storage.read, ["s3://bucket/lake/t/x"] * 4))
        asked = server.seen("GET", "/credentials")
    assert found == [b"hello"] * 4
    assert 1 <= len(asked) == len(set(seen)) <= 4
    assert {request.headers["authorization"] for request in asked} == {"Bearer bearer-hush"}
    assert not [value for _, value in spark.sparkContext.getConf().getAll() if "hush" in value]


def test_the_token_of_a_table_asks_for_its_credentials(clock):
    vending = Vending(life_s=900)
    answers = {
        LOAD: lambda _: table_reply(config={"token": "of-the-table"}, **vending.entries()),
        CREDENTIALS: vending.credentials,
    }
    with serving(catalog_script(answers, endpoints=OFFERED)) as server, guarded_store(vending) as (endpoint, _):
        catalog = connect(server, endpoint, token="of-the-catalog")
        storage = catalog.storage_of(catalog.load_table(NAME))
        clock.now += 1000
        storage.read("s3://bucket/lake/t/x")
        assert server.requests[-1].headers["authorization"] == "Bearer of-the-table"


def test_a_renewal_that_fails_is_an_error_only_when_the_old_credentials_have_expired(clock):
    vending = Vending(life_s=900)
    with serving(vending.script) as server, guarded_store(vending) as (endpoint, _):
        catalog = connect(server, endpoint)
        storage = catalog.storage_of(catalog.load_table(NAME))
        vending.fails = failure(403, message="not any more, hush-hush-1")
        clock.now += 899
        assert storage.read("s3://bucket/lake/t/x") == b"hello"
        clock.now += 2
        with pytest.raises(AccessDeniedError) as caught:
            storage.read("s3://bucket/lake/t/x")
        assert "hush" not in str(caught.value)
        vending.fails = None
        assert storage.read("s3://bucket/lake/t/x") == b"hello"


def test_an_answer_without_credentials_is_named(clock):
    reply = Reply(200, {"storage-credentials": [vended(9, 9, "s3://elsewhere/")]})
    with serving(catalog_script({LOAD: Vending(900).table, CREDENTIALS: reply}, endpoints=OFFERED)) as server:
        catalog = connect(server, "http://127.0.0.1:1")
        storage = catalog.storage_of(catalog.load_table(NAME))
        clock.now += 1000
        with pytest.raises(FormatError, match="there are no credentials for the table's files"):
            storage.renewed.current()


def test_secrets_are_in_no_text(clock):
    vending = Vending(life_s=900)
    with serving(vending.script) as server, guarded_store(vending) as (endpoint, _):
        catalog = connect(server, endpoint)
        table = catalog.load_table(NAME)
        storage = catalog.storage_of(table)
        clock.now += 1000
        storage.read("s3://bucket/lake/t/x")
        state = state_of(table, storage)
        shown = [storage, storage.renewed, storage.renewed._source, table, state, file_layout(state), catalog]
        texts = [f"{found!r} {found}" for found in shown]
        assert {"hush-hush-1", "hush-hush-2", "token-1", "token-2"} <= set(storage.renewed.secrets)
    assert not [text for text in texts if "hush" in text or "token-1" in text or "token-2" in text]


def test_credentials_that_do_not_expire_are_not_renewed():
    entry = {"prefix": "s3://", "config": {"s3.access-key-id": "k", "s3.secret-access-key": "hush-hush"}}
    with serving(catalog_script({LOAD: table_reply(**{"storage-credentials": [entry]})})) as server:
        catalog = RestCatalog("c", {"uri": server.uri})
        assert catalog.storage_of(catalog.load_table(NAME)).renewed is None


def options_until(moment):
    return {"gcs.oauth2.token": f"until-{moment:.0f}", "gcs.oauth2.token-expires-at": str(int(moment * 1000))}


@pytest.mark.parametrize(("life_s", "renewed_after_s"), [(3600, 3300), (900, 600), (400, 200), (4, 2), (-5, 0)])
def test_when_credentials_are_renewed(clock, life_s, renewed_after_s):
    asked = []

    def source():
        asked.append(clock.now)
        return {**options_until(clock.now + 10_000), "rest.secret": "not for storage"}

    renewed = RenewedCredentials(options_until(clock.now + life_s), source)
    start = clock.now
    clock.now = start + renewed_after_s - 0.1
    if renewed_after_s:
        renewed.current()
        assert asked == []
    clock.now = start + renewed_after_s
    options, renew_at = renewed.current()
    assert asked == [clock.now]
    assert renew_at == clock.now + 10_000 - 300
    assert set(options) == {"gcs.oauth2.token", "gcs.oauth2.token-expires-at"}


def test_a_renewal_that_fails_is_tried_again_after_a_pause(clock):
    asked = []

    def source():
        asked.append(clock.now)
        raise StorageError("no")

    renewed = RenewedCredentials(options_until(clock.now + 1000), source)
    start = clock.now
    for after in (699, 700, 705, 711, 995):
        clock.now = start + after
        assert renewed.current()[0] == options_until(start + 1000)
    assert [moment - start for moment in asked] == [700, 711, 995]
    clock.now = start + 1001
    with pytest.raises(StorageError):
        renewed.current()


def test_the_first_of_several_moments_counts():
    assert expires_at({}) is None
    assert expires_at({"s3.session-token-expires-at-ms": "soon"}) is None
    assert expires_at({"adls.sas-token-expires-at-ms.acc": "5000", "gcs.oauth2.token-expires-at": "7000"}) == 5.0


@pytest.mark.parametrize(
    ("location", "options", "given"),
    [
        (
            "s3://b/k",
            {"s3.access-key-id": "k", "s3.secret-access-key": "s", "s3.session-token": "t"},
            {"access_key_id": "k", "secret_access_key": "s", "token": "t"},
        ),
        ("gs://b/k", {"gcs.oauth2.token": "t"}, {"token": "t"}),
        (
            "abfss://c@acc.dfs.core.windows.net/k",
            {"adls.sas-token.acc.dfs.core.windows.net": "sig=x"},
            {"sas_token": "sig=x"},
        ),
    ],
)
def test_what_stores_are_given(location, options, given):
    found = parse_location(location)
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    keys = {
        "s3": "s3.session-token-expires-at-ms",
        "gs": "gcs.oauth2.token-expires-at",
        "abfss": "adls.sas-token-expires-at-ms.acc",
    }
    expiring = {**options, keys[urlsplit(location).scheme]: str(int(moment.timestamp() * 1000))}
    renewed = RenewedCredentials(expiring, dict)
    answer = _CredentialProvider(found.family, found.authority, renewed)()
    assert answer.pop("expires_at").timestamp() == pytest.approx(moment.timestamp() - 300)
    assert answer == given
    storage = Storage(expiring, renewed=renewed)
    store = storage._files(found).store
    assert store.credential_provider is not None
    assert not {"secret_access_key", "session_token", "bearer_token", "sas_key"} & set(store.config or {})
