"""The machine that decodes blocks: a stack of tasks, and registers through which it talks to Python.

A stream may hold streams. Kernels do not recurse, so what is still to do lies on a stack: reading a stream's header
pushes first the task that puts its parts together and then one task per part, which run before it. Everything that is
decoded goes to places in one *memory*: the values of all blocks, then room for the parts of the block at hand. When a
step needs what kernels have not (a codec, more room), the machine stops with a *request*; Python meets it and starts
the machine again, which goes on where it stopped.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from skerry.kernels import kernel

__all__ = ["push", "refuse", "reserve"]

Bytes: TypeAlias = Any  # uint8[n]
Integer: TypeAlias = Any  # int64
Registers: TypeAlias = Any  # int64[REGISTERS]
Tasks: TypeAlias = Any  # int64[FIELDS * STACK]

# Answers of the machine: done, refused, or a request.
DONE: Final = 0
REFUSED: Final = -1
WANT_MEMORY: Final = 1  # WANTED bytes of room behind TOP
WANT_BYTES: Final = 2  # room for WANTED bytes of values in all
WANT_ZSTD: Final = 3  # the frame at FROM..TO, to TARGET in memory (or in the bytes), exactly WANTED bytes
WANT_LZ4: Final = 4

# Registers.
DEPTH: Final = 0  # tasks on the stack
TOP: Final = 1  # memory is taken up to here
BLOCK: Final = 2  # the block at hand
USED: Final = 3  # bytes of values so far
WANTED: Final = 4
FROM: Final = 5
TO: Final = 6
TARGET: Final = 7
IN_BYTES: Final = 8  # whether TARGET lies in the bytes of values rather than in memory
FAULT: Final = 9
PLACE: Final = 10  # where in the data the fault lies
EXPECTED: Final = 11
FOUND: Final = 12
ROW: Final = 13  # the first row of the block at hand
FIXED: Final = 14  # bytes of each value, -1 if offsets tell
OFFSET_BYTES: Final = 15  # of an offset that is written, 4 or 8
TAIL: Final = 16  # room in memory for one chunk of bit packing
STARTED: Final = 17  # whether the block at hand has been read in
REGISTERS: Final = 18

# Fields of a task.
OP: Final = 0
SOURCE: Final = 1
END: Final = 2
COUNT: Final = 3
KIND: Final = 4  # place of the type in DTYPES
PLACE_OF: Final = 5  # where in memory the result goes
A: Final = 6
B: Final = 7
C: Final = 8
FREED: Final = 9  # TOP once the task is done
FIELDS: Final = 10
STACK: Final = 48

# Tasks.
STREAM: Final = 0
RAW: Final = 1
ADD: Final = 2
SUM: Final = 3
RUNS: Final = 4
WIDEN: Final = 5
UN_ZIG_ZAG: Final = 6
FROM_DECIMAL: Final = 7
FROM_HALVES: Final = 8
PICK: Final = 9
SCATTER: Final = 10
BYTES_PLAIN: Final = 11
BYTES_PICK: Final = 12
BYTES_FSST: Final = 13
BYTES_PACKED: Final = 14
BYTES_BLOCK: Final = 15

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
BAD_FRAME: Final = 16
BAD_FLAG: Final = 17


@kernel
def refuse(state: Registers, fault: int, place: int, expected: int, found: int) -> int:
    """Note what is wrong with the data, and where."""
    state[FAULT] = fault
    state[PLACE] = place
    state[EXPECTED] = expected
    state[FOUND] = found
    return REFUSED


@kernel
def push(
    tasks: Tasks,
    state: Registers,
    operation: int,
    source: int,
    end: int,
    count: int,
    kind: int,
    place: int,
    a: int,
    b: int,
    c: int,
    freed: int,
) -> int:
    """Put a task on the stack, which must have room for it."""
    at = state[DEPTH] * FIELDS
    tasks[at + OP] = operation
    tasks[at + SOURCE] = source
    tasks[at + END] = end
    tasks[at + COUNT] = count
    tasks[at + KIND] = kind
    tasks[at + PLACE_OF] = place
    tasks[at + A] = a
    tasks[at + B] = b
    tasks[at + C] = c
    tasks[at + FREED] = freed
    state[DEPTH] += 1
    return DONE


@kernel
def reserve(memory: Bytes, state: Registers, size: int) -> int:
    """Take so many bytes of memory; -1, and a wish for more, if there are not so many."""
    place = state[TOP]
    if size > len(memory) - place:
        state[WANTED] = size
        return -1
    state[TOP] = place + size
    return place
