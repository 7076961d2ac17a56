"""Local files, through the operating system.

A ranged read of 4 KiB costs 6 µs this way and 150 µs through obstore, which also refuses names with `#` in them.

A file appears under its name complete or not at all: it is written beside it under a hidden name and then linked
(create) or renamed (overwrite). That holds between processes, and if a writer is killed. Nothing is synced to disk:
after a power failure the writes of the last seconds may be lost, as with any other program.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from skerry.errors import AccessDeniedError, AlreadyExistsError, NotFoundError, SkerryError, StorageError
from skerry.storage.location import FileStatus, Folder, Location
from skerry.storage.metrics import Metrics
from skerry.storage.streams import Sink, short_read

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Buffer

__all__ = ["LocalFiles", "LocalSink"]

_BUFFER_BYTES: Final = 128 * 1024
_NO_FOLDER: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})
_NO_HARD_LINKS: Final = frozenset({errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV})


class LocalFiles:
    """Reads and writes local files; has no state except the counters."""

    merge_gap_bytes: Final = 32 * 1024

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def size(self, location: Location) -> int:
        """Size of a file in bytes."""
        with _Errors(location):
            status = os.stat(location.path)
        self._metrics.add(requests=1)
        if stat.S_ISDIR(status.st_mode):
            raise NotFoundError("this is a folder, not a file", location=location.text)
        return status.st_size

    def read(self, location: Location) -> bytes:
        """The whole file."""
        with _OpenFile(location) as descriptor:
            data = _read_at(descriptor, 0, os.fstat(descriptor).st_size)
        self._metrics.add(requests=1, bytes_read=len(data))
        return data

    def read_ranges(self, location: Location, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return one `bytes` per (offset, length), each exactly as long as requested."""
        found = []
        with _OpenFile(location) as descriptor:
            size = os.fstat(descriptor).st_size
            for offset, length in ranges:
                # Checked before reading, because a read allocates the requested length.
                data = _read_at(descriptor, offset, length) if offset + length <= size else b""
                if len(data) != length:
                    raise short_read(location, offset, length, size)
                found.append(data)
        self._metrics.add(requests=len(ranges), bytes_read=sum(map(len, found)))
        return found

    def read_tail(self, location: Location, length: int) -> tuple[bytes, int]:
        """Return the last bytes of a file, and its size."""
        with _OpenFile(location) as descriptor:
            size = os.fstat(descriptor).st_size
            data = _read_at(descriptor, max(0, size - length), min(length, size))
        self._metrics.add(requests=1, bytes_read=len(data))
        return data, size

    def write(self, location: Location, data: memoryview, *, overwrite: bool) -> None:
        """Publish `data` as one file."""
        with LocalSink(location, self._metrics, overwrite=overwrite) as sink:
            sink.write(data)

    def list_files(self, location: Location) -> Iterator[FileStatus]:
        """List all files below a folder, folder by folder, sorted within each; links to folders are not followed."""
        folders = [location.text.rstrip("/")]
        while folders:
            found = self._list(location, folders.pop())
            yield from found.files
            folders.extend(reversed(found.folders))

    def list_folder(self, location: Location) -> Folder:
        """List the files and folders directly in a folder, sorted; links to folders are left out."""
        return self._list(location, location.text.rstrip("/"))

    def _list(self, top: Location, text: str) -> Folder:
        """List the requested folder, or one below it."""
        path = top.path.rstrip("/") + text[len(top.text.rstrip("/")) :]
        with _Errors(top):
            try:
                with os.scandir(path or "/") as entries:
                    found = sorted(entries, key=lambda entry: entry.name)
            except OSError as error:
                if error.errno not in _NO_FOLDER:
                    raise
                found = []  # a prefix without files, or a folder that has been removed
        self._metrics.add(requests=1)
        files, folders = [], []
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                folders.append(f"{text}/{entry.name}")
            elif (status := _status_if_file(entry)) is not None:
                modified = datetime.fromtimestamp(status.st_mtime, UTC)
                files.append(FileStatus(f"{text}/{entry.name}", status.st_size, modified))
        return Folder(tuple(files), tuple(folders))

    def delete(self, locations: Iterable[Location]) -> None:
        """Delete files; missing ones count as deleted."""
        for location in locations:
            with _Errors(location), suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(location.path)
            self._metrics.add(requests=1)

    def open_input(self, location: Location) -> BinaryIO:
        """Open a file as a buffered, seekable stream."""
        with _Errors(location):
            raw = _CountingFile(location.path, self._metrics)
        self._metrics.add(files_opened=1)
        return io.BufferedReader(raw, _BUFFER_BYTES)

    def open_output(self, location: Location, *, overwrite: bool) -> Sink:
        """Open a stream that appears as a file when it is closed."""
        self._metrics.add(files_opened=1)
        return LocalSink(location, self._metrics, overwrite=overwrite)

    def arrow_file(self, location: Location) -> Any:
        """PyArrow's own file, which reads without holding the interpreter lock; its bytes are not counted."""
        import pyarrow as pa

        with _Errors(location):
            if os.path.isdir(location.path):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            file = pa.OSFile(location.path)
        self._metrics.add(requests=1, files_opened=1)
        return file


class LocalSink(Sink):
    """A file that is written under a hidden name and renamed when it is closed."""

    def __init__(self, location: Location, metrics: Metrics, *, overwrite: bool) -> None:
        super().__init__(location.text, metrics)
        self._target = location
        self._overwrite = overwrite
        folder = os.path.dirname(location.path)
        self._hidden = os.path.join(folder, f".{uuid.uuid4().hex}.part")
        with _Errors(location):
            if not overwrite and os.path.lexists(location.path):
                raise FileExistsError
            self._file = self._open_hidden(folder)

    def _open_hidden(self, folder: str) -> BinaryIO:
        def opener(path: str, flags: int) -> int:
            return os.open(path, flags | os.O_CLOEXEC, 0o666)

        try:
            return open(self._hidden, "xb", buffering=_BUFFER_BYTES, opener=opener)
        except FileNotFoundError:
            os.makedirs(folder, exist_ok=True)
            return open(self._hidden, "xb", buffering=_BUFFER_BYTES, opener=opener)

    def _send(self, data: memoryview) -> None:
        with _Errors(self._target):
            self._file.write(data)

    def _publish(self) -> None:
        try:
            with _Errors(self._target):
                self._file.close()
                if self._overwrite:
                    os.replace(self._hidden, self._target.path)
                else:
                    _link(self._hidden, self._target.path)
        except SkerryError:
            self._discard()
            raise
        self._metrics.add(requests=1, bytes_written=self.tell())

    def _discard(self) -> None:
        if hasattr(self, "_file"):
            with suppress(OSError):  # the file is discarded anyway
                self._file.close()
        with suppress(OSError):
            os.unlink(self._hidden)


class _CountingFile(io.FileIO):
    """An open file that counts what is read from it."""

    def __init__(self, path: str, metrics: Metrics) -> None:
        super().__init__(path, "rb")
        self._metrics = metrics

    def readinto(self, buffer: Buffer) -> int | None:
        count = super().readinto(buffer)
        self._metrics.add(requests=1, bytes_read=count or 0)
        return count

    def readall(self) -> bytes:
        data = super().readall() or b""
        self._metrics.add(requests=1, bytes_read=len(data))
        return data

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0:
            return self.readall()
        data = super().read(size) or b""
        self._metrics.add(requests=1, bytes_read=len(data))
        return data


def _link(hidden: str, path: str) -> None:
    """Give a finished file its name, which must not be taken."""
    try:
        os.link(hidden, path)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        # Without hard links: create the file, then fill it. A reader may see an empty file in between.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666))
        os.replace(hidden, path)
    else:
        os.unlink(hidden)


def _read_at(descriptor: int, offset: int, length: int) -> bytes:
    """Read until `length` bytes or the end of the file; one read returns at most 2 GiB."""
    data = os.pread(descriptor, length, offset)
    if len(data) == length or not data:
        return data
    pieces = [data]
    got = len(data)
    while got < length and (data := os.pread(descriptor, length - got, offset + got)):
        pieces.append(data)
        got += len(data)
    return b"".join(pieces)


def _status_if_file(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat() if entry.is_file() else None
    except OSError:
        return None  # removed since the folder was read, or a broken link


class _OpenFile:
    """An open descriptor, with errors translated."""

    __slots__ = ("_descriptor", "_location")

    def __init__(self, location: Location) -> None:
        self._location = location

    def __enter__(self) -> int:
        with _Errors(self._location):
            self._descriptor = os.open(self._location.path, os.O_RDONLY | os.O_CLOEXEC)
        return self._descriptor

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        os.close(self._descriptor)
        if isinstance(error, OSError):
            raise _translate(error, self._location) from error


class _Errors:
    """Raises errors of the operating system as errors of skerry, with the location."""

    __slots__ = ("_location",)

    def __init__(self, location: Location) -> None:
        self._location = location

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, (OSError, ValueError)):
            raise _translate(error, self._location) from error


def _translate(error: OSError | ValueError, location: Location) -> SkerryError:
    if isinstance(error, FileNotFoundError):
        return NotFoundError("file does not exist", location=location.text)
    if isinstance(error, NotADirectoryError):
        return NotFoundError("file does not exist: a part of its path is not a folder", location=location.text)
    if isinstance(error, FileExistsError):
        return AlreadyExistsError("file already exists", location=location.text)
    if isinstance(error, PermissionError):
        return AccessDeniedError("permission denied", location=location.text)
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return StorageError(f"the operating system reports: {reason}", location=location.text)
