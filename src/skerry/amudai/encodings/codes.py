"""The codes of encodings, the profiles of writers, and the types that streams hold."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = [
    "DTYPES",
    "FLOAT32",
    "FLOAT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "UNSIGNED",
    "Encoding",
    "Profile",
    "kind_of",
]


class Encoding(IntEnum):
    """How a stream, or the values of a binary block, are encoded: the code that they begin with."""

    PLAIN = 1
    """The values as they are."""
    BIT_PACKING = 2
    """FastLanes bit packing of unsigned integers."""
    FRAME_OF_REFERENCE = 3
    """Distances from the least value, as a stream."""
    FUSED_FRAME_OF_REFERENCE = 4
    """Distances from the least value, bit packed."""
    DELTA = 5
    """The first value and the differences between neighbours, as a stream."""
    RUN_LENGTH = 6
    """Values and how often each is repeated, two streams."""
    SINGLE_VALUE = 7
    """One value for all."""
    TRUNCATE_8 = 8
    """Signed integers that fit 8 bits."""
    TRUNCATE_16 = 9
    """Signed integers that fit 16 bits."""
    TRUNCATE_32 = 10
    """Signed integers that fit 32 bits."""
    TRUNCATE_64 = 11
    """Signed integers of 64 bits as unsigned ones."""
    ALP = 12
    """Floats that are decimals of few digits, as a stream of integers, with exceptions."""
    ALP_RD = 13
    """Floats cut in two: the left part by a dictionary of at most eight, the right one as it is."""
    BLOCK_DICTIONARY = 14
    """Codes and the distinct values of the block, two streams."""
    FSST = 15
    """Bytes with frequent strings of up to eight bytes replaced by codes; only in binary blocks."""
    ZSTD = 16
    """One Zstandard frame."""
    LZ4 = 17
    """One LZ4 block after its size."""
    ZIG_ZAG = 18
    """Signed integers as unsigned ones with the sign in the lowest bit."""
    SPARSE = 19
    """Positions and values that are not zero, two streams."""


class Profile(StrEnum):
    """What encodings are chosen for: from fast to small."""

    PLAIN = "plain"
    """No encoding at all."""
    FAST = "fast"
    """Light encodings of one level, and light compression only of what they do not shrink."""
    BALANCED = "balanced"
    """Cascades of encodings; zstd where it pays."""
    HIGH = "high"
    """Zstd wherever it makes the block smaller."""
    SMALL = "small"
    """The smallest encoding that is found, at any cost in time, in large blocks."""


DTYPES: Final = tuple(np.dtype(name) for name in ("i1", "<i2", "<i4", "<i8", "u1", "<u2", "<u4", "<u8", "<f4", "<f8"))
"""The types that streams hold. Kernels know a type by its place here, its *kind*."""
INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FLOAT32, FLOAT64 = range(10)
UNSIGNED: Final = UINT8
"""An integer's kind, or'ed with this, is that of the unsigned integer of the same size."""
_KINDS: Final = {dtype: kind for kind, dtype in enumerate(DTYPES)}


def kind_of(dtype: npt.DTypeLike) -> int:
    """The place of a type in `DTYPES`; a KeyError is a fault of the caller."""
    return _KINDS[np.dtype(dtype)]
