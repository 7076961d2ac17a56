"""Frames on their way in: a Spark frame becomes one of exactly the table's columns, types and field ids.

The rules are those of `skerry.table.incoming`, which also checks names and types here; this module only says them in
Spark's words. A value that does not fit ends the job, and no row of it is committed.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass

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

from skerry.spark.failures import refuse
from skerry.spark.jvm import Jvm
from skerry.spark.schema import FIELD_ID_KEY, to_arrow_schema, to_spark_type
from skerry.table.incoming import WRITE_DEFAULT_KEY, conform
from skerry.table.schema import field_id
from skerry.table.values import decode_values

__all__ = ["check_frame", "conform_frame"]


def check_frame(frame: DataFrame, schema: pa.Schema) -> None:
    """Check the names and types of a frame's columns against a table's schema, before any row is read.

    Raises:
        SchemaError: Unknown, doubled or missing columns (the nearest name is proposed), or types that do not fit.
    """
    conform(to_arrow_schema(frame.schema).empty_table(), schema)


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
        SchemaError: As `check_frame`. What is wrong with a value is found when the frame is written: the job then ends
            with an error that `skerry.spark.failures.error_of` finds.
    """
    check_frame(frame, schema)
    conversion = _Conversion(Jvm(frame.sparkSession), sf.lit(None).cast("string") if origin is None else origin)
    sources = {field.name: field for field in frame.schema}
    columns = []
    for field in schema:
        source = sources.get(field.name)
        column = None if source is None else sf.col(_quoted(field.name))
        converted = conversion.field(column, source, field, (field.name,))
        columns.append(converted.alias(field.name, metadata={FIELD_ID_KEY: field_id(field)}))
    return frame.select(*columns)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class _Conversion:
    """Makes columns of types that `conform` accepts into columns of the table's types."""

    jvm: Jvm
    origin: Column

    def field(
        self, column: Column | None, source: StructField | None, target: pa.Field, path: tuple[str, ...]
    ) -> Column:
        """A column with the target's type; not nullable if the target is not."""
        if column is None or source is None:
            filled = _fill(target)
            return filled if target.nullable else self.jvm.not_null(filled)
        converted = self._values(column, source.dataType, target.type, path)
        if target.nullable:
            return converted
        if source.nullable:
            refused = self._refuse(path, None, sf.lit(f"column {'.'.join(path)!r} is required, but null in a row"))
            converted = sf.when(column.isNotNull(), converted).otherwise(refused)
        return self.jvm.not_null(converted)

    def _values(self, column: Column, source: DataType, target: pa.DataType, path: tuple[str, ...]) -> Column:
        if isinstance(source, StructType) and pa.types.is_struct(target):
            return self._struct(column, source, target, path)
        wanted = to_spark_type(target)
        if source == wanted:
            return column
        for may_change, keeps in _CHECKED:
            if may_change(source, wanted):
                converted = column.try_cast(wanted)
                fits = column.isNull() | (converted.isNotNull() & keeps(column, converted, source, wanted))
                value = column.cast("string")
                start = sf.lit(f"column {'.'.join(path)!r}: value ")
                message = sf.concat(start, value, sf.lit(f" does not fit {target}"))
                return sf.when(fits, converted).otherwise(self._refuse(path, value, message))
        return column.cast(wanted)

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

    def _refuse(self, path: tuple[str, ...], value: Column | None, message: Column) -> Column:
        text = sf.lit(None).cast("string") if value is None else value
        return refuse(message=message, location=self.origin, column=".".join(path), value=text)


def _fill(target: pa.Field) -> Column:
    default = (target.metadata or {}).get(WRITE_DEFAULT_KEY)
    value = None if default is None else decode_values(target.type, pa.array([default], pa.binary()))[0].as_py()
    # a time as text: Python's own time zone would take part otherwise
    literal = value.isoformat() if isinstance(value, datetime.date) else value
    return sf.lit(literal).cast(to_spark_type(target.type))


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
