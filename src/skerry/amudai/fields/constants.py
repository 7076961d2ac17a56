"""Constant fields: one value for all rows, stored in the descriptor.

Spec: docs/formats/amudai.md § 4.4; Amudai book, chapter 6, (Shard) Field Descriptor, `constant_value`.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
import pyarrow as pa

from skerry.amudai.fields.leaves import ColumnTooLongError, dtype_of
from skerry.amudai.fields.stored_field import StoredField
from skerry.amudai.messages import AnyValue
from skerry.amudai.shard.schema import BasicType
from skerry.amudai.values.datetimes import decode_ticks, is_tick_type
from skerry.amudai.values.decimals import DECIMAL_BYTES, decode_decimals
from skerry.errors import FormatError
from skerry.storage import redact

__all__ = ["repeat_constant"]

_MAX_I32: Final = (1 << 31) - 1


def repeat_constant(field: StoredField, constant: AnyValue, count: int, target: pa.DataType) -> pa.Array:
    """An array that holds a field's constant in every row.

    Args:
        field: The field.
        constant: Its constant, which is not null.
        count: How many rows.
        target: The wanted type, without extension.

    Returns:
        `target`[count].

    Raises:
        FormatError: The constant is of another kind than the field, or out of its range.
        SchemaError: It does not fit `target`.
        ColumnTooLongError: There are too many bytes for `target`.
    """
    stored = _stored_bytes(field, constant)
    if pa.types.is_boolean(target):
        return pa.array([constant.bool_value], target).take(pa.array(np.zeros(count, np.int8)))
    if field.node.basic_type in (BasicType.STRING, BasicType.BINARY):
        is_large = pa.types.is_large_string(target) or pa.types.is_large_binary(target)
        if not is_large and len(stored) * count > _MAX_I32:
            raise ColumnTooLongError
        return _repeated(pa.array([stored], pa.binary()).cast(target), count)
    if pa.types.is_decimal(target):
        value = decode_decimals(np.frombuffer(stored, np.uint8), target).tobytes()
    elif is_tick_type(target):
        value = decode_ticks(np.frombuffer(stored, np.int64), target).tobytes()
    else:
        value = stored
    return _repeated(pa.Array.from_buffers(target, 1, [None, pa.py_buffer(value)]), count)


def _repeated(one: pa.Array, count: int) -> pa.Array:
    if pa.types.is_primitive(one.type) and not pa.types.is_decimal(one.type):
        data = np.repeat(np.frombuffer(one.buffers()[1], np.uint8).reshape(1, -1), count, axis=0)
        return pa.Array.from_buffers(one.type, count, [None, pa.py_buffer(data)])
    return one.take(pa.array(np.zeros(count, np.int8)))


def _stored_bytes(field: StoredField, constant: AnyValue) -> bytes:
    """The constant as its value would be stored: little-endian numbers, the bytes of strings."""
    node = field.node
    kind = constant.WhichOneof("kind")
    basic = node.basic_type
    if basic is BasicType.BOOLEAN and kind == "bool_value":
        return bytes([constant.bool_value])
    if basic.is_floating and kind == "double_value":
        return _float_bytes(basic, constant.double_value)
    if basic is BasicType.DATE_TIME and kind == "datetime_value":
        return int(constant.datetime_value.ticks).to_bytes(8, "little")
    if (basic.is_integer or basic is BasicType.DATE_TIME) and kind in ("i64_value", "u64_value"):
        number, limits = int(getattr(constant, kind)), np.iinfo(dtype_of(node))
        if limits.min <= number <= limits.max:
            return number.to_bytes(dtype_of(node).itemsize, "little", signed=limits.min < 0)
    if node.is_decimal and kind in ("decimal_value", "bytes_value"):
        data = bytes(getattr(constant, kind))
        if len(data) == DECIMAL_BYTES:
            return data
    elif basic.is_bytes and kind in ("string_value", "bytes_value"):
        data = constant.string_value.encode() if kind == "string_value" else bytes(constant.bytes_value)
        if _fits(field, data):
            return data
    raise FormatError(
        f"field {node.name!r} (schema id {node.schema_id}) has a constant of kind {kind} that is no {basic.name}",
        location=redact(field.location),
        rule="docs/formats/amudai.md § 4.4",
    )


def _float_bytes(basic: BasicType, number: float) -> bytes:
    if basic is BasicType.FLOAT64:
        return struct.pack("<d", number)
    with np.errstate(over="ignore"):
        return np.float32(number).tobytes()


def _fits(field: StoredField, data: bytes) -> bool:
    basic = field.node.basic_type
    if basic is BasicType.STRING:
        try:
            data.decode()
        except UnicodeDecodeError:
            return False
        return True
    if basic is BasicType.BINARY:
        return True
    return len(data) == (16 if basic is BasicType.GUID else field.node.fixed_size)
