"""The stream task that both table formats share: it reads rows that are all known to be new."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from skerry.table.connector.connector import PieceReader
from skerry.table.rows.changes import tell_inserts

__all__ = ["RowsTask"]


@dataclass(frozen=True)
class RowsTask:
    """Rows that are all new; picklable.

    Args:
        reader: Reads them.
        pieces: The pieces to read.
        schema: The delivered columns: the reader's, and those that mark changes if requested.
        ordinal: The number of the commit within the batch.
        snapshot_id: The commit.
    """

    reader: PieceReader = field(repr=False)
    pieces: tuple[Any, ...]
    schema: pa.Schema
    ordinal: int = 0
    snapshot_id: int = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows."""
        for batch in self.reader.batches(self.pieces):
            yield tell_inserts(batch, self.schema, self.ordinal, self.snapshot_id)
