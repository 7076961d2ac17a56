"""Numbers of 1 to 8 bytes at any byte of an array (kernels), and arrays as bytes and words."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from skerry.amudai.encodings.codes import DTYPES
from skerry.amudai.encodings.stack import Bytes
from skerry.kernels import kernel, load, load_u16, load_u32, load_u64, store

__all__ = [
    "as_bytes",
    "as_words",
    "fill",
    "is_constant",
    "load_any",
    "move",
    "pad",
    "store_any",
    "store_number",
    "value_bytes",
]

Values = npt.NDArray[Any]

U1, U2, U4, U8 = np.uint8(0), np.uint16(0), np.uint32(0), np.uint64(0)
I1, I2, I4, I8 = np.int8(0), np.int16(0), np.int32(0), np.int64(0)
F4, F8 = np.float32(0), np.float64(0)
ONE = np.uint64(1)

KIND_BYTES = np.array([dtype.itemsize for dtype in DTYPES])  # an array: looking up a tuple may raise


@kernel
def value_bytes(kind: int) -> Any:
    """Bytes of a value of some kind."""
    return KIND_BYTES[np.uint64(kind)]  # unsigned: no place is counted from the end


@kernel
def load_any(data: Bytes, position: int, size: int) -> Any:
    """A number of some bytes, uint64."""
    if size == 8:
        return load_u64(data, position)
    if size == 4:
        return load_u32(data, position)
    if size == 2:
        return load_u16(data, position)
    return load(U1, data, position)


@kernel
def store_any(memory: Bytes, position: int, value: Any, size: int) -> None:
    """Write the lowest bytes of a uint64."""
    if size == 8:
        store(U8, memory, position, value)
    elif size == 4:
        store(U4, memory, position, value)
    elif size == 2:
        store(U2, memory, position, value)
    else:
        store(U1, memory, position, value)


@kernel
def store_number(out: Bytes, at: int, value: int, size: int) -> None:
    """Write a number of 1, 2 or 4 bytes."""
    if size == 4:
        store(U4, out, at, np.uint64(value))
    elif size == 2:
        store(U2, out, at, np.uint64(value))
    else:
        store(U1, out, at, np.uint64(value))


@kernel
def move(data: Bytes, source: int, memory: Bytes, target: int, size: int) -> None:
    """Copy bytes."""
    words = size >> 3
    for i in range(words):
        store(U8, memory, target + 8 * i, load_u64(data, source + 8 * i))
    for i in range(words << 3, size):
        store(U1, memory, target + i, load(U1, data, source + i))


@kernel
def fill(memory: Bytes, target: int, count: int, value: Any, size: int) -> None:
    """Write a value `count` times."""
    for i in range(count):
        store_any(memory, target + i * size, value, size)


def as_bytes(values: Values) -> npt.NDArray[np.uint8]:
    """The bytes of an array, a view if it is contiguous."""
    return np.ascontiguousarray(values).view(np.uint8)


def as_words(values: Values) -> Values:
    """The same bits as unsigned integers, a view if the array is contiguous."""
    return np.ascontiguousarray(values).view(f"<u{values.itemsize}")


def is_constant(values: Values) -> bool:
    """Whether all values have the same bits; there is at least one."""
    words = as_words(values)
    return bool((words == words[0]).all())


def pad(data: bytes) -> bytes:
    """Bytes with zeros up to a multiple of 8."""
    return data + bytes(-len(data) % 8)
