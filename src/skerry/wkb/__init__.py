"""Shapes as well-known binary (WKB): which box is around them, and how Arrow fields are marked as columns of them.

Spec: Iceberg spec, Appendix G; GeoArrow, `geoarrow.wkb`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from skerry.wkb.fields import PLANAR, Shapes, WkbType, marked, shapes_of, shapes_type

if TYPE_CHECKING:
    from skerry.wkb.boxes import Box as Box
    from skerry.wkb.boxes import Boxes as Boxes
    from skerry.wkb.boxes import box_of as box_of
    from skerry.wkb.boxes import boxes_of as boxes_of
    from skerry.wkb.boxes import check as check
    from skerry.wkb.globe import GLOBE as GLOBE
    from skerry.wkb.globe import GlobeBoxes as GlobeBoxes
    from skerry.wkb.globe import globe_boxes_of as globe_boxes_of
    from skerry.wkb.globe import is_on_globe as is_on_globe
    from skerry.wkb.text import box_of_text as box_of_text

_WHERE: Final = {
    "GLOBE": "globe",
    "Box": "boxes",
    "Boxes": "boxes",
    "GlobeBoxes": "globe",
    "box_of": "boxes",
    "box_of_text": "text",
    "boxes_of": "boxes",
    "check": "boxes",
    "globe_boxes_of": "globe",
    "is_on_globe": "globe",
}

__all__ = [
    "GLOBE",
    "PLANAR",
    "Box",
    "Boxes",
    "GlobeBoxes",
    "Shapes",
    "WkbType",
    "box_of",
    "box_of_text",
    "boxes_of",
    "check",
    "globe_boxes_of",
    "is_on_globe",
    "marked",
    "shapes_of",
    "shapes_type",
]


def __getattr__(name: str) -> Any:
    """What reads shapes; every schema is asked for them, and few tables have any."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
