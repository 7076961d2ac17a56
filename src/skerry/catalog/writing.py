"""Changing a table's rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from skerry.catalog.applying import stream_batch
from skerry.catalog.backend import WriteOptions
from skerry.catalog.history import TableHistory
from skerry.table.files.data_file import WrittenFile
from skerry.table.history import MAIN, Snapshot
from skerry.table.tasks import Watcher

__all__ = ["TableWriting"]


class TableWriting(TableHistory):
    """What changes rows: each method commits one snapshot."""

    def append(
        self,
        data: Any,
        *,
        ref: str = MAIN,
        staged: bool = False,
        stream: str | None = None,
        batch: int | None = None,
        query: str | None = None,
        take_over: bool = False,
        snapshot_properties: Mapping[str, str] | None = None,
        watcher: Watcher | None = None,
    ) -> Snapshot | None:
        """Append rows, and publish the table's statistics with them in the same commit.

        Args:
            data: Anything with the Arrow C stream interface: PyArrow, Polars, pandas, DuckDB.
            ref: The branch to append to.
            staged: Whether the new snapshot stands beside the branch until `publish` brings it there. It is found again
                by the entry `wap.id` of its summary, taken from `snapshot_properties` or made up. A table with the
                property `write.wap.enabled` stages every append that has a `wap.id`.
            stream: With `batch`, the stream that the rows are a batch of; a name that stays the same after restarts.
            batch: The number of the batch; numbers of a stream only grow. A batch that the table has is not appended
                again, whoever brings it: see `Snapshot.applied`.
            query: Who counts the batches: an id that stays the same as long as the count goes on, as Spark's id of a
                query does. A number that is not above the last one is a batch that the table has only if the same
                query has counted both; without ids only the last number may come again.
            take_over: Go on under a name that another query has used, from whatever number.
            snapshot_properties: Further entries of the snapshot summary.
            watcher: Called with the progress.

        Returns:
            The branch's snapshot, or the staged one; the one before if there was nothing to append, and with
            `applied=False` if the table had the batch.

        Raises:
            NotFoundError: There is no such branch.
            SchemaError: The data does not fit the table's schema, or `ref` is a tag; nothing was written.
            ConflictError: Other writers won every race.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
            StreamNameError: The stream's name belongs to another query; nothing was written.
            UnsupportedError: The rows were to be staged, and the catalog has published them.
        """
        named = stream_batch(stream, batch, query, take_over)
        options = WriteOptions(ref, staged, snapshot_properties or {}, watcher=watcher, batch=named)
        return self._backend.append(data, options)

    def append_files(
        self, files: Iterable[WrittenFile], *, ref: str = MAIN, snapshot_properties: Mapping[str, str] | None = None
    ) -> Snapshot | None:
        """Publish files that a job has written for this table, with the statistics of the table, in one commit."""
        self._backend.append_files(files, WriteOptions(ref, properties=snapshot_properties or {}))
        return self.current_snapshot(ref)
