"""Sets of integers as Roaring bitmaps: the bytes that Iceberg's and Paimon's deletion vectors are made of."""

from __future__ import annotations

from skerry.bitmaps.roaring import (
    MAX_POSITIONS,
    leading_roaring32,
    positions_from_roaring32,
    positions_from_roaring64,
    roaring32_from_positions,
    roaring64_from_positions,
)

__all__ = [
    "MAX_POSITIONS",
    "leading_roaring32",
    "positions_from_roaring32",
    "positions_from_roaring64",
    "roaring32_from_positions",
    "roaring64_from_positions",
]
