"""The hash of theta sketches: the upper 63 bits of the first half of MurmurHash3 x64 128.

Values are hashed as the bytes of Iceberg's single-value serialisation (Iceberg spec, Appendix D), with the seed in
both halves of the state, as `org.apache.datasketches.hash.MurmurHash3` does. A hash is in 0 … 2⁶³-1.
"""

from __future__ import annotations

import functools
from typing import Any, TypeAlias

import numpy as np

from skerry.errors import UnsupportedError
from skerry.kernels import byte_swap, kernel, load_u64, rotate_left

__all__ = [
    "DEFAULT_SEED",
    "ByteArray",
    "Word",
    "finish",
    "first_lane",
    "hash_bytes",
    "hash_span",
    "hash_wide_decimal",
    "length_with_sign",
    "seed_hash",
]

DEFAULT_SEED = 9001
_MASK = (1 << 64) - 1
_C1, _C2, _F1, _F2 = 0x87C37B91114253D5, 0x4CF5AD432745937F, 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53


def hash_bytes(data: bytes, seed: int = DEFAULT_SEED) -> int:
    """Hash one value, in plain Python.

    Args:
        data: The value's bytes.
        seed: Any 64-bit seed.

    Returns:
        The hash, 0 … 2⁶³-1.
    """
    return _murmur3(data, seed) >> 1


@functools.lru_cache(maxsize=16)
def seed_hash(seed: int) -> int:
    """The 16 bits of its seed that a serialised sketch has, to distinguish sketches of different seeds.

    Raises:
        UnsupportedError: The seed's hash is 0, which DataSketches refuses.
    """
    short = _murmur3((seed & _MASK).to_bytes(8, "little"), 0) & 0xFFFF
    if short == 0:
        raise UnsupportedError(f"the seed {seed} hashes to 0, which DataSketches does not allow: choose another")
    return short


def _murmur3(data: bytes, seed: int) -> int:
    h1 = h2 = seed & _MASK
    whole = len(data) // 16 * 16
    for i in range(0, whole, 16):
        k1, k2 = (int.from_bytes(data[j : j + 8], "little") for j in (i, i + 8))
        h1 = ((_rotate(h1 ^ _scramble(k1, _C1, 31, _C2), 27) + h2) * 5 + 0x52DCE729) & _MASK
        h2 = ((_rotate(h2 ^ _scramble(k2, _C2, 33, _C1), 31) + h1) * 5 + 0x38495AB5) & _MASK
    k1, k2 = (int.from_bytes(data[j : j + 8], "little") for j in (whole, whole + 8))
    h1 ^= _scramble(k1, _C1, 31, _C2) ^ len(data)
    h2 ^= _scramble(k2, _C2, 33, _C1) ^ len(data)
    h1 = (h1 + h2) & _MASK
    h2 = (h1 + h2) & _MASK
    return (_finish(h1) + _finish(h2)) & _MASK


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _MASK


def _scramble(value: int, first: int, bits: int, second: int) -> int:
    return _rotate(value * first & _MASK, bits) * second & _MASK


def _finish(value: int) -> int:
    value = (value ^ value >> 33) * _F1 & _MASK
    value = (value ^ value >> 33) * _F2 & _MASK
    return value ^ value >> 33


# In kernels every number is unsigned and of 64 bits: numba makes a float of a signed and an unsigned one.
Word: TypeAlias = Any  # uint64
ByteArray: TypeAlias = Any  # uint8[n]

C1, C2, F1, F2 = np.uint64(_C1), np.uint64(_C2), np.uint64(_F1), np.uint64(_F2)
U0, U1, U5, U8, U16 = (np.uint64(number) for number in (0, 1, 5, 8, 16))
R27, R31, R33, S33, S63, S64 = (np.uint64(bits) for bits in (27, 31, 33, 33, 63, 64))
ADD1, ADD2, ALL, TOP_OF_BYTE = np.uint64(0x52DCE729), np.uint64(0x38495AB5), np.uint64(_MASK), np.uint64(0x80)


@kernel
def first_lane(word: Word) -> Word:
    """What the first eight bytes of a block do to the state."""
    return rotate_left(word * C1, R31) * C2


@kernel
def second_lane(word: Word) -> Word:
    """What the second eight bytes of a block do to the state."""
    return rotate_left(word * C2, R33) * C1


@kernel
def finish(h1: Word, h2: Word) -> Word:
    """The hash from the state after the last byte."""
    h1 += h2
    h2 += h1
    h1 = (h1 ^ (h1 >> S33)) * F1
    h2 = (h2 ^ (h2 >> S33)) * F1
    h1 = (h1 ^ (h1 >> S33)) * F2
    h2 = (h2 ^ (h2 >> S33)) * F2
    return ((h1 ^ (h1 >> S33)) + (h2 ^ (h2 >> S33))) >> U1


@kernel
def load_bytes(data: ByteArray, position: int, count: int) -> Word:
    """At most eight bytes as a little-endian number, one by one."""
    word = U0
    for i in range(count):
        word |= np.uint64(data[position + i]) << (U8 * np.uint64(i))
    return word


@kernel
def low_bytes(word: Word, count: Word) -> Word:
    """The first `count` bytes of a word, 0 … 8, zeros above."""
    bits = count * U8
    return U0 if bits == U0 else word & (ALL >> (S64 - bits))


@kernel
def hash_span(data: ByteArray, start: int, length: int, seed: Word) -> Word:
    """Hash the bytes `data[start : start + length]`."""
    h1 = seed
    h2 = seed
    position = start
    end = start + length
    while position + 16 <= end:
        h1 = (rotate_left(h1 ^ first_lane(load_u64(data, position)), R27) + h2) * U5 + ADD1
        h2 = (rotate_left(h2 ^ second_lane(load_u64(data, position + 8)), R31) + h1) * U5 + ADD2
        position += 16
    rest = np.uint64(end - position)
    if position + 16 <= len(data):
        # Bytes of the next value are loaded too and masked off: cheaper than a branch on the length.
        low_count = min(rest, U8)
        low = low_bytes(load_u64(data, position), low_count)
        high = low_bytes(load_u64(data, position + 8), rest - low_count)
    else:
        low = load_bytes(data, position, min(end - position, 8))
        high = load_bytes(data, position + 8, max(end - position - 8, 0))
    count = np.uint64(length)
    return finish(h1 ^ first_lane(low) ^ count, h2 ^ second_lane(high) ^ count)


@kernel
def length_with_sign(word: Word) -> Word:
    """The bytes, 1 … 8, that a signed number needs in two's complement."""
    magnitude = word ^ (U0 - (word >> S63))
    length = U1
    for i in range(7):
        length += np.uint64(magnitude >= (TOP_OF_BYTE << (U8 * np.uint64(i))))
    return length


@kernel
def hash_wide_decimal(low: Word, high: Word, seed: Word) -> Word:
    """Hash an unscaled value of 128 bits: the fewest big-endian bytes that hold it with its sign."""
    if high == U0 - (low >> S63):
        length = length_with_sign(low)
        return finish(seed ^ first_lane(byte_swap(low << (S64 - U8 * length))) ^ length, seed ^ length)
    length = U8 + length_with_sign(high)
    if length < U16:
        shift = (U16 - length) * U8
        first = byte_swap((high << shift) | (low >> (S64 - shift)))
        second = byte_swap(low << shift)
        return finish(seed ^ first_lane(first) ^ length, seed ^ second_lane(second) ^ length)
    h1 = (rotate_left(seed ^ first_lane(byte_swap(high)), R27) + seed) * U5 + ADD1
    h2 = (rotate_left(seed ^ second_lane(byte_swap(low)), R31) + h1) * U5 + ADD2
    return finish(h1 ^ U16, h2 ^ U16)
