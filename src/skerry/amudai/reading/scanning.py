"""From stripes to tables: which columns, which rows, on which threads."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.amudai.fields.nested import plain_type, read_node
from skerry.amudai.fields.selection import Selection
from skerry.amudai.fields.stripe_reader import StripeReader
from skerry.amudai.reading.filters import Filter, parse_filters
from skerry.amudai.reading.skipping import rows_that_may_match
from skerry.amudai.shard.schema import DataType, InternalKind, Schema
from skerry.arguments import check_list
from skerry.errors import NotFoundError, SchemaError, SkerryError, UnsupportedError
from skerry.filters import Alternatives, Filters

__all__ = ["Pool", "RowFinder", "ScanPlan", "ThisThread", "join_tables", "read_values", "split_batches"]

_ROW: Final = "__row__"
T = TypeVar("T")


class Pool(Protocol):
    """Where work is done."""

    def submit(self, fn: Callable[..., T], /, *args: Any) -> Future[T]:
        """Do some work, now or later."""
        ...


class RowFinder(Protocol):
    """What finds rows for a filter without reading columns."""

    def candidates(
        self, alternatives: Alternatives, columns: Mapping[str, tuple[DataType, pa.DataType]]
    ) -> npt.NDArray[np.int64] | None:
        """Rows of the shard that may match, int64[n], ascending and distinct; None if that is not known."""
        ...


class ThisThread:
    """Does all work at once, where it is asked for."""

    def submit(self, fn: Callable[..., T], /, *args: Any) -> Future[T]:
        """Do some work now."""
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args))
        except Exception as error:  # noqa: BLE001  a future keeps whatever was raised
            future.set_exception(error)
        return future

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left to be done."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column that is read.

    Args:
        node: Its node in the shard.
        field: The Arrow field of the result.
    """

    node: DataType
    field: pa.Field


class ScanPlan:
    """What is read of every stripe.

    Args:
        schema: The shard's schema.
        arrow: The Arrow schema of its fields, those included that are read.
        columns: Names or aliases of the columns; None for all of `arrow`.
        filters: Which rows: an expression, or lists of `(column, operator, value)`, by names or aliases; None for all.
        keeps_deleted: Whether rows that are marked as deleted are read.
        indexes: Indexes that the filters may use.

    Raises:
        NotFoundError: There is no such column.
        SchemaError: The filters are malformed, or name a column that does not exist.
    """

    def __init__(
        self,
        schema: Schema,
        arrow: pa.Schema,
        columns: Sequence[str] | None,
        filters: Filters | None = None,
        *,
        keeps_deleted: bool = False,
        indexes: RowFinder | None = None,
    ) -> None:
        check_list("columns", columns)
        names = arrow.names if columns is None else list(columns)
        self._columns = [_column(schema, arrow, name) for name in names]
        self.schema = pa.schema([column.field for column in self._columns], metadata=arrow.metadata)
        self._filter = None if filters is None else parse_filters(filters, _with_aliases(schema, arrow))
        tested = () if self._filter is None else self._filter.schema.names
        self._tested = [_computable(_column(schema, arrow, name)) for name in tested]
        marker = None if keeps_deleted else schema.internal_field(InternalKind.DELETED_RECORD)
        self._marker = None if marker is None else marker.data_type
        self._indexes = indexes
        self._was_asked = False
        self._indexed: npt.NDArray[np.int64] | None = None

    def candidates(self) -> npt.NDArray[np.int64] | None:
        """Rows of the shard that indexes leave for the filter; None if they do not help."""
        if self._indexes is None or self._filter is None or self._filter.alternatives is None:
            return None
        columns = {column.field.name: (column.node, column.field.type) for column in self._tested}
        return self._indexes.candidates(self._filter.alternatives, columns)

    def nodes(self) -> list[DataType]:
        """All nodes whose descriptors are needed."""
        tops = [column.node for column in (*self._columns, *self._tested)]
        if self._marker is not None:
            tops.append(self._marker)
        return list({node.schema_id: node for top in tops for node in top.nodes()}.values())

    def start(self, reader: StripeReader, rows: Selection, pool: Pool) -> Callable[[], pa.Table]:
        """Begin to read rows of a stripe.

        Args:
            reader: The stripe, with the descriptors of `nodes` loaded.
            rows: Which of its rows.
            pool: Where columns are decoded.

        Returns:
            Gives the table once all is decoded.
        """
        rows = self.living(reader, rows)
        if self._filter is not None:
            rows = self._matching(self._filter, reader, rows, pool)
        pending = [pool.submit(_read, reader, column.node, rows, column.field.type) for column in self._columns]
        return lambda: _table([future.result() for future in pending], self.schema, rows.count)

    def living(self, reader: StripeReader, rows: Selection) -> Selection:
        """Rows that are read, which are those not marked as deleted unless the plan keeps these, too.

        The marker of the whole stripe is held against the directory's count.
        """
        if self._marker is None:
            return rows
        if reader.deleted is None:
            every = Selection.range(0, reader.row_count)
            marks = pa.chunked_array(_read(reader, self._marker, every, pa.bool_()), pa.bool_())
            reader.deleted = marks.fill_null(False).to_numpy().astype(np.bool_)
            reader.check_deleted()
        deleted: npt.NDArray[np.bool_] = reader.deleted
        if not deleted.any():
            return rows
        return rows.pick(~deleted[rows.positions()])

    def _matching(self, wanted: Filter, reader: StripeReader, rows: Selection, pool: Pool) -> Selection:
        """Rows that the filters let through."""
        if reader.candidates is None:
            columns = {column.field.name: (column.node, column.field.type) for column in self._tested}
            reader.candidates = self._indexed_rows(reader)
            if reader.candidates.count:
                may_match = rows_that_may_match(wanted, columns, reader)
                reader.candidates = reader.candidates.narrowed(may_match.starts, may_match.stops)
        if not reader.candidates.is_all_of(reader.row_count):
            rows = rows.narrowed(reader.candidates.starts, reader.candidates.stops)
        if rows.count == 0:
            return rows
        pending = [pool.submit(_read, reader, column.node, rows, column.field.type) for column in self._tested]
        schema = pa.schema([column.field for column in self._tested])
        table = _table([future.result() for future in pending], schema, rows.count)
        table = table.append_column(_ROW, pa.array(np.arange(rows.count)))
        try:
            places = table.filter(wanted.expression)[_ROW].to_numpy()
        except (pa.ArrowException, NotImplementedError) as error:
            raise SchemaError(
                f"the filters do not go with the columns: {error}", location=reader.files.shown
            ) from error
        flags = np.zeros(rows.count, np.bool_)
        flags[places] = True
        return rows.pick(flags)

    def _indexed_rows(self, reader: StripeReader) -> Selection:
        """Rows of a stripe that indexes leave. They are asked once, for the whole shard."""
        if not self._was_asked:
            self._was_asked, self._indexed = True, self.candidates()
        if self._indexed is None:
            return Selection.range(0, reader.row_count)
        first = reader.stripe.record_offset
        start, stop = np.searchsorted(self._indexed, [first, first + reader.row_count])
        return Selection.of_positions(self._indexed[start:stop] - first)


def _column(schema: Schema, arrow: pa.Schema, name: str) -> _Column:
    field = schema.field(name)
    index = arrow.get_field_index(field.name)
    if index < 0:
        raise NotFoundError(
            f"{name!r} is not a column of the table but an internal field ({field.internal_kind}), which only "
            "read(internal_fields=True) reads"
        )
    return _Column(field.data_type, arrow.field(index).with_name(name))


def _with_aliases(schema: Schema, arrow: pa.Schema) -> pa.Schema:
    """The columns under each of their names."""
    fields = {field.name: field for field in arrow}
    for field in schema.fields:
        for alias in field.data_type.aliases:
            if field.name in arrow.names:
                fields.setdefault(alias, arrow.field(field.name).with_name(alias))
    return pa.schema(list(fields.values()))


def _computable(column: _Column) -> _Column:
    """The column with a type that PyArrow can compare."""
    return _Column(column.node, column.field.with_type(plain_type(column.field.type)))


def read_values(reader: StripeReader, node: DataType, rows: Selection, target: pa.DataType) -> pa.Array:
    """Read values of any node that is not composite.

    Args:
        reader: The stripe, with the node's descriptor loaded.
        node: The node.
        rows: Positions among the node's values.
        target: A type of fixed width.

    Raises:
        FormatError: The shard is damaged.
        UnsupportedError: Values are stored in a way that cannot be read.
        SchemaError: A value does not fit `target`.
    """
    with _typed_errors(reader, node, rows, target):
        return read_node(reader.fields, node, rows, target)


def _read(reader: StripeReader, node: DataType, rows: Selection, target: pa.DataType) -> list[pa.Array]:
    with _typed_errors(reader, node, rows, target):
        return reader.read_column(node, rows, target)


@contextlib.contextmanager
def _typed_errors(reader: StripeReader, node: DataType, rows: Selection, target: pa.DataType) -> Iterator[None]:
    """Turn errors of PyArrow and NumPy into ours."""
    try:
        yield
    except (MemoryError, pa.ArrowMemoryError) as error:
        raise UnsupportedError(
            f"field {node.name!r}: no memory for {rows.count} values", location=reader.files.shown
        ) from error
    except (pa.ArrowException, ValueError, OverflowError) as error:
        if isinstance(error, SkerryError):
            raise
        raise SchemaError(
            f"field {node.name!r} cannot be read as {target}: {error}", location=reader.files.shown
        ) from error


def _table(columns: list[list[pa.Array]], schema: pa.Schema, row_count: int) -> pa.Table:
    arrays = [pa.chunked_array(chunks, field.type) for chunks, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema) if arrays else _rows_alone(row_count)


def _rows_alone(row_count: int) -> pa.Table:
    """A table without columns that has rows all the same."""
    return pa.table({_ROW: pa.nulls(row_count)}).select([])


def join_tables(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """The rows of tables of a schema, one after the other."""
    if not len(schema):  # PyArrow forgets how many rows there are
        return _rows_alone(sum(table.num_rows for table in tables))
    return pa.concat_tables(tables) if tables else pa.Table.from_batches([], schema)  # unions, too


def split_batches(table: pa.Table, batch_size: int) -> Iterator[pa.RecordBatch]:
    """The rows of a table in batches of `batch_size` rows, the last with fewer; none is empty."""
    for start in range(0, table.num_rows, batch_size):
        part = table.slice(start, batch_size)
        if part.num_columns == 0:
            continue
        batches = part.to_batches()
        yield batches[0] if len(batches) == 1 else part.combine_chunks().to_batches()[0]
