"""What changes the rows of a table of any format: each method commits one snapshot, or none if nothing changes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skerry.arguments import check_instance, check_list
from skerry.errors import SchemaError
from skerry.table.arguments import Condition, Parameters, Rows, WriteOptions
from skerry.table.history import MAIN, Snapshot
from skerry.table.readable import ReadableTable
from skerry.table.stream_batch import stream_batch
from skerry.table.work.progress import Progress, progress_callback
from skerry.table.work.tasks import Executor

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from skerry.table.merging import Clauses, MergeClauses
    from skerry.table.statistics.written_file import WrittenFile
    from skerry.table.summaries import ChangeSummary, RowChangeSummary

__all__ = ["WritableTable"]


class WritableTable(ReadableTable):
    """A table whose rows can be changed.

    Iceberg tables: the table properties `write.delete.mode` (for `delete` and `overwrite`) and `write.merge.mode` (for
    `upsert`, `merge` and `update`) say whether data files are rewritten (`copy-on-write`, the default) or delete files
    are added beside them (`merge-on-read`); `write.delete.isolation-level` and `write.merge.isolation-level` say what
    others may do meanwhile (`serializable`, the default, or `snapshot`). After a conflict the work is done again on the
    new state, as often as `commit.retry.num-retries` says.
    """

    def append(
        self,
        data: Rows,
        *,
        schema: str = "match",
        ref: str = MAIN,
        staged: bool = False,
        stream: str | None = None,
        batch: int | None = None,
        query: str | None = None,
        take_over: bool = False,
        snapshot_properties: Mapping[str, str] | None = None,
        progress: Progress = None,
    ) -> Snapshot | None:
        """Append rows, and publish the table's statistics with them in the same commit.

        Example:
            table.append([{"carrier": "UA", "delay": 12}])

        Args:
            data: The rows: anything with the Arrow C stream interface, records, or the name of a file. Columns are
                matched by name and converted to the table's types; a value that does not fit is refused.
            schema: `match` refuses columns that the table lacks; `evolve` adds them and widens types, before.
            ref: The branch to append to.
            staged: Whether the new snapshot stays beside the branch until `publish` brings it there. It is found again
                by the entry `wap.id` of its summary, taken from `snapshot_properties` or made up. A table with the
                property `write.wap.enabled` stages every append that has a `wap.id`.
            stream: With `batch`, the stream that the rows are a batch of; a name that stays the same after restarts.
            batch: The number of the batch; numbers of a stream only grow. A batch that the table has is not appended
                again: see `Snapshot.applied`.
            query: Who counts the batches: an id that stays the same as long as the count goes on, as Spark's id of a
                query does. A number that is not above the last one is a batch that the table has only if the same
                query has counted both; without ids only the last number may come again.
            take_over: Go on under a name that another query has used, from any number.
            snapshot_properties: Further entries of the snapshot summary.
            progress: True for a bar, or a callable that gets `JobProgress` records (rows and bytes so far).

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
        if schema != "match":
            data = self._grown_for(data, schema)
        with progress_callback(progress, "append", self.location) as callback:
            options = WriteOptions(ref, staged, snapshot_properties or {}, progress=callback, batch=named)
            return self._append(data, options)

    def append_files(
        self,
        files: Iterable[WrittenFile],
        *,
        ref: str = MAIN,
        staged: bool = False,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> Snapshot | None:
        """Publish files that a job has written for this table, with the statistics of the table, in one commit.

        Raises:
            SchemaError: These are not files that a job has written; `add_files` takes locations.
            UnsupportedError: The format does not have it.
        """
        from skerry.table.statistics.written_file import WrittenFile  # with sketches, and kernels

        for file in (written := list(files)):
            if not isinstance(file, WrittenFile):
                raise SchemaError(f"append_files takes what jobs have written, found {file!r:.80}; see add_files")
        self._append_files(written, WriteOptions(ref, staged, snapshot_properties or {}))
        return self.current_snapshot(ref)

    def delete(
        self,
        where: Condition,
        *,
        parameters: Parameters | None = None,
        ref: str = MAIN,
        staged: bool = False,
        snapshot_properties: Mapping[str, str] | None = None,
        executor: Executor | None = None,
        progress: Progress = None,
    ) -> RowChangeSummary:
        """Delete the rows that a condition holds for.

        Example:
            table.delete("delay > 60")

        Args:
            where: Which rows: SQL text, a PyArrow expression or filters as in `scan`.
            parameters: Values for the parameters of the condition, as in `scan`.
            ref: The branch.
            staged: Whether the new snapshot stays beside the branch until it is published; see `append`.
            snapshot_properties: Further entries of the snapshot summary.
            executor: Where files are read and rewritten; threads of this process by default.
            progress: True for a bar, or a callable that gets `JobProgress` records.

        Raises:
            ConflictError: Others changed the same rows, again and again; nothing was changed.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
            FormatError: `where` is not a condition.
            SchemaError: `where` does not fit the table's columns.
        """
        with progress_callback(progress, "delete", self.location) as callback:
            chosen = self._settled(where, parameters)
            return self._delete(chosen, WriteOptions(ref, staged, snapshot_properties or {}, executor, callback))

    def overwrite(
        self,
        data: Rows,
        where: Condition | None = None,
        *,
        parameters: Parameters | None = None,
        ref: str = MAIN,
        staged: bool = False,
        snapshot_properties: Mapping[str, str] | None = None,
        executor: Executor | None = None,
        progress: Progress = None,
    ) -> RowChangeSummary:
        """Replace the rows that a condition holds for by others, in one commit.

        Example:
            table.overwrite(january, "month = 1")

        Args:
            data: The new rows: anything with the Arrow C stream interface. The condition need not hold for them.
            where: Which rows they replace: SQL text, a PyArrow expression or filters as in `scan`; all rows if None.
            parameters: Values for the parameters of the condition, as in `scan`.
            ref: The branch.
            staged: Whether the new snapshot stays beside the branch until it is published; see `append`.
            snapshot_properties: Further entries of the snapshot summary.
            executor: Where files are read and rewritten; threads of this process by default.
            progress: True for a bar, or a callable that gets `JobProgress` records.

        Raises:
            ConflictError: Others changed the same rows, again and again; nothing was changed.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
            FormatError: `where` is not a condition.
            SchemaError: `where` or the data does not fit the table's columns.
        """
        with progress_callback(progress, "overwrite", self.location) as callback:
            options = WriteOptions(ref, staged, snapshot_properties or {}, executor, callback)
            return self._overwrite(self._typed(data), self._settled(where, parameters), options)

    def update(
        self,
        values: Mapping[str, Any],
        where: str | pc.Expression | None = None,
        *,
        parameters: Parameters | None = None,
        ref: str = MAIN,
        staged: bool = False,
        snapshot_properties: Mapping[str, str] | None = None,
        executor: Executor | None = None,
        progress: Progress = None,
    ) -> RowChangeSummary:
        """Give columns new values in the rows that a condition holds for.

        Example:
            table.update({"price": "price * 1.1", "checked": True}, "currency = 'EUR'")

        Args:
            values: By column a value in SQL, computed from the row as it was (text is `"'text'"`), a PyArrow expression
                on `pc.field("target", name)`, or another Python value, which all rows get.
            where: Which rows: SQL text, or a PyArrow expression like those of values; all rows if None.
            parameters: Values for the parameters of the condition, as in `scan`.
            ref: The branch.
            staged: Whether the new snapshot stays beside the branch until it is published; see `append`.
            snapshot_properties: Further entries of the snapshot summary.
            executor: Where files are read and rewritten; threads of this process by default.
            progress: True for a bar, or a callable that gets `JobProgress` records.

        Raises:
            ConflictError: Others changed the same rows, again and again; nothing was changed.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
            FormatError: A condition or value is not SQL.
            SchemaError: A column does not exist, or a value does not fit it.
        """
        from skerry.table.merging import MergeClauses, Update
        from skerry.table.predicate.parameters import settled

        check_instance("values", values, Mapping, "a dict of values by column")
        new = {name: settled(value) for name, value in values.items()}
        clauses = MergeClauses(None, None, Update(new, settled(where, parameters)))
        key, nothing = self._nothing_to_match()
        with progress_callback(progress, "update", self.location) as callback:
            options = WriteOptions(ref, staged, snapshot_properties or {}, executor, callback)
            return self._merge(nothing, key, clauses, False, options)

    def upsert(
        self,
        data: Rows,
        on: str | Sequence[str] | None = None,
        *,
        blind: bool = False,
        ref: str = MAIN,
        staged: bool = False,
        snapshot_properties: Mapping[str, str] | None = None,
        executor: Executor | None = None,
        progress: Progress = None,
    ) -> RowChangeSummary:
        """Update the rows that have the keys of new rows, and insert the new rows whose keys no row has.

        A null in a key matches nothing: such rows are inserted.

        Example:
            table.upsert(changed, on=["id"])

        Args:
            data: The new rows: anything with the Arrow C stream interface, held in memory. Columns of the table that
                they lack stay as they are.
            on: The key columns; those that identify a row of the table if None.
            blind: Do not look at the table: write the keys as equality deletes, whether they are there or not, and the
                rows. Fast to write, slow to read until the table is compacted.
            ref: The branch.
            staged: Whether the new snapshot stays beside the branch until it is published; see `append`.
            snapshot_properties: Further entries of the snapshot summary.
            executor: Where files are read and rewritten; threads of this process by default.
            progress: True for a bar, or a callable that gets `JobProgress` records.

        Raises:
            ConflictError: Others changed the same rows, again and again; nothing was changed.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
            SchemaError: The data does not fit the table, or a key is in it twice; the message names it.
            UnsupportedError: It cannot be done blindly.
        """
        with progress_callback(progress, "upsert", self.location) as callback:
            options = WriteOptions(ref, staged, snapshot_properties or {}, executor, callback)
            return self._upsert(self._typed(data), self._key(on, "upsert"), blind, options)

    def merge(  # noqa: PLR0913  options, by name
        self,
        data: Rows,
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
        progress: Progress = None,
    ) -> RowChangeSummary:
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
            staged: Whether the new snapshot stays beside the branch until it is published; see `append`.
            snapshot_properties: Further entries of the snapshot summary.
            executor: Where files are read and rewritten; threads of this process by default.
            progress: True for a bar, or a callable that gets `JobProgress` records.

        Raises:
            ConflictError: Others changed the same rows, again and again; nothing was changed.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
            FormatError: A condition or value is not SQL.
            SchemaError: The source, a condition or a value does not fit the table, or several rows of the source match
                one row of the table; the message names the key.
            UnsupportedError: It cannot be done blindly.
        """
        from skerry.table.merging import MergeClauses  # not needed for reading

        clauses = MergeClauses(when_matched, when_not_matched, when_not_matched_by_source)
        with progress_callback(progress, "merge", self.location) as callback:
            options = WriteOptions(ref, staged, snapshot_properties or {}, executor, callback)
            return self._merge(self._typed(data), on, clauses, blind, options)

    def apply_changes(  # noqa: PLR0913  options, by name
        self,
        data: Rows,
        on: str | Sequence[str] | None = None,
        *,
        op: str = "op",
        order_by: str | Sequence[str] = (),
        before: str = "before",
        blind: bool = False,
        stream: str | None = None,
        batch: int | None = None,
        query: str | None = None,
        take_over: bool = False,
        ref: str = MAIN,
        staged: bool = False,
        snapshot_properties: Mapping[str, str] | None = None,
        executor: Executor | None = None,
        progress: Progress = None,
    ) -> ChangeSummary:
        """Apply change records: per key the last record by order says what row it has, or that it has none.

        Records that come again change nothing, in the same batch or in a later one that begins where an earlier one
        did not end. If the columns of the order are columns of an Iceberg table, or the `sequence.field` of a Paimon
        table, records that are older than the row they are about do nothing wherever they come.

        Example:
            table.apply_changes(records, on="id", order_by="lsn", stream="orders", batch=17)

        Args:
            data: The records: anything with the Arrow C stream interface, held in memory. Their columns are those of
                the table, of deletes at least the key's, and those named here. Columns of an Iceberg table that they
                lack stay as they are; a Paimon table needs all of them.
            on: The key columns; those that identify a row of the table if None.
            op: The column of op codes: `c`, `r`, `u`, `d` as Debezium writes them, `+I`, `-U`, `+U`, `-D`, or `I`, `U`,
                `D`. The row of a `u` is the one after the change.
            order_by: Columns that order the records of a key, whole numbers, times or texts; the first that differs
                decides. If there are none, records are in the order in which they are given.
            before: A column with a struct of the row before the change, or of its key, if there is one. Where an update
                has changed the key, the row with the old key is deleted.
            blind: Do not look at an Iceberg table: write the keys as equality deletes, whether they are there or not,
                and the rows. The cost does not depend on the table then; readers pay until it is compacted. Paimon
                tables are always written so.
            stream, batch, query, take_over: As of `append`.
            ref: The branch.
            staged: Whether the new snapshot stays beside the branch until it is published; see `append`.
            snapshot_properties: Further entries of the snapshot summary.
            executor: Where files are read and rewritten; threads of this process by default.
            progress: True for a bar, or a callable that gets `JobProgress` records.

        Returns:
            What was done; `applied` says whether it was done now, or the table had the batch.

        Raises:
            ConflictError: Others changed the same rows, again and again; nothing was changed.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
            SchemaError: The records do not fit: an unknown op code, a null in the key or the order, columns or types
                that are not the table's.
            StreamNameError: The stream's name belongs to another query; nothing was changed.
            UnsupportedError: The Paimon table has no primary key or merges rows otherwise; or it cannot be done
                blindly.
        """
        named, typed = stream_batch(stream, batch, query, take_over), self._typed(data)
        order = (order_by,) if isinstance(order_by, str) else tuple(order_by)
        with progress_callback(progress, "apply changes", self.location) as callback:
            options = WriteOptions(ref, staged, snapshot_properties or {}, executor, callback, named)
            return self._apply_changes(typed, self._key(on, "apply_changes"), op, order, before, blind, options)

    def add_files(
        self,
        locations: Iterable[str],
        *,
        ref: str = MAIN,
        staged: bool = False,
        snapshot_properties: Mapping[str, str] | None = None,
        executor: Executor | None = None,
        progress: Progress = None,
    ) -> Snapshot | None:
        """Make Parquet files that exist already part of the table, where they are and as they are.

        From then on they are the table's: `expire_snapshots` may delete them. Columns are found by field id, or by name
        in files that have none; the table then gets a name mapping if it has none yet. Metrics, partition values and
        sketches are computed from the files.

        Args:
            locations: The files.
            ref: The branch to add them to.
            staged: Whether the new snapshot stays beside the branch until it is published; see `append`.
            snapshot_properties: Further entries of the snapshot summary.
            executor: Where files are looked at; threads of this process by default.
            progress: True for a bar, or a callable that gets `JobProgress` records.

        Returns:
            The branch's snapshot.

        Raises:
            AlreadyExistsError: A file is named twice, or the branch has it already.
            FormatError: A file is corrupt, or not Parquet.
            NotFoundError: A file, or the branch, does not exist.
            SchemaError: A file's columns do not fit, its rows belong to several partitions, or it has none.
            UnsupportedError: A file is outside of the table's folder, and the table does not allow that.
        """
        with progress_callback(progress, "add files", self.location) as callback:
            self._add_files(locations, WriteOptions(ref, staged, snapshot_properties or {}, executor, callback))
        return self.current_snapshot(ref)

    # ---- what table formats implement ----

    def _key(self, on: str | Sequence[str] | None, method: str) -> tuple[str, ...]:
        """The key columns of a change: those named, else those that identify a row."""
        if on is not None:
            if isinstance(on, str):
                return (on,)
            check_list("on", on)
            return tuple(on)
        if not self.primary_key and self._needs_key:
            raise SchemaError(f"table {self.name} has no identifier columns: {method} needs on=", location=self.name)
        return tuple(self.primary_key)

    _needs_key = True
    """Whether changes by key need key columns; if not, the format's jobs say what is missing."""

    @abstractmethod
    def _append(self, data: Rows, options: WriteOptions) -> Snapshot | None: ...

    def _append_files(self, files: Iterable[WrittenFile], options: WriteOptions) -> None:
        self._lacks("append_files", "use append")

    def _nothing_to_match(self) -> tuple[tuple[str, ...], pa.Table]:
        """A key, and a source of no rows: every row of the table is one that no row of the source matches."""
        from skerry.table.predicate.literals import family_of

        plain = [field for field in self.schema if family_of(field.type) is not None]
        if not plain:
            raise SchemaError(f"table {self.name} has no column with plain values to find rows by")
        keys = [self.schema.field(name) for name in self.primary_key] or plain[:1]
        return tuple(field.name for field in keys), pa.schema(keys).empty_table()

    @abstractmethod
    def _grown_for(self, data: Rows, schema: str) -> Rows:
        """The data, for which the table has got the columns that it lacked."""

    @abstractmethod
    def _delete(self, where: Condition, options: WriteOptions) -> RowChangeSummary: ...

    @abstractmethod
    def _overwrite(self, data: Rows, where: Condition | None, options: WriteOptions) -> RowChangeSummary: ...

    @abstractmethod
    def _upsert(self, data: Rows, on: tuple[str, ...], blind: bool, options: WriteOptions) -> RowChangeSummary: ...

    @abstractmethod
    def _merge(
        self, data: Rows, on: str | Sequence[str], clauses: MergeClauses, blind: bool, options: WriteOptions
    ) -> RowChangeSummary: ...

    @abstractmethod
    def _apply_changes(
        self,
        data: Rows,
        on: tuple[str, ...],
        op: str,
        order_by: tuple[str, ...],
        before: str,
        blind: bool,
        options: WriteOptions,
    ) -> ChangeSummary: ...

    def _add_files(self, locations: Iterable[str], options: WriteOptions) -> None:
        self._lacks("add_files", "append what they hold")
