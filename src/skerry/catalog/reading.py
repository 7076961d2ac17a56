"""Reading a table: its files, its rows and its statistics."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from numbers import Integral
from typing import Any

from skerry.catalog.backend import TableScan
from skerry.catalog.handle import TableHandle
from skerry.catalog.names import check_list, check_moment
from skerry.errors import SchemaError
from skerry.table.files.data_file import DataFile
from skerry.table.rows.row_stream import RowStream
from skerry.table.rows.schema import nearest
from skerry.table.statistics.column_statistics import ColumnStatistics, Freshness

__all__ = ["TableReading"]


class _ByColumn(dict[str, ColumnStatistics]):
    """Statistics by column, which name the nearest one when they are asked for another."""

    def __missing__(self, name: object) -> ColumnStatistics:
        raise KeyError(f"no column {name!r}{nearest(str(name), self)}")


class TableReading(TableHandle):
    """What can be asked of a table."""

    def files(self) -> list[DataFile]:
        """The data files of the current snapshot."""
        return self._backend.files()

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | Any = None,
        *,
        limit: int | None = None,
        snapshot: int | None = None,
        ref: str | None = None,
        as_of: datetime | None = None,
    ) -> TableScan:
        """Describe a read; nothing is read until one of the scan's methods asks for rows.

        Args:
            columns: Names of the columns to read, nested ones dotted; all if None.
            where: Which rows: SQL text or a PyArrow expression.
            limit: At most so many rows.
            snapshot: Read this snapshot.
            ref: Read the tip of this branch or tag.
            as_of: Read what was current at this time.
        """
        check_list("columns", columns)
        check_moment("as_of", as_of)
        if snapshot is not None and not isinstance(snapshot, Integral):
            raise SchemaError(f"snapshot takes the number of a snapshot, found {type(snapshot).__name__}: {snapshot!r}")
        return self._backend.scan(columns, where, limit=limit, snapshot=snapshot, ref=ref, as_of=as_of)

    def changes(
        self,
        from_snapshot: int | str | None = None,
        to_snapshot: int | str | None = None,
        *,
        columns: Sequence[str] | None = None,
        where: str | Any = None,
        on: Sequence[str] | None = None,
        carried_over: bool = False,
    ) -> RowStream:
        """Describe what happened to the rows between two snapshots; nothing is read until one asks for them.

        Only files that commits added, removed or deleted rows of are read. Compaction changes nothing, and rows that a
        commit only copied into another file are left out.

        Args:
            from_snapshot: The older snapshot, by id or by the name of a branch or tag: what came after it is told. From
                the table's beginning if None.
            to_snapshot: The newer snapshot, likewise; the current one if None.
            columns: Names of the columns to read, nested ones dotted; all if None.
            where: Only changes of rows for which this is true: SQL text or a PyArrow expression.
            on: Columns that identify a row, so that an update is told as its two images. If None the table's identifier
                columns, and without them the row ids of version 3 tables; `[]` tells deletes and inserts only.
            carried_over: Whether to tell rows that were only copied, too, as deletes and inserts.

        Returns:
            An Arrow stream (also `to_batches()`, `to_arrow()`) of the columns and `_change_type` (`INSERT`, `DELETE`,
            `UPDATE_BEFORE`, `UPDATE_AFTER`), `_change_ordinal` and `_commit_snapshot_id`.

        Raises:
            NotFoundError: There is no such snapshot, or snapshots between the two have expired.
            SchemaError: The older one is no ancestor of the newer one, or a column does not exist.
        """
        return self._backend.changes(
            from_snapshot, to_snapshot, columns=columns, where=where, on=on, carried_over=carried_over
        )

    def statistics(self, where: str | Any = None) -> dict[str, ColumnStatistics]:
        """What is known about every primitive column, by dotted name in schema order.

        Args:
            where: Only of the rows that a condition holds for: SQL text or a PyArrow expression. No data file is read:
                where metadata leaves open which rows match, the counts are upper bounds and say so.

        Raises:
            FormatError: `where` is no condition.
            SchemaError: `where` does not fit the table's columns.
        """
        return _ByColumn(self._backend.statistics(where))

    def freshness(self) -> dict[str, Freshness]:
        """How far the distinct count of every primitive column holds, without a look at the data."""
        return self._backend.freshness()
