"""Kernels of the encoder that Python calls: packed bits, whole blocks, and values for nulls.

They are in one module because machine code is made per module: packing takes most of it, and both need it.

Spec: docs/formats/amudai-encodings.md § 3, § 4.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from skerry.amudai.blocks.presence import write_presence
from skerry.amudai.encodings.alp import write as write_alp
from skerry.amudai.encodings.bit_packing import CHUNK, ROW_BYTES, pack_any
from skerry.amudai.encodings.fused_frame_of_reference import write as write_distances
from skerry.amudai.encodings.numbers import as_bytes, load_any, move, store_any, store_number
from skerry.amudai.encodings.stack import Bytes, Integer
from skerry.kernels import kernel

__all__ = ["carry_forward", "pack_bits", "write_blocks"]


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
            move(values, source, chunk, 0, (count - first) * size)
            pack_any(chunk, 0, width, packed, target, reference, size)
        target += ROW_BYTES * width


@kernel("void(uint8[::1], int64, int64, uint8[::1], int64, out uint8[::1])")
def carry(values: Bytes, count: int, size: int, valid: Bytes, first: int, carried: Bytes) -> None:
    """Copy values, and for each null the value before it.

    Args:
        values: uint8[count · size].
        count: How many there are.
        size: Bytes of each.
        valid: uint8[count], 0 for a null.
        first: The value for nulls that come before all others.
        carried: Takes the values.
    """
    last = load_any(values, first * size, size)
    for i in range(count):
        last = load_any(values, i * size, size) if valid[i] else last
        store_any(carried, i * size, last, size)


@kernel(
    "int64(uint8[::1], uint8[::1], uint32[::1], int64, int64, int64, int64, int64, uint8[::1], int64, "
    "out uint8[::1], out uint8[::1], out int64[::1])"
)
def write_blocks(  # noqa: PLR0913  a kernel
    numbers: Bytes,
    floats: Bytes,
    exceptions: Any,
    decimals: int,
    count: int,
    size: int,
    is_signed: int,
    block_values: int,
    valid: Bytes,
    tail: int,
    chunk: Bytes,
    out: Bytes,
    ends: Any,
) -> Integer:
    """Write blocks of packed integers, or of floats as decimals.

    Args:
        numbers: uint8[count · size], integers without nulls.
        floats: The floats that the integers represent; empty for integers.
        exceptions: uint32[x], positions of floats that are stored as they are.
        decimals: 256 · exponent + factor.
        count: How many numbers there are.
        size: Bytes of each.
        is_signed: Whether they are signed.
        block_values: Values of a block, at most 8,192.
        valid: uint8[count], 0 for a null; empty if none is null.
        tail: Bytes to leave for the checksum of each block.
        chunk: uint8[1024 · size], room for the last values of a block.
        out: Takes the blocks; all zero.
        ends: int64[number of blocks], takes where each ends.

    Returns:
        Bytes of all blocks.
    """
    at = np.int64(0)
    skipped = np.int64(0)
    for block in range(len(ends)):
        first = block * block_values
        part = np.int64(min(block_values, count - first))
        presence = np.int64(0)
        if len(valid) > 0:
            presence = write_presence(valid, first, part, out, at + 8)
        start = at + 8 + ((presence + 7) & ~7)
        if len(floats) > 0:
            found = np.int64(0)
            while skipped + found < len(exceptions) and np.int64(exceptions[skipped + found]) < first + part:
                found += 1
            written = write_alp(
                numbers, floats, exceptions, skipped, found, first, part, size, decimals, chunk, out, start
            )
            skipped += found
        else:
            written = write_distances(numbers, first, part, size, is_signed, chunk, out, start)
        store_number(out, at, presence, 4)
        store_number(out, at + 4, written, 4)
        at = at + ((start + written + tail - at + 7) & ~7)
        ends[block] = at
    return at


def pack_bits(values: npt.NDArray[Any], width: int, reference: int = 0) -> bytes:
    """Pack integers in FastLanes order.

    Args:
        values: uint[n], or int[n] with a reference that none is less than.
        width: Bits of a packed value, at least 1; what is left of a value without its reference fits in them.
        reference: What is subtracted from each value.

    Returns:
        ⌈n / 1024⌉ chunks of 128 · `width` bytes.

    Spec: docs/formats/amudai-encodings.md § 4.1.
    """
    packed = np.zeros(-(-len(values) // CHUNK) * ROW_BYTES * width, np.uint8)
    chunk = np.empty(CHUNK * values.itemsize, np.uint8)
    pack(as_bytes(values), len(values), values.itemsize, width, reference & (1 << 64) - 1, chunk, packed)
    return packed.tobytes()


def carry_forward(values: npt.NDArray[Any], valid: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """Replace nulls by the value before, so that no encoding suffers from what happens to be there.

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
