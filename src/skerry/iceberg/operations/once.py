"""Committing each batch of a stream once, whoever sends it how often.

The number of a stream's last batch stands in a table property that changes in the same commit as the rows: neither a
restart nor the expiry of snapshots can make a batch come twice. The snapshot's summary says it as well.
"""

from __future__ import annotations

from dataclasses import replace

from pyiceberg.table.update import SetPropertiesUpdate

from skerry.errors import SchemaError
from skerry.iceberg.operations.change import MetadataChange, SnapshotChange
from skerry.iceberg.state import TableState
from skerry.table.commit import Operation
from skerry.table.stream_batch import StreamBatch

__all__ = ["Once", "StreamBatch", "last_batch"]

_PROPERTY = "skerry.stream."
_STREAM, _BATCH = "skerry.stream-id", "skerry.batch-id"


def last_batch(state: TableState, stream: str) -> int:
    """The number of the last batch of a stream that the table has; -1 if it has none.

    Raises:
        SchemaError: Somebody has set the property to something else.
    """
    text = state.properties.get(_PROPERTY + stream)
    if text is None:
        return -1
    if not text.isdecimal():
        raise SchemaError(f"table property {_PROPERTY}{stream} must be the number of a batch, found {text!r}")
    return int(text)


class Once:
    """Does what another operation does unless the table has the batch already.

    Args:
        operation: What the batch does.
        batch: The batch.

    Attributes:
        was_there: Whether the table had it when it was tried last.
    """

    def __init__(self, operation: Operation[TableState, SnapshotChange | MetadataChange], batch: StreamBatch) -> None:
        self._operation = operation
        self._batch = batch
        self.was_there = False

    def apply(self, base: TableState) -> SnapshotChange | MetadataChange | None:
        """Decide; nothing to do if the batch is there."""
        self.was_there = last_batch(base, self._batch.stream) >= self._batch.number
        if self.was_there:
            return None
        change = self._operation.apply(base)
        if not isinstance(change, SnapshotChange):
            return change
        number = str(self._batch.number)
        said = {**change.properties, _STREAM: self._batch.stream, _BATCH: number}
        noted = SetPropertiesUpdate(updates={_PROPERTY + self._batch.stream: number})
        return replace(change, properties=said, updates=(*change.updates, noted))
