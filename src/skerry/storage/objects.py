"""Objects in S3, Google Cloud Storage, Azure and memory, through obstore.

A file appears complete or not at all. Creating a file is one conditional request up to 32 MiB; a larger one is uploaded
in parts, and the name is checked just before it is published.
obstore retries what can be repeated, with growing pauses for two minutes at most; creations are retried here, where it
is known whether an earlier attempt may have taken effect.
"""

from __future__ import annotations

import io
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar

import obstore
from obstore.exceptions import BaseError, NotSupportedError, PermissionDeniedError, UnauthenticatedError
from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store

from skerry.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    NotFoundError,
    SkerryError,
    StorageError,
    UnsupportedError,
)
from skerry.storage.location import Family, FileStatus, Folder, Location, redact, split_root
from skerry.storage.metrics import Metrics
from skerry.storage.options import secret_values, store_settings
from skerry.storage.retrying import MAX_RETRIES, PATIENCE_S, Answer, answer_of, has_unique_name, pauses, status_of
from skerry.storage.streams import TAIL_BYTES, RangeReader, Sink, short_read

if TYPE_CHECKING:
    from obstore.store import ObjectStore, RetryConfig

    from skerry.storage.renewing import RenewedCredentials

__all__ = ["ObjectFiles"]

_CLIENT: Final = {"timeout": timedelta(minutes=30), "read_timeout": timedelta(seconds=60)}
"""A request may take long as long as bytes flow; one that stalls for a minute is aborted."""
_RETRIES: Final[RetryConfig] = {"max_retries": MAX_RETRIES, "retry_timeout": timedelta(seconds=PATIENCE_S)}
_NO_RETRIES: Final[RetryConfig] = {"max_retries": 0}
_LIST_PAGE: Final = 1000
_DELETE_BATCH: Final = 1000
_BUFFER_BYTES: Final = 1024 * 1024
_ATOMIC_BYTES: Final = 32 * 1024 * 1024
_PART_BYTES: Final = 10 * 1024 * 1024
_DEBUG: Final = "\n\nDebug source"
_XML_ERROR: Final = re.compile(r"<Code>([^<]*)</Code>.*?<Message>([^<]*)</Message>", re.DOTALL)
_INSTANCE_CREDENTIALS: Final = re.compile(r"/latest/(api/token|meta-data)|/computeMetadata/|/metadata/identity/")
"""Where a cloud's machines ask for credentials if none are configured."""
_QUERY: Final = re.compile(r"\?\S+")
_MAX_REASON: Final = 500

_Result = TypeVar("_Result")

_memory_stores: Final[dict[str, MemoryStore]] = {}
_memory_lock: Final = threading.Lock()
_network_process: int | None = None
"""The process that first used a network store. obstore's threads exist only in it: a fork would wait for them forever,
and gets an error instead."""


@lru_cache(maxsize=64)
def _open_store(
    family: Family,
    authority: str,
    options: tuple[tuple[str, str], ...],
    renewed: RenewedCredentials | None,
    *,
    retries: bool = True,
) -> ObjectStore:
    """A store with its connections, shared by all storages of the process with the same options."""
    settings = store_settings(family, authority, dict(options))
    more: Any = {"retry_config": _RETRIES if retries else _NO_RETRIES}
    config: Any = settings.config
    client: Any = {**_CLIENT, **settings.client}
    if renewed is not None and settings.temporary_credentials():
        more["credential_provider"] = _CredentialProvider(family, authority, renewed)
        config = settings.without_credentials()
    match family:
        case Family.S3:
            return S3Store(config=config, client_options=client, **more)
        case Family.GCS:
            return GCSStore(config=config, client_options=client, **more)
        case Family.AZURE:
            return AzureStore(config=config, client_options=client, **more)
    with _memory_lock:
        return _memory_stores.setdefault(authority, MemoryStore())


class _CredentialProvider:
    """Gives obstore credentials, which asks for others when they are to be renewed.

    Args:
        family: The kind of store.
        authority: The bucket or container.
        renewed: Options with credentials.
    """

    refresh_threshold = timedelta(0)

    def __init__(self, family: Family, authority: str, renewed: RenewedCredentials) -> None:
        self._family = family
        self._authority = authority
        self._renewed = renewed

    def __call__(self) -> dict[str, Any]:
        options, renew_at = self._renewed.current()
        found = store_settings(self._family, self._authority, options).temporary_credentials()
        return {**found, "expires_at": None if renew_at is None else datetime.fromtimestamp(renew_at, UTC)}


class ObjectFiles:
    """Reads and writes the objects of one bucket or container."""

    merge_gap_bytes: Final = 1024 * 1024

    def __init__(
        self,
        location: Location,
        options: Mapping[str, str],
        metrics: Metrics,
        renewed: RenewedCredentials | None = None,
    ) -> None:
        self._metrics = metrics
        self._secrets = secret_values(options)
        self._renewed = renewed
        with self._errors(location):
            self._named = (location.family, location.authority, tuple(sorted(options.items())), renewed)
            self.store = _open_store(*self._named)

    def size(self, location: Location) -> int:
        """Size of an object in bytes."""
        meta = self._ask(location, lambda: obstore.head(self.store, location.path))
        self._metrics.add(requests=1)
        return meta["size"]

    def read(self, location: Location) -> bytes:
        """The whole object."""
        data = self._ask(location, lambda: obstore.get(self.store, location.path).bytes().to_bytes())
        self._metrics.add(requests=1, bytes_read=len(data))
        return data

    def read_ranges(self, location: Location, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return one `bytes` per (offset, length), each exactly as long as requested; fetched concurrently."""
        starts, lengths = [start for start, _ in ranges], [length for _, length in ranges]
        self._metrics.add(requests=len(ranges))
        try:
            buffers = self._ask(
                location,
                lambda: (
                    [obstore.get_range(self.store, location.path, start=starts[0], length=lengths[0])]
                    if len(ranges) == 1
                    else obstore.get_ranges(self.store, location.path, starts=starts, lengths=lengths, coalesce=0)
                ),
            )
        except (NotFoundError, AccessDeniedError):
            raise
        except SkerryError:
            # Some stores refuse a range beyond the end, others truncate it; both become the same error.
            size = self.size(location)
            for start, length in ranges:
                if start + length > size:
                    raise short_read(location, start, length, size) from None
            raise
        for (start, length), buffer in zip(ranges, buffers, strict=True):
            if len(buffer) != length:
                raise short_read(location, start, length, start + len(buffer))
        self._metrics.add(bytes_read=sum(lengths))
        return [buffer.to_bytes() for buffer in buffers]

    def read_tail(self, location: Location, length: int) -> tuple[bytes, int]:
        """The last bytes of an object, and its size, in one request if the store supports it (Azure does not)."""
        if length > 0 and location.family is not Family.AZURE:
            self._metrics.add(requests=1)
            try:
                size, data = self._ask(location, lambda: self._suffix(location, length))
                self._metrics.add(bytes_read=len(data))
            except (NotFoundError, AccessDeniedError):
                raise
            except SkerryError:
                pass  # an empty object: S3 refuses suffix ranges of it
            else:
                if len(data) != min(length, size):
                    raise short_read(location, max(0, size - length), min(length, size), None)
                return data, size
        size = self.size(location)
        length = min(length, size)
        if length == 0:
            return b"", size
        return self.read_ranges(location, [(size - length, length)])[0], size

    def write(self, location: Location, data: memoryview, *, overwrite: bool) -> None:
        """Publish `data` as one object."""
        if overwrite or location.family is Family.MEMORY:
            mode: Any = "overwrite" if overwrite else "create"
            self._ask(location, lambda: obstore.put(self.store, location.path, data, mode=mode))
            self._metrics.add(requests=1, bytes_written=len(data))
        else:
            self._create(location, data)

    def _create(self, location: Location, data: memoryview) -> None:
        """Publish an object that must not exist yet.

        An attempt with an unknown outcome is followed by another. If that one finds an object of this name, its content
        shows who wrote it, provided that its name is unique; marks and hints are the same for all writers.
        """
        with self._errors(location):
            once = _open_store(*self._named, retries=False)  # opened on the first creation, and cached
            unsure, attempts = False, pauses()
            while True:
                self._metrics.add(requests=1)
                try:
                    obstore.put(once, location.path, data, mode="create")
                    break
                except (BaseError, OSError) as error:
                    answer = answer_of(error, location.family)
                    if answer is Answer.EXISTS and unsure:
                        self._recognise(location, data)
                        break
                    if answer in (Answer.EXISTS, Answer.REFUSED):
                        raise
                    unsure |= answer is Answer.UNKNOWN
                    if not next(attempts, False):
                        if unsure and has_unique_name(location) and self._holds(location, data):
                            break
                        raise
        self._metrics.add(bytes_written=len(data))

    def _recognise(self, location: Location, data: memoryview) -> None:
        """Check that an object is what an unanswered attempt has created; raise if not, or if that cannot be known."""
        if not self._holds(location, data):
            raise AlreadyExistsError("file already exists", location=redact(location.text))
        if not has_unique_name(location):
            raise StorageError(
                "the store did not answer a request, and a file of this name with the same content exists: "
                "whether this request created it cannot be known",
                location=redact(location.text),
            )

    def _holds(self, location: Location, data: memoryview) -> bool:
        try:
            return self.read(location) == data
        except NotFoundError:
            return False

    def _suffix(self, location: Location, length: int) -> tuple[int, bytes]:
        result = obstore.get(self.store, location.path, options={"range": {"suffix": length}})
        return result.meta["size"], result.bytes().to_bytes()

    def list_files(self, location: Location) -> Iterator[FileStatus]:
        """All objects below a prefix, page by page."""
        root = split_root(location.text)[0]
        pages, page = self._ask(location, lambda: self._first_page(location))
        self._metrics.add(requests=1)
        while page is not None:
            for meta in page:
                yield FileStatus(root + meta["path"], meta["size"], meta["last_modified"])
            with self._errors(location):
                page = next(pages, None)
            if page is not None:
                self._metrics.add(requests=1)

    def _first_page(self, location: Location) -> tuple[Any, Any]:
        pages = obstore.list(self.store, location.path.rstrip("/") or None, chunk_size=_LIST_PAGE)
        return pages, next(pages, None)

    def list_folder(self, location: Location) -> Folder:
        """List the objects directly below a prefix, and the prefixes one level deeper, over all pages."""
        root = split_root(location.text)[0]
        found = self._ask(location, lambda: obstore.list_with_delimiter(self.store, location.path.rstrip("/") or None))
        objects, prefixes = found["objects"], found["common_prefixes"]
        self._metrics.add(requests=1 + (len(objects) + len(prefixes)) // _LIST_PAGE)
        files = (FileStatus(root + meta["path"], meta["size"], meta["last_modified"]) for meta in objects)
        return Folder(tuple(files), tuple(f"{root}{prefix.rstrip('/')}" for prefix in prefixes))

    def delete(self, locations: Iterable[Location]) -> None:
        """Delete objects in batches; missing ones count as deleted."""
        batch: list[Location] = []
        for location in locations:
            batch.append(location)
            if len(batch) == _DELETE_BATCH:
                self._delete_batch(batch)
                batch = []
        if batch:
            self._delete_batch(batch)

    def _delete_batch(self, batch: list[Location]) -> None:
        self._metrics.add(requests=1)
        try:
            with self._errors(batch[0]):
                obstore.delete(self.store, [location.path for location in batch])
        except AccessDeniedError:
            raise
        except SkerryError:
            # Some stores fail if an object is missing, or do not support batches: delete one by one.
            for location in batch:
                self._metrics.add(requests=1)
                with suppress(NotFoundError), self._errors(location):
                    obstore.delete(self.store, location.path)

    def open_reader(self, location: Location) -> RangeReader:
        """Open an object as an unbuffered, seekable stream; its last bytes are fetched immediately."""
        tail, size = self.read_tail(location, TAIL_BYTES)
        self._metrics.add(files_opened=1)
        return RangeReader(size, tail, lambda offset, length: self.read_ranges(location, [(offset, length)])[0])

    def open_input(self, location: Location) -> BinaryIO:
        """Open an object as a buffered, seekable stream."""
        return io.BufferedReader(self.open_reader(location), _BUFFER_BYTES)

    def open_output(self, location: Location, *, overwrite: bool) -> Sink:
        """Open a stream that appears as an object when it is closed."""
        if not overwrite:
            self.require_absent(location)
        self._metrics.add(files_opened=1)
        return _ObjectSink(self, location, self._metrics, overwrite=overwrite)

    def arrow_file(self, location: Location) -> Any:
        """A file for PyArrow, which buffers and coalesces by itself."""
        import pyarrow as pa

        return pa.PythonFile(self.open_reader(location), mode="r")

    def require_absent(self, location: Location) -> None:
        """Raise `AlreadyExistsError` if an object of this name exists."""
        try:
            self.size(location)
        except NotFoundError:
            return
        raise AlreadyExistsError("file already exists", location=redact(location.text))

    def _ask(self, location: Location, request: Callable[[], _Result]) -> _Result:
        """Send a request that may be repeated; obstore retries most errors, but not 409 ("try again")."""
        with self._errors(location):
            attempts = pauses()
            while True:
                try:
                    return request()
                except (BaseError, OSError) as error:
                    if answer_of(error, location.family) is not Answer.BUSY or not next(attempts, False):
                        raise

    def _errors(self, location: Location) -> _Errors:
        return _Errors(location, self._secrets if self._renewed is None else self._renewed.secrets)


class _ObjectSink(Sink):
    """Buffers bytes for one request; from 32 MiB on, uploads in parts."""

    def __init__(self, files: ObjectFiles, location: Location, metrics: Metrics, *, overwrite: bool) -> None:
        super().__init__(location.text, metrics)
        self._files = files
        self._target = location
        self._overwrite = overwrite
        self._gathered = bytearray()
        self._writer: Any = None

    def _send(self, data: memoryview) -> None:
        if self._writer is None and len(self._gathered) + len(data) <= _ATOMIC_BYTES:
            self._gathered += data
            return
        with self._files._errors(self._target):  # noqa: SLF001  of a class of this module
            if self._writer is None:
                self._writer = obstore.open_writer(self._files.store, self._target.path, buffer_size=_PART_BYTES)
                self._writer.write(memoryview(self._gathered))
                self._gathered = bytearray()
            self._writer.write(data)

    def _publish(self) -> None:
        if self._writer is None:
            self._files.write(self._target, memoryview(self._gathered), overwrite=self._overwrite)
            return
        try:
            if not self._overwrite:
                self._files.require_absent(self._target)
            self._complete()
        except BaseException:
            self._discard()
            raise
        self._metrics.add(requests=2 + -(-self.tell() // _PART_BYTES), bytes_written=self.tell())

    def _complete(self) -> None:
        """Complete the upload. A request whose answer was lost is repeated, and then no longer finds the upload."""
        try:
            with self._files._errors(self._target):  # noqa: SLF001  of a class of this module
                self._writer.close()
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
        writer, self._writer = self._writer, None
        if writer is not None:
            # obstore's writer drops the parts when its `with` block ends with an error. If the store cannot be
            # reached now, its own rule for unfinished uploads removes them.
            with suppress(BaseError, OSError, ValueError):
                writer.__exit__(InterruptedError, InterruptedError(), None)


class _Errors:
    """Raises errors of obstore as errors of skerry, with the location and without secrets."""

    __slots__ = ("_location", "_secrets")

    def __init__(self, location: Location, secrets: Sequence[str]) -> None:
        self._location = location
        self._secrets = secrets

    def __enter__(self) -> None:
        global _network_process  # noqa: PLW0603  one per process, as the runtime is
        if self._location.family is Family.MEMORY:
            return
        process = os.getpid()
        if _network_process is None:
            _network_process = process
        elif _network_process != process:
            raise UnsupportedError(
                "this process was forked from one that had already used an object store, which does not work: start "
                "processes with 'spawn' or 'forkserver'",
                location=redact(self._location.text),
            )

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, (BaseError, OSError, ValueError)):
            # The original's text may contain a signed URL, so it does not become the cause.
            raise _translate(error, self._location, self._secrets) from None


def _translate(error: BaseException, location: Location, secrets: Sequence[str]) -> SkerryError:
    text = str(error).partition(_DEBUG)[0]
    reason = _describe(text, secrets)
    where = redact(location.text)
    status = status_of(error)  # errors of listings have no class of their own
    if _INSTANCE_CREDENTIALS.search(text):
        return AccessDeniedError(_NO_CREDENTIALS[location.family], location=where)
    answer = answer_of(error, location.family)
    if isinstance(error, FileNotFoundError) or status == "404":
        missing = "bucket or container" if "NoSuchBucket" in text or "ContainerNotFound" in text else "file"
        return NotFoundError(f"{missing} does not exist", location=where)
    if answer is Answer.EXISTS:
        return AlreadyExistsError("file already exists", location=where)
    if isinstance(error, (PermissionDeniedError, UnauthenticatedError)) or status in ("401", "403"):
        return AccessDeniedError(f"the store denies access: {reason}", location=where)
    if isinstance(error, NotSupportedError) or (isinstance(error, ValueError) and "parse path" in text):
        return UnsupportedError(f"the store cannot do this: {reason}", location=where)
    return StorageError(f"the store failed: {reason}", location=where)


_NO_CREDENTIALS: Final = {
    Family.S3: "no credentials: give s3.access-key-id and s3.secret-access-key, set AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY, or give s3.anonymous=true for a public bucket",
    Family.GCS: "no credentials: give gcs.oauth2.token, or set GOOGLE_APPLICATION_CREDENTIALS",
    Family.AZURE: "no credentials: give adls.account-key, adls.sas-token or adls.connection-string, or set "
    "AZURE_STORAGE_ACCOUNT_KEY; adls.anon=true for a public container",
}


def _describe(text: str, secrets: Sequence[str]) -> str:
    """One line that describes an error, without queries and secrets."""
    xml = _XML_ERROR.search(text)
    reason = f"{text[: text.find('<')].strip(' :-')}: {xml[1]}, {xml[2]}" if xml else text
    reason = _QUERY.sub("?***", " ".join(reason.split()))
    for secret in secrets:
        reason = reason.replace(secret, "***")
    return reason[:_MAX_REASON]
