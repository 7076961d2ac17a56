"""Single rows of open data files, with what was decoded for them kept in a bounded cache."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.table.files.stored_file import Part, StoredFile
from skerry.table.predicate import Column, FieldMetrics
from skerry.table.work.read_ahead import SharedCache

__all__ = ["RowAccess"]

_Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RowAccess:
    """Reads rows of a file by their positions: whole parts of it, which stay in the cache.

    Args:
        stored: The file.
        identity: What the cache knows the file and its requested columns by.
        cache: Keeps what is decoded.
    """

    stored: StoredFile
    identity: tuple[object, ...]
    cache: SharedCache = field(repr=False)

    @cached_property
    def edges(self) -> _Rows:
        """int64[blocks + 1] The first row of each block that is decoded together, with the number of rows."""
        return np.array([*(part.first_row for part in self.stored.parts), self.stored.row_count], np.int64)

    def bounds(self, column: Column) -> FieldMetrics | None:
        """The metrics of a column in each block; None if there are none."""
        return self.stored.metrics(column)

    def slice(self, start: int, stop: int) -> pa.RecordBatch:
        """Consecutive rows with the requested columns, as `StoredFile.batches` gives them."""
        return self.take(np.arange(start, stop))

    def take(self, rows: _Rows) -> pa.RecordBatch:
        """Rows with the requested columns, as `StoredFile.batches` gives them.

        Args:
            rows: int64[n] Positions of at least one row, ascending.
        """
        blocks = np.searchsorted(self.edges, rows, "right") - 1
        taken = []
        for block in np.unique(blocks).tolist():
            within = rows[blocks == block] - self.edges[block]
            whole = self._part(self.stored.parts[block])
            is_whole = len(within) == whole.num_rows
            taken.append(whole if is_whole else whole.take(pa.array(within)))
        return taken[0] if len(taken) == 1 else pa.concat_batches(taken)

    def _part(self, part: Part) -> pa.RecordBatch:
        def decoded() -> pa.RecordBatch:
            return pa.concat_batches(list(self.stored.batches(part, max(part.row_count, 1))))

        return self.cache.get((*self.identity, part.index), decoded, lambda batch: int(batch.nbytes))
