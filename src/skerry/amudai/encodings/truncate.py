"""Truncate: signed integers that fit 8, 16, 32 or 64 bits, as unsigned ones of that width.

    0  u16  code 8, 9, 10 or 11
    2  u8   whether the values are a stream
    8  the values

Spec: docs/formats/amudai-encodings.md § 4.2, § 4.3.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from skerry.amudai.encodings.codes import UINT8, UNSIGNED, Encoding
from skerry.amudai.encodings.numbers import I1, I2, I4, U8, Values, move, store_any, value_bytes
from skerry.amudai.encodings.plans import BIT_PACKED, Encoder, Plan, make_stream
from skerry.amudai.encodings.stack import (
    DONE,
    WANT_MEMORY,
    Bytes,
    Integer,
    Machine,
    Stream,
    check_header,
    push_part,
    push_to_finish,
    reserve,
)
from skerry.kernels import kernel, load, load_u16, store

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
    size = value_bytes(stream.kind)
    is_for_type = stream.kind < UNSIGNED and size >= value_bytes(narrow) and size > 1
    status = check_header(machine, stream, is_for_type, HEADER)
    if status != DONE:
        return status
    if not reserve(machine, stream.count * value_bytes(narrow)):
        return WANT_MEMORY
    push_to_finish(machine, stream)
    body = stream.source + HEADER
    return push_part(machine, stream.source + 2, body, stream.end, stream.count, narrow, stream.scratch)


@kernel
def finish(machine: Machine, stream: Stream) -> Integer:
    """Widen the narrow integers, with their signs."""
    memory, source, target = machine.memory, stream.scratch, stream.target
    count, size = stream.count, value_bytes(stream.kind)
    code = np.int64(load_u16(machine.data, stream.source))
    if code == Encoding.TRUNCATE_8:
        widen(I1, memory, source, 1, target, size, count)
    elif code == Encoding.TRUNCATE_16:
        widen(I2, memory, source, 2, target, size, count)
    elif code == Encoding.TRUNCATE_32:
        widen(I4, memory, source, 4, target, size, count)
    else:
        move(memory, source, memory, target, count * size)
    return DONE


@kernel
def widen(unit: Any, memory: Bytes, source: int, narrow: int, target: int, size: int, count: int) -> None:
    """Copy signed integers of `unit`'s type, of `narrow` bytes, to `size` bytes."""
    if size == 8:
        for i in range(count):
            store(U8, memory, target + 8 * i, np.uint64(load(unit, memory, source + narrow * i)))
    else:
        for i in range(count):
            store_any(memory, target + i * size, np.uint64(load(unit, memory, source + narrow * i)), size)
