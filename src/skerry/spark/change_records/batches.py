"""Batches of change records on the driver: collected from Spark as Arrow, and split into good and refused ones.

JSON records arrive as texts and are parsed here, all at once. Only those that look wrong, and columns that Arrow's
parser does not support, go back to Spark (`skerry.spark.change_records.parsing`), which reports what is wrong with
each.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from skerry.jobs.record_fields import FieldNames
from skerry.jobs.record_texts import Envelope, NewFields, parse_texts, reads
from skerry.spark.change_records.format import ORDER_FIELDS
from skerry.spark.change_records.parsing import FIELD_SEPARATOR, RecordParser, quoted
from skerry.spark.runtime.failures import original_errors

__all__ = ["REFUSED", "RecordBatch", "take_over", "to_arrow", "unused"]

REFUSED = pa.schema(
    [
        pa.field("reason", pa.string(), nullable=False),
        pa.field("column", pa.string()),
        pa.field("value", pa.string()),
        pa.field("record", pa.string()),
        pa.field("position", pa.string()),
    ]
)
"""The columns that describe a refused record."""

_SHOWN = 100  # characters of a value in a reason


@dataclass(frozen=True)
class RecordBatch:
    """A batch of records after parsing.

    Args:
        records: The good ones: columns of the table, and those of op, order and key before.
        op: Name of the column of op codes.
        order_by: Names of the columns that order them.
        before: Name of the struct with the key before.
        refused: The refused ones, with the columns `REFUSED`.
        fields: Rows with other fields than the table.
        columns: The columns of records that have types of their own.
    """

    records: pa.Table
    op: str
    order_by: tuple[str, ...]
    before: str
    refused: pa.Table
    fields: Sequence[NewFields] = ()
    columns: pa.Schema | None = None


@dataclass(frozen=True)
class _Columns:
    """Names for the columns of records that do not collide with those of the table."""

    op: str
    before: str
    order_by: tuple[str, ...]

    @classmethod
    def of(cls, parser: RecordParser) -> _Columns:
        names = parser.schema.names
        order: list[str] = []
        for path in parser.format.order_by:
            is_own = path in names and path not in ORDER_FIELDS
            order.append(path if is_own else unused(f"order{len(order)}", [*names, *order]))
        return cls(unused("op", names), unused("before", names), tuple(order))


_INDEX = "_skerry_index"
_FILE = "file"


def take_over(parser: RecordParser, frame: DataFrame, names: FieldNames) -> RecordBatch:
    """Collect the records of a frame and parse them.

    Args:
        parser: Parses them.
        frame: The records.
        names: Knows the fields of earlier rows.

    Raises:
        SchemaError: The frame lacks a column that the format names.
    """
    parser = replace(parser, format=replace(parser.format, order_by=(*parser.format.order_by, _INDEX)))
    raw = to_arrow(_raw(parser, frame))
    raw = raw.append_column(_INDEX, pa.array(np.arange(raw.num_rows)))
    if not raw.num_rows:
        return _read_by_spark(parser, frame.sparkSession, raw)
    if not reads(parser.schema):
        return _read_by_spark(parser, frame.sparkSession, raw)
    batch, doubtful = _read(parser, raw, names)
    if not len(doubtful):
        return batch
    rest = _read_by_spark(parser, frame.sparkSession, raw.take(pa.array(doubtful)))
    records = pa.concat_tables([batch.records, rest.records], promote_options="permissive")
    return replace(batch, records=records, refused=rest.refused, fields=(*batch.fields, *rest.fields))


def _raw(parser: RecordParser, frame: DataFrame) -> DataFrame:
    """The unparsed records, with their position."""
    value = parser.value(frame)
    order = parser.frame_order(frame.withColumn(_INDEX, sf.lit(0)))
    kept = dict.fromkeys([*(name for name in order if name != _INDEX), *parser.position_columns(frame)])
    columns = [sf.col(quoted(name)) for name in kept if name != parser.format.value]
    if not parser.position_columns(frame) and _FILE in parser.format.position:
        columns.append(sf.nullif(sf.input_file_name(), sf.lit("")).alias(_FILE))
    return frame.where(value.isNotNull()).select(value.alias(str(parser.format.value)), *columns)


def _read(parser: RecordParser, raw: pa.Table, names: FieldNames) -> tuple[RecordBatch, np.ndarray]:
    """Parse records here; doubtful ones are returned by position."""
    columns = _Columns.of(parser)
    inside = [path for path in parser.format.order_by if path in ORDER_FIELDS]
    order = tuple((path, pa.string() if ORDER_FIELDS[path] == "string" else pa.int64()) for path in inside)
    envelope = Envelope(parser.format.op, parser.format.before, order, parser.format.micros)
    texts = _one_array(raw.column(str(parser.format.value)).cast(pa.large_string()))
    read = parse_texts(texts, envelope, parser.schema, parser.on, names)
    table = {name: read.rows.column(name) for name in parser.schema.names}
    table[columns.op] = read.op
    if read.before is not None:
        table[columns.before] = read.before
    indices = pa.array(read.indices)
    for path, name in zip(parser.format.order_by, columns.order_by, strict=True):
        if name not in table:
            table[name] = read.order[path] if path in read.order else raw.column(path).take(indices)
    fields = () if read.fields is None else (read.fields,)
    batch = RecordBatch(pa.table(table), columns.op, columns.order_by, columns.before, REFUSED.empty_table(), fields)
    return batch, read.doubtful


def _read_by_spark(parser: RecordParser, spark: SparkSession, raw: pa.Table) -> RecordBatch:
    """Parse collected records with Spark."""
    columns = _Columns.of(parser)
    read = to_arrow(parser.parse(spark.createDataFrame(raw)))
    refused = _refused(spark, parser, read)
    good = read if not refused.num_rows else read.filter(pc.is_null(read.column("refused")))
    table = {c.name: c.receive(good.column(f"c{number}")) for number, c in enumerate(parser.columns)}
    table[columns.op] = good.column("op")
    if any(good.column(f"k{number}").null_count < good.num_rows for number in range(len(parser.keys))):
        keys = [_one_array(c.receive(good.column(f"k{number}"))) for number, c in enumerate(parser.keys)]
        table[columns.before] = pa.StructArray.from_arrays(keys, [key.name for key in parser.keys])
    for number, name in enumerate(columns.order_by):
        if name not in table:
            table[name] = good.column(f"o{number}")
    return RecordBatch(
        pa.table(table), columns.op, columns.order_by, columns.before, refused, _new_fields(parser, read)
    )


def to_arrow(frame: DataFrame) -> pa.Table:
    """A frame's rows; Spark's errors become errors of skerry if they are caused by one."""
    with original_errors():
        return frame.toArrow()


def unused(wanted: str, names: Collection[str]) -> str:
    """A column name that is not taken, made by lengthening another one if necessary."""
    while wanted in names:
        wanted += "_"
    return wanted


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks or [pa.nulls(0, column.type)])


def _new_fields(parser: RecordParser, read: pa.Table) -> Sequence[NewFields]:
    names = read.column("fields")
    own = set(parser.schema.names)
    found = [tuple(text.split(FIELD_SEPARATOR)) for text in pc.unique(names.drop_null()).to_pylist()]
    others = [fields for fields in found if set(fields) != own]
    if not others:
        return ()
    chosen = pc.is_in(names, pa.array([FIELD_SEPARATOR.join(fields) for fields in others]))
    return (NewFields(tuple(others), _one_array(read.column("body").filter(chosen))),)


# Refused records -----------------------------------------------------------------------------------------------------


def _refused(spark: SparkSession, parser: RecordParser, read: pa.Table) -> pa.Table:
    """The refused records, with the reasons in words."""
    if read.column("refused").null_count == read.num_rows:
        return REFUSED.empty_table()
    bad = read.select(["refused", "value", "record", "position"]).filter(pc.is_valid(read.column("refused")))
    codes = bad.column("refused").to_numpy()
    found = []
    for code in np.unique(codes[codes > 0]).tolist():
        objection = parser.objections[code]
        found.append(_in_words(objection.reason, objection.column, bad.filter(pa.array(codes == code))))
    unread = bad.filter(pa.array(codes == 0))
    if unread.num_rows:
        explained = to_arrow(parser.explain(spark.createDataFrame(unread.select(["record", "position"]))))
        for group in explained.select(["reason", "column"]).group_by(["reason", "column"]).aggregate([]).to_pylist():
            is_it = pc.equal(explained.column("reason"), group["reason"])  # a reason names its column
            found.append(_in_words(group["reason"], group["column"], explained.filter(is_it)))
    return pa.concat_tables(found)


def _in_words(reason: str, column: str | None, rows: pa.Table) -> pa.Table:
    """Records refused for one reason, in which `{value}` stands for the value."""
    count = rows.num_rows
    said: pa.Array | pa.ChunkedArray = pa.repeat(reason, count)
    if "{value}" in reason:
        begin, end = reason.split("{value}")
        said = pc.binary_join_element_wise(begin, _shown(rows.column("value")), end, "")
    name = pa.nulls(count, pa.string()) if column is None else pa.repeat(column, count)
    return pa.table([said, name, *(rows.column(name) for name in ("value", "record", "position"))], schema=REFUSED)


def _shown(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values as shown in messages."""
    cut = pc.utf8_slice_codeunits(values, 0, _SHOWN)
    is_long = pc.fill_null(pc.greater(pc.utf8_length(values), _SHOWN), False)
    shown = pc.if_else(is_long, pc.binary_join_element_wise(cut, "…", ""), cut)
    return pc.fill_null(pc.binary_join_element_wise("'", shown, "'", ""), "null")
