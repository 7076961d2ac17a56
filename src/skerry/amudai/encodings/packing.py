"""Values to packed bits, and values for nulls (kernels of the encoder)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from skerry.amudai.encodings.fastlanes import CHUNK, pack_chunk
from skerry.amudai.encodings.machine import Bytes
from skerry.amudai.encodings.parts import load_any, move, store_any
from skerry.kernels import kernel

__all__ = ["as_bytes", "carry_forward", "pack_bits"]

U1, U2, U4, U8 = np.uint8(0), np.uint16(0), np.uint32(0), np.uint64(0)


@kernel("void(uint8[::1], int64, int64, int64, uint64, out uint8[::1], out uint8[::1])")
def pack(values: Bytes, count: int, size: int, width: int, reference: Any, chunk: Bytes, packed: Bytes) -> None:
    """Pack values that differ from a reference by few bits.

    Args:
        values: uint8[count · size].
        count: How many there are.
        size: Bytes of each.
        width: Bits of a packed value, at least 1.
        reference: What is subtracted from each.
        chunk: uint8[1024 · 8], room for the last values and those that fill up their chunk.
        packed: uint8[⌈count / 1024⌉ · 128 · width], all zero.
    """
    target = 0
    for first in range(0, count, CHUNK):
        source = first * size
        if count - first >= CHUNK:
            pack_any(values, source, width, packed, target, reference, size)
        else:
            for i in range(CHUNK):
                store_any(chunk, i * size, reference, size)
            move(values, source, chunk, np.int64(0), (count - first) * size)
            pack_any(chunk, np.int64(0), width, packed, target, reference, size)
        target += 128 * width


@kernel
def pack_any(values: Bytes, source: int, width: int, packed: Bytes, target: int, reference: Any, size: int) -> None:
    """Pack a chunk of values of some bytes."""
    if size == 8:
        pack_chunk(U8, values, source, width, packed, target, reference, 8)
    elif size == 4:
        pack_chunk(U4, values, source, width, packed, target, reference, 4)
    elif size == 2:
        pack_chunk(U2, values, source, width, packed, target, reference, 2)
    else:
        pack_chunk(U1, values, source, width, packed, target, reference, 1)


@kernel("void(uint8[::1], int64, int64, uint8[::1], int64, out uint8[::1])")
def carry(values: Bytes, count: int, size: int, valid: Bytes, first: int, carried: Bytes) -> None:
    """Copy values, and in place of each null the value before it.

    Args:
        values: uint8[count · size].
        count: How many there are.
        size: Bytes of each.
        valid: uint8[count], 0 for a null.
        first: The value for nulls that none goes before.
        carried: Takes the values.
    """
    last = load_any(values, first * size, size)
    for i in range(count):
        last = load_any(values, i * size, size) if valid[i] else last
        store_any(carried, i * size, last, size)


def as_bytes(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """The bytes of an array, a view if it is contiguous."""
    return np.ascontiguousarray(values).view(np.uint8)


def pack_bits(values: npt.NDArray[Any], width: int, reference: int = 0) -> bytes:
    """Pack integers in FastLanes order.

    Args:
        values: uint[n], or int[n] with a reference that none is less than.
        width: Bits of a packed value, at least 1; what is left of a value without its reference fits in them.
        reference: What is subtracted from each value.

    Returns:
        ⌈n / 1024⌉ chunks of 128 · `width` bytes.

    Spec: amudai-encodings 4.1.
    """
    packed = np.zeros(-(-len(values) // CHUNK) * 128 * width, np.uint8)
    chunk = np.empty(CHUNK * values.itemsize, np.uint8)
    pack(as_bytes(values), len(values), values.itemsize, width, reference & (1 << 64) - 1, chunk, packed)
    return packed.tobytes()


def carry_forward(values: npt.NDArray[Any], valid: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """Replace nulls by the value before, so that no encoding suffers from what happens to lie there.

    Args:
        values: T[n].
        valid: bool[n].

    Returns:
        T[n], the values, with nulls before the first replaced by that; zeros if all are null.
    """
    first = int(valid.argmax()) if len(valid) else 0
    if not len(valid) or not valid[first]:
        return np.zeros_like(values)
    plain = as_bytes(values)
    carried = np.empty(len(plain), np.uint8)
    carry(plain, len(values), values.itemsize, as_bytes(valid), first, carried)
    return carried.view(values.dtype)
