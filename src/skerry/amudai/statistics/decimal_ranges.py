"""The least and the greatest decimals of a column, in all and in every block.

Decimals that came from Arrow are compared as integers of 128 bits, all of one scale. Those that came as decimal128, of
many scales, are ranked through Python's decimals, each distinct one once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from skerry.amudai.shard.schema import BasicType
from skerry.amudai.statistics.range_index import BLOCK_POSITIONS, RangeIndex, index_numbers
from skerry.amudai.values.decimals import DECIMAL_BYTES, decode_decimal
from skerry.kernels import kernel

__all__ = ["DecimalSummary", "summarize_decimals"]

_Encoded = npt.NDArray[np.uint8]
_Valid = npt.NDArray[np.bool_] | None


@dataclass(frozen=True, slots=True)
class DecimalSummary:
    """Statistics of decimals.

    Args:
        index: Ranges of blocks.
        bounds: The least and the greatest, encoded; None if there is none.
        positive_count: How many are greater than zero.
        negative_count: How many are less.
        nan_count: How many are NaN.
    """

    index: RangeIndex
    bounds: tuple[bytes, bytes] | None
    positive_count: int
    negative_count: int
    nan_count: int


def summarize_decimals(encoded: _Encoded, words: npt.NDArray[np.uint64] | None, valid: _Valid) -> DecimalSummary:
    """Compare the decimals of a column.

    Args:
        encoded: uint8[n, 16], n > 0.
        words: uint64[2n], the lower and the upper half of integers of the same order; None if that is not known.
        valid: bool[n]; None if there are no nulls.
    """
    if words is None:
        return _summarize_ranked(encoded, valid)
    blocks = -(-len(encoded) // BLOCK_POSITIONS)
    lows, highs = np.full(blocks, -1, np.int64), np.full(blocks, -1, np.int64)
    nulls = np.zeros(blocks, np.uint16)
    flags = valid.view(np.uint8) if valid is not None else np.empty(0, np.uint8)
    find_wide_ranges(words, flags, lows, highs, nulls)
    having = lows >= 0
    bounds = None
    if having.any():
        least, most = _sorted_rows(words, lows[having])[0], _sorted_rows(words, highs[having])[-1]
        bounds = encoded[least].tobytes(), encoded[most].tobytes()
    negative = words[1::2].view(np.int64) < 0
    nonzero = (words[0::2] | words[1::2]) != 0
    if valid is not None:
        negative, nonzero = negative & valid, nonzero & valid
    below = int(np.count_nonzero(negative))
    index = _index(len(encoded), encoded[lows], encoded[highs], having, nulls)
    return DecimalSummary(index, bounds, int(np.count_nonzero(nonzero)) - below, below, 0)


def _sorted_rows(words: npt.NDArray[np.uint64], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The rows in the order of their integers."""
    return rows[np.lexsort((words[2 * rows], words[2 * rows + 1].view(np.int64)))]


def _index(positions: int, lows: _Encoded, highs: _Encoded, having: npt.NDArray[np.bool_], invalid: Any) -> RangeIndex:
    lows[~having] = highs[~having] = 0
    return RangeIndex(BasicType.FIXED_SIZE_BINARY, positions, BLOCK_POSITIONS, lows, highs, invalid)


def _summarize_ranked(encoded: _Encoded, valid: _Valid) -> DecimalSummary:
    distinct, inverse = np.unique(encoded.view(f"V{DECIMAL_BYTES}").ravel(), return_inverse=True)
    numbers = [decode_decimal(entry.tobytes()) for entry in distinct]
    finite = [i for i, number in enumerate(numbers) if not number.is_nan()]
    order = sorted(finite, key=lambda i: numbers[i])
    ranks = np.full(len(numbers), np.nan)
    ranks[order] = np.arange(len(order))
    ranked = index_numbers(BasicType.FLOAT64, ranks[inverse], valid)
    having = ranked.has_values
    entries = distinct.view(np.uint8).reshape(-1, DECIMAL_BYTES)
    sorted_entries = entries[order] if order else np.zeros((1, DECIMAL_BYTES), np.uint8)
    low, high = (sorted_entries[ranks_of.astype(np.int64)] for ranks_of in (ranked.lows, ranked.highs))
    found = ranked.bounds()
    bounds = (
        None if found is None else (sorted_entries[int(found[0])].tobytes(), sorted_entries[int(found[1])].tobytes())
    )
    signs = np.array([0 if number.is_nan() or not number else -1 if number < 0 else 1 for number in numbers])
    signs, nans = signs[inverse], np.isnan(ranks)[inverse]
    if valid is not None:
        signs, nans = signs[valid], nans[valid]
    index = _index(len(encoded), low, high, having, ranked.invalid_counts)
    return DecimalSummary(index, bounds, int((signs > 0).sum()), int((signs < 0).sum()), int(nans.sum()))


SIGN = np.uint64(1 << 63)


@kernel("int64(uint64[::1], uint8[::1], out int64[::1], out int64[::1], out uint16[::1])")
def find_wide_ranges(words: Any, flags: Any, lows: Any, highs: Any, nulls: Any) -> int:
    """Note which row of each block of 256 has the least and which the greatest integer of 128 bits, and count nulls."""
    for row in range(len(words) // 2):
        block = row // 256
        if len(flags) > 0 and flags[row] == 0:
            nulls[block] += 1
            continue
        low, high = words[2 * row], words[2 * row + 1] ^ SIGN
        other = lows[block]
        if other < 0:
            lows[block] = row
            highs[block] = row
            continue
        least = words[2 * other + 1] ^ SIGN
        if high < least or (high == least and low < words[2 * other]):
            lows[block] = row
        other = highs[block]
        most = words[2 * other + 1] ^ SIGN
        if high > most or (high == most and low > words[2 * other]):
            highs[block] = row
    return 0
