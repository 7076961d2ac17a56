"""A table as users hold it: the same names over every table format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skerry.iceberg.scan import Scan
from skerry.iceberg.state import MAIN
from skerry.iceberg.table import IcebergTable
from skerry.jobs.analyze import AnalyzeSummary, analyze
from skerry.jobs.append import append
from skerry.jobs.executor import Executor, Watcher
from skerry.table.files import DataFile, WrittenFile
from skerry.table.statistics import ColumnStatistics, Freshness

if TYPE_CHECKING:
    from skerry.catalog.catalog import Catalog

__all__ = ["Snapshot", "Table"]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One state of a table's rows.

    Args:
        snapshot_id: Its id.
        parent_id: The snapshot that it was made from, None for the first.
        sequence_number: Order of commits; 0 in version 1 tables.
        timestamp: When it was committed, UTC.
        operation: `append`, `replace`, `overwrite` or `delete`.
        summary: What it added and removed, and totals, as text by key.
        has_statistics: Whether a statistics file is registered for it.
    """

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    timestamp: datetime
    operation: str
    summary: Mapping[str, str]
    has_statistics: bool


class Table:
    """A table. Made by `Catalog.load_table` and `Catalog.create_table`.

    It shows the state that was newest when it was loaded or last changed through it; `refresh` loads the newest.
    """

    def __init__(self, catalog: Catalog, table: IcebergTable) -> None:
        self._catalog = catalog
        self._table = table

    def __repr__(self) -> str:
        snapshot = self._table.state.snapshot()
        return f"Table({self.name!r}, format={self.format!r}, snapshot={snapshot.snapshot_id if snapshot else None})"

    @property
    def name(self) -> str:
        """`namespace.table`."""
        return self._table.state.name

    @property
    def format(self) -> str:
        """The table format."""
        return "iceberg"

    @property
    def format_version(self) -> int:
        """The version of the table format."""
        return int(self._table.state.metadata.format_version)

    @property
    def location(self) -> str:
        """The folder of the table's files."""
        return str(self._table.state.metadata.location)

    @property
    def metadata_location(self) -> str:
        """The metadata file of the state at hand."""
        return self._table.state.metadata_location

    @property
    def schema(self) -> pa.Schema:
        """The current schema; fields carry their id in the metadata `PARQUET:field_id`."""
        return self._table.state.schema

    @property
    def properties(self) -> dict[str, str]:
        """The table properties."""
        return self._table.state.properties

    @property
    def partition_by(self) -> list[str]:
        """The partition transforms, as `create_table` takes them."""
        return self._table.partition_by

    @property
    def sort_by(self) -> list[str]:
        """The sort order, as `create_table` takes it."""
        return self._table.sort_by

    @property
    def catalog(self) -> Catalog:
        """The catalog that the table was loaded from."""
        return self._catalog

    @property
    def implementation(self) -> IcebergTable:
        """The table format's own object, for jobs that run elsewhere (skerry.spark)."""
        return self._table

    def refresh(self) -> Table:
        """Load the newest state."""
        self._table.refresh()
        return self

    def snapshots(self) -> list[Snapshot]:
        """All snapshots that have not expired, oldest first."""
        metadata = self._table.state.metadata
        with_statistics = {file.snapshot_id for file in metadata.statistics}
        found = [
            Snapshot(
                snapshot_id=snapshot.snapshot_id,
                parent_id=snapshot.parent_snapshot_id,
                sequence_number=snapshot.sequence_number or 0,
                timestamp=datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC),
                operation=snapshot.summary.operation.value if snapshot.summary else "append",
                summary=dict(snapshot.summary.additional_properties) if snapshot.summary else {},
                has_statistics=snapshot.snapshot_id in with_statistics,
            )
            for snapshot in metadata.snapshots
        ]
        return sorted(found, key=lambda snapshot: (snapshot.sequence_number, snapshot.timestamp))

    def current_snapshot(self) -> Snapshot | None:
        """The snapshot that a scan reads; None for a table without rows so far."""
        current = self._table.state.snapshot()
        if current is None:
            return None
        return next(snapshot for snapshot in self.snapshots() if snapshot.snapshot_id == current.snapshot_id)

    def refs(self) -> dict[str, int]:
        """Snapshot ids by branch and tag name."""
        return {name: ref.snapshot_id for name, ref in self._table.state.metadata.refs.items()}

    def history(self) -> list[tuple[datetime, int]]:
        """When which snapshot became the current one, oldest first."""
        return [
            (datetime.fromtimestamp(entry.timestamp_ms / 1000, UTC), entry.snapshot_id)
            for entry in self._table.state.metadata.snapshot_log
        ]

    def files(self) -> list[DataFile]:
        """The data files of the current snapshot."""
        snapshot = self._table.state.snapshot()
        return self._table.data_files(snapshot) if snapshot is not None else []

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | Any = None,
        *,
        limit: int | None = None,
        snapshot: int | None = None,
        ref: str | None = None,
        as_of: datetime | None = None,
    ) -> Scan:
        """Describe a read; nothing is read until one of the scan's methods asks for rows.

        Args:
            columns: Names of the columns to read, nested ones dotted; all if None.
            where: Which rows: SQL text or a PyArrow expression.
            limit: At most so many rows.
            snapshot: Read this snapshot.
            ref: Read the tip of this branch or tag.
            as_of: Read what was current at this time.
        """
        return self._table.scan(columns, where, limit=limit, snapshot=snapshot, ref=ref, as_of=as_of)

    def statistics(self) -> dict[str, ColumnStatistics]:
        """What is known about every primitive column, by dotted name in schema order."""
        return self._table.column_statistics(self._table.state.snapshot())

    def freshness(self) -> dict[str, Freshness]:
        """How far the published distinct count of every primitive column holds; told from metadata alone."""
        return self._table.column_freshness(self._table.state.snapshot())

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

    def analyze(
        self, columns: Sequence[str] | None = None, *, executor: Executor | None = None, watcher: Watcher | None = None
    ) -> AnalyzeSummary:
        """Sketch all rows of the current snapshot and publish the sketches for it.

        Args:
            columns: Dotted names; those that the table's properties choose if None.
            executor: Where to sketch; threads of this process by default.
            watcher: Called with the progress.
        """
        return analyze(self._table, columns, executor=executor, watcher=watcher)
