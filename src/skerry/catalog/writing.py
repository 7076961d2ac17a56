"""Changing a table's rows."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from skerry.catalog.history import Snapshot, TableHistory
from skerry.errors import UnsupportedError
from skerry.iceberg.cherry_pick import WAP_ENABLED_PROPERTY, WAP_ID
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
        staged: bool = False,
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
            snapshot_properties: Further entries of the snapshot summary.
            watcher: Called with the progress.

        Returns:
            The branch's snapshot, or the staged one; the one before if there was nothing to append.

        Raises:
            NotFoundError: There is no such branch.
            SchemaError: The data does not fit the table's schema, or `ref` is a tag; nothing was written.
            ConflictError: Other writers won every race.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
            UnsupportedError: The rows were to be staged, and the catalog has published them.
        """
        properties = dict(snapshot_properties or {})
        enabled = self.properties.get(WAP_ENABLED_PROPERTY, "false").lower() == "true"
        if not staged and not (enabled and WAP_ID in properties):
            append(self._table, data, ref=ref, properties=properties, watcher=watcher)
            return self.current_snapshot(ref)
        wap_id = properties.setdefault(WAP_ID, str(uuid.uuid4()))
        append(self._table, data, ref=ref, staged=True, properties=properties, watcher=watcher)
        found = next((found for found in reversed(self.snapshots()) if found.summary.get(WAP_ID) == wap_id), None)
        if found is not None and found.snapshot_id == self.refs().get(ref):
            raise UnsupportedError(
                f"the catalog stages no snapshots: it has made {found.snapshot_id} the snapshot of branch {ref!r}; "
                "roll back if the rows must not be seen",
                location=self.name,
            )
        return found or self.current_snapshot(ref)

    def append_files(
        self, files: Iterable[WrittenFile], *, ref: str = MAIN, snapshot_properties: Mapping[str, str] | None = None
    ) -> Snapshot | None:
        """Publish files that a job has written for this table, with the statistics of the table, in one commit."""
        self._table.append(files, ref=ref, properties=snapshot_properties)
        return self.current_snapshot(ref)
