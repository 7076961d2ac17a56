"""Partition transforms, vectorised over Arrow columns, and their text form.

Spec: Iceberg spec, Partition Transforms, Bucket Transform Details, Truncate Transform Details.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import SchemaError, UnsupportedError
from skerry.iceberg.metadata.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from skerry.iceberg.partitioning.murmur import hash_column
from skerry.table.rows.schema import nearest

__all__ = ["apply", "hour_limits", "parse_transform", "result_type", "unquote"]

_RULE = "Iceberg spec, Partition Transforms"
_MAX_PARAMETER = 2**31 - 1

_BY_NAME: dict[str, Callable[..., Transform]] = {
    "identity": IdentityTransform,
    "bucket": BucketTransform,
    "truncate": TruncateTransform,
    "year": YearTransform,
    "years": YearTransform,
    "month": MonthTransform,
    "months": MonthTransform,
    "day": DayTransform,
    "days": DayTransform,
    "hour": HourTransform,
    "hours": HourTransform,
    "void": VoidTransform,
}
_WITH_PARAMETER = frozenset({"bucket", "truncate"})

_NAME = r'"(?:[^"]|"")+"|[^\s(),"]+'
_CALL = re.compile(rf"\s*(?P<function>\w+)\s*\(\s*(?P<first>{_NAME})\s*(?:,\s*(?P<second>{_NAME})\s*)?\)\s*")
_COLUMN = re.compile(rf"\s*(?P<column>{_NAME})\s*")


def parse_transform(text: str) -> tuple[str, Transform]:
    """Parse a transform in text form.

    Args:
        text: A column, or `year(c)`, `month(c)`, `day(c)`, `hour(c)` (also in the plural, as Spark has them),
            `bucket(16, c)`, `truncate(10, c)` (either argument first), `identity(c)`, `void(c)`. Column names with
            blanks, commas or parentheses are double-quoted.

    Returns:
        The column's name and the transform.

    Raises:
        SchemaError: The text is none of these.
    """
    column = _COLUMN.fullmatch(text)
    if column is not None:
        return unquote(column["column"]), IdentityTransform()
    call = _CALL.fullmatch(text)
    if call is None:
        raise SchemaError(
            f"{text!r} is not a partition transform; expected a column, day(column), bucket(16, column), …"
        )
    function = call["function"].lower()
    if function not in _BY_NAME:
        raise SchemaError(f"there is no partition transform {function!r}{nearest(function, _BY_NAME)}")
    if function not in _WITH_PARAMETER:
        if call["second"] is not None:
            raise SchemaError(f"{text!r}: {function} takes exactly one column")
        return unquote(call["first"]), _BY_NAME[function]()
    arguments = [call["first"], call["second"]]
    if call["second"] is not None and not call["first"].isdigit():
        arguments.reverse()
    if arguments[1] is None or not arguments[0].isdigit() or not 0 < int(arguments[0]) <= _MAX_PARAMETER:
        raise SchemaError(f"{text!r}: {function} takes a positive number and a column, as in {function}(16, column)")
    return unquote(arguments[1]), _BY_NAME[function](int(arguments[0]))


def unquote(name: str) -> str:
    """A column name without the double quotes around it."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


# Results -------------------------------------------------------------------------------------------------------------


def result_type(transform: Transform, source: pa.DataType) -> pa.DataType:
    """The Arrow type of a transform's results.

    Raises:
        SchemaError: The transform does not apply to columns of the source type.
        UnsupportedError: The transform is unknown.
    """
    for kind, accepts, result in _RESULTS:
        if isinstance(transform, kind):
            if pa.types.is_nested(source) or not accepts(source):
                raise SchemaError(f"{transform} does not apply to a column of type {source}", rule=_RULE)
            return source if result is None else result
    raise UnsupportedError(f"partition transform {transform} is not supported", rule=_RULE)


def apply(transform: Transform, column: Any) -> Any:
    """Transform a column.

    Args:
        transform: PyIceberg's description of the transform.
        column: pa.Array or pa.ChunkedArray of exactly the table's type, or dictionary-encoded values of it.

    Returns:
        An array of `result_type` and of the input's length and kind; null where the input is.

    Raises:
        SchemaError: The transform does not apply to columns of this type, or a result does not fit its type.
        UnsupportedError: The transform is unknown.

    Spec: Iceberg spec, Partition Transforms.
    """
    if isinstance(column, pa.ChunkedArray):
        type_ = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        return pa.chunked_array(
            [apply(transform, chunk) for chunk in column.chunks], type=result_type(transform, type_)
        )
    if pa.types.is_dictionary(column.type):
        return apply(transform, column.dictionary).take(column.indices)
    result = result_type(transform, column.type)
    if isinstance(transform, IdentityTransform):
        return column
    if isinstance(transform, VoidTransform):
        return pa.nulls(len(column), result)
    if isinstance(transform, BucketTransform):
        hashes = hash_column(column)
        return pa.array((hashes & 0x7FFFFFFF) % np.int32(transform.num_buckets), result, mask=_nulls(column))
    if isinstance(transform, TruncateTransform):
        return _truncate(column, transform.width)
    return _time_part(transform, column, result)


def _nulls(column: pa.Array) -> npt.NDArray[np.bool_] | None:
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False), dtype=bool) if column.null_count else None


def _values(column: pa.Array, dtype: str) -> npt.NDArray[Any]:
    buffer = column.buffers()[1]
    if buffer is None:
        return np.zeros(len(column), dtype)
    return np.frombuffer(buffer, dtype)[column.offset : column.offset + len(column)]


_PER_HOUR = {"us": 3_600_000_000, "ns": 3_600_000_000_000}


def _time_part(transform: Transform, column: pa.Array, result: pa.DataType) -> pa.Array:
    """Years, months, days or hours since 1970-01-01 00:00, rounded down also before it."""
    if pa.types.is_date32(column.type):
        days = _values(column, "i4")
    else:
        since = _values(column, "i8")
        if isinstance(transform, HourTransform):
            return _hours(np.floor_divide(since, _PER_HOUR[column.type.unit]), result, _nulls(column))
        days = np.floor_divide(since, 24 * _PER_HOUR[column.type.unit]).astype(np.int32)
    if isinstance(transform, DayTransform):
        return pa.array(days, pa.int32(), mask=_nulls(column)).cast(result)
    unit = "Y" if isinstance(transform, YearTransform) else "M"
    parts = days.astype(np.int64).view("M8[D]").astype(f"M8[{unit}]").view(np.int64)
    return pa.array(parts.astype(np.int32), result, mask=_nulls(column))


def _hours(hours: npt.NDArray[np.int64], result: pa.DataType, nulls: npt.NDArray[np.bool_] | None) -> pa.Array:
    """Hours as 32-bit partition values, which cover less than microsecond timestamps."""
    beyond = hours != hours.astype(np.int32)
    if nulls is not None:
        beyond &= ~nulls
    if beyond.any():
        raise SchemaError(
            f"hour() of a timestamp {int(hours[beyond][0])} hours from 1970 does not fit 32 bits", rule=_RULE
        )
    return pa.array(hours.astype(np.int32), result, mask=nulls)


def hour_limits(source: pa.DataType) -> tuple[int, int]:
    """The smallest and largest timestamp whose hour fits 32 bits, in the type's units."""
    per_hour = _PER_HOUR[source.unit]
    return max(-(2**31) * per_hour, -(2**63)), min(2**31 * per_hour, 2**63) - 1


def _truncate(column: pa.Array, width: int) -> pa.Array:
    """Numbers round down; strings keep code points, binary keeps bytes.

    Spec: Iceberg spec, Truncate Transform Details.
    """
    type_ = column.type
    if pa.types.is_string(type_):
        return pc.utf8_slice_codeunits(column, 0, width)
    if pa.types.is_binary(type_):
        return pc.binary_slice(column, 0, width)
    if pa.types.is_decimal(type_):
        return _truncate_decimal(column, width)
    values = _values(column, "i4" if pa.types.is_int32(type_) else "i8")
    return pa.array(values - np.remainder(values, values.dtype.type(width)), type_, mask=_nulls(column))


def _truncate_decimal(column: pa.Array, width: int) -> pa.Array:
    # 128 bits as high·2^64 + low; the width is below 2^31, so that products of remainders fit 64 bits
    words = _values(column, "<u8,<i8")
    low, high = words["f0"], words["f1"]
    step = np.uint64(width)
    shifted = np.remainder(high, np.int64(width)).astype(np.uint64) * np.uint64(2**64 % width)
    remainder = (shifted + low % step) % step
    result = np.empty(len(column), "<u8,<i8")
    result["f0"] = low - remainder
    result["f1"] = high - (low < remainder)
    nulls = _nulls(column)
    validity = None if nulls is None else pa.array(~nulls).buffers()[1]
    truncated = pa.Array.from_buffers(column.type, len(column), [validity, pa.py_buffer(result)])
    try:
        truncated.validate(full=True)
    except pa.ArrowInvalid as error:  # rounding down the smallest values may need one more digit
        raise SchemaError(f"truncate[{width}] overflows {column.type}: {error}", rule=_RULE) from error
    return truncated


def _any(source: pa.DataType) -> bool:
    return True


def _is_dated(source: pa.DataType) -> bool:
    return pa.types.is_date32(source) or pa.types.is_timestamp(source)


def _is_bucketable(source: pa.DataType) -> bool:
    return not (pa.types.is_floating(source) or pa.types.is_boolean(source) or pa.types.is_null(source))


def _is_truncatable(source: pa.DataType) -> bool:
    return source in (pa.int32(), pa.int64(), pa.string(), pa.binary()) or pa.types.is_decimal128(source)


_RESULTS: tuple[tuple[Any, Callable[[pa.DataType], bool], pa.DataType | None], ...] = (
    (IdentityTransform, _any, None),
    (VoidTransform, _any, None),
    (BucketTransform, _is_bucketable, pa.int32()),
    (TruncateTransform, _is_truncatable, None),
    (YearTransform, _is_dated, pa.int32()),
    (MonthTransform, _is_dated, pa.int32()),
    (DayTransform, _is_dated, pa.date32()),
    (HourTransform, pa.types.is_timestamp, pa.int32()),
)
