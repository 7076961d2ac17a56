"""Frame of reference: the distances of integers from the least of them, as a stream.

    0  u16  code 3
    2       the least value
    8 or, for values of 8 bytes, 16: a stream of unsigned integers of the same size

Spec: docs/formats/amudai-encodings.md § 4.2, § 4.3.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from skerry.amudai.encodings.codes import FLOAT32, UNSIGNED, Encoding
from skerry.amudai.encodings.numbers import Values, as_words, load_any, store_any, value_bytes
from skerry.amudai.encodings.plans import BIT_PACKED, PLAIN, Encoder, Plan, make_stream
from skerry.amudai.encodings.stack import (
    DECODE,
    DONE,
    Integer,
    Machine,
    Stream,
    check_header,
    push,
    push_to_finish,
)
from skerry.kernels import kernel

__all__ = ["CODE", "decode", "encode", "finish"]

CODE: Final = Encoding.FRAME_OF_REFERENCE


def encode(values: Values, plan: Plan, encoder: Encoder) -> bytes:
    """Encode integers; see `encodings`."""
    if values.dtype.kind == "f":
        return encoder.stream(values, PLAIN)
    least = np.array(values.min(), values.dtype)
    distances = as_words(values) - as_words(least)
    nested = encoder.stream(distances, plan.part(0) or BIT_PACKED)
    return make_stream(CODE, 16 if values.itemsize == 8 else 8, least.tobytes(), nested)


@kernel
def decode(machine: Machine, stream: Stream) -> Integer:
    """Have the distances decoded; see `encodings`."""
    header = np.int64(16 if value_bytes(stream.kind) == 8 else 8)
    status = check_header(machine, stream, stream.kind < FLOAT32, header)
    if status != DONE:
        return status
    push_to_finish(machine, stream)
    source, end = stream.source + header, stream.end
    return push(machine, DECODE, source, end, stream.count, stream.kind | UNSIGNED, stream.target)


@kernel
def finish(machine: Machine, stream: Stream) -> Integer:
    """Add the least value to each distance."""
    memory, size = machine.memory, value_bytes(stream.kind)
    least = load_any(machine.data, stream.source + 2, size)
    for i in range(stream.count):
        at = stream.target + i * size
        store_any(memory, at, load_any(memory, at, size) + least, size)
    return DONE
