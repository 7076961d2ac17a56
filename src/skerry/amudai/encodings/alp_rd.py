"""ALP-RD: floats cut in two; left parts by a dictionary of at most eight, with exceptions, right parts as they are.

     0  u16  code 13
     2  u32  bytes of the codes
     6  u32  bytes of the right parts
    10  u16  number of exceptions
    12  u8   bits of a right part: the width
    13  u8   entries of the dictionary
    16  the dictionary (u16); a code for each left part, a stream of uint16; the right parts, a stream of unsigned
        integers of the floats' size; position of each exception (u32); its left part (u16)

Spec: docs/formats/amudai-encodings.md § 4.5.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skerry.amudai.encodings.bit_packing import packed_stream
from skerry.amudai.encodings.codes import FLOAT32, UINT16, UINT32, UINT64, Encoding, Profile
from skerry.amudai.encodings.numbers import ONE, U1, U8, Values, as_words, load_any, store_any, value_bytes
from skerry.amudai.encodings.plans import FRAMED, PLAIN, Encoder, Plan, make_stream
from skerry.amudai.encodings.stack import (
    BAD_POSITION,
    BAD_WIDTH,
    DECODE,
    DONE,
    OUT_OF_DICTIONARY,
    TOO_MANY,
    WANT_MEMORY,
    WRONG_SIZE,
    Integer,
    Machine,
    Stream,
    check_header,
    push,
    push_to_finish,
    refuse,
    reserve,
)
from skerry.kernels import kernel, load, load_u16, load_u32

__all__ = ["CODE", "decode", "encode", "finish", "suits"]

CODE: Final = Encoding.ALP_RD
HEADER: Final = 16
MAX_ENTRIES: Final = 8
_MAX_EXCEPTIONS: Final = (1 << 16) - 1


def suits(sample: Values, profile: Profile) -> Plan | None:
    """The plan worth a try; see `encodings`."""
    return Plan(CODE) if sample.dtype.kind == "f" else None


def encode(values: Values, plan: Plan, encoder: Encoder) -> bytes:
    """Encode floats; see `encodings`."""
    if values.dtype.kind != "f":
        return encoder.stream(values, FRAMED)
    found = cut_floats(values)
    if len(found.exceptions) > _MAX_EXCEPTIONS:
        return encoder.stream(values, PLAIN)
    # at least one bit: what comes next must stay aligned
    left = packed_stream(found.codes, max(1, int(found.codes.max()).bit_length()), encoder)
    right = packed_stream(found.rights, max(1, int(found.rights.max()).bit_length()), encoder)
    entries = len(found.dictionary)
    header = struct.pack("<IIHBB", len(left), len(right), len(found.exceptions), found.width, entries)
    exceptions = found.exceptions.astype("<u4").tobytes() + found.lefts.astype("<u2").tobytes()
    return make_stream(CODE, HEADER, header, found.dictionary.astype("<u2").tobytes(), left, right, exceptions)


@kernel
def decode(machine: Machine, stream: Stream) -> Integer:
    """Have the codes of left parts, and the right parts, decoded; see `encodings`."""
    status = check_header(machine, stream, stream.kind >= FLOAT32, HEADER)
    if status != DONE:
        return status
    data, source, count = machine.data, stream.source, stream.count
    size = value_bytes(stream.kind)
    exceptions = np.int64(load_u16(data, source + 10))
    width, entries = np.int64(load(U1, data, source + 12)), np.int64(load(U1, data, source + 13))
    if width < 1 or width >= 8 * size:
        return refuse(machine, BAD_WIDTH, source + 12, 8 * size - 1, width)
    if entries > MAX_ENTRIES or exceptions > count:
        return refuse(machine, TOO_MANY, source + 10, MAX_ENTRIES, entries)
    left = source + HEADER + 2 * entries
    right = left + np.int64(load_u32(data, source + 2))
    right_end = right + np.int64(load_u32(data, source + 6))
    if right_end + 6 * exceptions != stream.end:
        return refuse(machine, WRONG_SIZE, source, right_end + 6 * exceptions - source, stream.end - source)
    if not reserve(machine, 2 * count):
        return WANT_MEMORY
    push_to_finish(machine, stream)
    push(machine, DECODE, left, right, count, UINT16, stream.scratch)
    return push(machine, DECODE, right, right_end, count, UINT64 if size == 8 else UINT32, stream.target)


@kernel
def finish(machine: Machine, stream: Stream) -> Integer:
    """Put left and right parts together, then the exceptions' left parts in."""
    data, memory, source, left = machine.data, machine.memory, stream.source, stream.scratch
    count, target, size = stream.count, stream.target, value_bytes(stream.kind)
    width, entries = load(U1, data, source + 12), load(U1, data, source + 13)
    dictionary = source + HEADER
    largest = U8
    for i in range(count):
        largest = max(largest, load_u16(memory, left + 2 * i))
    if count > 0 and largest >= entries:
        return refuse(machine, OUT_OF_DICTIONARY, dictionary, np.int64(entries), np.int64(largest))
    for i in range(count):
        half = load_u16(data, dictionary + 2 * np.int64(load_u16(memory, left + 2 * i)))
        store_any(memory, target + i * size, load_any(memory, target + i * size, size) | half << width, size)
    exceptions = np.int64(load_u16(data, source + 10))
    positions = stream.end - 6 * exceptions
    mask = (ONE << width) - ONE
    for i in range(exceptions):
        at = np.int64(load_u32(data, positions + 4 * i))
        if at >= count:
            return refuse(machine, BAD_POSITION, positions + 4 * i, count, at)
        half = load_u16(data, positions + 4 * exceptions + 2 * i)
        right = load_any(memory, target + at * size, size) & mask
        store_any(memory, target + at * size, right | half << width, size)
    return DONE


# Cutting floats -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Halves:
    """Floats cut in two.

    Args:
        width: Bits of a right part.
        dictionary: uint16[4] or uint16[8], left parts.
        codes: uint16[n], ordinals in the dictionary; 0 at an exception.
        rights: uint[n], right parts.
        exceptions: uint32[x], positions of floats whose left part is not in the dictionary.
        lefts: uint16[x], their left parts.
    """

    width: int
    dictionary: npt.NDArray[np.uint16]
    codes: npt.NDArray[np.uint16]
    rights: npt.NDArray[Any]
    exceptions: npt.NDArray[np.uint32]
    lefts: npt.NDArray[np.uint16]


def cut_floats(values: Values) -> Halves:
    """Cut floats where that takes the fewest bits, judged by a sample."""
    bits = 8 * values.itemsize
    words = as_words(values)
    sample = words[:: max(1, len(words) // 512)]
    best: tuple[float, int, npt.NDArray[np.uint16]] | None = None
    for width in range(bits - 16, bits):
        found, counts = np.unique(sample >> width, return_counts=True)
        order = np.argsort(-counts, kind="stable")[:MAX_ENTRIES]
        missed = len(sample) - int(counts[order].sum())
        code_bits = max(1, (len(order) - 1).bit_length())
        cost = len(sample) * (width + code_bits) + missed * 48
        if best is None or cost < best[0]:
            best = cost, width, found[order].astype(np.uint16)
    assert best is not None
    _, width, dictionary = best
    entries = 4 if len(dictionary) <= 4 else 8  # what follows is aligned to 8 bytes
    dictionary = np.concatenate((dictionary, np.repeat(dictionary[:1], entries - len(dictionary))))
    lefts = (words >> width).astype(np.uint16)
    places = np.full(1 << 16, entries, np.uint16)
    places[dictionary[::-1]] = np.arange(entries, dtype=np.uint16)[::-1]
    codes = places[lefts]
    exceptions = np.flatnonzero(codes == entries).astype(np.uint32)
    codes[exceptions] = 0
    rights = words & words.dtype.type((1 << width) - 1)
    return Halves(width, dictionary, codes, rights, exceptions, lefts[exceptions])
