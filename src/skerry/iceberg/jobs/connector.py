"""The connector of Iceberg tables to the frames and streams of other engines."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from skerry.iceberg.handle import IcebergHandle
from skerry.iceberg.jobs import publish as iceberg_publish
from skerry.iceberg.jobs.streaming import StreamSource
from skerry.iceberg.reading.scan import Scan, scan
from skerry.iceberg.writing.layout import FileLayout
from skerry.storage import join
from skerry.table.connector.connector import TableWrite
from skerry.table.connector.publication import Publication, WriteMode
from skerry.table.connector.stream_choice import StreamChoice, TableStream
from skerry.table.predicate import Predicate
from skerry.table.rows.incoming import conform
from skerry.table.rows.schema import empty_batch
from skerry.table.stream_batch import StreamBatch

__all__ = ["IcebergConnector"]


@dataclass(frozen=True)
class IcebergConnector:
    """See `skerry.table.connector.connector.TableConnector`.

    Args:
        table: The table.
    """

    table: IcebergHandle

    def scan(
        self, columns: Sequence[str] | None, where: str | Predicate | None, snapshot: int | None, ref: str | None
    ) -> Scan:
        """Describe a read."""
        return scan(self.table.state, columns, where, snapshot=snapshot, ref=ref, server=self.table.scan_server())

    def pieces(self, scan: Scan) -> Sequence[Any]:
        """The pieces that tasks read."""
        return scan.plan(split=True, indexed=True)

    def begin_write(self, publication: Publication) -> TableWrite:
        """Begin a write."""
        iceberg_publish.check_publication(publication)
        return _Write(self.table.layout(ref=publication.ref), publication, self.table.state.schema)

    def stream(self, choice: StreamChoice) -> TableStream:
        """Describe a stream."""
        return StreamSource(self.table, choice)


@dataclass(frozen=True)
class _Write:
    """Own everything that is written to the folder, which no other write uses."""

    layout: FileLayout
    publication: Publication
    schema: pa.Schema

    def check(self, rows: pa.Schema) -> None:
        if self.publication.mode is not WriteMode.UPSERT:  # which may lack columns
            conform(pa.Table.from_batches([empty_batch(rows)]), self.schema)

    def of_batch(self, number: int | str) -> TableWrite:
        folder = join(self.layout.folder, f"batch-{number}")
        return dataclasses.replace(self, layout=dataclasses.replace(self.layout, folder=folder))

    def share(self, batches: Iterable[pa.RecordBatch]) -> iceberg_publish.Share:
        return iceberg_publish.write_share(self.layout, self.publication.mode, batches)

    def publish(
        self, connector: Any, shares: Sequence[iceberg_publish.Share], batch: StreamBatch | None = None
    ) -> bool:
        return iceberg_publish.publish(connector.table, self.layout, shares, self.publication, batch=batch)

    def owned(self, shares: Iterable[iceberg_publish.Share]) -> AbstractContextManager[object]:
        return iceberg_publish.owned_shares(self.layout, shares)

    def abort(self) -> None:
        with self.layout.owned_files() as files:
            files.remove()
