"""The kernels that take values into a work space: hash them, drop what cannot count, insert the rest.

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
    U4,
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
    FORM,
    HASHES,
    LENGTHS,
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

    WORD_4 = 0
    FLOAT_4 = 1
    WORD_8 = 2
    FLOAT_8 = 3
    DECIMAL_8 = 4
    DECIMAL_16 = 5


WORD_4, FLOAT_4, WORD_8, FLOAT_8, DECIMAL_8, DECIMAL_16 = map(int, Form)  # kernels know no enumerations

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
def make_canonical(words: WordArray, count: int, no_sign: Word, infinity: Word, nan: Word) -> None:
    """Replace every NaN by the one that Java's `floatToIntBits` gives."""
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
def begin_form(work: WorkSpace, form: int) -> None:
    """Empty the cache if it holds values of another form, of which the same numbers have other hashes."""
    if work[FORM] != np.uint64(form):
        work[FORM] = np.uint64(form)
        work[CACHE:TABLE] = NOTHING
        work[CACHE] = NOTHING_IN_SLOT_0
        work[FILTERS] = BOTH_FILTERS
        work[ROUNDS] = U0


@kernel
def hash_words(words: WordArray, count: int, form: int, seed: Word, hashes: WordArray) -> None:
    """Hash a block of values of at most eight bytes; uses up `words`."""
    if form >= DECIMAL_8:
        for i in range(count):
            length = length_with_sign(words[i])
            tail = first_lane(byte_swap(words[i] << (S64 - U8 * length)))
            words[i] = seed ^ length
            hashes[i] = tail
        for i in range(count):
            hashes[i] = finish(words[i] ^ hashes[i], words[i])
    else:
        state = seed ^ (U4 if form <= FLOAT_4 else U8)
        for i in range(count):
            hashes[i] = state ^ first_lane(words[i])
        for i in range(count):
            hashes[i] = finish(hashes[i], state)


@kernel
def absorb_words(work: WorkSpace, count: int, form: int) -> None:
    """Take in the block of values of at most eight bytes."""
    words = work[WORDS:LENGTHS]
    hashes = work[HASHES:CACHE]
    if form == FLOAT_8:
        make_canonical(words, count, NO_SIGN_8, INFINITY_8, NAN_8)
    elif form == FLOAT_4:
        make_canonical(words, count, NO_SIGN_4, INFINITY_4, NAN_4)
    work[ROUNDS] += U1
    before = count
    if work[FILTERS] != NO_FILTER:
        count = drop_repeats(words, count)
    runs = count
    if work[FILTERS] == BOTH_FILTERS:
        count = drop_recent(words, count, work[CACHE:TABLE])
    if work[ROUNDS] > (TRIAL_ROUNDS if work[FILTERS] == BOTH_FILTERS else REST_ROUNDS):
        # Dropping repeats costs a fifth of hashing, looking in the cache three quarters.
        if work[FILTERS] != BOTH_FILTERS or 2 * count < runs:
            work[FILTERS] = BOTH_FILTERS
        else:
            work[FILTERS] = ONLY_REPEATS if 4 * runs < 3 * before else NO_FILTER
        work[ROUNDS] = U0
    hash_words(words, count, form, work[SEED], hashes)
    insert(work, hashes, keep_below(hashes, count, work[THETA]))


@kernel
def absorb_decimals(
    work: WorkSpace, data: ByteArray, position: int, count: int, validity: ByteArray, bit: int, form: int
) -> None:
    """Take in a block of decimals of 128 bits."""
    words = work[WORDS:LENGTHS]
    highs = work[LENGTHS:HASHES]
    hashes = work[HASHES:CACHE]
    wide = U0
    for i in range(count):
        low = load_u64(data, position + 16 * i)
        high = load_u64(data, position + 16 * i + 8)
        words[i] = low
        highs[i] = high
        wide |= high ^ (U0 - (low >> S63))
    kept = drop_nulls(words, count, validity, bit)
    if wide == U0:
        absorb_words(work, kept, form)
        return
    drop_nulls(highs, count, validity, bit)
    for i in range(kept):
        hashes[i] = hash_wide_decimal(words[i], highs[i], work[SEED])
    insert(work, hashes, keep_below(hashes, kept, work[THETA]))


@kernel("void(uint8[::1], int64, uint8[::1], int64, int64, out uint64[::1])")
def update_fixed(data: ByteArray, count: int, validity: ByteArray, bit: int, form: int, work: WorkSpace) -> None:
    """Take in values of one width.

    Args:
        data: uint8[m], the values one after the other, little-endian.
        count: Their number; the caller knows that so many are in the data.
        validity: Bitmap, least significant bit first, empty if all values are valid.
        bit: Place of the first value in the bitmap.
        form: A `Form`, which says how wide they are.
        work: The work space.
    """
    words = work[WORDS:LENGTHS]
    begin_form(work, form)
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        if form == DECIMAL_16:
            absorb_decimals(work, data, 16 * start, size, validity, bit + start, form)
            continue
        if form <= FLOAT_4:
            for i in range(size):
                words[i] = load_u32(data, 4 * (start + i))
        else:
            for i in range(size):
                words[i] = load_u64(data, 8 * (start + i))
        absorb_words(work, drop_nulls(words, size, validity, bit + start), form)


@kernel
def absorb_spans(work: WorkSpace, data: ByteArray, count: int) -> bool:
    """Take in the block of values of any length, whose starts and lengths are in the first two blocks.

    Returns whether all lie within the data; if not, none is taken in.
    """
    starts = work[WORDS:LENGTHS]
    lengths = work[LENGTHS:HASHES]
    hashes = work[HASHES:CACHE]
    size = np.uint64(len(data))
    outside = 0
    empty = 0
    for i in range(count):
        # As unsigned numbers, negative ones are too large as well.
        outside += int((starts[i] > size) | (lengths[i] > size) | (starts[i] + lengths[i] > size))
        empty += int(lengths[i] == U0)
    if outside > 0:
        return False
    if empty > 0:
        kept = 0
        for i in range(count):
            starts[kept] = starts[i]
            lengths[kept] = lengths[i]
            kept += int(lengths[kept] != U0)
        count = kept
    for i in range(count):
        hashes[i] = hash_span(data, np.int64(starts[i]), np.int64(lengths[i]), work[SEED])
    insert(work, hashes, keep_below(hashes, count, work[THETA]))
    return True


@kernel("int64(uint8[::1], uint8[::1], int64, int64, uint8[::1], int64, out uint64[::1])")
def update_offsets(
    data: ByteArray, offsets: ByteArray, width: int, count: int, validity: ByteArray, bit: int, work: WorkSpace
) -> int:
    """Take in values of any length that lie one after the other, without nulls and those of no bytes.

    Args:
        data: uint8[m], the values.
        offsets: uint8[width · (count + 1)], where each begins and the last ends.
        width: Bytes of an offset, 4 or 8.
        count: Number of values.
        validity: Bitmap, least significant bit first, empty if all values are valid.
        bit: Place of the first value in the bitmap.
        work: The work space.

    Returns:
        -1, or the number of the first value of a block in which one lies outside the data.
    """
    starts = work[WORDS:LENGTHS]
    lengths = work[LENGTHS:HASHES]
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        if width == 4:
            for i in range(size):
                starts[i] = load_u32(offsets, 4 * (start + i))
                lengths[i] = load_u32(offsets, 4 * (start + i) + 4) - starts[i]
        else:
            for i in range(size):
                starts[i] = load_u64(offsets, 8 * (start + i))
                lengths[i] = load_u64(offsets, 8 * (start + i) + 8) - starts[i]
        drop_nulls(starts, size, validity, bit + start)
        if not absorb_spans(work, data, drop_nulls(lengths, size, validity, bit + start)):
            return start
    return -1


@kernel("int64(uint8[::1], int64[::1], int32[::1], out uint64[::1])")
def update_spans(data: ByteArray, starts: WordArray, lengths: WordArray, work: WorkSpace) -> int:
    """Take in values that lie anywhere in the data, without those of no bytes.

    Args:
        data: uint8[m].
        starts: int64[n].
        lengths: int32[n].
        work: The work space.

    Returns:
        -1, or the number of the first value of a block in which one lies outside the data.
    """
    for start in range(0, len(starts), BLOCK):
        size = min(BLOCK, len(starts) - start)
        for i in range(size):
            work[WORDS + i] = np.uint64(starts[start + i])
            work[LENGTHS + i] = np.uint64(np.int64(lengths[start + i]))
        if not absorb_spans(work, data, size):
            return start
    return -1


@kernel("int64(uint8[::1], int64, int64, uint8[::1], int64, out uint8[::1], out int64[::1], int64, out uint64[::1])")
def mark_used(
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
        How many are used for the first time, or -1 if an index lies outside the dictionary.
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
            words[i] = words[0]  # fills the last group with what is no news
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
