"""Where keys are: an index of any size on disk, which is used within one process and rebuilt by the next."""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Key", "KeyLocations"]

_CACHE_KIB: Final = 32 << 10
_SETUP: Final = f"""
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    PRAGMA cache_size = -{_CACHE_KIB};
    CREATE TABLE locations (key PRIMARY KEY NOT NULL, location INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE asked (number INTEGER PRIMARY KEY, key NOT NULL);
"""


Key: TypeAlias = bytes | int


class KeyLocations:
    """A number for each key (all of one type), in a temporary SQLite database with 32 MiB of cache.

    The file has no name, so nothing is left of it if the process is killed.
    """

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._database.executescript(_SETUP)
        weakref.finalize(self, self._database.close)

    def find(self, keys: Sequence[Key]) -> npt.NDArray[np.int64]:
        """int64[n] The number of each key, -1 if it has none."""
        found = np.full(len(keys), -1, np.int64)
        run = self._database.execute
        run("BEGIN")
        self._database.executemany("INSERT INTO asked VALUES (?, ?)", enumerate(keys))
        rows = run("SELECT number, location FROM asked CROSS JOIN locations USING (key)").fetchall()
        run("DELETE FROM asked")
        run("COMMIT")
        if rows:
            numbers, locations = np.array(rows, np.int64).T
            found[numbers] = locations
        return found

    def put(self, locations: Iterable[tuple[Key, int]]) -> None:
        """Set the numbers of keys; many are put fastest in the order of the keys."""
        self._database.execute("BEGIN")
        self._database.executemany("INSERT OR REPLACE INTO locations VALUES (?, ?)", locations)
        self._database.execute("COMMIT")
