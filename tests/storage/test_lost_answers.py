"""Answers that a store or the network lost: what took effect is recognised, what did not is asked for again."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from faulty_proxy import Fault, FaultyProxy, faulty_proxy

import skerry
from skerry.errors import AccessDeniedError, AlreadyExistsError, NotFoundError, SkerryError, StorageError
from skerry.storage import Storage, retrying

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def proxy(s3_server):
    with faulty_proxy(s3_server) as proxy:
        yield proxy


@pytest.fixture
def bucket(s3_server, proxy: FaultyProxy, monkeypatch) -> str:
    monkeypatch.setattr(retrying.time, "sleep", lambda seconds: None)
    proxy.faults.clear()
    bucket = s3_server.new_bucket()
    proxy.requests.clear()
    return bucket


@pytest.fixture
def storage(proxy) -> Storage:
    return Storage(proxy.options)


def unique(bucket: str) -> str:
    return f"s3://{bucket}/t/part-{uuid.uuid4()}.parquet"


@pytest.mark.parametrize("answer", [500, 503, 0])
def test_a_creation_that_took_effect_is_recognised(storage, proxy, bucket, answer):
    location = unique(bucket)
    proxy.faults.append(Fault("PUT", "part-", answer, takes_effect=True))
    storage.write(location, b"data")
    assert storage.read(location) == b"data"
    assert [method for method, _ in proxy.requests] == ["PUT", "PUT", "GET", "GET"]
    with storage.open_output(unique(bucket)) as sink:
        proxy.faults.append(Fault("PUT", "part-", answer, takes_effect=True))
        sink.write(b"more")


@pytest.mark.parametrize("answer", [500, 503, 409, 0])
def test_a_creation_that_did_not_take_effect_is_repeated(storage, proxy, bucket, answer):
    location = f"s3://{bucket}/mark"
    proxy.faults.append(Fault("PUT", "mark", answer, times=3))
    storage.write(location, b"data")
    assert storage.read(location) == b"data"
    assert [method for method, _ in proxy.requests] == ["PUT"] * 4 + ["GET"]
    proxy.faults.append(Fault("PUT", "other", answer, times=100))
    proxy.requests.clear()
    with pytest.raises(StorageError, match="the store failed") as caught:
        storage.write(f"s3://{bucket}/other", b"data")
    assert not isinstance(caught.value, AccessDeniedError)
    assert [method for method, _ in proxy.requests] == ["PUT"] * (retrying.MAX_RETRIES + 1)


def test_what_others_have_made_is_not_ones_own(storage, proxy, bucket):
    location = unique(bucket)
    storage.write(location, b"data")
    with pytest.raises(AlreadyExistsError):
        storage.write(location, b"data")  # nothing was lost, so nobody asks what is in it
    proxy.faults.append(Fault("PUT", "part-", 500))
    with pytest.raises(AlreadyExistsError):
        storage.write(location, b"DATA")
    mark = f"s3://{bucket}/_SUCCESS"
    proxy.faults.append(Fault("PUT", "_SUCCESS", 500, takes_effect=True))
    with pytest.raises(StorageError, match="whether this request created it cannot be known"):
        storage.write(mark, b"")


def test_an_upload_in_parts_that_took_effect_is_recognised(storage, proxy, bucket):
    for answer in (500, 0):
        location = unique(bucket)
        proxy.faults.append(Fault("POST", "uploadId", answer, takes_effect=True))
        with storage.open_output(location) as sink:
            sink.write(bytes(33 << 20))
        assert storage.size(location) == 33 << 20


def test_an_upload_in_parts_that_failed_says_how(storage, proxy, bucket):
    proxy.faults.append(Fault("POST", "uploadId", 400))
    with pytest.raises(SkerryError) as caught, storage.open_output(unique(bucket)) as sink:
        sink.write(bytes(33 << 20))
    assert not isinstance(caught.value, NotFoundError)


@pytest.mark.parametrize("answer", [409, 500])
def test_reading_deleting_and_replacing_are_asked_for_again(storage, proxy, bucket, answer):
    location = f"s3://{bucket}/t/x"
    storage.write(location, b"hello")
    for method, act, expected in (
        ("GET", lambda: storage.read(location), b"hello"),
        ("GET", lambda: storage.read_range(location, 1, 2), b"el"),
        ("GET", lambda: storage.read_tail(location, 2), (b"lo", 5)),
        ("GET", lambda: [file.size_bytes for file in storage.list_folder(f"s3://{bucket}/t").files], [5]),
        ("GET", lambda: [file.size_bytes for file in storage.list(f"s3://{bucket}/t")], [5]),
        ("HEAD", lambda: storage.size(location), 5),
        ("PUT", lambda: storage.write(location, b"hello", overwrite=True), None),
        ("POST", lambda: storage.delete([location]), None),
    ):
        proxy.faults.append(Fault(method, "", answer))
        assert act() == expected, method
        assert not proxy.faults


def test_a_commit_outlives_lost_answers(proxy, bucket):
    catalog = skerry.connect(f"s3://{bucket}/wh", **proxy.options)
    table = catalog.create_table("d.t", pa.schema([("id", pa.int64())]), format="paimon")
    proxy.faults += [Fault("PUT", kind, 500, takes_effect=True) for kind in ("data-", "manifest-", "snapshot-1")]
    table.append(pa.table({"id": [1, 2]}))
    assert not proxy.faults
    assert catalog.load_table("d.t").scan().count() == 2


def test_credentials_that_nobody_gave_are_said_to_be_missing(monkeypatch, proxy):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", proxy.endpoint)
    proxy.faults.append(Fault("PUT", "/latest/api/token", 403, times=100))
    with pytest.raises(SkerryError, match=r"no credentials: give s3.access-key-id") as caught:
        Storage({"s3.region": "us-east-1", "s3.endpoint": proxy.endpoint}).read("s3://nobody/x")
    assert proxy.endpoint not in str(caught.value)
    proxy.faults.clear()
