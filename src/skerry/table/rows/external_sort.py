"""Sort any number of rows externally.

Rows are distributed to ranges of a sample of their keys, each small enough to be sorted in memory; until it is sorted,
a range is kept in a spill file. So each file that is written from sorted rows has its own part of the order.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.table.rows.spill_file import SpillFile

__all__ = ["RANGE_BYTES", "Order", "sorted_batches"]

RANGE_BYTES: Final = 128 << 20
_SAMPLE_ROWS: Final = 200_000
_BATCH_BYTES: Final = 1 << 20
_LEAST_BATCH_ROWS: Final = 256

Order: TypeAlias = Callable[[pa.Table], npt.NDArray[np.int64]]
"""Returns int64[n], row numbers in sort order, for rows that have at least the key columns; the sort is stable."""


def sorted_batches(
    keys: Iterable[pa.RecordBatch],
    rows: Iterable[pa.RecordBatch],
    order_of: Callable[[pa.Table], Order],
    *,
    key_schema: pa.Schema,
    most_rows: int,
    file_bytes: int,
    range_bytes: int = RANGE_BYTES,
    is_encrypted: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield rows in sort order.

    Args:
        keys: The key columns of all rows, which are read once for a sample.
        rows: The rows, whose columns begin with or contain those of the keys.
        order_of: The order, given a sample of the keys.
        key_schema: The key columns.
        most_rows: The number of rows, or more.
        file_bytes: The target size of files: batches are a part of it, so that files can end between them.
        range_bytes: Bytes of rows to sort in memory at a time.
        is_encrypted: Whether what waits on disk is encrypted.
    """
    sample = _sample(keys, key_schema, most_rows)
    order = order_of(sample)
    batches = iter(rows)
    first = next(batches, None)
    if first is None:
        return
    width = max(first.nbytes / max(first.num_rows, 1), 1)
    ranges = -(-int(most_rows * width) // range_bytes)
    length = max(_LEAST_BATCH_ROWS, int(min(_BATCH_BYTES, file_bytes // 8) / width))
    if ranges <= 1:
        yield from _ordered(pa.Table.from_batches([first, *batches]), order, length)
        return
    ordered = sample.take(pa.array(order(sample)))
    bounds = ordered.take(pa.array(np.linspace(0, len(ordered), ranges + 1)[1:-1].astype(np.int64)))
    with SpillFile(first.schema, is_encrypted=is_encrypted) as spilled:
        for batch in itertools.chain((first,), batches):
            found = _ranges(pa.Table.from_batches([batch]).select(key_schema.names), bounds, order)
            _distribute(spilled, batch, found)
        for number in range(ranges):
            yield from _ordered(pa.Table.from_batches(spilled.take(number), first.schema), order, length)


def _sample(keys: Iterable[pa.RecordBatch], schema: pa.Schema, most_rows: int) -> pa.Table:
    """Keys of some rows, the same in every run."""
    share = min(1.0, _SAMPLE_ROWS / max(most_rows, 1))
    random = np.random.default_rng(most_rows)
    kept = []
    for batch in keys:
        chosen = batch if share == 1.0 else batch.filter(pa.array(random.random(batch.num_rows) < share))
        kept.append(chosen)
    return pa.Table.from_batches(kept, schema).combine_chunks()


def _ordered(rows: pa.Table, order: Order, length: int) -> Iterator[pa.RecordBatch]:
    yield from rows.take(pa.array(order(rows))).combine_chunks().to_batches(max_chunksize=length)


def _ranges(keys: pa.Table, bounds: pa.Table, order: Order) -> npt.NDArray[np.int64]:
    """int64[n] The range of each row: the number of bounds that are not above it."""
    found = order(pa.concat_tables([bounds, keys]))
    is_bound = found < len(bounds)
    numbers = np.empty(len(found), np.int64)
    numbers[found] = np.cumsum(is_bound)
    return numbers[len(bounds) :]


def _distribute(spilled: SpillFile, batch: pa.RecordBatch, ranges: npt.NDArray[np.int64]) -> None:
    """Spill the rows of a batch by their ranges."""
    rows = batch.take(pa.array(np.argsort(ranges, kind="stable")))
    start = 0
    for number, end in enumerate(np.cumsum(np.bincount(ranges)).tolist()):
        if end > start:
            spilled.add(number, rows.slice(start, end - start))
        start = end
