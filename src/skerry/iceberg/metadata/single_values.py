"""Default values of columns as JSON.

A default in memory has its *physical* form, the one of `skerry.table.rows.values`: int (dates in days, times in µs,
timestamps in the unit of their type), float, bool, str, Decimal or bytes (binary, fixed, uuid). Nested values are
tuples: of elements; of pairs of keys and values; of pairs of field ids and values for a struct, whose fields without
one keep their own defaults.

Spec: Iceberg spec, JSON single-value serialization, Default values.
"""

from __future__ import annotations

import decimal
import math
import re
import struct
import uuid
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from skerry.errors import FormatError, SkerryError
from skerry.iceberg.metadata.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from skerry.table.rows.value_texts import format_timestamp, parse_date, parse_time, parse_timestamp, parse_uuid

__all__ = ["value_from_json", "value_to_json"]

_RULE: Final = "Iceberg spec, JSON single-value serialization"
_MICROSECOND_NS: Final = 1000
_DAY_NS: Final = 86_400_000_000_000
_INT: Final = range(-(2**31), 2**31)
_LONG: Final = range(-(2**63), 2**63)
_HEX: Final = re.compile(r"(?:[0-9a-fA-F]{2})*")
_MAX_DECIMAL_CHARACTERS: Final = 100


def value_from_json(type_: IcebergType, value: Any, at: str) -> Any:
    """Read a value.

    Args:
        type_: Its type.
        value: Its decoded JSON.
        at: Its place in the document, for messages.

    Returns:
        The physical value; None for null.

    Raises:
        FormatError: It is not a value of that type.
    """
    if value is None:
        return None
    read = _READERS.get(type(type_))
    if read is None:
        raise FormatError(f"{at}: a column of type {type_} cannot have a default", rule=_RULE)
    try:
        return read(type_, value)
    except SkerryError:
        raise
    except (ValueError, ArithmeticError) as error:
        shown = repr(value)
        shown = shown if len(shown) <= 100 else shown[:100] + "…"
        raise FormatError(f"{at}: {shown} is not a value of type {type_}: {error}", rule=_RULE) from None
    except RecursionError:
        raise FormatError(f"{at}: nested too deeply", rule=_RULE) from None


def value_to_json(type_: IcebergType, value: Any) -> Any:
    """Write a value.

    Args:
        type_: Its type.
        value: The physical value; None for null.

    Raises:
        ValueError: JSON has no such value: NaN and infinities.
    """
    if value is None:
        return None
    return _WRITERS.get(type(type_), _same)(type_, value)


class _UnfitError(ValueError):
    """A JSON value is not one of the type."""


# Reading -------------------------------------------------------------------------------------------------------------


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _UnfitError("expected text")
    return value


def _read_boolean(type_: Any, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _UnfitError("expected true or false")
    return value


def _read_integer(type_: Any, value: Any) -> int:
    bits = _INT if isinstance(type_, IntegerType) else _LONG
    if type(value) is not int or value not in bits:
        raise _UnfitError(f"expected a whole number of {bits.stop.bit_length()} bits")
    return value


def _read_float(type_: Any, value: Any) -> float:
    if type(value) not in (int, float):
        raise _UnfitError("expected a number")
    number = float(value)
    if isinstance(type_, FloatType):
        number = struct.unpack("<f", struct.pack("<f", number))[0]
    if not math.isfinite(number):
        raise _UnfitError("expected a finite number")
    return number


def _read_decimal(type_: DecimalType, value: Any) -> decimal.Decimal:
    text = _text(value)
    if len(text) > _MAX_DECIMAL_CHARACTERS:
        raise _UnfitError("too long")
    try:
        number = decimal.Decimal(text)
    except decimal.InvalidOperation:
        raise _UnfitError("expected a decimal number") from None
    digits = number.as_tuple()
    if digits.exponent != -type_.scale or len(digits.digits) > type_.precision:
        raise _UnfitError(f"expected {type_.scale} digits after the point, and at most {type_.precision} in all")
    return number


def _read_date(type_: Any, value: Any) -> int:
    days = parse_date(_text(value))
    if days not in _INT:
        raise _UnfitError("it does not fit 32 bits")
    return days


def _read_time(type_: Any, value: Any) -> int:
    return _exact(parse_time(_text(value)), _MICROSECOND_NS)


def _read_timestamp(type_: Any, value: Any) -> int:
    nanoseconds, zoned = parse_timestamp(_text(value))
    if zoned is not isinstance(type_, TimestamptzType | TimestamptzNanoType):
        raise _UnfitError(f"it has {'a' if zoned else 'no'} zone")
    unit = 1 if isinstance(type_, TimestampNanoType | TimestamptzNanoType) else _MICROSECOND_NS
    return _exact(nanoseconds, unit)


def _exact(nanoseconds: int, unit: int) -> int:
    number, rest = divmod(nanoseconds, unit)
    if rest:
        raise _UnfitError("it is finer than the type's unit")
    if number not in _LONG:
        raise _UnfitError("it does not fit 64 bits")
    return number


def _read_string(type_: Any, value: Any) -> str:
    return _text(value)


def _read_uuid(type_: Any, value: Any) -> bytes:
    return parse_uuid(_text(value))


def _read_bytes(type_: Any, value: Any) -> bytes:
    text = _text(value)
    if not _HEX.fullmatch(text):
        raise _UnfitError("expected hexadecimal digits")
    data = bytes.fromhex(text)
    if isinstance(type_, FixedType) and len(data) != type_.length:
        raise _UnfitError(f"expected {type_.length} bytes, found {len(data)}")
    return data


def _read_list(type_: ListType, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise _UnfitError("expected an array")
    return tuple(_part(type_.element_type, item) for item in value)


def _read_map(type_: MapType, value: Any) -> tuple[tuple[Any, Any], ...]:
    keys, values = (value.get("keys"), value.get("values")) if isinstance(value, dict) else (None, None)
    if not isinstance(keys, list) or not isinstance(values, list) or len(keys) != len(values):
        raise _UnfitError("expected as many `keys` as `values`")
    return tuple(
        (_part(type_.key_type, key), _part(type_.value_type, item)) for key, item in zip(keys, values, strict=True)
    )


def _read_struct(type_: StructType, value: Any) -> tuple[tuple[int, Any], ...]:
    if not isinstance(value, dict):
        raise _UnfitError("expected an object")
    fields = {str(field.field_id): field for field in type_.fields}
    if not value.keys() <= fields.keys():
        raise _UnfitError("it has a field that the struct has not")
    return tuple((fields[name].field_id, _part(fields[name].field_type, item)) for name, item in value.items())


def _part(type_: IcebergType, value: Any) -> Any:
    if value is None:
        return None
    read = _READERS.get(type(type_))
    if read is None:
        raise _UnfitError(f"a value of type {type_} cannot be part of a default")
    return read(type_, value)


_READERS: Final[dict[type, Callable[[Any, Any], Any]]] = {
    BooleanType: _read_boolean,
    IntegerType: _read_integer,
    LongType: _read_integer,
    FloatType: _read_float,
    DoubleType: _read_float,
    DecimalType: _read_decimal,
    DateType: _read_date,
    TimeType: _read_time,
    StringType: _read_string,
    UUIDType: _read_uuid,
    **dict.fromkeys((TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType), _read_timestamp),
    **dict.fromkeys((BinaryType, FixedType), _read_bytes),
    ListType: _read_list,
    MapType: _read_map,
    StructType: _read_struct,
}


# Writing -------------------------------------------------------------------------------------------------------------


def _same(type_: Any, value: Any) -> Any:
    return value


def _write_float(type_: Any, value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("JSON has neither NaN nor infinities")
    # the shortest text that is read as the same 32-bit number
    return float(str(np.float32(value))) if isinstance(type_, FloatType) else value


def _write_date(type_: Any, value: int) -> str:
    return format_timestamp(value * _DAY_NS).partition(" ")[0]


def _write_time(type_: Any, value: int) -> str:
    return format_timestamp(value * _MICROSECOND_NS).partition(" ")[2]


def _write_timestamp(type_: Any, value: int) -> str:
    unit = 1 if isinstance(type_, TimestampNanoType | TimestamptzNanoType) else _MICROSECOND_NS
    text = format_timestamp(value * unit).replace(" ", "T")
    return f"{text}+00:00" if isinstance(type_, TimestamptzType | TimestamptzNanoType) else text


_WRITERS: Final[dict[type, Callable[[Any, Any], Any]]] = {
    FloatType: _write_float,
    DoubleType: _write_float,
    DecimalType: lambda type_, value: f"{value:f}" if type_.scale >= 0 else str(value),
    DateType: _write_date,
    TimeType: _write_time,
    **dict.fromkeys((TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType), _write_timestamp),
    UUIDType: lambda type_, value: str(uuid.UUID(bytes=value)),
    **dict.fromkeys((BinaryType, FixedType), lambda type_, value: value.hex()),
    ListType: lambda type_, value: [value_to_json(type_.element_type, item) for item in value],
    MapType: lambda type_, value: {
        "keys": [value_to_json(type_.key_type, key) for key, _ in value],
        "values": [value_to_json(type_.value_type, item) for _, item in value],
    },
    StructType: lambda type_, value: {
        str(number): value_to_json(_field_type(type_, number), item) for number, item in value
    },
}


def _field_type(type_: StructType, field_id: int) -> IcebergType:
    return next(field.field_type for field in type_.fields if field.field_id == field_id)
