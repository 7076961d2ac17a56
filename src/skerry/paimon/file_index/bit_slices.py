"""Columns kept as bit slices: one bitmap of rows for each bit of a number, and one of the rows that have a number.

Spec: docs/formats/paimon.md § 12.5, § 12.6; Paimon spec, File Index, Index: Bit-Slice Index Bitmap, Index: Range
Bitmap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from skerry.paimon.file_index.cursor import Cursor

__all__ = ["MAX_SLICES", "SlicedNumbers", "bit_slices"]

MAX_SLICES = 64

_Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SlicedNumbers:
    """Numbers of the rows that have one.

    Args:
        rows: int64[n] Those rows, ascending.
        numbers: uint64[n] Their numbers.
    """

    rows: _Rows
    numbers: npt.NDArray[np.uint64]

    @classmethod
    def join(cls, existing: _Rows, slices: Sequence[_Rows], row_count: int, cursor: Cursor) -> SlicedNumbers:
        """Put slices together.

        Args:
            existing: int64[n] Rows that have a number.
            slices: Rows that have bit 0, bit 1, …; those that are not in `existing` are ignored.
            row_count: Rows of the data file.
            cursor: Where they are, for messages.

        Raises:
            FormatError: A row is not in the file, or there are more bits than numbers have.
        """
        if len(slices) > MAX_SLICES:
            raise cursor.error(f"{len(slices)} slices, expected at most {MAX_SLICES}")
        for rows in (existing, *slices):
            if len(rows) and rows[-1] >= row_count:
                raise cursor.error(f"row {rows[-1]} of {row_count}")
        numbers = np.zeros(row_count, np.uint64)
        for bit, rows in enumerate(slices):
            numbers[rows] |= np.uint64(1 << bit)
        return cls(existing, numbers[existing])


def bit_slices(rows: _Rows, numbers: npt.NDArray[np.int64], count: int) -> tuple[_Rows, _Rows]:
    """The rows whose numbers have each bit, one slice after the other.

    Args:
        rows: int64[n] Rows, ascending.
        numbers: int64[n] Their numbers, not negative.
        count: Number of slices, from the lowest bit.

    Returns:
        int64[m] the rows, and int64[count + 1] where those of each slice start, with the end.
    """
    parts = [rows[numbers >> bit & 1 == 1] for bit in range(count)]
    return np.concatenate([rows[:0], *parts]), np.cumsum([0, *map(len, parts)]).astype(np.int64)
