"""Paimon tables as data frames and streams use them."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from skerry.errors import SchemaError
from skerry.paimon.handle import PaimonHandle
from skerry.paimon.jobs import publish as paimon_publish
from skerry.paimon.jobs.streaming import PaimonStream
from skerry.paimon.metadata.options import MergeEngine
from skerry.paimon.reading.fallback_scan import scan
from skerry.paimon.reading.scan import PaimonScan
from skerry.table.connector.connector import TableWrite
from skerry.table.connector.publication import Publication, WriteMode
from skerry.table.connector.stream_choice import StreamChoice, TableStream
from skerry.table.predicate import Predicate
from skerry.table.rows.incoming import conform
from skerry.table.rows.schema import empty_batch
from skerry.table.stream_batch import StreamBatch

__all__ = ["PaimonConnector"]


@dataclass(frozen=True)
class PaimonConnector:
    """See `skerry.table.connector.connector.TableConnector`.

    Args:
        table: The table.
    """

    table: PaimonHandle

    def scan(
        self, columns: Sequence[str] | None, where: str | Predicate | None, snapshot: int | None, ref: str | None
    ) -> PaimonScan:
        """Describe a read."""
        return scan(self.table.state, columns, where, snapshot=snapshot, ref=ref)

    def pieces(self, scan: PaimonScan) -> Sequence[Any]:
        """What tasks read."""
        return scan.plan()

    def begin_write(self, publication: Publication) -> TableWrite:
        """Begin a write."""
        return _Write(paimon_publish.ShareLayout.of(self.table, publication), publication)

    def stream(self, choice: StreamChoice) -> TableStream:
        """Describe a stream."""
        return PaimonStream(self.table, choice)


@dataclass(frozen=True)
class _Write:
    """A write whose files all carry the id of its job in their names."""

    layout: paimon_publish.ShareLayout
    publication: Publication

    def check(self, rows: pa.Schema) -> None:
        files = self.layout.files
        conform(pa.Table.from_batches([empty_batch(rows)]), files.schema.arrow_schema)
        missing = [name for name in files.schema.arrow_schema.names if name not in rows.names]
        fills = files.has_keys and files.options.merge_engine is MergeEngine.PARTIAL_UPDATE
        if missing and self.publication.mode is WriteMode.UPSERT and not fills:
            raise SchemaError(
                f"upserts to Paimon tables replace rows whole: the frame has no column {missing[0]!r}",
                location=files.name,
            )

    def of_batch(self, number: int | str) -> TableWrite:
        files = self.layout.files
        job = uuid.UUID(bytes=uuid.uuid5(files.job, str(number)).bytes, version=4)  # as names of files have it
        batch = dataclasses.replace(files, job=job)
        return dataclasses.replace(self, layout=dataclasses.replace(self.layout, files=batch))

    def share(self, batches: Iterable[pa.RecordBatch]) -> paimon_publish.Share:
        return paimon_publish.write_share(self.layout, self.publication.mode, batches)

    def publish(self, connector: Any, shares: Sequence[paimon_publish.Share], batch: StreamBatch | None = None) -> bool:
        return paimon_publish.publish(connector.table, self.layout, shares, self.publication, batch=batch)

    def owned(self, shares: Iterable[paimon_publish.Share]) -> AbstractContextManager[object]:
        return paimon_publish.owned_shares(self.layout, shares)

    def abort(self) -> None:
        waits = self.layout.rows_wait(self.publication.mode)
        with self.layout.files.owned_files([self.layout.waiting_folder] if waits else None) as files:
            files.remove()
