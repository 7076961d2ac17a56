"""FastLanes bit packing: 1,024 values at a time, in an order that lets a processor unpack many lanes at once.

A chunk of values of b bits has 1024 / b lanes of b rows. Row r of a lane takes the bits from r · width on of that
lane's own string of bits; word w of all lanes lie side by side. Rows are those of eight interleaved groups, so that
the order is the same for all b.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from skerry.kernels import kernel, load, store

__all__ = ["CHUNK", "pack_chunk", "unpack_chunk"]

_Bytes: TypeAlias = Any  # uint8[n]

CHUNK = 1024
ROW_BYTES = 128  # of packed words: one word of each lane
GROUPS = np.array((0, 4, 2, 6, 1, 5, 3, 7))  # an array: looking up a tuple may raise
ONES = np.uint64((1 << 64) - 1)
S64 = np.uint64(64)


@kernel
def unpack_chunk(
    unit: Any, data: _Bytes, source: int, width: int, memory: _Bytes, target: int, reference: Any, size: int
) -> None:
    """Unpack a chunk of values and add a reference to each.

    Args:
        unit: Any number of the unsigned type.
        data: Where the packed words lie, from `source` on, 128 · `width` bytes.
        source: See `data`.
        width: Bits of a packed value, at least 1.
        memory: Takes the 1,024 values, from `target` on.
        target: See `memory`.
        reference: What is added to each value, uint64.
        size: Bytes of a value.

    Spec: docs/formats/amudai-encodings.md § 4.1.
    """
    bits = 8 * size
    lanes = ROW_BYTES // size
    mask = ONES >> (S64 - np.uint64(width))
    for row in range(bits):
        word = row * width // bits
        shift = row * width - word * bits
        right = np.uint64(shift)
        left = np.uint64(bits - shift)
        start = source + word * ROW_BYTES
        place = target + (GROUPS[row >> 3] * 16 + (row & 7) * 128) * size
        if shift + width <= bits:
            for lane in range(lanes):
                value = load(unit, data, start + lane * size) >> right
                store(unit, memory, place + lane * size, (value & mask) + reference)
        else:
            for lane in range(lanes):
                value = load(unit, data, start + lane * size) >> right
                value |= load(unit, data, start + ROW_BYTES + lane * size) << left
                store(unit, memory, place + lane * size, (value & mask) + reference)


@kernel
def pack_chunk(
    unit: Any, values: _Bytes, source: int, width: int, memory: _Bytes, target: int, reference: Any, size: int
) -> None:
    """Subtract a reference from a chunk of values and pack what remains; the counterpart of `unpack_chunk`.

    Args:
        unit: Any number of the unsigned type.
        values: Where the 1,024 values lie, from `source` on.
        source: See `values`.
        width: Bits of a packed value, at least 1.
        memory: Takes the packed words, from `target` on, 128 · `width` bytes; they must be zero.
        target: See `memory`.
        reference: What is subtracted from each value, uint64.
        size: Bytes of a value.
    """
    bits = 8 * size
    lanes = ROW_BYTES // size
    mask = ONES >> (S64 - np.uint64(width))
    for row in range(bits):
        word = row * width // bits
        shift = row * width - word * bits
        left = np.uint64(shift)
        right = np.uint64(bits - shift)
        start = target + word * ROW_BYTES
        place = source + (GROUPS[row >> 3] * 16 + (row & 7) * 128) * size
        if shift + width <= bits:
            for lane in range(lanes):
                value = (load(unit, values, place + lane * size) - reference) & mask
                packed = load(unit, memory, start + lane * size)
                store(unit, memory, start + lane * size, packed | value << left)
        else:
            for lane in range(lanes):
                value = (load(unit, values, place + lane * size) - reference) & mask
                packed = load(unit, memory, start + lane * size)
                store(unit, memory, start + lane * size, packed | value << left)
                store(unit, memory, start + ROW_BYTES + lane * size, value >> right)
