"""Bit packing: unsigned integers in as few bits as the largest needs, in FastLanes order.

    0  u16  code 2
    2  u8   bits of a value: the width
    8  chunks of 1,024 values, 128 * width bytes each; the last is filled up

The order lets a processor unpack many lanes at once. A chunk of values of b bits has 1024 / b lanes of b rows. Row r
of a lane takes the bits from r * width on of that lane's own string of bits; words w of all lanes are side by side.
Rows are those of eight interleaved groups, so that the order is the same for all b.

Spec: docs/formats/amudai-encodings.md § 4.1, § 4.3.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from skerry.amudai.encodings.codes import FLOAT32, UNSIGNED, Encoding
from skerry.amudai.encodings.numbers import U1, U2, U4, U8, Values, load_any, move, value_bytes
from skerry.amudai.encodings.plans import FRAMED, Encoder, Plan, make_stream
from skerry.amudai.encodings.stack import (
    BAD_WIDTH,
    DONE,
    TAIL,
    WRONG_SIZE,
    Bytes,
    Integer,
    Machine,
    Stream,
    check_header,
    refuse,
)
from skerry.kernels import kernel, load, store

__all__ = ["CHUNK", "CODE", "decode", "encode", "pack_any", "packed_stream", "packed_value", "unpack"]

CODE: Final = Encoding.BIT_PACKING
HEADER: Final = 8
CHUNK = 1024
ROW_BYTES = 128  # of packed words: one word of each lane
GROUPS = np.array((0, 4, 2, 6, 1, 5, 3, 7))  # an array: looking up a tuple may raise
ONES = np.uint64((1 << 64) - 1)
S64 = np.uint64(64)


def encode(values: Values, plan: Plan, encoder: Encoder) -> bytes:
    """Encode unsigned integers; others as distances from the least; see `encodings`."""
    if values.dtype.kind != "u":
        return encoder.stream(values, FRAMED)
    width = int(values.max()).bit_length()
    if width == 0:
        return encoder.stream(values, Plan(Encoding.SINGLE_VALUE))
    return packed_stream(values, width, encoder)


def packed_stream(values: Values, width: int, encoder: Encoder) -> bytes:
    """A stream of unsigned integers of `width` bits, at least 1."""
    return make_stream(CODE, HEADER, bytes((width,)), encoder.pack(values, width))


@kernel
def decode(machine: Machine, stream: Stream) -> Integer:
    """Decode a stream; see `encodings`."""
    status = check_header(machine, stream, stream.kind >= UNSIGNED and stream.kind < FLOAT32, HEADER)
    if status != DONE:
        return status
    return unpack(machine, stream, HEADER, np.int64(load(U1, machine.data, stream.source + 2)), U8)


# Packing chunks -----------------------------------------------------------------------------------------------------


@kernel
def pack_any(values: Bytes, source: int, width: int, packed: Bytes, target: int, reference: Any, size: int) -> None:
    """Pack a chunk of values of some bytes; see `pack_chunk`."""
    if size == 8:
        pack_chunk(U8, values, source, width, packed, target, reference, 8)
    elif size == 4:
        pack_chunk(U4, values, source, width, packed, target, reference, 4)
    elif size == 2:
        pack_chunk(U2, values, source, width, packed, target, reference, 2)
    else:
        pack_chunk(U1, values, source, width, packed, target, reference, 1)


@kernel
def pack_chunk(
    unit: Any, values: Bytes, source: int, width: int, memory: Bytes, target: int, reference: Any, size: int
) -> None:
    """Subtract a reference from a chunk of values and pack what remains.

    Args:
        unit: Any number of the unsigned type.
        values: Holds the 1,024 values, from `source` on.
        source: See `values`.
        width: Bits of a packed value, at least 1.
        memory: Takes the packed words, from `target` on, 128 · `width` bytes; they must be zero.
        target: See `memory`.
        reference: What is subtracted from each value, uint64.
        size: Bytes of a value.
    """
    bits = 8 * size
    lanes = ROW_BYTES // size
    mask = ONES >> (S64 - np.uint64(width))
    for row in range(bits):
        word = row * width // bits
        shift = row * width - word * bits
        left = np.uint64(shift)
        right = np.uint64(bits - shift)
        start = target + word * ROW_BYTES
        place = source + (GROUPS[row >> 3] * 16 + (row & 7) * 128) * size
        if shift + width <= bits:
            for lane in range(lanes):
                value = (load(unit, values, place + lane * size) - reference) & mask
                packed = load(unit, memory, start + lane * size)
                store(unit, memory, start + lane * size, packed | value << left)
        else:
            for lane in range(lanes):
                value = (load(unit, values, place + lane * size) - reference) & mask
                packed = load(unit, memory, start + lane * size)
                store(unit, memory, start + lane * size, packed | value << left)
                store(unit, memory, start + ROW_BYTES + lane * size, value >> right)


# Unpacking chunks ---------------------------------------------------------------------------------------------------


@kernel
def unpack(machine: Machine, stream: Stream, header: int, width: int, reference: Any) -> Integer:
    """Unpack the values after a header of some bytes, and add a reference to each."""
    size, count = value_bytes(stream.kind), stream.count
    source = stream.source + header
    if width < 1 or width > 8 * size:
        return refuse(machine, BAD_WIDTH, source, 8 * size, width)
    needed = (count + CHUNK - 1) // CHUNK * ROW_BYTES * width
    if stream.end - source != needed:
        return refuse(machine, WRONG_SIZE, source, needed, stream.end - source)
    data, memory = machine.data, machine.memory
    for first in range(0, count, CHUNK):
        target = stream.target + first * size
        is_whole = count - first >= CHUNK
        into = target if is_whole else machine.state[TAIL]
        if size == 8:
            unpack_chunk(U8, data, source, width, memory, into, reference, 8)
        elif size == 4:
            unpack_chunk(U4, data, source, width, memory, into, reference, 4)
        elif size == 2:
            unpack_chunk(U2, data, source, width, memory, into, reference, 2)
        else:
            unpack_chunk(U1, data, source, width, memory, into, reference, 1)
        source += ROW_BYTES * width
    rest = count % CHUNK
    if rest > 0:
        move(memory, machine.state[TAIL], memory, stream.target + (count - rest) * size, rest * size)
    return DONE


@kernel
def unpack_chunk(
    unit: Any, data: Bytes, source: int, width: int, memory: Bytes, target: int, reference: Any, size: int
) -> None:
    """Unpack a chunk of values and add a reference to each.

    Args:
        unit: Any number of the unsigned type.
        data: Holds the packed words, from `source` on, 128 · `width` bytes.
        source: See `data`.
        width: Bits of a packed value, at least 1.
        memory: Takes the 1,024 values, from `target` on.
        target: See `memory`.
        reference: What is added to each value, uint64.
        size: Bytes of a value.
    """
    bits = 8 * size
    lanes = ROW_BYTES // size
    mask = ONES >> (S64 - np.uint64(width))
    for row in range(bits):
        word = row * width // bits
        shift = row * width - word * bits
        right = np.uint64(shift)
        left = np.uint64(bits - shift)
        start = source + word * ROW_BYTES
        place = target + (GROUPS[row >> 3] * 16 + (row & 7) * 128) * size
        if shift + width <= bits:
            for lane in range(lanes):
                value = load(unit, data, start + lane * size) >> right
                store(unit, memory, place + lane * size, (value & mask) + reference)
        else:
            for lane in range(lanes):
                value = load(unit, data, start + lane * size) >> right
                value |= load(unit, data, start + ROW_BYTES + lane * size) << left
                store(unit, memory, place + lane * size, (value & mask) + reference)


@kernel
def packed_value(data: Bytes, source: int, width: int, place: int, size: int) -> Any:
    """One value, uint64, of those packed from `source` on, by its place among them."""
    bits = 8 * size
    lanes = ROW_BYTES // size
    within = place & (CHUNK - 1)
    rest = within & (ROW_BYTES - 1)
    # GROUPS is its own inverse: it says which group of rows is at a place, too
    row = 8 * GROUPS[(rest // lanes) * (lanes // 16)] + (within >> 7)
    word = row * width // bits
    shift = row * width - word * bits
    at = source + (place >> 10) * ROW_BYTES * width + (word * lanes + (rest & (lanes - 1))) * size
    value = load_any(data, at, size) >> np.uint64(shift)
    if shift + width > bits:
        value |= load_any(data, at + ROW_BYTES, size) << np.uint64(bits - shift)
    return value & (ONES >> (S64 - np.uint64(width)))
