"""What can be asked of a table of any format: its identity, its history, its rows and its statistics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime
from numbers import Integral
from operator import methodcaller
from typing import TYPE_CHECKING, Any, NoReturn, Self

import pyarrow as pa

from skerry.arguments import check_instance, check_list
from skerry.errors import SchemaError, UnsupportedError
from skerry.storage import Storage
from skerry.table.arguments import Condition, Keys, Moment, Parameters, moment_of
from skerry.table.history import MAIN, History, Ref, Snapshot
from skerry.table.statistics.by_column import Statistics
from skerry.table.statistics.column_statistics import ColumnStatistics, Freshness

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars

    from skerry.table.files.data_file import DataFile
    from skerry.table.inspection.inspect import Inspect
    from skerry.table.rows.row_stream import RowStream
    from skerry.table.table_scan import TableScan

__all__ = ["ReadableTable"]


class ReadableTable(ABC):
    """A table that can be read.

    It shows the state that was newest when it was loaded or last changed through it; `refresh` loads the newest.
    """

    _catalog: Any = None
    _opening: Callable[[], Self] | None = None
    """Opens the table again where there is no catalog."""

    # ---- identity ----

    @property
    @abstractmethod
    def name(self) -> str:
        """`namespace.table`."""

    @property
    @abstractmethod
    def format(self) -> str:
        """The table format: `iceberg` or `paimon`."""

    @property
    @abstractmethod
    def format_version(self) -> int:
        """The version of the table format."""

    @property
    @abstractmethod
    def location(self) -> str:
        """The folder of the table's files."""

    @property
    @abstractmethod
    def metadata_location(self) -> str:
        """The metadata file of the state at hand."""

    @property
    @abstractmethod
    def version(self) -> str:
        """What distinguishes the state at hand from others of the table: other rows or columns are another version."""

    @property
    @abstractmethod
    def storage(self) -> Storage:
        """Access to the table's files; may hold credentials."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The current schema.

        The metadata of each field has its id, under `PARQUET:field_id`.
        """

    @property
    @abstractmethod
    def properties(self) -> dict[str, str]:
        """The table properties."""

    @property
    @abstractmethod
    def partition_by(self) -> list[str]:
        """The partition transforms, as `create_table` takes them."""

    @property
    @abstractmethod
    def sort_by(self) -> list[str]:
        """The sort order, as `create_table` takes it."""

    @property
    @abstractmethod
    def primary_key(self) -> list[str]:
        """The columns that identify a row (Iceberg's identifier fields, Paimon's primary key); empty if none do."""

    @abstractmethod
    def refresh(self) -> Self:
        """Load the newest state.

        Raises:
            NotFoundError: The table is gone, or another one has taken its name.
        """

    def __repr__(self) -> str:
        snapshot = self.current_snapshot()
        return f"Table({self.name!r}, format={self.format!r}, snapshot={snapshot.snapshot_id if snapshot else None})"

    def _repr_html_(self) -> str:
        from skerry.table.display import table_html

        snapshot = self.current_snapshot()
        summary = snapshot.summary if snapshot is not None else {}
        totals = {"rows": "total-records", "bytes": "total-files-size", "files": "total-data-files"}
        counted = {name: int(summary[key]) for name, key in totals.items() if summary.get(key, "").isdecimal()}
        facts = {
            "format": f"{self.format} {self.format_version}",
            **counted,
            "last commit": None if snapshot is None else snapshot.timestamp,
            "snapshot id": None if snapshot is None else snapshot.snapshot_id,
            "partitions": ", ".join(self.partition_by),
            "sorted by": ", ".join(self.sort_by),
            "primary key": ", ".join(self.primary_key),
        }
        return table_html(self.name, facts, self.schema)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle its name and what its catalog was opened with; it is loaded again, in its newest state.

        Raises:
            UnsupportedError: The catalog was given a secret, or the table has no catalog.
        """
        if self._opening is not None:
            return self._opening, ()
        if self._catalog is None:
            raise UnsupportedError(
                "the table was opened without a catalog and is not pickled: send its location", location=self.name
            )
        return methodcaller("load_table", self.name), (self._catalog,)

    @property
    @abstractmethod
    def inspect(self) -> Inspect:
        """The table's metadata as Arrow tables: files with their metrics, manifests, partitions, snapshots and others.

        Example:
            table.inspect.files(columns=["file_path", "record_count"])
        """

    # ---- history ----

    @abstractmethod
    def snapshots(self) -> Sequence[Snapshot]:
        """All snapshots that have not expired, oldest first.

        They are described as they are looked at: the number of them and the last one cost little.
        """

    @abstractmethod
    def current_snapshot(self, ref: str = MAIN) -> Snapshot | None:
        """The snapshot that a scan of a branch or tag reads; None for a table without rows so far.

        Raises:
            NotFoundError: There is no such branch or tag.
        """

    def refs(self) -> dict[str, Ref]:
        """All branches and tags by name, with what they hold on to: `main` first, then in alphabetical order.

        Example:
            table.refs()["audit"].snapshot_id
        """
        return {ref.name: ref for ref in sorted(self._refs(), key=lambda ref: (ref.name != MAIN, ref.name))}

    @abstractmethod
    def history(self) -> History:
        """When which snapshot became the current one, oldest first: pairs `(timestamp, snapshot_id)`."""

    # ---- rows ----

    @abstractmethod
    def files(self) -> list[DataFile]:
        """The data files of the current snapshot."""

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: Condition | None = None,
        *,
        parameters: Parameters | None = None,
        limit: int | None = None,
        snapshot: int | None = None,
        ref: str | None = None,
        as_of: Moment | None = None,
    ) -> TableScan:
        """Describe a read; nothing is read until one of the scan's methods asks for rows.

        Example:
            table.scan(["carrier", "delay"], "delay > 60", ref="audit").to_arrow()

        Args:
            columns: Names of the columns to read, nested ones dotted; all if None. Of Iceberg tables also values inside
                of variants, `variant_get(column, '$.path', 'type') AS name`.
            where: Which rows: SQL text, a PyArrow expression, or filters as `pyarrow.parquet.read_table` takes them: a
                list of `(column, operator, value)` that must all hold, or a list of such lists.
            parameters: Values for `?` and `$1` in the text of the condition, or for `$name` by name.
            limit: At most this many rows.
            snapshot: Read this snapshot.
            ref: Read the tip of this branch or tag.
            as_of: Read what was current at this time: a datetime, date or ISO text (UTC if it has no zone), or a
                timedelta before now.

        Returns:
            The scan. Snapshots and tags are read with the schema of their time, branches with the table's.

        Raises:
            FormatError: `where` is not a condition.
            NotFoundError: There is no such snapshot or reference, or nothing was current at that time.
            SchemaError: More than one of `snapshot`, `ref` and `as_of` is given, or `columns` or `where` do not fit.
        """
        check_list("columns", columns)
        if snapshot is not None and not isinstance(snapshot, Integral):
            raise SchemaError(f"snapshot takes the number of a snapshot, found {type(snapshot).__name__}: {snapshot!r}")
        if ref is not None:
            check_instance("ref", ref, str, "the name of a branch or tag")
        return self._scan(columns, self._settled(where, parameters), limit, snapshot, ref, moment_of("as_of", as_of))

    def head(self, rows: int = 5) -> pa.Table:
        """Some rows: the first that a scan gives."""
        return self.scan(limit=rows).to_arrow()

    def count(self, where: Condition | None = None, *, parameters: Parameters | None = None) -> int:
        """The number of rows, or of those that a condition holds for; of all rows metadata often says it."""
        return self.scan([], where, parameters=parameters).count()

    def to_arrow(self) -> pa.Table:
        """All rows as a PyArrow table."""
        return self.scan().to_arrow()

    def to_pandas(self) -> pandas.DataFrame:
        """All rows as a pandas frame; MissingDependencyError without pandas."""
        return self.scan().to_pandas()

    def lazy(self) -> polars.LazyFrame:
        """The table as a lazy frame of Polars: its filters, columns and limits become those of the scan.

        Rows are those of the snapshot that is current now, whenever they are collected.

        Raises:
            MissingDependencyError: Polars is not installed.
        """
        from skerry.table.lazy_frame import lazy_frame

        whole = self.scan()
        pinned = whole.snapshot_id

        def scan(
            columns: list[str] | None, where: str | None, *, parameters: list[Any] | None, limit: int | None
        ) -> TableScan:
            return self.scan(columns, where, parameters=parameters, limit=limit, snapshot=pinned)

        return lazy_frame(scan, whole.schema, self.name)

    def to_polars(self) -> polars.DataFrame:
        """All rows as a Polars frame; MissingDependencyError without Polars."""
        return self.scan().to_polars()

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """All rows as a DuckDB relation, of the default connection if None; MissingDependencyError without DuckDB."""
        return self.scan().to_duckdb(connection)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """All rows as an Arrow stream: Polars, DuckDB, pandas and `append` of another table take a table as it is."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def lookup(
        self,
        keys: Keys,
        columns: Sequence[str] | None = None,
        *,
        snapshot: int | None = None,
        ref: str | None = None,
        as_of: Moment | None = None,
    ) -> pa.Table:
        """Look rows up by primary key, reading only what can hold them; tables with keys that are merged have it.

        What was read stays in memory, up to a limit: use one table for many look-ups.

        Example:
            table.lookup([17, 4711], ["amount"])

        Args:
            keys: Values of the primary key: Arrow data with its columns, a list of dictionaries or of tuples, or of
                plain values if the key is one column.
            columns: As in `scan`, as are the following.
            snapshot: Read this snapshot.
            ref: Read the tip of this branch or tag.
            as_of: Read what was current at this time.

        Returns:
            For each key that has a row that row, in the order of the keys.

        Raises:
            NotFoundError: There is no such snapshot or reference, or nothing was current at that time.
            SchemaError: Keys or columns do not fit the table, or it has no primary key.
            UnsupportedError: The table's format has no look-ups.
        """
        return self._lookup(keys, self.scan(columns, snapshot=snapshot, ref=ref, as_of=as_of))

    def changes(
        self,
        from_snapshot: int | str | None = None,
        to_snapshot: int | str | None = None,
        *,
        columns: Sequence[str] | None = None,
        where: Condition | None = None,
        on: Sequence[str] | None = None,
        carried_over: bool = False,
    ) -> RowStream:
        """Describe what happened to the rows between two snapshots; nothing is read until one asks for them.

        Only files that commits added, removed or deleted rows of are read. Compaction changes nothing, and rows that a
        commit only copied into another file are left out.

        Args:
            from_snapshot: The older snapshot, by id or by the name of a branch or tag; changes after it are reported.
                From the table's beginning if None.
            to_snapshot: The newer snapshot, likewise; the current one if None.
            columns: Names of the columns to read, nested ones dotted; all if None.
            where: Only changes of rows for which this is true: SQL text, a PyArrow expression or filters as in `scan`.
            on: Columns that identify a row, so that an update is reported as its two images. If None the table's
                identifier columns, and without them the row ids of version 3 tables; `[]` for deletes and inserts only.
            carried_over: Whether rows that were only copied are reported as well, as deletes and inserts.

        Returns:
            An Arrow stream (also `to_batches()`, `to_arrow()`) of the columns and `_change_type` (`INSERT`, `DELETE`,
            `UPDATE_BEFORE`, `UPDATE_AFTER`), `_change_ordinal` and `_commit_snapshot_id`.

        Raises:
            NotFoundError: There is no such snapshot, or snapshots between the two have expired.
            SchemaError: The older one is not an ancestor of the newer one, or a column does not exist.
        """
        return self._changes(from_snapshot, to_snapshot, columns, where, on, carried_over)

    # ---- statistics ----

    def statistics(self, where: Condition | None = None) -> Statistics:
        """What is known about every primitive column, by dotted name in schema order.

        Example:
            print(table.statistics()["tailnum"].ndv, table.statistics()["tailnum"].freshness)

        Args:
            where: Only of the rows that a condition holds for, as in `scan`. No data file is read:
                where metadata leaves open which rows match, the counts are upper bounds and say so.

        Returns:
            A dictionary that is also `to_arrow()` and `to_pandas()`, and a table in a notebook.

        Raises:
            FormatError: `where` is not a condition.
            SchemaError: `where` does not fit the table's columns.
        """
        return Statistics(self._statistics(where))

    @abstractmethod
    def freshness(self) -> dict[str, Freshness]:
        """How far the distinct count of every primitive column holds, without a look at the data."""

    # ---- what table formats implement ----

    @abstractmethod
    def _refs(self) -> list[Ref]:
        """All branches and tags, in any order."""

    def _typed(self, data: Any) -> Any:
        """Data whose values have no types of their own, such as records and CSV files, with those of the columns."""
        from skerry.table.rows.incoming import has_types, open_stream  # not needed for reading

        return data if has_types(data) else open_stream(data, self.schema)

    def _settled(self, where: Condition | None, parameters: Parameters | None) -> Condition | None:
        """A condition with its parameters' values, in which the present stays the same."""
        if not isinstance(where, str) and parameters is None:
            return where
        from skerry.table.predicate.parameters import settled  # not needed by what has no conditions

        found: Condition | None = settled(where, parameters)
        return found

    @abstractmethod
    def _scan(
        self,
        columns: Sequence[str] | None,
        where: Condition | None,
        limit: int | None,
        snapshot: int | None,
        ref: str | None,
        as_of: datetime | None,
    ) -> TableScan: ...

    def _lookup(self, keys: Keys, scan: TableScan) -> pa.Table:
        self._lacks("look-ups by key", "scan with a condition on the columns")

    @abstractmethod
    def _changes(
        self,
        from_snapshot: int | str | None,
        to_snapshot: int | str | None,
        columns: Sequence[str] | None,
        where: Condition | None,
        on: Sequence[str] | None,
        carried_over: bool,
    ) -> RowStream: ...

    @abstractmethod
    def _statistics(self, where: Condition | None) -> dict[str, ColumnStatistics]: ...

    def _lacks(self, what: str, instead: str) -> NoReturn:
        """Say that the table's format does not have something, and what to do instead."""
        raise UnsupportedError(f"{self.format.capitalize()} tables have no {what}: {instead}", location=self.name)
