"""Columns in JSON change records: how the values of each type are written, and parsed without loss.

A column is parsed by Spark as its own type if Spark writes such values in JSON in the same way. Types that sources
write in several ways (dates and times as numbers or texts, decimals, UUIDs) are read as text and converted; the
conversion returns null for a value that does not fit, so that the record is refused and the job goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types
from pyspark.sql.types import DataType

from skerry.errors import UnsupportedError
from skerry.spark.schema import to_spark_type
from skerry.table.rows.values import is_uuid

__all__ = ["RecordColumn", "record_column"]

_WIDEST = 38
_UUID = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"

_NUMBERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64())
_AS_THEY_ARE = frozenset((pa.bool_(), *_NUMBERS, pa.string(), pa.binary()))
"""Types whose values Spark's parser reads without loss, with Spark's type for such columns."""


@dataclass(frozen=True, slots=True)
class RecordColumn:
    """How a column is read.

    Args:
        field: The table's column.
        read_as: The type that Spark's parser gives it.
        convert: Converts it for the driver; null if the value does not fit. None if no conversion is needed.
        arrow: The type that the converted values are cast to, for types that count something; None to leave them.
    """

    field: pa.Field
    read_as: DataType
    convert: Callable[[Column], Column] | None = None
    arrow: pa.DataType | None = None

    @property
    def name(self) -> str:
        """The column's name."""
        return str(self.field.name)

    def receive(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """Values received from Spark, in a type that `conform` accepts for the table's."""
        return values if self.arrow is None else values.cast(self.arrow)


def record_column(field: pa.Field, micros: int) -> RecordColumn:
    """Plan how a column of a table is parsed from JSON.

    Args:
        field: The column.
        micros: How many microseconds the unit of a numeric time has.

    Raises:
        UnsupportedError: JSON cannot represent such values.
    """
    type_, text = field.type, spark_types.StringType()
    if type_ in _AS_THEY_ARE or pa.types.is_nested(type_):
        return RecordColumn(field, to_spark_type(type_))
    if pa.types.is_date32(type_):
        return RecordColumn(field, text, _days, pa.date32())
    if pa.types.is_timestamp(type_):
        convert = _instants if type_.tz is not None else _local_times
        return RecordColumn(field, text, convert(micros), pa.timestamp("us", type_.tz))
    if pa.types.is_time(type_):
        return RecordColumn(field, text, _times_of_day(micros), pa.time64("us"))
    if pa.types.is_decimal(type_):
        scale = _WIDEST - (type_.precision - type_.scale)
        return RecordColumn(field, spark_types.DecimalType(_WIDEST, scale), _unrounded(type_.precision, type_.scale))
    if is_uuid(type_):
        return RecordColumn(field, text, _uuids)
    if pa.types.is_fixed_size_binary(type_):
        return RecordColumn(field, spark_types.BinaryType(), _of_length(type_.byte_width))
    raise UnsupportedError(f"column {field.name!r}: {type_} cannot be read from JSON")


# Conversions ---------------------------------------------------------------------------------------------------------


def _days(text: Column) -> Column:
    """Days since 1970 from a number, or from a date as text."""
    return sf.coalesce(text.try_cast("int"), sf.unix_date(_without_zone(text).try_cast("date")))


def _instants(micros: int) -> Callable[[Column], Column]:
    return lambda text: sf.coalesce(_number(text, micros), sf.unix_micros(text.try_cast("timestamp")))


def _local_times(micros: int) -> Callable[[Column], Column]:
    """Microseconds of a local time, as if it were in UTC, independent of the session's zone."""
    return lambda text: sf.coalesce(_number(text, micros), _micros_in_utc(_without_zone(text)))


def _times_of_day(micros: int) -> Callable[[Column], Column]:
    def convert(text: Column) -> Column:
        day = 86_400_000_000
        found = sf.coalesce(
            _number(text, micros), _micros_in_utc(sf.concat(sf.lit("1970-01-01T"), _without_zone(text)))
        )
        return sf.when(found.between(0, day - 1), found)

    return convert


def _number(text: Column, micros: int) -> Column:
    number = text.try_cast("bigint")
    return number if micros == 1 else sf.try_multiply(number, sf.lit(micros).cast("bigint"))


def _micros_in_utc(text: Column) -> Column:
    return sf.unix_micros(sf.concat(text, sf.lit("Z")).try_cast("timestamp"))


def _without_zone(text: Column) -> Column:
    return sf.rtrim(text, sf.lit("Z"))


def _unrounded(precision: int, scale: int) -> Callable[[Column], Column]:
    """Decimals that were parsed with all available digits: null if any would be lost."""

    def convert(read: Column) -> Column:
        value = read.try_cast(f"decimal({precision},{scale})")
        return sf.when(read == value, value)

    return convert


def _uuids(text: Column) -> Column:
    return sf.when(text.rlike(_UUID), sf.unhex(sf.translate(text, "-", "")))


def _of_length(width: int) -> Callable[[Column], Column]:
    return lambda value: sf.when(sf.octet_length(value) == width, value)
