"""Bounds of columns of shapes: the corners of the box around all of them, as points.

Written are x and y, as Iceberg Java does. Edges of a geography are curves that leave the box around its points, so that
only points have bounds there.

Spec: Iceberg spec, Appendix D, Bound serialization.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.wkb import PLANAR, Box, Shapes, boxes_of

__all__ = ["ShapeBounds", "points_of"]

_POINT_BYTES: Final = 16
_SIZES: Final = (16, 24, 32)
"""Bytes of x and y, with z, and with z and m."""
_GLOBE: Final = Box(-180.0, -90.0, 180.0, 90.0)
POINT: Final = pa.list_(pa.float64(), 2)


@dataclass(slots=True)
class ShapeBounds:
    """The bounds of the shapes seen so far.

    Args:
        shapes: What they have in common.
        box: The box around them; None if there was no point.
        is_known: Whether it has all points of their edges.
    """

    shapes: Shapes
    box: Box | None = None
    is_known: bool = True

    def update(self, values: pa.Array) -> None:
        """Add values.

        Raises:
            FormatError: One is not well-known binary.
        """
        found = boxes_of(values)
        box = found.around()
        if box is None:
            return
        if self.shapes.edges != PLANAR and (found.has_lines.any() or not _is_inside(box, _GLOBE)):
            self.is_known = False
        mine = self.box or box
        self.box = Box(
            min(mine.x_min, box.x_min),
            min(mine.y_min, box.y_min),
            max(mine.x_max, box.x_max),
            max(mine.y_max, box.y_max),
        )

    def encode(self) -> tuple[bytes, bytes] | None:
        """Lower and upper bound; None if there are none."""
        if self.box is None or not self.is_known:
            return None
        box = self.box
        return np.array([box.x_min, box.y_min], "<f8").tobytes(), np.array([box.x_max, box.y_max], "<f8").tobytes()


def _is_inside(box: Box, outer: Box) -> bool:
    return (
        outer.x_min <= box.x_min and outer.y_min <= box.y_min and box.x_max <= outer.x_max and box.y_max <= outer.y_max
    )


def points_of(bounds: pa.Array) -> pa.FixedSizeListArray:
    """The x and y of bounds, null where there is none.

    Args:
        bounds: binary[n]; one whose size is not that of a point is passed over.
    """
    sizes = pc.binary_length(bounds)
    is_point = pc.fill_null(pc.is_in(sizes, value_set=pa.array(_SIZES, sizes.type)), False)
    raw = pc.binary_slice(pc.if_else(is_point, bounds, bytes(_POINT_BYTES)), 0, _POINT_BYTES)
    values = np.frombuffer(b"".join(raw.to_pylist()), "<f8").astype(np.float64)
    return pa.FixedSizeListArray.from_arrays(pa.array(values), 2, mask=pc.invert(is_point))
