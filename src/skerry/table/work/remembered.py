"""What a process remembers of files that never change: the entries used last, for all threads."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from skerry.storage import Storage, local_path

__all__ = ["Remembered", "version_of"]

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Remembered(Generic[Key, Value]):
    """Values by key, such as a location, up to a number of them, and of bytes if their size is known.

    Args:
        limit: How many are kept, those used last.
        limit_bytes: How many bytes they take at most. A larger value is not kept.
        size_of: The bytes that a value takes.
    """

    def __init__(self, limit: int, *, limit_bytes: int = 0, size_of: Callable[[Value], int] | None = None) -> None:
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._size_of = size_of
        self._used_bytes = 0
        self._lock = threading.Lock()
        self._values: OrderedDict[Key, tuple[Value, int]] = OrderedDict()

    def keep(self, key: Key, value: Value) -> Value:
        """Add a value; returns it."""
        size = 0 if self._size_of is None else self._size_of(value)
        with self._lock:
            self._drop(key)
            if size <= self._limit_bytes or self._size_of is None:
                self._values[key] = value, size
                self._used_bytes += size
            while len(self._values) > self._limit or self._used_bytes > self._limit_bytes:
                self._used_bytes -= self._values.popitem(last=False)[1][1]
        return value

    def find(self, key: Key) -> Value | None:
        """The value of a key, if it is known."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def forget(self, key: Key) -> None:
        """Drop a value, if it is known."""
        with self._lock:
            self._drop(key)

    def clear(self) -> None:
        """Drop all."""
        with self._lock:
            self._values.clear()
            self._used_bytes = 0

    def _drop(self, key: Key) -> None:
        self._used_bytes -= self._values.pop(key, (None, 0))[1]


def version_of(storage: Storage, location: str) -> object | None:
    """The identity of a file under a reusable name; None if it does not exist.

    Names on object stores are not reused. A local file may belong to another catalog, created after the first was
    deleted.
    """
    path = local_path(location)
    if path is None:
        return storage.identity(location)
    try:
        status = os.stat(path)  # noqa: PTH116  asked for every manifest of a plan
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
