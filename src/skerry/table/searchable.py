"""What finds rows of a table of any format by indexes, and what makes these."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from skerry.arguments import check_list, check_whole_number
from skerry.errors import NotFoundError, SchemaError, UnsupportedError
from skerry.table.arguments import SearchOptions
from skerry.table.movable import MovableTable
from skerry.table.rows.schema import nearest
from skerry.table.work.progress import Progress, progress_callback

if TYPE_CHECKING:
    import pyarrow as pa

    from skerry.table.arguments import Condition
    from skerry.table.summaries import IndexAdvice, IndexSummary, TableIndex
    from skerry.table.work.tasks import Executor, ProgressCallback

__all__ = ["SearchableTable"]


class SearchableTable(MovableTable):
    """A table whose columns can be indexed and searched."""

    def create_index(
        self,
        columns: Sequence[str],
        *,
        kind: str = "hash",
        tokenizer: str | None = None,
        executor: Executor | None = None,
        progress: Progress = None,
    ) -> IndexSummary:
        """Index columns: set the table properties that ask for it, and index the data files that there are.

        Every commit that adds files indexes them, but for `btree`, which is left to `index`. Results never depend on an
        index: see docs/indexes.md.

        Example:
            table.create_index(["trace_id"])  # scan(where="trace_id = '4bf9'") now opens the files that have it
            table.create_index(["message"], kind="text", tokenizer="unicode-log")

        Args:
            columns: Columns, or fields of structs after dots: strings, binaries, integers and booleans for `hash`,
                strings for `text`; for `btree` top-level ones: strings, integers, days, timestamps of at most 6 and
                decimals of at most 18 digits.
            kind: `hash` finds rows by value, `text` by words. `btree` is the global index of Paimon's own format, by
                values and ranges, in tables with `data-evolution.enabled`.
            tokenizer: What a word is: `unicode-word` (by default), `unicode-log` or `trivial`; only for `text`.
            executor: Where to read the data files; threads of this process by default.
            progress: True for a bar, or a callable that gets `JobProgress` records.

        Raises:
            NotFoundError: A column does not exist.
            SchemaError: An argument is none of these.
            UnsupportedError: A column cannot be indexed so, or nothing can be written to the table.
        """
        check_list("columns", columns)
        from skerry.table.indexes.definitions import GLOBAL_KIND, IndexDefinition

        if kind == GLOBAL_KIND:
            if tokenizer is not None:
                raise SchemaError("a btree index has no tokenizer")
            self.storage.check_writable(self.location)
            with progress_callback(progress, "index", self.location) as callback:
                return self._create_global_index(tuple(columns), executor, callback)
        value = kind if tokenizer is None else f"{kind}:{tokenizer}"
        wanted = [IndexDefinition.parse(column, value) for column in columns]
        for definition in wanted:
            definition.field_id(self.schema)
        if wanted:
            self.set_properties({definition.property: definition.value for definition in wanted})
        return self.index(executor=executor, progress=progress)

    def drop_index(self, columns: Sequence[str]) -> None:
        """Stop indexing columns. Files of indexes that nothing names any more are orphans.

        Args:
            columns: The columns.

        Raises:
            NotFoundError: A column has no index.
        """
        check_list("columns", columns)
        from skerry.table.indexes.definitions import index_definitions

        known = {definition.column: definition.property for definition in index_definitions(self.properties)}
        in_format = set(self._globally_indexed()) if columns else set()
        for column in columns:
            if column not in known and column not in in_format:
                raise NotFoundError(f"column {column!r} has no index{nearest(column, {*known, *in_format})}")
        if found := [known[column] for column in columns if column in known]:
            self.remove_properties(*found)
        if found := [column for column in columns if column in in_format]:
            self._drop_global_index(found)

    def indexes(self) -> list[TableIndex]:
        """The table's indexes, and how many data files of the current snapshot have them."""
        from skerry.table.summaries import TableIndexes

        return TableIndexes(self._indexes())

    def index(self, *, executor: Executor | None = None, progress: Progress = None) -> IndexSummary:
        """Build the indexes that data files lack, those of other writers too, and publish them at once.

        An Iceberg table gets new metadata, a Paimon table no new snapshot, but for `btree` indexes.

        Args:
            executor: Where to read the data files; threads of this process by default.
            progress: True for a bar, or a callable that gets `JobProgress` records.

        Raises:
            ConflictError: Other writers won every race; the files written were removed.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
            UnsupportedError: Nothing can be written to the table.
        """
        self.storage.check_writable(self.location)
        with progress_callback(progress, "index", self.location) as callback:
            return self._index(executor, callback)

    def advise_indexes(self, conditions: Iterable[Condition]) -> list[IndexAdvice]:
        """What indexes by value would have saved for conditions of the past, by metadata and sketches alone.

        The rows of a value are assumed to be anywhere in the files that partitions and bounds leave: where they lie
        together, more is left out. Columns that have an index, and those whose count of distinct values is unknown, are
        not among the results.

        Example:
            table.advise_indexes(["trace_id = '4bf92f35'", "user = 7 AND day = DATE '2024-05-01'"])

        Args:
            conditions: The conditions of queries, as for `scan`; a query that was asked twice counts twice.

        Returns:
            A report for each column that a hash index would help with, the most useful first.

        Raises:
            FormatError: A condition is not valid.
            SchemaError: It does not fit the table's columns.
        """
        from skerry.table.indexes.advising import advise
        from skerry.table.summaries import IndexAdvices

        return IndexAdvices(advise(self, conditions))

    def search(
        self,
        column: str,
        query: str,
        *,
        columns: Sequence[str] | None = None,
        where: Condition | None = None,
        limit: int | None = None,
        snapshot: int | None = None,
        threads: int | None = None,
    ) -> pa.Table:
        """Find rows by words; a text index of the column makes it fast.

        Rows of the newest files come first, except in tables with a primary key.

        Words are those of the column's index: runs of letters and digits where there is none. Case does not matter.

        Example:
            table.search("message", 'timeout AND "connection reset"', columns=["ts", "message"], limit=20)

        Args:
            column: A column of strings, or a field of structs after dots.
            query: Words, all of which must be there; a phrase in double quotes; AND, OR, NOT and round brackets; a star
                at the end of a word for any end.
            columns: Columns to return, as for `scan`; all by default.
            where: Further conditions, as for `scan`.
            limit: At most this many rows.
            snapshot: Search this snapshot; the current one by default.
            threads: As for `scan`.

        Returns:
            The rows that match.

        Raises:
            NotFoundError: The column or the snapshot does not exist.
            SchemaError: The column does not hold strings, or the query lacks something.
        """
        check_whole_number("limit", limit, 0)
        check_list("columns", columns)
        return self._search(SearchOptions(column, query, columns, where, limit, snapshot, threads))

    def search_count(
        self,
        column: str,
        query: str,
        *,
        where: Condition | None = None,
        snapshot: int | None = None,
        threads: int | None = None,
    ) -> int:
        """Count the rows that `search` finds; of the other columns only those of `where` are read.

        Example:
            table.search_count("message", "timeout", where="ts >= TIMESTAMP '2024-05-01 00:00:00'")

        Args:
            column: As for `search`.
            query: As for `search`.
            where: As for `search`.
            snapshot: As for `search`.
            threads: As for `scan`.

        Raises:
            NotFoundError, SchemaError: As for `search`.
        """
        return self._search_count(SearchOptions(column, query, (), where, None, snapshot, threads))

    def follow(
        self,
        column: str,
        query: str,
        *,
        columns: Sequence[str] | None = None,
        where: Condition | None = None,
        after: int | None = None,
        every_s: float = 1.0,
    ) -> Iterator[pa.Table]:
        """Find rows by words as they come: those that commits add from now on, whoever makes them.

        Rows that are updated are found again with their new values; what compaction writes again is not. The table is
        refreshed.

        Example:
            for found in table.follow("message", "timeout OR refused", columns=["ts", "message"]):
                print(found.to_pylist())

        Args:
            column: As for `search`.
            query: As for `search`.
            columns: As for `search`.
            where: As for `search`.
            after: Begin after this snapshot; after the current one by default.
            every_s: How often to look for new snapshots, in seconds.

        Yields:
            The rows of one or more commits that match, at least one; without end.

        Raises:
            NotFoundError, SchemaError: As for `search`; or snapshots expired before they were looked at, or the table
                was rolled back.
        """
        check_list("columns", columns)
        from skerry.table.indexes.following import follow

        options = SearchOptions(column, query, columns, where, snapshot=after)
        return follow(self, options, every_s)

    def _create_global_index(
        self, columns: tuple[str, ...], executor: Executor | None, progress: ProgressCallback | None
    ) -> IndexSummary:
        raise UnsupportedError("btree indexes are of Paimon tables only", location=self.location)

    def _globally_indexed(self) -> Sequence[str]:
        """The columns that have an index of the table's format."""
        return ()

    def _drop_global_index(self, columns: Sequence[str]) -> None:
        raise AssertionError(columns)

    @abstractmethod
    def _index(self, executor: Executor | None, progress: ProgressCallback | None) -> IndexSummary: ...

    @abstractmethod
    def _indexes(self) -> list[TableIndex]: ...

    @abstractmethod
    def _search_count(self, options: SearchOptions) -> int: ...

    @abstractmethod
    def _search(self, options: SearchOptions) -> pa.Table: ...
