"""Lists of positions: as they are, as ranges, or as ranges that may hold other positions too.

Spec: docs/formats/amudai-indexes.md § 2.5.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skerry.errors import FormatError
from skerry.kernels import kernel

__all__ = ["Representation", "decode_positions", "encode_positions"]

LIST_LIMIT = 64  # positions, and exact ranges, that are kept whatever they are
MAX_GAP = 3  # rows between ranges that are joined
POSITIONS, EXACT_RANGES, APPROXIMATE_RANGES = 0, 1, 2
_RULE: Final = "docs/formats/amudai-indexes.md § 2.5"


class Representation(IntEnum):
    """What a slice of the positions column is."""

    POSITIONS = POSITIONS
    """Ascending positions."""
    EXACT_RANGES = EXACT_RANGES
    """Starts and ends of ranges."""
    APPROXIMATE_RANGES = APPROXIMATE_RANGES
    """Starts and ends of ranges whose positions may be in the list."""


def encode_positions(
    positions: npt.NDArray[np.uint32],
    starts: npt.NDArray[np.int64],
    stops: npt.NDArray[np.int64],
    possible: npt.NDArray[np.bool_] | None = None,
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Encode lists.

    Args:
        positions: uint32[m], those of many lists.
        starts: int64[n], where the positions of each list begin; they ascend and are distinct.
        stops: int64[n], where they end.
        possible: bool[n], the lists of which not all positions are certain; none by default.

    Returns:
        uint64[k] the positions column, uint8[n] the representation of each list, and int64[n] where each ends.
    """
    encoded = np.empty(2 * int((stops - starts).sum()), np.uint64)
    representations, ends = np.empty(len(starts), np.uint8), np.empty(len(starts), np.int64)
    uncertain = np.zeros(len(starts), np.uint8) if possible is None else possible.astype(np.uint8)
    size = encode_lists(positions, starts, stops, uncertain, encoded, representations, ends)
    return encoded[:size], representations, ends


@kernel
def count_ranges(positions: Any, start: int, stop: int, gap: int) -> int:
    """How many ranges there are, where rows up to `gap` between two are taken in."""
    count = 1
    for i in range(start + 1, stop):
        if np.int64(positions[i]) - np.int64(positions[i - 1]) > gap + 1:
            count += 1
    return count


@kernel("int64(uint32[::1], int64[::1], int64[::1], uint8[::1], out uint64[::1], out uint8[::1], out int64[::1])")
def encode_lists(
    positions: Any, starts: Any, stops: Any, uncertain: Any, encoded: Any, representations: Any, ends: Any
) -> int:
    """Encode lists, end to end, each in at most twice as many numbers as it has positions.

    Returns:
        How many numbers there are.
    """
    place: Any = np.int64(0)
    for i in range(len(starts)):
        start, stop = starts[i], stops[i]
        size = stop - start
        ranges = count_ranges(positions, start, stop, 0) if size > LIST_LIMIT else size
        gap = 0
        if uncertain[i] == 0 and (size <= LIST_LIMIT or ranges == size):
            representations[i] = POSITIONS
            for j in range(start, stop):
                encoded[place] = positions[j]
                place += 1
        else:
            representations[i] = EXACT_RANGES
            joins = ranges > LIST_LIMIT and count_ranges(positions, start, stop, MAX_GAP) < ranges
            if uncertain[i] != 0 or joins:
                representations[i] = APPROXIMATE_RANGES
                gap = MAX_GAP
            encoded[place] = positions[start]
            place += 1
            for j in range(start + 1, stop):
                if np.int64(positions[j]) - np.int64(positions[j - 1]) > gap + 1:
                    encoded[place] = np.uint64(positions[j - 1]) + np.uint64(1)
                    encoded[place + 1] = positions[j]
                    place += 2
            encoded[place] = np.uint64(positions[stop - 1]) + np.uint64(1)
            place += 1
        ends[i] = place
    return place


def decode_positions(
    encoded: npt.NDArray[np.uint64], representation: int, row_count: int, *, location: str
) -> tuple[npt.NDArray[np.int64], bool]:
    """Decode a list.

    Args:
        encoded: uint64[k], its slice of the positions column.
        representation: What the slice is.
        row_count: Rows of what the index is of.
        location: The file, for errors.

    Returns:
        int64[n] ascending, distinct positions, and whether all of them are in the list.

    Raises:
        FormatError: Positions do not ascend, or are not rows; or the representation is unknown.
    """
    if representation not in (POSITIONS, EXACT_RANGES, APPROXIMATE_RANGES):
        raise FormatError(f"a list of positions has the unknown type {representation}", location=location, rule=_RULE)
    if representation == POSITIONS:
        rises = bool((encoded[1:] > encoded[:-1]).all())
        if not rises or (len(encoded) and int(encoded[-1]) >= row_count):
            raise _not_rows(location, row_count)
        return encoded.astype(np.int64), True
    starts, stops = encoded[::2], encoded[1::2]
    if len(encoded) % 2 or not bool((stops > starts).all() and (starts[1:] >= stops[:-1]).all()):
        raise _not_rows(location, row_count)
    if len(stops) and int(stops[-1]) > row_count:
        raise _not_rows(location, row_count)
    lengths = (stops - starts).astype(np.int64)
    firsts = starts.astype(np.int64) - (np.cumsum(lengths) - lengths)
    return np.arange(int(lengths.sum())) + np.repeat(firsts, lengths), representation == EXACT_RANGES


def _not_rows(location: str, row_count: int) -> FormatError:
    return FormatError(
        f"a list of positions is not one of ascending positions below {row_count}", location=location, rule=_RULE
    )
