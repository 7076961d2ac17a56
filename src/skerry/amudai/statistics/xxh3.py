"""XXH3 of many values at once, 64 bits, with a seed: the hashes in sketches and filters of shards.

The length of a value decides how it is hashed: up to 16 bytes as one or two words, up to 240 as pairs of words folded
into one number each, longer ones in stripes of 64 bytes over eight accumulators.

Spec: xxHash spec, XXH3 Algorithm Overview.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from skerry.kernels import byte_swap, kernel, load_u32, load_u64, multiply_high, rotate_left

__all__ = ["hash_values"]

_Word: TypeAlias = Any  # uint64
_Bytes: TypeAlias = Any  # uint8[n]
_Words: TypeAlias = Any  # uint64[n]

SECRET: Final = np.frombuffer(
    bytes.fromhex(
        "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
        "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
        "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
        "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
        "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
        "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
    ),
    np.uint8,
)

U8, U16, U24, U32 = (np.uint64(number) for number in (8, 16, 24, 32))
S28, S29, S33, S35, S37, S47 = (np.uint64(bits) for bits in (28, 29, 33, 35, 37, 47))
R24, R49 = np.uint64(24), np.uint64(49)
LOW = np.uint64(0xFFFFFFFF)
P32_1, P32_2, P32_3 = (np.uint64(prime) for prime in (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D))
P64_1, P64_2, P64_3, P64_4, P64_5 = (
    np.uint64(prime)
    for prime in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
)
MIX_1, MIX_2 = np.uint64(0x165667919E3779F9), np.uint64(0x9FB21C651E98DF25)
STRIPES = 16  # in a block; each reads the secret 8 bytes further on
LAST_STRIPE = 192 - 64 - 7
SCRAMBLE = 192 - 64


@kernel
def fold(value: _Word, factor: _Word) -> _Word:
    """The two halves of a product of 128 bits, one over the other."""
    return (value * factor) ^ multiply_high(value, factor)


@kernel
def finish(value: _Word) -> _Word:
    """Let every bit reach every other."""
    value = (value ^ (value >> S37)) * MIX_1
    return value ^ (value >> U32)


@kernel
def finish_short(value: _Word) -> _Word:
    """The same for values of at most 3 bytes."""
    value = (value ^ (value >> S33)) * P64_2
    value = (value ^ (value >> S29)) * P64_3
    return value ^ (value >> U32)


@kernel
def mix(data: _Bytes, position: int, secret: int, seed: _Word) -> _Word:
    """Sixteen bytes folded with as many of the secret."""
    low = load_u64(data, position) ^ (load_u64(SECRET, secret) + seed)
    high = load_u64(data, position + 8) ^ (load_u64(SECRET, secret + 8) - seed)
    return fold(low, high)


@kernel
def hash_up_to_16(data: _Bytes, start: int, length: int, seed: _Word) -> _Word:
    """A value of 0 … 16 bytes."""
    size = np.uint64(length)
    if length > 8:
        low = load_u64(data, start) ^ ((load_u64(SECRET, 24) ^ load_u64(SECRET, 32)) + seed)
        high = load_u64(data, start + length - 8) ^ ((load_u64(SECRET, 40) ^ load_u64(SECRET, 48)) - seed)
        return finish(size + byte_swap(low) + high + fold(low, high))
    if length >= 4:
        swapped = seed ^ (byte_swap(seed & LOW) & ~LOW)
        word = load_u32(data, start + length - 4) + (load_u32(data, start) << U32)
        word ^= (load_u64(SECRET, 8) ^ load_u64(SECRET, 16)) - swapped
        word ^= rotate_left(word, R49) ^ rotate_left(word, R24)
        word *= MIX_2
        word = (word ^ ((word >> S35) + size)) * MIX_2
        return word ^ (word >> S28)
    if length > 0:
        word = np.uint64(data[start]) << U16 | np.uint64(data[start + (length >> 1)]) << U24
        word |= np.uint64(data[start + length - 1]) | size << U8
        return finish_short(word ^ ((load_u32(SECRET, 0) ^ load_u32(SECRET, 4)) + seed))
    return finish_short(seed ^ load_u64(SECRET, 56) ^ load_u64(SECRET, 64))


@kernel
def hash_up_to_240(data: _Bytes, start: int, length: int, seed: _Word) -> _Word:
    """A value of 17 … 240 bytes."""
    total = np.uint64(length) * P64_1
    if length <= 128:
        pairs = (length - 1) // 32 + 1
        for i in range(pairs):
            total += mix(data, start + 16 * i, 32 * i, seed)
            total += mix(data, start + length - 16 * (i + 1), 32 * i + 16, seed)
        return finish(total)
    for i in range(8):
        total += mix(data, start + 16 * i, 16 * i, seed)
    total = finish(total)
    for i in range(8, length // 16):
        total += mix(data, start + 16 * i, 16 * (i - 8) + 3, seed)
    return finish(total + mix(data, start + length - 16, 136 - 17, seed))


@kernel
def accumulate(data: _Bytes, position: int, secret: _Bytes, offset: int, lanes: _Words) -> int:
    """Take in one stripe of 64 bytes."""
    for i in range(8):
        word = load_u64(data, position + 8 * i)
        keyed = word ^ load_u64(secret, offset + 8 * i)
        lanes[i ^ 1] += word
        lanes[i] += (keyed & LOW) * (keyed >> U32)
    return 0


@kernel
def hash_long(data: _Bytes, start: int, length: int, secret: _Bytes, lanes: _Words) -> _Word:
    """A value of more than 240 bytes; `secret` is the seed's own."""
    lanes[0], lanes[1], lanes[2], lanes[3] = P32_3, P64_1, P64_2, P64_3
    lanes[4], lanes[5], lanes[6], lanes[7] = P64_4, P32_2, P64_5, P32_1
    stripes = (length - 1) // 64
    for stripe in range(stripes):
        accumulate(data, start + 64 * stripe, secret, 8 * (stripe % STRIPES), lanes)
        if stripe % STRIPES == STRIPES - 1:
            for i in range(8):
                lanes[i] = (lanes[i] ^ (lanes[i] >> S47) ^ load_u64(secret, SCRAMBLE + 8 * i)) * P32_1
    accumulate(data, start + length - 64, secret, LAST_STRIPE, lanes)
    total = np.uint64(length) * P64_1
    for i in range(4):
        low = lanes[2 * i] ^ load_u64(secret, 11 + 16 * i)
        total += fold(low, lanes[2 * i + 1] ^ load_u64(secret, 19 + 16 * i))
    return finish(total)


@kernel("int64(uint8[::1], int64[::1], uint64, uint8[::1], out uint64[::1], out uint64[::1])")
def hash_spans(data: _Bytes, offsets: Any, seed: _Word, secret: _Bytes, lanes: _Words, hashes: _Words) -> int:
    """Hash `data[offsets[i] : offsets[i + 1]]` into `hashes[i]`."""
    for i in range(len(hashes)):
        start = offsets[i]
        length = offsets[i + 1] - start
        if length <= 16:
            hashes[i] = hash_up_to_16(data, start, length, seed)
        elif length <= 240:
            hashes[i] = hash_up_to_240(data, start, length, seed)
        else:
            hashes[i] = hash_long(data, start, length, secret, lanes)
    return 0


@cache
def _secret_of(seed: int) -> npt.NDArray[np.uint8]:
    """The secret for values over 240 bytes: the seed added to every other word and taken from the rest."""
    words = SECRET.view(np.uint64).reshape(-1, 2).copy()
    words[:, 0] += np.uint64(seed)
    words[:, 1] -= np.uint64(seed)
    return words.reshape(-1).view(np.uint8)


def hash_values(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], seed: int) -> npt.NDArray[np.uint64]:
    """Hash values that are stored end to end.

    Args:
        data: uint8[bytes], contiguous.
        offsets: int64[n + 1], rising and within `data`; value i is `data[offsets[i] : offsets[i + 1]]`. Not checked.
        seed: 64 bits.

    Returns:
        uint64[n].

    Spec: xxHash spec, XXH3 Algorithm Overview.
    """
    hashes = np.empty(len(offsets) - 1, np.uint64)
    hash_spans(data, offsets, seed, _secret_of(seed), np.empty(8, np.uint64), hashes)
    return hashes
