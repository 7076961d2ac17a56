"""What a process remembers of files that never change: the entries used last, for all threads."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Remembered"]

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Remembered(Generic[Key, Value]):
    """Values by key, such as a location, up to a number of them.

    Args:
        limit: How many are kept, those used last.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._values: OrderedDict[Key, Value] = OrderedDict()

    def keep(self, key: Key, value: Value) -> Value:
        """Add a value; returns it."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._limit:
                self._values.popitem(last=False)
        return value

    def find(self, key: Key) -> Value | None:
        """The value of a key, if it is known."""
        with self._lock:
            found = self._values.get(key)
            if found is not None:
                self._values.move_to_end(key)
            return found

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._values.clear()
