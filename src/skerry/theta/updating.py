"""The kernels that take values into a set of hashes: hash, drop what cannot count, insert, lower the threshold.

All state lies in one array of uint64, the *work space*, so that a call from Python crosses with one pointer: numbers
(`THETA` …), three blocks that hold the values at hand, the cache of recent values, and an open-addressing hash table.

Values pass in blocks of 1,024, small enough for the first-level cache. Each step is a loop without branches on data:

1. copy valid values to the block;
2. drop values that a direct-mapped cache saw lately, unless nearly none are (a run, a key of few values);
3. hash, in two loops rather than one, because a processor overlaps short chains of dependent steps better;
4. keep hashes below the threshold θ; for a column of many values almost none are;
5. insert the rest in the table. Either rule of lowering θ keeps every hash below θ that was ever seen, which makes it
   harmless to drop values seen before.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from skerry.kernels import byte_swap, kernel
from skerry.theta.hashing import (
    S63,
    S64,
    U0,
    U1,
    U8,
    finish,
    first_lane,
    hash_span,
    hash_wide_decimal,
    length_with_sign,
)

__all__ = [
    "BLOCK",
    "Form",
    "Rule",
    "mark_used_1",
    "mark_used_2",
    "mark_used_4",
    "mark_used_8",
    "table_of",
    "theta_of",
    "update_decimals",
    "update_offsets_4",
    "update_offsets_8",
    "update_spans",
    "update_words_4",
    "update_words_8",
    "work_space",
]


class Rule(IntEnum):
    """How the threshold is lowered when more hashes come than are kept."""

    ALPHA = 0
    """By the factor k/(k+1) with every distinct hash after the k-th (DataSketches' Alpha family)."""
    SMALLEST = 1
    """To the (k+1)-th smallest hash: the result does not depend on the order of values."""


class Form(IntEnum):
    """What the bytes of a fixed-width value are and how they are hashed."""

    WORD_4 = 0
    WORD_8 = 1
    FLOAT_4 = 2
    FLOAT_8 = 3
    DECIMAL = 4


# Kernels see enumeration members as plain numbers.
ALPHA, SMALLEST = int(Rule.ALPHA), int(Rule.SMALLEST)
WORD_4, WORD_8, FLOAT_4, FLOAT_8, DECIMAL = (int(form) for form in Form)

BLOCK = 1024
CACHE_BITS = 14
_CACHE = 1 << CACHE_BITS

# The numbers at the start of the work space …
THETA, COUNT, SEEN, K, LIMIT, RULE, SEED, CACHING, ROUNDS = range(9)
# … and where its parts begin.
WORDS = 16
LENGTHS = WORDS + BLOCK
HASHES = LENGTHS + BLOCK
CACHE = HASHES + BLOCK
TABLE = CACHE + _CACHE

# The table is copied when it holds one hash more than the limit, and copying without branches writes one place on.
SPARE_EXTRA = 2

TRIAL_ROUNDS = 16  # blocks in which the cache may prove useful …
REST_ROUNDS = 512  # … and blocks without it before the next trial
CACHE_MASK = np.uint64(_CACHE - 1)
S14, S29 = np.uint64(14), np.uint64(29)
NO_SIGN_4, INFINITY_4, NAN_4 = np.uint64(0x7FFFFFFF), np.uint64(0x7F800000), np.uint64(0x7FC00000)
NO_SIGN_8, INFINITY_8, NAN_8 = np.uint64((1 << 63) - 1), np.uint64(0x7FF << 52), np.uint64(0x7FF8 << 48)


def work_space(k: int, rule: Rule, seed: int) -> np.ndarray:
    """A fresh work space.

    Args:
        k: Hashes to keep, a power of 2.
        rule: How the threshold is lowered.
        seed: Seed of the hash.

    Returns:
        uint64[n].
    """
    # Alpha keeps about k hashes and drops the rest when the table is ¾ full; at 4,096 that is 90 standard deviations
    # away, and a small sketch gets a table as if it were larger. The other rule cuts 2k hashes to k.
    slots = max(4 * k, 1024)
    limit = slots // 4 * 3 if rule is Rule.ALPHA else 2 * k
    work = np.zeros(TABLE + slots + limit + SPARE_EXTRA, np.uint64)
    work[[THETA, K, LIMIT, RULE, SEED, CACHING]] = ((1 << 63) - 1, k, limit, rule, seed & ((1 << 64) - 1), 1)
    work[CACHE] = 1  # zeros mean "nothing" everywhere but in the slot that 0 belongs to
    return work


def theta_of(work: np.ndarray) -> int:
    """The threshold."""
    return int(work[THETA])


def table_of(work: np.ndarray) -> np.ndarray:
    """The hash table (a view): hashes, some of them at or above the threshold, and zeros."""
    return work[TABLE : len(work) - int(work[LIMIT]) - SPARE_EXTRA]


@kernel
def gather(values, start, count, validity, bit, words):
    """Copy the valid ones of `count` values to a block, widened to 64 bits; returns how many."""
    if len(validity) == 0:
        for i in range(count):
            words[i] = values[start + i]
        return count
    kept = 0
    for i in range(count):
        position = bit + start + i
        words[kept] = values[start + i]
        kept += np.int64((validity[position >> 3] >> (position & 7)) & 1)
    return kept


@kernel
def make_canonical(words, count, no_sign, infinity, nan):
    """Replace every NaN by the one that Java's `floatToIntBits` gives."""
    for i in range(count):
        word = words[i]
        words[i] = nan if (word & no_sign) > infinity else word


@kernel
def drop_recent(words, count, cache):
    """Keep the values that the cache does not hold, and put all in it; returns how many are kept."""
    kept = 0
    for i in range(count):
        word = words[i]
        folded = word ^ (word >> S29)
        slot = (folded ^ (folded >> S14)) & CACHE_MASK
        is_new = cache[slot] != word
        cache[slot] = word
        words[kept] = word
        kept += np.int64(is_new)
    return kept


@kernel
def hash_words(words, count, form, seed, hashes):
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
        state = seed ^ (U8 if form == WORD_8 or form == FLOAT_8 else U8 >> U1)
        for i in range(count):
            hashes[i] = state ^ first_lane(words[i])
        for i in range(count):
            hashes[i] = finish(hashes[i], state)


@kernel
def keep_below(hashes, count, theta):
    """Move the hashes below the threshold to the front; returns how many."""
    kept = 0
    for i in range(count):
        hash_ = hashes[i]
        hashes[kept] = hash_
        kept += np.int64(hash_ < theta)
    return kept


@kernel
def select(values, count, rank):
    """The value of a rank (from 0) among `count` distinct ones, by quickselect; changes their order."""
    low = 0
    high = count - 1
    while low < high:
        pivot = values[(low + high) >> 1]
        left = low
        right = high
        while left <= right:
            while values[left] < pivot:
                left += 1
            while values[right] > pivot:
                right -= 1
            if left <= right:
                values[left], values[right] = values[right], values[left]
                left += 1
                right -= 1
        if rank <= right:
            high = right
        elif rank >= left:
            low = left
        else:
            break
    return values[rank]


@kernel
def place(table, hash_):
    """Put a hash in the table; returns 1, or 0 if it is there."""
    mask = np.uint64(len(table) - 1)
    slot = hash_ & mask
    while table[slot] != U0:
        if table[slot] == hash_:
            return 0
        slot = (slot + U1) & mask
    table[slot] = hash_
    return 1


@kernel
def lower(work, table, spare):
    """Make room in a full table: find the threshold if the rule says so, and drop what lies above it."""
    count = 0
    for slot in range(len(table)):
        spare[count] = table[slot]
        count += np.int64(table[slot] != U0)
        table[slot] = U0
    if work[RULE] == SMALLEST:
        work[THETA] = select(spare, count, np.int64(work[K]))
    count = keep_below(spare, count, work[THETA])
    for i in range(count):
        place(table, spare[i])
    work[COUNT] = np.uint64(count)


@kernel
def insert(work, hashes, count):
    """Put hashes in the table as long as they are below the threshold, which falls meanwhile."""
    limit = np.int64(work[LIMIT])
    table = work[TABLE : len(work) - limit - SPARE_EXTRA]
    spare = work[len(work) - limit - SPARE_EXTRA :]
    k = work[K]
    shrink = np.float64(np.int64(k)) / (np.float64(np.int64(k)) + 1.0)
    is_alpha = work[RULE] == ALPHA
    for i in range(count):
        hash_ = hashes[i]
        if hash_ >= work[THETA] or hash_ == U0 or place(table, hash_) == 0:
            continue
        work[COUNT] += U1
        if is_alpha:
            work[SEEN] += U1
            if work[SEEN] > k:
                work[THETA] = np.uint64(np.int64(np.float64(np.int64(work[THETA])) * shrink))
        if np.int64(work[COUNT]) > limit:
            lower(work, table, spare)


@kernel
def absorb(work, count, form):
    """Take in the block of values."""
    words = work[WORDS:LENGTHS]
    hashes = work[HASHES:CACHE]
    if form == FLOAT_8:
        make_canonical(words, count, NO_SIGN_8, INFINITY_8, NAN_8)
    elif form == FLOAT_4:
        make_canonical(words, count, NO_SIGN_4, INFINITY_4, NAN_4)
    work[ROUNDS] += U1
    if work[CACHING] != U0:
        before = count
        count = drop_recent(words, count, work[CACHE:TABLE])
        if 2 * count > before and np.int64(work[ROUNDS]) > TRIAL_ROUNDS:
            work[CACHING] = U0
            work[ROUNDS] = U0
    elif np.int64(work[ROUNDS]) > REST_ROUNDS:
        work[CACHING] = U1
        work[ROUNDS] = U0
    hash_words(words, count, form, work[SEED], hashes)
    insert(work, hashes, keep_below(hashes, count, work[THETA]))


@kernel
def update_words(values, validity, bit, form, work):
    """Take in fixed-width values; `bit` is the place of the first in the validity bitmap."""
    words = work[WORDS:LENGTHS]
    for start in range(0, len(values), BLOCK):
        count = min(BLOCK, len(values) - start)
        absorb(work, gather(values, start, count, validity, bit, words), form)
    return 0


@kernel("int64(uint32[::1], uint8[::1], int64, int64, out uint64[::1])")
def update_words_4(values, validity, bit, form, work):
    """Take in values of 4 bytes.

    Args:
        values: uint32[n].
        validity: Bitmap, least significant bit first, empty if all are valid.
        bit: Place of the first value in the bitmap.
        form: A `Form`.
        work: The work space.

    Returns:
        0.
    """
    return update_words(values, validity, bit, form, work)


@kernel("int64(uint64[::1], uint8[::1], int64, int64, out uint64[::1])")
def update_words_8(values, validity, bit, form, work):
    """Take in values of 8 bytes, likewise."""
    return update_words(values, validity, bit, form, work)


@kernel("int64(uint64[:, ::1], uint8[::1], int64, out uint64[::1])")
def update_decimals(values, validity, bit, work):
    """Take in decimals of 128 bits.

    Args:
        values: uint64[n, 2], low and high half of the unscaled values.
        validity: Bitmap, least significant bit first, empty if all are valid.
        bit: Place of the first value in the bitmap.
        work: The work space.

    Returns:
        0.
    """
    words = work[WORDS:LENGTHS]
    highs = work[LENGTHS:HASHES]
    hashes = work[HASHES:CACHE]
    for start in range(0, len(values), BLOCK):
        count = min(BLOCK, len(values) - start)
        kept = 0
        wide = U0
        for i in range(count):
            low = values[start + i, 0]
            high = values[start + i, 1]
            words[kept] = low
            highs[kept] = high
            is_valid = np.int64(1)
            if len(validity) > 0:
                position = bit + start + i
                is_valid = np.int64((validity[position >> 3] >> (position & 7)) & 1)
            wide |= (high ^ (U0 - (low >> S63))) & (U0 - np.uint64(is_valid))
            kept += is_valid
        if wide == U0:
            absorb(work, kept, DECIMAL)
        else:
            for i in range(kept):
                hashes[i] = hash_wide_decimal(words[i], highs[i], work[SEED])
            insert(work, hashes, keep_below(hashes, kept, work[THETA]))
    return 0


@kernel
def absorb_spans(work, data, count):
    """Take in the block of values of any length, whose starts and lengths are in the first two blocks.

    Returns:
        0, or -1 if one lies outside the data.
    """
    starts = work[WORDS:LENGTHS]
    lengths = work[LENGTHS:HASHES]
    hashes = work[HASHES:CACHE]
    size = np.uint64(len(data))
    outside = 0
    for i in range(count):
        # As unsigned numbers negative ones are too large as well.
        outside += np.int64((starts[i] > size) | (lengths[i] > size) | (starts[i] + lengths[i] > size))
    if outside > 0:
        return -1
    for i in range(count):
        hashes[i] = hash_span(data, np.int64(starts[i]), np.int64(lengths[i]), work[SEED])
    insert(work, hashes, keep_below(hashes, count, work[THETA]))
    return 0


@kernel
def update_offsets(data, offsets, validity, bit, work):
    """Take in the values between offsets, without nulls and those of no bytes."""
    starts = work[WORDS:LENGTHS]
    lengths = work[LENGTHS:HASHES]
    for start in range(0, len(offsets) - 1, BLOCK):
        count = min(BLOCK, len(offsets) - 1 - start)
        kept = 0
        for i in range(start, start + count):
            length = offsets[i + 1] - offsets[i]
            starts[kept] = np.uint64(np.int64(offsets[i]))
            lengths[kept] = np.uint64(np.int64(length))
            is_valid = np.int64(1)
            if len(validity) > 0:
                is_valid = np.int64((validity[(bit + i) >> 3] >> ((bit + i) & 7)) & 1)
            kept += is_valid & np.int64(length != 0)
        if absorb_spans(work, data, kept) < 0:
            return start + 1
    return 0


@kernel("int64(uint8[::1], int32[::1], uint8[::1], int64, out uint64[::1])")
def update_offsets_4(data, offsets, validity, bit, work):
    """Take in strings or binary values.

    Args:
        data: uint8[m], the values one after the other.
        offsets: int32[n + 1], where each begins and the last ends.
        validity: Bitmap, least significant bit first, empty if all are valid.
        bit: Place of the first value in the bitmap.
        work: The work space.

    Returns:
        0, or 1 plus the number of the block's first value if one lies outside the data.
    """
    return update_offsets(data, offsets, validity, bit, work)


@kernel("int64(uint8[::1], int64[::1], uint8[::1], int64, out uint64[::1])")
def update_offsets_8(data, offsets, validity, bit, work):
    """Take in large strings or large binary values, likewise, with int64 offsets."""
    return update_offsets(data, offsets, validity, bit, work)


@kernel("int64(uint8[::1], int64[::1], int32[::1], out uint64[::1])")
def update_spans(data, starts, lengths, work):
    """Take in values that lie anywhere in the data.

    Args:
        data: uint8[m].
        starts: int64[n].
        lengths: int32[n].
        work: The work space.

    Returns:
        0, or 1 plus the number of the block's first value if one lies outside the data.
    """
    for start in range(0, len(starts), BLOCK):
        count = min(BLOCK, len(starts) - start)
        kept = 0
        for i in range(start, start + count):
            work[WORDS + kept] = np.uint64(starts[i])
            work[LENGTHS + kept] = np.uint64(np.int64(lengths[i]))
            kept += np.int64(lengths[i] != 0)
        if absorb_spans(work, data, kept) < 0:
            return start + 1
    return 0


@kernel
def mark_used(indices, validity, bit, used, order):
    """Note the dictionary's values that are used, in the order of first use.

    Returns:
        How many, or -1 if an index lies outside the dictionary.
    """
    found = 0
    size = np.uint64(len(used))
    for start in range(0, len(indices), BLOCK):
        count = min(BLOCK, len(indices) - start)
        if len(validity) == 0:
            outside = 0
            for i in range(start, start + count):
                outside += np.int64(np.uint64(indices[i]) >= size)
            if outside > 0:
                return -1
            for i in range(start, start + count):
                index = np.uint64(indices[i])
                if used[index] == 0:
                    used[index] = 1
                    order[found] = np.int64(index)
                    found += 1
        else:
            for i in range(start, start + count):
                if (validity[(bit + i) >> 3] >> ((bit + i) & 7)) & 1:
                    index = np.uint64(indices[i])
                    if index >= size:
                        return -1
                    if used[index] == 0:
                        used[index] = 1
                        order[found] = np.int64(index)
                        found += 1
        if found == len(used):
            break
    return found


@kernel("int64(uint8[::1], uint8[::1], int64, out uint8[::1], out int64[::1])")
def mark_used_1(indices, validity, bit, used, order):
    """Note which values of a dictionary are used.

    Args:
        indices: uint8[n]; negative ones are as large as they look unsigned.
        validity: Bitmap, least significant bit first, empty if all are valid.
        bit: Place of the first index in the bitmap.
        used: uint8[size of the dictionary], zeros; set to 1 for the values used.
        order: int64[size of the dictionary]; filled with the indices in the order of first use.

    Returns:
        How many are used, or -1 if an index lies outside the dictionary.
    """
    return mark_used(indices, validity, bit, used, order)


@kernel("int64(uint16[::1], uint8[::1], int64, out uint8[::1], out int64[::1])")
def mark_used_2(indices, validity, bit, used, order):
    """Note which values of a dictionary are used, by indices of 2 bytes."""
    return mark_used(indices, validity, bit, used, order)


@kernel("int64(uint32[::1], uint8[::1], int64, out uint8[::1], out int64[::1])")
def mark_used_4(indices, validity, bit, used, order):
    """Note which values of a dictionary are used, by indices of 4 bytes."""
    return mark_used(indices, validity, bit, used, order)


@kernel("int64(uint64[::1], uint8[::1], int64, out uint8[::1], out int64[::1])")
def mark_used_8(indices, validity, bit, used, order):
    """Note which values of a dictionary are used, by indices of 8 bytes."""
    return mark_used(indices, validity, bit, used, order)
