"""Real servers for the tests, each started once per run on a free port of the loopback interface."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

ACCESS_KEY, SECRET_KEY, REGION = "tester-access-key", "tester-secret-key", "us-east-1"


@dataclass
class S3Server:
    """An S3 server over HTTP.

    Args:
        endpoint: Its URL.
        requests: Method and path with query of every request, as they arrived; tests may clear it.
    """

    endpoint: str
    requests: list[tuple[str, str]] = field(default_factory=list)

    @property
    def options(self) -> dict[str, str]:
        """Storage options, by PyIceberg's names."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.access-key-id": ACCESS_KEY,
            "s3.secret-access-key": SECRET_KEY,
            "s3.region": REGION,
        }

    def client(self) -> Any:
        """A client that is not skerry's."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            region_name=REGION,
        )

    def new_bucket(self) -> str:
        """Make an empty bucket, and return its name."""
        bucket = f"skerry-{uuid.uuid4().hex[:12]}"
        self.client().create_bucket(Bucket=bucket)
        return bucket


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """An S3 server (moto) that handles one request at a time, so that its conditional writes are as atomic as S3's."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Silent(WSGIRequestHandler):
        def log(self, type: str, message: str, *args: Any) -> None:
            pass

    moto: WSGIApplication = DomainDispatcherApplication(create_backend_app)
    lock = threading.Lock()
    server = S3Server("")

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        with lock:
            server.requests.append((environ["REQUEST_METHOD"], environ["RAW_URI"]))
            return moto(environ, start_response)

    http = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Silent)
    server.endpoint = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, name="s3 server", daemon=True)
    thread.start()
    yield server
    http.shutdown()
    thread.join()
    http.server_close()
