"""Iceberg's partition transforms as expressions of Spark's JVM, and a folder name for every partition.

The values agree with `skerry.iceberg.partitioning.transforms`, which is authoritative: it computes the partition
values that are committed. Here they only send the rows of a partition to the same file.

Spec: Iceberg spec, Partition Transforms, Appendix B.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as sf

from skerry.errors import UnsupportedError
from skerry.spark.runtime.jvm import Jvm

__all__ = ["partition_key", "transform_column"]

_MATH = "java.lang.Math"
_BIG_INTEGER = "java.math.BigInteger"
_BIG_DECIMAL = "java.math.BigDecimal"
_MICROS_PER_HOUR = 3_600_000_000
_MICROS_PER_DAY = 24 * _MICROS_PER_HOUR
_TRANSFORM = re.compile(r"(\w+)(?:\[(\d+)\])?")

_PLAIN_TEXT = r"\A[A-Za-z0-9_.-]{0,40}\z"
_LONGEST_KEY = 160  # characters; with the column's name and an equals sign well below the 255 of file systems


def transform_column(jvm: Jvm, column: Column, type_: pa.DataType, transform: str) -> Column:
    """A column's partition values.

    Args:
        jvm: Of the session that the frame belongs to.
        column: A column of the frame, of the Spark type that `type_` has there.
        type_: Its type in the table.
        transform: Iceberg's name of the transform: `identity`, `bucket[16]`, `truncate[4]`, `day`, `void`, …

    Returns:
        A column of the source's type (decimals of 38 digits) for `identity`, `truncate` and `void`, else of type int or
        bigint; null where the source is.

    Raises:
        UnsupportedError: The transform is unknown, or not computed for this type.
    """
    match = _TRANSFORM.fullmatch(transform)
    name = match[1] if match else transform
    parameter = int(match[2]) if match and match[2] else 0
    if name == "identity":
        return column
    if name == "void":
        return sf.lit(None).cast(_sql_type(type_))
    if name == "bucket":
        return _hash(jvm, column, type_).bitwiseAND(sf.lit(0x7FFFFFFF)) % sf.lit(parameter)
    if name == "truncate":
        return _truncate(jvm, column, type_, parameter)
    if name in _TIME_PARTS:
        return _time_part(jvm, column, type_, name)
    raise UnsupportedError(f"partition transform {transform} is not supported")


def partition_key(columns: Iterable[tuple[Column, pa.DataType]]) -> Column:
    """One text per partition: equal for two rows exactly if all their partition values are equal.

    Spark names folders after it. It distinguishes null from an empty text, has only characters that need no escaping in
    a path, and replaces long texts and those with other characters by their SHA-256.

    Args:
        columns: Partition values with their types.
    """
    parts = [_key_part(column, type_) for column, type_ in columns]
    key = sf.concat_ws(",", *parts)
    if len(parts) == 1:
        return key
    return sf.when(sf.length(key) <= _LONGEST_KEY, key).otherwise(sf.concat(sf.lit("3"), sf.sha2(key, 256)))


def _key_part(column: Column, type_: pa.DataType) -> Column:
    null = sf.lit("0")
    if pa.types.is_binary(type_):
        column = sf.hex(column)
    elif not pa.types.is_string(type_):
        return sf.coalesce(sf.concat(sf.lit("1"), column.cast("string")), null)
    return (
        sf.when(column.isNull(), null)
        .when(column.rlike(_PLAIN_TEXT), sf.concat(sf.lit("1"), column))
        .otherwise(sf.concat(sf.lit("2"), sf.sha2(column, 256)))
    )


def _sql_type(type_: pa.DataType) -> str:
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(type_, prefer_timestamp_ntz=True).simpleString()


# Numbers behind the types --------------------------------------------------------------------------------------------


def _micros(jvm: Jvm, column: Column, type_: pa.TimestampType) -> Column:
    return jvm.micros(column, "timestamp_ntz" if type_.tz is None else "timestamp")


def _unscaled(jvm: Jvm, column: Column) -> Column:
    """The `BigInteger` of a decimal."""
    return jvm.call(jvm.call(column, "toJavaBigDecimal", _BIG_DECIMAL), "unscaledValue", _BIG_INTEGER)


def _floor_div(jvm: Jvm, column: Column, divisor: int) -> Column:
    return jvm.call_static(_MATH, "floorDiv", "bigint", column, _long(divisor))


def _long(value: int) -> Column:
    return sf.lit(value).cast("bigint")


# Buckets -------------------------------------------------------------------------------------------------------------


def _hash(jvm: Jvm, column: Column, type_: pa.DataType) -> Column:
    """Murmur3 (x86, 32 bits, seed 0) of a value as Iceberg hashes it.

    Spec: Iceberg spec, Appendix B.
    """
    if pa.types.is_integer(type_):
        return _hash_long(jvm, column)
    if pa.types.is_date32(type_):
        return _hash_long(jvm, sf.unix_date(column))
    if pa.types.is_timestamp(type_):
        return _hash_long(jvm, _micros(jvm, column, type_))
    if pa.types.is_decimal(type_):
        return _hash_bytes(jvm, jvm.call(_unscaled(jvm, column), "toByteArray", "binary"))
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return _hash_bytes(jvm, column.cast("binary"))
    raise UnsupportedError(f"buckets of {type_} columns are not computed by Spark")


def _hash_long(jvm: Jvm, column: Column) -> Column:
    name = "org.apache.spark.unsafe.hash.Murmur3_x86_32"
    return jvm.call_static(name, "hashLong", "int", column.cast("bigint"), sf.lit(0))


def _hash_bytes(jvm: Jvm, column: Column) -> Column:
    return jvm.call_static("org.apache.commons.codec.digest.MurmurHash3", "hash32x86", "int", column)


# Truncation ----------------------------------------------------------------------------------------------------------


def _truncate(jvm: Jvm, column: Column, type_: pa.DataType, width: int) -> Column:
    """Round numbers down to a multiple; keep the first code points of text, the first bytes of binary values.

    Spec: Iceberg spec, Truncate Transform Details.
    """
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return sf.substring(column, 1, width)
    if pa.types.is_integer(type_):
        # `sum` wraps around below the minimum, as Iceberg's own arithmetic does; `+` would be an error
        sql, boxed = ("int", "java.lang.Integer") if pa.types.is_int32(type_) else ("bigint", "java.lang.Long")
        above = jvm.call_static(_MATH, "floorMod", sql, column, sf.lit(width).cast(sql))
        return jvm.call_static(boxed, "sum", sql, column, sf.negative(above))
    if pa.types.is_decimal(type_):
        unscaled = _unscaled(jvm, column)
        step = jvm.call_static(_BIG_INTEGER, "valueOf", _BIG_INTEGER, _long(width))
        truncated = jvm.call(unscaled, "subtract", _BIG_INTEGER, jvm.call(unscaled, "mod", _BIG_INTEGER, step))
        return jvm.decimal(truncated, type_.scale)
    raise UnsupportedError(f"truncated {type_} columns are not computed by Spark")


# Parts of time -------------------------------------------------------------------------------------------------------

_TIME_PARTS = frozenset({"year", "month", "day", "hour"})


def _time_part(jvm: Jvm, column: Column, type_: pa.DataType, part: str) -> Column:
    """Whole years, months, days or hours from 1970-01-01 00:00 UTC, rounded down."""
    if part == "hour":
        return _floor_div(jvm, _micros(jvm, column, type_), _MICROS_PER_HOUR)
    if pa.types.is_date32(type_):
        date, days = column, sf.unix_date(column)
    else:
        days = _floor_div(jvm, _micros(jvm, column, type_), _MICROS_PER_DAY).cast("int")
        date = sf.date_from_unix_date(days)
    if part == "day":
        return days
    years = sf.year(date) - sf.lit(1970)
    return years if part == "year" else years * sf.lit(12) + sf.month(date) - sf.lit(1)
