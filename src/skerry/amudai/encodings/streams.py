"""Reading the headers of numeric streams (kernels of the machine)."""

from __future__ import annotations

import numpy as np

from skerry.amudai.encodings.machine import (
    ADD,
    BAD_EXPONENT,
    BAD_FLAG,
    BAD_WIDTH,
    CODE_NOT_FOR_TYPE,
    CUT_SHORT,
    DONE,
    FROM,
    FROM_DECIMAL,
    FROM_HALVES,
    IN_BYTES,
    PICK,
    RAW,
    RUNS,
    SCATTER,
    STREAM,
    SUM,
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
    Integer,
    Registers,
    Tasks,
    push,
    refuse,
    reserve,
)
from skerry.amudai.encodings.parts import KIND_BYTES, U8, copy_raw, fill, load_any, unpack
from skerry.kernels import kernel, load_u16, load_u32

__all__ = ["begin_stream", "push_part"]

INT32, INT64, UINT8, UINT16, UINT32, UINT64, FLOAT32 = 2, 3, 4, 5, 6, 7, 8  # places in DTYPES
UNSIGNED = 4  # kinds 0 to 3 are signed, 4 to 7 unsigned, then floats
MAX_EXPONENT_8, MAX_EXPONENT_4 = 17, 9
MAX_HALVES = 8  # left parts in a dictionary


# Reading headers ----------------------------------------------------------------------------------------------------


@kernel
def begin_stream(
    data: Bytes, memory: Bytes, tasks: Tasks, state: Registers, source: int, end: int, count: int, kind: int, place: int
) -> Integer:
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

    Spec: docs/formats/amudai-encodings.md § 4.
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
def ask_codec(data: Bytes, state: Registers, code: int, body: int, end: int, wanted: int, place: int) -> Integer:
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
) -> Integer:
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
) -> Integer:
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
) -> Integer:
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
) -> Integer:
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
) -> Integer:
    """Have a part decoded that is a stream, or values as they are, as the flag says."""
    nested = np.int64(data[flag])
    if nested > 1:
        return refuse(state, BAD_FLAG, flag, 1, nested)
    return push(tasks, state, STREAM if nested else RAW, source, end, count, kind, place, 0, 0, 0, state[TOP])
