"""Changing a table's rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from skerry.catalog.history import Snapshot, TableHistory
from skerry.iceberg.state import MAIN
from skerry.jobs.append import append
from skerry.jobs.executor import Watcher
from skerry.table.files import WrittenFile

__all__ = ["TableWriting"]


class TableWriting(TableHistory):
    """What changes rows: each method commits one snapshot."""

    def append(
        self,
        data: Any,
        *,
        ref: str = MAIN,
        snapshot_properties: Mapping[str, str] | None = None,
        watcher: Watcher | None = None,
    ) -> Snapshot | None:
        """Append rows, and publish the table's statistics with them in the same commit.

        Args:
            data: Anything with the Arrow C stream interface: PyArrow, Polars, pandas, DuckDB.
            ref: The branch to append to.
            snapshot_properties: Further entries of the snapshot summary.
            watcher: Called with the progress.

        Returns:
            The current snapshot; the one before if there was nothing to append.

        Raises:
            SchemaError: The data does not fit the table's schema; nothing was written.
            ConflictError: Other writers won every race.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
        """
        append(self._table, data, ref=ref, properties=snapshot_properties, watcher=watcher)
        return self.current_snapshot()

    def append_files(
        self, files: Iterable[WrittenFile], *, ref: str = MAIN, snapshot_properties: Mapping[str, str] | None = None
    ) -> Snapshot | None:
        """Publish files that a job has written for this table, with the statistics of the table, in one commit."""
        self._table.append(files, ref=ref, properties=snapshot_properties)
        return self.current_snapshot()
