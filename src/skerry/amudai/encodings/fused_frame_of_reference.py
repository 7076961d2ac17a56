"""Fused frame of reference: the distances of integers from the least of them, bit-packed.

    0  u16  code 4
    2       the least value
       u8   bits of a distance: the width
    8 or, for values of 8 bytes, 16: packed distances, as in `bit_packing`

Most columns of integers get it: it is written and read fastest.

Spec: docs/formats/amudai-encodings.md § 4.2, § 4.3.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from skerry.amudai.encodings.bit_packing import CHUNK, ROW_BYTES, pack_any, unpack
from skerry.amudai.encodings.codes import FLOAT32, Encoding, Profile
from skerry.amudai.encodings.numbers import (
    ONE,
    U1,
    U8,
    Values,
    load_any,
    move,
    store_any,
    store_number,
    value_bytes,
)
from skerry.amudai.encodings.plans import FRAMED, PLAIN, Encoder, Plan, make_stream
from skerry.amudai.encodings.stack import DONE, Bytes, Integer, Machine, Stream, check_header
from skerry.kernels import kernel, load

__all__ = ["CODE", "decode", "encode", "suits", "write"]

CODE: Final = Encoding.FUSED_FRAME_OF_REFERENCE


def suits(sample: Values, profile: Profile) -> Plan | None:
    """The plan worth a try; see `encodings`."""
    return None if sample.dtype.kind == "f" else FRAMED


def encode(values: Values, plan: Plan, encoder: Encoder) -> bytes:
    """Encode integers, as a single value if they are equal; see `encodings`."""
    if values.dtype.kind == "f":
        return encoder.stream(values, PLAIN)
    least, greatest = int(values.min()), int(values.max())
    width = (greatest - least).bit_length()
    if width == 0:
        return encoder.stream(values, Plan(Encoding.SINGLE_VALUE))
    header = np.array(least, values.dtype).tobytes() + bytes((width,))
    return make_stream(CODE, 16 if values.itemsize == 8 else 8, header, encoder.pack(values, width, least))


@kernel
def write(
    values: Bytes, first: int, count: int, size: int, is_signed: int, chunk: Bytes, out: Bytes, at: int
) -> Integer:
    """Write a stream, or that of a single value, into a block.

    Args:
        values: uint8[m], integers.
        first: The first that is written.
        count: How many are written.
        size: Bytes of each.
        is_signed: Whether they are signed.
        chunk: uint8[CHUNK * size], room for the last values, filled up.
        out: Takes the stream, from `at` on; zero.
        at: See `out`.

    Returns:
        Bytes of the stream.
    """
    flip = ONE << np.uint64(8 * size - 1) if is_signed else U8
    lowest = load_any(values, first * size, size) ^ flip
    highest = lowest
    for i in range(1, count):
        value = load_any(values, (first + i) * size, size) ^ flip
        lowest = min(lowest, value)
        highest = max(highest, value)
    width: Integer = np.int64(0)
    while width < 64 and (highest - lowest) >> np.uint64(width) != 0:
        width += 1
    least = lowest ^ flip
    if width == 0:
        store_number(out, at, Encoding.SINGLE_VALUE, 2)
        store_any(out, at + 2, least, size)
        return np.int64(2 + size)
    store_number(out, at, Encoding.FUSED_FRAME_OF_REFERENCE, 2)
    store_any(out, at + 2, least, size)
    store_number(out, at + 2 + size, width, 1)
    target: Integer = at + (16 if size == 8 else 8)
    for done in range(0, count, CHUNK):
        if count - done >= CHUNK:
            pack_any(values, (first + done) * size, width, out, target, least, size)
        else:
            for i in range(count - done, CHUNK):
                store_any(chunk, i * size, least, size)
            move(values, (first + done) * size, chunk, 0, (count - done) * size)
            pack_any(chunk, 0, width, out, target, least, size)
        target += ROW_BYTES * width
    return np.int64(target - at)


@kernel
def decode(machine: Machine, stream: Stream) -> Integer:
    """Decode a stream; see `encodings`."""
    size = value_bytes(stream.kind)
    header = np.int64(16 if size == 8 else 8)
    status = check_header(machine, stream, stream.kind < FLOAT32, header)
    if status != DONE:
        return status
    least = load_any(machine.data, stream.source + 2, size)
    return unpack(machine, stream, header, np.int64(load(U1, machine.data, stream.source + 2 + size)), least)
