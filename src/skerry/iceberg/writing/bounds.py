"""Column bounds: minimum and maximum values, truncated to a limited length.

Spec: Iceberg spec, Data File Fields (notes 1 and 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from skerry.errors import SchemaError
from skerry.table.rows.values import encode_value

__all__ = ["encode_bounds", "truncate_lower", "truncate_upper"]

_MAX_CODE_POINT = 0x10FFFF


def encode_bounds(
    type_: pa.DataType, lower: list[Any] | None, upper: list[Any] | None, length: int | None
) -> tuple[bytes | None, bytes | None]:
    """Serialised bounds over several chunks.

    Args:
        type_: The table's Arrow type of the column.
        lower: Minimum values, none of them NaN; None if they are not all known.
        upper: Maximum values, none of them NaN; None if they are not all known.
        length: Maximum code points of a string and bytes of a binary value; None for no limit.

    Returns:
        Lower and upper bound; None where there is none.

    Spec: Iceberg spec, Data File Fields (note 2): -0.0 comes before 0.0.
    """
    least = min(lower) if lower else None
    greatest = max(upper) if upper else None
    if pa.types.is_floating(type_):
        # writers do not distinguish the zeros, so that either may be in the column
        least = -0.0 if least == 0 else least
        greatest = 0.0 if greatest == 0 else greatest
    if length is not None and (pa.types.is_string(type_) or pa.types.is_binary(type_)):
        least = truncate_lower(least, length)
        greatest = truncate_upper(greatest, length)
    return _encode(type_, least), _encode(type_, greatest)


def _encode(type_: pa.DataType, value: Any) -> bytes | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    try:
        return encode_value(type_, value)
    except SchemaError:  # a file's value may exceed the table's type
        return None


def truncate_lower(value: Any, length: int) -> Any:
    """A string or binary value truncated to `length` code points or bytes, which sorts before the full value."""
    return None if value is None else value[:length]


def truncate_upper(value: Any, length: int) -> Any:
    """The smallest value of at most `length` code points or bytes that sorts after all values that start like `value`.

    Returns:
        `value` itself if it is short enough; None if there is no such value.
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
    return "\ue000" if code_point == 0xD800 else chr(code_point)  # surrogates are not characters


def _next_byte(byte: int) -> bytes | None:
    return bytes([byte + 1]) if byte < 0xFF else None
