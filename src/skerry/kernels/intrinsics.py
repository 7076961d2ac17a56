"""Operations that a processor has and Python has not. Each is a plain function that kernels see as one instruction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["INTRINSICS", "byte_swap", "load_word", "rotate_left"]

_MASK = (1 << 64) - 1


def rotate_left(value: np.uint64, bits: np.uint64) -> np.uint64:
    """Rotate 64 bits; written with shifts, LLVM would turn one of them into a multiplication."""
    number, count = int(value), int(bits) % 64
    return np.uint64((number << count | number >> (64 - count)) & _MASK)


def byte_swap(value: np.uint64) -> np.uint64:
    """The same eight bytes in the other order."""
    return np.uint64(int.from_bytes(int(value).to_bytes(8, "little"), "big"))


def load_word(data: np.ndarray[Any, np.dtype[np.uint8]], position: int) -> np.uint64:
    """The eight bytes from `position` as a little-endian number; that they lie in `data` is the kernel's to know."""
    return np.uint64(int.from_bytes(data[position : position + 8].tobytes(), "little"))


# By identity, so that a kernel may import one under another name.
INTRINSICS: dict[Callable[..., Any], str] = {
    function: function.__name__ for function in (rotate_left, byte_swap, load_word)
}
