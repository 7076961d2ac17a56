"""Presence sections: which values of a block are not null (kernels of the machine, and encoding).

Spec: docs/formats/amudai-encodings.md § 3.1.
"""

from __future__ import annotations

import numpy as np

from skerry.amudai.encodings.machine import (
    BAD_POSITION,
    BAD_PRESENCE,
    CUT_SHORT,
    DONE,
    Bytes,
    Integer,
    Registers,
    refuse,
)
from skerry.kernels import kernel, load_u16, load_u32, load_u64

__all__ = ["decode_presence"]

U1 = np.uint8(0)
BYTES_TO_BITS = np.uint64(0x0102040810204080)
LOW_BITS = np.uint64(0x0101010101010101)
S56 = np.uint64(56)
COOKIE_WITHOUT_RUNS, COOKIE = 12346, 12347
OFFSETS_FROM = 4  # bitmaps with runs and fewer containers have no offsets
MAX_ARRAY = 4096
BITSET_BYTES = 8192


@kernel
def decode_presence(
    data: Bytes, validity: Bytes, state: Registers, source: int, end: int, row: int, count: int
) -> Integer:
    """Clear the bits of null values.

    Args:
        data: The encoded bytes.
        validity: Bitmap, least significant bit first; all bits of the block are set.
        state: The registers.
        source: Where the section begins in `data`; it is not empty.
        end: Where it ends.
        row: The bit of the block's first value.
        count: Values of the block.

    Returns:
        What the machine answers.
    """
    form = np.int64(data[source])
    if form == 1:
        if end - source != 1:
            return refuse(state, BAD_PRESENCE, source, 1, end - source)
        change_bits(validity, row, row + count, False)
        return DONE
    if form == 2:
        if end - source - 1 != count:
            return refuse(state, BAD_PRESENCE, source, count + 1, end - source)
        return from_bytes(data, validity, state, source + 1, row, count)
    if form != 3:
        return refuse(state, BAD_PRESENCE, source, 3, form)
    if end - source < 6:
        return refuse(state, CUT_SHORT, source, 6, end - source)
    if data[source + 1] > 1:
        return refuse(state, BAD_PRESENCE, source + 1, 1, np.int64(data[source + 1]))
    is_valid = data[source + 1] == 0
    if is_valid:
        change_bits(validity, row, row + count, False)
    return from_roaring(data, validity, state, source + 2, end, row, count, is_valid)


@kernel
def change_bits(validity: Bytes, start: int, stop: int, is_set: bool) -> None:
    """Set or clear a range of bits."""
    at = start
    while at < stop and at & 7:
        change_bit(validity, at, is_set)
        at += 1
    last = stop >> 3
    for i in range(at >> 3, last):
        validity[i] = np.uint8(255) if is_set else np.uint8(0)
    at = max(at, last << 3)
    while at < stop:
        change_bit(validity, at, is_set)
        at += 1


@kernel
def change_bit(validity: Bytes, at: int, is_set: bool) -> None:
    """Set or clear one bit."""
    bit = np.uint8(1 << (at & 7))
    if is_set:
        validity[at >> 3] |= bit
    else:
        validity[at >> 3] &= ~bit


@kernel
def from_bytes(data: Bytes, validity: Bytes, state: Registers, source: int, row: int, count: int) -> Integer:
    """One byte per value, 1 or 0."""
    done = 0
    if row & 7 == 0:
        others = np.uint64(0)
        for i in range(count >> 3):
            word = load_u64(data, source + 8 * i)
            others |= word
            validity[(row >> 3) + i] = np.uint8((word * BYTES_TO_BITS) >> S56)
        if others & ~LOW_BITS:
            return refuse(state, BAD_PRESENCE, source, 1, 2)
        done = count >> 3 << 3
    for i in range(done, count):
        value = data[source + i]
        if value > 1:
            return refuse(state, BAD_PRESENCE, source + i, 1, np.int64(value))
        if value == 0:
            change_bit(validity, row + i, False)
    return DONE


@kernel
def from_roaring(
    data: Bytes, validity: Bytes, state: Registers, source: int, end: int, row: int, count: int, is_set: bool
) -> Integer:
    """Set or clear the bits that a Roaring bitmap holds.

    Spec: Roaring spec, Standard 32-bit Roaring Bitmap.
    """
    cookie = np.int64(load_u32(data, source))
    has_runs = cookie & 0xFFFF == COOKIE
    if has_runs:
        containers: Integer = (cookie >> 16) + 1
        flags = source + 4
        heads = flags + ((containers + 7) >> 3)
    else:
        if cookie != COOKIE_WITHOUT_RUNS or end - source < 8:
            return refuse(state, BAD_PRESENCE, source, COOKIE_WITHOUT_RUNS, cookie)
        containers = np.int64(load_u32(data, source + 4))
        flags = source
        heads = source + 8
    at = heads + 4 * containers
    if not has_runs or containers >= OFFSETS_FROM:
        at += 4 * containers
    if at > end:
        return refuse(state, CUT_SHORT, source, at - source, end - source)
    for i in range(containers):
        first = np.int64(load_u16(data, heads + 4 * i)) << 16
        values = np.int64(load_u16(data, heads + 4 * i + 2)) + 1
        is_run = has_runs and (data[flags + (i >> 3)] >> np.uint8(i & 7)) & 1 == 1
        size = 2 * values if values <= MAX_ARRAY else BITSET_BYTES
        if is_run:
            if end - at < 2:
                return refuse(state, CUT_SHORT, at, 2, end - at)
            size = 2 + 4 * np.int64(load_u16(data, at))
        if size > end - at:
            return refuse(state, CUT_SHORT, at, size, end - at)
        if is_run:
            highest = apply_runs(data, validity, at, size, row + first, count - first, is_set)
        elif values <= MAX_ARRAY:
            highest = apply_array(data, validity, at, values, row + first, count - first, is_set)
        else:
            highest = apply_bits(data, validity, at, row + first, count - first, is_set)
        if first + highest >= count:
            return refuse(state, BAD_POSITION, at, count, first + highest)
        at += size
    if at != end:
        return refuse(state, BAD_PRESENCE, at, 0, end - at)
    return DONE


@kernel
def apply_array(data: Bytes, validity: Bytes, at: int, values: int, row: int, limit: int, is_set: bool) -> Integer:
    """Change the bits that an array container names; returns the highest position, beyond `limit` if it is."""
    highest: Integer = np.int64(0)
    for i in range(values):
        position = np.int64(load_u16(data, at + 2 * i))
        highest = max(highest, position)
        if position < limit:
            change_bit(validity, row + position, is_set)
    return highest


@kernel
def apply_runs(data: Bytes, validity: Bytes, at: int, size: int, row: int, limit: int, is_set: bool) -> Integer:
    """Change the bits of a run container, likewise."""
    highest: Integer = np.int64(0)
    for place in range(at + 2, at + size, 4):
        start = np.int64(load_u16(data, place))
        last = start + np.int64(load_u16(data, place + 2))
        highest = max(highest, last)
        if last < limit:
            change_bits(validity, row + start, row + last + 1, is_set)
    return highest


@kernel
def apply_bits(data: Bytes, validity: Bytes, at: int, row: int, limit: int, is_set: bool) -> Integer:
    """Change the bits of a bitset container, likewise."""
    highest: Integer = np.int64(0)
    for i in range(BITSET_BYTES):
        bits = data[at + i]
        if bits == 0:
            continue
        for bit in range(8):
            if (bits >> np.uint8(bit)) & 1:
                highest = 8 * i + bit
                if highest < limit:
                    change_bit(validity, row + highest, is_set)
    return highest
