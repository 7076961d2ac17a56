"""Streams over stored files: a seekable reader that fetches ranges, and a writer that publishes when closed."""

from __future__ import annotations

import io
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Self

from skerry.errors import FormatError
from skerry.storage.location import Location, redact
from skerry.storage.metrics import Metrics

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Buffer

__all__ = ["TAIL_BYTES", "RangeReader", "Sink", "short_read"]

TAIL_BYTES: Final = 64 * 1024
"""How many of its last bytes a reader fetches when it is opened. That one request shows whether the file exists and how
large it is, and contains all of a small file and the footer of most Parquet and Puffin files."""


class RangeReader(io.RawIOBase):
    """A seekable stream over an object that is read in ranges.

    Args:
        size: Size of the object in bytes.
        tail: Its last bytes, already read.
        fetch: Called as `fetch(offset, length)` for the rest.
    """

    def __init__(self, size: int, tail: bytes, fetch: Callable[[int, int], bytes]) -> None:
        super().__init__()
        self._size = size
        self._tail = tail
        self._tail_offset = size - len(tail)
        self._fetch = fetch
        self._position = 0

    def readable(self) -> bool:
        """Always true."""
        return True

    def seekable(self) -> bool:
        """Always true."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to an offset from the start, the position or the end; reads beyond the end return nothing."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"cannot seek to byte {base + offset}")
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        """The position in bytes."""
        return self._position

    def size(self) -> int:
        """Size of the object in bytes."""
        return self._size

    def read(self, size: int | None = -1) -> bytes:
        """Read up to `size` bytes, or to the end if it is negative or None; returns fewer only at the end."""
        if self.closed:
            raise ValueError("read of a closed file")
        start = self._position
        left = max(0, self._size - start)
        length = left if size is None or size < 0 else min(size, left)
        if length == 0:
            return b""
        cut = start - self._tail_offset
        if cut >= 0:
            data = self._tail[cut : cut + length]
        elif start + length > self._tail_offset:
            data = self._fetch(start, -cut) + self._tail[: length + cut]
        else:
            data = self._fetch(start, length)
        self._position += length
        return data

    def readall(self) -> bytes:
        """Everything from the position to the end."""
        return self.read()

    def readinto(self, buffer: Buffer) -> int:
        """Fill `buffer` as far as possible."""
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)


class Sink(io.RawIOBase):
    """A stream whose bytes become visible as a file, all at once, when it is closed.

    If a `with` block ends by an exception, `abort` is called, a write fails, or the unclosed stream is
    garbage-collected, no file appears.
    """

    def __init__(self, location: str, metrics: Metrics) -> None:
        super().__init__()
        self.location = location
        self._metrics = metrics
        self._position = 0
        self._failure: BaseException | None = None

    @abstractmethod
    def _send(self, data: memoryview) -> None:
        """Take bytes."""

    @abstractmethod
    def _publish(self) -> None:
        """Make the file visible; discard everything if that fails."""

    @abstractmethod
    def _discard(self) -> None:
        """Discard everything; must not raise."""

    def writable(self) -> bool:
        """Always true."""
        return True

    def tell(self) -> int:
        """Bytes written so far."""
        return self._position

    def write(self, data: Buffer) -> int:
        """Write all of `data`.

        After a failure it raises the same error again: PyArrow's writers finish their file even after an error, and the
        first error, possibly an interrupt, would be lost.
        """
        if self._failure is not None:
            raise self._failure
        if self.closed:
            raise ValueError("write to a closed file")
        view = memoryview(data).cast("B")
        try:
            self._send(view)
        except BaseException as error:
            self._failure = error
            self.abort()
            raise
        self._position += len(view)
        return len(view)

    def close(self) -> None:
        """Publish the file. Does nothing if it has been published or aborted.

        Raises:
            AlreadyExistsError: Another writer has created the file meanwhile, and overwriting was not requested.
        """
        if not self.closed:
            try:
                self._publish()
            finally:
                super().close()

    def abort(self) -> None:
        """Discard what was written; no file appears."""
        if not self.closed:
            self._discard()
            super().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        self.abort()


def short_read(location: Location, offset: int, length: int, size: int | None) -> FormatError:
    """The error for a range that reaches beyond the end of its file."""
    found = "fewer were found" if size is None else f"the file ends at byte {size}"
    message = f"file is too short: expected {length} bytes, {found}"
    return FormatError(message, location=redact(location.text), offset=offset)
