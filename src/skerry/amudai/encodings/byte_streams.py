"""Reading the headers of binary blocks' values (kernels of the machine)."""

from __future__ import annotations

import numpy as np

from skerry.amudai.encodings.byte_parts import SLACK, repeat_bytes
from skerry.amudai.encodings.machine import (
    BAD_OFFSET_WIDTH,
    BYTES_FSST,
    BYTES_PACKED,
    BYTES_PICK,
    BYTES_PLAIN,
    CUT_SHORT,
    FIXED,
    RAW,
    STREAM,
    TOO_MANY,
    TOP,
    UNKNOWN_CODE,
    WANT_MEMORY,
    Bytes,
    Integer,
    Registers,
    Tasks,
    push,
    refuse,
    reserve,
)
from skerry.amudai.encodings.streams import UINT32, UINT64, push_part
from skerry.kernels import kernel, load_u16, load_u32

__all__ = ["begin_bytes"]


@kernel
def begin_bytes(
    data: Bytes,
    memory: Bytes,
    values: Bytes,
    offsets: Bytes,
    validity: Bytes,
    tasks: Tasks,
    state: Registers,
    source: int,
    end: int,
    count: int,
) -> Integer:
    """Read the header of a binary block's values; put the tasks for them on the stack.

    Args:
        data: The encoded bytes.
        memory: Takes the parts.
        values: Takes the values' bytes.
        offsets: Takes where each value ends.
        validity: Bitmap of the rows that are not null.
        tasks: The stack.
        state: The registers.
        source: Where the values section begins in `data`.
        end: Where it ends.
        count: How many values it holds.

    Returns:
        What the machine answers.

    Spec: docs/formats/amudai-encodings.md § 5.2.
    """
    if end - source < 2:
        return refuse(state, CUT_SHORT, source, 2, end - source)
    code = np.int64(load_u16(data, source))
    if code == 1:
        return begin_plain_bytes(data, memory, tasks, state, source, end, count)
    if code == 7:
        return repeat_bytes(data, values, offsets, validity, state, source + 2, end, count)
    if code < 14 or code > 17:
        return refuse(state, UNKNOWN_CODE, source, 0, code)
    header = 16 if code < 16 else 8
    if end - source < header:
        return refuse(state, CUT_SHORT, source, header, end - source)
    if code == 14:
        return begin_bytes_dictionary(data, memory, tasks, state, source, end, count)
    if code == 15:
        packed_size = np.int64(load_u32(data, source + 3))
        nested, width = source + 7, source + 8
        packed: Integer = source + 16 + 9 * np.int64(data[source + 2])
        operation = BYTES_FSST
    else:
        packed_size = np.int64(load_u32(data, source + 2))
        nested, width = source + 7, source + 6
        packed = source + 8
        operation = BYTES_PACKED
    packed_end = packed + packed_size
    if packed_end > end:
        return refuse(state, CUT_SHORT, packed, packed_size, end - packed)
    freed = state[TOP]
    if state[FIXED] >= 0:
        if data[width] != 0:
            return refuse(state, BAD_OFFSET_WIDTH, width, 0, np.int64(data[width]))
        return push(tasks, state, operation, packed, packed_end, count, code, 0, 0, source, 0, freed)
    if data[width] != 8:
        return refuse(state, BAD_OFFSET_WIDTH, width, 8, np.int64(data[width]))
    begin = source + header
    offsets_at = begin + ((packed_end - begin + 7) & ~7)
    if offsets_at > end:
        return refuse(state, CUT_SHORT, packed_end, offsets_at - packed_end, end - packed_end)
    place = reserve(memory, state, 8 * (count + 1))
    if place < 0:
        return WANT_MEMORY
    push(tasks, state, operation, packed, packed_end, count, code, place, 0, source, 0, freed)
    return push_part(data, tasks, state, nested, offsets_at, end, count + 1, UINT64, place)


@kernel
def begin_plain_bytes(
    data: Bytes, memory: Bytes, tasks: Tasks, state: Registers, source: int, end: int, count: int
) -> Integer:
    """Values as they are, behind their offsets."""
    if end - source < 3:
        return refuse(state, CUT_SHORT, source, 3, end - source)
    width = np.int64(data[source + 2])
    freed = state[TOP]
    if state[FIXED] >= 0:
        if width != 0:
            return refuse(state, BAD_OFFSET_WIDTH, source + 2, 0, width)
        return push(tasks, state, BYTES_PLAIN, source + 3, end, count, 0, 0, 0, source, 0, freed)
    if width != 8:
        return refuse(state, BAD_OFFSET_WIDTH, source + 2, 8, width)
    first = source + 3 + 8 * (count + 1)
    if first > end:
        return refuse(state, CUT_SHORT, source + 3, 8 * (count + 1), end - source - 3)
    place = reserve(memory, state, 8 * (count + 1))
    if place < 0:
        return WANT_MEMORY
    push(tasks, state, BYTES_PLAIN, first, end, count, 0, place, 0, source, 0, freed)
    return push(tasks, state, RAW, source + 3, first, count + 1, UINT64, place, 0, 0, 0, freed)


@kernel
def begin_bytes_dictionary(
    data: Bytes, memory: Bytes, tasks: Tasks, state: Registers, source: int, end: int, count: int
) -> Integer:
    """Codes, lengths of entries and entries."""
    codes_end = source + 16 + np.int64(load_u32(data, source + 2))
    lengths_size = np.int64(load_u32(data, source + 6))
    entries = np.int64(load_u32(data, source + 10))
    if entries > count:
        return refuse(state, TOO_MANY, source + 10, count, entries)
    lengths = source + 16 + ((codes_end - source - 16 + 7) & ~7)
    is_fixed = state[FIXED] >= 0
    first = lengths if is_fixed else lengths + lengths_size
    if first > end:
        return refuse(state, CUT_SHORT, source, first - source, end - source)
    freed = state[TOP]
    # codes, lengths, offsets of the entries and their bytes, and room to copy words beyond the last
    place = reserve(memory, state, 4 * count + 4 * entries + 8 * (entries + 2) + end - first + SLACK)
    if place < 0:
        return WANT_MEMORY
    lengths_place = place + 4 * count
    push(tasks, state, BYTES_PICK, first, end, count, 0, place, lengths_place, source, entries, freed)
    if not is_fixed:
        push_part(data, tasks, state, source + 14, lengths, first, entries, UINT32, lengths_place)
    return push(tasks, state, STREAM, source + 16, codes_end, count, UINT32, place, 0, 0, 0, state[TOP])
