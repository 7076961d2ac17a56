"""Numbers without parts, and how parts become numbers: the loops of numeric streams (kernels of the machine)."""

from __future__ import annotations

from typing import Any

import numpy as np

from skerry.amudai.encodings.fastlanes import CHUNK, unpack_chunk
from skerry.amudai.encodings.machine import (
    BAD_POSITION,
    BAD_WIDTH,
    CUT_SHORT,
    DONE,
    OUT_OF_DICTIONARY,
    RUNS_DIFFER,
    TAIL,
    WRONG_SIZE,
    Bytes,
    Integer,
    Registers,
    refuse,
)
from skerry.kernels import kernel, load, load_u16, load_u32, load_u64, store

__all__ = [
    "add_reference",
    "copy_raw",
    "fill",
    "from_decimal",
    "from_halves",
    "load_any",
    "move",
    "pick",
    "repeat_runs",
    "scatter",
    "store_any",
    "sum_up",
    "un_zig_zag",
    "unpack",
    "widen",
]

U1, U2, U4, U8 = np.uint8(0), np.uint16(0), np.uint32(0), np.uint64(0)
I1, I2, I4, I8 = np.int8(0), np.int16(0), np.int32(0), np.int64(0)
F4, F8 = np.float32(0), np.float64(0)
ONE = np.uint64(1)

KIND_BYTES = np.array((1, 2, 4, 8, 1, 2, 4, 8, 4, 8))  # an array: looking up a tuple may raise

UP_8 = np.array([float(f"1e{digits}") for digits in range(18)])
DOWN_8 = np.array([float(f"1e-{digits}") for digits in range(18)])
UP_4 = UP_8[:10].astype(np.float32)
DOWN_4 = DOWN_8[:10].astype(np.float32)


# Parts without parts ------------------------------------------------------------------------------------------------


@kernel
def load_any(data: Bytes, position: int, size: int) -> Any:
    """A number of some bytes, uint64."""
    if size == 8:
        return load_u64(data, position)
    if size == 4:
        return load_u32(data, position)
    if size == 2:
        return load_u16(data, position)
    return np.uint64(data[position])


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
def move(data: Bytes, source: int, memory: Bytes, place: int, size: int) -> None:
    """Copy bytes."""
    words = size >> 3
    for i in range(words):
        store(U8, memory, place + 8 * i, load_u64(data, source + 8 * i))
    for i in range(words << 3, size):
        store(U1, memory, place + i, load(U1, data, source + i))


@kernel
def copy_raw(
    data: Bytes, memory: Bytes, state: Registers, source: int, end: int, count: int, size: int, place: int
) -> Integer:
    """Values as they are; exactly so many."""
    if end - source != count * size:
        return refuse(state, WRONG_SIZE, source, count * size, end - source)
    move(data, source, memory, place, count * size)
    return DONE


@kernel
def fill(
    data: Bytes, memory: Bytes, state: Registers, source: int, end: int, count: int, size: int, place: int
) -> Integer:
    """One value for all."""
    if end - source < size:
        return refuse(state, CUT_SHORT, source, size, end - source)
    value = load_any(data, source, size)
    fill_with(memory, place, count, value, size)
    return DONE


@kernel
def fill_with(memory: Bytes, place: int, count: int, value: Any, size: int) -> None:
    """Write a value so many times."""
    for i in range(count):
        store_any(memory, place + i * size, value, size)


@kernel
def unpack(
    data: Bytes,
    memory: Bytes,
    state: Registers,
    source: int,
    end: int,
    count: int,
    size: int,
    width: int,
    reference: Any,
    place: int,
) -> Integer:
    """Bit-packed values and what is added to each."""
    if width < 1 or width > 8 * size:
        return refuse(state, BAD_WIDTH, source, 8 * size, width)
    needed = (count + CHUNK - 1) // CHUNK * 128 * width
    if end - source != needed:
        return refuse(state, WRONG_SIZE, source, needed, end - source)
    for first in range(0, count, CHUNK):
        target = place + first * size
        is_whole = count - first >= CHUNK
        into = target if is_whole else state[TAIL]
        if size == 8:
            unpack_chunk(U8, data, source, width, memory, into, reference, 8)
        elif size == 4:
            unpack_chunk(U4, data, source, width, memory, into, reference, 4)
        elif size == 2:
            unpack_chunk(U2, data, source, width, memory, into, reference, 2)
        else:
            unpack_chunk(U1, data, source, width, memory, into, reference, 1)
        if not is_whole:
            move(memory, into, memory, target, (count - first) * size)
        source += 128 * width
    return DONE


# Putting parts together ---------------------------------------------------------------------------------------------


@kernel
def add_reference(memory: Bytes, place: int, count: int, reference: int, size: int) -> Integer:
    """Distances to values."""
    for i in range(count):
        value = load_any(memory, place + i * size, size)
        store_any(memory, place + i * size, value + np.uint64(reference), size)
    return DONE


@kernel
def sum_up(memory: Bytes, place: int, count: int, first: int, size: int) -> Integer:
    """Differences to values."""
    value = np.uint64(first)
    store_any(memory, place, value, size)
    for i in range(1, count):
        value += load_any(memory, place + i * size, size)
        store_any(memory, place + i * size, value, size)
    return DONE


@kernel
def repeat_runs(
    memory: Bytes,
    state: Registers,
    place: int,
    count: int,
    values: int,
    lengths: int,
    runs: int,
    source: int,
    size: int,
) -> Integer:
    """Values as often as their lengths say."""
    filled: Integer = 0
    for run in range(runs):
        value = load_any(memory, values + run * size, size)
        length = np.int64(load_u32(memory, lengths + 4 * run))
        if length > count - filled:
            return refuse(state, RUNS_DIFFER, source, count, filled + length)
        at = place + filled * size
        for i in range(length):
            store_any(memory, at + i * size, value, size)
        filled += length
    if filled != count:
        return refuse(state, RUNS_DIFFER, source, count, filled)
    return DONE


@kernel
def widen(memory: Bytes, place: int, count: int, source: int, size: int, narrow_size: int) -> Integer:
    """Signed integers of few bits to more."""
    if narrow_size == 1:
        for i in range(count):
            store_any(memory, place + i * size, np.uint64(load(I1, memory, source + i)), size)
    elif narrow_size == 2:
        for i in range(count):
            store_any(memory, place + i * size, np.uint64(load(I2, memory, source + 2 * i)), size)
    elif narrow_size == 4:
        for i in range(count):
            store_any(memory, place + i * size, np.uint64(load(I4, memory, source + 4 * i)), size)
    else:
        move(memory, source, memory, place, count * size)
    return DONE


@kernel
def un_zig_zag(memory: Bytes, place: int, count: int, size: int) -> Integer:
    """Sign from the lowest bit to its place."""
    for i in range(count):
        value = load_any(memory, place + i * size, size)
        store_any(memory, place + i * size, (value >> ONE) ^ (U8 - (value & ONE)), size)
    return DONE


@kernel
def from_decimal(
    data: Bytes,
    memory: Bytes,
    state: Registers,
    place: int,
    count: int,
    exponent: int,
    factor: int,
    source: int,
    exceptions: int,
    size: int,
) -> Integer:
    """Integers to floats, in the arithmetic of their type, then the exceptions."""
    if size == 8:
        up, down = UP_8[factor], DOWN_8[exponent]
        for i in range(count):
            number = np.float64(load(I8, memory, place + 8 * i))
            store(F8, memory, place + 8 * i, (number * up) * down)
    else:
        up_4, down_4 = UP_4[factor], DOWN_4[exponent]
        for i in range(count):
            number_4 = np.float32(load(I4, memory, place + 4 * i))
            store(F4, memory, place + 4 * i, (number_4 * up_4) * down_4)
    for i in range(exceptions):
        at = np.int64(load_u32(data, source + 4 * i))
        if at >= count:
            return refuse(state, BAD_POSITION, source + 4 * i, count, at)
        move(data, source + 4 * exceptions + i * size, memory, place + at * size, size)
    return DONE


@kernel
def from_halves(
    data: Bytes,
    memory: Bytes,
    state: Registers,
    place: int,
    count: int,
    left: int,
    shape: int,
    dictionary: int,
    source: int,
    exceptions: int,
    size: int,
) -> Integer:
    """Left and right parts of floats to their bits, then the exceptions' left parts."""
    width = np.uint64(shape & 0xFF)
    entries = np.uint64(shape >> 8)
    largest = U8
    for i in range(count):
        largest = max(largest, load_u16(memory, left + 2 * i))
    if count > 0 and largest >= entries:
        return refuse(state, OUT_OF_DICTIONARY, dictionary, np.int64(entries), np.int64(largest))
    for i in range(count):
        half = load_u16(data, dictionary + 2 * np.int64(load_u16(memory, left + 2 * i)))
        store_any(memory, place + i * size, load_any(memory, place + i * size, size) | half << width, size)
    mask = (ONE << width) - ONE
    for i in range(exceptions):
        at = np.int64(load_u32(data, source + 4 * i))
        if at >= count:
            return refuse(state, BAD_POSITION, source + 4 * i, count, at)
        half = load_u16(data, source + 4 * exceptions + 2 * i)
        store_any(memory, place + at * size, (load_any(memory, place + at * size, size) & mask) | half << width, size)
    return DONE


@kernel
def pick(
    memory: Bytes,
    state: Registers,
    place: int,
    count: int,
    codes: int,
    entries: int,
    size: int,
    distinct: int,
    source: int,
) -> Integer:
    """Codes to values."""
    largest = U8
    for i in range(count):
        largest = max(largest, load_u32(memory, codes + 4 * i))
    if largest > np.uint64(distinct):
        return refuse(state, OUT_OF_DICTIONARY, source, distinct, np.int64(largest))
    for i in range(count):
        at = entries + np.int64(load_u32(memory, codes + 4 * i)) * size
        store_any(memory, place + i * size, load_any(memory, at, size), size)
    return DONE


@kernel
def scatter(
    memory: Bytes,
    state: Registers,
    place: int,
    count: int,
    positions: int,
    values: int,
    entries: int,
    size: int,
    source: int,
) -> Integer:
    """Values to their positions among zeros."""
    for i in range(entries):
        at = np.int64(load_u32(memory, positions + 4 * i))
        if at >= count:
            return refuse(state, BAD_POSITION, source, count, at)
        store_any(memory, place + at * size, load_any(memory, values + i * size, size), size)
    return DONE
