"""What a process remembers of files that never change: the newest entries, for all threads."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

__all__ = ["Remembered"]

Value = TypeVar("Value")


class Remembered(Generic[Value]):
    """Values by location, up to a number of them.

    Args:
        limit: How many are kept, the last added ones.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._values: OrderedDict[str, Value] = OrderedDict()

    def keep(self, location: str, value: Value) -> Value:
        """Add a value; returns it."""
        with self._lock:
            self._values[location] = value
            self._values.move_to_end(location)
            while len(self._values) > self._limit:
                self._values.popitem(last=False)
        return value

    def find(self, location: str) -> Value | None:
        """The value of a location, if it is known."""
        with self._lock:
            return self._values.get(location)
