"""Strings of bytes, and what their encodings share: offsets on both sides, and room for what is decoded.

Where the offsets do not say where values begin, all values have one size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from skerry.amudai.encodings.codes import UINT64, Encoding
from skerry.amudai.encodings.plans import FRAMED, Encoder, Plan
from skerry.amudai.encodings.stack import (
    BAD_OFFSET_WIDTH,
    BAD_OFFSETS,
    CUT_SHORT,
    DONE,
    FIXED,
    OFFSET_BYTES,
    ROW,
    TOO_MANY,
    USED,
    WANT_BYTES,
    WANT_MEMORY,
    WANTED,
    WRONG_SIZE,
    Bytes,
    Integer,
    Machine,
    Stream,
    ask_codec,
    push_part,
    push_to_finish,
    refuse,
    reserve,
)
from skerry.kernels import kernel, load, load_u64, store

__all__ = [
    "SLACK",
    "ByteEncoder",
    "Output",
    "Strings",
    "copy_short",
    "decode_with_offsets",
    "decompress_bytes",
    "encode_offsets",
    "make_room",
    "take_room",
    "write_offset",
]

SLACK = 16
"""Bytes after the values that may be overwritten: values are copied some words at a time."""
U1, U4, U8 = np.uint8(0), np.uint32(0), np.uint64(0)
_OFFSETS: Final = Plan(Encoding.DELTA, (FRAMED,))
"""How offsets are stored if a plan does not say."""


@dataclass(frozen=True, slots=True)
class Strings:
    """The values of one block.

    Args:
        offsets: int64[n + 1], from 0 to m, also where all values have one size.
        data: uint8[m]; a null has no bytes, or any if all values have one size.
        valid: bool[n], None if no value is null.
        fixed_size: Bytes of each value, None if they differ.
    """

    offsets: npt.NDArray[np.int64]
    data: npt.NDArray[np.uint8]
    valid: npt.NDArray[np.bool_] | None
    fixed_size: int | None

    @property
    def count(self) -> int:
        """How many values there are."""
        return len(self.offsets) - 1


class ByteEncoder(Encoder, Protocol):
    """What an encoding needs to write strings of bytes."""

    def byte_section(self, strings: Strings, plan: Plan) -> bytes:
        """Encode strings of bytes as a values section."""


class Output(NamedTuple):
    """Where decoded strings go.

    Args:
        values: uint8[m], takes their bytes.
        offsets: uint8[m], takes offsets of 4 or 8 bytes: where each ends.
        validity: Bitmap of the rows that are not null; empty if none is.
    """

    values: Bytes
    offsets: Bytes
    validity: Bytes


def encode_offsets(strings: Strings, plan: Plan, encoder: Encoder) -> tuple[int, int, bytes]:
    """Offsets as they end a section: whether they are a stream, bytes of one, and all of them."""
    if strings.fixed_size is not None:
        return 0, 0, b""
    offsets = strings.offsets.astype("<u8")
    if plan.parts and plan.part(0) is None:
        return 0, 8, offsets.tobytes()
    return 1, 8, encoder.stream(offsets, plan.part(0) or _OFFSETS)


@kernel
def decode_with_offsets(
    machine: Machine, stream: Stream, packed: int, packed_size: int, header: int, width: int, nested: int
) -> Integer:
    """Have the offsets decoded that come after packed bytes, and then the stream finished.

    Args:
        machine: The machine.
        stream: The values section.
        packed: Where the packed bytes begin in the data.
        packed_size: How many they are.
        header: Bytes of code and header; what comes after them is padded as a whole.
        width: Where the bytes of an offset are given.
        nested: Where it is given whether the offsets are a stream.

    Returns:
        What the step returns.
    """
    packed_end = packed + packed_size
    if packed_end > stream.end:
        return refuse(machine, CUT_SHORT, packed, packed_size, stream.end - packed)
    found = np.int64(load(U1, machine.data, width))
    if machine.state[FIXED] >= 0:
        if found != 0:
            return refuse(machine, BAD_OFFSET_WIDTH, width, 0, found)
        push_to_finish(machine, stream)
        return DONE
    if found != 8:
        return refuse(machine, BAD_OFFSET_WIDTH, width, 8, found)
    begin = stream.source + header
    offsets = begin + ((packed_end - begin + 7) & ~7)
    if offsets > stream.end:
        return refuse(machine, CUT_SHORT, packed_end, offsets - packed_end, stream.end - packed_end)
    if not reserve(machine, 8 * (stream.count + 1)):
        return WANT_MEMORY
    push_to_finish(machine, stream)
    return push_part(machine, nested, offsets, stream.end, stream.count + 1, UINT64, stream.scratch)


@kernel
def take_room(machine: Machine, output: Output, stream: Stream, available: int, most: int) -> Integer:
    """Check the offsets of a block, which are at `stream.scratch`, note them and take room for its bytes.

    Args:
        machine: The machine.
        output: Takes the offsets; has the room.
        stream: The values section.
        available: How many bytes the values must have, -1 if the offsets say.
        most: How many bytes they can have at most.

    Returns:
        Where the room begins; -1 if there is too little, or the offsets are refused.
    """
    state = machine.state
    if state[FIXED] >= 0:
        total = stream.count * state[FIXED]
    else:
        total = check_offsets(machine, stream)
        if total < 0:
            return -1
    if available >= 0 and total != available:
        refuse(machine, WRONG_SIZE, stream.source, total, available)
        return -1
    if total > most:
        refuse(machine, TOO_MANY, stream.source, most, total)
        return -1
    start = make_room(machine, output, total)
    if start >= 0 and state[FIXED] < 0:
        write_offsets(machine, output, stream, start)
    return start


@kernel
def decompress_bytes(
    machine: Machine, output: Output, stream: Stream, request: int, start: int, end: int, available: int, most: int
) -> Integer:
    """Have the bytes of a block decompressed, once its offsets are decoded.

    Args:
        machine: The machine.
        output: Takes the values.
        stream: The values section.
        request: What is asked of the codec.
        start: Where the compressed bytes begin in the data.
        end: Where they end.
        available: How many bytes the values must have, -1 if the offsets say.
        most: How many bytes they can have at most.

    Returns:
        What the step returns.
    """
    room = take_room(machine, output, stream, available, most)
    if room < 0:
        return WANT_BYTES
    return ask_codec(machine, request, start, end, room, machine.state[USED] - room, 1)


@kernel
def check_offsets(machine: Machine, stream: Stream) -> Integer:
    """Whether the offsets at `stream.scratch` begin at 0 and ascend; returns the last, or -1."""
    memory, place = machine.memory, stream.scratch
    last = np.int64(load_u64(memory, place))
    if last != 0:
        refuse(machine, BAD_OFFSETS, stream.source, 0, last)
        return -1
    is_falling: Integer = False
    for i in range(stream.count):
        offset = np.int64(load_u64(memory, place + 8 * i + 8))
        is_falling |= offset < last
        last = offset
    if is_falling:
        refuse(machine, BAD_OFFSETS, stream.source, 0, last)
        return -1
    return last


@kernel
def make_room(machine: Machine, output: Output, size: int) -> Integer:
    """Take room for `size` bytes of values; -1, and a request for more, if there is too little."""
    state = machine.state
    start = state[USED]
    if start + size + SLACK > len(output.values):
        state[WANTED] = start + size
        return -1
    state[USED] = start + size
    return start


@kernel
def write_offsets(machine: Machine, output: Output, stream: Stream, start: int) -> None:
    """Note where the values of the block end: the offsets at `stream.scratch`, counted from `start` on."""
    memory, place, offsets = machine.memory, stream.scratch, output.offsets
    at = (machine.state[ROW] + 1) * machine.state[OFFSET_BYTES]
    base = np.uint64(start)
    if machine.state[OFFSET_BYTES] == 4:
        for i in range(stream.count):
            store(U4, offsets, at + 4 * i, load_u64(memory, place + 8 * i + 8) + base)
    else:
        for i in range(stream.count):
            store(U8, offsets, at + 8 * i, load_u64(memory, place + 8 * i + 8) + base)


@kernel
def write_offset(machine: Machine, output: Output, number: int, offset: int) -> None:
    """Note where a value of the block ends."""
    size = machine.state[OFFSET_BYTES]
    at = (machine.state[ROW] + number + 1) * size
    if size == 4:
        store(U4, output.offsets, at, np.uint64(offset))
    else:
        store(U8, output.offsets, at, np.uint64(offset))


@kernel
def copy_short(memory: Bytes, source: int, values: Bytes, target: int, size: int) -> None:
    """Copy bytes in words, so that up to `SLACK` more are read and written."""
    for i in range(0, size, 8):
        store(U8, values, target + i, load_u64(memory, source + i))
