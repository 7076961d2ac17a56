"""Options and credentials: what they become, what arrives at the server, and what is never shown."""

from __future__ import annotations

import base64
import pickle
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from skerry.errors import AccessDeniedError, NotFoundError, SchemaError, StorageError, UnsupportedError
from skerry.storage import Counts, Storage, storage_of
from skerry.storage.location import parse_location
from skerry.storage.options import store_settings

S3 = "s3://bucket/x"
GCS = "gs://bucket/x"
AZURE = "abfss://data@lake.dfs.core.windows.net/x"

SETTINGS = [
    (S3, {}, {"bucket": "bucket"}, {}),
    (
        S3,
        {
            "s3.endpoint": "https://minio:9000/",
            "s3.access-key-id": "id",
            "s3.secret-access-key": "key",
            "s3.session-token": "token",
            "s3.region": "eu-west-1",
        },
        {
            "bucket": "bucket",
            "endpoint": "https://minio:9000",
            "access_key_id": "id",
            "secret_access_key": "key",
            "session_token": "token",
            "region": "eu-west-1",
        },
        {},
    ),
    (
        S3,
        {
            "client.access-key-id": "id",
            "client.secret-access-key": "key",
            "client.session-token": "token",
            "client.region": "eu-west-1",
        },
        {
            "bucket": "bucket",
            "access_key_id": "id",
            "secret_access_key": "key",
            "session_token": "token",
            "region": "eu-west-1",
        },
        {},
    ),
    (S3, {"client.region": "a", "s3.region": "b"}, {"bucket": "bucket", "region": "b"}, {}),
    (S3, {"s3.endpoint": "http://m:9"}, {"bucket": "bucket", "endpoint": "http://m:9"}, {"allow_http": True}),
    (
        S3,
        {"s3.endpoint": "http://m:9", "s3.force-virtual-addressing": "true"},
        {"bucket": "bucket", "endpoint": "http://bucket.m:9", "virtual_hosted_style_request": True},
        {"allow_http": True},
    ),
    (S3, {"s3.anonymous": "True"}, {"bucket": "bucket", "skip_signature": True}, {}),
    (
        S3,
        {"s3.server-side-encryption": "aws:kms", "s3.sse-kms-key-id": "arn"},
        {"bucket": "bucket", "server_side_encryption": "aws:kms", "sse_kms_key_id": "arn"},
        {},
    ),
    (
        S3,
        {"s3.proxy-uri": "http://p", "s3.connect-timeout": "1.5", "s3.request-timeout": "60"},
        {"bucket": "bucket"},
        {"proxy_url": "http://p", "connect_timeout": timedelta(seconds=1.5), "read_timeout": timedelta(seconds=60)},
    ),
    (
        S3,
        {"s3.signer": "S3V4RestSigner", "s3.access-key-id": "id"},
        {"bucket": "bucket", "access_key_id": "id"},
        {},
    ),
    (GCS, {}, {"bucket": "bucket"}, {}),
    (
        GCS,
        {"gcs.oauth2.token": "token", "gcs.service.host": "http://fake:4443/"},
        {"bucket": "bucket", "bearer_token": "token", "base_url": "http://fake:4443"},
        {"allow_http": True},
    ),
    (AZURE, {}, {"container_name": "data", "account_name": "lake"}, {}),
    (
        AZURE,
        {"adls.account-name": "other", "adls.account-key": "key"},
        {"container_name": "data", "account_name": "lake", "account_key": "key"},
        {},
    ),
    ("az://data/x", {"adls.account-name": "lake"}, {"container_name": "data", "account_name": "lake"}, {}),
    (
        AZURE,
        {"adls.sas-token.lake": "?sig=1", "adls.sas-token": "sig=2"},
        {"container_name": "data", "account_name": "lake", "sas_key": "sig=1"},
        {},
    ),
    (
        AZURE,
        {"adls.sas-token.lake.dfs.core.windows.net": "sig=1", "adls.sas-token.other.dfs.core.windows.net": "sig=2"},
        {"container_name": "data", "account_name": "lake", "sas_key": "sig=1"},
        {},
    ),
    (
        AZURE,
        {"adls.sas-token.lake.blob.core.windows.net": "sig=1"},
        {"container_name": "data", "account_name": "lake", "sas_key": "sig=1"},
        {},
    ),
    (
        AZURE,
        {"adls.tenant-id": "t", "adls.client-id": "c", "adls.client-secret": "s", "adls.token": "b"},
        {
            "container_name": "data",
            "account_name": "lake",
            "tenant_id": "t",
            "client_id": "c",
            "client_secret": "s",
            "token": "b",
        },
        {},
    ),
    (
        "abfss://data@lake.dfs.core.chinacloudapi.cn/x",
        {},
        {"container_name": "data", "account_name": "lake", "endpoint": "https://lake.blob.core.chinacloudapi.cn"},
        {},
    ),
    (
        "az://data/x",
        {"adls.connection-string": "AccountName=lake;AccountKey=a2V5==;EndpointSuffix=core.windows.net"},
        {"container_name": "data", "account_name": "lake", "account_key": "a2V5=="},
        {},
    ),
    (
        "az://data/x",
        {
            "adls.connection-string": "BlobEndpoint=http://127.0.0.1:10000/dev/;SharedAccessSignature=sig=1;AccountName=dev"
        },
        {"container_name": "data", "account_name": "dev", "sas_key": "sig=1", "endpoint": "http://127.0.0.1:10000/dev"},
        {"allow_http": True},
    ),
    (
        "az://data/x",
        {"adls.account-name": "dev", "adls.blob-storage-authority": "h:1", "adls.blob-storage-scheme": "http"},
        {"container_name": "data", "account_name": "dev", "endpoint": "http://h:1/dev"},
        {"allow_http": True},
    ),
    (
        "az://data/x",
        {"adls.account-name": "dev", "adls.blob-storage-authority": ".blob.local"},
        {"container_name": "data", "account_name": "dev", "endpoint": "https://dev.blob.local"},
        {},
    ),
    (
        AZURE,
        {"adls.account-host": "private.host", "adls.anon": "true"},
        {
            "container_name": "data",
            "account_name": "lake",
            "endpoint": "https://private.host",
            "skip_signature": True,
        },
        {},
    ),
    ("memory://m/x", {"s3.region": "a"}, {}, {}),
]


@pytest.mark.parametrize(("location", "options", "config", "client"), SETTINGS)
def test_options_become_settings(location, options, config, client):
    found = parse_location(location)
    settings = store_settings(found.family, found.authority, options)
    assert settings.config == config
    assert settings.client == client


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"s3.role-arn": "arn"}, UnsupportedError, "'s3.role-arn' is not supported"),
        ({"client.role-arn": "arn"}, UnsupportedError, "'client.role-arn' is not supported"),
        ({"s3.profile-name": "me"}, UnsupportedError, "'s3.profile-name' is not supported"),
        ({"s3.signer": "S3V4RestSigner"}, UnsupportedError, "'s3.signer' is not supported"),
        ({"s3.remote-signing-enabled": "true"}, UnsupportedError, "requests to S3 are signed by the catalog"),
        ({"s3.anonymous": "yes"}, SchemaError, "'s3.anonymous' is 'yes', expected true or false"),
        ({"s3.connect-timeout": "soon"}, SchemaError, "'s3.connect-timeout' is 'soon', expected seconds"),
    ],
)
def test_options_that_cannot_be_honoured_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        Storage(options).read(S3)


def test_only_storage_options_are_kept_and_values_become_strings():
    storage = Storage({"s3.anonymous": True, "s3.connect-timeout": 5, "s3.region": None, "uri": "x", "token": "y"})
    assert storage.options == {"s3.anonymous": "true", "s3.connect-timeout": "5"}
    assert Storage().options == Storage(None).options == {}


# -- what arrives at a server ------------------------------------------------------------------------------------------


@dataclass
class Recorder:
    """A server that keeps what it was asked, and answers every request alike.

    Args:
        url: Where it listens.
        status: The status it answers.
        body: The body it answers.
        seen: Method, path with query, and headers (names in lower case) of each request.
    """

    url: str = ""
    status: int = 200
    body: bytes = b"0123456789"
    seen: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    record = Recorder()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            record.seen.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}))
            wanted = self.headers.get("Range")
            body, status = record.body, record.status
            if wanted and status == 200:
                first, last = (int(part) for part in wanted.removeprefix("bytes=").split("-"))
                status, body = 206, body[first : last + 1]
            self.send_response(status)
            if status == 206:
                self.send_header("Content-Range", f"bytes {first}-{last}/{len(record.body)}")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
            self.send_header("ETag", '"1"')
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    record.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=[0.01], daemon=True)  # how soon it ends
    thread.start()
    yield record
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def no_retries(monkeypatch):
    monkeypatch.setattr("skerry.storage.objects._RETRIES", {"max_retries": 0})
    monkeypatch.setattr("skerry.storage.retrying._FIRST_PAUSE_S", 0.001)


def test_s3_requests_are_signed_with_the_given_keys(recorder, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "FROMENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "FROMENV")
    options = {
        "s3.endpoint": recorder.url,
        "s3.access-key-id": "GIVENID",
        "s3.secret-access-key": "key",
        "s3.session-token": "session",
        "s3.region": "eu-north-1",
        "s3.server-side-encryption": "AES256",
    }
    assert Storage(options).read("s3://bucket/a b") == b"0123456789"
    Storage(options).write("s3://bucket/x", b"x")
    (_, read_path, read), (method, path, write) = recorder.seen
    assert read_path == "/bucket/a%20b"
    assert "Credential=GIVENID/" in read["authorization"]
    assert "/eu-north-1/s3/" in read["authorization"]
    assert read["x-amz-security-token"] == "session"
    assert (method, path) == ("PUT", "/bucket/x")
    assert write["if-none-match"] == "*"
    assert write["x-amz-server-side-encryption"] == "AES256"


def test_the_machines_own_keys_are_used_when_none_are_given(recorder, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "FROMENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "key")
    Storage({"s3.endpoint": recorder.url, "s3.region": "us-east-1"}).read(S3)
    assert "Credential=FROMENV/" in recorder.seen[0][2]["authorization"]


def test_anonymous_requests_are_not_signed(recorder):
    Storage({"s3.endpoint": recorder.url, "s3.anonymous": "true"}).read(S3)
    assert "authorization" not in recorder.seen[0][2]


def test_gcs_requests_carry_the_token(recorder):
    storage = Storage({"gcs.service.host": recorder.url, "gcs.oauth2.token": "gcs-token"})
    assert storage.read("gs://bucket/a/b") == b"0123456789"
    storage.write("gs://bucket/x", b"x")
    (_, path, read), (_, _, write) = recorder.seen
    assert path.startswith(("/bucket/a%2Fb", "/bucket/a/b"))
    assert read["authorization"] == "Bearer gcs-token"
    assert write["x-goog-if-generation-match"] == "0"


AZURE_KEY = base64.b64encode(b"k" * 32).decode()


@pytest.mark.parametrize(
    ("options", "header", "query"),
    [
        ({"adls.token": "azure-token"}, "Bearer azure-token", ""),
        ({"adls.account-key": AZURE_KEY}, "SharedKey lake:", ""),
        ({"adls.sas-token.lake": "sv=1&sig=azure-sas"}, None, "sig=azure-sas"),
    ],
)
def test_azure_requests_carry_the_credential(recorder, options, header, query):
    host = recorder.url.removeprefix("http://")
    storage = Storage({**options, "adls.blob-storage-authority": host, "adls.blob-storage-scheme": "http"})
    assert storage.read(AZURE) == b"0123456789"
    storage.write(AZURE, b"x")
    (_, path, read), (_, _, write) = recorder.seen
    assert path.startswith("/lake/data/x")
    assert query in path
    assert read.get("authorization", "").startswith(header or "")
    assert (header is None) == ("authorization" not in read)
    assert write["if-none-match"] == "*"


def test_the_tail_on_azure_takes_two_requests(recorder):
    """Azure cannot count from the end of an object."""
    host = recorder.url.removeprefix("http://")
    storage = Storage({"adls.token": "t", "adls.blob-storage-authority": host, "adls.blob-storage-scheme": "http"})
    assert storage.read_tail(AZURE, 4) == (b"6789", 10)
    assert [method for method, _, _ in recorder.seen] == ["HEAD", "GET"]
    assert storage.metrics.counts() == Counts(requests=2, bytes_read=4)


FORK = """
import os, sys
from skerry.errors import UnsupportedError
from skerry.storage import Storage
storage = Storage({"s3.endpoint": sys.argv[1], "s3.anonymous": "true"})
storage.read("s3://bucket/x")
if os.fork() == 0:
    try:
        storage.read("s3://bucket/x")
    except UnsupportedError as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
print(len(storage.read("s3://bucket/x")))
"""


def test_a_fork_is_told_instead_of_hanging(recorder):
    command = [sys.executable, "-c", FORK, recorder.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "start processes with 'spawn' or 'forkserver'" in done.stdout
    assert done.stdout.endswith("10\n")


# -- failures, and what they may say -----------------------------------------------------------------------------------

SECRETS = {
    "s3.access-key-id": "HIDDEN-id",
    "s3.secret-access-key": "HIDDEN-key",
    "s3.session-token": "HIDDEN-session",
    "gcs.oauth2.token": "HIDDEN-gcs",
    "adls.sas-token": "sig=HIDDEN-sas&sv=1",
    "token": "HIDDEN-catalog",
}
ECHO = b"<Error><Code>Failed</Code><Message>bad HIDDEN-key or HIDDEN-session, see http://x/?sig=HIDDEN-sas</Message></Error>"


def shown_by(error: BaseException) -> str:
    return "\n".join([str(error), repr(error), "".join(traceback.format_exception(error))])


FAILURES = {401: AccessDeniedError, 403: AccessDeniedError, 404: NotFoundError, 500: StorageError}
ACTIONS = {
    "read": Storage.read,
    "size": Storage.size,
    "open_input": Storage.open_input,
    "write": lambda storage, location: storage.write(location, b"x"),
    "read_range": lambda storage, location: storage.read_range(location, 0, 1),
    "read_tail": lambda storage, location: storage.read_tail(location, 1),
    "list": lambda storage, location: list(storage.list(location)),
    "delete": lambda storage, location: storage.delete([location]),
    "open_output": lambda storage, location: storage.open_output(location).close(),
}


@pytest.mark.parametrize("location", [S3, GCS, AZURE])
@pytest.mark.parametrize("status", FAILURES)
@pytest.mark.parametrize("action", ACTIONS)
def test_failures_are_told_apart_and_show_no_secret(recorder, action, status, location):
    host = recorder.url.removeprefix("http://")
    endpoints = {
        "s3.endpoint": recorder.url,
        "s3.region": "us-east-1",
        "gcs.service.host": recorder.url,
        "adls.blob-storage-authority": host,
        "adls.blob-storage-scheme": "http",
    }
    recorder.status, recorder.body = status, ECHO
    if (action, status) == ("delete", 404):
        Storage({**SECRETS, **endpoints}).delete([location])  # what is missing counts as deleted
        return
    with pytest.raises(FAILURES[status]) as caught:
        ACTIONS[action](Storage({**SECRETS, **endpoints}), location)
    error = caught.value
    shown = [str(error), repr(error), *traceback.format_exception(error), pickle.dumps(error).decode("latin1")]
    assert "HIDDEN" not in "".join(shown)


def test_a_storage_shows_no_secret():
    storage = Storage({**SECRETS, "s3.endpoint": "http://me:HIDDEN@host", "s3.region": "us-east-1"})
    assert repr(storage) == (
        "Storage({'s3.access-key-id': '***', 's3.secret-access-key': '***', 's3.session-token': '***', "
        "'gcs.oauth2.token': '***', 'adls.sas-token': '***', 's3.endpoint': 'http://***@host', "
        "'s3.region': 'us-east-1'})"
    )
    assert "HIDDEN-catalog" not in pickle.dumps(storage).decode("latin1")


def test_a_storage_and_options_exclude_each_other() -> None:
    storage = Storage()
    assert storage_of(storage, None) is storage
    assert storage_of(None, {"s3.region": "eu-west-1"}).options == {"s3.region": "eu-west-1"}
    assert storage_of(None, None).options == {}
    with pytest.raises(SchemaError, match="storage= and options= exclude each other"):
        storage_of(storage, {})
