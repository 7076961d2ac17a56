"""Conversion between Spark's types and a table's Arrow schema; `docs/types.md` shows them side by side."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import types as spark_types
from pyspark.sql.types import DataType, StructField, StructType

from skerry.errors import SchemaError
from skerry.table.rows.schema import field_id
from skerry.variant import VARIANT, is_variant
from skerry.wkb import shapes_of

__all__ = ["FIELD_ID_KEY", "to_arrow_schema", "to_spark_field", "to_spark_schema", "to_spark_type", "written_by_spark"]

FIELD_ID_KEY = "parquet.field.id"
"""Metadata key of a Spark column from which Spark's Parquet writer takes the field id."""

_TO_SPARK: dict[pa.DataType, DataType] = {
    pa.null(): spark_types.NullType(),
    pa.bool_(): spark_types.BooleanType(),
    pa.int8(): spark_types.ByteType(),
    pa.int16(): spark_types.ShortType(),
    pa.int32(): spark_types.IntegerType(),
    pa.int64(): spark_types.LongType(),
    pa.float32(): spark_types.FloatType(),
    pa.float64(): spark_types.DoubleType(),
    pa.date32(): spark_types.DateType(),
    pa.timestamp("s"): spark_types.TimestampNTZType(),
    pa.timestamp("s", "UTC"): spark_types.TimestampType(),
    pa.timestamp("ms"): spark_types.TimestampNTZType(),
    pa.timestamp("ms", "UTC"): spark_types.TimestampType(),
    pa.timestamp("us"): spark_types.TimestampNTZType(),
    pa.timestamp("us", "UTC"): spark_types.TimestampType(),
    pa.string(): spark_types.StringType(),
    pa.binary(): spark_types.BinaryType(),
}

# Types of frames for columns that Spark cannot represent, or only in part.
_STAND_INS: dict[pa.DataType, DataType] = {
    pa.time32("ms"): spark_types.TimeType(6),
    pa.time64("us"): spark_types.TimeType(6),
    pa.timestamp("ns"): spark_types.TimestampNTZType(),
    pa.timestamp("ns", "UTC"): spark_types.TimestampType(),
    pa.uuid(): spark_types.BinaryType(),
}

_TO_ARROW: dict[type[DataType], pa.DataType] = {
    spark_types.NullType: pa.null(),
    spark_types.BooleanType: pa.bool_(),
    spark_types.ByteType: pa.int8(),
    spark_types.ShortType: pa.int16(),
    spark_types.IntegerType: pa.int32(),
    spark_types.LongType: pa.int64(),
    spark_types.FloatType: pa.float32(),
    spark_types.DoubleType: pa.float64(),
    spark_types.DateType: pa.date32(),
    spark_types.TimeType: pa.time64("us"),
    spark_types.TimestampNTZType: pa.timestamp("us"),
    spark_types.TimestampType: pa.timestamp("us", "UTC"),
    spark_types.StringType: pa.string(),
    spark_types.CharType: pa.string(),
    spark_types.VarcharType: pa.string(),
    spark_types.BinaryType: pa.binary(),
    spark_types.VariantType: VARIANT,
}


def to_spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of frames that hold a table's rows; columns carry the field id their Parquet columns get."""
    return StructType([to_spark_field(field) for field in schema])


def to_spark_field(field: pa.Field) -> StructField:
    """A column's field, with its id; a value inside of variants has none."""
    metadata = {FIELD_ID_KEY: field_id(field)} if field.metadata else {}
    return StructField(field.name, to_spark_type(field.type), field.nullable, metadata)


def to_spark_type(type_: pa.DataType) -> DataType:
    """The Spark type of a table's column; the nearest one if Spark lacks it."""
    if is_variant(type_):
        return spark_types.VariantType()
    if pa.types.is_struct(type_):
        return StructType([to_spark_field(type_.field(index)) for index in range(type_.num_fields)])
    if pa.types.is_map(type_):
        key, item = to_spark_type(type_.key_type), to_spark_type(type_.item_type)
        return spark_types.MapType(key, item, type_.item_field.nullable)
    if pa.types.is_list(type_):
        return spark_types.ArrayType(to_spark_type(type_.value_type), type_.value_field.nullable)
    if pa.types.is_decimal(type_):
        return spark_types.DecimalType(type_.precision, type_.scale)
    if pa.types.is_fixed_size_binary(type_):
        return spark_types.BinaryType()
    return _TO_SPARK.get(type_) or _STAND_INS[type_]


def written_by_spark(schema: pa.Schema) -> bool:
    """Whether Spark's Parquet writer writes files of this schema as Iceberg requires.

    It gives list elements and map entries no field id, has no types for fixed-length bytes, UUIDs, times of day and
    nanoseconds, variants of Spark 4.0 have no annotation, and shapes are bytes to us there.
    """

    def fits(field: pa.Field) -> bool:
        type_ = field.type
        if is_variant(type_) or shapes_of(field) is not None:
            return False
        if pa.types.is_struct(type_):
            return all(map(fits, type_))
        return pa.types.is_decimal(type_) or (type_ in _TO_SPARK and not pa.types.is_null(type_))

    return all(map(fits, schema))


def to_arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of a frame's rows, without field ids: the schema of a table created for them.

    Raises:
        SchemaError: A type cannot be stored in a table; the message names the column.
    """
    return pa.schema([_to_arrow_field(field, (field.name,)) for field in schema])


def _to_arrow_field(field: StructField, path: tuple[str, ...]) -> pa.Field:
    return pa.field(field.name, _to_arrow_type(field.dataType, path), nullable=field.nullable)


def _to_arrow_type(type_: DataType, path: tuple[str, ...]) -> pa.DataType:
    nested = _NESTED_TO_ARROW.get(type(type_))
    if nested is not None:
        return nested(type_, path)
    found = _TO_ARROW.get(type(type_))
    if found is None:
        raise SchemaError(
            f"column {'.'.join(path)!r}: Spark type {type_.simpleString()} cannot be stored; cast it to another type"
        )
    return found


def _array(type_: spark_types.ArrayType, path: tuple[str, ...]) -> pa.DataType:
    element = _to_arrow_type(type_.elementType, (*path, "element"))
    return pa.list_(pa.field("element", element, nullable=type_.containsNull))


def _map(type_: spark_types.MapType, path: tuple[str, ...]) -> pa.DataType:
    key = pa.field("key", _to_arrow_type(type_.keyType, (*path, "key")), nullable=False)
    value = _to_arrow_type(type_.valueType, (*path, "value"))
    return pa.map_(key, pa.field("value", value, nullable=type_.valueContainsNull))


_NESTED_TO_ARROW: dict[type[DataType], Callable[..., pa.DataType]] = {
    spark_types.StructType: lambda type_, path: pa.struct(
        [_to_arrow_field(field, (*path, field.name)) for field in type_]
    ),
    spark_types.ArrayType: _array,
    spark_types.MapType: _map,
    spark_types.DecimalType: lambda type_, path: pa.decimal128(type_.precision, type_.scale),
}
