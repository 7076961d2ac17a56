"""Changing a table's rows where they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from skerry.catalog.backend import WriteOptions
from skerry.catalog.handle import TableHandle
from skerry.table.history import MAIN
from skerry.table.merging import Clauses, MergeClauses
from skerry.table.tasks import Executor, Watcher

if TYPE_CHECKING:
    from skerry.table.summaries import RowChanges

__all__ = ["TableChanging"]


class TableChanging(TableHandle):
    """What changes rows that are there: each method commits one snapshot, or none if there is nothing to change.

    Whether data files are written anew or delete files beside them is said by the table properties `write.delete.mode`
    (for `delete` and `overwrite`) and `write.merge.mode` (for `upsert` and `merge`): `copy-on-write` if not set, or
    `merge-on-read`. What others may do meanwhile is said by `write.delete.isolation-level` and
    `write.merge.isolation-level`: `serializable` if not set, or `snapshot`. After a conflict the work is done again on
    the new state, as often as `commit.retry.num-retries` says.
    """

    def delete(
        self,
        where: str | Any,
        *,
        ref: str = MAIN,
        staged: bool = False,
        snapshot_properties: Mapping[str, str] | None = None,
        executor: Executor | None = None,
        watcher: Watcher | None = None,
    ) -> RowChanges:
        """Delete the rows that a condition holds for.

        Args:
            where: Which rows: SQL text or a PyArrow expression.
            ref: The branch.
            staged: Whether the new snapshot stands beside the branch until it is published; see `append`.
            snapshot_properties: Further entries of the snapshot summary.
            executor: Where files are read and rewritten; threads of this process by default.
            watcher: Called with the progress.

        Returns:
            What was changed.

        Raises:
            ConflictError: Others changed the same rows, again and again; nothing was changed.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
            FormatError: `where` is no condition.
            SchemaError: `where` does not fit the table's columns.
        """
        options = WriteOptions(ref, staged, snapshot_properties or {}, executor, watcher)
        return self._backend.delete(where, options)

    def overwrite(
        self,
        data: Any,
        where: str | Any = None,
        *,
        ref: str = MAIN,
        staged: bool = False,
        snapshot_properties: Mapping[str, str] | None = None,
        executor: Executor | None = None,
        watcher: Watcher | None = None,
    ) -> RowChanges:
        """Put rows in place of those that a condition holds for, in one commit.

        Args:
            data: The new rows: anything with the Arrow C stream interface. The condition need not hold for them.
            where: Which rows they replace: SQL text or a PyArrow expression; all rows if None.
            ref: The branch.
            staged: Whether the new snapshot stands beside the branch until it is published; see `append`.
            snapshot_properties: Further entries of the snapshot summary.
            executor: Where files are read and rewritten; threads of this process by default.
            watcher: Called with the progress.

        Returns:
            What was changed.

        Raises:
            ConflictError: Others changed the same rows, again and again; nothing was changed.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
            FormatError: `where` is no condition.
            SchemaError: `where` or the data does not fit the table's columns.
        """
        options = WriteOptions(ref, staged, snapshot_properties or {}, executor, watcher)
        return self._backend.overwrite(data, where, options)

    def upsert(
        self,
        data: Any,
        on: str | Sequence[str] | None = None,
        *,
        blind: bool = False,
        ref: str = MAIN,
        staged: bool = False,
        snapshot_properties: Mapping[str, str] | None = None,
        executor: Executor | None = None,
        watcher: Watcher | None = None,
    ) -> RowChanges:
        """Update the rows that have the keys of new rows, and insert the new rows whose keys no row has.

        A null in a key matches nothing: such rows are inserted.

        Args:
            data: The new rows: anything with the Arrow C stream interface, held in memory. Columns of the table that
                they lack stay as they are.
            on: The key columns; those that identify a row of the table if None.
            blind: Do not look at the table: write the keys as equality deletes, whether they are there or not, and the
                rows. Fast to write, slow to read until the table is compacted.
            ref: The branch.
            staged: Whether the new snapshot stands beside the branch until it is published; see `append`.
            snapshot_properties: Further entries of the snapshot summary.
            executor: Where files are read and rewritten; threads of this process by default.
            watcher: Called with the progress.

        Returns:
            What was changed.

        Raises:
            ConflictError: Others changed the same rows, again and again; nothing was changed.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
            SchemaError: The data does not fit the table, or a key is in it twice; the message names it.
            UnsupportedError: It cannot be done blindly.
        """
        options = WriteOptions(ref, staged, snapshot_properties or {}, executor, watcher)
        return self._backend.upsert(data, on, blind, options)

    def merge(
        self,
        data: Any,
        on: str | Sequence[str],
        *,
        when_matched: Clauses = None,
        when_not_matched: Clauses = None,
        when_not_matched_by_source: Clauses = None,
        blind: bool = False,
        ref: str = MAIN,
        staged: bool = False,
        snapshot_properties: Mapping[str, str] | None = None,
        executor: Executor | None = None,
        watcher: Watcher | None = None,
    ) -> RowChanges:
        """Merge rows by key: of several clauses, the first whose condition is true decides.

        Example:
            table.merge(
                changes,
                on="id",
                when_matched=[skerry.Delete("source.op = 'D'"), skerry.Update(where="source.at > target.at")],
                when_not_matched=skerry.Insert(where="source.op <> 'D'"),
            )

        Args:
            data: The source: anything with the Arrow C stream interface, held in memory. It may have columns that the
                table lacks, for conditions and values.
            on: The key columns, of the same names in the source and in the table. A null in a key matches nothing.
            when_matched: For rows of the table that a row of the source matches: `skerry.Update` and `skerry.Delete`,
                or the words "update" and "delete".
            when_not_matched: For rows of the source that match no row of the table: `skerry.Insert`, or "insert".
            when_not_matched_by_source: For rows of the table that no row of the source matches: `skerry.Update` and
                `skerry.Delete`.
            blind: Do not look at the table: write keys as equality deletes, whether they are there or not, and rows.
            ref: The branch.
            staged: Whether the new snapshot stands beside the branch until it is published; see `append`.
            snapshot_properties: Further entries of the snapshot summary.
            executor: Where files are read and rewritten; threads of this process by default.
            watcher: Called with the progress.

        Returns:
            What was changed.

        Raises:
            ConflictError: Others changed the same rows, again and again; nothing was changed.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
            FormatError: A condition or value is no SQL.
            SchemaError: The source, a condition or a value does not fit the table, or several rows of the source match
                one row of the table; the message names the key.
            UnsupportedError: It cannot be done blindly.
        """
        clauses = MergeClauses(when_matched, when_not_matched, when_not_matched_by_source)
        options = WriteOptions(ref, staged, snapshot_properties or {}, executor, watcher)
        return self._backend.merge(data, on, clauses, blind, options)
