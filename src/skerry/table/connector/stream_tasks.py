"""The task of a stream that both table formats have: rows of which it is known that all are new."""

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
        pieces: Where they are.
        schema: What is delivered: the reader's columns, and those that tell changes if they are wanted.
        ordinal: Which commit of the batch it was.
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
