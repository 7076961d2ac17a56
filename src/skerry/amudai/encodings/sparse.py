"""Sparse: the values that are not zero, and their positions, two parts.

     0  u16  code 19
     2  u32  number of values that are not zero
     6  u32  bytes of the positions
    10  u8   whether the positions are a stream
    11  u8   whether the values are a stream
    16  the positions (u32, ascending), zeros to a multiple of 8, the values; nothing if there are none

Spec: docs/formats/amudai-encodings.md § 4.2, § 4.3.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from skerry.amudai.encodings.codes import UINT32, Encoding, Profile
from skerry.amudai.encodings.numbers import U1, U8, Values, as_words, load_any, pad, store_any, value_bytes
from skerry.amudai.encodings.plans import FRAMED, Encoder, Plan, make_stream
from skerry.amudai.encodings.stack import (
    BAD_POSITION,
    CUT_SHORT,
    DONE,
    TOO_MANY,
    WANT_MEMORY,
    Integer,
    Machine,
    Stream,
    check_header,
    push_part,
    push_to_finish,
    refuse,
    reserve,
)
from skerry.kernels import kernel, load_u32, store

__all__ = ["CODE", "decode", "encode", "finish", "suits"]

CODE: Final = Encoding.SPARSE
HEADER: Final = 16
_PLAN: Final = Plan(CODE, (Plan(Encoding.DELTA, (FRAMED,)), None))


def suits(sample: Values, profile: Profile) -> Plan | None:
    """The plan worth a try, if fewer than one value in sixteen is not zero; see `encodings`."""
    return _PLAN if 16 * np.count_nonzero(as_words(sample)) < len(sample) else None


def encode(values: Values, plan: Plan, encoder: Encoder) -> bytes:
    """Encode numbers; see `encodings`."""
    positions = np.flatnonzero(as_words(values)).astype("<u4")
    if not len(positions):
        return make_stream(CODE, HEADER, struct.pack("<IIBB", 0, 0, 0, 0))
    positions_flag, places = encoder.part(positions, plan.part(0))
    values_flag, others = encoder.part(values[positions], plan.part(1))
    header = struct.pack("<IIBB", len(positions), len(places), positions_flag, values_flag)
    return make_stream(CODE, HEADER, header, pad(places), others)


@kernel
def decode(machine: Machine, stream: Stream) -> Integer:
    """Write zeros, and have positions and values decoded; see `encodings`."""
    status = check_header(machine, stream, True, HEADER)
    if status != DONE:
        return status
    source, end = stream.source, stream.end
    body = source + HEADER
    entries = np.int64(load_u32(machine.data, source + 2))
    positions_end = body + np.int64(load_u32(machine.data, source + 6))
    if entries > stream.count:
        return refuse(machine, TOO_MANY, source + 2, stream.count, entries)
    values = body + ((positions_end - body + 7) & ~7)
    if entries > 0 and values > end:
        return refuse(machine, CUT_SHORT, body, values - body, end - body)
    size = value_bytes(stream.kind)
    for i in range(stream.count * size):
        store(U1, machine.memory, stream.target + i, U8)
    if entries == 0:
        return DONE
    if not reserve(machine, entries * (4 + size)):
        return WANT_MEMORY
    push_to_finish(machine, stream)
    push_part(machine, source + 11, values, end, entries, stream.kind, stream.scratch + 4 * entries)
    return push_part(machine, source + 10, body, positions_end, entries, UINT32, stream.scratch)


@kernel
def finish(machine: Machine, stream: Stream) -> Integer:
    """Write the values to their positions among zeros."""
    memory, size = machine.memory, value_bytes(stream.kind)
    entries = np.int64(load_u32(machine.data, stream.source + 2))
    positions = stream.scratch
    values = positions + 4 * entries
    for i in range(entries):
        at = np.int64(load_u32(memory, positions + 4 * i))
        if at >= stream.count:
            return refuse(machine, BAD_POSITION, stream.source + HEADER, stream.count, at)
        store_any(memory, stream.target + at * size, load_any(memory, values + i * size, size), size)
    return DONE
