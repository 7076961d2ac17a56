"""Which Arrow types the columns of a shard read as.

The writer of this package keeps the Arrow schema in a property of the shard, and columns read as that says. Without it,
types are chosen that hold what is there: the range of the values, as descriptors state it, decides on units and digits.

Spec: docs/amudai.md, Types.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any, Final

import pyarrow as pa

from skerry.amudai.messages import ShardProperties
from skerry.amudai.shard.schema import BasicType, DataType, ExtendedLabel, Field, Schema
from skerry.amudai.statistics.descriptors import FieldStatistics, NumberCounts
from skerry.amudai.values.datetimes import EPOCH_TICKS, fits_nanoseconds
from skerry.amudai.values.decimals import DECIMAL_BYTES
from skerry.amudai.values.types import ARROW_SCHEMA_PROPERTY, arrow_field, is_stored_as
from skerry.errors import SchemaError

__all__ = ["TICKS_PER_MICROSECOND", "choose_schema", "stored_schemas", "with_types"]

_MAX_DIGITS: Final = 38
TICKS_PER_MICROSECOND: Final = 10
_LEAST_FRACTION: Final = 20
"""Digits after the point that a default type has at least: values between the ends may have more of them than these."""
StatisticsOf = Callable[[DataType], list[FieldStatistics]]
"""What is known of a node's values: in the whole shard, or in each of its stripes; empty if that is not all."""
AreMicroseconds = Callable[[DataType], bool]
"""Whether all ticks of a node are whole microseconds: values have to be read for that, so it is asked last."""


def stored_schemas(properties: ShardProperties) -> list[pa.Schema]:
    """The Arrow schemas that a shard keeps among its properties; several if it was merged from several."""
    found = []
    for pair in properties.custom_properties:
        if pair.name == ARROW_SCHEMA_PROPERTY and pair.value.HasField("bytes_value"):
            try:
                schema = pa.ipc.read_schema(pa.py_buffer(pair.value.bytes_value))
                for field in schema:
                    _check_names(field)
            except (pa.ArrowException, OSError, ValueError):
                continue  # another writer's, or damaged: the shard's own schema is what counts
            found.append(schema)
    return found


def _check_names(field: pa.Field) -> None:
    """Decode the names of a field and of those within it, which Arrow does when they are read.

    Raises:
        UnicodeDecodeError: One is not UTF-8.
    """
    _ = field.name
    for number in range(field.type.num_fields):
        _check_names(field.type.field(number))


def choose_schema(
    schema: Schema,
    stored: list[pa.Schema],
    statistics_of: StatisticsOf,
    are_microseconds: AreMicroseconds,
    *,
    internal: bool = False,
) -> pa.Schema:
    """The Arrow schema of a shard's columns.

    Args:
        schema: The shard's schema.
        stored: Arrow schemas that the shard keeps. A field of theirs counts if all have the same, and if it goes with
            what the shard's own schema says of the column.
        statistics_of: Returns the statistics of a node's values.
        are_microseconds: Returns whether a node's ticks are whole microseconds; called for far ones only.
        internal: Whether internal fields are columns, too.

    Returns:
        The schema, with fields in the order of the shard.
    """
    wanted = schema.fields if internal else schema.columns
    leaf_type = partial(_leaf_type, statistics_of=statistics_of, are_microseconds=are_microseconds)
    fields = [_stored_field(field, stored) or _chosen_field(field, leaf_type) for field in wanted]
    metadata = stored[0].metadata if stored and all(s.metadata == stored[0].metadata for s in stored) else None
    return pa.schema(fields, metadata=metadata)


def _stored_field(field: Field, stored: list[pa.Schema]) -> pa.Field | None:
    candidates = []
    for schema in stored:
        index = schema.get_field_index(field.name)
        if index < 0 or not is_stored_as(schema.field(index), field.data_type):
            return None
        candidates.append(schema.field(index))
    if not candidates or any(not other.equals(candidates[0], check_metadata=True) for other in candidates):
        return None
    return candidates[0]


def _chosen_field(field: Field, leaf_type: Callable[[DataType], pa.DataType | None]) -> pa.Field:
    return arrow_field(field.data_type, leaf_type).with_name(field.name)


def _leaf_type(node: DataType, statistics_of: StatisticsOf, are_microseconds: AreMicroseconds) -> pa.DataType | None:
    """The type of a node whose values may need another than the usual one; None for the usual one."""
    are_whole = partial(are_microseconds, node)
    if node.basic_type is BasicType.DATE_TIME:
        return _tick_type(_bounds(statistics_of(node)), EPOCH_TICKS, pa.timestamp, pa.uint64(), are_whole)
    if node.label == ExtendedLabel.TIMESPAN and node.basic_type is BasicType.INT64:
        return _tick_type(_bounds(statistics_of(node)), 0, pa.duration, pa.int64(), are_whole)
    return _decimal_type(statistics_of(node)) if node.is_decimal else None


def _bounds(found: list[FieldStatistics]) -> tuple[Any, Any] | None:
    """The least and the greatest value; None if they are not known, or there is no value."""
    ranges = [each.range for each in found if each.null_count != each.position_count]
    if not ranges or any(each is None or each.low is None or each.high is None for each in ranges):
        return None
    return min(each.low for each in ranges if each), max(each.high for each in ranges if each)


def _tick_type(
    bounds: tuple[int, int] | None,
    epoch: int,
    of_unit: Callable[[str], pa.DataType],
    ticks: pa.DataType,
    are_whole: Callable[[], bool],
) -> pa.DataType:
    """Nanoseconds if they reach far enough, else microseconds if all values are whole ones, else the ticks."""
    if bounds is None:
        return of_unit("ns")
    low, high = bounds
    if fits_nanoseconds(low - epoch, high - epoch):
        return of_unit("ns")
    whole = low % TICKS_PER_MICROSECOND == 0 and high % TICKS_PER_MICROSECOND == 0
    return of_unit("us") if whole and are_whole() else ticks


def _decimal_type(found: list[FieldStatistics]) -> pa.DataType | None:
    """Digits before the point as the ends need them, of 38 or else of 76; the stored bytes if some are not numbers."""
    bounds = _bounds(found)
    if any(isinstance(each.details, NumberCounts) and each.details.nan_count for each in found):
        return pa.binary(DECIMAL_BYTES)
    if bounds is None:
        return None
    if not all(isinstance(bound, Decimal) and bound.is_finite() for bound in bounds):
        return pa.binary(DECIMAL_BYTES)
    before = max(max(bound.adjusted() + 1, 0) if bound else 0 for bound in bounds)
    if before > 2 * _MAX_DIGITS:
        return pa.binary(DECIMAL_BYTES)
    if before > _MAX_DIGITS - _LEAST_FRACTION:
        return pa.decimal256(2 * _MAX_DIGITS, 2 * _MAX_DIGITS - before)
    return pa.decimal128(_MAX_DIGITS, _MAX_DIGITS - before)


def with_types(schema: pa.Schema, asked: pa.Schema, nodes: dict[str, DataType]) -> pa.Schema:
    """The schema with the types that a caller asks for.

    Args:
        schema: What the columns read as otherwise.
        asked: Some of the columns, with other types.
        nodes: The shard's nodes of the columns, by name.

    Raises:
        SchemaError: A column of `asked` is not there, or cannot be read as the type.
    """
    for field in asked:
        index = schema.get_field_index(field.name)
        if index < 0:
            raise SchemaError(f"column {field.name!r} is not in the shard")
        if not is_stored_as(field, nodes[field.name]) and not _same_bytes(field.type, nodes[field.name]):
            raise SchemaError(
                f"column {field.name!r} cannot be read as {field.type}; without a schema it reads as "
                f"{schema.field(index).type}"
            )
        schema = schema.set(index, field)
    return schema


def _same_bytes(arrow: pa.DataType, node: DataType) -> bool:
    """Whether a plain type shows the stored values of a node as they are."""
    if node.basic_type is BasicType.DATE_TIME:
        return bool(arrow == pa.uint64())
    if node.label == ExtendedLabel.TIMESPAN and node.basic_type is BasicType.INT64:
        return bool(arrow == pa.int64())
    if node.label == ExtendedLabel.DYNAMIC:
        return bool(arrow in (pa.binary(), pa.large_binary(), pa.string(), pa.large_string()))
    return bool(node.fixed_size == 16 and not node.children and arrow == pa.binary(16))
