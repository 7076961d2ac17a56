"""Rows out of a table and into it, task by task: what frames and streams need of a table, whatever its format.

A reader of a scan's pieces, a write that tasks take shares of, a stream: their parts are small and picklable, and run
wherever tasks run. `exchange_of` knows which of them belong to a table.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from skerry.errors import SchemaError, SkerryError, UnsupportedError
from skerry.iceberg.layout import FileLayout
from skerry.iceberg.scan import Scan
from skerry.iceberg.table import IcebergTable
from skerry.jobs import paimon_publish
from skerry.jobs import publish as iceberg_publish
from skerry.jobs.paimon_streaming import PaimonStream
from skerry.jobs.publication import Publication, WriteMode
from skerry.jobs.stream_choice import StreamChoice, TableStream
from skerry.jobs.streaming import StreamSource
from skerry.paimon.options import MergeEngine
from skerry.paimon.scan import PaimonScan
from skerry.paimon.table import PaimonTable
from skerry.paimon.writing.layout import remove_written
from skerry.storage import join
from skerry.table.incoming import conform
from skerry.table.predicate import Predicate
from skerry.table.stream_batch import StreamBatch

__all__ = ["PieceReader", "TableExchange", "TableWrite", "exchange_of"]


class PieceReader(Protocol):
    """Reads the pieces of a scan; picklable."""

    def batches(self, pieces: Iterable[Any], /) -> Iterator[pa.RecordBatch]:
        """The rows of pieces."""
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

    def publish(self, table: Any, shares: Sequence[Any], batch: StreamBatch | None = None) -> bool:
        """Publish what all tasks have written, as one snapshot; a stream's batch once."""
        ...

    def remove(self, shares: Iterable[Any]) -> None:
        """Remove what was written and no commit names."""
        ...

    def abort(self) -> None:
        """Remove whatever tasks have written, known or not, before anything of it was published."""
        ...


class TableExchange(Protocol):
    """A table of one format, as frames and streams see it."""

    def scan(
        self, columns: Sequence[str] | None, where: str | Predicate | None, snapshot: int | None, ref: str | None
    ) -> Scan | PaimonScan:
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


# Iceberg -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _IcebergExchange:
    table: IcebergTable

    def scan(
        self, columns: Sequence[str] | None, where: str | Predicate | None, snapshot: int | None, ref: str | None
    ) -> Scan:
        return self.table.scan(columns=columns, where=where, snapshot=snapshot, ref=ref)

    def pieces(self, scan: Scan) -> Sequence[Any]:
        return scan.plan(split=True)

    def begin_write(self, publication: Publication) -> TableWrite:
        iceberg_publish.check_publication(publication)
        return _IcebergWrite(self.table.layout(ref=publication.ref), publication, self.table.state.schema)

    def stream(self, choice: StreamChoice) -> TableStream:
        return StreamSource(self.table, choice)


@dataclass(frozen=True)
class _IcebergWrite:
    """Everything that is written lies in a folder that no other write uses."""

    layout: FileLayout
    publication: Publication
    schema: pa.Schema

    def check(self, rows: pa.Schema) -> None:
        if self.publication.mode is not WriteMode.UPSERT:  # which may lack columns
            conform(rows.empty_table(), self.schema)

    def of_batch(self, number: int | str) -> TableWrite:
        folder = join(self.layout.folder, f"batch-{number}")
        return dataclasses.replace(self, layout=dataclasses.replace(self.layout, folder=folder))

    def share(self, batches: Iterable[pa.RecordBatch]) -> iceberg_publish.Share:
        return iceberg_publish.write_share(self.layout, self.publication.mode, batches)

    def publish(self, table: Any, shares: Sequence[iceberg_publish.Share], batch: StreamBatch | None = None) -> bool:
        return iceberg_publish.publish(table, self.layout, shares, self.publication, batch=batch)

    def remove(self, shares: Iterable[iceberg_publish.Share]) -> None:
        iceberg_publish.remove_shares(self.layout, shares)

    def abort(self) -> None:
        storage = self.layout.storage
        with suppress(SkerryError):  # what failed before matters more
            storage.delete([status.location for status in storage.list(self.layout.folder)])


# Paimon --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _PaimonExchange:
    table: PaimonTable

    def scan(
        self, columns: Sequence[str] | None, where: str | Predicate | None, snapshot: int | None, ref: str | None
    ) -> PaimonScan:
        return self.table.scan(columns, where, snapshot=snapshot, ref=ref)

    def pieces(self, scan: PaimonScan) -> Sequence[Any]:
        return scan.plan()

    def begin_write(self, publication: Publication) -> TableWrite:
        return _PaimonWrite(paimon_publish.ShareLayout.of(self.table, publication), publication)

    def stream(self, choice: StreamChoice) -> TableStream:
        return PaimonStream(self.table, choice)


@dataclass(frozen=True)
class _PaimonWrite:
    """Everything that is written has a name of its job."""

    layout: paimon_publish.ShareLayout
    publication: Publication

    def check(self, rows: pa.Schema) -> None:
        files = self.layout.files
        conform(rows.empty_table(), files.schema.arrow_schema)
        missing = [name for name in files.schema.arrow_schema.names if name not in rows.names]
        fills = files.has_keys and files.options.merge_engine is MergeEngine.PARTIAL_UPDATE
        if missing and self.publication.mode is WriteMode.UPSERT and not fills:
            raise SchemaError(
                f"upserts to Paimon tables replace rows whole: the frame has no column {missing[0]!r}",
                location=files.name,
            )

    def of_batch(self, number: int | str) -> TableWrite:
        files = self.layout.files
        batch = dataclasses.replace(files, job=uuid.uuid5(files.job, str(number)))
        return dataclasses.replace(self, layout=dataclasses.replace(self.layout, files=batch))

    def share(self, batches: Iterable[pa.RecordBatch]) -> paimon_publish.Share:
        return paimon_publish.write_share(self.layout, self.publication.mode, batches)

    def publish(self, table: Any, shares: Sequence[paimon_publish.Share], batch: StreamBatch | None = None) -> bool:
        return paimon_publish.publish(table, self.layout, shares, self.publication, batch=batch)

    def remove(self, shares: Iterable[paimon_publish.Share]) -> None:
        paimon_publish.remove_shares(self.layout, shares)

    def abort(self) -> None:
        waits = self.layout.rows_wait(self.publication.mode)
        remove_written(self.layout.files, [self.layout.waiting_folder] if waits else None)


_EXCHANGES: Final[dict[type, Callable[[Any], TableExchange]]] = {
    IcebergTable: _IcebergExchange,
    PaimonTable: _PaimonExchange,
}


def exchange_of(table: Any) -> TableExchange:
    """The exchange of a table.

    Args:
        table: What implements it.

    Raises:
        UnsupportedError: Rows of such tables are not exchanged in tasks.
    """
    made = _EXCHANGES.get(type(table))
    if made is None:
        raise UnsupportedError(f"rows of a {type(table).__name__} are not read and written in tasks")
    return made(table)
