"""Sorted runs that this process has just written, kept as rows until compaction merges them.

Most of what a writer's compaction reads are the files of its last commits: they need not be read and decoded again.
Names of data files are never used twice, so a location stands for its rows. What is not here is read.

Spec: docs/formats/paimon.md § 10.5.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from skerry.paimon.metadata.options import CoreOptions
from skerry.paimon.metadata.schema import KEY_PREFIX
from skerry.table.files.stored_file import Part
from skerry.table.predicate import Column, FieldMetrics
from skerry.table.work.batch_cache import BatchCache

__all__ = ["RecentRows", "RecentRun", "recent_runs"]

_MEMORY_BYTES: Final = 128 << 20
_SHARE: Final = 4
"""Of the memory in which a writer buffers rows: one run that takes more is not kept."""
_ARRAY_BYTES: Final = 1 << 30
"""Nor is one whose texts may not fit into one array."""


@functools.cache
def recent_runs() -> BatchCache:
    """The rows of this process's newest data files by location; see `BatchCache.from_environment`.

    Raises:
        SchemaError: The limit in the environment is not a number.
    """
    return BatchCache.from_environment("run", _MEMORY_BYTES, 0)


class RecentRows:
    """The rows of a sorted run that is being written.

    Args:
        options: The table's: writers that leave compaction to others keep nothing.
        merges_again: Whether compaction is to merge the run soon.
    """

    def __init__(self, options: CoreOptions, *, merges_again: bool = True) -> None:
        limit = min(options.write_buffer_bytes // _SHARE, recent_runs().memory_bytes, _ARRAY_BYTES)
        self._left_bytes = limit if merges_again and not options.write_only else 0
        self._rows: list[pa.Table] | None = []

    def add(self, rows: pa.Table) -> None:
        """Add rows in the columns of data files, in order."""
        self._left_bytes -= rows.nbytes
        if self._left_bytes < 0:
            self._rows = None
        if self._rows is not None:
            self._rows.append(rows.select([name for name in rows.column_names if not name.startswith(KEY_PREFIX)]))

    def keep(self, files: Iterable[tuple[str, int]], *, evicts: bool = True) -> None:
        """Keep the rows, if they are not too many.

        Args:
            files: The locations of the files among which they are divided, in order, with the rows of each.
            evicts: Whether older runs make room for them.
        """
        if not self._rows:
            return
        cache, rows = recent_runs(), pa.concat_tables(self._rows)
        if not evicts and rows.nbytes > cache.memory_bytes - cache.used_bytes:
            return
        start = 0
        for location, count in files:
            (batch,) = rows.slice(start, count).combine_chunks().to_batches()
            cache.keep(location, batch, on_disk=False)
            start += count


@dataclass(frozen=True, slots=True)
class RecentRun:
    """The kept rows of a file, as a `StoredFile`.

    Args:
        rows: The rows, with field ids.
    """

    rows: pa.RecordBatch

    @property
    def row_count(self) -> int:
        """Number of rows in the file."""
        count: int = self.rows.num_rows
        return count

    @property
    def parts(self) -> Sequence[Part]:
        """All rows together."""
        return (Part(0, 0, self.row_count, 0, self.rows.nbytes),)

    def metrics(self, column: Column) -> FieldMetrics | None:
        """None: there are none."""

    def batches(self, part: Part, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Views of the rows."""
        for start in range(0, part.row_count, batch_rows):
            yield self.rows.slice(start, batch_rows)
