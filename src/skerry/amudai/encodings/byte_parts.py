"""How the parts of binary blocks become values (kernels of the machine)."""

from __future__ import annotations

import numpy as np

from skerry.amudai.encodings.machine import (
    BAD_OFFSETS,
    BAD_SYMBOL,
    CUT_SHORT,
    DONE,
    FIXED,
    FROM,
    IN_BYTES,
    OFFSET_BYTES,
    OUT_OF_DICTIONARY,
    ROW,
    TARGET,
    TO,
    TOO_MANY,
    TOP,
    USED,
    WANT_BYTES,
    WANT_LZ4,
    WANT_MEMORY,
    WANT_ZSTD,
    WANTED,
    WRONG_SIZE,
    Bytes,
    Integer,
    Registers,
    refuse,
)
from skerry.amudai.encodings.parts import move
from skerry.kernels import kernel, load_u32, load_u64, store

__all__ = ["SLACK", "copy_packed", "copy_plain", "copy_short", "decode_fsst", "pick_bytes", "repeat_bytes"]

SLACK = 16
"""Bytes behind the values that may be overwritten: values are copied some words at a time."""
U1, U4, U8 = np.uint8(0), np.uint32(0), np.uint64(0)
NO_SYMBOL = np.uint64(1 << 32)  # a length that no values have: what a code without a symbol gets
ESCAPE = 255
MAX_LZ4 = 255  # bytes of content for a byte of an LZ4 block: nothing says more with less
MAX_ZSTD = 1 << 15  # likewise of a Zstandard frame: 128 KiB for a block of four bytes


@kernel
def write_offset(offsets: Bytes, state: Registers, number: int, offset: int) -> None:
    """Note where a value of the block ends."""
    at = (state[ROW] + number + 1) * state[OFFSET_BYTES]
    if state[OFFSET_BYTES] == 4:
        store(U4, offsets, at, np.uint64(offset))
    else:
        store(U8, offsets, at, np.uint64(offset))


@kernel
def make_room(values: Bytes, state: Registers, size: int) -> Integer:
    """Take so many bytes of the values' room; -1, and a wish for more, if there are not so many."""
    start = state[USED]
    if start + size + SLACK > len(values):
        state[WANTED] = start + size
        return -1
    state[USED] = start + size
    return start


@kernel
def check_offsets(memory: Bytes, state: Registers, place: int, count: int, source: int) -> Integer:
    """Whether offsets begin at 0 and ascend; returns the last, or -1."""
    last = np.int64(load_u64(memory, place))
    if last != 0:
        refuse(state, BAD_OFFSETS, source, 0, last)
        return -1
    is_falling: Integer = False
    for i in range(count):
        offset = np.int64(load_u64(memory, place + 8 * i + 8))
        is_falling |= offset < last
        last = offset
    if is_falling:
        refuse(state, BAD_OFFSETS, source, 0, last)
        return -1
    return last


@kernel
def write_offsets(offsets: Bytes, memory: Bytes, state: Registers, place: int, count: int, start: int) -> None:
    """Note where the values of the block end: offsets in memory, counted from `start`."""
    at = (state[ROW] + 1) * state[OFFSET_BYTES]
    base = np.uint64(start)
    if state[OFFSET_BYTES] == 4:
        for i in range(count):
            store(U4, offsets, at + 4 * i, load_u64(memory, place + 8 * i + 8) + base)
    else:
        for i in range(count):
            store(U8, offsets, at + 8 * i, load_u64(memory, place + 8 * i + 8) + base)


@kernel
def take_room(
    memory: Bytes,
    values: Bytes,
    offsets: Bytes,
    state: Registers,
    place: int,
    count: int,
    source: int,
    available: int,
    most: int,
) -> Integer:
    """Check the offsets of a block, note them and take room for its bytes.

    Args:
        memory: Holds the offsets at `place`.
        values: Takes the values' bytes.
        offsets: Takes where each value ends.
        state: The registers.
        place: See `memory`.
        count: How many values there are.
        source: Where the block's values begin in the data, for messages.
        available: How many bytes the values must have, -1 if the offsets tell.
        most: How many bytes they can have at most.

    Returns:
        Where the room begins; -1 if there is too little, or the offsets are refused.
    """
    if state[FIXED] >= 0:
        total = count * state[FIXED]
    else:
        total = check_offsets(memory, state, place, count, source)
        if total < 0:
            return -1
    if available >= 0 and total != available:
        refuse(state, WRONG_SIZE, source, total, available)
        return -1
    if total > most:
        refuse(state, TOO_MANY, source, most, total)
        return -1
    start = make_room(values, state, total)
    if start >= 0 and state[FIXED] < 0:
        write_offsets(offsets, memory, state, place, count, start)
    return start


@kernel
def copy_plain(
    data: Bytes,
    memory: Bytes,
    values: Bytes,
    offsets: Bytes,
    state: Registers,
    source: int,
    end: int,
    count: int,
    place: int,
    block: int,
) -> Integer:
    """Values as they are."""
    start = take_room(memory, values, offsets, state, place, count, block, end - source, end - source)
    if start < 0:
        return WANT_BYTES
    move(data, source, values, start, end - source)
    return DONE


@kernel
def copy_packed(
    memory: Bytes,
    values: Bytes,
    offsets: Bytes,
    data: Bytes,
    state: Registers,
    source: int,
    end: int,
    count: int,
    place: int,
    block: int,
    code: int,
) -> Integer:
    """Values that a codec packed."""
    wanted: Integer = np.int64(-1)
    if code == 17:
        if end - source < 4:
            return refuse(state, CUT_SHORT, source, 4, end - source)
        wanted = np.int64(load_u32(data, source))
        source += 4
    most = (end - source + 4) * (MAX_ZSTD if code == 16 else MAX_LZ4)
    start = take_room(memory, values, offsets, state, place, count, block, wanted, most)
    if start < 0:
        return WANT_BYTES
    state[FROM] = source
    state[TO] = end
    state[TARGET] = start
    state[WANTED] = state[USED] - start
    state[IN_BYTES] = 1
    if state[WANTED] == 0:
        return DONE
    return WANT_ZSTD if code == 16 else WANT_LZ4


@kernel
def repeat_bytes(
    data: Bytes, values: Bytes, offsets: Bytes, validity: Bytes, state: Registers, source: int, end: int, count: int
) -> Integer:
    """One value in all rows that are not null."""
    size = end - source
    fixed = state[FIXED]
    if fixed >= 0 and size != fixed:
        return refuse(state, WRONG_SIZE, source, fixed, size)
    row = state[ROW]
    valid: Integer = count
    if fixed < 0 and len(validity) > 0:
        valid = 0
        for i in range(count):
            valid += np.int64((validity[(row + i) >> 3] >> ((row + i) & 7)) & 1)
    start = make_room(values, state, valid * size)
    if start < 0:
        return WANT_BYTES
    for i in range(valid):
        move(data, source, values, start + i * size, size)
    if fixed < 0:
        for i in range(count):
            if len(validity) == 0:
                start += size
            else:
                start += size * np.int64((validity[(row + i) >> 3] >> ((row + i) & 7)) & 1)
            write_offset(offsets, state, i, start)
    return DONE


@kernel
def copy_short(memory: Bytes, source: int, values: Bytes, place: int, size: int) -> None:
    """Copy bytes in words, so that up to `SLACK` more are read and written."""
    for i in range(0, size, 8):
        store(U8, values, place + i, load_u64(memory, source + i))


@kernel
def pick_bytes(
    data: Bytes,
    memory: Bytes,
    values: Bytes,
    offsets: Bytes,
    state: Registers,
    source: int,
    end: int,
    count: int,
    codes: int,
    lengths: int,
    block: int,
    distinct: int,
) -> Integer:
    """Codes to values."""
    fixed = state[FIXED]
    starts = lengths + 4 * distinct  # of entries, behind an empty one for code 0
    entries = starts + 8 * (distinct + 2)
    total: Integer = np.int64(0)
    store(U8, memory, starts, U8)
    if fixed >= 0 and distinct * fixed != end - source:
        return refuse(state, WRONG_SIZE, block, distinct * fixed, end - source)
    for i in range(distinct):
        store(U8, memory, starts + 8 * (i + 1), np.uint64(total))
        total += fixed if fixed >= 0 else np.int64(load_u32(memory, lengths + 4 * i))
    store(U8, memory, starts + 8 * (distinct + 1), np.uint64(total))
    if total != end - source:
        return refuse(state, WRONG_SIZE, block, total, end - source)
    move(data, source, memory, entries, total)
    needed: Integer = np.int64(0)
    largest = U8
    for i in range(count):
        largest = max(largest, load_u32(memory, codes + 4 * i))
    if largest > np.uint64(distinct):
        return refuse(state, OUT_OF_DICTIONARY, block, distinct, np.int64(largest))
    for i in range(count):
        at = starts + 8 * np.int64(load_u32(memory, codes + 4 * i))
        needed += np.int64(load_u64(memory, at + 8) - load_u64(memory, at))
    start = make_room(values, state, count * fixed if fixed >= 0 else needed)
    if start < 0:
        return WANT_BYTES
    for i in range(count):
        code = np.int64(load_u32(memory, codes + 4 * i))
        at = starts + 8 * code
        first = np.int64(load_u64(memory, at))
        size = np.int64(load_u64(memory, at + 8)) - first
        if code == 0:
            size = np.int64(max(fixed, 0))
            for k in range(size):
                store(U1, values, start + k, U8)
        else:
            copy_short(memory, entries + first, values, start, size)
        start += size
        if fixed < 0:
            write_offset(offsets, state, i, start)
    return DONE


@kernel
def decode_fsst(
    data: Bytes,
    memory: Bytes,
    values: Bytes,
    offsets: Bytes,
    state: Registers,
    source: int,
    end: int,
    count: int,
    place: int,
    block: int,
) -> Integer:
    """Codes to symbols of up to eight bytes; code 255 goes before a byte that stands for itself."""
    symbols = np.int64(data[block + 2])
    table = state[TOP]
    if table + 256 * 16 > len(memory):
        state[WANTED] = 256 * 16
        return WANT_MEMORY
    for i in range(256):
        store(U8, memory, table + 16 * i, U8)
        store(U8, memory, table + 16 * i + 8, NO_SYMBOL)
    for i in range(symbols):
        length = np.int64(data[block + 16 + 8 * symbols + i])
        if length < 1 or length > 8:
            return refuse(state, BAD_SYMBOL, block + 16 + 8 * symbols + i, 8, length)
        store(U8, memory, table + 16 * i, load_u64(data, block + 16 + 8 * i))
        store(U8, memory, table + 16 * i + 8, np.uint64(length))
    start = take_room(memory, values, offsets, state, place, count, block, np.int64(-1), 8 * (end - source))
    if start < 0:
        return WANT_BYTES
    written = expand(data, memory, values, table, source, end, start, state[USED])
    if written != state[USED]:
        return refuse(state, WRONG_SIZE, block, state[USED] - start, written - start)
    return DONE


@kernel
def expand(
    data: Bytes, memory: Bytes, values: Bytes, table: int, source: int, end: int, place: Integer, limit: int
) -> Integer:
    """Replace codes by symbols, up to `limit`; returns where that ends, something else than `limit` if it does not."""
    while source < end and place <= limit:
        code = np.int64(data[source])
        if code == ESCAPE:
            if source + 1 == end:
                return np.int64(-1)
            store(U1, values, place, np.uint64(data[source + 1]))
            place += 1
            source += 2
        else:
            store(U8, values, place, load_u64(memory, table + 16 * code))
            place += np.int64(load_u64(memory, table + 16 * code + 8))
            source += 1
    return place if source == end else np.int64(-1)
