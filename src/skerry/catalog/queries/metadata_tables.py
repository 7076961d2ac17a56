"""Metadata tables in queries: `"ns.t$files"` is `table.inspect.files()` of the table `ns.t`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from skerry.catalog.view import View
from skerry.errors import SchemaError
from skerry.planner.tables import AS_OF
from skerry.table.arguments import ColumnSource
from skerry.table.inspection.inspect import Inspect
from skerry.table.predicate import columns_of, parse, row_mask
from skerry.table.rows.row_stream import BoundedStream
from skerry.table.rows.schema import FIELD_ID_KEY
from skerry.table.statistics.column_statistics import ColumnStatistics
from skerry.table.table import Table

if TYPE_CHECKING:
    from skerry.table.table_scan import TableScan

__all__ = ["MetadataTable", "PastTable", "QueryCatalog", "StatementCatalog", "load_relation"]


class QueryCatalog(Protocol):
    """What queries need of a catalog."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    def load_table(self, name: str) -> Table:
        """Load a table."""
        ...

    def load_view(self, name: str) -> View:
        """Load a view."""
        ...

    def table_exists(self, name: str) -> bool:
        """Whether there is a table of that name."""
        ...


class StatementCatalog(QueryCatalog, Protocol):
    """What statements need of a catalog; each method is that of `skerry.catalog.Catalog`."""

    def list_namespaces(self) -> list[str]:
        """All namespaces."""
        ...

    def create_namespace(self, name: str, *, if_not_exists: bool = False) -> None:
        """Create a namespace."""
        ...

    def drop_namespace(self, name: str) -> None:
        """Remove a namespace."""
        ...

    def list_tables(self, namespace: str | None = None) -> list[str]:
        """Names of tables."""
        ...

    def list_views(self, namespace: str | None = None) -> list[str]:
        """Names of views."""
        ...

    def view_exists(self, name: str) -> bool:
        """Whether there is a view of that name."""
        ...

    def create_view(self, name: str, sql: str, *, replace: bool = False) -> View:
        """Create a view."""
        ...

    def drop_view(self, name: str) -> None:
        """Remove a view."""
        ...

    def create_table(
        self,
        name: str,
        schema: ColumnSource,
        *,
        format: str = ...,
        partition_by: Sequence[str] | None = ...,
        primary_key: Sequence[str] | None = ...,
        properties: Mapping[str, str] | None = ...,
        location: str | None = ...,
    ) -> Table:
        """Create a table."""
        ...

    def rename_table(self, name: str, to: str) -> Table:
        """Rename a table."""
        ...

    def drop_table(self, name: str, *, purge: bool = False) -> None:
        """Remove a table."""
        ...


def load_relation(catalog: QueryCatalog, name: str) -> Table | MetadataTable | PastTable:
    """What a name in a query means: a table, or else a metadata table after the last `$`.

    Raises:
        NotFoundError: There is no such table or metadata table; the message suggests the nearest.
        UnsupportedError: The table's format does not have it.
    """
    name, is_past, version = name.partition(AS_OF)
    if is_past:
        return _past(catalog, name, *version.split(":", 1))
    table, dollar, wanted = name.rpartition("$")
    if dollar and not catalog.table_exists(name) and "." in table and catalog.table_exists(table):
        return MetadataTable(catalog.load_table(table).inspect, wanted)
    return catalog.load_table(name)


def _past(catalog: QueryCatalog, name: str, kind: str, value: str) -> PastTable:
    choice: dict[str, Any] = {"ref": value}
    try:
        if kind == "version":
            choice = {"snapshot": int(value)}
        elif kind == "timestamp":
            choice = {"as_of": datetime.fromisoformat(value)}
    except ValueError:
        expected = "the number of a snapshot" if kind == "version" else "a time such as '2024-05-01 12:00:00'"
        raise SchemaError(f"{name} as of {kind} {value!r}: expected {expected}") from None
    return PastTable(catalog.load_table(name), choice)


class PastTable:
    """An older state of a table, or that of a branch or tag, as queries see it.

    Args:
        table: The table.
        choice: Which of its states, as an argument of `Table.scan`.
    """

    def __init__(self, table: Table, choice: dict[str, Any]) -> None:
        self._table = table
        self._choice = choice
        numbers = iter(range(1 << 31))
        self.schema = pa.schema([_with_ids(field, numbers) for field in table.scan(**choice).schema])

    def statistics(self) -> dict[str, ColumnStatistics]:
        """Nothing: distinct counts are of the newest state."""
        return {}

    def scan(self, columns: Sequence[str] | None = None, where: str | None = None) -> TableScan:
        """A scan of that state, as `Table.scan`."""
        return self._table.scan(columns, where, **self._choice)


class MetadataTable:
    """A metadata table as queries see it; read once, with the columns that are needed by then.

    Args:
        inspect: The metadata of its table.
        name: Its name.
        snapshot: Of this snapshot.
        ref: Of the tip of this branch or tag.
    """

    def __init__(self, inspect: Inspect, name: str, *, snapshot: int | None = None, ref: str | None = None) -> None:
        self._inspect = inspect
        self._name = name
        self._snapshot = snapshot
        self._ref = ref
        self._needed: set[str] = set()
        self._rows: pa.Table | None = None
        numbers = iter(range(1 << 31))
        schema = inspect.schema(name)
        self.schema = schema if inspect.has_rows(name) else pa.schema([_with_ids(field, numbers) for field in schema])

    def need(self, columns: Iterable[str]) -> None:
        """Say which columns will be asked for."""
        self._needed |= set(columns)

    def statistics(self) -> dict[str, ColumnStatistics]:
        """Nothing: there are no distinct counts of metadata."""
        return {}

    def scan(
        self, columns: Sequence[str] | None = None, where: str | None = None, *, limit: int | None = None
    ) -> BoundedStream:
        """Some columns of the rows that satisfy a condition, at most `limit` of them.

        Args:
            columns: The columns; if None those that were said to be needed, or else all.
            where: SQL text.
            limit: At most this many rows.

        Raises:
            FormatError: `where` is not a condition, or metadata is corrupt.
            SchemaError: A column does not exist, or `where` does not fit.
        """
        named = self._needed or self.schema.names if columns is None else columns
        wanted = sorted(named, key=self.schema.get_field_index) if columns is None else list(named)
        if self._inspect.has_rows(self._name):
            return self._inspect.rows(
                self._name, columns=wanted, where=where, limit=limit, snapshot=self._snapshot, ref=self._ref
            )
        predicate = parse(where, self.schema)
        needed = {*wanted, *(column.path[0] for column in columns_of(predicate)), *self._needed}
        if self._rows is None or not needed <= set(self._rows.schema.names):
            ordered = sorted(needed, key=self.schema.get_field_index)
            self._rows = self._inspect.read(self._name, snapshot=self._snapshot, ref=self._ref, columns=ordered)
        batches = [batch.filter(row_mask(predicate, batch)) for batch in self._rows.combine_chunks().to_batches()]
        return MetadataScan(pa.Table.from_batches(batches, self._rows.schema).select(wanted).slice(0, limit))


class MetadataScan(BoundedStream):
    """Rows of a metadata table.

    Args:
        rows: The rows.
    """

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows
        self.schema = rows.schema

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as a stream."""
        return self._rows.to_reader()

    def row_bounds(self) -> tuple[int, int]:
        """How many rows there are, twice."""
        return self._rows.num_rows, self._rows.num_rows


def _with_ids(field: pa.Field, numbers: Iterable[int]) -> pa.Field:
    """A field with ids, by which conditions find their columns."""
    type_ = field.type
    if pa.types.is_struct(type_):
        type_ = pa.struct([_with_ids(child, numbers) for child in type_])
    return field.with_type(type_).with_metadata({FIELD_ID_KEY: str(next(iter(numbers))).encode()})
