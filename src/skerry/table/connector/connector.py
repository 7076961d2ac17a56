"""Interfaces for reading and writing tables in tasks, for all table formats: used by frames and streams.

A reader of a scan's pieces, a write in which each task takes a share, a stream: their parts are small and picklable,
and run wherever tasks run. `Table.connector` returns the implementation of a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from skerry.table.connector.publication import Publication
from skerry.table.connector.stream_choice import StreamChoice, TableStream
from skerry.table.stream_batch import StreamBatch

if TYPE_CHECKING:
    from skerry.table.predicate import Predicate

__all__ = ["ConnectorScan", "PieceReader", "TableConnector", "TableWrite"]


class PieceReader(Protocol):
    """Reads the pieces of a scan; picklable."""

    def batches(self, pieces: Iterable[Any], /) -> Iterator[pa.RecordBatch]:
        """The rows of pieces."""
        ...


class ConnectorScan(Protocol):
    """The description of a read."""

    @property
    def schema(self) -> pa.Schema:
        """The returned columns."""
        ...

    @property
    def predicate(self) -> Predicate:
        """The condition on rows."""
        ...

    def row_reader(self) -> PieceReader:
        """The reader of the scan's pieces."""
        ...


class TableWrite(Protocol):
    """A write that several tasks carry out; picklable."""

    def check(self, rows: pa.Schema) -> None:
        """Check that rows have matching columns, before any is written.

        Raises:
            SchemaError: They do not match; the message proposes the nearest names.
        """
        ...

    def of_batch(self, number: int | str) -> TableWrite:
        """The same write for one batch of a stream, so that its files differ from those of other batches."""
        ...

    def share(self, batches: Iterable[pa.RecordBatch]) -> Any:
        """Write a task's rows, and return what was written; if that fails, none of it is left."""
        ...

    def publish(self, connector: Any, shares: Sequence[Any], batch: StreamBatch | None = None) -> bool:
        """Publish the shares of all tasks as one snapshot; a stream's batch only once.

        Args:
            connector: The table's connector, loaded in the process that publishes.
            shares: The results of the tasks.
            batch: The batch of a stream.
        """
        ...

    def owned(self, shares: Iterable[Any]) -> AbstractContextManager[object]:
        """Own the written files until `publish` does: they are deleted if the block fails before."""
        ...

    def abort(self) -> None:
        """Remove everything that tasks have written, known or not, before any of it was published."""
        ...


class TableConnector(Protocol):
    """A table of one format, as frames and streams see it."""

    def scan(
        self, columns: Sequence[str] | None, where: str | Predicate | None, snapshot: int | None, ref: str | None
    ) -> ConnectorScan:
        """Describe a read."""
        ...

    def pieces(self, scan: Any) -> Sequence[Any]:
        """Plan the pieces, of which each is read by one task with the scan's `row_reader`."""
        ...

    def begin_write(self, publication: Publication) -> TableWrite:
        """Begin a write.

        Raises:
            SchemaError: The publication does not fit the table.
            UnsupportedError: Tables of this format do not support it.
        """
        ...

    def stream(self, choice: StreamChoice) -> TableStream:
        """Describe a stream."""
        ...
