"""Run length: values and how often each is repeated, two parts.

     0  u16  code 6
     2  u32  bytes of the values
     6  u32  number of runs
    10  u8   whether the values are a stream
    11  u8   whether the lengths are a stream
    16  the values, zeros to a multiple of 8, the lengths (u32)

Spec: docs/formats/amudai-encodings.md § 4.2, § 4.3.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from skerry.amudai.encodings.codes import UINT32, Encoding, Profile
from skerry.amudai.encodings.numbers import Values, as_words, load_any, pad, store_any, value_bytes
from skerry.amudai.encodings.plans import FRAMED, Encoder, Plan, make_stream
from skerry.amudai.encodings.stack import (
    CUT_SHORT,
    DONE,
    RUNS_DIFFER,
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
from skerry.kernels import kernel, load_u32

__all__ = ["CODE", "decode", "encode", "finish", "suits"]

CODE: Final = Encoding.RUN_LENGTH
HEADER: Final = 16


def suits(sample: Values, profile: Profile) -> Plan | None:
    """The plan worth a try, if runs are longer than two values; see `encodings`."""
    words = as_words(sample)
    runs = 1 + int(np.count_nonzero(words[1:] != words[:-1]))
    if 2 * runs >= len(sample):
        return None
    return Plan(CODE, (None if sample.dtype.kind == "f" else FRAMED, FRAMED))


def encode(values: Values, plan: Plan, encoder: Encoder) -> bytes:
    """Encode numbers; see `encodings`."""
    words = as_words(values)
    starts = np.flatnonzero(np.concatenate(([True], words[1:] != words[:-1])))
    lengths = np.diff(np.append(starts, len(values))).astype("<u4")
    values_flag, runs = encoder.part(values[starts], plan.part(0))
    lengths_flag, counts = encoder.part(lengths, plan.part(1))
    header = struct.pack("<IIBB", len(runs), len(lengths), values_flag, lengths_flag)
    return make_stream(CODE, HEADER, header, pad(runs), counts)


@kernel
def decode(machine: Machine, stream: Stream) -> Integer:
    """Have values and lengths decoded; see `encodings`."""
    status = check_header(machine, stream, True, HEADER)
    if status != DONE:
        return status
    source, end = stream.source, stream.end
    body = source + HEADER
    values_end = body + np.int64(load_u32(machine.data, source + 2))
    runs = np.int64(load_u32(machine.data, source + 6))
    if runs > stream.count:
        return refuse(machine, TOO_MANY, source + 6, stream.count, runs)
    lengths = body + ((values_end - body + 7) & ~7)
    if lengths > end:
        return refuse(machine, CUT_SHORT, body, lengths - body, end - body)
    size = value_bytes(stream.kind)
    if not reserve(machine, runs * (size + 4)):
        return WANT_MEMORY
    push_to_finish(machine, stream)
    push_part(machine, source + 11, lengths, end, runs, UINT32, stream.scratch + runs * size)
    return push_part(machine, source + 10, body, values_end, runs, stream.kind, stream.scratch)


@kernel
def finish(machine: Machine, stream: Stream) -> Integer:
    """Repeat each value as often as its length says."""
    memory, count, size = machine.memory, stream.count, value_bytes(stream.kind)
    runs = np.int64(load_u32(machine.data, stream.source + 6))
    values = stream.scratch
    lengths = values + runs * size
    filled: Integer = 0
    for run in range(runs):
        value = load_any(memory, values + run * size, size)
        length = np.int64(load_u32(memory, lengths + 4 * run))
        if length > count - filled:
            return refuse(machine, RUNS_DIFFER, stream.source + HEADER, count, filled + length)
        at = stream.target + filled * size
        for i in range(length):
            store_any(memory, at + i * size, value, size)
        filled += length
    if filled != count:
        return refuse(machine, RUNS_DIFFER, stream.source + HEADER, count, filled)
    return DONE
