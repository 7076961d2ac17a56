"""Requests to S3 that a REST catalog signs."""

from __future__ import annotations

import pickle
import time
from contextlib import contextmanager

import pyarrow as pa
import pytest
from scripted_server import METADATA, Reply, catalog_script, failure, serving, table_reply
from signed_store import REGION, Store, error, sign

import skerry
from skerry.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    FormatError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from skerry.http import retries
from skerry.iceberg.catalogs import rest_credentials
from skerry.iceberg.catalogs.rest import RestCatalog
from skerry.storage import retrying

FOLDER = "s3://bucket/lake/t"
FILE = f"{FOLDER}/data/11111111-2222-3333-4444-555555555555 ü+&=.bin"
SIGN = "/v1/aws/s3/sign"
NEW_SIGN = "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/sign"


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    for module in (retries, retrying):
        for name in ("_FIRST_PAUSE_S", "_LONGEST_PAUSE_S"):
            monkeypatch.setattr(module, name, 0.0)


class Signed:
    """A catalog that signs, the store, and access to the files of table `n.t`."""

    def __init__(self, catalog, store, objects, storage):
        self.catalog, self.store, self.objects, self.storage = catalog, store, objects, storage

    def signatures(self):
        return [request.json for request in self.catalog.seen("POST", "sign")]


@contextmanager
def signing(answer=sign, *, config=None, properties=None, load=None, **more):
    objects = Store()
    with serving(objects.answer) as store:
        objects.uri = store.uri
        table = {"s3.endpoint": store.uri, "s3.region": REGION, "s3.remote-signing-enabled": "true", **(config or {})}
        answers = {
            ("GET", "/namespaces/n/tables/t"): table_reply(config=table, metadata=METADATA, **(load or {})),
            ("POST", "/sign"): answer,
        }
        with serving(catalog_script(answers, **more)) as catalog:
            found = RestCatalog("c", {"uri": catalog.uri, "token": "hush-token", **(properties or {})})
            yield Signed(catalog, store, objects, found.storage_of(found.load_table(("n", "t"))))


def test_everything_that_is_done_with_files(monkeypatch):
    with signing() as found:
        storage = found.storage
        data = bytes(range(256)) * 1000
        storage.write(FILE, data)
        assert (storage.size(FILE), storage.read(FILE) == data, storage.exists(FILE + "x")) == (256_000, True, False)
        assert storage.read_range(FILE, 300, 5) == data[300:305]
        views = storage.read_ranges(FILE, [0, 200_000], [10, 20])
        assert [bytes(view) for view in views] == [data[:10], data[200_000:200_020]]
        assert storage.read_tail(FILE, 7) == (data[-7:], 256_000)
        assert storage.read_tail(FILE, 1 << 20) == (data, 256_000)
        with pytest.raises(AlreadyExistsError):
            storage.write(FILE, b"other")
        storage.write(FILE, b"", overwrite=True)
        assert storage.read_tail(FILE, 7) == (b"", 0)
        with pytest.raises(FormatError, match="file is too short"):
            storage.read_range(FILE, 0, 1)
        with storage.open_output(f"{FOLDER}/small") as sink:
            sink.write(b"abc")
        with storage.open_input(f"{FOLDER}/small") as stream:
            assert stream.read() == b"abc"
        assert storage.arrow_file(f"{FOLDER}/small").read() == b"abc"
        for name in ("data/b", "data/c/d", "data<&/e"):
            storage.write(f"{FOLDER}/{name}", b"1")
        below = f"{FOLDER}/data"
        assert [file.location for file in storage.list(below)] == sorted([FILE, f"{below}/b", f"{below}/c/d"])
        assert [file.size_bytes for file in storage.list(below)] == [0, 1, 1]
        folder = storage.list_folder(FOLDER)
        assert [file.location for file in folder.files] == [f"{FOLDER}/small"]
        assert sorted(folder.folders) == [f"{FOLDER}/data", f"{FOLDER}/data<&"]
        storage.delete([FILE, f"{FOLDER}/missing", f"{below}/b"])
        assert [file.location for file in storage.list(below)] == [f"{below}/c/d"]
        for location in (FILE, f"{FOLDER}/nothing"):
            with pytest.raises(NotFoundError):
                storage.read(location)
        with pytest.raises(UnsupportedError, match="names with"):
            storage.read(f"{FOLDER}/../x")


def test_large_files_are_uploaded_in_parts():
    with signing() as found:
        data = bytes(1_000_000)
        with found.storage.open_output(FILE) as sink:
            for _ in range(40):
                sink.write(data)
        assert len(found.objects.objects["lake/t/data/" + FILE.rpartition("/")[2]]) == 40_000_000
        assert found.objects.uploads == {}

        def interrupted():
            with found.storage.open_output(f"{FOLDER}/other") as sink:
                for _ in range(40):
                    sink.write(data)
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert found.objects.uploads == {}
        assert not found.storage.exists(f"{FOLDER}/other")


# ---- what is asked ----


def test_what_is_sent_to_be_signed():
    load = {
        "remote-signing-config": {
            "properties": {"a": "b"},
            "headers": {"x-a": ["1", "2"], "Authorization": ["Basic x"]},
        }
    }
    with signing(load=load) as found:
        found.storage.write(FILE, b"x")
        (asked,) = found.signatures()
        assert asked["method"] == "PUT"
        assert asked["region"] == REGION
        assert asked["uri"].startswith(f"{found.store.uri}/bucket/lake/t/data/1111")
        assert asked["headers"]["if-none-match"] == ["*"]
        assert asked["headers"]["x-amz-content-sha256"] == ["UNSIGNED-PAYLOAD"]
        assert asked["properties"] == {"a": "b"}
        assert "body" not in asked
        (request,) = found.catalog.seen("POST", "sign")
        assert (request.path, request.headers["authorization"]) == (SIGN, "Bearer hush-token")
        assert request.headers["x-a"] == "1,2"
        assert "hush" not in str(found.store.requests)


@pytest.mark.parametrize(
    ("config", "endpoints", "path"),
    [
        ({}, [], SIGN),
        ({}, [NEW_SIGN], "/v1/namespaces/n/tables/t/sign"),
        ({"s3.signer.endpoint": "v2/sign?x=1"}, [NEW_SIGN], "/v2/sign?x=1"),
        ({"signer.endpoint": "v3/sign", "s3.signer.endpoint": "v2/sign"}, [], "/v3/sign"),
    ],
)
def test_where_requests_are_signed(config, endpoints, path):
    offered = ["GET /v1/{prefix}/namespaces/{namespace}/tables/{table}", *endpoints]
    with signing(config=config, **({"endpoints": offered} if endpoints else {})) as found:
        assert not found.storage.exists(FILE)
        assert [request.path for request in found.catalog.seen("POST")] == [path]


def test_a_token_is_not_sent_to_another_server():
    with serving(sign) as thief, signing(config={"s3.signer.uri": thief.uri}) as found:
        with pytest.raises(AccessDeniedError, match="names another server"):
            found.storage.read(FILE)
        assert thief.requests == []


def test_keys_are_used_instead_if_there_are_any():
    with signing(config={"s3.access-key-id": "k", "s3.secret-access-key": "s"}) as found:
        assert found.storage.requests is None


@pytest.mark.parametrize(
    ("control", "signed", "count"),
    [
        (None, None, 5),
        ("no-cache, private", None, 5),
        ("private, max-age=0", None, 5),
        ("private", None, 4),
        ("private", ("host", "x-amz-content-sha256"), 2),
        ("private, max-age=20", ("host", "x-amz-content-sha256"), 2),
    ],
)
def test_signatures_are_used_again_as_the_catalog_allows(control, signed, count):
    def answer(request):
        reply = sign(request, signed)
        return Reply(200, reply.body, {"Cache-Control": control} if control else {})

    with signing(answer) as found:
        found.objects.objects["lake/t/x"] = b"0123456789"
        read = found.storage.read_range
        parts = [read(f"{FOLDER}/x", *part) for part in ((0, 2), (0, 2), (4, 3))]
        assert parts == [b"01", b"01", b"456"]
        assert found.storage.read(f"{FOLDER}/x") == b"0123456789"
        assert found.storage.size(f"{FOLDER}/x") == 10
        assert len(found.signatures()) == count


def test_a_kept_signature_ends(monkeypatch):
    with signing(lambda request: Reply(200, sign(request).body, {"Cache-Control": "private"})) as found:
        found.objects.objects["lake/t/x"] = b"0"
        found.storage.read(f"{FOLDER}/x")
        found.storage.read(f"{FOLDER}/x")
        now = time.monotonic()
        monkeypatch.setattr(rest_credentials.time, "monotonic", lambda: now + 31)
        found.storage.read(f"{FOLDER}/x")
        assert len(found.signatures()) == 2


def test_a_copy_in_another_process_signs_too():
    with signing() as found:
        found.storage.write(FILE, b"x")
        copy = pickle.loads(pickle.dumps(found.storage))
        assert copy.read(FILE) == b"x"
        assert "hush" not in f"{copy!r}{copy.requests!r}"


# ---- failures ----


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
def test_requests_are_repeated_while_the_store_is_busy(status):
    with signing() as found:
        left = {"GET": 2, "PUT": 2, "DELETE": 2}

        def fail(request):
            left[request.method] = left.get(request.method, 0) - 1
            return error(status, "SlowDown") if left[request.method] >= 0 else None

        found.objects.fail = fail
        found.storage.write(FILE, b"x")
        assert found.storage.read(FILE) == b"x"
        found.storage.delete([FILE])
        assert found.objects.objects == {}


@pytest.mark.parametrize("lost", [Reply(raw=(b"HTTP/1.1 200",)), error(500, "InternalError")])
@pytest.mark.parametrize(("name", "own"), [(FILE, True), (f"{FOLDER}/mark", False)])
def test_a_creation_whose_answer_is_lost(lost, name, own):
    """The next attempt finds the file; only a unique name shows that it is one's own."""
    with signing() as found:
        replies = [lost]

        def fail(request):
            if request.method == "PUT" and replies:
                found.objects.execute(request)
                return replies.pop()
            return None

        found.objects.fail = fail
        if own:
            found.storage.write(name, b"x")
        else:
            with pytest.raises(StorageError, match="cannot be known"):
                found.storage.write(name, b"x")
        assert list(found.objects.objects.values()) == [b"x"]


@pytest.mark.parametrize(
    ("reply", "kind", "match"),
    [
        (error(403, "AccessDenied"), AccessDeniedError, "AccessDenied"),
        (error(404, "NoSuchBucket"), NotFoundError, "bucket does not exist"),
        (error(400, "InvalidRequest"), StorageError, "status 400: InvalidRequest, no"),
        (Reply(302, headers={"Location": "http://elsewhere"}), StorageError, "status 302"),
        (Reply(raw=(b"x",)), StorageError, "the store failed"),
    ],
)
def test_refusals_of_the_store(reply, kind, match):
    with signing() as found:
        found.objects.fail = lambda _: reply
        with pytest.raises(kind, match=match) as caught:
            found.storage.read(FILE)
        assert "hush" not in str(caught.value)
        assert "Signature" not in str(caught.value)


BAD_SIGNATURES = {
    "refused": (failure(403, "ForbiddenException", "not your file"), AccessDeniedError, "not your file"),
    "failing": (failure(500), StorageError, "failed"),
    "no JSON": (Reply(200, b"{"), FormatError, "not JSON"),
    "no object": (Reply(200, []), FormatError, "not an object"),
    "no headers": (lambda request: Reply(200, {"uri": request.json["uri"]}), FormatError, "no uri or no headers"),
    "another host": (
        lambda request: Reply(200, {"uri": "http://thief/bucket/x", "headers": {}}),
        FormatError,
        "of another address",
    ),
    "another file": (
        lambda request: Reply(200, {"uri": request.json["uri"] + "x", "headers": {}}),
        FormatError,
        "of another address",
    ),
    "a line break": (
        lambda request: Reply(200, {"uri": request.json["uri"], "headers": {"a": ["b\r\nc: d"]}}),
        FormatError,
        "a header that cannot be sent",
    ),
    "no text": (
        lambda request: Reply(200, {"uri": request.json["uri"], "headers": {"a": [1]}}),
        FormatError,
        "a header that cannot be sent",
    ),
}


@pytest.mark.parametrize("case", BAD_SIGNATURES)
def test_answers_that_are_no_signatures(case):
    reply, kind, match = BAD_SIGNATURES[case]
    with signing(reply) as found:
        with pytest.raises(kind, match=match):
            found.storage.write(FILE, b"x")
        assert found.store.requests == []


# ---- a real server ----


@pytest.mark.service
def test_nessie_signs(rest_catalog, s3_server):
    delegation = {"header.X-Iceberg-Access-Delegation": "remote-signing"}
    catalog = skerry.connect(f"rest+{rest_catalog.uri}", warehouse=rest_catalog.warehouse, **delegation)
    table = catalog.create_table("signed.birds", pa.schema([("k", pa.int64()), ("s", pa.string())]))
    storage = table.handle.state.storage
    assert storage.requests is not None
    assert "s3.access-key-id" not in storage.options
    for number in range(3):
        table.append(pa.table({"k": [3 * number, 3 * number + 1], "s": ["x", "y"]}))
    table.delete("k = 3")
    table.compact()
    again = catalog.load_table("signed.birds")
    assert sorted(again.scan().to_arrow()["k"].to_pylist()) == [0, 1, 4, 6, 7]
    assert again.statistics()["k"].ndv == 5
    location = f"{table.location}/data/large.bin"
    with storage.open_output(location) as sink:
        for _ in range(36):
            sink.write(bytes(1 << 20))
    assert storage.size(location) == 36 << 20
    assert storage.read_range(location, 5, 3) == bytes(3)
