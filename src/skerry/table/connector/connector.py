"""Rows out of a table and into it, task by task: what frames and streams need of a table, whatever its format.

A reader of a scan's pieces, a write that tasks take shares of, a stream: their parts are small and picklable, and run
wherever tasks run. `Table.connector` gives that of a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import pyarrow as pa

from skerry.table.connector.publication import Publication
from skerry.table.connector.stream_choice import StreamChoice, TableStream
from skerry.table.predicate import Predicate
from skerry.table.stream_batch import StreamBatch

__all__ = ["ConnectorScan", "PieceReader", "TableConnector", "TableWrite"]


class PieceReader(Protocol):
    """Reads the pieces of a scan; picklable."""

    def batches(self, pieces: Iterable[Any], /) -> Iterator[pa.RecordBatch]:
        """The rows of pieces."""
        ...


class ConnectorScan(Protocol):
    """A read, described."""

    @property
    def schema(self) -> pa.Schema:
        """The columns that are delivered."""
        ...

    @property
    def predicate(self) -> Predicate:
        """Which rows."""
        ...

    def row_reader(self) -> PieceReader:
        """What reads the scan's pieces."""
        ...


class TableWrite(Protocol):
    """A write that tasks take part in; picklable."""

    def check(self, rows: pa.Schema) -> None:
        """Refuse rows whose columns do not fit, before any is written.

        Raises:
            SchemaError: They do not; the nearest names are proposed.
        """
        ...

    def of_batch(self, number: int | str) -> TableWrite:
        """The same write for one batch of a stream: what is written for it can be told from other batches' files."""
        ...

    def share(self, batches: Iterable[pa.RecordBatch]) -> Any:
        """Write a task's rows, and tell what was written; if that fails, nothing of them is left."""
        ...

    def publish(self, connector: Any, shares: Sequence[Any], batch: StreamBatch | None = None) -> bool:
        """Publish what all tasks have written, as one snapshot; a stream's batch once.

        Args:
            connector: The table's connector, loaded where it is published.
            shares: What tasks have written.
            batch: The batch of a stream.
        """
        ...

    def owned(self, shares: Iterable[Any]) -> AbstractContextManager[object]:
        """Own what was written, until `publish` does: it goes if the block fails before."""
        ...

    def abort(self) -> None:
        """Remove whatever tasks have written, known or not, before anything of it was published."""
        ...


class TableConnector(Protocol):
    """A table of one format, as frames and streams see it."""

    def scan(
        self, columns: Sequence[str] | None, where: str | Predicate | None, snapshot: int | None, ref: str | None
    ) -> ConnectorScan:
        """Describe a read."""
        ...

    def pieces(self, scan: Any) -> Sequence[Any]:
        """What tasks read, each one piece, with the scan's `row_reader`."""
        ...

    def begin_write(self, publication: Publication) -> TableWrite:
        """Begin a write.

        Raises:
            SchemaError: The publication does not fit the table.
            UnsupportedError: Tables of this format cannot do that.
        """
        ...

    def stream(self, choice: StreamChoice) -> TableStream:
        """Describe a stream."""
        ...
