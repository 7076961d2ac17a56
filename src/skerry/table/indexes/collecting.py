"""Keys of rows that are being written, computed beside the writer, for the indexes that the commit will publish.

An index is built of a finished file. Where the process that writes a file also commits it, its hash keys need not be
made from the file: they wait here, by its location, within a limit.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.amudai.indexes.hash_buckets import sort_keys
from skerry.amudai.indexes.hash_keys import ColumnKeys, keys_of_column
from skerry.errors import SkerryError

__all__ = ["KeyCollector", "collected_keys"]

_SAMPLE: Final = 4096
_CAPACITY: Final = 128 << 20
"""Bytes of keys that wait, at most: 16 for each row and column."""
_collected: OrderedDict[str, Mapping[str, ColumnKeys]] = OrderedDict()
_lock: Final = threading.Lock()


def collected_keys(location: str) -> Mapping[str, ColumnKeys]:
    """Take the keys of a file's columns, by name; none if they do not wait here."""
    with _lock:
        return _collected.pop(location, {})


class KeyCollector:
    """Computes the keys of a file's columns while it is written.

    Args:
        columns: The names of the columns.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)
        self._pool = ThreadPoolExecutor(1, "skerry-keys")
        self._parts: list[Future[dict[str, ColumnKeys]]] = []
        self._row_count = 0

    def add(self, rows: pa.Table) -> None:
        """Take in rows, in the order of the file."""
        present = [name for name in self._columns if name in rows.schema.names]
        self._parts.append(self._pool.submit(_keys_of, rows.select(present), self._row_count))
        self._row_count += rows.num_rows

    def finish(self, location: str) -> None:
        """Let the keys wait for the index of a file; they are left out if they could not be computed."""
        try:
            parts = [part.result() for part in self._parts]
        except (SkerryError, pa.ArrowException):
            return  # the index is built from the file, and says what is wrong
        finally:
            self.abandon()
        names = parts[0].keys() if parts else ()
        with _lock:
            _collected[location] = {name: _joined([part[name] for part in parts]) for name in names}
            while len(_collected) > 1 and sum(map(_size_of, _collected.values())) > _CAPACITY:
                _collected.popitem(last=False)

    def abandon(self) -> None:
        """Compute no more."""
        self._parts = []
        self._pool.shutdown(cancel_futures=True)


def _keys_of(rows: pa.Table, first_row: int) -> dict[str, ColumnKeys]:
    found = {}
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        parts, start = [], first_row
        for chunk in column.chunks:
            parts.append(keys_of_column(name, chunk, start))
            start += len(chunk)
        joined = _joined(parts)
        found[name] = ColumnKeys(*sort_keys(joined.keys, joined.rows)) if _repeat(joined.keys) else joined
    return found


def _repeat(keys: npt.NDArray[np.uint64]) -> bool:
    """Whether keys seem to repeat: then the index is built faster of keys in order."""
    first = keys[:_SAMPLE]
    return len(np.unique(first)) < len(first)


def _joined(parts: Sequence[ColumnKeys]) -> ColumnKeys:
    if len(parts) == 1:
        return parts[0]
    return ColumnKeys(
        np.concatenate([np.empty(0, np.uint64), *(part.keys for part in parts)]),
        np.concatenate([np.empty(0, np.int64), *(part.rows for part in parts)]),
    )


def _size_of(keys: Mapping[str, ColumnKeys]) -> int:
    return sum(each.keys.nbytes + each.rows.nbytes for each in keys.values())
