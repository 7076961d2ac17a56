"""The hashes of a sketch that is being built, in one array, and the kernels that insert more.

All state is in one array of uint64, the *work space*, so that a call from Python crosses with one pointer: numbers
(`THETA` …), blocks that hold the values at hand, a cache of recent values, an open-addressing hash table and room to
copy the table to when it is full.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np

from skerry.kernels import kernel
from skerry.theta.hashing import U0, U1, Word
from skerry.theta.layout import MAX_THETA, Hashes

__all__ = ["BLOCK", "Rule", "WorkSpace", "hashes_in", "insert", "keep_below", "theta_of", "work_space"]

WorkSpace: TypeAlias = Any  # uint64[n]
WordArray: TypeAlias = Any  # uint64[n]


class Rule(IntEnum):
    """How the threshold is lowered when more hashes come than are kept."""

    ALPHA = 0
    """By the factor k/(k+1) with every distinct hash after the k-th (DataSketches' Alpha family)."""
    SMALLEST = 1
    """To the (k+1)-th smallest hash: the result does not depend on the order of values."""


BLOCK = 1024  # values in a block: all blocks together fit the first-level cache
CACHE_BITS = 14
_CACHE_SLOTS = 1 << CACHE_BITS

# The numbers at the start of the work space …
THETA, COUNT, SEEN, K, LIMIT, RULE, SEED, KIND, FILTERS, ROUNDS = range(10)
# … and where its parts begin.
WORDS = 16
HIGHS = WORDS + BLOCK
HASHES = HIGHS + BLOCK
CACHE = HASHES + BLOCK
TABLE = CACHE + _CACHE_SLOTS
# The table is copied when it holds one hash more than the limit, and copying without branches writes one place on.
SPARE_EXTRA = 2

# A slot of the cache holds nothing as long as it holds a value of another slot: 0 belongs to slot 0, and 1 to slot 1.
NOTHING, NOTHING_IN_SLOT_0 = np.uint64(0), np.uint64(1)
# Values of FILTERS: a trial of both comes first.
BOTH_FILTERS, ONLY_REPEATS, NO_FILTER = np.uint64(0), np.uint64(1), np.uint64(2)

ALPHA, SMALLEST = int(Rule.ALPHA), int(Rule.SMALLEST)  # kernels know no enumerations


def work_space(k: int, rule: Rule, seed: int) -> WorkSpace:
    """A fresh work space.

    Args:
        k: Hashes to keep.
        rule: How the threshold is lowered.
        seed: Seed of the hash.

    Returns:
        uint64[n].
    """
    slots = max(1024, 1 << (4 * k - 1).bit_length())
    # Alpha keeps k hashes give or take √(k/2), and drops what is above the threshold when its table is ¾ full, which
    # leaves room for 64 standard deviations even in the smallest table. The other rule cuts 2k hashes to k.
    limit = slots // 4 * 3 if rule is Rule.ALPHA else 2 * k
    work = np.zeros(TABLE + slots + limit + SPARE_EXTRA, np.uint64)
    for place_, number in ((THETA, MAX_THETA), (K, k), (LIMIT, limit), (RULE, rule), (SEED, seed)):
        work[place_] = number & 0xFFFFFFFFFFFFFFFF
    work[CACHE] = NOTHING_IN_SLOT_0
    return work


def theta_of(work: WorkSpace) -> int:
    """The threshold."""
    return int(work[THETA])


def hashes_in(work: WorkSpace) -> Hashes:
    """uint64[n], ascending: the hashes below the threshold."""
    table = work[TABLE : len(work) - int(work[LIMIT]) - SPARE_EXTRA]
    hashes: Hashes = table[(table != 0) & (table < work[THETA])]
    hashes.sort()
    return hashes


@kernel
def keep_below(hashes: WordArray, count: int, theta: Word) -> int:
    """Move the hashes below the threshold to the front; returns how many."""
    kept = 0
    for i in range(count):
        hash_ = hashes[i]
        hashes[kept] = hash_
        kept += int(hash_ < theta)
    return kept


@kernel
def select(values: WordArray, count: int, rank: int) -> Word:
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
def place(table: WordArray, hash_: Word) -> bool:
    """Put a hash in the table; returns whether it was new."""
    mask = np.uint64(len(table) - 1)
    slot = hash_ & mask
    while table[slot] != U0:
        if table[slot] == hash_:
            return False
        slot = (slot + U1) & mask
    table[slot] = hash_
    return True


@kernel
def keep_absent(table: WordArray, hashes: WordArray, count: int) -> int:
    """Move the hashes that are not in their own slot to the front; returns how many.

    Most hashes below the threshold were seen before: this drops them without a branch that is hard to foresee.
    """
    mask = np.uint64(len(table) - 1)
    kept = 0
    for i in range(count):
        hash_ = hashes[i]
        hashes[kept] = hash_
        kept += int(table[hash_ & mask] != hash_)
    return kept


@kernel
def lower(work: WorkSpace, table: WordArray, spare: WordArray) -> None:
    """Make room in a full table: find the threshold if the rule says so, and drop what is above it."""
    count: Any = np.int64(0)  # numba would compile all that is called with it a second time, for the constant 0
    for slot in range(len(table)):
        spare[count] = table[slot]
        count += int(table[slot] != U0)
        table[slot] = U0
    if work[RULE] == SMALLEST:
        work[THETA] = select(spare, count, np.int64(work[K]))
    count = keep_below(spare, count, work[THETA])
    for i in range(count):
        place(table, spare[i])
    work[COUNT] = np.uint64(count)


@kernel
def insert(work: WorkSpace, hashes: WordArray, count: int) -> None:
    """Put hashes in the table as long as they are below the threshold, which falls meanwhile."""
    limit = np.int64(work[LIMIT])
    table = work[TABLE : len(work) - limit - SPARE_EXTRA]
    spare = work[len(work) - limit - SPARE_EXTRA :]
    k = work[K]
    shrink = np.float64(np.int64(k)) / (np.float64(np.int64(k)) + 1.0)
    is_alpha = work[RULE] == ALPHA
    for i in range(keep_absent(table, hashes, count)):
        hash_ = hashes[i]
        if hash_ >= work[THETA] or hash_ == U0 or not place(table, hash_):
            continue
        work[COUNT] += U1
        if is_alpha:
            work[SEEN] += U1
            if work[SEEN] > k:
                work[THETA] = np.uint64(np.int64(np.float64(np.int64(work[THETA])) * shrink))
        if np.int64(work[COUNT]) > limit:
            lower(work, table, spare)
