"""Sets of positions: as Roaring bitmaps, the bytes of Iceberg's and Paimon's deletion vectors, and as sorted arrays."""

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
