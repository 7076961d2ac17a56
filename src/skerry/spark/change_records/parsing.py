"""Parsing of JSON change records in Spark expressions, with the reason for each record that cannot be parsed.

One expression parses a record with the table's types. A second one extracts the names of its row's fields, so that new
fields of the source are noticed. Only a record that does not fit is parsed again, column by column, to find the cause.
The resulting columns have short names (`RecordParser.parse`), so that no name of the table collides with them.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from skerry.errors import SchemaError
from skerry.jobs.change_records import DELETE, OP_KINDS, UPDATE_AFTER
from skerry.jobs.record_texts import UNAVAILABLE
from skerry.spark.change_records.columns import RecordColumn, record_column
from skerry.spark.change_records.format import ORDER_FIELDS, ChangeFormat
from skerry.table.rows.schema import nearest

__all__ = ["FIELD_SEPARATOR", "Objection", "RecordParser", "quoted"]

FIELD_SEPARATOR = "\u0001"
_CORRUPT = "_corrupt"
_GONE = [op for op, kind in OP_KINDS.items() if kind == DELETE]
_UPDATED = [op for op, kind in OP_KINDS.items() if kind == UPDATE_AFTER]
_OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}


@dataclass(frozen=True, slots=True)
class Objection:
    """Something that may be wrong with a record.

    Args:
        condition: Whether it applies to a parsed record.
        reason: The message, with `{value}` in place of the value.
        column: The column that is wrong, if any.
        value: The value.
        may_be_drift: Whether the record may only lack a field that the source has dropped.
    """

    condition: Column
    reason: str
    column: str | None = None
    value: Column | None = None
    may_be_drift: bool = False


@dataclass(frozen=True)
class RecordParser:
    """Parses JSON records for a table.

    Args:
        format: Their format.
        schema: The table's columns.
        on: Its key columns.
    """

    format: ChangeFormat
    schema: pa.Schema
    on: tuple[str, ...]

    @functools.cached_property
    def columns(self) -> tuple[RecordColumn, ...]:
        """How each column of the table is parsed."""
        return tuple(record_column(field, self.format.micros) for field in self.schema)

    @functools.cached_property
    def keys(self) -> tuple[RecordColumn, ...]:
        """How each key column is parsed."""
        return tuple(column for name in self.on for column in self.columns if column.name == name)

    def parse(self, frame: DataFrame) -> DataFrame:
        """Turn records into columns, in the order of the frame; those whose value is null are left out.

        Returns:
            A frame of `c<number>`, the table's columns after the change, for deletes before it; `k<number>`, the key
            columns before an update; `o<number>`, the columns of `order_by`; `op`; `refused`, null or the number of the
            objection to the record, in which case the rest is undefined; `value`, what is wrong;
            `record`, its text, and `position`; `fields`, the names of the row's fields, and `body`, its text.

        Raises:
            SchemaError: A column that the format names is missing, or cannot order records.
        """
        read = self._with_values(self._read(frame, self.frame_order(frame)))
        objections = self.objections
        first = sf.coalesce(*(sf.when(objection.condition, number) for number, objection in enumerate(objections)))
        read = read.withColumn("refused", first)
        is_refused = sf.col("refused").isNotNull()
        value = sf.lit(None).cast("string")
        for number, objection in enumerate(objections):
            if objection.value is not None:
                value = sf.when(sf.col("refused") == number, objection.value.cast("string")).otherwise(value)
        lacks_value = [number for number, objection in enumerate(objections) if objection.may_be_drift]
        has_fields = sf.col("names").isNotNull() & (~is_refused | sf.col("refused").isin(*lacks_value))
        return read.select(
            *(f"c{number}" for number in range(len(self.columns))),
            *(f"k{number}" for number in range(len(self.keys))),
            *(f"o{number}" for number in range(len(self.format.order_by))),
            "op",
            "refused",
            sf.when(is_refused, value).alias("value"),
            sf.when(is_refused, sf.col("record")).alias("record"),
            sf.when(is_refused, sf.col("position")).alias("position"),
            sf.when(has_fields, sf.col("names")).alias("fields"),
            sf.when(has_fields, sf.col("body")).alias("body"),
        )

    # ---- the envelope ----

    def frame_order(self, frame: DataFrame) -> list[str]:
        """Columns of the frame that define the order of records."""
        inside = {*ORDER_FIELDS, *self.schema.names}
        names = [name for name in self.format.order_by if name not in inside]
        for name in names:
            if name not in frame.columns:
                choices = [*ORDER_FIELDS, *frame.columns, *self.schema.names]
                raise SchemaError(f"records cannot be ordered by {name!r}{nearest(name, choices)}")
        return names

    def value(self, frame: DataFrame) -> Column:
        """The records' texts.

        Raises:
            SchemaError: The frame has no such column.
        """
        name = self.format.value
        if name is None or name not in frame.columns:
            raise SchemaError(f"the frame has no column {name!r}{nearest(str(name), frame.columns)}")
        return sf.col(quoted(name)).cast("string")

    def position_columns(self, frame: DataFrame) -> list[str]:
        """Columns of the frame that locate a record."""
        return [name for name in self.format.position if name in frame.columns]

    @property
    def _order_fields(self) -> list[str]:
        return [name for name in self.format.order_by if name in ORDER_FIELDS]

    def _read(self, frame: DataFrame, order: Sequence[str]) -> DataFrame:
        """The frame's records: their text, their position, and the envelope's fields, whether in a payload or not."""
        value = self.value(frame)
        read = frame.where(value.isNotNull()).select(
            value.alias("record"),
            self._position(frame).alias("position"),
            *(sf.col(quoted(column)).alias(f"f{number}") for number, column in enumerate(order)),
            sf.from_json(value, self._envelope_type(self.columns), _OPTIONS).alias("envelope"),
        )
        envelope = sf.col("envelope")
        names = {"op": self.format.op, "after": "after", "before": self.format.before}
        read = read.select(
            "record",
            "position",
            *(f"f{number}" for number in range(len(order))),
            *(_inside(envelope, path).alias(alias) for alias, path in names.items()),
            *(_inside(envelope, path).alias(f"e{number}") for number, path in enumerate(self._order_fields)),
            (envelope.isNull() | envelope.getField(_CORRUPT).isNotNull()).alias("is_corrupt"),
            envelope.getField("payload").isNotNull().alias("is_wrapped"),
        )
        is_gone = sf.coalesce(sf.col("op").isin(*_GONE), sf.lit(False))
        row = sf.when(is_gone, sf.col("before")).otherwise(sf.col("after"))
        after = sf.when(sf.col("is_wrapped"), sf.get_json_object("record", "$.payload.after")).otherwise(
            sf.get_json_object("record", "$.after")
        )
        read = read.withColumns({"is_gone": is_gone, "row": row, "body": sf.when(~is_gone, after)})
        return read.withColumn("names", sf.array_join(sf.json_object_keys("body"), FIELD_SEPARATOR))

    def _envelope_type(self, columns: Sequence[RecordColumn]) -> StructType:
        """The parsed type: some columns of the row after and of the row before, and the fields that order records."""
        text = StringType()
        row = StructType([StructField(column.name, column.read_as) for column in columns])
        fields = [StructField(self.format.op, text), StructField("after", row), StructField(self.format.before, row)]
        source: list[StructField] = []
        for path in self._order_fields:
            parent, _, member = path.rpartition(".")
            is_text = ORDER_FIELDS[path] == "string"
            (source if parent else fields).append(StructField(member, text if is_text else LongType()))
        if source:
            fields.append(StructField("source", StructType(source)))
        return StructType([*fields, StructField("payload", StructType(fields)), StructField(_CORRUPT, text)])

    def _position(self, frame: DataFrame) -> Column:
        """The position of a record, in words."""
        names = self.position_columns(frame)
        said = [sf.concat(sf.lit(f"{name} "), sf.col(quoted(name)).cast("string")) for name in names]
        return sf.concat_ws(", ", *said)

    # ---- the row ----

    def _with_values(self, read: DataFrame) -> DataFrame:
        """The row's values, the key's before, and the order of the record."""
        before = sf.when(sf.col("op").isin(*_UPDATED), sf.col("before"))
        made = {f"c{number}": _converted(column, sf.col("row")) for number, column in enumerate(self.columns)}
        made |= {f"k{number}": _converted(column, before) for number, column in enumerate(self.keys)}
        frame_order, envelope_order = itertools.count(), itertools.count()
        for number, name in enumerate(self.format.order_by):
            if name in ORDER_FIELDS:
                made[f"o{number}"] = sf.col(f"e{next(envelope_order)}")
            elif name in self.schema.names:
                made[f"o{number}"] = _converted(self.columns[self.schema.names.index(name)], sf.col("row"))
            else:
                made[f"o{number}"] = sf.col(f"f{next(frame_order)}")
        return read.withColumns(made)

    # ---- what is wrong ----

    @functools.cached_property
    def objections(self) -> tuple[Objection, ...]:
        """Everything that can be wrong with a parsed record; the first that applies is reported.

        The very first is that some value could not be parsed: `explain` finds out which.
        """
        op, is_gone, row = sf.col("op"), sf.col("is_gone"), sf.col("row")
        has_no_key = functools.reduce(operator.or_, (self._made(column).isNull() for column in self.keys))
        is_whole = row.isNotNull() & is_gone & ~has_no_key  # of what is deleted only the key counts
        found = [Objection(sf.col("is_corrupt") & ~sf.coalesce(is_whole, sf.lit(False)), "it cannot be read")]
        is_op = sf.coalesce(op.isin(*OP_KINDS), sf.lit(False))
        found.append(Objection(~is_op, "op {value} is not an op code", None, op))
        found.append(Objection(row.isNull() & is_gone, f"a delete without a row in {self.format.before!r}"))
        found.append(Objection(row.isNull(), "the row in 'after' is null"))
        for column in self.columns:
            counts = sf.lit(True) if column in self.keys else ~is_gone
            found += [replace(wrong, condition=counts & wrong.condition) for wrong in self._misfits(column)]
        for column in self.columns:
            if column in self.keys:
                reason = f"column {column.name!r} of the key is null"
                found.append(Objection(self._made(column).isNull(), reason, column.name))
            elif not column.field.nullable:
                reason = f"column {column.name!r} is required, but null"
                condition = ~is_gone & self._made(column).isNull()
                found.append(Objection(condition, reason, column.name, may_be_drift=True))
        for number, name in enumerate(self.format.order_by):
            reason = f"{name}, by which records are ordered, is null"
            found.append(Objection(sf.col(f"o{number}").isNull(), reason))
        return tuple(found)

    def _misfits(self, column: RecordColumn) -> Iterator[Objection]:
        """What can be wrong with a parsed value."""
        raw = sf.col("row").getField(column.name)
        missing: Column | None = None
        if isinstance(column.read_as, StringType):
            missing = raw.eqNullSafe(UNAVAILABLE)
        elif isinstance(column.read_as, BinaryType):
            missing = raw.eqNullSafe(sf.lit(UNAVAILABLE).cast("binary"))
        if missing is not None:
            reason = f"column {column.name!r}: the source has left out its value (REPLICA IDENTITY FULL includes it)"
            yield Objection(missing, reason, column.name)
        if column.convert is not None:
            yield Objection(raw.isNotNull() & self._made(column).isNull(), _does_not_fit(column), column.name, raw)

    def _made(self, column: RecordColumn) -> Column:
        return sf.col(f"c{self.columns.index(column)}")

    def explain(self, records: DataFrame) -> DataFrame:
        """Find out why records cannot be parsed, by trying their columns one by one.

        Args:
            records: A frame with the columns `record` and `position`.

        Returns:
            A frame of `reason`, with `{value}` in place of the value, `column` and `value`, beside the records.
        """
        types = [replace(column, read_as=StringType(), convert=None) for column in self.columns]
        texts = sf.from_json("record", self._envelope_type(types), _OPTIONS)
        nothing = sf.from_json("record", self._envelope_type([]), _OPTIONS)
        alone = {
            f"m{number}": sf.from_json("record", self._envelope_type([column]), _OPTIONS).getField(_CORRUPT).isNotNull()
            for number, column in enumerate(self.columns)
        }
        is_object = sf.json_object_keys("record").isNotNull()
        tried = records.withColumns(
            {"texts": texts, "is_corrupt": nothing.getField(_CORRUPT).isNotNull(), "is_object": is_object, **alone}
        )
        after, before = (_inside(sf.col("texts"), side) for side in ("after", self.format.before))
        is_gone = _inside(sf.col("texts"), self.format.op).isin(*_GONE)
        tried = tried.withColumn("row", sf.when(is_gone, before).otherwise(after))
        none = sf.lit(None).cast("string")
        reason, column_name, value = sf.lit("it cannot be read"), none, none
        for number, column in reversed(list(enumerate(self.columns))):
            is_it = sf.col(f"m{number}")
            reason = sf.when(is_it, _does_not_fit(column)).otherwise(reason)
            column_name = sf.when(is_it, column.name).otherwise(column_name)
            value = sf.when(is_it, sf.col("row").getField(column.name)).otherwise(value)
        for is_it, said in (
            (sf.col("is_corrupt"), "the envelope does not fit"),
            (~sf.col("is_object"), "not a JSON object"),
        ):
            reason = sf.when(is_it, said).otherwise(reason)
            column_name, value = sf.when(~is_it, column_name), sf.when(~is_it, value)
        return tried.select(
            reason.alias("reason"), column_name.alias("column"), value.alias("value"), "record", "position"
        )


def quoted(name: str) -> str:
    """A column's name, quoted for Spark."""
    return "`" + name.replace("`", "``") + "`"


def _does_not_fit(column: RecordColumn) -> str:
    return f"column {column.name!r}: value {{value}} does not fit {column.field.type}"


def _inside(envelope: Column, path: str) -> Column:
    """A field of the envelope, whether it is in a payload or not."""
    inner, outer = envelope.getField("payload"), envelope
    for part in path.split("."):
        inner, outer = inner.getField(part), outer.getField(part)
    return sf.coalesce(inner, outer)


def _converted(column: RecordColumn, row: Column) -> Column:
    value = row.getField(column.name)
    return value if column.convert is None else column.convert(value)
