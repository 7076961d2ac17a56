"""What only a real server over HTTP can show: how many requests, with which credentials, and how failures come back."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from skerry.errors import FormatError, NotFoundError, StorageError, UnsupportedError
from skerry.storage import Storage

pytestmark = pytest.mark.service


@pytest.fixture
def bucket(s3_server) -> str:
    return s3_server.new_bucket()


@pytest.fixture
def storage(s3_server) -> Storage:
    return Storage(s3_server.options)


@pytest.fixture
def requests(s3_server) -> list[tuple[str, str]]:
    """The requests that arrive from here on."""
    s3_server.requests.clear()
    return s3_server.requests


def test_keys_arrive_as_they_are_written(storage, bucket, s3_server):
    for key in ("a b%20#ü", "50%", "x?y", "a+b/c"):
        storage.write(f"s3://{bucket}/t/{key}", b"x")
        assert s3_server.client().get_object(Bucket=bucket, Key=f"t/{key}")["Body"].read() == b"x"


def test_all_schemes_of_s3_are_one_store(storage, bucket):
    storage.write(f"s3a://{bucket}/x", b"hello")
    assert storage.read(f"s3://{bucket}/x") == storage.read(f"s3n://{bucket}/x") == b"hello"
    assert [status.location for status in storage.list(f"s3a://{bucket}")] == [f"s3a://{bucket}/x"]


def test_counted_requests_are_those_on_the_wire(storage, bucket, requests):
    location = f"s3://{bucket}/x"
    steps = [
        (lambda: storage.write(location, bytes(100_000)), ["PUT"]),
        (lambda: storage.size(location), ["HEAD"]),
        (lambda: storage.read(location), ["GET"]),
        (lambda: storage.read_range(location, 5, 10), ["GET"]),
        (lambda: storage.read_tail(location, 8), ["GET"]),
        (lambda: storage.read_ranges(location, [0, 50_000, 99_990], [10, 10, 10]), ["GET"]),
        (lambda: storage.exists(location), ["HEAD"]),
        (lambda: list(storage.list(f"s3://{bucket}")), ["GET"]),
        (lambda: storage.delete([location, location + "2"]), ["POST"]),
    ]
    for action, expected in steps:
        requests.clear()
        before = storage.metrics.counts()
        action()
        assert [method for method, _ in requests] == expected
        assert (storage.metrics.counts() - before).requests in (
            len(expected),
            len(expected) + ("list" in str(requests)),
        )


def test_a_small_file_is_opened_and_read_by_one_request(storage, bucket, requests):
    storage.write(f"s3://{bucket}/v1.json", b"{}" * 10_000)
    requests.clear()
    with storage.open_input(f"s3://{bucket}/v1.json") as stream:
        assert len(stream.read()) == 20_000
    assert [method for method, _ in requests] == ["GET"]


def test_a_parquet_footer_costs_one_request(storage, bucket, requests):
    import pyarrow as pa

    with storage.open_output(f"s3://{bucket}/t.parquet") as sink:
        pq.write_table(pa.table({"k": range(200_000)}), sink)
    requests.clear()
    with storage.arrow_file(f"s3://{bucket}/t.parquet") as file:
        assert pq.ParquetFile(file).metadata.num_rows == 200_000
    assert [method for method, _ in requests] == ["GET"]


def test_more_than_one_page_is_listed_and_deleted_in_batches(storage, bucket, requests, monkeypatch):
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "10")
    monkeypatch.setattr("skerry.storage.objects._DELETE_BATCH", 10)
    for i in range(25):
        storage.write(f"s3://{bucket}/t/{i:05}", b"")
    requests.clear()
    found = [status.location for status in storage.list(f"s3://{bucket}/t")]
    assert found == [f"s3://{bucket}/t/{i:05}" for i in range(25)]
    assert [method for method, _ in requests] == ["GET"] * 3
    requests.clear()
    storage.delete(found)
    assert [method for method, _ in requests] == ["POST"] * 3
    assert list(storage.list(f"s3://{bucket}/t")) == []


@pytest.mark.parametrize("how", ["abort", "forget"])
def test_an_unfinished_upload_leaves_no_parts(storage, bucket, s3_server, how, monkeypatch):
    monkeypatch.setattr("skerry.storage.objects._ATOMIC_BYTES", 6 << 20)
    monkeypatch.setattr("skerry.storage.objects._PART_BYTES", 5 << 20)
    sink = storage.open_output(f"s3://{bucket}/x")
    sink.write(bytes(8 << 20))
    assert s3_server.client().list_multipart_uploads(Bucket=bucket).get("Uploads")
    if how == "abort":
        sink.abort()
    else:
        del sink
    assert not s3_server.client().list_multipart_uploads(Bucket=bucket).get("Uploads")
    assert not storage.exists(f"s3://{bucket}/x")


def test_a_missing_bucket_is_named(storage):
    location = "s3://no-such-bucket/x"
    for action in (storage.read, lambda loc: storage.write(loc, b""), lambda loc: list(storage.list(loc))):
        with pytest.raises(NotFoundError, match="bucket or container does not exist"):
            action(location)


def test_a_file_that_shrank_is_noticed(storage, bucket):
    storage.write(f"s3://{bucket}/x", bytes(200_000))
    with storage.open_input(f"s3://{bucket}/x") as stream:
        storage.write(f"s3://{bucket}/x", bytes(100_000), overwrite=True)
        with pytest.raises(FormatError, match="the file ends at byte 100000"):
            stream.read()


def test_a_key_that_the_client_cannot_express_is_refused(storage, bucket):
    for key in ("a//b", "a/../b", "tab\tname"):
        with pytest.raises(UnsupportedError, match="Could not parse path"):
            storage.read(f"s3://{bucket}/{key}")


def test_a_server_that_does_not_answer(monkeypatch):
    monkeypatch.setattr("skerry.storage.objects._RETRIES", {"max_retries": 0})
    storage = Storage({"s3.endpoint": "http://127.0.0.1:9", "s3.access-key-id": "a", "s3.secret-access-key": "b"})
    with pytest.raises(StorageError, match=r"the store failed: .* error sending request") as caught:
        storage.read("s3://bucket/x")
    assert caught.value.location == "s3://bucket/x"
