"""Zigzag: signed integers as unsigned ones with the sign in the lowest bit.

    0  u16  code 18
    2  u8   whether the values are a stream
    8  unsigned integers of the same size

Spec: docs/formats/amudai-encodings.md § 4.2, § 4.3.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from skerry.amudai.encodings.codes import UNSIGNED, Encoding
from skerry.amudai.encodings.numbers import ONE, U8, Values, as_words, load_any, store_any, value_bytes
from skerry.amudai.encodings.plans import BIT_PACKED, Encoder, Plan, make_stream
from skerry.amudai.encodings.stack import DONE, Integer, Machine, Stream, check_header, push_part, push_to_finish
from skerry.kernels import kernel

__all__ = ["CODE", "decode", "encode", "finish"]

CODE: Final = Encoding.ZIG_ZAG
HEADER: Final = 8


def encode(values: Values, plan: Plan, encoder: Encoder) -> bytes:
    """Encode signed integers; see `encodings`."""
    if values.dtype.kind != "i":
        return encoder.stream(values, BIT_PACKED)
    words = (as_words(values) << np.uint8(1)) ^ as_words(values >> np.int8(8 * values.itemsize - 1))
    flag, nested = encoder.part(words, plan.part(0))
    return make_stream(CODE, HEADER, bytes((flag,)), nested)


@kernel
def decode(machine: Machine, stream: Stream) -> Integer:
    """Have the unsigned integers decoded; see `encodings`."""
    status = check_header(machine, stream, stream.kind < UNSIGNED, HEADER)
    if status != DONE:
        return status
    push_to_finish(machine, stream)
    body, kind = stream.source + HEADER, stream.kind | UNSIGNED
    return push_part(machine, stream.source + 2, body, stream.end, stream.count, kind, stream.target)


@kernel
def finish(machine: Machine, stream: Stream) -> Integer:
    """Move the signs from the lowest bits to where they belong."""
    memory, size = machine.memory, value_bytes(stream.kind)
    for i in range(stream.count):
        at = stream.target + i * size
        value = load_any(memory, at, size)
        store_any(memory, at, (value >> ONE) ^ (U8 - (value & ONE)), size)
    return DONE
