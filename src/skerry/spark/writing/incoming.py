"""Conversion of incoming Spark frames to exactly the table's columns, types and field ids.

The rules are those of `skerry.table.rows.incoming`, which also checks names and types here; this module expresses them
in Spark. A value that does not fit ends the job, and none of its rows is committed.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StructField,
    StructType,
)

from skerry.spark.runtime.failures import refuse
from skerry.spark.runtime.jvm import Jvm
from skerry.spark.schema import FIELD_ID_KEY, to_arrow_schema, to_spark_type, written_by_spark
from skerry.table.rows.default_arrays import decode_default
from skerry.table.rows.incoming import conform
from skerry.table.rows.schema import WRITE_DEFAULT_KEY, empty_batch, field_id
from skerry.variant import is_variant

__all__ = ["check_frame", "check_values", "conform_frame"]


def check_frame(frame: DataFrame, schema: pa.Schema) -> None:
    """Check the names and types of a frame's columns against a table's schema, before any row is read.

    Raises:
        SchemaError: Unknown, duplicate or missing columns (the nearest name is proposed), or types that do not fit.
    """
    conform(pa.Table.from_batches([empty_batch(to_arrow_schema(frame.schema))]), schema)


def conform_frame(frame: DataFrame, schema: pa.Schema, origin: Column | None = None) -> DataFrame:
    """Turn a frame of a classic session into one whose schema is the table's.

    Columns are matched by name, in any order. Optional columns that are missing become null, or their write default.

    Args:
        frame: The rows.
        schema: The table's schema, of types that Spark's Parquet writer writes.
        origin: The file that a row comes from, for messages.

    Returns:
        A frame with the table's columns in its order, with field ids, and not nullable where the table requires values.

    Raises:
        SchemaError: As in `check_frame`. Wrong values are found when the frame is written: the job then ends
            with an error that `skerry.spark.runtime.failures.error_of` finds.
    """
    check_frame(frame, schema)
    conversion = _Conversion(_origin(origin), Jvm(frame.sparkSession))
    sources = {field.name: field for field in frame.schema}
    frame = _without_nulls(frame, schema, conversion)
    columns = []
    for field in schema:
        source = sources.get(field.name)
        if source is not None and not field.nullable:
            source = StructField(source.name, source.dataType, nullable=False)
        column = None if source is None else sf.col(_quoted(field.name))
        converted = conversion.field(column, source, field, (field.name,))
        columns.append(converted.alias(field.name, metadata={FIELD_ID_KEY: field_id(field)}))
    return frame.select(*columns)


def check_values(frame: DataFrame, schema: pa.Schema, origin: Column) -> DataFrame:
    """Check a frame's values before they reach Python workers, which do not know the file that a row comes from.

    Args:
        frame: The rows.
        schema: The table's schema.
        origin: The file that a row comes from.

    Returns:
        A frame whose top-level columns have no null where the table requires values, and no value that does not fit;
        nested values are left to the workers.
    """
    check_frame(frame, schema)
    conversion = _Conversion(_origin(origin), None)
    targets = {field.name: field for field in schema}
    columns = []
    for source in frame.schema:
        target, column = targets[source.name], sf.col(_quoted(source.name))
        if written_by_spark(pa.schema([target])) and not pa.types.is_nested(target.type):
            column = conversion.values(column, source.dataType, target.type, (target.name,)).alias(target.name)
        columns.append(column)
    return _without_nulls(frame, schema, conversion).select(*columns)


def _origin(origin: Column | None) -> Column:
    return sf.lit(None).cast("string") if origin is None else origin


def _without_nulls(frame: DataFrame, schema: pa.Schema, conversion: _Conversion) -> DataFrame:
    """End the job at a null in any column that requires values: one check, which keeps the generated code small."""
    required = {field.name for field in schema if not field.nullable}
    names = [field.name for field in frame.schema if field.nullable and field.name in required]
    if not names:
        return frame
    columns = {name: sf.col(_quoted(name)) for name in names}
    first_null = sf.coalesce(*(sf.when(column.isNull(), sf.lit(name)) for name, column in columns.items()))
    refused = conversion.refuse_null(first_null)
    present = functools.reduce(operator.and_, (column.isNotNull() for column in columns.values()))
    return frame.where(sf.when(present, True).otherwise(refused))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class _Conversion:
    """Converts columns of types that `conform` accepts to the table's types.

    Args:
        origin: The file that a row comes from, or null.
        jvm: To mark columns as not nullable; None to leave them.
    """

    origin: Column
    jvm: Jvm | None

    def field(
        self, column: Column | None, source: StructField | None, target: pa.Field, path: tuple[str, ...]
    ) -> Column:
        """A column with the target's type; not nullable if the target is not."""
        if column is None or source is None:
            return self._not_null(_fill(target), target)
        converted = self.values(column, source.dataType, target.type, path)
        if source.nullable and not target.nullable:
            refused = self.refuse_null(sf.lit(".".join(path)))
            converted = sf.when(column.isNotNull(), converted).otherwise(refused)
        return self._not_null(converted, target)

    def values(self, column: Column, source: DataType, target: pa.DataType, path: tuple[str, ...]) -> Column:
        """Convert a column's values to the target's type; one that would change ends the job."""
        if isinstance(source, StructType) and pa.types.is_struct(target) and not is_variant(target):
            return self._struct(column, source, target, path)
        wanted = to_spark_type(target)
        if source == wanted:
            return column
        for may_change, keeps in _CHECKED:
            if may_change(source, wanted):
                converted = column.try_cast(wanted)
                fits = column.isNull() | (converted.isNotNull() & keeps(column, converted, source, wanted))
                value = column.cast("string")
                name = ".".join(path)
                message = sf.concat(sf.lit(f"column {name!r}: value "), value, sf.lit(f" does not fit {target}"))
                refused = refuse(message=message, location=self.origin, column=name, value=value)
                return sf.when(fits, converted).otherwise(refused)
        return column.cast(wanted)

    def refuse_null(self, name: Column) -> Column:
        """End the job because of a null in a column that requires values."""
        message = sf.concat(sf.lit("column '"), name, sf.lit("' is required, but null in a row"))
        return refuse(message=message, location=self.origin, column=name, value=sf.lit(None).cast("string"))

    def _not_null(self, column: Column, target: pa.Field) -> Column:
        return column if target.nullable or self.jvm is None else self.jvm.not_null(column)

    def _struct(self, column: Column, source: StructType, target: pa.StructType, path: tuple[str, ...]) -> Column:
        members = {field.name: field for field in source}
        converted = []
        for index in range(target.num_fields):
            field = target.field(index)
            member = members.get(field.name)
            value = None if member is None else column.getField(field.name)
            made = self.field(value, member, field, (*path, field.name))
            converted.append(made.alias(field.name, metadata={FIELD_ID_KEY: field_id(field)}))
        return sf.when(column.isNotNull(), sf.struct(*converted))


def _fill(target: pa.Field) -> Column:
    default = (target.metadata or {}).get(WRITE_DEFAULT_KEY)
    value = None if default is None else decode_default(target.type, default)[0].as_py()
    return _literal(target.type, value).cast(to_spark_type(target.type))


def _literal(type_: pa.DataType, value: Any) -> Column:
    if value is None:
        return sf.lit(None)
    if pa.types.is_struct(type_):
        return sf.struct(*[_literal(child.type, value[child.name]).alias(child.name) for child in type_])
    if pa.types.is_map(type_):
        pairs = [(_literal(type_.key_type, key), _literal(type_.item_type, item)) for key, item in value]
        return sf.create_map(*itertools.chain.from_iterable(pairs))
    if pa.types.is_list(type_):
        return sf.array(*[_literal(type_.value_type, item) for item in value])
    # a time as text: Python's own time zone would take part otherwise
    return sf.lit(value.isoformat() if isinstance(value, datetime.date) else value)


# Conversions that may change a value, which then ends the job -------------------------------------------------------

_DIGITS: dict[type[DataType], int] = {ByteType: 3, ShortType: 5, IntegerType: 10, LongType: 19}
_EXACT_INTEGERS: dict[type[DataType], int] = {FloatType: 2**24, DoubleType: 2**53}


def _may_overflow(source: DataType, wanted: DataType) -> bool:
    digits = _DIGITS.get(type(source))
    if digits is None:
        return False
    if isinstance(wanted, DecimalType):
        return digits > wanted.precision - wanted.scale
    return digits > _DIGITS.get(type(wanted), digits)


def _may_round(source: DataType, wanted: DataType) -> bool:
    exact = _EXACT_INTEGERS.get(type(wanted))
    return exact is not None and _DIGITS.get(type(source), 0) >= len(str(exact))


def _may_lose_digits(source: DataType, wanted: DataType) -> bool:
    return (
        isinstance(source, DecimalType)
        and isinstance(wanted, DecimalType)
        and (source.scale > wanted.scale or source.precision - source.scale > wanted.precision - wanted.scale)
    )


def _fits(column: Column, converted: Column, source: DataType, wanted: DataType) -> Column:
    return sf.lit(True)  # else the cast would have given null


def _is_small(column: Column, converted: Column, source: DataType, wanted: DataType) -> Column:
    limit = _EXACT_INTEGERS[type(wanted)]
    return column.between(-limit, limit)


def _is_unchanged(column: Column, converted: Column, source: DataType, wanted: DataType) -> Column:
    return converted.cast(source) == column


_Keeps = Callable[[Column, Column, DataType, DataType], Column]

_CHECKED: tuple[tuple[Callable[[DataType, DataType], bool], _Keeps], ...] = (
    (_may_overflow, _fits),
    (_may_round, _is_small),
    (_may_lose_digits, _is_unchanged),
)
