"""Operations that processors have and Python lacks: plain functions that become one instruction in kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = [
    "INTRINSICS",
    "byte_swap",
    "load",
    "load_u16",
    "load_u32",
    "load_u64",
    "multiply_high",
    "rotate_left",
    "store",
]

_MASK = (1 << 64) - 1


def rotate_left(value: Any, bits: Any) -> Any:
    """Rotate a uint64; written with shifts, LLVM would turn one of them into a multiplication."""
    number, count = int(value), int(bits) % 64
    return np.uint64((number << count | number >> (64 - count)) & _MASK)


def byte_swap(value: Any) -> Any:
    """The bytes of a uint64 in reverse order."""
    return np.uint64(int.from_bytes(int(value).to_bytes(8, "little"), "big"))


def multiply_high(value: Any, factor: Any) -> Any:
    """The upper 64 of the 128 bits of a product of two uint64."""
    return np.uint64(int(value) * int(factor) >> 64)


def load_u16(data: Any, position: Any) -> Any:
    """Two bytes of a uint8 array as a little-endian number, uint64; not checked against its length."""
    return np.uint64(int.from_bytes(data[position : position + 2].tobytes(), "little"))


def load_u32(data: Any, position: Any) -> Any:
    """Four bytes of a uint8 array; see `load_u16`."""
    return np.uint64(int.from_bytes(data[position : position + 4].tobytes(), "little"))


def load_u64(data: Any, position: Any) -> Any:
    """Eight bytes of a uint8 array; see `load_u16`."""
    return np.uint64(int.from_bytes(data[position : position + 8].tobytes(), "little"))


def load(unit: Any, data: Any, position: Any) -> Any:
    """The number of `unit`'s type at any byte of a uint8 array, little-endian; not checked against its length.

    Unsigned integers come as uint64, signed ones as int64, floats as they are.
    """
    dtype = np.dtype(type(unit))
    value = data[int(position) : int(position) + dtype.itemsize].view(dtype.newbyteorder("<"))[0]
    return value if dtype.kind == "f" else value.astype(np.uint64 if dtype.kind == "u" else np.int64)


def store(unit: Any, data: Any, position: Any, value: Any) -> None:
    """Write a number as `unit`'s type at any byte of a uint8 array; of an integer the bits that fit."""
    dtype = np.dtype(type(unit))
    if dtype.kind != "f":
        value = np.uint64(int(value) & _MASK)
    with np.errstate(all="ignore"):
        data[int(position) : int(position) + dtype.itemsize] = np.frombuffer(value.astype(dtype).tobytes(), np.uint8)


# By identity, so that a kernel may import one under another name.
INTRINSICS: dict[Callable[..., Any], str] = {
    function: function.__name__
    for function in (rotate_left, byte_swap, multiply_high, load, load_u16, load_u32, load_u64, store)
}
