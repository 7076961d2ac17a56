"""Single values as bytes: Iceberg's binary single-value serialisation, keyed by Arrow type.

Column bounds, partition summaries and the bytes that a Theta sketch hashes have this form. A value in its *physical*
form is what planning compares: int (also for date in days, time in µs, timestamp in the unit of its type), float,
bool, str, Decimal, or bytes (binary, fixed, uuid).

Spec: Iceberg spec, Binary single-value serialization, Schema Evolution (promoted columns have widths shorter than the
type's).
"""

from __future__ import annotations

import datetime
import decimal
import struct
import uuid
from typing import Any

import numpy as np
import pyarrow as pa

from skerry.errors import FormatError, SchemaError

__all__ = [
    "arrow_storage",
    "decode_value",
    "decode_values",
    "encode_value",
    "is_uuid",
    "natural_value",
    "physical_value",
]

_RULE = "Iceberg spec, Binary single-value serialization"
_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EPOCH_DAYS = datetime.date(1970, 1, 1).toordinal()
_PER_DAY = {"us": 86_400_000_000, "ns": 86_400_000_000_000}
_EXACT = decimal.Context(prec=80, traps=[decimal.Inexact, decimal.InvalidOperation])

_INTEGERS = {
    pa.int8(): (-(2**7), 2**7 - 1),
    pa.int16(): (-(2**15), 2**15 - 1),
    pa.int32(): (-(2**31), 2**31 - 1),
    pa.uint8(): (0, 2**8 - 1),
    pa.uint16(): (0, 2**16 - 1),
    pa.int64(): (-(2**63), 2**63 - 1),
    pa.uint32(): (0, 2**32 - 1),
    pa.date32(): (-(2**31), 2**31 - 1),
}
_FORMATS = {
    pa.bool_(): "<?",
    pa.int64(): "<q",
    pa.uint32(): "<q",
    pa.float32(): "<f",
    pa.float64(): "<d",
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.date32()), "<i"),
}


def is_uuid(type_: pa.DataType) -> bool:
    """Whether a type is Arrow's canonical UUID extension."""
    return isinstance(type_, pa.UuidType)


def _is_string(type_: pa.DataType) -> bool:
    return pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_)


def _is_binary(type_: pa.DataType) -> bool:
    return pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or pa.types.is_binary_view(type_)


def _fixed_length(type_: pa.DataType) -> int | None:
    if is_uuid(type_):
        return 16
    return type_.byte_width if pa.types.is_fixed_size_binary(type_) else None


def _format(type_: pa.DataType) -> str | None:
    if pa.types.is_timestamp(type_) or pa.types.is_time(type_):
        units = ("us", "ns") if pa.types.is_timestamp(type_) else ("us",)
        return "<q" if type_.unit in units else None
    return _FORMATS.get(type_)


def _unsupported(type_: pa.DataType) -> SchemaError:
    return SchemaError(f"type {type_} has no single-value serialisation", rule=_RULE)


# Values in their physical form ---------------------------------------------------------------------------------------


def natural_value(type_: pa.DataType, value: Any) -> Any:
    """Convert a physical value to Python's natural type: date, time, datetime, UUID; others are unchanged.

    A value that Python's types cannot represent (a year after 9999, a nanosecond) stays physical.
    """
    if value is None or not (pa.types.is_temporal(type_) or is_uuid(type_)):
        return value
    try:
        return pa.scalar(value, type_).as_py()
    except (ValueError, OverflowError, pa.ArrowException):
        return value


def physical_value(type_: pa.DataType, value: Any) -> Any:
    """Convert a value to the form that planning compares.

    Args:
        type_: The column's Arrow type.
        value: A physical value, or the natural Python one (date, time, datetime, UUID), or an Arrow or NumPy
            scalar. None stays None.

    Returns:
        int, float, bool, str, Decimal, bytes or None.

    Raises:
        SchemaError: The value does not fit the type, or would lose precision in it.
    """
    try:
        if isinstance(value, pa.Scalar):
            value = _from_scalar(type_, value)
        if value is None:
            return None
        result = _to_physical(type_, value)
    except (ValueError, OverflowError, decimal.InvalidOperation, decimal.Inexact) as error:
        reason = error or type(error).__name__
        raise SchemaError(f"value {_shown(value)} does not fit type {type_}: {reason}") from error
    if result is None:
        raise SchemaError(f"value {_shown(value)} ({type(value).__name__}) does not fit type {type_}")
    return result


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except (OverflowError, ValueError):  # a timestamp beyond Python's years
        return str(value.value)


_NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}


def _from_scalar(type_: pa.DataType, scalar: pa.Scalar) -> Any:
    """The plain value of a scalar; as_py() supports neither nanoseconds nor years after 9999."""
    if not scalar.is_valid:
        return None
    given = scalar.type
    if isinstance(scalar, pa.ExtensionScalar):
        return scalar.value.as_py()
    if pa.types.is_date(given) and pa.types.is_date(type_):
        return scalar.value if pa.types.is_date32(given) else _divided(scalar.value, 86_400_000)
    same_kind = pa.types.is_time(given) and pa.types.is_time(type_)
    if pa.types.is_timestamp(given) and pa.types.is_timestamp(type_):
        _check_zone(type_, given.tz)
        same_kind = True
    if same_kind:
        return _divided(scalar.value * _NANOSECONDS[given.unit], _NANOSECONDS[type_.unit])
    return scalar.as_py()


def _divided(number: int, unit: int) -> int:
    if number % unit:
        raise ValueError("finer than the type's unit")
    return number // unit


def _to_physical(type_: pa.DataType, value: Any) -> Any:
    """The physical value; None if the Python type is wrong, ValueError if the value is."""
    if pa.types.is_boolean(type_):
        return bool(value) if isinstance(value, bool | np.bool_) else None
    if pa.types.is_timestamp(type_):
        return _timestamp(type_, value)
    if pa.types.is_time64(type_):
        return _time(value)
    if type_ in _INTEGERS:
        if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
            value = value.toordinal() - _EPOCH_DAYS if pa.types.is_date(type_) else None
        return _integer(value, *_INTEGERS[type_])
    if pa.types.is_floating(type_):
        return _float(type_, value)
    if pa.types.is_decimal(type_):
        return _decimal(type_, value)
    if _is_string(type_):
        return str(value) if isinstance(value, str) else None
    length = _fixed_length(type_)
    if is_uuid(type_) and isinstance(value, uuid.UUID | str):
        return (value if isinstance(value, uuid.UUID) else uuid.UUID(value)).bytes
    if length is None and not _is_binary(type_):
        raise _unsupported(type_)
    if not isinstance(value, bytes | bytearray | memoryview):
        return None
    data = bytes(value)
    if length is not None and len(data) != length:
        raise ValueError(f"expected {length} bytes, found {len(data)}")
    return data


def _integer(value: Any, low: int, high: int) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        return None
    number = int(value)
    if not low <= number <= high:
        raise ValueError(f"outside {low} … {high}")
    return number


def _float(type_: pa.DataType, value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating | np.integer):
        return None
    number = float(value)
    if pa.types.is_float32(type_):
        return struct.unpack("<f", struct.pack("<f", number))[0]
    if pa.types.is_float64(type_):
        return number
    raise _unsupported(type_)


def _decimal(type_: pa.DataType, value: Any) -> decimal.Decimal | None:
    if isinstance(value, bool) or not isinstance(value, decimal.Decimal | int | np.integer):
        return None
    number = value if isinstance(value, decimal.Decimal) else decimal.Decimal(int(value))
    if not number.is_finite():
        raise ValueError("not finite")
    number = number.quantize(decimal.Decimal((0, (1,), -type_.scale)), context=_EXACT)
    if len(number.as_tuple().digits) > type_.precision:
        raise ValueError(f"more than {type_.precision} digits")
    return number


def _time(value: Any) -> int | None:
    if isinstance(value, datetime.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    return _integer(value, 0, _PER_DAY["us"] - 1)


def _timestamp(type_: pa.DataType, value: Any) -> int | None:
    factor = 1000 if type_.unit == "ns" else 1
    if hasattr(value, "to_datetime64") and hasattr(value, "tzinfo"):  # a pandas timestamp keeps nanoseconds there
        _check_zone(type_, value.tzinfo)
        value = value.to_datetime64()
    if isinstance(value, datetime.datetime):
        _check_zone(type_, value.tzinfo)
        since = value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)
        return _integer(since // datetime.timedelta(microseconds=1) * factor, -(2**63), 2**63 - 1)
    if isinstance(value, np.datetime64):
        converted = value.astype(f"datetime64[{type_.unit}]")
        if converted != value:
            raise ValueError("finer than the type's unit, or outside its range")
        return int(converted.astype(np.int64))
    return _integer(value, -(2**63), 2**63 - 1)


def _check_zone(type_: pa.DataType, zone: Any) -> None:
    if (zone is None) != (type_.tz is None):
        raise ValueError("a time zone is " + ("missing" if zone is None else "there, but the type has none"))


# Bytes ---------------------------------------------------------------------------------------------------------------


def encode_value(type_: pa.DataType, value: Any) -> bytes:
    """Serialise one value.

    Args:
        type_: The column's Arrow type.
        value: Anything `physical_value` accepts, except None.

    Returns:
        The bytes, little-endian for numbers, minimal big-endian two's complement for decimals.

    Raises:
        SchemaError: The value is null or does not fit the type, or the type has no serialisation.

    Spec: Iceberg spec, Binary single-value serialization.
    """
    physical = physical_value(type_, value)
    if physical is None:
        raise SchemaError(f"a null of type {type_} has no single-value serialisation", rule=_RULE)
    if isinstance(physical, str):
        return physical.encode()
    if isinstance(physical, bytes):
        return physical
    if isinstance(physical, decimal.Decimal):
        unscaled = int(physical.scaleb(type_.scale, _EXACT))
        return unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, "big", signed=True)
    layout = _format(type_)
    if layout is None:
        raise _unsupported(type_)
    return struct.pack(layout, physical)


def arrow_storage(type_: pa.DataType) -> pa.DataType:
    """The type that PyArrow can compare: the storage of an extension type, otherwise the type itself."""
    return type_.storage_type if isinstance(type_, pa.BaseExtensionType) else type_


def decode_value(type_: pa.DataType, data: bytes) -> Any:
    """Decode one serialised value.

    Args:
        type_: The column's current Arrow type; shorter bytes of the type it was promoted from are accepted.
        data: The bytes.

    Returns:
        The physical value.

    Raises:
        FormatError: The length or the content is invalid for the type.
        SchemaError: The type has no serialisation.

    Spec: Iceberg spec, Binary single-value serialization.
    """
    if _is_string(type_):
        try:
            return bytes(data).decode()
        except UnicodeDecodeError as error:
            raise FormatError(f"value of type {type_} is not UTF-8", offset=error.start, rule=_RULE) from error
    if _is_binary(type_):
        return bytes(data)
    if pa.types.is_decimal(type_):
        _check_length(type_, len(data))
        number = decimal.Decimal(int.from_bytes(data, "big", signed=True))
        if len(number.as_tuple().digits) > type_.precision:
            raise FormatError(f"value {number} has more digits than {type_} allows", rule=_RULE)
        return number.scaleb(-type_.scale, _EXACT)
    _check_length(type_, len(data))
    if _fixed_length(type_) is not None:
        return bytes(data)
    layout = _format(type_)
    if layout is None:
        raise _unsupported(type_)
    if len(data) < struct.calcsize(layout):
        promoted = struct.unpack("<f" if layout == "<d" else "<i", data)[0]
        return promoted * _PER_DAY[type_.unit] if pa.types.is_timestamp(type_) else promoted
    if layout == "<?":
        return data[0] != 0
    return struct.unpack(layout, data)[0]


def _lengths(type_: pa.DataType) -> tuple[int, ...]:
    """The valid lengths of a value of a type."""
    fixed = _fixed_length(type_)
    if fixed is not None:
        return (fixed,)
    if pa.types.is_decimal(type_):
        return tuple(range(1, 17))
    layout = _format(type_)
    if layout is None:
        raise _unsupported(type_)
    width = struct.calcsize(layout)
    zoned = pa.types.is_timestamp(type_) and type_.tz is not None
    promotable = width == 8 and not zoned and not pa.types.is_time(type_)
    return (4, 8) if promotable else (width,)


def _check_length(type_: pa.DataType, length: int, *, row: int | None = None) -> None:
    allowed = _lengths(type_)
    if length not in allowed:
        expected = f"{allowed[0]} to {allowed[-1]}" if len(allowed) > 2 else " or ".join(map(str, allowed))
        where = "" if row is None else f" in row {row}"
        raise FormatError(f"value of type {type_}{where} takes {expected} bytes, found {length}", rule=_RULE)


def decode_values(type_: pa.DataType, data: pa.Array) -> pa.Array:
    """Decode a column of serialised values without creating a Python object per value.

    Args:
        type_: The column's current Arrow type, with decimals as decimal128.
        data: binary[n], null where there is no value.

    Returns:
        Array of type `type_`[n], null where the input is.

    Raises:
        FormatError: A length or a content is invalid for the type.
        SchemaError: The type has no serialisation.

    Spec: Iceberg spec, Binary single-value serialization.
    """
    if isinstance(data, pa.ChunkedArray):
        data = data.combine_chunks()
    if _is_binary(type_):
        return data.cast(type_)
    if _is_string(type_):
        try:
            return data.cast(pa.string()).cast(type_)
        except pa.ArrowInvalid as error:
            raise FormatError(f"a value of type {type_} is not UTF-8", rule=_RULE) from error
    data = data.cast(pa.large_binary())
    count = len(data)
    _, offset_buffer, bytes_buffer = data.buffers()
    offsets = (
        np.frombuffer(offset_buffer, np.int64)[data.offset : data.offset + count + 1] if count else np.zeros(1, int)
    )
    content = np.frombuffer(bytes_buffer, np.uint8) if bytes_buffer is not None else np.empty(0, np.uint8)
    valid = np.asarray(data.is_valid().to_numpy(zero_copy_only=False), dtype=bool)
    lengths = np.diff(offsets)
    present = np.unique(lengths[valid]) if count else np.empty(0, np.int64)
    for length in present.tolist():
        row = int(np.flatnonzero(valid & (lengths == length))[0])
        _check_length(type_, length, row=row)
    _lengths(type_)
    width = 16 if pa.types.is_decimal(type_) else max(_lengths(type_))
    if present.tolist() == [width] and valid.all() and not pa.types.is_decimal(type_):
        return _from_bytes(type_, content[offsets[0] : offsets[-1]].reshape(count, width), valid)
    wide = np.zeros((count, width), np.uint8)
    for length in present.tolist():
        rows = np.flatnonzero(valid & (lengths == length))
        wide[rows] = _widen(type_, content[offsets[rows, None] + np.arange(length)], width)
    return _from_bytes(type_, wide, valid)


def _widen(type_: pa.DataType, raw: np.ndarray, width: int) -> np.ndarray:
    """Values uint8[n, length] as uint8[n, width] of the current type, little-endian."""
    length = raw.shape[1]
    if pa.types.is_decimal(type_):
        sign = np.where(raw[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
        return np.hstack([raw[:, ::-1], np.repeat(sign, width - length, axis=1)])
    if length == width:
        return raw
    narrow = np.ascontiguousarray(raw)
    if pa.types.is_float64(type_):
        wide = narrow.view("<f4").astype("<f8")
    elif pa.types.is_timestamp(type_):
        wide = narrow.view("<i4").astype("<i8") * _PER_DAY[type_.unit]
    else:
        wide = narrow.view("<i4").astype("<i8")
    return wide.view(np.uint8)


def _from_bytes(type_: pa.DataType, wide: np.ndarray, valid: np.ndarray) -> pa.Array:
    """Array of a fixed-width type from its values uint8[n, width], little-endian."""
    count = len(wide)
    validity = None if valid.all() else pa.array(valid).buffers()[1]
    if pa.types.is_boolean(type_):
        return pa.array(wide[:, 0] != 0, mask=~valid)
    if is_uuid(type_):
        return _from_bytes(pa.binary(16), wide, valid).cast(type_)
    storage = type_
    if _INTEGERS.get(type_, (0, 0))[1] and type_ not in (pa.int32(), pa.int64(), pa.date32()):
        storage = pa.int64() if wide.shape[1] == 8 else pa.int32()
    array = pa.Array.from_buffers(storage, count, [validity, pa.py_buffer(np.ascontiguousarray(wide))])
    try:
        array.validate(full=True)
        return array if storage == type_ else array.cast(type_)
    except pa.ArrowInvalid as error:
        raise FormatError(f"a value is outside the range of type {type_}: {error}", rule=_RULE) from error
