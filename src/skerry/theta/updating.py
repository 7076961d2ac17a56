"""Kernels that take in values: hash them, drop hashes that cannot count, insert the rest.

Values pass in blocks small enough for the first-level cache. Each step is a loop without branches on data:

1. copy valid values to the block;
2. drop values that repeat the one before, then those that a direct-mapped cache saw lately; after a trial, without
   what drops too few to pay (sorted keys need only the first, unique ones neither);
3. hash, in two loops rather than one, because a processor overlaps short chains of dependent steps better;
4. keep hashes below the threshold θ; for a column of many values almost none are;
5. insert these in the table. Both rules of lowering θ keep every hash below θ that was ever seen, which is why a value
   seen before may be dropped unhashed.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from skerry.kernels import byte_swap, kernel, load_u16, load_u32, load_u64
from skerry.theta.hashing import (
    S63,
    S64,
    U0,
    U1,
    U8,
    ByteArray,
    Word,
    finish,
    first_lane,
    hash_span,
    hash_wide_decimal,
    length_with_sign,
)
from skerry.theta.workspace import (
    BLOCK,
    BOTH_FILTERS,
    CACHE,
    CACHE_BITS,
    FILTERS,
    HASHES,
    HIGHS,
    KIND,
    NO_FILTER,
    NOTHING,
    NOTHING_IN_SLOT_0,
    ONLY_REPEATS,
    ROUNDS,
    SEED,
    TABLE,
    THETA,
    WORDS,
    WordArray,
    WorkSpace,
    insert,
    keep_below,
)

__all__ = ["Form", "mark_used", "update_fixed", "update_offsets", "update_spans"]


class Form(IntEnum):
    """What the bytes of a fixed-width value are, and so how they are hashed."""

    WORD = 0
    """As they are: 4 or 8 bytes."""
    FLOAT = 1
    """As they are, but for NaN, which is made canonical: 4 or 8 bytes."""
    DECIMAL = 2
    """The fewest big-endian bytes: unscaled values of 8 or 16 bytes."""


WORD, FLOAT, DECIMAL = map(int, Form)  # kernels know no enumerations

TRIAL_ROUNDS = np.uint64(16)  # blocks in which both filters may prove useful …
REST_ROUNDS = np.uint64(512)  # … and blocks without one of them before the next trial
CACHE_MASK = np.uint64((1 << CACHE_BITS) - 1)
GROUP = 8  # indices that are looked up together: mostly all their values are used already
S14, S29 = np.uint64(14), np.uint64(29)
NO_SIGN_4, INFINITY_4, NAN_4 = np.uint64(0x7FFFFFFF), np.uint64(0x7F800000), np.uint64(0x7FC00000)
NO_SIGN_8, INFINITY_8, NAN_8 = np.uint64((1 << 63) - 1), np.uint64(0x7FF << 52), np.uint64(0x7FF8 << 48)


@kernel
def bit_at(bitmap: ByteArray, place: int) -> Any:
    """One bit of a bitmap, least significant bit first; 1 if the bitmap is empty."""
    return np.int64(1) if len(bitmap) == 0 else np.int64((bitmap[place >> 3] >> (place & 7)) & 1)


@kernel
def drop_nulls(words: WordArray, count: int, validity: ByteArray, bit: int) -> int:
    """Move the valid values of a block to the front; returns how many."""
    if len(validity) == 0:
        return count
    kept = 0
    for i in range(count):
        words[kept] = words[i]
        kept += bit_at(validity, bit + i)
    return kept


@kernel
def make_canonical(words: WordArray, count: int, width: int) -> None:
    """Replace every NaN by the one that Java's `floatToIntBits` gives."""
    no_sign = NO_SIGN_4 if width == 4 else NO_SIGN_8
    infinity = INFINITY_4 if width == 4 else INFINITY_8
    nan = NAN_4 if width == 4 else NAN_8
    for i in range(count):
        word = words[i]
        words[i] = nan if (word & no_sign) > infinity else word


@kernel
def drop_repeats(words: WordArray, count: int) -> int:
    """Keep the values that differ from the one before; returns how many are kept."""
    kept = 0
    last = words[0] + U1
    for i in range(count):
        word = words[i]
        words[kept] = word
        kept += int(word != last)
        last = word
    return kept


@kernel
def drop_recent(words: WordArray, count: int, cache: WordArray) -> int:
    """Keep the values that the cache does not hold, and put all in it; returns how many are kept."""
    kept = 0
    for i in range(count):
        word = words[i]
        folded = word ^ (word >> S29)
        slot = (folded ^ (folded >> S14)) & CACHE_MASK
        is_new = cache[slot] != word
        cache[slot] = word
        words[kept] = word
        kept += int(is_new)
    return kept


@kernel
def begin(work: WorkSpace, width: int, form: int) -> None:
    """Empty the cache if it holds values of another kind, of which the same numbers have other hashes."""
    kind = np.uint64(width << 8 | form)
    if work[KIND] != kind:
        work[KIND] = kind
        work[CACHE:TABLE] = NOTHING
        work[CACHE] = NOTHING_IN_SLOT_0
        work[FILTERS] = BOTH_FILTERS
        work[ROUNDS] = U0


@kernel
def hash_words(words: WordArray, count: int, width: int, form: int, seed: Word, hashes: WordArray) -> None:
    """Hash a block of values of at most eight bytes; uses up `words`."""
    if form == DECIMAL:
        for i in range(count):
            length = length_with_sign(words[i])
            tail = first_lane(byte_swap(words[i] << (S64 - U8 * length)))
            words[i] = seed ^ length
            hashes[i] = tail
        for i in range(count):
            hashes[i] = finish(words[i] ^ hashes[i], words[i])
    else:
        state = seed ^ np.uint64(width)
        for i in range(count):
            hashes[i] = state ^ first_lane(words[i])
        for i in range(count):
            hashes[i] = finish(hashes[i], state)


@kernel
def hash_data(data: ByteArray, width: int, start: int, count: int, seed: Word, hashes: WordArray) -> None:
    """Hash a block of words straight from the data: a fifth faster than by way of `words`."""
    state = seed ^ np.uint64(width)
    if width == 4:
        for i in range(count):
            hashes[i] = state ^ first_lane(load_u32(data, 4 * (start + i)))
    else:
        for i in range(count):
            hashes[i] = state ^ first_lane(load_u64(data, 8 * (start + i)))
    for i in range(count):
        hashes[i] = finish(hashes[i], state)


@kernel
def end_round(work: WorkSpace, values: int, runs: int, new: int) -> None:
    """Decide how to filter the next block, by the values, runs of equal ones and values not in the cache of this one.

    Dropping repeats costs a fifth of hashing, looking in the cache three quarters.
    """
    work[ROUNDS] += U1
    if work[FILTERS] != BOTH_FILTERS:
        if work[ROUNDS] > REST_ROUNDS:
            work[FILTERS] = BOTH_FILTERS
            work[ROUNDS] = U0
    elif work[ROUNDS] > TRIAL_ROUNDS:
        work[ROUNDS] = U0
        if 2 * new >= runs:
            work[FILTERS] = ONLY_REPEATS if 4 * runs < 3 * values else NO_FILTER


@kernel
def absorb_words(work: WorkSpace, count: int, width: int, form: int) -> None:
    """Take in the block of values of at most eight bytes."""
    words = work[WORDS:HIGHS]
    hashes = work[HASHES:CACHE]
    if form == FLOAT:
        make_canonical(words, count, width)
    runs = drop_repeats(words, count) if work[FILTERS] != NO_FILTER else count
    new = drop_recent(words, runs, work[CACHE:TABLE]) if work[FILTERS] == BOTH_FILTERS else runs
    end_round(work, count, runs, new)
    hash_words(words, new, width, form, work[SEED], hashes)
    insert(work, hashes, keep_below(hashes, new, work[THETA]))


@kernel
def absorb_wide(
    work: WorkSpace, data: ByteArray, start: int, count: int, validity: ByteArray, bit: int, form: int
) -> None:
    """Take in a block of decimals of 16 bytes."""
    words = work[WORDS:HIGHS]
    highs = work[HIGHS:HASHES]
    hashes = work[HASHES:CACHE]
    wide = U0
    for i in range(count):
        low = load_u64(data, 16 * (start + i))
        high = load_u64(data, 16 * (start + i) + 8)
        words[i] = low
        highs[i] = high
        wide |= high ^ (U0 - (low >> S63))
    kept = drop_nulls(words, count, validity, bit)
    if wide == U0:
        absorb_words(work, kept, np.int64(8), form)  # a plain 8 would have all of it compiled once more
        return
    drop_nulls(highs, count, validity, bit)
    for i in range(kept):
        hashes[i] = hash_wide_decimal(words[i], highs[i], work[SEED])
    insert(work, hashes, keep_below(hashes, kept, work[THETA]))


@kernel("void(uint8[::1], int64, int64, uint8[::1], int64, int64, out uint64[::1])")
def update_fixed(
    data: ByteArray, width: int, count: int, validity: ByteArray, bit: int, form: int, work: WorkSpace
) -> None:
    """Take in values of one width.

    Args:
        data: uint8[width · count], the values one after the other, little-endian.
        width: Bytes of a value: 4, 8 or 16.
        count: Number of values.
        validity: Bitmap, least significant bit first, empty if all values are valid.
        bit: Place of the first value in the bitmap.
        form: What the bytes are, a `Form`.
        work: The work space.
    """
    words = work[WORDS:HIGHS]
    hashes = work[HASHES:CACHE]
    is_plain = form == WORD and len(validity) == 0
    begin(work, width, form)
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        if width == 16:
            absorb_wide(work, data, start, size, validity, bit + start, form)
        elif is_plain and work[FILTERS] == NO_FILTER:
            hash_data(data, width, start, size, work[SEED], hashes)
            insert(work, hashes, keep_below(hashes, size, work[THETA]))
            end_round(work, size, size, size)
        else:
            if width == 4:
                for i in range(size):
                    words[i] = load_u32(data, 4 * (start + i))
            else:
                for i in range(size):
                    words[i] = load_u64(data, 8 * (start + i))
            absorb_words(work, drop_nulls(words, size, validity, bit + start), width, form)


@kernel("int64(uint8[::1], uint8[::1], int64, int64, uint8[::1], int64, out uint64[::1])")
def update_offsets(
    data: ByteArray, offsets: ByteArray, width: int, count: int, validity: ByteArray, bit: int, work: WorkSpace
) -> int:
    """Take in consecutive values of any length, except nulls and empty ones.

    Args:
        data: uint8[m], the values.
        offsets: uint8[width · (count + 1)], where each begins and the last ends.
        width: Bytes of an offset, 4 or 8.
        count: Number of values.
        validity: Bitmap, least significant bit first, empty if all values are valid.
        bit: Place of the first value in the bitmap.
        work: The work space.

    Returns:
        -1, or the number of the first value that is outside of the data; the block before it is not taken in.
    """
    hashes = work[HASHES:CACHE]
    size = np.uint64(len(data))
    for first in range(0, count, BLOCK):
        kept = 0
        for i in range(first, min(first + BLOCK, count)):
            if width == 4:
                start = load_u32(offsets, 4 * i)
                end = load_u32(offsets, 4 * i + 4)
            else:
                start = load_u64(offsets, 8 * i)
                end = load_u64(offsets, 8 * i + 8)
            if start > end or end > size:  # negative ones are too large as unsigned numbers
                return i
            if start != end and bit_at(validity, bit + i):
                hashes[kept] = hash_span(data, np.int64(start), np.int64(end - start), work[SEED])
                kept += 1
        insert(work, hashes, keep_below(hashes, kept, work[THETA]))
    return -1


@kernel("int64(uint8[::1], int64[::1], int32[::1], out uint64[::1])")
def update_spans(data: ByteArray, starts: WordArray, lengths: WordArray, work: WorkSpace) -> int:
    """Take in values at any positions of the data, except empty ones.

    Args:
        data: uint8[m].
        starts: int64[n].
        lengths: int32[n].
        work: The work space.

    Returns:
        -1, or the number of the first value that is outside of the data; the block before it is not taken in.
    """
    hashes = work[HASHES:CACHE]
    for first in range(0, len(starts), BLOCK):
        kept = 0
        for i in range(first, min(first + BLOCK, len(starts))):
            start = starts[i]
            length = np.int64(lengths[i])
            if start < 0 or length < 0 or start > len(data) - length:
                return i
            if length > 0:
                hashes[kept] = hash_span(data, start, length, work[SEED])
                kept += 1
        insert(work, hashes, keep_below(hashes, kept, work[THETA]))
    return -1


@kernel("int64(uint8[::1], int64, int64, uint8[::1], int64, out uint8[::1], out int64[::1], int64, out uint64[::1])")
def mark_used(  # noqa: C901  a kernel
    indices: ByteArray,
    width: int,
    count: int,
    validity: ByteArray,
    bit: int,
    used: ByteArray,
    order: WordArray,
    unused: int,
    work: WorkSpace,
) -> int:
    """Note which values of a dictionary are used for the first time.

    Args:
        indices: uint8[width · count], unsigned numbers (a negative one is too large).
        width: Bytes of an index: 1, 2, 4 or 8.
        count: Number of indices.
        validity: Bitmap, least significant bit first, empty if all indices are valid.
        bit: Place of the first index in the bitmap.
        used: uint8[size of the dictionary], 1 for values that were used before; set to 1 for those used now.
        order: int64[unused]; filled with the indices of values used for the first time, in that order.
        unused: Values not used before; when none is left, the rest of the indices is not looked at.
        work: The work space, of which blocks are used.

    Returns:
        How many are used for the first time, or -1 if an index is outside of the dictionary.
    """
    words = work[WORDS:HASHES]  # with room to fill up the last group
    found = 0
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        if width == 4:
            for i in range(size):
                words[i] = load_u32(indices, 4 * (start + i))
        elif width == 1:
            for i in range(size):
                words[i] = np.uint64(indices[start + i])
        elif width == 2:
            for i in range(size):
                words[i] = load_u16(indices, 2 * (start + i))
        else:
            for i in range(size):
                words[i] = load_u64(indices, 8 * (start + i))
        size = drop_nulls(words, size, validity, bit + start)
        largest = U0
        for i in range(size):
            largest = max(largest, words[i])
        if size == 0:
            continue
        if largest >= np.uint64(len(used)):
            return -1
        for i in range(size, size + GROUP):
            words[i] = words[0]  # fills the last group with a value that is known already
        for first in range(0, size, GROUP):
            all_used = np.uint8(1)
            for i in range(GROUP):
                all_used &= used[words[first + i]]
            if all_used == 0:
                for i in range(first, first + GROUP):
                    if used[words[i]] == 0:
                        used[words[i]] = 1
                        order[found] = np.int64(words[i])
                        found += 1
        if found == unused:
            break
    return found
