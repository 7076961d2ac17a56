"""The loop of the machine that decodes blocks (kernels).

Spec: docs/formats/amudai-encodings.md § 3, § 4, § 5.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skerry.amudai.encodings.byte_parts import copy_packed, copy_plain, decode_fsst, pick_bytes
from skerry.amudai.encodings.byte_streams import begin_bytes
from skerry.amudai.encodings.machine import (
    ADD,
    BAD_PRESENCE,
    BLOCK,
    BYTES_BLOCK,
    BYTES_FSST,
    BYTES_PICK,
    BYTES_PLAIN,
    COUNT,
    CUT_SHORT,
    DEPTH,
    DONE,
    END,
    FAULT,
    FIELDS,
    FREED,
    FROM_DECIMAL,
    FROM_HALVES,
    KIND,
    OP,
    PICK,
    PLACE_OF,
    RAW,
    REFUSED,
    ROW,
    RUNS,
    SCATTER,
    SOURCE,
    STACK,
    STARTED,
    STREAM,
    SUM,
    TOO_DEEP,
    TOP,
    UN_ZIG_ZAG,
    WANT_BYTES,
    WANT_MEMORY,
    WIDEN,
    WRONG_SIZE,
    A,
    B,
    Bytes,
    C,
    Integer,
    Registers,
    Tasks,
    push,
    refuse,
)
from skerry.amudai.encodings.parts import (
    KIND_BYTES,
    add_reference,
    copy_raw,
    from_decimal,
    from_halves,
    pick,
    repeat_runs,
    scatter,
    sum_up,
    un_zig_zag,
    widen,
)
from skerry.amudai.encodings.presence import decode_presence
from skerry.amudai.encodings.streams import begin_stream
from skerry.kernels import kernel, load_u32

__all__ = ["run_blocks"]

Offsets = Any  # int64[n]


@kernel(
    "int64(uint8[::1], int64[::1], int64[::1], int64[::1], int64, int64, out uint8[::1], out uint8[::1], "
    "out uint8[::1], out uint8[::1], out int64[::1], out int64[::1])"
)
def run_blocks(
    data: Bytes,
    starts: Offsets,
    ends: Offsets,
    rows: Offsets,
    kind: int,
    has_presence: int,
    memory: Bytes,
    values: Bytes,
    offsets: Bytes,
    validity: Bytes,
    tasks: Tasks,
    state: Registers,
) -> Integer:
    """Decode blocks until all are done, or the machine stops.

    Args:
        data: The encoded bytes.
        starts: int64[k], where each block begins in `data`.
        ends: int64[k], where each ends, its checksum left out.
        rows: int64[k + 1], the first row of each block, then the number of rows.
        kind: Type of the numbers; -1 for binary blocks.
        has_presence: Whether blocks may have a presence section.
        memory: Takes the numbers of all blocks, then parts of the block at hand.
        values: Takes the bytes of binary values.
        offsets: Takes where each of them ends.
        validity: Bitmap of the rows, all set; empty if blocks may have no presence section.
        tasks: The stack.
        state: The registers.

    Returns:
        0 when done, -1 if the data is refused, otherwise a request.
    """
    while state[BLOCK] < len(starts):
        block = state[BLOCK]
        if state[STARTED] == 0:
            status = begin_block(
                data,
                validity,
                tasks,
                state,
                starts[block],
                ends[block],
                rows[block],
                rows[block + 1],
                kind,
                has_presence,
            )
            if status != DONE:
                return status
            state[STARTED] = 1
        while state[DEPTH] > 0:
            if state[DEPTH] + 3 > STACK:
                return refuse(state, TOO_DEEP, starts[block], STACK, state[DEPTH])
            state[DEPTH] -= 1
            at = state[DEPTH] * FIELDS
            freed = tasks[at + FREED]
            operation = tasks[at + OP]
            if operation <= SCATTER:
                status = run_numbers(data, memory, tasks, state, at)
            else:
                status = run_bytes(data, memory, values, offsets, validity, tasks, state, at)
            if state[FAULT] != 0:
                return np.int64(REFUSED)
            if WANT_MEMORY <= status <= WANT_BYTES:
                state[DEPTH] += 1  # nothing was pushed: the task is still there, and is done again
                return status
            if operation > RAW and operation != BYTES_BLOCK:
                state[TOP] = freed
            if status != DONE:
                return status
        state[STARTED] = 0
        state[BLOCK] += 1
    return np.int64(DONE)


@kernel
def begin_block(
    data: Bytes,
    validity: Bytes,
    tasks: Tasks,
    state: Registers,
    start: int,
    end: int,
    row: int,
    next_row: int,
    kind: int,
    has_presence: int,
) -> Integer:
    """Read a block's frame and presence; put its values on the stack.

    Spec: docs/formats/amudai-encodings.md § 3.
    """
    if end - start < 8:
        return refuse(state, CUT_SHORT, start, 8, end - start)
    presence_size = np.int64(load_u32(data, start))
    values_size = np.int64(load_u32(data, start + 4))
    first = start + 8 + ((presence_size + 7) & ~7)
    last = first + values_size
    if last > end or end - last >= 8:
        return refuse(state, WRONG_SIZE, start, last - start, end - start)
    state[ROW] = row
    count = next_row - row
    if presence_size > 0:
        if has_presence == 0:
            return refuse(state, BAD_PRESENCE, start, 0, presence_size)
        status = decode_presence(data, validity, state, start + 8, start + 8 + presence_size, row, count)
        if status != DONE:
            return status
    top = state[TOP]
    if kind < 0:
        return push(tasks, state, BYTES_BLOCK, first, last, count, 0, 0, 0, 0, 0, top)
    return push(tasks, state, STREAM, first, last, count, kind, row * KIND_BYTES[kind], 0, 0, 0, top)


@kernel
def run_numbers(data: Bytes, memory: Bytes, tasks: Tasks, state: Registers, at: int) -> Integer:
    """Do a task of a numeric stream."""
    operation = tasks[at + OP]
    source, end, count = tasks[at + SOURCE], tasks[at + END], tasks[at + COUNT]
    kind, place, a, b = tasks[at + KIND], tasks[at + PLACE_OF], tasks[at + A], tasks[at + B]
    size = np.int64(KIND_BYTES[kind])
    if operation == STREAM:
        return begin_stream(data, memory, tasks, state, source, end, count, kind, place)
    if operation == RAW:
        return copy_raw(data, memory, state, source, end, count, size, place)
    if operation == FROM_DECIMAL:
        return from_decimal(data, memory, state, place, count, a, b, source, end, size)
    if operation == WIDEN:
        return widen(memory, place, count, a, size, np.int64(KIND_BYTES[b]))
    return put_together(data, memory, tasks, state, at, size)


@kernel
def put_together(data: Bytes, memory: Bytes, tasks: Tasks, state: Registers, at: int, size: int) -> Integer:
    """Put the parts of a stream together whose values have some bytes."""
    operation = tasks[at + OP]
    source, end, count = tasks[at + SOURCE], tasks[at + END], tasks[at + COUNT]
    place, a, b, c = tasks[at + PLACE_OF], tasks[at + A], tasks[at + B], tasks[at + C]
    if operation == ADD:
        return add_reference(memory, place, count, a, size)
    if operation == SUM:
        return sum_up(memory, place, count, a, size)
    if operation == RUNS:
        return repeat_runs(memory, state, place, count, a, b, c, source, size)
    if operation == UN_ZIG_ZAG:
        return un_zig_zag(memory, place, count, size)
    if operation == FROM_HALVES:
        return from_halves(data, memory, state, place, count, a, b, source, end, c, size)
    if operation == PICK:
        return pick(memory, state, place, count, a, b, size, end, source)
    return scatter(memory, state, place, count, a, b, c, size, source)


@kernel
def run_bytes(
    data: Bytes, memory: Bytes, values: Bytes, offsets: Bytes, validity: Bytes, tasks: Tasks, state: Registers, at: int
) -> Integer:
    """Do a task of a binary block."""
    operation = tasks[at + OP]
    source, end, count = tasks[at + SOURCE], tasks[at + END], tasks[at + COUNT]
    code, place, a, b, c = tasks[at + KIND], tasks[at + PLACE_OF], tasks[at + A], tasks[at + B], tasks[at + C]
    if operation == BYTES_BLOCK:
        return begin_bytes(data, memory, values, offsets, validity, tasks, state, source, end, count)
    if operation == BYTES_PLAIN:
        return copy_plain(data, memory, values, offsets, state, source, end, count, place, b)
    if operation == BYTES_PICK:
        return pick_bytes(data, memory, values, offsets, state, source, end, count, place, a, b, c)
    if operation == BYTES_FSST:
        return decode_fsst(data, memory, values, offsets, state, source, end, count, place, b)
    return copy_packed(memory, values, offsets, data, state, source, end, count, place, b, code)
