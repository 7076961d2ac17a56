"""Idempotent commits: each batch of a stream is committed exactly once.

The number of a stream's last batch is in a table property that changes in the same commit as the rows, and the id of
the query in a second one: neither a restart nor the expiry of snapshots can commit a batch twice, nor is the batch of
another query mistaken for it. The snapshot's summary contains both as well.
"""

from __future__ import annotations

from dataclasses import replace

from skerry.errors import SchemaError
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.metadata.table_updates import RemovePropertiesUpdate, SetPropertiesUpdate, TableUpdate
from skerry.iceberg.operations.change import MetadataChange, SnapshotChange
from skerry.table.commit import Operation
from skerry.table.files.data_file import DataFile
from skerry.table.stream_batch import LastBatch, StreamBatch, has_batch

__all__ = ["Once", "StreamBatch", "last_batch"]

_PROPERTY, _QUERY_PROPERTY = "skerry.stream.", "skerry.stream-query."
_STREAM, _BATCH, _QUERY = "skerry.stream-id", "skerry.batch-id", "skerry.query-id"


def last_batch(state: TableState, stream: str) -> LastBatch | None:
    """The last batch of a stream that the table has; None if it has none.

    Raises:
        SchemaError: The property was set to something else.
    """
    text = state.properties.get(_PROPERTY + stream)
    if text is None:
        return None
    if not text.isdecimal():
        raise SchemaError(f"table property {_PROPERTY}{stream} must be the number of a batch, found {text!r}")
    return LastBatch(int(text), state.properties.get(_QUERY_PROPERTY + stream))


class Once:
    """Wraps an operation, which is skipped if the table has the batch already.

    Args:
        operation: The operation of the batch.
        batch: The batch.

    Attributes:
        was_there: Whether the table had the batch in the last attempt.
    """

    def __init__(self, operation: Operation[TableState, SnapshotChange | MetadataChange], batch: StreamBatch) -> None:
        self._operation = operation
        self._batch = batch
        self.was_there = False

    @property
    def data_files(self) -> tuple[DataFile, ...]:
        """The files that the operation adds."""
        return getattr(self._operation, "data_files", ())

    def apply(self, base: TableState) -> SnapshotChange | MetadataChange | None:
        """Decide the change; None if the table has the batch.

        Raises:
            StreamNameError: The stream's name belongs to another query.
        """
        last = last_batch(base, self._batch.stream)
        self.was_there = has_batch(last, self._batch, base.name)
        if self.was_there:
            return None
        change = self._operation.apply(base)
        if not isinstance(change, SnapshotChange):
            return change
        said = {**change.properties, _STREAM: self._batch.stream, _BATCH: str(self._batch.number)}
        if self._batch.query is not None:
            said[_QUERY] = self._batch.query
        return replace(change, properties=said, updates=(*change.updates, *_noted(self._batch, last)))


def _noted(batch: StreamBatch, last: LastBatch | None) -> list[TableUpdate]:
    """The updates that record a batch as the last one of its stream."""
    marks = {_PROPERTY + batch.stream: str(batch.number)}
    if batch.query is not None:
        marks[_QUERY_PROPERTY + batch.stream] = batch.query
    updates: list[TableUpdate] = [SetPropertiesUpdate(updates=marks)]
    if batch.query is None and last is not None and last.query is not None:
        updates.append(RemovePropertiesUpdate(removals=(_QUERY_PROPERTY + batch.stream,)))
    return updates
