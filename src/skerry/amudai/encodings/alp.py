"""ALP: floats that are decimals of few digits, as a stream of integers, with exceptions.

     0  u16  code 12
     2  u32  bytes of the integers
     6  u16  number of exceptions
     8  u8   exponent
     9  u8   factor
    16  the integers, a stream of int32 (float32) or int64 (float64); position of each exception (u32); its value

A value is its integer, times 10 to the factor, times one tenth to the exponent, in the arithmetic of its type.

Spec: docs/formats/amudai-encodings.md § 4.4.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skerry.amudai.encodings.codes import FLOAT32, INT32, INT64, Encoding, Profile
from skerry.amudai.encodings.fused_frame_of_reference import write as write_distances
from skerry.amudai.encodings.numbers import F4, F8, I4, I8, U1, Values, move, store_number, value_bytes
from skerry.amudai.encodings.plans import FRAMED, Encoder, Plan, make_stream
from skerry.amudai.encodings.stack import (
    BAD_EXPONENT,
    BAD_POSITION,
    DECODE,
    DONE,
    TOO_MANY,
    WRONG_SIZE,
    Bytes,
    Integer,
    Machine,
    Stream,
    check_header,
    push,
    push_to_finish,
    refuse,
)
from skerry.kernels import kernel, load, load_u16, load_u32, store

__all__ = ["CODE", "decode", "encode", "find_decimals", "finish", "suits", "to_decimals", "write"]

Floats = Any  # float32[n] or float64[n]

CODE: Final = Encoding.ALP
HEADER: Final = 16
MAX_8, MAX_4 = 17, 9  # exponents
UP_8 = np.array([float(f"1e{digits}") for digits in range(18)])
DOWN_8 = np.array([float(f"1e-{digits}") for digits in range(18)])
UP_4 = UP_8[:10].astype(np.float32)
DOWN_4 = DOWN_8[:10].astype(np.float32)
LIMIT_8 = np.float64(1 << 52)  # beyond, adding and subtracting no longer rounds
LIMIT_4 = np.float32(1 << 22)
MAGIC_8 = np.float64(3 << 51)  # added and subtracted, it rounds to the nearest integer
MAGIC_4 = np.float32(3 << 22)
EXCEPTION_BITS_8 = 96
_SAMPLE_VALUES: Final = 64
_MAX_EXCEPTIONS: Final = (1 << 16) - 1


def suits(sample: Values, profile: Profile) -> Plan | None:
    """The plan worth a try; see `encodings`."""
    if sample.dtype.kind != "f" or (profile == Profile.FAST and sample.itemsize == 4):
        return None
    return Plan(CODE, (FRAMED,), find_decimals(sample))


def encode(values: Values, plan: Plan, encoder: Encoder) -> bytes:
    """Encode floats, cut in two if too many of them are exceptions; see `encodings`."""
    if values.dtype.kind != "f":
        return encoder.stream(values, FRAMED)
    found = to_decimals(values, *(plan.decimals or find_decimals(values)))
    if len(found.exceptions) > min(_MAX_EXCEPTIONS, len(values) // 2):
        return encoder.stream(values, Plan(Encoding.ALP_RD))
    numbers = encoder.stream(found.numbers, plan.part(0) or FRAMED)
    header = struct.pack("<IHBB", len(numbers), len(found.exceptions), found.exponent, found.factor)
    exceptions = found.exceptions.astype("<u4").tobytes() + values[found.exceptions].tobytes()
    return make_stream(CODE, HEADER, header, numbers, exceptions)


@kernel
def write(  # noqa: PLR0913  a kernel
    numbers: Bytes,
    floats: Bytes,
    exceptions: Any,
    skipped: int,
    found: int,
    first: int,
    count: int,
    size: int,
    decimals: int,
    chunk: Bytes,
    out: Bytes,
    at: int,
) -> Integer:
    """Write a stream with packed integers into a block; a plain one if there are too many exceptions.

    Args:
        numbers: uint8[m], the integers.
        floats: uint8[m], the floats that the integers represent.
        exceptions: uint32[x], positions of floats that are stored as they are.
        skipped: How many of these come before the first float that is written.
        found: How many are among the floats that are written.
        first: The first float that is written.
        count: How many are written.
        size: Bytes of each.
        decimals: 256 * exponent + factor.
        chunk: uint8[CHUNK * size], room for the last values, filled up.
        out: Takes the stream, from `at` on; zero.
        at: See `out`.

    Returns:
        Bytes of the stream.
    """
    if 2 * found > count:
        store_number(out, at, Encoding.PLAIN, 2)
        move(floats, first * size, out, at + 2, count * size)
        return np.int64(2 + count * size)
    stream = write_distances(numbers, first, count, size, 1, chunk, out, at + HEADER)
    store_number(out, at, Encoding.ALP, 2)
    store_number(out, at + 2, stream, 4)
    store_number(out, at + 6, found, 2)
    store_number(out, at + 8, decimals >> 8, 1)
    store_number(out, at + 9, decimals & 255, 1)
    place = at + HEADER + stream
    for i in range(found):
        position = np.int64(exceptions[skipped + i])
        store_number(out, place + 4 * i, position - first, 4)
        move(floats, position * size, out, place + 4 * found + i * size, size)
    return np.int64(HEADER + stream + found * (4 + size))


@kernel
def decode(machine: Machine, stream: Stream) -> Integer:
    """Have the integers decoded; see `encodings`."""
    status = check_header(machine, stream, stream.kind >= FLOAT32, HEADER)
    if status != DONE:
        return status
    data, source, end, size = machine.data, stream.source, stream.end, value_bytes(stream.kind)
    body = source + HEADER
    numbers_end = body + np.int64(load_u32(data, source + 2))
    exceptions = np.int64(load_u16(data, source + 6))
    exponent, factor = np.int64(load(U1, data, source + 8)), np.int64(load(U1, data, source + 9))
    if exponent > (MAX_8 if size == 8 else MAX_4) or factor > exponent:
        return refuse(machine, BAD_EXPONENT, source + 8, factor, exponent)
    if exceptions > stream.count:
        return refuse(machine, TOO_MANY, source + 6, stream.count, exceptions)
    if numbers_end + exceptions * (4 + size) != end:
        wanted = numbers_end + exceptions * (4 + size) - source
        return refuse(machine, WRONG_SIZE, source, wanted, end - source)
    push_to_finish(machine, stream)
    return push(machine, DECODE, body, numbers_end, stream.count, INT64 if size == 8 else INT32, stream.target)


@kernel
def finish(machine: Machine, stream: Stream) -> Integer:
    """Turn the integers to floats, in the arithmetic of their type, and put the exceptions in."""
    data, memory = machine.data, machine.memory
    count, target, size = stream.count, stream.target, value_bytes(stream.kind)
    exponent, factor = np.int64(load(U1, data, stream.source + 8)), np.int64(load(U1, data, stream.source + 9))
    if size == 8:
        up, down = UP_8[factor], DOWN_8[exponent]
        for i in range(count):
            number = np.float64(load(I8, memory, target + 8 * i))
            store(F8, memory, target + 8 * i, (number * up) * down)
    else:
        up_4, down_4 = UP_4[factor], DOWN_4[exponent]
        for i in range(count):
            number_4 = np.float32(load(I4, memory, target + 4 * i))
            store(F4, memory, target + 4 * i, (number_4 * up_4) * down_4)
    exceptions = np.int64(load_u16(data, stream.source + 6))
    positions = stream.source + HEADER + np.int64(load_u32(data, stream.source + 2))
    for i in range(exceptions):
        at = np.int64(load_u32(data, positions + 4 * i))
        if at >= count:
            return refuse(machine, BAD_POSITION, positions + 4 * i, count, at)
        move(data, positions + 4 * exceptions + i * size, memory, target + at * size, size)
    return DONE


# Finding decimals ---------------------------------------------------------------------------------------------------


@kernel
def decimal_8(value: Any, up: Any, down: Any) -> Any:
    """The integer of a float64 at some exponent and factor, as a float; what decodes to something else is an exception.

    `up` is 10 to the exponent, `down` one tenth to the factor.
    """
    scaled = value * up * down
    return (scaled + MAGIC_8) - MAGIC_8


@kernel
def decimal_4(value: Any, up: Any, down: Any) -> Any:
    """The integer of a float32; see `decimal_8`."""
    scaled = value * up * down
    return (scaled + MAGIC_4) - MAGIC_4


@kernel("int64(float64[::1], uint64[::1], int64, int64, out int64[::1], out uint32[::1])")
def encode_8(values: Floats, bits: Any, exponent: int, factor: int, numbers: Any, exceptions: Any) -> Any:
    """Turn float64s to integers.

    Args:
        values: The floats.
        bits: The same as words.
        exponent: Decimal places.
        factor: How many trailing zeros are dropped of the integers.
        numbers: Takes the integers; at an exception the one before.
        exceptions: Takes the positions of floats that would not come back bit by bit.

    Returns:
        The number of exceptions.
    """
    up, down = UP_8[exponent], DOWN_8[factor]
    back_up, back_down = UP_8[factor], DOWN_8[exponent]
    found = np.int64(0)
    last = np.int64(0)
    for i in range(len(values)):
        number = decimal_8(values[i], up, down)
        is_in_range = abs(number) <= LIMIT_8
        integer = np.int64(number) if is_in_range else np.int64(0)
        back = (np.float64(integer) * back_up) * back_down
        # equal, and of one sign where both are zero: then all bits are the same
        is_same = back == values[i] and (integer != 0 or bits[i] == np.uint64(0))
        if is_same:
            last = integer
        numbers[i] = last
        exceptions[found] = np.uint32(i)
        found += np.int64(not is_same)
    return found


@kernel("int64(float32[::1], uint32[::1], int64, int64, out int32[::1], out uint32[::1])")
def encode_4(values: Floats, bits: Any, exponent: int, factor: int, numbers: Any, exceptions: Any) -> Any:
    """Turn float32s to integers; see `encode_8`."""
    up, down = UP_4[exponent], DOWN_4[factor]
    back_up, back_down = UP_4[factor], DOWN_4[exponent]
    found = np.int64(0)
    last = np.int32(0)
    for i in range(len(values)):
        number = decimal_4(values[i], up, down)
        is_in_range = abs(number) <= LIMIT_4
        integer = np.int32(number) if is_in_range else np.int32(0)
        back = (np.float32(integer) * back_up) * back_down
        is_same = back == values[i] and (integer != 0 or bits[i] == np.uint32(0))
        if is_same:
            last = integer
        numbers[i] = last
        exceptions[found] = np.uint32(i)
        found += np.int64(not is_same)
    return found


@kernel("int64(float64[::1], int64)")
def choose(values: Floats, most: int) -> Any:
    """Find the exponent and the factor that store a sample in the fewest bits.

    Args:
        values: The sample; float32s as float64s, which are decimals of as few digits.
        most: The largest exponent.

    Returns:
        256 · exponent + factor.
    """
    best = np.int64(1 << 62)
    answer = np.int64(0)
    for exponent in range(most, -1, -1):
        for factor in range(max(exponent, 1)):
            lowest, highest = np.float64(LIMIT_8), -np.float64(LIMIT_8)
            exceptions = np.int64(0)
            for i in range(len(values)):
                number = decimal_8(values[i], UP_8[exponent], DOWN_8[factor])
                if abs(number) <= LIMIT_8 and (number * UP_8[factor]) * DOWN_8[exponent] == values[i]:
                    lowest = min(lowest, number)
                    highest = max(highest, number)
                else:
                    exceptions += 1
            width = np.int64(0)
            while highest - lowest >= np.float64(1 << width) and width < 60:
                width += 1
            cost = exceptions * EXCEPTION_BITS_8 + width * len(values)
            if cost < best:
                best = cost
                answer = np.int64(256 * exponent + factor)
    return answer


@dataclass(frozen=True, slots=True)
class Decimals:
    """Floats as integers.

    Args:
        exponent: Decimal places.
        factor: Trailing zeros dropped.
        numbers: int32[n] or int64[n].
        exceptions: uint32[x], positions of floats that are stored as they are.
    """

    exponent: int
    factor: int
    numbers: npt.NDArray[Any]
    exceptions: npt.NDArray[np.uint32]


def find_decimals(values: npt.NDArray[Any]) -> tuple[int, int]:
    """Find exponent and factor by a sample of floats."""
    step = max(1, len(values) // _SAMPLE_VALUES)
    sample = values[::step][: 2 * _SAMPLE_VALUES]
    if values.itemsize == 4:  # the shortest decimals of float32s, as float64s
        sample = np.array([float(str(value)) for value in sample])
    found = choose(np.ascontiguousarray(sample, np.float64), MAX_8 if values.itemsize == 8 else MAX_4)
    return found >> 8, found & 0xFF


def to_decimals(values: npt.NDArray[Any], exponent: int, factor: int) -> Decimals:
    """Turn floats to integers of an exponent and a factor."""
    values = np.ascontiguousarray(values)
    exceptions = np.empty(len(values) + 1, np.uint32)
    if values.itemsize == 8:
        numbers: npt.NDArray[Any] = np.empty(len(values), np.int64)
        count = encode_8(values, values.view(np.uint64), exponent, factor, numbers, exceptions)
    else:
        numbers = np.empty(len(values), np.int32)
        count = encode_4(values, values.view(np.uint32), exponent, factor, numbers, exceptions)
    return Decimals(exponent, factor, numbers, exceptions[:count].copy())
