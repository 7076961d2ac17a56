"""The machine that decodes blocks: a loop over nested streams that calls `decode` and `finish` of each encoding.

All of it is one kernel, `run_blocks`; `encodings/stack.py` says what it works on.

Spec: docs/formats/amudai-encodings.md § 3, § 4, § 5.
"""

from __future__ import annotations

import numpy as np

from skerry.amudai.blocks.presence import decode_presence
from skerry.amudai.encodings import (
    alp,
    alp_rd,
    bit_packing,
    block_dictionary,
    delta,
    frame_of_reference,
    fsst,
    fused_frame_of_reference,
    lz4,
    plain,
    run_length,
    single_value,
    sparse,
    truncate,
    zig_zag,
    zstd,
)
from skerry.amudai.encodings.byte_values import Output
from skerry.amudai.encodings.codes import Encoding
from skerry.amudai.encodings.numbers import value_bytes
from skerry.amudai.encodings.stack import (
    BAD_PRESENCE,
    BLOCK,
    BYTES,
    COPY,
    CUT_SHORT,
    DECODE,
    DEPTH,
    DONE,
    FAULT,
    FINISH,
    REFUSED,
    ROW,
    STACK,
    STARTED,
    TOO_DEEP,
    TOP,
    UNKNOWN_CODE,
    WANT_BYTES,
    WANT_MEMORY,
    WRONG_SIZE,
    Bytes,
    Integer,
    Machine,
    Stream,
    Words,
    pop,
    push,
    refuse,
)
from skerry.kernels import kernel, load_u16, load_u32

__all__ = ["run_blocks"]


@kernel(
    "int64(uint8[::1], int64[::1], int64[::1], int64[::1], int64, int64, out uint8[::1], out uint8[::1], "
    "out uint8[::1], out uint8[::1], out int64[::1], out int64[::1])"
)
def run_blocks(  # noqa: PLR0913  a kernel
    data: Bytes,
    starts: Words,
    ends: Words,
    rows: Words,
    kind: int,
    has_presence: int,
    memory: Bytes,
    values: Bytes,
    offsets: Bytes,
    validity: Bytes,
    tasks: Words,
    state: Words,
) -> Integer:
    """Decode blocks until all are done, or something is wrong or wanted.

    Args:
        data: The encoded bytes.
        starts: int64[k], where each block begins in `data`.
        ends: int64[k], where each ends, its checksum left out.
        rows: int64[k + 1], the first row of each block, then the number of rows.
        kind: Type of the numbers; BYTES for binary blocks.
        has_presence: Whether blocks may have a presence section.
        memory: Takes the numbers of all blocks, then parts of the block at hand.
        values: Takes the bytes of binary values.
        offsets: Takes where each of them ends.
        validity: Bitmap of the rows, all set; empty if blocks may have no presence section.
        tasks: The stack.
        state: The registers.

    Returns:
        DONE, REFUSED or a request.
    """
    machine = Machine(data, memory, tasks, state)
    output = Output(values, offsets, validity)
    while state[BLOCK] < len(starts):
        block = state[BLOCK]
        if state[STARTED] == 0:
            state[ROW] = rows[block]
            count = rows[block + 1] - rows[block]
            status = begin_block(machine, validity, starts[block], ends[block], count, kind, has_presence)
            if status != DONE:
                return status
            state[STARTED] = 1
        while state[DEPTH] > 0:
            if state[DEPTH] + 3 > STACK:
                return refuse(machine, TOO_DEEP, starts[block], STACK, state[DEPTH])
            stream = pop(machine)
            if stream.kind == BYTES:
                status = run_bytes(machine, output, stream)
            else:
                status = run_numbers(machine, stream)
            if state[FAULT] != 0:
                return np.int64(REFUSED)
            if WANT_MEMORY <= status <= WANT_BYTES:
                state[DEPTH] += 1  # nothing was pushed: the stream is still there, and its turn comes again
                return status
            if stream.step == FINISH:
                state[TOP] = stream.scratch
            if status != DONE:
                return status
        state[STARTED] = 0
        state[BLOCK] += 1
    return np.int64(DONE)


@kernel
def begin_block(
    machine: Machine, validity: Bytes, start: int, end: int, count: int, kind: int, has_presence: int
) -> Integer:
    """Read the frame and the presence of a block; put its values on the stack.

    Spec: docs/formats/amudai-encodings.md § 3.
    """
    if end - start < 8:
        return refuse(machine, CUT_SHORT, start, 8, end - start)
    presence_size = np.int64(load_u32(machine.data, start))
    values_size = np.int64(load_u32(machine.data, start + 4))
    first = start + 8 + ((presence_size + 7) & ~7)
    last = first + values_size
    if last > end or end - last >= 8:
        return refuse(machine, WRONG_SIZE, start, last - start, end - start)
    row = machine.state[ROW]
    if presence_size > 0:
        if has_presence == 0:
            return refuse(machine, BAD_PRESENCE, start, 0, presence_size)
        status = decode_presence(machine, validity, start + 8, start + 8 + presence_size, row, count)
        if status != DONE:
            return status
    target = np.int64(0) if kind == BYTES else row * value_bytes(kind)
    return push(machine, DECODE, first, last, count, kind, target)


@kernel
def run_numbers(machine: Machine, stream: Stream) -> Integer:
    """Do with a stream of numbers what is to be done."""
    if stream.step == DECODE:
        return decode_numbers(machine, stream)
    if stream.step == COPY:
        return plain.copy(machine, stream, stream.source)
    return finish_numbers(machine, stream)


@kernel
def decode_numbers(machine: Machine, stream: Stream) -> Integer:  # noqa: C901  a case per encoding
    """Decode a stream of numbers, or have its parts decoded.

    Spec: docs/formats/amudai-encodings.md § 4.
    """
    if stream.end - stream.source < 2:
        return refuse(machine, CUT_SHORT, stream.source, 2, stream.end - stream.source)
    code = np.int64(load_u16(machine.data, stream.source))
    if code == Encoding.PLAIN:
        return plain.decode(machine, stream)
    if code == Encoding.BIT_PACKING:
        return bit_packing.decode(machine, stream)
    if code == Encoding.FRAME_OF_REFERENCE:
        return frame_of_reference.decode(machine, stream)
    if code == Encoding.FUSED_FRAME_OF_REFERENCE:
        return fused_frame_of_reference.decode(machine, stream)
    if code == Encoding.DELTA:
        return delta.decode(machine, stream)
    if code == Encoding.RUN_LENGTH:
        return run_length.decode(machine, stream)
    if code == Encoding.SINGLE_VALUE:
        return single_value.decode(machine, stream)
    if Encoding.TRUNCATE_8 <= code <= Encoding.TRUNCATE_64:
        return truncate.decode(machine, stream)
    if code == Encoding.ALP:
        return alp.decode(machine, stream)
    if code == Encoding.ALP_RD:
        return alp_rd.decode(machine, stream)
    if code == Encoding.BLOCK_DICTIONARY:
        return block_dictionary.decode(machine, stream)
    if code == Encoding.ZSTD:
        return zstd.decode(machine, stream)
    if code == Encoding.LZ4:
        return lz4.decode(machine, stream)
    if code == Encoding.ZIG_ZAG:
        return zig_zag.decode(machine, stream)
    if code == Encoding.SPARSE:
        return sparse.decode(machine, stream)
    return refuse(machine, UNKNOWN_CODE, stream.source, 0, code)


@kernel
def finish_numbers(machine: Machine, stream: Stream) -> Integer:
    """Put the decoded parts of a stream of numbers together."""
    code = np.int64(load_u16(machine.data, stream.source))
    if code == Encoding.FRAME_OF_REFERENCE:
        return frame_of_reference.finish(machine, stream)
    if code == Encoding.DELTA:
        return delta.finish(machine, stream)
    if code == Encoding.RUN_LENGTH:
        return run_length.finish(machine, stream)
    if Encoding.TRUNCATE_8 <= code <= Encoding.TRUNCATE_64:
        return truncate.finish(machine, stream)
    if code == Encoding.ALP:
        return alp.finish(machine, stream)
    if code == Encoding.ALP_RD:
        return alp_rd.finish(machine, stream)
    if code == Encoding.BLOCK_DICTIONARY:
        return block_dictionary.finish(machine, stream)
    if code == Encoding.ZIG_ZAG:
        return zig_zag.finish(machine, stream)
    return sparse.finish(machine, stream)


@kernel
def run_bytes(machine: Machine, output: Output, stream: Stream) -> Integer:
    """Decode the values section of a binary block, or have its parts decoded, or put them together.

    Spec: docs/formats/amudai-encodings.md § 5.
    """
    if stream.step == FINISH:
        return finish_bytes(machine, output, stream)
    if stream.end - stream.source < 2:
        return refuse(machine, CUT_SHORT, stream.source, 2, stream.end - stream.source)
    code = np.int64(load_u16(machine.data, stream.source))
    if code == Encoding.PLAIN:
        return plain.decode_bytes(machine, stream)
    if code == Encoding.SINGLE_VALUE:
        return single_value.decode_bytes(machine, output, stream)
    if code == Encoding.BLOCK_DICTIONARY:
        return block_dictionary.decode_bytes(machine, stream)
    if code == Encoding.FSST:
        return fsst.decode_bytes(machine, stream)
    if code == Encoding.ZSTD:
        return zstd.decode_bytes(machine, stream)
    if code == Encoding.LZ4:
        return lz4.decode_bytes(machine, stream)
    return refuse(machine, UNKNOWN_CODE, stream.source, 0, code)


@kernel
def finish_bytes(machine: Machine, output: Output, stream: Stream) -> Integer:
    """Put the decoded parts of a binary block's values together."""
    code = np.int64(load_u16(machine.data, stream.source))
    if code == Encoding.PLAIN:
        return plain.finish_bytes(machine, output, stream)
    if code == Encoding.BLOCK_DICTIONARY:
        return block_dictionary.finish_bytes(machine, output, stream)
    if code == Encoding.FSST:
        return fsst.finish_bytes(machine, output, stream)
    if code == Encoding.ZSTD:
        return zstd.finish_bytes(machine, output, stream)
    return lz4.finish_bytes(machine, output, stream)
