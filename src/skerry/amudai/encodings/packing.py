"""Values to packed bits, alone or in whole blocks, and values for nulls (kernels of the encoder).

Spec: docs/formats/amudai-encodings.md § 3, § 4.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from skerry.amudai.encodings.fastlanes import CHUNK, pack_chunk
from skerry.amudai.encodings.machine import Bytes, Integer
from skerry.amudai.encodings.parts import U1, U2, U4, U8, load_any, move, store_any
from skerry.kernels import kernel, store

__all__ = ["as_bytes", "carry_forward", "pack_bits", "put_blocks"]

ROARING_HEAD = 18
COOKIE_WITHOUT_RUNS = 12346
ONE = np.uint64(1)


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


@kernel
def put_bits(out: Bytes, at: int, value: int, size: int) -> None:
    """Write a number of 1, 2 or 4 bytes."""
    if size == 4:
        store(U4, out, at, np.uint64(value))
    elif size == 2:
        store(U2, out, at, np.uint64(value))
    else:
        store(U1, out, at, np.uint64(value))


@kernel
def put_presence(valid: Bytes, first: int, count: int, out: Bytes, at: int) -> Integer:
    """Write the presence section of a block; returns how many bytes it has."""
    present = np.int64(0)
    for i in range(count):
        present += np.int64(valid[first + i])
    if present == count:
        return np.int64(0)
    if present == 0:
        put_bits(out, at, np.int64(1), np.int64(1))
        return np.int64(1)
    is_negated = np.int64(2 * present > count)
    fewer = min(present, count - present)
    if ROARING_HEAD + 2 * fewer > count:
        put_bits(out, at, np.int64(2), np.int64(1))
        for i in range(count):
            store(U1, out, at + 1 + i, np.uint64(valid[first + i]))
        return np.int64(count + 1)
    put_bits(out, at, np.int64(3), np.int64(1))
    put_bits(out, at + 1, is_negated, np.int64(1))
    put_bits(out, at + 2, np.int64(COOKIE_WITHOUT_RUNS), np.int64(4))
    put_bits(out, at + 6, np.int64(1), np.int64(4))  # containers
    put_bits(out, at + 10, np.int64(0), np.int64(2))  # its key
    put_bits(out, at + 12, fewer - 1, np.int64(2))
    put_bits(out, at + 14, np.int64(16), np.int64(4))  # where it begins
    place = at + ROARING_HEAD
    for i in range(count):
        if np.int64(valid[first + i]) != is_negated:
            store(U2, out, place, np.uint64(i))
            place += 2
    return np.int64(place - at)


@kernel
def put_distances(
    values: Bytes, first: int, count: int, size: int, is_signed: int, chunk: Bytes, out: Bytes, at: int
) -> Integer:
    """Write values as one value, or as packed distances from the least; returns how many bytes that takes."""
    flip = ONE << np.uint64(8 * size - 1) if is_signed else U8
    lowest = load_any(values, first * size, size) ^ flip
    highest = lowest
    for i in range(1, count):
        value = load_any(values, (first + i) * size, size) ^ flip
        lowest = min(lowest, value)
        highest = max(highest, value)
    width: Integer = np.int64(0)
    while width < 64 and (highest - lowest) >> np.uint64(width) != 0:
        width += 1
    least = lowest ^ flip
    if width == 0:
        put_bits(out, at, np.int64(7), np.int64(2))
        store_any(out, at + 2, least, size)
        return np.int64(2 + size)
    put_bits(out, at, np.int64(4), np.int64(2))
    store_any(out, at + 2, least, size)
    put_bits(out, at + 2 + size, width, np.int64(1))
    target: Integer = at + (16 if size == 8 else 8)
    for done in range(0, count, CHUNK):
        if count - done >= CHUNK:
            pack_any(values, (first + done) * size, width, out, target, least, size)
        else:
            for i in range(count - done, CHUNK):
                store_any(chunk, i * size, least, size)
            move(values, (first + done) * size, chunk, np.int64(0), (count - done) * size)
            pack_any(chunk, np.int64(0), width, out, target, least, size)
        target += 128 * width
    return np.int64(target - at)


@kernel
def put_decimals(
    numbers: Bytes,
    floats: Bytes,
    exceptions: Any,
    skipped: int,
    found: int,
    first: int,
    count: int,
    size: int,
    places: int,
    chunk: Bytes,
    out: Bytes,
    at: int,
) -> Integer:
    """Write floats as decimals, with `found` exceptions; as they are if these are too many."""
    if 2 * found > count:
        put_bits(out, at, np.int64(1), np.int64(2))
        move(floats, first * size, out, at + 2, count * size)
        return np.int64(2 + count * size)
    stream = put_distances(numbers, first, count, size, np.int64(1), chunk, out, at + 16)
    put_bits(out, at, np.int64(12), np.int64(2))
    put_bits(out, at + 2, stream, np.int64(4))
    put_bits(out, at + 6, found, np.int64(2))
    put_bits(out, at + 8, places >> 8, np.int64(1))
    put_bits(out, at + 9, places & 255, np.int64(1))
    place = at + 16 + stream
    for i in range(found):
        position = np.int64(exceptions[skipped + i])
        put_bits(out, place + 4 * i, position - first, np.int64(4))
        move(floats, position * size, out, place + 4 * found + i * size, size)
    return np.int64(16 + stream + found * (4 + size))


@kernel(
    "int64(uint8[::1], uint8[::1], uint32[::1], int64, int64, int64, int64, int64, uint8[::1], int64, "
    "out uint8[::1], out uint8[::1], out int64[::1])"
)
def put_blocks(
    numbers: Bytes,
    floats: Bytes,
    exceptions: Any,
    places: int,
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
    """Write blocks.

    Args:
        numbers: uint8[count · size], integers without nulls.
        floats: The floats that they stand for; empty for integers.
        exceptions: uint32[x], positions of floats that are stored as they are.
        places: 256 · exponent + factor.
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
            presence = put_presence(valid, first, part, out, at + 8)
        start = at + 8 + ((presence + 7) & ~7)
        if len(floats) > 0:
            found = np.int64(0)
            while skipped + found < len(exceptions) and np.int64(exceptions[skipped + found]) < first + part:
                found += 1
            written = put_decimals(
                numbers, floats, exceptions, skipped, found, first, part, size, places, chunk, out, start
            )
            skipped += found
        else:
            written = put_distances(numbers, first, part, size, is_signed, chunk, out, start)
        put_bits(out, at, presence, np.int64(4))
        put_bits(out, at + 4, written, np.int64(4))
        at = at + ((start + written + tail - at + 7) & ~7)
        ends[block] = at
    return at


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

    Spec: docs/formats/amudai-encodings.md § 4.1.
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
