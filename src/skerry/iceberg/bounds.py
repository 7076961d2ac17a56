"""Column bounds: Parquet statistics as values of the table's type, and values as bounds of limited length.

Spec: Iceberg table spec, Data File Fields (notes 1 and 2); Parquet, Statistics and Logical Types.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from skerry.errors import SchemaError
from skerry.table.values import encode_value, is_uuid

__all__ = ["bound_of", "encode_bounds", "truncate_lower", "truncate_upper"]

_NANOSECONDS = {"milliseconds": 1_000_000, "microseconds": 1000, "nanoseconds": 1}
_UNITS = {"us": 1000, "ns": 1}
_MAX_CODE_POINT = 0x10FFFF
_WIDE = decimal.Context(prec=80)


# From Parquet statistics ---------------------------------------------------------------------------------------------


def bound_of(type_: pa.DataType, raw: Any, physical_type: str, logical_type: Mapping[str, Any], *, upper: bool) -> Any:
    """A minimum or maximum of a Parquet column chunk as a value of the table's type.

    Args:
        type_: The table's Arrow type of the column.
        raw: The statistic as Parquet stores it: int, float, bool or bytes.
        physical_type: Parquet's physical type.
        logical_type: Parquet's logical type, as PyArrow's JSON has it.
        upper: Whether it is the maximum; a value that falls between two of the table's is rounded outward.

    Returns:
        The physical value; None if the stored type is not one that the table's type is read from.
    """
    kind = logical_type.get("Type")
    if pa.types.is_boolean(type_):
        return bool(raw) if physical_type == "BOOLEAN" else None
    if type_ in (pa.int32(), pa.int64()):
        return _integer(raw, physical_type, logical_type)
    if pa.types.is_floating(type_):
        return float(raw) if physical_type in ("FLOAT", "DOUBLE") else None
    if pa.types.is_date32(type_):
        return raw if kind == "Date" else None
    if pa.types.is_time64(type_):
        return _rescale(raw, logical_type, 1000, upper=upper) if kind == "Time" else None
    if pa.types.is_timestamp(type_):
        same_kind = kind == "Timestamp" and logical_type["isAdjustedToUTC"] == (type_.tz is not None)
        return _rescale(raw, logical_type, _UNITS[type_.unit], upper=upper) if same_kind else None
    if pa.types.is_decimal(type_):
        if kind != "Decimal" or logical_type["scale"] != type_.scale:
            return None
        unscaled = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw
        return decimal.Decimal(unscaled).scaleb(-type_.scale, _WIDE)
    if not isinstance(raw, bytes):
        return None
    if pa.types.is_string(type_):
        return _string(raw, upper=upper) if kind in ("String", "Enum", "JSON", "None") else None
    if pa.types.is_fixed_size_binary(type_) or is_uuid(type_):
        return raw if len(raw) == (16 if is_uuid(type_) else type_.byte_width) else None
    return raw if pa.types.is_binary(type_) else None


def _integer(raw: Any, physical_type: str, logical_type: Mapping[str, Any]) -> int | None:
    if physical_type not in ("INT32", "INT64") or logical_type.get("Type") not in ("Int", "None"):
        return None
    if not logical_type.get("isSigned", True):
        return int(raw) & (0xFFFFFFFF if physical_type == "INT32" else 0xFFFFFFFFFFFFFFFF)
    return int(raw)


def _rescale(raw: int, logical_type: Mapping[str, Any], unit: int, *, upper: bool) -> int:
    nanoseconds = raw * _NANOSECONDS[logical_type["timeUnit"]]
    return -(-nanoseconds // unit) if upper else nanoseconds // unit


def _string(raw: bytes, *, upper: bool) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        # cut within a code point by a writer that shortens statistics: what stands before it is a lower bound still
        return None if upper or error.start == 0 else raw[: error.start].decode()


# To bounds -----------------------------------------------------------------------------------------------------------


def encode_bounds(
    type_: pa.DataType, lower: list[Any] | None, upper: list[Any] | None, length: int | None
) -> tuple[bytes | None, bytes | None]:
    """Bounds over several chunks, serialised.

    Args:
        type_: The table's Arrow type of the column.
        lower: Least values, none of them NaN; None if they are not all known.
        upper: Greatest values, likewise.
        length: Most code points of a string and bytes of a binary value; None keeps them whole.

    Returns:
        Lower and upper bound; None where there is none.

    Spec: Iceberg, Data File Fields, note 2: -0.0 comes before 0.0.
    """
    least = min(lower) if lower else None
    greatest = max(upper) if upper else None
    if pa.types.is_floating(type_):
        # writers do not tell the zeros apart, so that either may be in the column
        least = -0.0 if least == 0 else least
        greatest = 0.0 if greatest == 0 else greatest
    if length is not None and least is not None:
        least = truncate_lower(least, length)
    if length is not None and greatest is not None:
        greatest = truncate_upper(greatest, length)
    return _encode(type_, least), _encode(type_, greatest)


def _encode(type_: pa.DataType, value: Any) -> bytes | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    try:
        return encode_value(type_, value)
    except SchemaError:  # a file may hold more than the table's type does
        return None


def truncate_lower(value: Any, length: int) -> Any:
    """A string or binary value cut to `length` code points or bytes, which sorts before what it is cut from."""
    return value[:length] if isinstance(value, str | bytes) else value


def truncate_upper(value: Any, length: int) -> Any:
    """The least value of at most `length` code points or bytes that sorts after all that begin as `value` does.

    Returns:
        `value` itself if it is short enough or no string or binary; None if there is no such value.
    """
    if isinstance(value, str) and len(value) > length:
        return _following(value, length, "", _next_character)
    if isinstance(value, bytes) and len(value) > length:
        return _following(value, length, b"", _next_byte)
    return value


def _following(value: Any, length: int, empty: Any, successor: Callable[[Any], Any]) -> Any:
    for position in range(length - 1, -1, -1):
        following = successor(value[position])
        if following is not None:
            return empty.join((value[:position], following))
    return None


def _next_character(character: str) -> str | None:
    code_point = ord(character) + 1
    if code_point > _MAX_CODE_POINT:
        return None
    return "\ue000" if code_point == 0xD800 else chr(code_point)  # surrogates are no characters


def _next_byte(byte: int) -> bytes | None:
    return bytes([byte + 1]) if byte < 0xFF else None
