"""Range indexes: the least and greatest value of every 256 rows of a numeric field.

    buffer = header, section of least values, section of greatest values, [section of invalid counts], zeros

Each section is one block of numbers whose values are the bytes of the array. Nulls and NaN are *invalid*: they count
for no range.

Spec: Amudai, chapter 6, RANGE_INDEX; docs/amudai.md, "Range indexes".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from skerry.amudai.encodings.codes import Profile
from skerry.amudai.plain_buffers import encode_plain_block
from skerry.amudai.schema import BasicType

if TYPE_CHECKING:
    pass

__all__ = ["BLOCK_POSITIONS", "RangeIndex", "encode_range_index", "index_numbers"]

BLOCK_POSITIONS: Final = 256
DECIMAL_BYTES: Final = 16
_HEADER: Final = struct.Struct("<HBBQQQQHH")
_VERSION: Final = 1
_ALIGNMENT: Final = 64
_RULE: Final = "Amudai, chapter 6, RANGE_INDEX"
_Values = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class RangeIndex:
    """Ranges of the blocks of one field in one stripe.

    Args:
        basic_type: The kind of values.
        positions: Rows covered.
        block_positions: Rows of a block; the last may have fewer.
        lows: The least valid value of each block: numbers[blocks], or uint8[blocks, 16] of decimals. Zero in a block
            without any.
        highs: The greatest.
        invalid_counts: uint16[blocks], nulls and NaN.
    """

    basic_type: BasicType
    positions: int
    block_positions: int
    lows: _Values
    highs: _Values
    invalid_counts: npt.NDArray[np.uint16]

    @property
    def has_values(self) -> npt.NDArray[np.bool_]:
        """Which blocks have a valid value, bool[blocks]."""
        return self.invalid_counts < self.lengths

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Rows of each block, int64[blocks]."""
        lengths = np.full(len(self.lows), self.block_positions, np.int64)
        if len(lengths):
            lengths[-1] = self.positions - self.block_positions * (len(lengths) - 1)
        return lengths

    def bounds(self) -> tuple[Any, Any] | None:
        """The least and the greatest valid number of all blocks; None if there is none. Decimals have no order here."""
        having = self.has_values
        if not having.any():
            return None
        if having.all():
            return self.lows.min(), self.highs.max()
        return self.lows[having].min(), self.highs[having].max()


def index_numbers(basic_type: BasicType, values: _Values, valid: npt.NDArray[np.bool_] | None) -> RangeIndex:
    """Find the ranges of blocks of numbers.

    Args:
        basic_type: The kind of values.
        values: Integers or floating point numbers, [n], n > 0.
        valid: bool[n]; None if there are no nulls.
    """
    starts = np.arange(0, len(values), BLOCK_POSITIONS)
    lows = np.minimum.reduceat(values, starts)
    highs = np.maximum.reduceat(values, starts)
    invalid = ~valid if valid is not None else None
    if basic_type.is_floating and np.isnan(lows).any():
        nans = np.isnan(values)
        invalid = nans if invalid is None else invalid | nans
    if invalid is None:
        counts = np.zeros(len(starts), np.uint16)
        return RangeIndex(basic_type, len(values), BLOCK_POSITIONS, lows, highs, counts)
    counts = np.add.reduceat(invalid, starts, dtype=np.uint16)
    least, most = _limits(values.dtype)
    np.minimum.reduceat(np.where(invalid, most, values), starts, out=lows)
    np.maximum.reduceat(np.where(invalid, least, values), starts, out=highs)
    index = RangeIndex(basic_type, len(values), BLOCK_POSITIONS, lows, highs, counts)
    empty = ~index.has_values
    lows[empty] = highs[empty] = 0
    return index


def _limits(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    if dtype.kind == "f":
        return dtype.type(-np.inf), dtype.type(np.inf)
    return dtype.type(np.iinfo(dtype).min), dtype.type(np.iinfo(dtype).max)


def encode_range_index(index: RangeIndex, profile: Profile) -> bytes:
    """Lay out an index.

    Args:
        index: The ranges.
        profile: How its sections are encoded.

    Returns:
        The buffer, a multiple of 64 bytes.

    Spec: docs/amudai.md, "Range indexes".
    """
    arrays = [index.lows, index.highs, *([index.invalid_counts] if index.invalid_counts.any() else [])]
    sections = [encode_plain_block(np.ascontiguousarray(array).tobytes(), None) for array in arrays]
    sizes = [len(section) for section in sections]
    header = _HEADER.pack(
        _VERSION, index.basic_type, 1, index.positions, *sizes, *([0] * (3 - len(sizes))), index.block_positions, 0
    )
    data = b"".join((header, *sections))
    return data + bytes(-len(data) % _ALIGNMENT)
