"""Open data files that this process keeps, because rows of them are looked up again and again.

Data files never change: what a footer and a page index say stays true for as long as the file is there.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

import pyarrow as pa

from skerry.storage import Storage
from skerry.table.files.evolution import FileNames, NameMapping
from skerry.table.files.parquet_file import ParquetFile, open_parquet

__all__ = ["kept_parquet"]

_CAPACITY: Final = 64 << 20
"""How many bytes of memory are kept, about."""
_Key = tuple[str, str, int, bytes]


class _KeptFiles:
    """The most recently used files, within a capacity. Files grow as their page indexes are read."""

    def __init__(self) -> None:
        self._files: OrderedDict[_Key, tuple[ParquetFile, int]] = OrderedDict()
        self._load = 0
        self._lock = threading.Lock()

    def find(self, key: _Key) -> ParquetFile | None:
        with self._lock:
            found = self._files.get(key)
            if found is not None:
                self._put(key, found[0])
            return None if found is None else found[0]

    def keep(self, key: _Key, file: ParquetFile) -> None:
        with self._lock:
            self._put(key, file)

    def _put(self, key: _Key, file: ParquetFile) -> None:
        _, before = self._files.pop(key, (None, 0))
        size = file.kept_bytes
        self._files[key] = file, size
        self._load += size - before
        while self._load > _CAPACITY and len(self._files) > 1:
            _, (_, leaving) = self._files.popitem(last=False)
            self._load -= leaving


_kept: Final = _KeptFiles()


def kept_parquet(
    storage: Storage, location: str, wanted: pa.Schema, names: NameMapping | None, size: int
) -> ParquetFile:
    """Open a Parquet file that is not encrypted, or find it among those that are kept.

    Args:
        storage: Access to the file.
        location: The file.
        wanted: The columns to read, with field ids.
        names: Field ids by name, for a file without ids; None refuses such a file.
        size: Its size in bytes, as the table's metadata says.

    Raises:
        SkerryError: As `open_parquet`.
    """
    if isinstance(names, FileNames):
        return open_parquet(storage, location, wanted, names, size=size)
    key = storage.identity(location), location, size, wanted.serialize().to_pybytes()
    found = _kept.find(key)
    if found is None:
        found = open_parquet(storage, location, wanted, names, size=size)
        if found.names is None:  # with ids of its own, whatever the table's names are
            _kept.keep(key, found)
    return found
