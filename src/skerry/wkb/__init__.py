"""Shapes as well-known binary (WKB): which box is around them, and how Arrow fields are marked as columns of them.

Spec: Iceberg spec, Appendix G; GeoArrow, `geoarrow.wkb`.
"""

from __future__ import annotations

from skerry.wkb.boxes import Box, Boxes, box_of, boxes_of, check
from skerry.wkb.fields import PLANAR, Shapes, WkbType, marked, shapes_of, shapes_type
from skerry.wkb.text import box_of_text

__all__ = [
    "PLANAR",
    "Box",
    "Boxes",
    "Shapes",
    "WkbType",
    "box_of",
    "box_of_text",
    "boxes_of",
    "check",
    "marked",
    "shapes_of",
    "shapes_type",
]
