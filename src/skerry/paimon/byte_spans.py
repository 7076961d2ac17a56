"""Loops over bytes that lie wherever a row has put them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from skerry.kernels import kernel, load_u32, load_u64, store

__all__ = ["Bytes", "Longs", "Words", "copy_spans", "get_words", "hash_spans", "put_words"]

Bytes: TypeAlias = npt.NDArray[np.uint8]
Longs: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]

# Numbers of the hash. All arithmetic is in signed 64 bits, masked to 32 after every step that can grow.
_MASK = 0xFFFFFFFF
_C1 = 0xCC9E2D51
_C2 = 0x1B873593
_SEED = 42


@kernel("int64(out uint8[::1], int64[::1], uint64[::1], int64)")
def put_words(out: Any, positions: Any, words: Any, width: int) -> int:
    """Write the low `width` bytes of numbers, least significant first, each at its position."""
    for i in range(len(positions)):
        word = words[i]
        position = positions[i]
        if width == 8:
            store(word, out, position, word)
        else:
            for j in range(width):
                out[position + j] = np.uint8(word & np.uint64(0xFF))
                word >>= np.uint64(8)
    return len(positions)


@kernel("int64(uint8[::1], int64[::1], int64, out uint64[::1])")
def get_words(data: Any, positions: Any, width: int, words: Any) -> int:
    """Read numbers of `width` bytes, least significant first, each at its position, as unsigned ones."""
    for i in range(len(positions)):
        position = positions[i]
        if width == 8:
            words[i] = load_u64(data, position)
        else:
            word = np.uint64(0)
            for j in range(width):
                word |= np.uint64(data[position + j]) << np.uint64(8 * j)
            words[i] = word
    return len(positions)


@kernel("int64(uint8[::1], int64[::1], int64[::1], out uint8[::1], int64[::1])")
def copy_spans(data: Any, starts: Any, lengths: Any, out: Any, positions: Any) -> int:
    """Copy spans of bytes, each to its position."""
    for i in range(len(starts)):
        start = starts[i]
        position = positions[i]
        for j in range(lengths[i]):
            out[position + j] = data[start + j]
    return len(starts)


@kernel
def _mix(state: int, block: int) -> int:
    block = (block * _C1) & _MASK
    block = ((block << 15) | (block >> 17)) & _MASK
    state = state ^ ((block * _C2) & _MASK)
    state = ((state << 13) | (state >> 19)) & _MASK
    return (state * 5 + 0xE6546B64) & _MASK


@kernel
def _finish(state: int, length: int) -> int:
    state = state ^ length
    state = state ^ (state >> 16)
    state = (state * 0x85EBCA6B) & _MASK
    state = state ^ (state >> 13)
    state = (state * 0xC2B2AE35) & _MASK
    return state ^ (state >> 16)


@kernel("int64(uint8[::1], int64[::1], out int32[::1])")
def hash_spans(data: Any, offsets: Any, hashes: Any) -> int:
    """Hash spans that follow each other, whose lengths are multiples of 4.

    Spec: `formats/paimon.md` § 6: Murmur3 with seed 42 over words of 4 bytes.
    """
    for i in range(len(offsets) - 1):
        length = offsets[i + 1] - offsets[i]
        state = np.int64(_SEED)
        for j in range(length // 4):
            state = _mix(state, np.int64(load_u32(data, offsets[i] + 4 * j)))
        hashes[i] = np.int32(_finish(state, length & _MASK))
    return len(hashes)
