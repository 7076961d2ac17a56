"""Operations that a processor has and Python has not. Each is a plain function that kernels see as one instruction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["INTRINSICS", "byte_swap", "load_u16", "load_u32", "load_u64", "rotate_left"]

_MASK = (1 << 64) - 1


def rotate_left(value: Any, bits: Any) -> Any:
    """Rotate a uint64; written with shifts, LLVM would turn one of them into a multiplication."""
    number, count = int(value), int(bits) % 64
    return np.uint64((number << count | number >> (64 - count)) & _MASK)


def byte_swap(value: Any) -> Any:
    """The bytes of a uint64 in the other order."""
    return np.uint64(int.from_bytes(int(value).to_bytes(8, "little"), "big"))


def load_u16(data: Any, position: Any) -> Any:
    """Two bytes of a uint8 array as a little-endian number, uint64; whether they lie in it is not checked."""
    return np.uint64(int.from_bytes(data[position : position + 2].tobytes(), "little"))


def load_u32(data: Any, position: Any) -> Any:
    """Four bytes, likewise."""
    return np.uint64(int.from_bytes(data[position : position + 4].tobytes(), "little"))


def load_u64(data: Any, position: Any) -> Any:
    """Eight bytes, likewise."""
    return np.uint64(int.from_bytes(data[position : position + 8].tobytes(), "little"))


# By identity, so that a kernel may import one under another name.
INTRINSICS: dict[Callable[..., Any], str] = {
    function: function.__name__ for function in (rotate_left, byte_swap, load_u16, load_u32, load_u64)
}
