"""Reading the headers of numeric streams, and putting the parts of one together (kernels of the machine)."""

from __future__ import annotations

from typing import Any

import numpy as np

from skerry.amudai.encodings.fastlanes import CHUNK, unpack_chunk
from skerry.amudai.encodings.machine import (
    ADD,
    BAD_EXPONENT,
    BAD_FLAG,
    BAD_POSITION,
    BAD_WIDTH,
    CODE_NOT_FOR_TYPE,
    CUT_SHORT,
    DONE,
    FROM,
    FROM_DECIMAL,
    FROM_HALVES,
    IN_BYTES,
    OUT_OF_DICTIONARY,
    PICK,
    RAW,
    RUNS,
    RUNS_DIFFER,
    SCATTER,
    STREAM,
    SUM,
    TAIL,
    TARGET,
    TO,
    TOO_MANY,
    TOP,
    UN_ZIG_ZAG,
    UNKNOWN_CODE,
    WANT_LZ4,
    WANT_MEMORY,
    WANT_ZSTD,
    WANTED,
    WIDEN,
    WRONG_SIZE,
    Bytes,
    Registers,
    Tasks,
    push,
    refuse,
    reserve,
)
from skerry.kernels import kernel, load, load_u16, load_u32, load_u64, store

__all__ = [
    "add_reference",
    "begin_stream",
    "copy_raw",
    "from_decimal",
    "from_halves",
    "move",
    "pick",
    "repeat_runs",
    "scatter",
    "sum_up",
    "un_zig_zag",
    "widen",
]

U1, U2, U4, U8 = np.uint8(0), np.uint16(0), np.uint32(0), np.uint64(0)
I1, I2, I4, I8 = np.int8(0), np.int16(0), np.int32(0), np.int64(0)
F4, F8 = np.float32(0), np.float64(0)
ONE = np.uint64(1)

KIND_BYTES = np.array((1, 2, 4, 8, 1, 2, 4, 8, 4, 8))  # an array: looking up a tuple may raise
INT32, INT64, UINT8, UINT16, UINT32, UINT64, FLOAT32, FLOAT64 = 2, 3, 4, 5, 6, 7, 8, 9
UNSIGNED = 4  # kinds 0 to 3 are signed, 4 to 7 unsigned, then floats

UP_8 = np.array([float(f"1e{digits}") for digits in range(18)])
DOWN_8 = np.array([float(f"1e-{digits}") for digits in range(18)])
UP_4 = UP_8[:10].astype(np.float32)
DOWN_4 = DOWN_8[:10].astype(np.float32)
MAX_EXPONENT_8, MAX_EXPONENT_4 = 17, 9
MAX_HALVES = 8  # left parts in a dictionary


# Reading headers ----------------------------------------------------------------------------------------------------


@kernel
def begin_stream(
    data: Bytes, memory: Bytes, tasks: Tasks, state: Registers, source: int, end: int, count: int, kind: int, place: int
) -> int:
    """Read a stream's header; decode it if it has no parts, else put the tasks for them on the stack.

    Args:
        data: The encoded bytes.
        memory: Takes the values.
        tasks: The stack, with room for three more tasks.
        state: The registers.
        source: Where the stream begins in `data`.
        end: Where it ends.
        count: How many values it holds.
        kind: Their type.
        place: Where in `memory` they go.

    Returns:
        What the machine answers.

    Spec: amudai-encodings 4.
    """
    size = KIND_BYTES[kind]
    if end - source < 2:
        return refuse(state, CUT_SHORT, source, 2, end - source)
    code = np.int64(load_u16(data, source))
    if code == 1:
        return copy_raw(data, memory, state, source + 2, end, count, size, place)
    if code == 7:
        return fill(data, memory, state, source + 2, end, count, size, place)
    if code < 1 or code == 15 or code > 19:
        return refuse(state, UNKNOWN_CODE, source, 0, code)
    is_unsigned = kind >= UNSIGNED and kind < FLOAT32
    is_signed = kind < UNSIGNED
    is_float = kind >= FLOAT32
    if (
        (code == 2 and not is_unsigned)
        or (3 <= code <= 5 and is_float)
        or (8 <= code <= 11 and not (is_signed and size >= 1 << (code - 8) and size > 1))
        or (12 <= code <= 13 and not is_float)
        or (code == 18 and not is_signed)
    ):
        return refuse(state, CODE_NOT_FOR_TYPE, source, kind, code)
    header = 8
    if (size == 8 and 3 <= code <= 5) or code == 6 or 12 <= code <= 14 or code == 19:
        header = 16
    if end - source < header:
        return refuse(state, CUT_SHORT, source, header, end - source)
    body = source + header
    if code == 16 or code == 17:
        return ask_codec(data, state, code, body, end, count * size, place)
    if code <= 5:
        return begin_integers(data, memory, tasks, state, code, source, body, end, count, kind, place)
    if code <= 11 or code == 18:
        return begin_narrow(data, memory, tasks, state, code, source, body, end, count, kind, place)
    if code <= 13:
        return begin_floats(data, memory, tasks, state, code, source, body, end, count, kind, place)
    return begin_chosen(data, memory, tasks, state, code, source, body, end, count, kind, place)


@kernel
def ask_codec(data: Bytes, state: Registers, code: int, body: int, end: int, wanted: int, place: int) -> int:
    """Have a stream decompressed by a codec (ZSTD, LZ4)."""
    if code == 17:
        if end - body < 4:
            return refuse(state, CUT_SHORT, body, 4, end - body)
        size = np.int64(load_u32(data, body))
        if size != wanted:
            return refuse(state, WRONG_SIZE, body, wanted, size)
        body += 4
    state[FROM] = body
    state[TO] = end
    state[TARGET] = place
    state[WANTED] = wanted
    state[IN_BYTES] = 0
    if wanted == 0:
        return DONE
    return WANT_ZSTD if code == 16 else WANT_LZ4


@kernel
def begin_integers(
    data: Bytes,
    memory: Bytes,
    tasks: Tasks,
    state: Registers,
    code: int,
    source: int,
    body: int,
    end: int,
    count: int,
    kind: int,
    place: int,
) -> int:
    """Bit packing, both frames of reference, and differences."""
    size = KIND_BYTES[kind]
    field = source + 2
    if code == 2:
        return unpack(data, memory, state, body, end, count, size, np.int64(data[field]), U8, place)
    value = load_any(data, field, size)
    if code == 4:
        return unpack(data, memory, state, body, end, count, size, np.int64(data[field + size]), value, place)
    freed = state[TOP]
    if code == 3:
        push(tasks, state, ADD, 0, 0, count, kind, place, np.int64(value), 0, 0, freed)
        return push(tasks, state, STREAM, body, end, count, kind | UNSIGNED, place, 0, 0, 0, freed)
    if count == 0:
        return DONE
    push(tasks, state, SUM, 0, 0, count, kind, place, np.int64(value), 0, 0, freed)
    return push(tasks, state, STREAM, body, end, count - 1, kind, place + size, 0, 0, 0, freed)


@kernel
def begin_narrow(
    data: Bytes,
    memory: Bytes,
    tasks: Tasks,
    state: Registers,
    code: int,
    source: int,
    body: int,
    end: int,
    count: int,
    kind: int,
    place: int,
) -> int:
    """Runs, integers of fewer bits, and integers whose sign is in the lowest bit."""
    size = KIND_BYTES[kind]
    freed = state[TOP]
    if code == 6:
        values_end = body + np.int64(load_u32(data, source + 2))
        runs = np.int64(load_u32(data, source + 6))
        if runs > count:
            return refuse(state, TOO_MANY, source + 6, count, runs)
        lengths = body + ((values_end - body + 7) & ~7)
        if lengths > end:
            return refuse(state, CUT_SHORT, body, lengths - body, end - body)
        values_place = reserve(memory, state, runs * (size + 4))
        if values_place < 0:
            return WANT_MEMORY
        lengths_place = values_place + runs * size
        push(tasks, state, RUNS, body, 0, count, kind, place, values_place, lengths_place, runs, freed)
        push_part(data, tasks, state, source + 11, lengths, end, runs, UINT32, lengths_place)
        return push_part(data, tasks, state, source + 10, body, values_end, runs, kind, values_place)
    if code == 18:
        push(tasks, state, UN_ZIG_ZAG, 0, 0, count, kind, place, 0, 0, 0, freed)
        return push_part(data, tasks, state, source + 2, body, end, count, kind | UNSIGNED, place)
    narrow = UINT8 + code - 8
    narrow_place = reserve(memory, state, count * KIND_BYTES[narrow])
    if narrow_place < 0:
        return WANT_MEMORY
    push(tasks, state, WIDEN, 0, 0, count, kind, place, narrow_place, narrow, 0, freed)
    return push_part(data, tasks, state, source + 2, body, end, count, narrow, narrow_place)


@kernel
def begin_floats(
    data: Bytes,
    memory: Bytes,
    tasks: Tasks,
    state: Registers,
    code: int,
    source: int,
    body: int,
    end: int,
    count: int,
    kind: int,
    place: int,
) -> int:
    """Floats as decimals (ALP) or in two halves (ALPRD)."""
    size = KIND_BYTES[kind]
    freed = state[TOP]
    first_end = body + np.int64(load_u32(data, source + 2))
    if code == 12:
        exceptions = np.int64(load_u16(data, source + 6))
        exponent = np.int64(data[source + 8])
        factor = np.int64(data[source + 9])
        if exponent > (MAX_EXPONENT_8 if size == 8 else MAX_EXPONENT_4) or factor > exponent:
            return refuse(state, BAD_EXPONENT, source + 8, factor, exponent)
        if exceptions > count:
            return refuse(state, TOO_MANY, source + 6, count, exceptions)
        if first_end + exceptions * (4 + size) != end:
            return refuse(state, WRONG_SIZE, source, first_end + exceptions * (4 + size) - source, end - source)
        push(tasks, state, FROM_DECIMAL, first_end, exceptions, count, kind, place, exponent, factor, 0, freed)
        integers = INT64 if size == 8 else INT32
        return push(tasks, state, STREAM, body, first_end, count, integers, place, 0, 0, 0, freed)
    right_size = np.int64(load_u32(data, source + 6))
    exceptions = np.int64(load_u16(data, source + 10))
    width = np.int64(data[source + 12])
    entries = np.int64(data[source + 13])
    if width < 1 or width >= 8 * size:
        return refuse(state, BAD_WIDTH, source + 12, 8 * size - 1, width)
    if entries > MAX_HALVES or exceptions > count:
        return refuse(state, TOO_MANY, source + 10, MAX_HALVES, entries)
    left = body + 2 * entries
    right = left + first_end - body
    exceptions_at = right + right_size
    if exceptions_at + 6 * exceptions != end:
        return refuse(state, WRONG_SIZE, source, exceptions_at + 6 * exceptions - source, end - source)
    left_place = reserve(memory, state, 2 * count)
    if left_place < 0:
        return WANT_MEMORY
    push(
        tasks,
        state,
        FROM_HALVES,
        body,
        exceptions_at,
        count,
        kind,
        place,
        left_place,
        width | entries << 8,
        exceptions,
        freed,
    )
    push(tasks, state, STREAM, left, right, count, UINT16, left_place, 0, 0, 0, state[TOP])
    unsigned = UINT64 if size == 8 else UINT32
    return push(tasks, state, STREAM, right, exceptions_at, count, unsigned, place, 0, 0, 0, state[TOP])


@kernel
def begin_chosen(
    data: Bytes,
    memory: Bytes,
    tasks: Tasks,
    state: Registers,
    code: int,
    source: int,
    body: int,
    end: int,
    count: int,
    kind: int,
    place: int,
) -> int:
    """Values picked from a dictionary, and values scattered among zeros."""
    size = KIND_BYTES[kind]
    freed = state[TOP]
    if code == 14:
        codes_end = body + np.int64(load_u32(data, source + 2))
        entries = np.int64(load_u32(data, source + 6))
        if entries > count:
            return refuse(state, TOO_MANY, source + 6, count, entries)
        if codes_end > end:
            return refuse(state, CUT_SHORT, body, codes_end - body, end - body)
        codes_place = reserve(memory, state, 4 * count + (entries + 1) * size)
        if codes_place < 0:
            return WANT_MEMORY
        entries_place = codes_place + 4 * count
        for i in range(size):
            memory[entries_place + i] = np.uint8(0)  # code 0: null
        push(tasks, state, PICK, body, entries, count, kind, place, codes_place, entries_place, 0, freed)
        push_part(data, tasks, state, source + 10, codes_end, end, entries, kind, entries_place + size)
        return push(tasks, state, STREAM, body, codes_end, count, UINT32, codes_place, 0, 0, 0, state[TOP])
    entries = np.int64(load_u32(data, source + 2))
    positions_end = body + np.int64(load_u32(data, source + 6))
    if entries > count:
        return refuse(state, TOO_MANY, source + 2, count, entries)
    values = body + ((positions_end - body + 7) & ~7)
    if entries > 0 and values > end:
        return refuse(state, CUT_SHORT, body, values - body, end - body)
    for i in range(count * size):
        memory[place + i] = np.uint8(0)
    if entries == 0:
        return DONE
    positions_place = reserve(memory, state, entries * (4 + size))
    if positions_place < 0:
        return WANT_MEMORY
    values_place = positions_place + 4 * entries
    push(tasks, state, SCATTER, body, 0, count, kind, place, positions_place, values_place, entries, freed)
    push_part(data, tasks, state, source + 11, values, end, entries, kind, values_place)
    return push_part(data, tasks, state, source + 10, body, positions_end, entries, UINT32, positions_place)


@kernel
def push_part(
    data: Bytes, tasks: Tasks, state: Registers, flag: int, source: int, end: int, count: int, kind: int, place: int
) -> int:
    """Have a part decoded that is a stream, or values as they are, as the flag says."""
    nested = np.int64(data[flag])
    if nested > 1:
        return refuse(state, BAD_FLAG, flag, 1, nested)
    return push(tasks, state, STREAM if nested else RAW, source, end, count, kind, place, 0, 0, 0, state[TOP])


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
) -> int:
    """Values as they are; exactly so many."""
    if end - source != count * size:
        return refuse(state, WRONG_SIZE, source, count * size, end - source)
    move(data, source, memory, place, count * size)
    return DONE


@kernel
def fill(data: Bytes, memory: Bytes, state: Registers, source: int, end: int, count: int, size: int, place: int) -> int:
    """One value for all."""
    if end - source < size:
        return refuse(state, CUT_SHORT, source, size, end - source)
    value = load_any(data, source, size)
    if size == 8:
        fill_with(U8, memory, place, count, value, 8)
    elif size == 4:
        fill_with(U4, memory, place, count, value, 4)
    elif size == 2:
        fill_with(U2, memory, place, count, value, 2)
    else:
        fill_with(U1, memory, place, count, value, 1)
    return DONE


@kernel
def fill_with(unit: Any, memory: Bytes, place: int, count: int, value: Any, size: int) -> None:
    """Write a value so many times."""
    for i in range(count):
        store(unit, memory, place + i * size, value)


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
) -> int:
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
def add_reference(unit: Any, memory: Bytes, place: int, count: int, reference: int, size: int) -> int:
    """Distances to values."""
    for i in range(count):
        value = load(unit, memory, place + i * size)
        store(unit, memory, place + i * size, value + np.uint64(reference))
    return DONE


@kernel
def sum_up(unit: Any, memory: Bytes, place: int, count: int, first: int, size: int) -> int:
    """Differences to values."""
    value = np.uint64(first)
    store(unit, memory, place, value)
    for i in range(1, count):
        value += load(unit, memory, place + i * size)
        store(unit, memory, place + i * size, value)
    return DONE


@kernel
def repeat_runs(
    unit: Any,
    memory: Bytes,
    state: Registers,
    place: int,
    count: int,
    values: int,
    lengths: int,
    runs: int,
    source: int,
    size: int,
) -> int:
    """Values as often as their lengths say."""
    filled = 0
    for run in range(runs):
        value = load(unit, memory, values + run * size)
        length = np.int64(load_u32(memory, lengths + 4 * run))
        if length > count - filled:
            return refuse(state, RUNS_DIFFER, source, count, filled + length)
        at = place + filled * size
        for i in range(length):
            store(unit, memory, at + i * size, value)
        filled += length
    if filled != count:
        return refuse(state, RUNS_DIFFER, source, count, filled)
    return DONE


@kernel
def widen(
    unit: Any, narrow: Any, memory: Bytes, place: int, count: int, source: int, size: int, narrow_size: int
) -> int:
    """Signed integers of few bits to more."""
    for i in range(count):
        store(unit, memory, place + i * size, load(narrow, memory, source + i * narrow_size))
    return DONE


@kernel
def un_zig_zag(unit: Any, memory: Bytes, place: int, count: int, size: int) -> int:
    """Sign from the lowest bit to its place."""
    for i in range(count):
        value = load(unit, memory, place + i * size)
        store(unit, memory, place + i * size, (value >> ONE) ^ (U8 - (value & ONE)))
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
) -> int:
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
    unit: Any,
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
) -> int:
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
        store(unit, memory, place + i * size, load(unit, memory, place + i * size) | half << width)
    mask = (ONE << width) - ONE
    for i in range(exceptions):
        at = np.int64(load_u32(data, source + 4 * i))
        if at >= count:
            return refuse(state, BAD_POSITION, source + 4 * i, count, at)
        half = load_u16(data, source + 4 * exceptions + 2 * i)
        store(unit, memory, place + at * size, (load(unit, memory, place + at * size) & mask) | half << width)
    return DONE


@kernel
def pick(
    unit: Any,
    memory: Bytes,
    state: Registers,
    place: int,
    count: int,
    codes: int,
    entries: int,
    size: int,
    distinct: int,
    source: int,
) -> int:
    """Codes to values."""
    largest = U8
    for i in range(count):
        largest = max(largest, load_u32(memory, codes + 4 * i))
    if largest > np.uint64(distinct):
        return refuse(state, OUT_OF_DICTIONARY, source, distinct, np.int64(largest))
    for i in range(count):
        at = entries + np.int64(load_u32(memory, codes + 4 * i)) * size
        store(unit, memory, place + i * size, load(unit, memory, at))
    return DONE


@kernel
def scatter(
    unit: Any,
    memory: Bytes,
    state: Registers,
    place: int,
    count: int,
    positions: int,
    values: int,
    entries: int,
    size: int,
    source: int,
) -> int:
    """Values to their positions among zeros."""
    for i in range(entries):
        at = np.int64(load_u32(memory, positions + 4 * i))
        if at >= count:
            return refuse(state, BAD_POSITION, source, count, at)
        store(unit, memory, place + at * size, load(unit, memory, values + i * size))
    return DONE
