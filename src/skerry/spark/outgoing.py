"""Conversion of rows for Spark: to Arrow types that it accepts, in batches that suit its converters and memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from skerry.variant import is_variant

__all__ = ["as_spark_takes", "for_spark"]

_MOST_ROWS = 1 << 15  # Spark is fastest between 10,000 and 65,000 rows
_MOST_BYTES = 16 << 20


def for_spark(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Convert rows for Spark; columns whose type it accepts are not copied."""
    for batch in batches:
        parts = max(-(-batch.num_rows // _MOST_ROWS), -(-batch.nbytes // _MOST_BYTES), 1)
        step = max(-(-batch.num_rows // parts), 1)
        for start in range(0, batch.num_rows, step):
            yield _converted(batch.slice(start, step))


def _converted(batch: pa.RecordBatch) -> pa.RecordBatch:
    fields = [field.with_type(as_spark_takes(field.type)) for field in batch.schema]
    if [field.type for field in fields] == batch.schema.types:
        return batch
    arrays = [
        array if array.type == field.type else array.cast(field.type, safe=False)
        for array, field in zip(batch.columns, fields, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def as_spark_takes(type_: pa.DataType) -> pa.DataType:
    """The Arrow type that Spark accepts for values: nanoseconds are truncated, UUIDs and fixed bytes are bytes."""
    if isinstance(type_, pa.BaseExtensionType):
        return as_spark_takes(type_.storage_type)
    if pa.types.is_struct(type_) and not is_variant(type_):
        return pa.struct([_field(child) for child in type_])
    if pa.types.is_map(type_):
        return pa.map_(_field(type_.key_field), _field(type_.item_field))
    if pa.types.is_list(type_):
        return pa.list_(_field(type_.value_field))
    if pa.types.is_fixed_size_binary(type_):
        return pa.binary()
    if pa.types.is_time(type_):
        return pa.time64("ns")
    return pa.timestamp("us", type_.tz) if pa.types.is_timestamp(type_) else type_


def _field(field: pa.Field) -> pa.Field:
    return field.with_type(as_spark_takes(field.type))
