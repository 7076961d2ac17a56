"""Truncate: signed integers that fit 8, 16, 32 or 64 bits, as unsigned ones of that width.

    0  u16  code 8, 9, 10 or 11
    2  u8   whether the values are a stream
    8  the values

Spec: docs/formats/amudai-encodings.md § 4.2, § 4.3.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from skerry.amudai.encodings.codes import UINT8, UNSIGNED, Encoding
from skerry.amudai.encodings.numbers import I1, I2, I4, KIND_BYTES, Values, move, store_any
from skerry.amudai.encodings.plans import BIT_PACKED, Encoder, Plan, make_stream
from skerry.amudai.encodings.stack import (
    DONE,
    WANT_MEMORY,
    Integer,
    Machine,
    Stream,
    check_header,
    push_part,
    push_to_finish,
    reserve,
)
from skerry.kernels import kernel, load, load_u16

__all__ = ["BY_SIZE", "CODES", "decode", "encode", "finish"]

CODES: Final = (Encoding.TRUNCATE_8, Encoding.TRUNCATE_16, Encoding.TRUNCATE_32, Encoding.TRUNCATE_64)
BY_SIZE: Final = dict(zip((1, 2, 4, 8), CODES, strict=True))
"""The encodings by the bytes of what they store."""
FIRST: Final = int(Encoding.TRUNCATE_8)
HEADER: Final = 8


def encode(values: Values, plan: Plan, encoder: Encoder) -> bytes:
    """Encode signed integers, in more bits than planned if they need them; see `encodings`."""
    size = 1 << (plan.encoding - FIRST)
    if values.dtype.kind != "i" or values.itemsize < max(size, 2):
        return encoder.stream(values, BIT_PACKED)
    low, high = int(values.min()), int(values.max())
    while not -(1 << 8 * size - 1) <= low <= high < 1 << 8 * size - 1:
        size *= 2
    flag, nested = encoder.part(values.astype(f"<i{size}").view(f"<u{size}"), plan.part(0))
    return make_stream(BY_SIZE[size], HEADER, bytes((flag,)), nested)


@kernel
def decode(machine: Machine, stream: Stream) -> Integer:
    """Have the narrow integers decoded; see `encodings`."""
    narrow = UINT8 + np.int64(load_u16(machine.data, stream.source)) - FIRST
    size = KIND_BYTES[stream.kind]
    is_for_type = stream.kind < UNSIGNED and size >= KIND_BYTES[narrow] and size > 1
    status = check_header(machine, stream, is_for_type, HEADER)
    if status != DONE:
        return status
    if not reserve(machine, stream.count * KIND_BYTES[narrow]):
        return WANT_MEMORY
    push_to_finish(machine, stream)
    body = stream.source + HEADER
    return push_part(machine, stream.source + 2, body, stream.end, stream.count, narrow, stream.scratch)


@kernel
def finish(machine: Machine, stream: Stream) -> Integer:
    """Widen the narrow integers, with their signs."""
    memory, source, target = machine.memory, stream.scratch, stream.target
    count, size = stream.count, KIND_BYTES[stream.kind]
    code = np.int64(load_u16(machine.data, stream.source))
    if code == Encoding.TRUNCATE_8:
        for i in range(count):
            store_any(memory, target + i * size, np.uint64(load(I1, memory, source + i)), size)
    elif code == Encoding.TRUNCATE_16:
        for i in range(count):
            store_any(memory, target + i * size, np.uint64(load(I2, memory, source + 2 * i)), size)
    elif code == Encoding.TRUNCATE_32:
        for i in range(count):
            store_any(memory, target + i * size, np.uint64(load(I4, memory, source + 4 * i)), size)
    else:
        move(memory, source, memory, target, count * size)
    return DONE
