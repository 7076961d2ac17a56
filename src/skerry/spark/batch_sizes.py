"""How many rows Spark gets at a time: batches that suit its converters, and no more bytes than a task can spare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

__all__ = ["cut_for_spark"]

_MOST_ROWS = 1 << 15  # between 10,000 and 65,000 Spark takes rows fastest
_MOST_BYTES = 16 << 20


def cut_for_spark(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of a good size; none is copied."""
    for batch in batches:
        parts = max(-(-batch.num_rows // _MOST_ROWS), -(-batch.nbytes // _MOST_BYTES), 1)
        step = max(-(-batch.num_rows // parts), 1)
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, step)
