"""Counters of a storage's requests and bytes, so that the cost of a plan can be shown and tested."""

from __future__ import annotations

import threading
from dataclasses import dataclass

__all__ = ["Counts", "Metrics"]


@dataclass(frozen=True, slots=True)
class Counts:
    """Counters at one moment; subtract earlier ones to get what happened in between.

    Args:
        requests: Requests to a store: one per ranged read, write, look-up, page of a listing or batch of deletions.
        bytes_read: Bytes received.
        bytes_written: Bytes sent.
        files_opened: Files opened as streams, for reading or for writing.
    """

    requests: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    files_opened: int = 0

    def __sub__(self, earlier: Counts) -> Counts:
        return Counts(
            self.requests - earlier.requests,
            self.bytes_read - earlier.bytes_read,
            self.bytes_written - earlier.bytes_written,
            self.files_opened - earlier.files_opened,
        )


class Metrics:
    """Counters that several threads may update."""

    __slots__ = ("_bytes_read", "_bytes_written", "_files_opened", "_lock", "_requests")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests = self._bytes_read = self._bytes_written = self._files_opened = 0

    def add(self, *, requests: int = 0, bytes_read: int = 0, bytes_written: int = 0, files_opened: int = 0) -> None:
        """Add to the counters."""
        with self._lock:
            self._requests += requests
            self._bytes_read += bytes_read
            self._bytes_written += bytes_written
            self._files_opened += files_opened

    def counts(self) -> Counts:
        """All counters at one moment."""
        with self._lock:
            return Counts(self._requests, self._bytes_read, self._bytes_written, self._files_opened)

    @property
    def requests(self) -> int:
        """Requests so far."""
        return self._requests

    @property
    def bytes_read(self) -> int:
        """Bytes received so far."""
        return self._bytes_read

    @property
    def bytes_written(self) -> int:
        """Bytes sent so far."""
        return self._bytes_written

    @property
    def files_opened(self) -> int:
        """Streams opened so far."""
        return self._files_opened

    def __repr__(self) -> str:
        return f"Metrics({self.counts()!r})"
