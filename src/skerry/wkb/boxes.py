"""Bounding boxes of shapes in well-known binary, computed by a kernel that checks every byte.

Spec: Iceberg spec, Appendix G; OGC Simple Feature Access, section 8.2 (with ISO's codes of dimensions).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.errors import FormatError
from skerry.kernels import byte_swap, kernel, load, load_u32, load_u64, store

__all__ = ["EMPTY", "POLYGON", "Box", "Boxes", "Runs", "box_of", "boxes_of", "check", "coordinates", "runs_of"]

_Doubles: TypeAlias = npt.NDArray[np.float64]
_Integers: TypeAlias = npt.NDArray[np.int64]

_MAX_DEPTH: Final = 32
_POINT, _LINE_STRING, POLYGON, _COLLECTION = 1, 2, 3, 7
_SHORT, _BYTE_ORDER, _TYPE, _MEMBER, _DIMENSIONS, _DEEP, _LONGER = 1, 2, 3, 4, 5, 6, 7
_PROBLEMS: Final = {
    _SHORT: "it is cut short",
    _BYTE_ORDER: "its byte order is neither 0 nor 1",
    _TYPE: "its type is none of the seven from point to geometry collection",
    _MEMBER: "a multi-geometry has a member of another type",
    _DIMENSIONS: "its parts have different dimensions",
    _DEEP: f"it nests deeper than {_MAX_DEPTH} levels",
    _LONGER: "bytes follow its end",
}
_RULE: Final = "Iceberg spec, Appendix G"
_F64, _U64 = np.float64(0), np.uint64(0)


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle, with its edges.

    Args:
        x_min: Least x; on a globe the western longitude.
        y_min: Least y.
        x_max: Greatest x; on a globe the eastern longitude, which is less than the western one if the box crosses the
            antimeridian.
        y_max: Greatest y.
    """

    x_min: float
    y_min: float
    x_max: float
    y_max: float

    def __str__(self) -> str:
        return f"from ({self.x_min:g}, {self.y_min:g}) to ({self.x_max:g}, {self.y_max:g})"

    @property
    def is_empty(self) -> bool:
        """Whether it has no points: that of an empty shape."""
        return math.isnan(self.x_min)


EMPTY: Final = Box(math.nan, math.nan, math.nan, math.nan)


@dataclass(frozen=True, slots=True)
class Boxes:
    """The boxes around the shapes of a column.

    Args:
        edges: float64[4, n]: least x, least y, greatest x, greatest y; NaN where a shape is null or has no points.
            Points with a NaN for x or y do not count.
    """

    edges: _Doubles

    def meet(self, box: Box) -> npt.NDArray[np.bool_]:
        """bool[n]: which of them have a point in common with a box."""
        x_min, y_min, x_max, y_max = self.edges
        meets: npt.NDArray[np.bool_] = (
            (x_min <= box.x_max) & (x_max >= box.x_min) & (y_min <= box.y_max) & (y_max >= box.y_min)
        )
        return meets

    def around(self) -> Box | None:
        """The box around all of them; None if none of them has a point."""
        known = self.edges[:, ~np.isnan(self.edges[0])]
        if not known.shape[1]:
            return None
        return Box(*known[:2].min(axis=1).tolist(), *known[2:].max(axis=1).tolist())


@dataclass(frozen=True, slots=True)
class Runs:
    """Where the points of shapes are in their bytes, a run for each point, line and ring.

    Args:
        data: The bytes.
        rows: int64[runs]: to which shape one belongs.
        kinds: int64[runs]: 1 for a point, 2 for a line, `POLYGON` for a ring of one.
        counts: int64[runs]: its points.
        layout: int64[runs, 3]: where it begins, the bytes from one point to the next, 1 for little-endian.
    """

    data: npt.NDArray[np.uint8]
    rows: _Integers
    kinds: _Integers
    counts: _Integers
    layout: _Integers


def boxes_of(shapes: pa.Array) -> Boxes:
    """The boxes around shapes.

    Args:
        shapes: binary, large binary or binary view; or an extension type of these.

    Raises:
        FormatError: A value is not well-known binary; all bytes of all values are looked at.
    """
    data, spans = _spans(shapes)
    boxes = np.full((spans.shape[1], 4), np.nan)
    _walk(data, spans, boxes, np.empty((0, 6), np.int64))
    return Boxes(boxes.T)


def runs_of(shapes: pa.Array) -> Runs:
    """The runs of points that shapes consist of.

    Args:
        shapes: As for `boxes_of`.

    Raises:
        FormatError: A value is not well-known binary.
    """
    data, spans = _spans(shapes)
    # the shortest run is that of an empty ring, its count alone
    runs = np.empty((int((spans[1] - spans[0]).sum()) // 4, 6), np.int64)
    found = runs[: _walk(data, spans, np.full((spans.shape[1], 4), np.nan), runs)]
    return Runs(data, found[:, 0].copy(), found[:, 1].copy(), found[:, 2].copy(), np.ascontiguousarray(found[:, 3:]))


def coordinates(runs: Runs, first: int, end: int) -> tuple[_Doubles, _Doubles]:
    """Coordinates of the points of some runs, one after the other.

    Args:
        runs: All runs.
        first: The first of those.
        end: The first of the others.

    Returns:
        float64[points] twice: x and y.
    """
    counts = runs.counts[first:end].copy()
    found = np.empty((2, int(counts.sum())))
    _read(runs.data, counts, runs.layout[first:end].copy(), np.empty(8, np.uint8), found)
    return found[0], found[1]


def _walk(data: npt.NDArray[np.uint8], spans: _Integers, boxes: _Doubles, runs: _Integers) -> int:
    """Walk through shapes: how many runs there are, if there is room for them."""
    count = int(_measure(data, spans, np.empty((_MAX_DEPTH, 3), np.int64), np.empty(8, np.uint8), boxes, runs))
    if count < 0:
        raise FormatError(f"a shape is not well-known binary: {_PROBLEMS[-count]}", rule=_RULE)
    return count


def box_of(value: bytes) -> Box:
    """The box around one shape; an empty one if it has no points.

    Raises:
        FormatError: The value is not well-known binary.
    """
    return boxes_of(pa.array([value], pa.binary())).around() or EMPTY


def check(shapes: pa.Array) -> None:
    """Check that values are well-known binary.

    Raises:
        FormatError: One is not.
    """
    boxes_of(shapes)


def _spans(shapes: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The buffer of the values, and int64[2, n] where each begins and ends in it, -1 for null."""
    if isinstance(shapes, pa.ExtensionArray):
        shapes = shapes.storage
    if not pa.types.is_large_binary(shapes.type):
        shapes = shapes.cast(pa.large_binary())
    _, offsets, buffer = shapes.buffers()
    count = len(shapes)
    if count == 0:
        return np.empty(0, np.uint8), np.empty((2, 0), np.int64)
    ends = np.frombuffer(offsets, np.int64, count + 1, 8 * shapes.offset)
    spans = np.stack([ends[:-1], ends[1:]])
    if shapes.null_count:
        spans[:, shapes.is_null().to_numpy(zero_copy_only=False)] = -1
    return np.empty(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8), spans


@kernel
def _number(data: Any, at: int, is_little: bool) -> Any:
    """An unsigned number of four bytes."""
    number = load_u32(data, at)
    return np.int64(number if is_little else byte_swap(number) >> np.uint64(32))


@kernel
def _double(data: Any, at: int, is_little: bool, swapped: Any) -> Any:
    """A number of eight bytes; `swapped` is room for them in the other order."""
    if is_little:
        return load(_F64, data, at)
    store(_U64, swapped, np.int64(0), byte_swap(load_u64(data, at)))
    return load(_F64, swapped, np.int64(0))


@kernel
def _coordinates(data: Any, at: int, count: int, width: int, is_little: bool, swapped: Any, box: Any) -> Any:
    """Extend a box by points that lie one after the other."""
    for _ in range(count):
        x = _double(data, at, is_little, swapped)
        y = _double(data, at + 8, is_little, swapped)
        if x == x and y == y:
            # a box without points has NaN for edges, which is in no order to anything
            if not box[0] <= x:
                box[0] = x
            if not box[1] <= y:
                box[1] = y
            if not box[2] >= x:
                box[2] = x
            if not box[3] >= y:
                box[3] = y
        at += width
    return at


@kernel
def _note(runs: Any, at: int, kind: int, count: int, start: int, width: int, is_little: bool) -> Any:
    """Note a run of points, if there is room for any: how many there are with it."""
    if len(runs) == 0:
        return np.int64(0)
    runs[at, 1] = kind
    runs[at, 2] = count
    runs[at, 3] = start
    runs[at, 4] = width
    runs[at, 5] = 1 if is_little else 0
    return np.int64(at + 1)


@kernel
def _rings(
    data: Any,
    at: int,
    end: int,
    count: int,
    width: int,
    is_little: bool,
    swapped: Any,
    box: Any,
    runs: Any,
    noted: int,
) -> Any:
    """Extend a box by the rings of a polygon: where they end, or `-_SHORT`, and how many runs are noted."""
    for _ in range(count):
        if end - at < 4:
            return np.int64(-_SHORT), np.int64(noted)
        points = _number(data, at, is_little)
        at += 4
        if points * width > end - at:
            return np.int64(-_SHORT), np.int64(noted)
        noted = _note(runs, noted, POLYGON, points, at, width, is_little)
        at = _coordinates(data, at, points, width, is_little, swapped, box)
    return np.int64(at), np.int64(noted)


@kernel
def _kind(data: Any, at: int, end: int, stack: Any, depth: int) -> Any:
    """The type and dimensions of the shape that begins at `at`; a problem, negative, for the type if it has one."""
    if end - at < 5:
        return np.int64(-_SHORT), np.int64(0)
    if data[at] > 1:
        return np.int64(-_BYTE_ORDER), np.int64(0)
    code = _number(data, at + 1, data[at] == 1)
    kind = code % 1000
    dimensions = code // 1000
    if kind < _POINT or kind > _COLLECTION or dimensions > 3:
        return np.int64(-_TYPE), dimensions
    if depth > 0 and stack[depth - 1, 1] != 0 and stack[depth - 1, 1] != kind:
        return np.int64(-_MEMBER), dimensions
    if depth > 0 and stack[depth - 1, 2] != dimensions:
        return np.int64(-_DIMENSIONS), dimensions
    if kind > POLYGON and depth == len(stack):
        return np.int64(-_DEEP), dimensions
    if kind > _POINT and end - at < 9:
        return np.int64(-_SHORT), dimensions
    return kind, dimensions


@kernel("int64(uint8[::1], int64[::1], int64[:, ::1], out uint8[::1], out float64[:, ::1])")
def _read(data: Any, counts: Any, layout: Any, swapped: Any, found: Any) -> Any:
    """Read the points of runs into float64[2, points]: how many there are."""
    point = np.int64(0)
    for run in range(len(counts)):
        at = layout[run, 0]
        for _ in range(counts[run]):
            found[0, point] = _double(data, at, layout[run, 2] == 1, swapped)
            found[1, point] = _double(data, at + 8, layout[run, 2] == 1, swapped)
            at += layout[run, 1]
            point += 1
    return point


@kernel("int64(uint8[::1], int64[:, ::1], out int64[:, ::1], out uint8[::1], out float64[:, ::1], out int64[:, ::1])")
def _measure(data: Any, spans: Any, stack: Any, swapped: Any, boxes: Any, runs: Any) -> Any:
    """Measure shapes.

    Args:
        data: Their bytes.
        spans: int64[2, n], where each begins and ends, -1 where there is none.
        stack: int64[depth, 3], for the open collections: members to come, their type or 0, their dimensions.
        swapped: Room for eight bytes.
        boxes: float64[n, 4] full of NaN, gets the boxes.
        runs: int64[m, 6], gets the runs of points: row, kind, count, and layout; none if m is 0.

    Returns:
        How many runs there are, or what is wrong with the first bad shape, negative.
    """
    noted = np.int64(0)
    for row in range(spans.shape[1]):
        at = spans[0, row]
        end = spans[1, row]
        box = boxes[row]
        first = noted
        depth = np.int64(0)
        is_open = at >= 0
        while is_open:
            kind, dimensions = _kind(data, at, end, stack, depth)
            if kind < 0:
                return kind
            is_little = data[at] == 1
            width = np.int64(16) + 8 * (dimensions > 0) + 8 * (dimensions == 3)
            count = np.int64(1) if kind == _POINT else _number(data, at + 5, is_little)
            at += np.int64(5) if kind == _POINT else np.int64(9)
            if kind <= _LINE_STRING:
                if count * width > end - at:
                    return np.int64(-_SHORT)
                noted = _note(runs, noted, kind, count, at, width, is_little)
                at = _coordinates(data, at, count, width, is_little, swapped, box)
            elif kind == POLYGON:
                at, noted = _rings(data, at, end, count, width, is_little, swapped, box, runs, noted)
                if at < 0:
                    return at
            else:
                stack[depth, 0] = count
                stack[depth, 1] = 0 if kind == _COLLECTION else kind - 3
                stack[depth, 2] = dimensions
                depth += 1
            while depth > 0 and stack[depth - 1, 0] == 0:
                depth -= 1
            is_open = depth > 0
            if is_open:
                stack[depth - 1, 0] -= 1
        if at != end:
            return np.int64(-_LONGER)
        runs[first:noted, 0] = row
    return noted
