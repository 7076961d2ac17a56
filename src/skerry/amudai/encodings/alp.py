"""Floats as decimals, or cut in two (kernels of the encoder).

Spec: docs/formats/amudai-encodings.md § 4.4, § 4.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skerry.amudai.encodings.parts import DOWN_4, DOWN_8, UP_4, UP_8
from skerry.kernels import kernel

__all__ = ["Decimals", "Halves", "cut_floats", "find_decimals", "to_decimals"]

_Floats = Any  # float32[n] or float64[n]

MAX_8, MAX_4 = 17, 9
LIMIT_8 = np.float64(1 << 52)  # beyond, adding and subtracting no longer rounds
LIMIT_4 = np.float32(1 << 22)
MAGIC_8 = np.float64(3 << 51)  # added and subtracted, it rounds to the nearest integer
MAGIC_4 = np.float32(3 << 22)
EXCEPTION_BITS_8, EXCEPTION_BITS_4 = 96, 64
SAMPLE: Final = 64


@kernel
def decimal_8(value: Any, up: Any, down: Any) -> Any:
    """The integer of a float64 at some exponent and factor, as a float; what decodes to something else is an exception.

    `up` is 10 to the exponent, `down` one tenth to the factor.
    """
    scaled = value * up * down
    return (scaled + MAGIC_8) - MAGIC_8


@kernel
def decimal_4(value: Any, up: Any, down: Any) -> Any:
    """Likewise of a float32."""
    scaled = value * up * down
    return (scaled + MAGIC_4) - MAGIC_4


@kernel("int64(float64[::1], uint64[::1], int64, int64, out int64[::1], out uint32[::1])")
def encode_8(values: _Floats, bits: Any, exponent: int, factor: int, numbers: Any, exceptions: Any) -> Any:
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
def encode_4(values: _Floats, bits: Any, exponent: int, factor: int, numbers: Any, exceptions: Any) -> Any:
    """Turn float32s to integers, likewise."""
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
def choose(values: _Floats, most: int) -> Any:
    """Find the exponent and the factor that store a sample of floats in the fewest bits.

    Args:
        values: The sample; of float32s, the same as float64s, which are decimals of few digits likewise.
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
    step = max(1, len(values) // SAMPLE)
    sample = values[::step][: 2 * SAMPLE]
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


@dataclass(frozen=True, slots=True)
class Halves:
    """Floats cut in two.

    Args:
        width: Bits of a right part.
        dictionary: uint16[4] or uint16[8], left parts.
        codes: uint16[n], places in the dictionary; 0 at an exception.
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


def cut_floats(values: npt.NDArray[Any]) -> Halves:
    """Cut floats where that takes the fewest bits, judged by a sample."""
    bits = 8 * values.itemsize
    words = np.ascontiguousarray(values).view(f"u{values.itemsize}")
    sample = words[:: max(1, len(words) // 512)]
    best: tuple[float, int, npt.NDArray[np.uint16]] | None = None
    for width in range(bits - 16, bits):
        found, counts = np.unique(sample >> width, return_counts=True)
        order = np.argsort(-counts, kind="stable")[:8]
        missed = len(sample) - int(counts[order].sum())
        code_bits = max(1, (len(order) - 1).bit_length())
        cost = len(sample) * (width + code_bits) + missed * 48
        if best is None or cost < best[0]:
            best = cost, width, found[order].astype(np.uint16)
    assert best is not None
    _, width, dictionary = best
    entries = 4 if len(dictionary) <= 4 else 8  # so many that what follows is aligned to 8 bytes
    dictionary = np.concatenate((dictionary, np.repeat(dictionary[:1], entries - len(dictionary))))
    lefts = (words >> width).astype(np.uint16)
    places = np.full(1 << 16, entries, np.uint16)
    places[dictionary[::-1]] = np.arange(entries, dtype=np.uint16)[::-1]
    codes = places[lefts]
    exceptions = np.flatnonzero(codes == entries).astype(np.uint32)
    codes[exceptions] = 0
    rights = words & words.dtype.type((1 << width) - 1)
    return Halves(width, dictionary, codes, rights, exceptions, lefts[exceptions])
