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

__all__ = ["Representation", "decode_positions", "encode_positions", "positions_among"]

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
    numbers = _checked(encoded, representation, row_count, location)
    if representation == POSITIONS:
        return numbers, True
    rows = np.empty(int((numbers[1::2] - numbers[::2]).sum()), np.int64)
    expand_ranges(numbers, rows)
    return rows, representation == EXACT_RANGES


def positions_among(
    encoded: npt.NDArray[np.uint64],
    representation: int,
    row_count: int,
    rows: npt.NDArray[np.int64],
    *,
    location: str,
) -> npt.NDArray[np.bool_]:
    """Which of some rows are in a list, or may be, as `decode_positions` tells; without decoding the list.

    Args:
        encoded: As for `decode_positions`.
        representation: As for `decode_positions`.
        row_count: As for `decode_positions`.
        rows: int64[n], ascending.
        location: The file, for errors.

    Returns:
        bool[n]

    Raises:
        FormatError: As `decode_positions`.
    """
    numbers = _checked(encoded, representation, row_count, location)
    if not len(numbers):
        return np.zeros(len(rows), np.bool_)
    if representation == POSITIONS:
        return np.asarray(numbers[np.minimum(numbers.searchsorted(rows), len(numbers) - 1)] == rows)
    return np.asarray(numbers.searchsorted(rows, "right") % 2 == 1)  # behind a start, not yet behind its end


def _checked(
    encoded: npt.NDArray[np.uint64], representation: int, row_count: int, location: str
) -> npt.NDArray[np.int64]:
    """A slice of the positions column whose numbers are in order."""
    if representation not in (POSITIONS, EXACT_RANGES, APPROXIMATE_RANGES):
        raise FormatError(f"a list of positions has the unknown type {representation}", location=location, rule=_RULE)
    is_ranges = representation != POSITIONS
    if is_ranges and len(encoded) % 2:
        raise _not_rows(location, row_count)
    # ranges may touch
    if len(encoded) and (not check_order(encoded, int(is_ranges)) or int(encoded[-1]) >= row_count + is_ranges):
        raise _not_rows(location, row_count)
    return encoded.view(np.int64)


@kernel("int64(uint64[::1], int64)")
def check_order(encoded: Any, is_ranges: int) -> int:
    """Whether numbers ascend; in ranges, an end may be the next start."""
    for i in range(1, len(encoded)):
        if encoded[i] < encoded[i - 1] or (encoded[i] == encoded[i - 1] and not (is_ranges and i % 2 == 0)):
            return 0
    return 1


@kernel("int64(int64[::1], out int64[::1])")
def expand_ranges(numbers: Any, rows: Any) -> int:
    """The positions of ranges."""
    place: Any = np.int64(0)
    for i in range(0, len(numbers), 2):
        for row in range(numbers[i], numbers[i + 1]):
            rows[place] = row
            place += 1
    return place


def _not_rows(location: str, row_count: int) -> FormatError:
    return FormatError(
        f"a list of positions is not one of ascending positions below {row_count}", location=location, rule=_RULE
    )
