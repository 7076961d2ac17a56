"""Finding keys among sorted ones by binary search.

Spec: docs/formats/paimon.md § 8.6.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from skerry.kernels import kernel
from skerry.paimon.merging.order_keys import OrderKeys
from skerry.paimon.merging.order_keys import compare_keys as compare

__all__ = ["search_keys"]

RowNumbers: TypeAlias = npt.NDArray[np.int64]


def search_keys(keys: OrderKeys, wanted: OrderKeys, *, after: bool = False) -> tuple[RowNumbers, npt.NDArray[np.bool_]]:
    """Find keys.

    Args:
        keys: Ascending keys to search; they may repeat.
        wanted: The keys to find, encoded like `keys`; fastest if they are ascending, too.
        after: Whether to find the end of equal keys instead of their beginning.

    Returns:
        int64[wanted]: the first row of `keys` that is not below each, or with `after` the first one above it; and
        bool[wanted]: whether that row is equal.
    """
    if keys.is_exact:
        places = np.searchsorted(keys.words, wanted.words, side="right" if after else "left")
        if not len(keys):
            return places, np.zeros(len(wanted), np.bool_)
        return places, (places < len(keys)) & (keys.words[np.minimum(places, len(keys) - 1)] == wanted.words)
    places, equal = np.empty(len(wanted), np.int64), np.zeros(len(wanted), np.uint8)
    of_wanted = (wanted.words, wanted.data, wanted.offsets)
    _search(keys.words, keys.data, keys.offsets, *of_wanted, int(after), places, equal)
    return places, equal.view(np.bool_)


@kernel(
    "void(uint64[::1], uint8[::1], int64[::1], uint64[::1], uint8[::1], int64[::1], int64, out int64[::1],"
    " out uint8[::1])"
)
def _search(
    words: Any,
    data: Any,
    offsets: Any,
    other_words: Any,
    other_data: Any,
    other_offsets: Any,
    limit: int,
    places: Any,
    equal: Any,
) -> None:
    """Search from the place of the key before, in steps that double: short if many keys are wanted."""
    count = len(words)
    start = 0
    for i in range(len(other_words)):
        if start > 0 and compare(words, data, offsets, start - 1, other_words, other_data, other_offsets, i) >= limit:
            start = 0
        step = 1
        low, high = start, start
        while high < count and compare(words, data, offsets, high, other_words, other_data, other_offsets, i) < limit:
            low = high + 1
            high += step
            step *= 2
        high = min(high, count)
        while low < high:
            middle = (low + high) // 2
            if compare(words, data, offsets, middle, other_words, other_data, other_offsets, i) < limit:
                low = middle + 1
            else:
                high = middle
        places[i] = low
        is_equal = low < count and compare(words, data, offsets, low, other_words, other_data, other_offsets, i) == 0
        equal[i] = 1 if is_equal else 0
        start = low
