"""Change records with typed columns: collected from Spark as Arrow, and checked column by column."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from skerry.errors import SchemaError
from skerry.jobs.change_records import DELETE, OP_KINDS
from skerry.spark.change_records.batches import REFUSED, RecordBatch, to_arrow, unused
from skerry.spark.change_records.format import ChangeFormat
from skerry.table.rows.incoming import conform
from skerry.table.rows.schema import nearest

__all__ = ["take_over_rows"]

Mask = npt.NDArray[np.bool_]

_KNOWN = pa.array(list(OP_KINDS))
_GONE = pa.array([op for op, kind in OP_KINDS.items() if kind == DELETE])


def take_over_rows(frame: DataFrame, format: ChangeFormat, schema: pa.Schema, on: tuple[str, ...]) -> RecordBatch:
    """Collect the records of a frame that has the table's columns.

    Args:
        frame: The records.
        format: The roles of the columns.
        schema: The table's columns.
        on: Its key columns.

    Raises:
        SchemaError: A column that the format names is missing.
    """
    for name in (format.op, *format.order_by):
        if name not in frame.columns:
            raise SchemaError(f"the frame has no column {name!r}{nearest(name, frame.columns)}")
    records = to_arrow(frame)
    own = [name for name in records.column_names if name in schema.names]
    named = [format.op, *format.order_by, format.before]
    position = [name for name in format.position if name in records.column_names and name not in own]
    extra = [name for name in records.column_names if name not in {*own, *named, *position}]
    op = records.column(format.op).cast(pa.string())
    is_gone = _mask(pc.is_in(op, _GONE))
    checked = _Checked(records, position)
    checked.refuse(~_mask(pc.is_in(op, _KNOWN)), "op {value} is not an op code", None, op)
    for name in own:
        matters = np.ones(len(is_gone), bool) if name in on else ~is_gone
        checked.refuse_misfits(schema.field(name), matters, in_key=name in on)
    for name in format.order_by:
        is_null = _mask(records.column(name).is_null())
        checked.refuse(is_null, f"{name}, by which records are ordered, is null", name, None)
    good, refused = checked.parted()
    taken = {name: good.column(name) for name in own}
    names = {"op": unused("op", schema.names), "before": unused("before", schema.names)}
    taken[names["op"]] = good.column(format.op)
    if format.before in records.column_names and format.before not in own:
        taken[names["before"]] = good.column(format.before)
    order: list[str] = []
    for name in format.order_by:
        alias = name if name in own else unused(f"order{len(order)}", [*schema.names, *order])
        taken[alias] = good.column(name)
        order.append(alias)
    found = pa.schema([field for field in records.schema if field.name in {*own, *extra}])
    return RecordBatch(pa.table(taken), names["op"], tuple(order), names["before"], refused, columns=found)


class _Checked:
    """Records, and what is wrong with some of them; the first objection to each is reported."""

    def __init__(self, records: pa.Table, position: list[str]) -> None:
        self._records = records
        self._is_refused = np.zeros(records.num_rows, bool)
        self._found: list[pa.Table] = []
        said = [
            pc.binary_join_element_wise(pa.repeat(name, records.num_rows), records.column(name).cast(pa.string()), " ")
            for name in position
        ]
        self._position = pc.binary_join_element_wise(*said, ", ") if said else pa.nulls(records.num_rows, pa.string())

    def refuse(self, mask: Mask, reason: str, column: str | None, values: pa.ChunkedArray | None) -> None:
        """Refuse records; `{value}` in the reason stands for the value."""
        chosen = np.flatnonzero(mask & ~self._is_refused)
        if not len(chosen):
            return
        self._is_refused[chosen] = True
        count = len(chosen)
        rows = pa.array(chosen)
        value = pa.nulls(count, pa.string()) if values is None else values.take(rows).cast(pa.string())
        said: pa.Array | pa.ChunkedArray = pa.repeat(reason, count)
        if "{value}" in reason:
            begin, end = reason.split("{value}")
            shown = pc.fill_null(pc.binary_join_element_wise("'", value, "'", ""), "null")
            said = pc.binary_join_element_wise(begin, shown, end, "")
        text = pa.array([str(row) for row in self._records.take(rows).to_pylist()], pa.string())
        name = pa.nulls(count, pa.string()) if column is None else pa.repeat(column, count)
        self._found.append(pa.table([said, name, value, text, self._position.take(rows)], schema=REFUSED))

    def refuse_misfits(self, field: pa.Field, matters: Mask, *, in_key: bool) -> None:
        """Refuse records with a value that does not fit its column, or with a null in a required one."""
        column = self._records.column(field.name)
        is_null = _mask(column.is_null())
        if in_key:
            self.refuse(is_null, f"column {field.name!r} of the key is null", field.name, None)
        elif not field.nullable:
            self.refuse(is_null & matters, f"column {field.name!r} is required, but null", field.name, None)
        wrong = np.zeros(len(column), bool)
        for row in _misfits(pa.table({field.name: column}), pa.schema([field.with_nullable(True)]), 0):
            wrong[row] = True
        if wrong.any():
            reason = f"column {field.name!r}: value {{value}} does not fit {field.type}"
            self.refuse(wrong & matters, reason, field.name, _as_text(column))

    def parted(self) -> tuple[pa.Table, pa.Table]:
        """The good records, and the descriptions of the refused ones."""
        refused = pa.concat_tables(self._found) if self._found else REFUSED.empty_table()
        return self._records.filter(pa.array(~self._is_refused)), refused


def _misfits(column: pa.Table, schema: pa.Schema, first: int) -> Iterator[int]:
    """The rows whose value cannot be converted to the column's type, by bisection."""
    try:
        conform(column, schema).read_all()
    except SchemaError:
        if column.num_rows == 1:
            yield first
        elif column.num_rows:
            half = column.num_rows // 2
            yield from _misfits(column.slice(0, half), schema, first)
            yield from _misfits(column.slice(half), schema, first + half)


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return column.cast(pa.string())
    except pa.ArrowException:
        return pa.chunked_array([pa.nulls(len(column), pa.string())])


def _mask(column: pa.ChunkedArray) -> Mask:
    return np.asarray(pc.fill_null(column, False)).astype(bool)
