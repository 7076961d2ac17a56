"""PLAIN: values one after another, as views of the page wherever their width is fixed.

Spec: Parquet spec, Encodings.md, Plain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from skerry.errors import FormatError
from skerry.kernels import kernel
from skerry.parquet.numbers import read_uint32
from skerry.parquet.schema import Column, PhysicalType

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["decode_plain_byte_array", "decode_plain_fixed"]

_RULE: Final = "Parquet spec, Encodings.md, Plain"
_DTYPES: Final[dict[PhysicalType, np.dtype[Any]]] = {
    PhysicalType.INT32: np.dtype("<i4"),
    PhysicalType.INT64: np.dtype("<i8"),
    PhysicalType.FLOAT: np.dtype("<f4"),
    PhysicalType.DOUBLE: np.dtype("<f8"),
}
_INT96_BYTES: Final = 12


def decode_plain_fixed(column: Column, data: npt.NDArray[np.uint8], count: int) -> npt.NDArray[Any]:
    """View values of fixed width, or unpack booleans.

    Args:
        column: Its physical type is anything but BYTE_ARRAY.
        data: uint8[n], exactly the values.
        count: How many there are.

    Returns:
        int32, int64, float32 or float64[count] for numbers, uint8[count, width] for FIXED_LEN_BYTE_ARRAY and INT96:
        views of `data`; bool[count], a copy, for BOOLEAN.

    Raises:
        FormatError: `data` has not the length of `count` values.
    """
    type_ = column.physical_type
    if type_ is PhysicalType.BOOLEAN:
        _check_size(column, data, (count + 7) // 8, count)
        return np.unpackbits(data, count=count, bitorder="little").view(np.bool_)
    dtype = _DTYPES.get(type_)
    if dtype is not None:
        _check_size(column, data, count * dtype.itemsize, count)
        return data.view(dtype)
    width = _INT96_BYTES if type_ is PhysicalType.INT96 else column.type_length
    _check_size(column, data, count * width, count)
    return data.reshape(count, width)


def decode_plain_byte_array(
    data: npt.NDArray[np.uint8], count: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Find the values of variable length in `data`.

    Args:
        data: uint8[n], exactly the values, each after its length (4 bytes, little-endian).
        count: How many there are.

    Returns:
        int64[count] where each starts in `data`, and int32[count] its length in bytes.

    Raises:
        FormatError: A length leads out of `data`, or bytes are left over.
    """
    if count * 4 > len(data):
        raise FormatError(f"{len(data)} bytes cannot hold {count} values of BYTE_ARRAY", rule=_RULE)
    starts = np.empty(count, np.int64)
    lengths = np.empty(count, np.int32)
    end = int(_find_byte_arrays(data, starts, lengths))
    if end != len(data):
        raise FormatError(f"{count} values of BYTE_ARRAY do not fit {len(data)} bytes", rule=_RULE)
    return starts, lengths


@kernel("int64(uint8[::1], out int64[::1], out int32[::1])")
def _find_byte_arrays(data, starts, lengths):  # type: ignore[no-untyped-def]
    position = np.int64(0)
    size = len(data)
    for i in range(len(starts)):
        if size - position < 4:
            return -1
        length = read_uint32(data, position)
        position += 4
        if length > size - position:
            return -1
        starts[i] = position
        lengths[i] = length
        position += length
    return position


def _check_size(column: Column, data: npt.NDArray[np.uint8], expected: int, count: int) -> None:
    if len(data) != expected:
        raise FormatError(
            f"{count} values of {column.physical_type.name} take {expected} bytes, found {len(data)}", rule=_RULE
        )
