"""Kernels for bytes at arbitrary positions in rows."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from skerry.kernels import kernel, load_u32, load_u64, store
from skerry.table.rows.murmur3 import MASK, finish, mix

__all__ = ["Bytes", "Longs", "Words", "copy_spans", "get_words", "hash_spans", "put_words"]

Bytes: TypeAlias = npt.NDArray[np.uint8]
Longs: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]

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


@kernel("int64(uint8[::1], int64[::1], out int32[::1])")
def hash_spans(data: Any, offsets: Any, hashes: Any) -> int:
    """Hash consecutive spans whose lengths are multiples of 4.

    Spec: docs/formats/paimon.md § 6.5: Murmur3 with seed 42 over words of 4 bytes.
    """
    for i in range(len(offsets) - 1):
        length = offsets[i + 1] - offsets[i]
        state = np.int64(_SEED)
        for j in range(length // 4):
            state = mix(state, np.int64(load_u32(data, offsets[i] + 4 * j)))
        hashes[i] = np.int32(finish(state, length & MASK))
    return len(hashes)
