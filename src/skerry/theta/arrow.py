"""Arrow values as the bytes of Iceberg's single-value serialisation, without copying them.

| Arrow type | hashed as |
| --- | --- |
| bool | 1 byte, 0 or 1 |
| int8, int16, int32, uint8, uint16 | int: 4 bytes |
| int64, uint32 | long: 8 bytes |
| float16, float32 | float: 4 bytes |
| float64 | double: 8 bytes |
| decimal32 … decimal256 of at most 38 digits | unscaled value, fewest bytes, big-endian |
| date32, date64 | days: 4 bytes |
| time32, time64 | microseconds: 8 bytes |
| timestamp in s, ms, us | microseconds: 8 bytes |
| timestamp in ns | nanoseconds: 8 bytes |
| string, binary and their large and view forms | the bytes (UTF-8) |
| fixed-size binary, UUID | the bytes |
| dictionary, run-end encoded | each value used, once |
| null | nothing |

Numbers are little-endian. Every NaN is hashed as the canonical one; -0.0 is not 0.0 (Iceberg's Java library writes the
sign). Values of no bytes are left out, as Java's `UpdateSketch.update(ByteBuffer)` ignores an empty buffer: a column
of empty strings has 0 distinct values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from skerry.errors import SchemaError
from skerry.theta.updating import Form

__all__ = ["NO_BITMAP", "Bytes", "Fixed", "Numbered", "Physical", "Variable", "as_chunks", "native", "physical_values"]

Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]

NO_BITMAP: Bytes = np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True)
class Fixed:
    """Values of one width.

    Args:
        data: uint8[width · count], the values one after the other, little-endian.
        width: Bytes of a value: 4, 8 or 16.
        count: Number of values.
        validity: Bitmap, empty if all are valid.
        bit: Place of the first value in the bitmap.
        form: What the bytes are.
    """

    data: Bytes
    width: int
    count: int
    validity: Bytes
    bit: int
    form: Form


@dataclass(frozen=True, slots=True)
class Variable:
    """Values of any length, one after the other: uint8[m], and the offsets where each begins and the last ends.

    `width` is the bytes of an offset, 4 or 8.
    """

    data: Bytes
    offsets: Bytes
    width: int
    count: int
    validity: Bytes
    bit: int


@dataclass(frozen=True, slots=True)
class Numbered:
    """Values by number: unsigned indices of `width` bytes, and the array that they point into."""

    indices: Bytes
    width: int
    count: int
    validity: Bytes
    bit: int
    dictionary: pa.Array


Physical: TypeAlias = Fixed | Variable | Numbered


def as_chunks(values: Any) -> list[pa.Array]:
    """Anything that holds a column, as Arrow arrays.

    Args:
        values: An Arrow array or chunked array, a NumPy array, anything with the Arrow C array or stream interface (a
            column of Polars or pandas), or a sequence of Python values.

    Returns:
        The chunks.

    Raises:
        SchemaError: Arrow has no type for the values, or they are a text, whose letters would count.
    """
    if isinstance(values, pa.ChunkedArray):
        return values.chunks
    if isinstance(values, pa.Array):
        return [values]
    if isinstance(values, str | bytes):
        raise SchemaError(f"values must be a column, found {values!r}; write [{values!r}]")
    try:
        if hasattr(values, "__arrow_c_stream__"):
            return pa.chunked_array(values).chunks
        if isinstance(values, np.ndarray):
            if values.ndim != 1:
                raise SchemaError(f"a column has one dimension, the array has {values.ndim}")
            if values.dtype.kind in "iuf":
                return [_numbers(values)]
        return [pa.array(values)]
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError) as error:
        raise SchemaError(f"no Arrow column can be made of {type(values).__name__}: {error}") from error


def _numbers(values: np.ndarray[Any, Any]) -> pa.Array:
    """Numbers as Arrow has them; `pa.array` would import pandas to look at them, which takes a second."""
    values = np.ascontiguousarray(native(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def native(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array in the byte order of the machine, copied only if it is in the other."""
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def physical_values(array: pa.Array) -> Physical | None:
    """The buffers of an array that the kernels take.

    Args:
        array: An array of any primitive type, sliced or not.

    Returns:
        Buffers (views wherever the physical form is what is hashed), or None if all values are null.

    Raises:
        SchemaError: The type is nested, or has no Iceberg type: the message names it.
    """
    while isinstance(array, pa.ExtensionArray | pa.RunEndEncodedArray):
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        else:
            array = array.values.slice(array.find_physical_offset(), array.find_physical_length())
    if pa.types.is_null(array.type):
        return None
    read = _reader(array.type)
    return read(array) if array.null_count < len(array) else None


def _reader(data_type: pa.DataType) -> Callable[[pa.Array], Physical]:
    """What makes an array of a type physical."""
    if data_type in _FORMS:
        form, widened = _FORMS[data_type]
        return functools.partial(_fixed, form=form, widened=widened)
    if data_type in _VARIABLE:
        return functools.partial(_variable, as_type=_VARIABLE[data_type])
    if pa.types.is_timestamp(data_type):
        unit = "ns" if data_type.unit == "ns" else "us"
        return functools.partial(_fixed, form=Form.WORD, widened=pa.timestamp(unit, data_type.tz))
    for is_type, read in _READERS:
        if is_type(data_type):
            return read
    if pa.types.is_nested(data_type):
        raise SchemaError(f"values of the nested type {data_type} are not sketched: sketch its fields")
    raise SchemaError(f"no Iceberg type holds values of the Arrow type {data_type}: they are not sketched")


# The form of each type, and the type to bring it to first.
_FORMS: dict[pa.DataType, tuple[Form, pa.DataType]] = {
    pa.int8(): (Form.WORD, pa.int32()),
    pa.int16(): (Form.WORD, pa.int32()),
    pa.int32(): (Form.WORD, pa.int32()),
    pa.int64(): (Form.WORD, pa.int64()),
    pa.uint8(): (Form.WORD, pa.int32()),
    pa.uint16(): (Form.WORD, pa.int32()),
    pa.uint32(): (Form.WORD, pa.int64()),
    pa.float16(): (Form.FLOAT, pa.float32()),
    pa.float32(): (Form.FLOAT, pa.float32()),
    pa.float64(): (Form.FLOAT, pa.float64()),
    pa.date32(): (Form.WORD, pa.date32()),
    pa.date64(): (Form.WORD, pa.date32()),
    pa.time32("s"): (Form.WORD, pa.time64("us")),
    pa.time32("ms"): (Form.WORD, pa.time64("us")),
    pa.time64("us"): (Form.WORD, pa.time64("us")),
    pa.time64("ns"): (Form.WORD, pa.time64("us")),
}
_VARIABLE: dict[pa.DataType, pa.DataType] = {
    pa.string(): pa.string(),
    pa.binary(): pa.binary(),
    pa.large_string(): pa.large_string(),
    pa.large_binary(): pa.large_binary(),
    pa.string_view(): pa.large_string(),
    pa.binary_view(): pa.large_binary(),
}


def _cast(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    if array.type == data_type:
        return array
    try:
        return array.cast(data_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(f"a value of the type {array.type} does not fit {data_type}: {error}") from error


def _bitmap(array: pa.Array) -> Bytes:
    if array.null_count == 0:
        return NO_BITMAP
    return np.frombuffer(array.buffers()[0], np.uint8)


def _fixed(array: pa.Array, form: Form, widened: pa.DataType) -> Fixed:
    array = _cast(array, widened)
    width = array.type.bit_width // 8
    return Fixed(_slice(array, width), width, len(array), _bitmap(array), array.offset, form)


def _slice(array: pa.Array, width: int) -> Bytes:
    """The values of an array in its first buffer after the bitmap (a view)."""
    return np.frombuffer(array.buffers()[1], np.uint8, len(array) * width, array.offset * width)


def _booleans(array: pa.Array) -> Variable:
    """Each value once, the first seen first: there are no more than two."""
    data = np.array(array.drop_null().unique().to_pylist(), np.uint8)
    return Variable(data, np.arange(len(data) + 1, dtype=np.int32).view(np.uint8), 4, len(data), NO_BITMAP, 0)


def _decimals(array: pa.Array) -> Fixed:
    if array.type.precision > 38:
        raise SchemaError(f"Iceberg's decimals have at most 38 digits: values of {array.type} are not sketched")
    return _fixed(array, Form.DECIMAL, pa.decimal128(array.type.precision, array.type.scale))


def _variable(array: pa.Array, as_type: pa.DataType) -> Variable:
    array = _cast(array, as_type)
    _, offsets, data = array.buffers()
    width = 8 if array.type in (pa.large_string(), pa.large_binary()) else 4
    return Variable(
        np.frombuffer(data, np.uint8) if data is not None else NO_BITMAP,
        np.frombuffer(offsets, np.uint8, (len(array) + 1) * width, array.offset * width),
        width,
        len(array),
        _bitmap(array),
        array.offset,
    )


def _fixed_binary(array: pa.Array) -> Variable:
    width = array.type.byte_width
    offsets = np.arange(len(array) + 1, dtype=np.int64) * width
    return Variable(_slice(array, width), offsets.view(np.uint8), 8, len(array), _bitmap(array), array.offset)


def _numbered(array: pa.DictionaryArray) -> Numbered:
    indices = array.indices
    width = indices.type.bit_width // 8
    return Numbered(_slice(indices, width), width, len(indices), _bitmap(indices), indices.offset, array.dictionary)


_READERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], Physical]], ...] = (
    (pa.types.is_boolean, _booleans),
    (pa.types.is_decimal, _decimals),
    (pa.types.is_fixed_size_binary, _fixed_binary),
    (pa.types.is_dictionary, _numbered),
)
