"""Reading a table: its files, its rows and its statistics."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from skerry.catalog.handle import TableHandle
from skerry.iceberg.scan import Scan
from skerry.table.files import DataFile
from skerry.table.statistics import ColumnStatistics, Freshness

__all__ = ["TableReading"]


class TableReading(TableHandle):
    """What can be asked of a table."""

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
