"""Boxes around shapes on a globe, whose edges are the shortest lines between two points there.

Edges bulge towards the poles, may cross the antimeridian, and rings may be around a pole. A box contains all of the
shape: where that cannot be said for certain, it is the whole globe.

Spec: Iceberg spec, Appendix D, Bound serialization; Iceberg spec, Appendix G.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.kernels import kernel
from skerry.wkb.boxes import POLYGON, Box, Runs, coordinates, runs_of
from skerry.wkb.fields import Shapes

__all__ = ["GLOBE", "GlobeBoxes", "globe_boxes_of", "is_on_globe"]

_Doubles: TypeAlias = npt.NDArray[np.float64]
_Flags: TypeAlias = npt.NDArray[np.bool_]
_Integers: TypeAlias = npt.NDArray[np.int64]

GLOBE: Final = Box(-180.0, -90.0, 180.0, 90.0)
SPHERICAL: Final = "spherical"
_ON_EARTH: Final = frozenset({"OGC:CRS84", "OGC:CRS83", "EPSG:4326", "EPSG:4269", "EPSG:4258"})
"""Reference systems whose ellipsoid is known to be flattened by less than 1/290."""
_POINTS_AT_ONCE: Final = 1 << 20
_MARGIN_DEGREES: Final = 1e-6
"""Added to where an edge is nearest to a pole; the computation errs by less than a hundredth of it."""
_SHORT_RADIANS: Final = 1e-6
"""Of shorter edges the direction is not computed: they rise by at most half of their length."""
_ELLIPSOID: Final = 1.02
"""By how much more an edge on an ellipsoid may rise: 6400 km / 6335 km is 1.01, the greatest and the least radius."""
_GAP_DEGREES: Final = 1e-9


@dataclass(frozen=True, slots=True)
class GlobeBoxes:
    """The boxes around the shapes of a column on a globe.

    Args:
        edges: float64[4, n] in degrees: west, south, east, north; west is greater than east if a box crosses the
            antimeridian. NaN where a shape is null or has no points. A shape that reaches a pole has all longitudes.
    """

    edges: _Doubles

    def meet(self, box: Box) -> _Flags:
        """bool[n]: which of them have a point in common with a box."""
        west, south, east, north = self.edges
        crosses = west > east
        meets = np.zeros(len(west), bool)
        for low, high in _pieces(box):
            meets |= np.where(crosses, (west <= high) | (east >= low), (west <= high) & (east >= low))
        meets &= (south <= box.y_max) & (north >= box.y_min)
        return meets

    def around(self) -> Box | None:
        """The smallest box around all of them; None if none of them has a point."""
        known = self.edges[:, ~np.isnan(self.edges[0])]
        if not known.shape[1]:
            return None
        west, south, east, north = known
        arcs = np.stack([west, np.where(east < west, east + 360 - west, east - west), east], axis=1)
        lon = _covered(np.zeros(len(west), np.int64), arcs, 1)[0]
        return Box(float(lon[0]), float(south.min()), float(lon[1]), float(north.max()))


def is_on_globe(box: Box) -> bool:
    """Whether the edges of a box are longitudes and latitudes in degrees."""
    return all(-180 <= x <= 180 for x in (box.x_min, box.x_max)) and -90 <= box.y_min <= box.y_max <= 90


def globe_boxes_of(shapes: pa.Array, kind: Shapes) -> GlobeBoxes:
    """The boxes around shapes on a globe.

    Great circles (`spherical`) are measured. Of edges by the other algorithms, which run on an ellipsoid, the rise
    towards a pole is bounded by their length; only on an ellipsoid like that of the earth. A ring that spans more
    than half of the longitudes, is around a pole, or is not closed, has the whole globe for a box, and so have shapes
    with coordinates beyond 180 or 90 degrees and with edges whose shortest line is not unique.

    Args:
        shapes: binary, large binary or binary view; or an extension type of these.
        kind: What they have in common.

    Raises:
        FormatError: A value is not well-known binary.
    """
    runs = runs_of(shapes)
    bounds = np.full((len(runs.rows), 5), np.nan)  # west, length, east, south, north
    first = 0
    ends = np.cumsum(runs.counts)
    while first < len(runs.rows):
        before = int(ends[first - 1]) if first else 0
        end = max(first + 1, int(np.searchsorted(ends, before + _POINTS_AT_ONCE, "right")))
        bounds[first:end] = _bounds(runs, first, end, kind)
        first = end
    known = ~np.isnan(bounds[:, 0])
    bounds, rows = bounds[known], runs.rows[known]
    edges = np.full((4, len(shapes)), np.nan)
    edges[[0, 2]] = _covered(rows, bounds[:, :3], len(shapes)).T
    np.fmin.at(edges[1], rows, bounds[:, 3])
    np.fmax.at(edges[3], rows, bounds[:, 4])
    return GlobeBoxes(edges)


def _pieces(box: Box) -> list[tuple[float, float]]:
    """The longitudes of a box as intervals that do not cross the antimeridian, which has two names."""
    pieces = [(box.x_min, box.x_max)] if box.x_min <= box.x_max else [(box.x_min, 180.0), (-180.0, box.x_max)]
    if any(high == 180 for _, high in pieces):
        pieces.append((-180.0, -180.0))
    if any(low == -180 for low, _ in pieces):
        pieces.append((180.0, 180.0))
    return pieces


def _bounds(runs: Runs, first: int, end: int, kind: Shapes) -> _Doubles:
    """float64[runs, 5]: western longitude, length and eastern longitude of the arc around a run, south and north."""
    count = end - first
    found = np.full((count, 5), np.nan)
    x, y = coordinates(runs, first, end)
    run = np.repeat(np.arange(count), runs.counts[first:end])
    is_point = ~(np.isnan(x) | np.isnan(y))
    x, y, run = x[is_point], y[is_point], run[is_point]
    if not len(x):
        return found
    whole = np.zeros(count, bool)
    beyond = (np.abs(x) > 180) | (np.abs(y) > 90)
    whole[run[beyond]] = True
    x, y = np.where(beyond, 0.0, x), np.where(beyond, 0.0, y)
    present, starts = np.unique(run, return_index=True)
    is_edge = run[1:] == run[:-1]
    step = np.where(is_edge, np.diff(x), 0.0)
    turns = np.concatenate([[0], np.cumsum((step < -180).astype(np.int64) - (step > 180))])
    at = starts[np.searchsorted(present, run)]
    unrolled = x + 360.0 * (turns - turns[at])  # longitudes without a jump at the antimeridian
    nearly_opposite = 1e-4 if kind.edges == SPHERICAL else 1.0
    whole[run[1:][np.abs(np.abs(step) - 180) < nearly_opposite]] = True
    west, east = np.minimum.reduceat(unrolled, starts), np.maximum.reduceat(unrolled, starts)
    span = east - west
    found[present, 1] = span
    # longitudes as they were given; where both 180 and -180 occur, the box crosses the antimeridian to have both
    for column, extreme, choose in ((0, west, np.fmax), (2, east, np.fmin)):
        is_there = unrolled == extreme[np.searchsorted(present, run)]
        choose.at(found[:, column], run[is_there], x[is_there])
    found[present, 3], found[present, 4] = np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts)
    last = np.append(starts[1:], len(x)) - 1
    is_ring = runs.kinds[first:end][present] == POLYGON
    is_open = (unrolled[starts] != unrolled[last]) | (y[starts] != y[last])
    whole[present[is_ring & (is_open | (span > 180))]] = True
    is_edge &= step != 0  # no edge along a meridian bulges
    edge = np.flatnonzero(is_edge)
    turned = step[edge] - 360.0 * np.sign(step[edge]) * (np.abs(step[edge]) > 180)
    south, north, is_vague = _rises(y[edge], y[edge + 1], turned, kind)
    np.minimum.at(found[:, 3], run[edge], south)
    np.maximum.at(found[:, 4], run[edge], north)
    whole[run[edge[is_vague]]] = True
    has_all = whole | (found[:, 3] <= -90) | (found[:, 4] >= 90) | (found[:, 1] >= 360)
    found[has_all, :3] = (-180.0, 360.0, 180.0)
    found[whole, 3:] = (-90.0, 90.0)
    return found


def _rises(start: _Doubles, end: _Doubles, turn: _Doubles, kind: Shapes) -> tuple[_Doubles, _Doubles, _Flags]:
    """How far edges go beyond their ends.

    Args:
        start: float64[edges]: latitudes at which they begin, in degrees.
        end: float64[edges]: latitudes at which they end.
        turn: float64[edges]: by how many degrees they go east.
        kind: How they run.

    Returns:
        float64[edges] twice: the least and the greatest latitude; bool[edges]: which of them cannot be measured.
    """
    low, high = np.minimum(start, end), np.maximum(start, end)
    a, b, angle = np.radians(start), np.radians(end), np.radians(turn)
    ax, az = np.cos(a), np.sin(a)
    bx, by, bz = np.cos(b) * np.cos(angle), np.cos(b) * np.sin(angle), np.sin(b)
    nx, ny, nz = -az * by, az * bx - ax * bz, ax * by  # across the plane of the great circle
    across = np.sqrt(nx * nx + ny * ny + nz * nz)
    length = np.arctan2(across, ax * bx + az * bz)
    half = np.degrees(length) / 2
    if kind.edges != SPHERICAL:
        half *= _ELLIPSOID
        return np.maximum(low - half, -90), np.minimum(high + half, 90), np.full(len(low), kind.crs not in _ON_EARTH)
    peak = np.degrees(np.arctan2(np.hypot(nx, ny), np.abs(nz))) + _MARGIN_DEGREES
    at_start, at_end = -ny * ax, nx * by - ny * bx  # how much the great circle goes north there
    tiny = 1e-14
    rises, falls = (at_start >= -tiny) & (at_end <= tiny), (at_start <= tiny) & (at_end >= -tiny)
    is_short = length < _SHORT_RADIANS
    north = np.where(is_short, high + half, np.where(rises, np.maximum(peak, high), high))
    south = np.where(is_short, low - half, np.where(falls, np.minimum(-peak, low), low))
    return np.maximum(south, -90), np.minimum(north, 90), (across < 1e-7) & (length > 1)


def _covered(rows: _Integers, arcs: _Doubles, count: int) -> _Doubles:
    """The smallest arc around the arcs of each row.

    Args:
        rows: int64[arcs]: the row of each.
        arcs: float64[arcs, 3]: its western longitude, its length, its eastern longitude.
        count: How many rows there are.

    Returns:
        float64[count, 2]: western and eastern longitude; NaN for rows without any.
    """
    around = np.full((count, 2), np.nan)
    order = np.lexsort((arcs[:, 0], rows))
    _cover(rows[order], np.ascontiguousarray(arcs[order]), around)
    return around


@kernel
def _farther(arcs: Any, arc: int, reach: float, east: float) -> Any:
    """How far arcs reach with one more, and the longitude there; -180 rather than 180."""
    end = arcs[arc, 0] + arcs[arc, 1]
    if end > reach or (end == reach and arcs[arc, 2] < east):
        return end, arcs[arc, 2]
    return reach, east


@kernel("int64(int64[::1], float64[:, ::1], out float64[:, ::1])")
def _cover(rows: Any, arcs: Any, around: Any) -> Any:
    """`_covered` for arcs in the order of rows and western longitudes: what they cover begins after the widest gap."""
    begin = np.int64(0)
    while begin < len(rows):
        row = rows[begin]
        end = begin
        reach = -np.inf
        east = np.nan
        while end < len(rows) and rows[end] == row:
            reach, east = _farther(arcs, end, reach, east)
            end += 1
        reach -= 360.0  # the last of them, one turn before
        widest = _GAP_DEGREES
        around[row, 0] = -180.0
        around[row, 1] = 180.0
        for arc in range(begin, end):
            if arcs[arc, 0] - reach > widest:
                widest = arcs[arc, 0] - reach
                around[row, 0] = arcs[arc, 0]
                around[row, 1] = east
            reach, east = _farther(arcs, arc, reach, east)
        begin = end
    return np.int64(0)
