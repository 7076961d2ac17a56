"""Objects in S3 whose requests somebody else signs: the catalog of a table, which keeps the keys to itself.

obstore signs with keys of its own, so these requests are written here. What may be repeated, and how a creation is told
from that of another writer, is as for other stores; see `skerry.storage.retrying`.
"""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as Xml
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, BinaryIO, Final, Protocol
from urllib.parse import quote
from xml.sax.saxutils import escape, unescape

from skerry.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    FormatError,
    NotFoundError,
    SkerryError,
    StorageError,
    UnsupportedError,
)
from skerry.storage.location import FileStatus, Folder, Location, redact, split_root
from skerry.storage.metrics import Metrics
from skerry.storage.retrying import has_unique_name, pauses
from skerry.storage.streams import TAIL_BYTES, RangeReader, Sink, short_read

__all__ = ["SignedFiles", "SignedRequests", "StoreAnswer"]

_UNRESERVED: Final = "-._~"
_ATOMIC_BYTES: Final = 32 * 1024 * 1024
_PART_BYTES: Final = 16 * 1024 * 1024
_BUFFER_BYTES: Final = 1024 * 1024
_THREADS: Final = 8
_MAX_REASON: Final = 300
_ERROR: Final = re.compile(r"<Code>([^<]*)</Code>\s*<Message>([^<]*)</Message>")


@dataclass(frozen=True, slots=True)
class StoreAnswer:
    """A store's answer.

    Args:
        status: The HTTP status; 0 if there was no complete answer, and the request may have been executed.
        headers: The headers, names in lower case.
        body: The content; without an answer, why.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)


class SignedRequests(Protocol):
    """Sends requests to S3 once each, signed by somebody else; picklable."""

    def send(
        self, method: str, url: str, region: str, headers: Mapping[str, str], body: bytes | memoryview
    ) -> StoreAnswer:
        """Have a request signed, and send it.

        Raises:
            SkerryError: It was not signed.
        """


class SignedFiles:
    """Reads and writes the objects of one bucket; see `skerry.storage.objects.ObjectFiles`.

    Args:
        bucket: The bucket's name.
        options: Storage options.
        metrics: Counts requests.
        requests: Sends them.
    """

    merge_gap_bytes: Final = 1024 * 1024

    def __init__(self, bucket: str, options: Mapping[str, str], metrics: Metrics, requests: SignedRequests) -> None:
        self._metrics = metrics
        self._requests = requests
        self._region = options.get("s3.region") or options.get("client.region") or "us-east-1"
        endpoint = (options.get("s3.endpoint") or f"https://s3.{self._region}.amazonaws.com").rstrip("/")
        scheme, _, host = endpoint.partition("://")
        is_virtual = options.get("s3.force-virtual-addressing", "").lower() == "true" or "s3.endpoint" not in options
        self._base = f"{scheme}://{bucket}.{host}" if is_virtual else f"{endpoint}/{bucket}"
        self._new = {
            header: options[name]
            for name, header in (
                ("s3.server-side-encryption", "x-amz-server-side-encryption"),
                ("s3.sse-kms-key-id", "x-amz-server-side-encryption-aws-kms-key-id"),
            )
            if options.get(name)
        }

    # ---- reading ----

    def size(self, location: Location) -> int:
        """Size of an object in bytes."""
        return _length(self._ask(location, "HEAD"), location)

    def read(self, location: Location) -> bytes:
        """The whole object."""
        data = self._ask(location, "GET").body
        self._metrics.add(bytes_read=len(data))
        return data

    def read_ranges(self, location: Location, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return one `bytes` per (offset, length), each exactly as long as requested; fetched concurrently."""
        if len(ranges) == 1:
            return [self._read_range(location, *ranges[0])]
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="skerry-signed") as pool:
            return list(pool.map(lambda part: self._read_range(location, *part), ranges))

    def _read_range(self, location: Location, offset: int, length: int) -> bytes:
        answer = self._ask(
            location, "GET", headers={"range": f"bytes={offset}-{offset + length - 1}"}, accepted=(200, 206, 416)
        )
        if answer.status == 416:
            raise short_read(location, offset, length, self.size(location))
        data = answer.body[offset : offset + length] if answer.status == 200 else answer.body
        if len(data) != length:
            raise short_read(location, offset, length, offset + len(data))
        self._metrics.add(bytes_read=length)
        return data

    def read_tail(self, location: Location, length: int) -> tuple[bytes, int]:
        """The last bytes of an object, and its size; two requests for an empty object."""
        if length <= 0:
            return b"", self.size(location)
        answer = self._ask(location, "GET", headers={"range": f"bytes=-{length}"}, accepted=(200, 206, 416))
        if answer.status == 416:  # an empty object
            return b"", self.size(location)
        size = len(answer.body)
        if answer.status == 206:
            total = answer.headers.get("content-range", "").rpartition("/")[2]
            if not total.isdecimal():
                raise StorageError("the store does not say how large a file is", location=redact(location.text))
            size = int(total)
        data = answer.body[-length:]
        if len(data) != min(length, size):
            raise short_read(location, max(0, size - length), min(length, size), None)
        self._metrics.add(bytes_read=len(data))
        return data, size

    def open_reader(self, location: Location) -> RangeReader:
        """Open an object as an unbuffered, seekable stream; its last bytes are fetched immediately."""
        tail, size = self.read_tail(location, TAIL_BYTES)
        self._metrics.add(files_opened=1)
        return RangeReader(size, tail, lambda offset, length: self._read_range(location, offset, length))

    def open_input(self, location: Location) -> BinaryIO:
        """Open an object as a buffered, seekable stream."""
        return io.BufferedReader(self.open_reader(location), _BUFFER_BYTES)

    def arrow_file(self, location: Location) -> Any:
        """A file for PyArrow, which buffers and coalesces by itself."""
        import pyarrow as pa

        return pa.PythonFile(self.open_reader(location), mode="r")

    # ---- listing and deleting ----

    def list_files(self, location: Location) -> Iterator[FileStatus]:
        """All objects below a prefix, page by page."""
        root = split_root(location.text)[0]
        for page in self._pages(location, {}):
            yield from (_status(root, entry) for entry in page.findall("{*}Contents"))

    def list_folder(self, location: Location) -> Folder:
        """List the objects directly below a prefix, and the prefixes one level deeper, over all pages."""
        root = split_root(location.text)[0]
        files: list[FileStatus] = []
        folders: list[str] = []
        prefix = _prefix(location)
        for page in self._pages(location, {"delimiter": "/"}):
            found = (_status(root, entry) for entry in page.findall("{*}Contents"))
            files += [file for file in found if file.location != root + prefix]
            folders += [
                root + entry.findtext("{*}Prefix", "").rstrip("/") for entry in page.findall("{*}CommonPrefixes")
            ]
        return Folder(tuple(files), tuple(folders))

    def _pages(self, location: Location, query: Mapping[str, str]) -> Iterator[Xml.Element]:
        asked = {"list-type": "2", "prefix": _prefix(location), **query}
        while True:
            answer = self._ask(location, "GET", key="", query=asked)
            try:
                page = Xml.fromstring(answer.body)  # noqa: S314  of the store that has the data itself
            except Xml.ParseError as error:
                raise StorageError(f"the store's listing is not XML: {error}", location=redact(location.text)) from None
            yield page
            token = page.findtext("{*}NextContinuationToken")
            if not token or token == asked.get("continuation-token"):
                return
            asked["continuation-token"] = token

    def delete(self, locations: Iterable[Location]) -> None:
        """Delete objects one by one, concurrently; missing ones count as deleted."""
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="skerry-signed") as pool:
            for _ in pool.map(self._delete, locations):
                pass

    def _delete(self, location: Location) -> None:
        with suppress(NotFoundError):
            self._ask(location, "DELETE", accepted=(200, 204))

    # ---- writing ----

    def write(self, location: Location, data: memoryview, *, overwrite: bool) -> None:
        """Publish `data` as one object."""
        if overwrite:
            self._ask(location, "PUT", headers=self._new, body=data)
        else:
            self._create(location, data)
        self._metrics.add(bytes_written=len(data))

    def _create(self, location: Location, data: memoryview) -> None:
        """Publish an object that must not exist yet; an attempt with an unknown outcome is followed by another."""
        unsure, attempts = False, pauses()
        while True:
            answer = self._send(location, "PUT", None, {}, {**self._new, "if-none-match": "*"}, data)
            if 200 <= answer.status < 300:
                return
            if answer.status == 412:
                if not unsure or not self._is_own(location, data):
                    raise AlreadyExistsError("file already exists", location=redact(location.text))
                return
            unsure |= answer.status in (0, 408, 429) or answer.status >= 500
            if not _may_repeat(answer) or not next(attempts, False):
                if unsure and has_unique_name(location) and self._holds(location, data):
                    return
                raise _error(location, answer)

    def _is_own(self, location: Location, data: memoryview) -> bool:
        """Whether an object is what an unanswered attempt has created.

        Raises:
            StorageError: That cannot be known.
        """
        if not self._holds(location, data):
            return False
        if not has_unique_name(location):
            raise StorageError(
                "the store did not answer a request, and a file of this name with the same content exists: "
                "whether this request created it cannot be known",
                location=redact(location.text),
            )
        return True

    def _holds(self, location: Location, data: memoryview) -> bool:
        try:
            return self.read(location) == data
        except NotFoundError:
            return False

    def require_absent(self, location: Location) -> None:
        """Raise `AlreadyExistsError` if an object of this name exists."""
        try:
            self.size(location)
        except NotFoundError:
            return
        raise AlreadyExistsError("file already exists", location=redact(location.text))

    def open_output(self, location: Location, *, overwrite: bool) -> Sink:
        """Open a stream that appears as an object when it is closed."""
        if not overwrite:
            self.require_absent(location)
        self._metrics.add(files_opened=1)
        return _SignedSink(self, location, self._metrics, overwrite=overwrite)

    def begin_upload(self, location: Location) -> str:
        """Begin an upload in parts; returns its id."""
        answer = self._ask(location, "POST", query={"uploads": ""}, headers=self._new)
        found = re.search(r"<UploadId>([^<]+)</UploadId>", answer.body.decode(errors="replace"))
        if found is None:
            raise StorageError("the store began an upload without an id", location=redact(location.text))
        return unescape(found[1])

    def upload_part(self, location: Location, upload: str, number: int, data: bytes) -> str:
        """Upload a part, counted from 1; returns its tag."""
        query = {"partNumber": str(number), "uploadId": upload}
        return self._ask(location, "PUT", query=query, body=data).headers.get("etag", "")

    def complete_upload(self, location: Location, upload: str, tags: Sequence[str]) -> None:
        """Make the object of all parts appear."""
        parts = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(tag)}</ETag></Part>"
            for number, tag in enumerate(tags, 1)
        )
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        answer = self._ask(location, "POST", query={"uploadId": upload}, body=body)
        if b"<Error>" in answer.body:  # the status is sent before the store knows
            raise _error(location, StoreAnswer(500, answer.headers, answer.body))

    def abort_upload(self, location: Location, upload: str) -> None:
        """Discard the parts of an upload."""
        self._ask(location, "DELETE", query={"uploadId": upload}, accepted=(200, 204))

    # ---- requests ----

    def _ask(
        self,
        location: Location,
        method: str,
        *,
        key: str | None = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | memoryview = b"",
        accepted: tuple[int, ...] = (200,),
    ) -> StoreAnswer:
        """Send a request that may be repeated."""
        attempts = pauses()
        while True:
            answer = self._send(location, method, key, query or {}, headers or {}, body)
            if answer.status in accepted:
                return answer
            if not _may_repeat(answer) or not next(attempts, False):
                raise _error(location, answer)

    def _send(
        self,
        location: Location,
        method: str,
        key: str | None,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes | memoryview,
    ) -> StoreAnswer:
        name = location.path if key is None else key
        if any(part in (".", "..") for part in name.split("/")):
            raise UnsupportedError("names with '.' or '..' are not supported here", location=redact(location.text))
        url = f"{self._base}/{quote(name, safe=_UNRESERVED + '/')}"
        if query:
            pairs = sorted((quote(k, safe=_UNRESERVED), quote(v, safe=_UNRESERVED)) for k, v in query.items())
            url += "?" + "&".join(f"{k}={v}" for k, v in pairs)
        self._metrics.add(requests=1)
        return self._requests.send(method, url, self._region, headers, body)


class _SignedSink(Sink):
    """Buffers bytes for one request; from 32 MiB on, uploads in parts."""

    def __init__(self, files: SignedFiles, location: Location, metrics: Metrics, *, overwrite: bool) -> None:
        super().__init__(location.text, metrics)
        self._files = files
        self._target = location
        self._overwrite = overwrite
        self._gathered = bytearray()
        self._upload: str | None = None
        self._tags: list[str] = []

    def _send(self, data: memoryview) -> None:
        self._gathered += data
        if self._upload is None and len(self._gathered) <= _ATOMIC_BYTES:
            return
        if self._upload is None:
            self._upload = self._files.begin_upload(self._target)
        while len(self._gathered) >= _PART_BYTES:
            self._send_part(_PART_BYTES)

    def _send_part(self, length: int) -> None:
        assert self._upload is not None
        part = bytes(self._gathered[:length])
        del self._gathered[:length]
        self._tags.append(self._files.upload_part(self._target, self._upload, len(self._tags) + 1, part))

    def _publish(self) -> None:
        if self._upload is None:
            self._files.write(self._target, memoryview(bytes(self._gathered)), overwrite=self._overwrite)
            return
        try:
            if self._gathered:
                self._send_part(len(self._gathered))
            if not self._overwrite:
                self._files.require_absent(self._target)
            self._complete(self._upload)
        except BaseException:
            self._discard()
            raise
        self._metrics.add(bytes_written=self.tell())

    def _complete(self, upload: str) -> None:
        """Complete the upload. A request whose answer was lost is repeated, and then no longer finds the upload."""
        try:
            self._files.complete_upload(self._target, upload, self._tags)
        except AccessDeniedError:
            raise
        except SkerryError:
            if not has_unique_name(self._target) or not self._holds_all():
                raise

    def _holds_all(self) -> bool:
        try:
            return self._files.size(self._target) == self.tell()
        except SkerryError:  # the earlier failure matters more
            return False

    def _discard(self) -> None:
        self._gathered = bytearray()
        upload, self._upload = self._upload, None
        if upload is not None:
            with suppress(SkerryError):  # the store's own rule for unfinished uploads removes what is left
                self._files.abort_upload(self._target, upload)


def _prefix(location: Location) -> str:
    return f"{location.path.rstrip('/')}/" if location.path.strip("/") else ""


def _status(root: str, entry: Xml.Element) -> FileStatus:
    key, size, modified = (entry.findtext(f"{{*}}{name}") or "" for name in ("Key", "Size", "LastModified"))
    try:
        return FileStatus(root + key, int(size), datetime.fromisoformat(modified))
    except ValueError:
        raise FormatError(f"a listing of the store has size {size[:40]!r} and date {modified[:40]!r}") from None


def _length(answer: StoreAnswer, location: Location) -> int:
    text = answer.headers.get("content-length", "")
    if not text.isdecimal():
        raise StorageError("the store does not say how large a file is", location=redact(location.text))
    return int(text)


def _may_repeat(answer: StoreAnswer) -> bool:
    return answer.status in (0, 408, 409, 429) or (answer.status >= 500 and answer.status != 501)


def _error(location: Location, answer: StoreAnswer) -> SkerryError:
    where = redact(location.text)
    text = answer.body.decode(errors="replace")
    found = _ERROR.search(text)
    said = f"status {answer.status}" + (f": {found[1]}, {found[2]}" if found else "")
    reason = " ".join((text if answer.status == 0 else said).split())[:_MAX_REASON]
    if answer.status == 404:
        missing = "bucket" if found is not None and found[1] == "NoSuchBucket" else "file"
        return NotFoundError(f"{missing} does not exist", location=where)
    if answer.status == 412:
        return AlreadyExistsError("file already exists", location=where)
    if answer.status in (401, 403):
        return AccessDeniedError(f"the store denies access: {reason}", location=where)
    return StorageError(f"the store failed: {reason}", location=where)
