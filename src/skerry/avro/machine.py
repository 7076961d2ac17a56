"""The decoding loop: a small machine that runs a compiled schema over the records of a file.

`run_program` knows no schema. It executes a program (see `skerry.avro.program`), a table of instructions of which each
reads one thing from the data, checks it, and counts it or stores it. The same machine runs twice over a file: once
with instructions that only count, which shows exactly how much memory the columns need, and once with instructions that
store into it. Columns are in one block of memory, the arena; slot `i` of it begins at byte `bases[i]`.

An instruction is a row (operation, a, b, c, d, e); what `a` to `e` are is said beside the operations. A *counter* is an
index into `counters`. A *domain* is the counter of rows of a column: records, or items of one array of the schema.

Spec: Avro spec, Binary Encoding.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from skerry.kernels import kernel

# fmt: off
# Instructions that read no integer
# name                       a             b              c         d         e
END: Final = 0
JUMP: Final = 1            # target
NEXT_ITEM: Final = 2       # depth         domain         target of the next item, target of the next block
MARK_END: Final = 3        # offsets slot  domain         counter
LONGS: Final = 4           # number                                                     counted, not stored
BYTES: Final = 5           # number                                                     counted, not stored
COPY: Final = 6            # slot          domain         bytes
BOOLEAN: Final = 7         # slot          domain
FIXED_DECIMAL: Final = 8   # slot          domain         width     bytes
# Instructions that begin with an integer: a value, a branch, a length, a number of items
NULLABLE: Final = 9        # null's branch validity slot  domain    target of null
BRANCHES: Final = 10       # number        (as many JUMPs follow)
BEGIN_ITEMS: Final = 11    # depth         least bytes    counter   target after the items
LONGS_ITEMS: Final = 12    # longs an item counter                                      counted, not stored
BINARY: Final = 13         # counter                                                    counted, not stored
LONG: Final = 14           # slot          domain         least     most
INT: Final = 15            # slot          domain         least     most
COPY_BINARY: Final = 16    # offsets slot  domain         counter   data slot
COPY_STRING: Final = 17    # offsets slot  domain         counter   data slot
DECIMAL: Final = 18        # slot          domain         width
# fmt: on

RECORDS: Final = 0
"""The counter of records."""
UNUSED: Final = 1
"""A counter that is never read."""
EMPTY_ITEMS: Final = 2
"""The counter of items and records without bytes that may still come. Their number is bounded by nothing else."""
FIRST_FREE_COUNTER: Final = 3

NO_SLOT: Final = -1
MOST: Final = (1 << 63) - 1

TRUNCATED: Final = -1
OVERFLOW: Final = -2
VALUE_RANGE: Final = -3
NEGATIVE_LENGTH: Final = -4
BRANCH_RANGE: Final = -5
BOOLEAN_RANGE: Final = -6
ITEM_COUNT: Final = -8
BLOCK_SIZE: Final = -9
TOO_MANY_EMPTY: Final = -10
NOT_UTF8: Final = -11
DECIMAL_RANGE: Final = -12
RECORD_COUNT: Final = -13
TRAILING_BYTES: Final = -14


@kernel
def read_long(data: Any, position: int, end: int) -> tuple[int, int]:
    """Decode a zigzag varint of at most 64 bits; the second result is the position after it, or an error code."""
    value = 0
    shift = 0
    while position < end:
        byte: Any = np.int64(data[position])
        position += 1
        if shift == 63 and byte > 1:
            return 0, OVERFLOW
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return ((value >> 1) & MOST) ^ -(value & 1), position
        shift += 7
    return 0, TRUNCATED


@kernel
def skip_longs(data: Any, position: int, end: int, number: int) -> int:
    """Skip varints; returns the position after them, or an error code."""
    start = position
    while number > 0:
        if position >= end:
            return TRUNCATED
        byte = data[position]
        position += 1
        if byte < 0x80:
            if position - start == 10 and byte > 1:
                return OVERFLOW
            number -= 1
            start = position
        elif position - start >= 10:
            return OVERFLOW
    return position


@kernel
def begin_block(
    data: Any, position: int, end: int, number: int, least_bytes: int, counters: Any
) -> tuple[int, int, int]:
    """Check the number of items that a block of an array or map begins with; if negative, its size follows.

    Returns:
        The number of items; the end of the block if its size is stored, else -1; the position of the first item, or
        an error code.

    Spec: Avro spec, Complex Types, Arrays.
    """
    block_end = -1
    if number < 0:
        size, position = read_long(data, position, end)
        if position < 0:
            return 0, -1, position
        if size < 0:
            return 0, -1, NEGATIVE_LENGTH
        if size > end - position:
            return 0, -1, TRUNCATED
        number = -number if number > -MOST else MOST
        block_end = position + size
    if least_bytes > 0:
        if number < 0 or number > (end - position) // least_bytes:
            return 0, -1, ITEM_COUNT
    else:
        if number < 0 or number > counters[EMPTY_ITEMS]:
            return 0, -1, TOO_MANY_EMPTY
        counters[EMPTY_ITEMS] -= number
    return number, block_end, position


@kernel
def is_utf8(data: Any, position: int, end: int) -> bool:
    """Whether bytes are UTF-8: shortest forms only, no surrogates, nothing above U+10FFFF (RFC 3629)."""
    while position < end:
        lead = data[position]
        position += 1
        if lead < 0x80:
            continue
        if lead < 0xC2 or lead > 0xF4:
            return False
        follow = 1 if lead < 0xE0 else 2 if lead < 0xF0 else 3
        if follow > end - position:
            return False
        second = data[position]
        if (
            (lead == 0xE0 and second < 0xA0)
            or (lead == 0xED and second > 0x9F)
            or (lead == 0xF0 and second < 0x90)
            or (lead == 0xF4 and second > 0x8F)
        ):
            return False
        for i in range(follow):
            if data[position + i] & 0xC0 != 0x80:
                return False
        position += follow
    return True


@kernel
def store_decimal(data: Any, position: int, length: int, target: int, width: int, arena: Any) -> int:
    """Widen a big-endian two's complement number to `width` little-endian bytes; returns the position after it."""
    if length == 0:
        return DECIMAL_RANGE
    sign = 0xFF if data[position] >= 0x80 else 0
    excess = length - width
    for i in range(excess):
        if data[position + i] != sign:
            return DECIMAL_RANGE
    if excess > 0 and (data[position + excess] ^ sign) >= 0x80:
        return DECIMAL_RANGE
    for i in range(min(length, width)):
        arena[target + i] = data[position + length - 1 - i]
    for i in range(length, width):
        arena[target + i] = sign
    return position + length


@kernel
def read_plain(operation: int, code: Any, data: Any, position: int, end: int, row: int, base: int, arena: Any) -> int:
    """Store a value that does not begin with an integer; returns the position after it, or an error code."""
    if operation == COPY:
        length = code[3]
        if length > end - position:
            return TRUNCATED
        target = base + row * length
        for i in range(length):
            arena[target + i] = data[position + i]
        return position + length
    if operation == BOOLEAN:
        if position >= end:
            return TRUNCATED
        if data[position] > 1:
            return BOOLEAN_RANGE
        arena[base + (row >> 3)] |= data[position] << (row & 7)
        return position + 1
    if code[4] > end - position:
        return TRUNCATED
    return store_decimal(data, position, code[4], base + row * code[3], code[3], arena)


@kernel
def read_value(
    code: Any, data: Any, position: int, end: int, counters: Any, bases: Any, arena: Any, arena32: Any, arena64: Any
) -> int:
    """Store a value that is an integer or begins with its length; returns the position after it, or an error code."""
    value, position = read_long(data, position, end)
    if position < 0:
        return position
    operation = code[0]
    row = counters[code[2]]
    if operation <= INT:
        if value < code[3] or value > code[4]:
            return VALUE_RANGE
        if operation == INT:
            arena32[(bases[code[1]] >> 2) + row] = value
        else:
            arena64[(bases[code[1]] >> 3) + row] = value
        return position
    if value < 0:
        return NEGATIVE_LENGTH
    if value > end - position:
        return TRUNCATED
    if operation == DECIMAL:
        return store_decimal(data, position, value, bases[code[1]] + row * code[3], code[3], arena)
    if operation == COPY_STRING and not is_utf8(data, position, position + value):
        return NOT_UTF8
    used = counters[code[3]]
    target = bases[code[4]] + used
    for i in range(value):
        arena[target + i] = data[position + i]
    counters[code[3]] = used + value
    arena32[(bases[code[1]] >> 2) + row + 1] = used + value
    return position + value


@kernel
def run_integer(
    code: Any, pc: int, value: int, data: Any, position: int, end: int,
    counters: Any, bases: Any, arena: Any, stack: Any,
) -> tuple[int, int]:  # fmt: skip
    """Run an instruction whose integer is read and is not a value; returns the next one and the position.

    The position is an error code if the integer is wrong.
    """
    operation = code[0]
    if operation == NULLABLE:
        if value == code[1]:
            pc = code[4]
        elif value < 0 or value > 1:
            return pc, BRANCH_RANGE
        elif code[2] != NO_SLOT:
            row = counters[code[3]]
            arena[bases[code[2]] + (row >> 3)] |= 1 << (row & 7)
    elif operation == BEGIN_ITEMS:
        depth = code[1]
        stack[depth, 0], stack[depth, 1], position = begin_block(data, position, end, value, code[2], counters)
        counters[code[3]] += stack[depth, 0]
        if value == 0:
            pc = code[4]
    elif operation == LONGS_ITEMS:
        items, block_end, position = begin_block(data, position, end, value, code[1], counters)
        if position >= 0 and items > 0:
            counters[code[2]] += items
            position = skip_longs(data, position, end, items * code[1])
            if position >= 0 and block_end >= 0 and position != block_end:
                return pc, BLOCK_SIZE
            pc -= 1
    elif operation == BRANCHES:
        if value < 0 or value >= code[1]:
            return pc, BRANCH_RANGE
        pc += value
    else:
        if value < 0:
            return pc, NEGATIVE_LENGTH
        if value > end - position:
            return pc, TRUNCATED
        counters[code[1]] += value
        position += value
    return pc, position


@kernel
def run_record(  # noqa: PLR0913  a kernel
    data: Any, position: int, end: int, program: Any, counters: Any, bases: Any,
    arena: Any, arena32: Any, arena64: Any, stack: Any, failure: Any,
) -> int:  # fmt: skip
    """Run the program over one record; returns the position after it, or an error code."""
    pc = 0
    while position >= 0:
        code = program[pc]
        operation = code[0]
        failure[0], failure[1] = position, pc
        pc += 1
        if operation >= LONG:
            position = read_value(code, data, position, end, counters, bases, arena, arena32, arena64)
        elif operation >= NULLABLE:
            value, position = read_long(data, position, end)
            if position < 0:
                return position
            pc, position = run_integer(code, pc, value, data, position, end, counters, bases, arena, stack)
        elif operation == MARK_END:
            arena32[(bases[code[1]] >> 2) + counters[code[2]] + 1] = counters[code[3]]
        elif operation == NEXT_ITEM:
            depth = code[1]
            counters[code[2]] += 1
            stack[depth, 0] -= 1
            if stack[depth, 0] > 0:
                pc = code[3]
            elif stack[depth, 1] >= 0 and stack[depth, 1] != position:
                return BLOCK_SIZE
            else:
                pc = code[4]
        elif operation == LONGS:
            position = skip_longs(data, position, end, code[1])
        elif operation == BYTES:
            position = position + code[1] if code[1] <= end - position else TRUNCATED
        elif operation == JUMP:
            pc = code[1]
        elif operation == END:
            return position
        else:
            position = read_plain(operation, code, data, position, end, counters[code[2]], bases[code[1]], arena)
    return position


@kernel(
    "int64(uint8[::1], int64[:, ::1], int64, int64[:, ::1], out int64[::1], int64[::1], "
    "out uint8[::1], out int32[::1], out int64[::1], out int64[:, ::1], out int64[::1])"
)
def run_program(  # noqa: PLR0913  a kernel
    data: Any, blocks: Any, least_bytes: int, program: Any, counters: Any, bases: Any,
    arena: Any, arena32: Any, arena64: Any, stack: Any, failure: Any,
) -> int:  # fmt: skip
    """Run a program over all records of some blocks.

    Args:
        data: uint8[n] Records of all blocks.
        blocks: int64[blocks, 3] Number of records, and start and end of their bytes in `data`, of each block.
        least_bytes: The fewest bytes that a record can take.
        program: int64[instructions, 6] See the top of the module.
        counters: int64[counters] Written; what the program counts is added.
        bases: int64[slots] Byte offset of each slot in the arena.
        arena: uint8[bytes] Written. Zeroed, and large enough for what the program stores: a counting run over the same
            blocks has computed that, and has checked every length and count.
        arena32: int32[bytes / 4] The same memory.
        arena64: int64[bytes / 8] The same memory.
        stack: int64[depth, 2] Written; one row for each array that may be open at a time.
        failure: int64[3] Written if the result is an error: position in `data`, instruction, index of the block.

    Returns:
        0, or an error code.

    Spec: Avro spec, Binary Encoding, Object Container Files.
    """
    for i in range(len(blocks)):
        number, position, end = blocks[i, 0], blocks[i, 1], blocks[i, 2]
        failure[0], failure[1], failure[2] = position, len(program) - 1, i
        if least_bytes > 0:
            if number > (end - position) // least_bytes:
                return RECORD_COUNT
        else:
            if number > counters[EMPTY_ITEMS]:
                return TOO_MANY_EMPTY
            counters[EMPTY_ITEMS] -= number
        for _ in range(number):
            position = run_record(
                data, position, end, program, counters, bases, arena, arena32, arena64, stack, failure
            )  # fmt: skip
            if position < 0:
                return position
            counters[RECORDS] += 1
        if position != end:
            failure[0], failure[1] = position, len(program) - 1
            return TRAILING_BYTES
    return 0
