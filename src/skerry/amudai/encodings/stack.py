"""The stack of the decoder: streams that wait to be decoded, room for what they hold, and what stops the decoder.

A stream may hold streams, and kernels do not recurse. So `blocks/machine.py` takes one stream after the other from a
stack. `decode` of a stream's encoding decodes it at once or, if it holds streams, pushes first the stream itself, to be
finished, and then the streams that it holds, which are decoded before it. Everything that is decoded goes to *memory*:
the numbers of all blocks, then room for what the streams of the block at hand hold. When a step needs what kernels do
not have (a codec, more room), it returns a *request*; Python fulfils it and starts the machine again, which goes on
where it stopped.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from skerry.kernels import kernel, load, load_u16

__all__ = [
    "Machine",
    "Stream",
    "ask_codec",
    "check_header",
    "pop",
    "push",
    "push_part",
    "push_to_finish",
    "refuse",
    "reserve",
]

Bytes: TypeAlias = Any  # uint8[n]
Integer: TypeAlias = Any  # int64
Words: TypeAlias = Any  # int64[n]

# What a step returns: that it is done, that the data is refused, or a request.
DONE: Final = 0
REFUSED: Final = -1
WANT_MEMORY: Final = 1  # WANTED more bytes of memory
WANT_BYTES: Final = 2  # room for WANTED bytes of byte values in all
WANT_ZSTD: Final = 3  # the frame at FROM to TO, decompressed to TARGET: exactly WANTED bytes
WANT_LZ4: Final = 4  # the LZ4 block, in the same way

# Registers: places in `Machine.state`.
DEPTH: Final = 0  # streams on the stack
TOP: Final = 1  # memory is in use up to here
BLOCK: Final = 2  # ordinal of the block at hand
USED: Final = 3  # bytes of byte values so far
WANTED: Final = 4
FROM: Final = 5
TO: Final = 6
TARGET: Final = 7
IN_VALUES: Final = 8  # whether TARGET is in the bytes of values rather than in memory
FAULT: Final = 9
PLACE: Final = 10  # offset of the fault in the data
EXPECTED: Final = 11
FOUND: Final = 12
ROW: Final = 13  # first row of the block at hand
FIXED: Final = 14  # bytes of each byte value, -1 if their offsets say
OFFSET_BYTES: Final = 15  # of an offset that is written, 4 or 8
TAIL: Final = 16  # room in memory for one chunk of bit packing
STARTED: Final = 17  # whether the frame of the block at hand has been read
REGISTERS: Final = 18

# What is to be done with a stream on the stack.
DECODE: Final = 0
COPY: Final = 1  # values as they are, without a code
FINISH: Final = 2  # the streams that it holds are decoded

BYTES: Final = -1
"""The kind of the values section of a binary block, which holds no numbers."""
FIELDS: Final = 7
"""Integers that a stream takes on the stack: those of `Stream`, in order."""
STACK: Final = 48
"""Streams that the stack has room for."""

# Faults.
CUT_SHORT: Final = 1
WRONG_SIZE: Final = 2
UNKNOWN_CODE: Final = 3
CODE_NOT_FOR_TYPE: Final = 4
BAD_WIDTH: Final = 5
TOO_DEEP: Final = 6
TOO_MANY: Final = 7
RUNS_DIFFER: Final = 8
OUT_OF_DICTIONARY: Final = 9
BAD_POSITION: Final = 10
BAD_EXPONENT: Final = 11
BAD_PRESENCE: Final = 12
BAD_OFFSETS: Final = 13
BAD_OFFSET_WIDTH: Final = 14
BAD_SYMBOL: Final = 15
BAD_FLAG: Final = 16


U1 = np.uint8(0)


class Machine(NamedTuple):
    """The arrays that decoding works on.

    Args:
        data: uint8[m], the encoded bytes.
        memory: uint8[m], takes what is decoded.
        tasks: int64[FIELDS * STACK], the stack.
        state: int64[REGISTERS].
    """

    data: Bytes
    memory: Bytes
    tasks: Words
    state: Words


class Stream(NamedTuple):
    """A stream on the stack, and what is to be done with it.

    Args:
        step: DECODE, COPY or FINISH.
        source: Where it begins in the data: at its code, except for COPY.
        end: Where it ends.
        count: How many values it holds.
        kind: Their type, as a place in `DTYPES`, or BYTES.
        target: Where in memory they go.
        scratch: Memory is free from here on; what `decode` reserves begins here, for `finish` to find.
    """

    step: Integer
    source: Integer
    end: Integer
    count: Integer
    kind: Integer
    target: Integer
    scratch: Integer


@kernel
def refuse(machine: Machine, fault: int, place: int, expected: int, found: int) -> int:
    """Note what is wrong with the data, and where."""
    state = machine.state
    state[FAULT] = fault
    state[PLACE] = place
    state[EXPECTED] = expected
    state[FOUND] = found
    return REFUSED


@kernel
def push(machine: Machine, step: int, source: int, end: int, count: int, kind: int, target: int) -> int:
    """Put a stream on the stack, which must have room for it."""
    tasks, state = machine.tasks, machine.state
    at = state[DEPTH] * FIELDS
    tasks[at] = step
    tasks[at + 1] = source
    tasks[at + 2] = end
    tasks[at + 3] = count
    tasks[at + 4] = kind
    tasks[at + 5] = target
    tasks[at + 6] = state[TOP]
    state[DEPTH] += 1
    return DONE


@kernel
def push_part(machine: Machine, flag: int, source: int, end: int, count: int, kind: int, target: int) -> int:
    """Put a part of a stream on the stack: a stream itself or values as they are, as the byte at `flag` says."""
    nested = np.int64(load(U1, machine.data, flag))
    if nested > 1:
        return refuse(machine, BAD_FLAG, flag, 1, nested)
    return push(machine, DECODE if nested else COPY, source, end, count, kind, target)


@kernel
def push_to_finish(machine: Machine, stream: Stream) -> None:
    """Put a stream on the stack whose `finish` is to run once the parts that are pushed after it are decoded."""
    push(machine, FINISH, stream.source, stream.end, stream.count, stream.kind, stream.target)
    machine.tasks[machine.state[DEPTH] * FIELDS - 1] = stream.scratch


@kernel
def pop(machine: Machine) -> Stream:
    """Take the uppermost stream from the stack."""
    tasks, state = machine.tasks, machine.state
    state[DEPTH] -= 1
    at = state[DEPTH] * FIELDS
    return Stream(tasks[at], tasks[at + 1], tasks[at + 2], tasks[at + 3], tasks[at + 4], tasks[at + 5], tasks[at + 6])


@kernel
def reserve(machine: Machine, size: int) -> bool:
    """Take memory from `Stream.scratch` of the stream at hand on; if there is too little, ask for more."""
    state = machine.state
    if size > len(machine.memory) - state[TOP]:
        state[WANTED] = size
        return False
    state[TOP] += size
    return True


@kernel
def check_header(machine: Machine, stream: Stream, is_for_type: bool, size: int) -> int:
    """Refuse an encoding that does not go with the type of the values, or a header that is cut short.

    Args:
        machine: The machine.
        stream: The stream; its code is there.
        is_for_type: Whether the encoding goes with the type.
        size: Bytes of code and header.

    Returns:
        DONE or REFUSED.
    """
    if not is_for_type:
        code = np.int64(load_u16(machine.data, stream.source))
        return refuse(machine, CODE_NOT_FOR_TYPE, stream.source, stream.kind, code)
    if stream.end - stream.source < size:
        return refuse(machine, CUT_SHORT, stream.source, size, stream.end - stream.source)
    return DONE


@kernel
def ask_codec(machine: Machine, request: int, start: int, end: int, target: int, size: int, is_in_values: int) -> int:
    """Have `size` bytes decompressed from `start` to `end` of the data; no request if that is nothing."""
    state = machine.state
    state[FROM] = start
    state[TO] = end
    state[TARGET] = target
    state[WANTED] = size
    state[IN_VALUES] = is_in_values
    return DONE if size == 0 else request
