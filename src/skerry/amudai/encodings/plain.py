"""Plain: values as they are.

    numbers   0  u16  code 1
              2  the values

    bytes     0  u16  code 1
              2  u8   bytes of an offset: 8, or 0 for values of one size
              3  u64  offsets, one more than values, if there are any
                 the bytes

Nothing is padded.

Spec: docs/formats/amudai-encodings.md § 4.3, § 5.2.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from skerry.amudai.encodings.byte_values import Output, Strings, take_room
from skerry.amudai.encodings.codes import UINT64, Encoding
from skerry.amudai.encodings.numbers import U1, Values, move, value_bytes
from skerry.amudai.encodings.plans import Encoder, Plan
from skerry.amudai.encodings.stack import (
    BAD_OFFSET_WIDTH,
    COPY,
    CUT_SHORT,
    DONE,
    FIXED,
    WANT_BYTES,
    WANT_MEMORY,
    WRONG_SIZE,
    Integer,
    Machine,
    Stream,
    push,
    push_to_finish,
    refuse,
    reserve,
)
from skerry.kernels import kernel, load

__all__ = ["CODE", "copy", "decode", "decode_bytes", "encode", "encode_bytes", "finish_bytes"]

CODE: Final = Encoding.PLAIN


def encode(values: Values, plan: Plan, encoder: Encoder) -> bytes:
    """Encode numbers; see `encodings`."""
    return struct.pack("<H", CODE) + values.tobytes()


@kernel
def decode(machine: Machine, stream: Stream) -> Integer:
    """Decode a stream; see `encodings`."""
    return copy(machine, stream, stream.source + 2)


@kernel
def copy(machine: Machine, stream: Stream, start: int) -> Integer:
    """Copy numbers that begin at `start` and end with the stream, exactly as many as it holds."""
    size = stream.count * value_bytes(stream.kind)
    if stream.end - start != size:
        return refuse(machine, WRONG_SIZE, start, size, stream.end - start)
    move(machine.data, start, machine.memory, stream.target, size)
    return DONE


def encode_bytes(strings: Strings, plan: Plan, encoder: Encoder) -> bytes:
    """Encode strings of bytes; see `encodings`."""
    if strings.fixed_size is not None:
        return struct.pack("<HB", CODE, 0) + strings.data.tobytes()
    head = struct.pack("<HB", CODE, 8)
    return b"".join((head, strings.offsets.astype("<u8").tobytes(), strings.data.tobytes()))


@kernel
def decode_bytes(machine: Machine, stream: Stream) -> Integer:
    """Decode a values section; see `encodings`."""
    source = stream.source
    if stream.end - source < 3:
        return refuse(machine, CUT_SHORT, source, 3, stream.end - source)
    width = np.int64(load(U1, machine.data, source + 2))
    if machine.state[FIXED] >= 0:
        if width != 0:
            return refuse(machine, BAD_OFFSET_WIDTH, source + 2, 0, width)
        push_to_finish(machine, stream)
        return DONE
    if width != 8:
        return refuse(machine, BAD_OFFSET_WIDTH, source + 2, 8, width)
    size = 8 * (stream.count + 1)
    if source + 3 + size > stream.end:
        return refuse(machine, CUT_SHORT, source + 3, size, stream.end - source - 3)
    if not reserve(machine, size):
        return WANT_MEMORY
    push_to_finish(machine, stream)
    return push(machine, COPY, source + 3, source + 3 + size, stream.count + 1, UINT64, stream.scratch)


@kernel
def finish_bytes(machine: Machine, output: Output, stream: Stream) -> Integer:
    """Copy the bytes, once the offsets are decoded."""
    start = stream.source + 3
    if machine.state[FIXED] < 0:
        start += 8 * (stream.count + 1)
    size = stream.end - start
    room = take_room(machine, output, stream, size, size)
    if room < 0:
        return WANT_BYTES
    move(machine.data, start, output.values, room, size)
    return DONE
