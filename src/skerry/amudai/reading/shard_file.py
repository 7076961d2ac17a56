"""Shards as tables: open a shard, and read its columns and rows.

table = amudai.read_table("flights.amudai.shard", columns=["carrier"], filters=[("year", "=", 2013)])
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.amudai.fields.selection import Selection
from skerry.amudai.indexes.leaves import find_leaf, leaf_type
from skerry.amudai.reading.column_types import TICKS_PER_MICROSECOND, choose_schema, stored_schemas, with_types
from skerry.amudai.reading.properties import PropertyBag
from skerry.amudai.reading.scanning import ScanPlan, ThisThread, join_tables, read_values, split_batches
from skerry.amudai.reading.shard_indexes import ShardIndexes, SoughtValues
from skerry.amudai.reading.shard_metadata import ShardMetadata
from skerry.amudai.reading.taking import read_positions, split_by_stripe
from skerry.amudai.reading.text_scan import TextScan
from skerry.amudai.shard.schema import BasicType, DataType, Schema
from skerry.amudai.statistics.descriptors import FieldStatistics, decode_statistics
from skerry.arguments import check_list, check_whole_number
from skerry.errors import FormatError, NotFoundError, SchemaError
from skerry.filters import Filters
from skerry.storage import Storage, absolute, storage_of
from skerry.threads import StreamThreads

__all__ = ["ShardFile", "read_table"]

BATCH_ROWS: Final = 1 << 16
_WINDOW_ROWS: Final = 1 << 18
"""Rows that are decoded at once when batches are read; a stripe may have more."""


def read_table(
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    filters: Filters | None = None,
    schema: pa.Schema | None = None,
    use_threads: bool = True,
    allowed_locations: Iterable[str] = (),
    storage: Storage | None = None,
    options: Mapping[str, str] | None = None,
) -> pa.Table:
    """Read a shard as a table, as `pyarrow.parquet.read_table` reads a Parquet file.

    Example:
        amudai.read_table("flights.amudai.shard", columns=["carrier"], filters=[("month", "=", 3), ("delay", ">", 60)])

    Args:
        path: Path or URL of the shard's root file.
        columns: Names or aliases of the columns, in the order of the result; all by default.
        filters: Which rows: a PyArrow expression, a list of `(column, operator, value)` that must all hold, or a list
            of such lists. Operators are `=`, `==`, `!=`, `<`, `>`, `<=`, `>=`, `in`, `not in`; columns are names or
            aliases.
        schema: Types to read some columns as, instead of those that the shard suggests.
        use_threads: Whether columns are decoded by several threads.
        allowed_locations: Folders, apart from that of the root, in which files that the shard refers to may be.
        storage: Where to read; by default one made of `options`.
        options: Storage options such as credentials.

    Returns:
        The table. Rows that are marked as deleted are left out.

    Raises:
        NotFoundError: There is no such file, or no such column in `columns`.
        FormatError: The shard is damaged.
        UnsupportedError: It is stored in a way that cannot be read, or refers to a folder that is not allowed.
        SchemaError: `filters` do not fit the columns, or a value does not fit the type that its column is read as.
    """
    shard = ShardFile(path, schema=schema, allowed_locations=allowed_locations, storage=storage, options=options)
    return shard.read(columns=columns, filters=filters, use_threads=use_threads)


class ShardFile:
    """A shard, open for reading. Holds no open handle; may be used from many threads.

    Example:
        shard = amudai.ShardFile("s3://lake/flights.amudai.shard", options={"s3.region": "eu-west-1"})
        shard.take([17, 4, 300_000], columns=["carrier"])

    Args:
        path: Path or URL of the shard's root file.
        schema: Types to read some columns as, instead of those that the shard suggests.
        allowed_locations: Folders, apart from that of the root, in which files that the shard refers to may be.
        file_size: The root's size in bytes, if it is known: saves asking the store.
        indexes: Paths or URLs of files that hold descriptors of indexes to which the shard does not refer itself, one
            bare `IndexDescriptor` message each.
        storage: Where to read; by default one made of `options`.
        options: Storage options such as credentials.

    Raises:
        NotFoundError: There is no such file.
        FormatError: It is not a sound shard.
        UnsupportedError: Its version is unknown.
        SchemaError: A column cannot be read as `schema` says.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        schema: pa.Schema | None = None,
        allowed_locations: Iterable[str] = (),
        file_size: int | None = None,
        indexes: Sequence[str | os.PathLike[str]] = (),
        storage: Storage | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        check_list("allowed_locations", allowed_locations, "paths")
        check_list("indexes", indexes, "paths")
        storage = storage_of(storage, options)
        allowed = [absolute(folder) for folder in allowed_locations]
        self.metadata = ShardMetadata(storage, absolute(path), allowed_locations=allowed, file_size=file_size)
        self._indexes = ShardIndexes(self.metadata, storage, [absolute(each) for each in indexes], allowed)
        self._leaves: dict[str, tuple[DataType, pa.DataType]] = {}
        self._asked = schema
        if schema is not None:
            _ = self.schema  # refuses types that do not go with the columns

    @property
    def location(self) -> str:
        """Location of the root file."""
        return self.metadata.location

    @property
    def num_rows(self) -> int:
        """Rows that are not marked as deleted."""
        return self.metadata.record_count

    @property
    def num_stripes(self) -> int:
        """How many stripes there are."""
        return len(self.metadata.stripes)

    @property
    def shard_schema(self) -> Schema:
        """The schema as the format has it, internal fields included."""
        return self.metadata.schema

    @property
    def properties(self) -> PropertyBag:
        """The shard's properties."""
        return self.metadata.properties

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the columns."""
        return self._arrow_schema(internal=False)

    def _arrow_schema(self, *, internal: bool) -> pa.Schema:
        stored = stored_schemas(self.metadata.properties_message)
        schema = choose_schema(
            self.shard_schema, stored, self._statistics_of, self._are_microseconds, internal=internal
        )
        if self._asked is None:
            return schema
        nodes = {field.name: field.data_type for field in self.shard_schema.fields}
        return with_types(schema, self._asked, nodes)

    def _statistics_of(self, node: DataType) -> list[FieldStatistics]:
        """Statistics of a node, from the shard's descriptor or those of the stripes; none if one is missing."""
        try:
            found = self.metadata.statistics(node)
        except FormatError:
            found = None  # the shard was moved, and what its descriptors' urls name is something else
        if found is not None and found.range is not None:
            return [found]
        of_stripes = self.node_statistics(node)
        return [each for each in of_stripes if each is not None] if all(of_stripes) else []

    def _are_microseconds(self, node: DataType) -> bool:
        """Whether a node's ticks are all whole microseconds, which only reading them shows."""
        kind = pa.uint64() if node.basic_type is BasicType.DATE_TIME else pa.int64()
        readers = self.metadata.stripe_readers()
        self.metadata.load_descriptors(readers, [node])
        for reader in readers:
            message = reader.fields.descriptor(node)
            count = 0 if message is None else int(message.field.position_count)
            for start in range(0, count, _WINDOW_ROWS):
                rows = Selection.range(start, min(start + _WINDOW_ROWS, count))
                ticks = read_values(reader, node, rows, kind).drop_null().to_numpy()
                if (ticks % TICKS_PER_MICROSECOND).any():
                    return False
        return True

    def statistics(self, column: str) -> FieldStatistics | None:
        """Statistics of a column in the whole shard: range, nulls, NaNs, distinct count; None if there are none.

        Raises:
            NotFoundError: There is no such column.
        """
        return self.metadata.statistics(self.shard_schema.field(column).data_type)

    def stripe_statistics(self, column: str) -> list[FieldStatistics | None]:
        """Statistics of a column in each stripe; None for a stripe without them.

        Raises:
            NotFoundError: There is no such column.
        """
        return self.node_statistics(self.shard_schema.field(column).data_type)

    def node_statistics(self, node: DataType) -> list[FieldStatistics | None]:
        """Statistics of any node of the shard's schema, nested ones too, in each stripe."""
        readers = self.metadata.stripe_readers()
        self.metadata.load_descriptors(readers, [node])
        found = [reader.fields.descriptor(node) for reader in readers]
        shown = self.metadata.shown
        return [None if each is None else decode_statistics(node, each.field, location=shown) for each in found]

    def read(
        self,
        *,
        columns: Sequence[str] | None = None,
        filters: Filters | None = None,
        stripes: Sequence[int] | None = None,
        use_threads: bool = True,
        internal_fields: bool = False,
    ) -> pa.Table:
        """Read the shard, or some of its stripes, as a table.

        Example:
            shard.read(columns=["carrier"], filters=[("month", "in", [3, 4])], stripes=[0])

        Args:
            columns: Names or aliases, in the order of the result; all columns by default.
            filters: Which rows, as for `read_table`.
            stripes: Ordinals of stripes; all by default.
            use_threads: Whether columns are decoded by several threads.
            internal_fields: Whether fields that are not columns of the table are read too, and rows that are marked as
                deleted.

        Returns:
            The table; a chunk of a column is a stripe, or less.

        Raises:
            NotFoundError: There is no such column in `columns`, or no such stripe.
            FormatError: The shard is damaged.
            UnsupportedError: It is stored in a way that cannot be read.
            SchemaError: `filters` do not fit the columns, or a value does not fit the type that its column is read as.
        """
        plan = self._plan(columns, filters, internal_fields)
        check_list("stripes", stripes, "whole numbers")
        readers = self.metadata.stripe_readers(stripes)
        self.metadata.load_descriptors(readers, plan.nodes())
        threads = (os.cpu_count() or 1) if use_threads else 1
        with StreamThreads(threads) if threads > 1 else ThisThread() as pool:
            parts = [plan.start(reader, Selection.range(0, reader.row_count), pool) for reader in readers]
            tables = [part() for part in parts]
        return join_tables(tables, plan.schema)

    def iter_batches(
        self,
        batch_size: int = BATCH_ROWS,
        *,
        columns: Sequence[str] | None = None,
        filters: Filters | None = None,
        stripes: Sequence[int] | None = None,
        use_threads: bool = True,
        internal_fields: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Read the shard in batches, stripe by stripe; memory is bounded by some hundred thousand rows.

        Example:
            for batch in shard.iter_batches(10_000, columns=["carrier"]): ...

        Args:
            batch_size: At most this many rows in a batch.
            columns: Names or aliases; all columns by default.
            filters: Which rows, as for `read_table`.
            stripes: Ordinals of stripes; all by default.
            use_threads: Whether columns are decoded by several threads.
            internal_fields: As for `read`.

        Yields:
            Batches; none is empty.

        Raises:
            SchemaError: `batch_size` is less than 1, and as for `read`.
            NotFoundError, FormatError, UnsupportedError: As for `read`.
        """
        check_whole_number("batch_size", batch_size, 1)
        check_list("stripes", stripes, "whole numbers")
        plan = self._plan(columns, filters, internal_fields)
        window = max(_WINDOW_ROWS // batch_size, 1) * batch_size
        threads = (os.cpu_count() or 1) if use_threads else 1
        with StreamThreads(threads) if threads > 1 else ThisThread() as pool:
            for ordinal in range(self.num_stripes) if stripes is None else stripes:
                (reader,) = self.metadata.stripe_readers([ordinal])
                reader.load_descriptors(plan.nodes())
                for start in range(0, reader.row_count, window):
                    rows = Selection.range(start, min(start + window, reader.row_count))
                    yield from split_batches(plan.start(reader, rows, pool)(), batch_size)

    def _plan(self, columns: Sequence[str] | None, filters: Filters | None, internal_fields: bool) -> ScanPlan:
        arrow = self._arrow_schema(internal=True) if internal_fields else self.schema
        return ScanPlan(
            self.shard_schema, arrow, columns, filters, keeps_deleted=internal_fields, indexes=self._indexes
        )

    def take(self, rows: Sequence[int] | npt.NDArray[np.integer], *, columns: Sequence[str] | None = None) -> pa.Table:
        """Read rows by their positions in the shard; reads the blocks that hold them and nothing else.

        Example:
            shard.take([17, 4, 300_000], columns=["carrier"])

        Args:
            rows: Positions, in any order, repeated at will. Rows that are marked as deleted count, and are read.
            columns: Names or aliases; all columns by default.

        Returns:
            The rows in the order asked for.

        Raises:
            NotFoundError: There is no such column, or no such row.
            SchemaError: Something is not a position.
        """
        total = int(self.metadata.directory.total_record_count)
        wanted = self._positions(rows, total)
        distinct, places = np.unique(wanted, return_inverse=True)
        table = self._take(distinct, ScanPlan(self.shard_schema, self.schema, columns, keeps_deleted=True))
        in_order = len(places) == len(distinct) and bool((places[1:] > places[:-1]).all())
        return table if in_order else _reordered(table, pa.array(places))

    def _take(self, positions: npt.NDArray[np.int64], plan: ScanPlan) -> pa.Table:
        """The rows at ascending, distinct positions."""
        parts = split_by_stripe(self.metadata, positions)
        readers = self.metadata.stripe_readers([ordinal for ordinal, _ in parts])
        self.metadata.load_descriptors(readers, plan.nodes())
        return read_positions([(reader, rows) for reader, (_, rows) in zip(readers, parts, strict=True)], plan)

    def candidate_rows(self, filters: Filters) -> npt.NDArray[np.int64] | None:
        """Rows that indexes leave for a filter, without reading columns.

        Args:
            filters: As for `read_table`; indexes do not help with expressions.

        Returns:
            int64[n], ascending and distinct positions; all matching rows are among them. None if no index helps.

        Raises:
            SchemaError: `filters` are malformed, or name a column that does not exist.
        """
        return ScanPlan(self.shard_schema, self.schema, (), filters, indexes=self._indexes).candidates()

    def rows_of_values(self, column: str, values: SoughtValues) -> npt.NDArray[np.int64] | None:
        """Rows that hash indexes leave for a column that has one of some values, without reading columns.

        Args:
            column: Its name, or the path of values in it, as for `search`.
            values: The values; their keys are computed for the first of many shards.

        Returns:
            int64[n], ascending and distinct positions; all rows with a value are among them. None if no index helps.

        Raises:
            NotFoundError: There is no such column, or an index is lost.
            FormatError, UnsupportedError: An index is damaged.
        """
        found = self._leaves.get(column)
        if found is None:
            found = self._leaves[column] = find_leaf(self.shard_schema, column), leaf_type(self.schema, column)
        return self._indexes.rows_of_values(*found, column, values)

    def search_candidates(self, column: str, query: str) -> npt.NDArray[np.int64] | None:
        """Rows that a text index leaves for a search, without reading columns.

        Args:
            column: As for `search`.
            query: As for `search`.

        Returns:
            int64[n], ascending and distinct positions; all matching rows are among them. None if there is no index, or
            it leaves all.

        Raises:
            NotFoundError, SchemaError: As for `search`.
        """
        return TextScan(self.metadata, self._indexes, self.schema, column, query).candidates

    def search(
        self, column: str, query: str, *, columns: Sequence[str] | None = None, limit: int | None = None
    ) -> pa.Table:
        """Find rows by words; a text index of the column makes it fast.

        Words are those of the column's text index. Without one they are runs of letters and digits in any case, and all
        values are looked at.

        Example:
            shard.search("message", 'timeout AND "connection reset" NOT test*', columns=["ts", "message"], limit=20)

        Args:
            column: Name of a column of strings, or the path of strings in it: names of nested fields after dots, `item`
                for items of lists.
            query: Words, all of which must be there; a phrase in double quotes; AND, OR, NOT and round brackets; a star
                at the end of a word for any end.
            columns: Names or aliases; all columns by default.
            limit: At most this many rows, the first ones.

        Returns:
            The rows that match, in their order. Rows that are marked as deleted are left out.

        Raises:
            NotFoundError: There is no such column.
            SchemaError: The column does not hold strings, or the query lacks something.
            FormatError, UnsupportedError: As for `read`.
        """
        check_whole_number("limit", limit, 0)
        plan = ScanPlan(self.shard_schema, self.schema, columns)
        search = TextScan(self.metadata, self._indexes, self.schema, column, query)
        tables: list[pa.Table] = []
        left = limit
        for reader, rows in search.matches():
            found = rows if left is None else rows[:left]
            reader.load_descriptors(plan.nodes())
            tables.append(plan.start(reader, Selection.of_positions(found), ThisThread())())
            left = None if left is None else left - len(found)
            if left == 0:
                break
        return join_tables(tables, plan.schema)

    def _positions(self, rows: Sequence[int] | npt.NDArray[np.integer], total: int) -> npt.NDArray[np.int64]:
        """Positions of rows as integers, each of which is one of `total`.

        Raises:
            SchemaError: Something is not a whole number.
            NotFoundError: There is no such row.
        """
        is_array = isinstance(rows, np.ndarray | pa.Array | pa.ChunkedArray)
        listed = np.asarray(rows) if is_array else list(rows)
        try:
            found = np.asarray(listed)
        except ValueError:  # lists of several lengths
            found = np.empty(0, object)
        if found.dtype.kind not in "iu" or found.ndim != 1:
            # NumPy makes floats or objects of integers that no type of its own holds together
            for each in listed:
                if isinstance(each, bool | np.bool_) or not hasattr(each, "__index__"):
                    raise SchemaError(f"{each!r} is not a row's position, expected an integer", location=self.location)
            found = np.array([operator.index(each) for each in listed], object)
        for each in (found.min(), found.max()) if len(found) else ():
            if not 0 <= int(each) < total:
                raise NotFoundError(f"row {int(each)} of {total}", location=self.location)
        return found.astype(np.int64)

    def __repr__(self) -> str:
        return f"ShardFile({self.metadata.shown!r}, {self.num_rows} rows in {self.num_stripes} stripes)"


def _reordered(table: pa.Table, places: pa.Array) -> pa.Table:
    """The rows of a table in another order; PyArrow cannot do so for columns of every type."""
    columns = []
    for column in table.columns:
        try:
            columns.append(column.take(places))
        except pa.ArrowNotImplementedError:
            values = column.to_pylist()
            picked = [values[place] for place in places.to_pylist()]
            columns.append(pa.chunked_array([pa.array(picked, column.type)], column.type))
    return pa.Table.from_arrays(columns, schema=table.schema) if columns else table
