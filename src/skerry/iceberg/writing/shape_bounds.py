"""Bounds of columns of shapes: the corners of the box around all of them, as points.

Written are x and y, as Iceberg Java does. The box of a geography contains its curved edges; it may cross the
antimeridian, where the lower bound has the greater longitude. None is written if it would be the whole globe.

Spec: Iceberg spec, Appendix D, Bound serialization.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.wkb import GLOBE, PLANAR, Box, Boxes, GlobeBoxes, Shapes, boxes_of, globe_boxes_of

__all__ = ["ShapeBounds", "points_of"]

_POINT_BYTES: Final = 16
_SIZES: Final = (16, 24, 32)
"""Bytes of x and y, with z, and with z and m."""
POINT: Final = pa.list_(pa.float64(), 2)


@dataclass(slots=True)
class ShapeBounds:
    """The bounds of the shapes seen so far.

    Args:
        shapes: What they have in common.
        box: The box around them; None if there was no point.
    """

    shapes: Shapes
    box: Box | None = None

    def update(self, values: pa.Array) -> None:
        """Add values.

        Raises:
            FormatError: One is not well-known binary.
        """
        is_planar = self.shapes.edges == PLANAR
        found = (boxes_of(values) if is_planar else globe_boxes_of(values, self.shapes)).around()
        if found is None or self.box is None:
            self.box = found or self.box
            return
        both = np.array([[box.x_min, box.y_min, box.x_max, box.y_max] for box in (self.box, found)]).T
        self.box = (Boxes(both) if is_planar else GlobeBoxes(both)).around()

    def encode(self) -> tuple[bytes, bytes] | None:
        """Lower and upper bound; None if there are none."""
        box = self.box
        if box is None or (self.shapes.edges != PLANAR and box == GLOBE):
            return None
        return np.array([box.x_min, box.y_min], "<f8").tobytes(), np.array([box.x_max, box.y_max], "<f8").tobytes()


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
