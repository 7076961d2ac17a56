"""Distinct values of a block and the codes that stand for them (kernels of the encoder)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from skerry.amudai.encodings.machine import Bytes, Integer
from skerry.amudai.encodings.packing import as_bytes
from skerry.amudai.encodings.parts import load_any
from skerry.kernels import kernel, load_u64

__all__ = ["number_spans", "number_values"]

MIX = np.uint64(0x9E3779B97F4A7C15)
S29, S32, S3 = np.uint64(29), np.uint64(32), np.uint64(3)
LAST = np.array([(1 << 8 * size) - 1 for size in range(8)], np.uint64)  # masks for the last bytes of a value


@kernel("int64(uint8[::1], int64, int64, int64, out uint32[::1], out uint32[::1], out int64[::1])")
def number_words(values: Bytes, count: int, size: int, limit: int, table: Any, codes: Any, firsts: Any) -> Integer:
    """Give each distinct value a number, in the order of first sight.

    Args:
        values: uint8[count · size].
        count: How many there are.
        size: Bytes of each, at most 8.
        limit: Most distinct values that are of interest.
        table: uint32[2^k], zero, at least twice as large as `limit`.
        codes: Takes the number of each value.
        firsts: int64[limit], takes where each distinct value was first seen.

    Returns:
        The number of distinct values, or -1 if there are more than `limit`.
    """
    mask = np.uint64(len(table) - 1)
    found = np.int64(0)
    for i in range(count):
        word = load_any(values, i * size, size)
        hashed = word * MIX
        slot = (hashed ^ (hashed >> S32)) & mask
        while True:
            entry = np.int64(table[slot])
            if entry == 0:
                if found == limit:
                    return np.int64(-1)
                firsts[found] = i
                found += 1
                table[slot] = np.uint32(found)
                codes[i] = np.uint32(found - 1)
                break
            if load_any(values, firsts[entry - 1] * size, size) == word:
                codes[i] = np.uint32(entry - 1)
                break
            slot = (slot + np.uint64(1)) & mask
    return found


@kernel("int64(uint8[::1], int64[::1], int64, out uint32[::1], out uint32[::1], out int64[::1])")
def number_strings(data: Bytes, offsets: Any, limit: int, table: Any, codes: Any, firsts: Any) -> Integer:
    """Give each distinct string of bytes a number, likewise.

    Args:
        data: uint8[m + 8], the strings, and bytes that do not matter.
        offsets: int64[n + 1].
        limit: Most distinct strings that are of interest.
        table: uint32[2^k], zero, at least twice as large as `limit`.
        codes: Takes the number of each string.
        firsts: int64[limit], takes where each distinct string was first seen.

    Returns:
        The number of distinct strings, or -1 if there are more than `limit`.
    """
    mask = np.uint64(len(table) - 1)
    found = np.int64(0)
    for i in range(len(offsets) - 1):
        start = offsets[i]
        size = offsets[i + 1] - start
        hashed = np.uint64(size) * MIX
        for k in range(0, size, 8):
            word = load_u64(data, start + k)
            if size - k < 8:
                word &= LAST[size - k]
            hashed = (hashed ^ word) * MIX
            hashed ^= hashed >> S29
        slot = (hashed ^ (hashed >> S32)) & mask
        while True:
            entry = np.int64(table[slot])
            if entry == 0:
                if found == limit:
                    return np.int64(-1)
                firsts[found] = i
                found += 1
                table[slot] = np.uint32(found)
                codes[i] = np.uint32(found - 1)
                break
            other = offsets[firsts[entry - 1]]
            if offsets[firsts[entry - 1] + 1] - other == size and is_same(data, start, other, size):
                codes[i] = np.uint32(entry - 1)
                break
            slot = (slot + np.uint64(1)) & mask
    return found


@kernel
def is_same(data: Bytes, start: int, other: int, size: int) -> bool:
    """Whether two strings of one length are equal."""
    for k in range(0, size, 8):
        difference = load_u64(data, start + k) ^ load_u64(data, other + k)
        if size - k < 8:
            difference &= LAST[size - k]
        if difference != 0:
            return False
    return True


def _room(count: int, limit: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    table = np.zeros(1 << max(4, (2 * limit - 1).bit_length()), np.uint32)
    return table, np.empty(count, np.uint32), np.empty(limit, np.int64)


def number_values(values: npt.NDArray[Any], limit: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]] | None:
    """Number the distinct values of an array, by their bits.

    Args:
        values: T[n].
        limit: Most distinct values that are of interest, at least 1.

    Returns:
        uint32[n] numbers from 0 on, in the order of first sight, and int64[d] where each was first seen; None if there
        are more than `limit`.
    """
    table, codes, firsts = _room(len(values), limit)
    found = number_words(as_bytes(values), len(values), values.itemsize, limit, table, codes, firsts)
    return (codes, firsts[:found]) if found >= 0 else None


def number_spans(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], limit: int
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]] | None:
    """Number distinct strings of bytes; see `number_values`.

    Args:
        data: uint8[m].
        offsets: int64[n + 1].
        limit: Most distinct strings that are of interest, at least 1.
    """
    table, codes, firsts = _room(len(offsets) - 1, limit)
    padded = np.concatenate((data[: offsets[-1]], np.zeros(8, np.uint8)))
    found = number_strings(padded, offsets, limit, table, codes, firsts)
    return (codes, firsts[:found]) if found >= 0 else None
