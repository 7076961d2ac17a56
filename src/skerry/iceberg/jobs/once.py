"""An Iceberg table to which any job commits a batch of a stream exactly once."""

from __future__ import annotations

from skerry.errors import SkerryError
from skerry.iceberg.handle import IcebergHandle
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.operations import MetadataChange, Once, SnapshotChange, StreamBatch, last_batch
from skerry.table.commit import Operation
from skerry.table.stream_batch import has_batch

__all__ = ["BatchWasThereError", "OnceTable"]


class BatchWasThereError(SkerryError):
    """Another writer committed the batch in the meantime: the files written for it are not needed."""


class OnceTable(IcebergHandle):
    """A table whose commits are recorded as one batch of a stream.

    Args:
        table: The table.
        batch: The batch.
    """

    def __init__(self, table: IcebergHandle, batch: StreamBatch) -> None:
        super().__init__(table.catalog, table.identifier, table.state)
        self._batch = batch

    def has_batch(self) -> bool:
        """Whether the newest state has the batch, or a later one of its query.

        Raises:
            StreamNameError: The stream's name belongs to another query.
        """
        state = self.refresh()
        return has_batch(last_batch(state, self._batch.stream), self._batch, state.name)

    def commit(self, operation: Operation[TableState, SnapshotChange | MetadataChange]) -> TableState:
        """Commit an operation; a new snapshot records the batch.

        Raises:
            BatchWasThereError: The table has the batch already; nothing was changed.
            StreamNameError: The stream's name belongs to another query; nothing was changed.
        """
        once = Once(operation, self._batch)
        state = super().commit(once)
        if once.was_there:
            raise BatchWasThereError(
                f"batch {self._batch.number} of stream {self._batch.stream!r} was committed already",
                location=state.name,
            )
        return state
