"""Single value: one value for all.

    numbers   0  u16  code 7
              2  the value

    bytes     0  u16  code 7
              2  the bytes of the value, which all rows have that are not null

Nothing is padded.

Spec: docs/formats/amudai-encodings.md § 4.3, § 5.2.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from skerry.amudai.encodings.byte_values import ByteEncoder, Output, Strings, make_room, write_offset
from skerry.amudai.encodings.codes import Encoding
from skerry.amudai.encodings.numbers import Values, fill, is_constant, load_any, move, value_bytes
from skerry.amudai.encodings.plans import BIT_PACKED, Encoder, Plan
from skerry.amudai.encodings.stack import (
    CUT_SHORT,
    DONE,
    FIXED,
    ROW,
    WANT_BYTES,
    WRONG_SIZE,
    Integer,
    Machine,
    Stream,
    refuse,
)
from skerry.kernels import kernel

__all__ = ["CODE", "decode", "decode_bytes", "encode", "encode_bytes"]

CODE: Final = Encoding.SINGLE_VALUE
_RUNS: Final = Plan(Encoding.RUN_LENGTH, (None, BIT_PACKED))
_DICTIONARY: Final = Plan(Encoding.BLOCK_DICTIONARY, (BIT_PACKED,))


def encode(values: Values, plan: Plan, encoder: Encoder) -> bytes:
    """Encode numbers, as runs if they differ; see `encodings`."""
    if not is_constant(values):
        return encoder.stream(values, _RUNS)
    return struct.pack("<H", CODE) + values[:1].tobytes()


@kernel
def decode(machine: Machine, stream: Stream) -> Integer:
    """Decode a stream; see `encodings`."""
    size = value_bytes(stream.kind)
    start = stream.source + 2
    if stream.end - start < size:
        return refuse(machine, CUT_SHORT, start, size, stream.end - start)
    fill(machine.memory, stream.target, stream.count, load_any(machine.data, start, size), size)
    return DONE


def encode_bytes(strings: Strings, plan: Plan, encoder: ByteEncoder) -> bytes:
    """Encode strings of bytes, with a dictionary if they differ; see `encodings`."""
    first = _common_value(strings)
    if first is None:
        return encoder.byte_section(strings, _DICTIONARY)
    value = strings.data[strings.offsets[first] : strings.offsets[first + 1]]
    return struct.pack("<H", CODE) + value.tobytes()


def _common_value(strings: Strings) -> int | None:
    """The ordinal of the first valid value if all valid ones are equal."""
    places = np.arange(strings.count) if strings.valid is None else np.flatnonzero(strings.valid)
    if not len(places):
        return 0
    sizes = np.diff(strings.offsets)[places]
    if (sizes != sizes[0]).any():
        return None
    starts = strings.offsets[places]
    first = strings.data[starts[0] : starts[0] + sizes[0]]
    rows = starts[:, None] + np.arange(sizes[0])
    return int(places[0]) if bool((strings.data[rows] == first).all()) else None


@kernel
def decode_bytes(machine: Machine, output: Output, stream: Stream) -> Integer:
    """Repeat the bytes in all rows that are not null; see `encodings`."""
    source, count = stream.source + 2, stream.count
    validity, row = output.validity, machine.state[ROW]
    size = stream.end - source
    fixed = machine.state[FIXED]
    if fixed >= 0 and size != fixed:
        return refuse(machine, WRONG_SIZE, source, fixed, size)
    valid: Integer = count
    if fixed < 0 and len(validity) > 0:
        valid = 0
        for i in range(count):
            valid += np.int64((validity[(row + i) >> 3] >> ((row + i) & 7)) & 1)
    start = make_room(machine, output, valid * size)
    if start < 0:
        return WANT_BYTES
    for i in range(valid):
        move(machine.data, source, output.values, start + i * size, size)
    if fixed < 0:
        for i in range(count):
            if len(validity) == 0:
                start += size
            else:
                start += size * np.int64((validity[(row + i) >> 3] >> ((row + i) & 7)) & 1)
            write_offset(machine, output, i, start)
    return DONE
