"""Delta: the first of some integers, and the differences between neighbours as a stream.

    0  u16  code 5
    2       the first value
    8 or, for values of 8 bytes, 16: a stream of the same type, one value less

Spec: docs/formats/amudai-encodings.md § 4.2, § 4.3.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from skerry.amudai.encodings.codes import FLOAT32, Encoding, Profile
from skerry.amudai.encodings.numbers import Values, as_words, load_any, store_any, value_bytes
from skerry.amudai.encodings.plans import FRAMED, PLAIN, Encoder, Plan, make_stream
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

__all__ = ["CODE", "decode", "encode", "finish", "suits"]

CODE: Final = Encoding.DELTA
_MIN_VALUES: Final = 8


def suits(sample: Values, profile: Profile) -> Plan | None:
    """The plan worth a try; see `encodings`."""
    return None if sample.dtype.kind == "f" else Plan(CODE, (FRAMED,))


def encode(values: Values, plan: Plan, encoder: Encoder) -> bytes:
    """Encode integers, a few as they are; see `encodings`."""
    if values.dtype.kind == "f" or len(values) < _MIN_VALUES:
        return encoder.stream(values, PLAIN)
    words = as_words(values)
    differences = (words[1:] - words[:-1]).view(values.dtype)
    nested = encoder.stream(differences, plan.part(0) or FRAMED)
    return make_stream(CODE, 16 if values.itemsize == 8 else 8, values[:1].tobytes(), nested)


@kernel
def decode(machine: Machine, stream: Stream) -> Integer:
    """Have the differences decoded; see `encodings`."""
    size = value_bytes(stream.kind)
    header = np.int64(16 if size == 8 else 8)
    status = check_header(machine, stream, stream.kind < FLOAT32, header)
    if status != DONE or stream.count == 0:
        return status
    push_to_finish(machine, stream)
    source, end = stream.source + header, stream.end
    return push(machine, DECODE, source, end, stream.count - 1, stream.kind, stream.target + size)


@kernel
def finish(machine: Machine, stream: Stream) -> Integer:
    """Add the differences up."""
    memory, target, size = machine.memory, stream.target, value_bytes(stream.kind)
    value = load_any(machine.data, stream.source + 2, size)
    store_any(memory, target, value, size)
    for i in range(1, stream.count):
        value += load_any(memory, target + i * size, size)
        store_any(memory, target + i * size, value, size)
    return DONE
