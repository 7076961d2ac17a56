"""S3 in memory that checks the signature of every request, and the part of a catalog that signs them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from scripted_server import Reply, Request

KEYS = Credentials("the-access-key", "the-secret-key")
REGION = "mars-1"


def _authorization(method: str, url: str, headers: dict[str, str], region: str) -> str:
    """What botocore signs; the time and the hash of the content are among the headers."""
    request = AWSRequest(method=method, url=url, headers=headers)
    request.context["timestamp"] = headers["x-amz-date"]
    auth = S3SigV4Auth(KEYS, "s3", region)
    text = auth.string_to_sign(request, auth.canonical_request(request))
    names = auth.signed_headers(auth.headers_to_sign(request))
    return (
        f"AWS4-HMAC-SHA256 Credential={auth.scope(request)}, SignedHeaders={names}, "
        f"Signature={auth.signature(text, request)}"
    )


def sign(request: Request, signed: tuple[str, ...] | None = None) -> Reply:
    """Sign the request that another one describes; of its headers all, or those that are named."""
    asked = request.json
    assert asked["provider"] == "s3"
    headers = {name: ",".join(values) for name, values in asked["headers"].items()}
    headers["x-amz-date"] = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    kept = {name: value for name, value in headers.items() if signed is None or name in (*signed, "x-amz-date")}
    headers["Authorization"] = _authorization(asked["method"], asked["uri"], kept, asked["region"])
    return Reply(200, {"uri": asked["uri"], "headers": {name: [value] for name, value in headers.items()}})


def is_signed(request: Request, uri: str) -> bool:
    """Whether a request has the signature that its content demands."""
    said = request.headers.get("authorization", "")
    names = re.search(r"SignedHeaders=([^,]*)", said)
    if names is None or "x-amz-date" not in request.headers:
        return False
    headers = {name: request.headers[name] for name in names[1].split(";") if name in request.headers}
    return said == _authorization(request.method, uri + request.path, headers, REGION)


class Store:
    """Objects of one bucket, by key.

    Attributes:
        fail: Called with each request that is signed rightly; may answer instead.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.fail: Callable[[Request], Reply | None] = lambda _: None
        self.uri = ""

    def answer(self, request: Request) -> Reply:
        if not is_signed(request, self.uri):
            return error(403, "SignatureDoesNotMatch")
        return self.fail(request) or self.execute(request)

    def execute(self, request: Request) -> Reply:
        parts = urlsplit(request.path)
        key, query = unquote(parts.path).partition("/bucket/")[2], dict(parse_qsl(parts.query, keep_blank_values=True))
        if not key:
            return self._listing(query)
        if "uploads" in query or "uploadId" in query:
            return self._upload(request, key, query)
        match request.method:
            case "PUT":
                if request.headers.get("if-none-match") == "*" and key in self.objects:
                    return error(412, "PreconditionFailed")
                self.objects[key] = request.body
                return Reply(200, headers={"ETag": '"1"'})
            case "DELETE":
                self.objects.pop(key, None)
                return Reply(204)
        data = self.objects.get(key)
        if data is None:
            return error(404, "NoSuchKey")
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", request.headers.get("range", ""))
        if asked is None:
            return Reply(200, data)
        start = int(asked[1]) if asked[1] else max(0, len(data) - int(asked[2]))
        stop = int(asked[2]) + 1 if asked[1] else len(data)
        if start >= len(data):
            return error(416, "InvalidRange")
        total = {"Content-Range": f"bytes {start}-{min(stop, len(data)) - 1}/{len(data)}"}
        return Reply(206, data[start:stop], total)

    def _upload(self, request: Request, key: str, query: dict[str, str]) -> Reply:
        if "uploads" in query:
            self.uploads[f"u{len(self.uploads)}&"] = {}
            return Reply(200, f"<R><UploadId>u{len(self.uploads) - 1}&amp;</UploadId></R>".encode())
        upload = self.uploads.get(query["uploadId"])
        if upload is None:
            return error(404, "NoSuchUpload")
        if request.method == "PUT":
            upload[int(query["partNumber"])] = request.body
            return Reply(200, headers={"ETag": f'"{query["partNumber"]}"'})
        del self.uploads[query["uploadId"]]
        if request.method == "DELETE":
            return Reply(204)
        numbers = [int(number) for number in re.findall(rb"<PartNumber>(\d+)</PartNumber>", request.body)]
        self.objects[key] = b"".join(upload[number] for number in numbers)
        return Reply(200, b"<CompleteMultipartUploadResult/>")

    def _listing(self, query: dict[str, str]) -> Reply:
        prefix, after = query.get("prefix", ""), query.get("continuation-token", "")
        found = [key for key in sorted(self.objects) if key.startswith(prefix)]
        folders: list[str] = []
        if "delimiter" in query:
            below = [key.removeprefix(prefix).partition("/") for key in found]
            folders = sorted({prefix + name + "/" for name, slash, _ in below if slash})
            found = [key for key, (_, slash, _) in zip(found, below, strict=True) if not slash]
        page = [key for key in found if key > after][:2]
        more = [key for key in found if key > after][2:]
        moment = datetime(2024, 1, 2, tzinfo=UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.objects[key])}</Size>"
            f"<LastModified>{moment}</LastModified></Contents>"
            for key in page
        )
        if not after:
            entries += "".join(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in folders)
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        name = "http://s3.amazonaws.com/doc/2006-03-01/"
        return Reply(200, f'<ListBucketResult xmlns="{name}">{entries}{token}</ListBucketResult>'.encode())


def error(status: int, code: str, message: str = "no") -> Reply:
    """A refusal in the form of S3."""
    return Reply(status, f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode())
