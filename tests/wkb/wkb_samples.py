"""Shapes in well-known binary, written with struct alone, and their boxes by a slow reader."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from random import Random
from typing import Any

POINT, LINE_STRING, POLYGON, MULTI_POINT, MULTI_LINE_STRING, MULTI_POLYGON, COLLECTION = range(1, 8)


def head(kind: int, order: str = "<", dimensions: int = 0) -> bytes:
    return struct.pack(order + "BI", order == "<", 1000 * dimensions + kind)


def doubles(points: Sequence[Sequence[float]], order: str = "<") -> bytes:
    return b"".join(struct.pack(f"{order}{len(point)}d", *point) for point in points)


def point(*at: float, order: str = "<", dimensions: int = 0) -> bytes:
    return head(POINT, order, dimensions) + doubles([at], order)


def line(*points: Sequence[float], order: str = "<") -> bytes:
    return head(LINE_STRING, order) + struct.pack(order + "I", len(points)) + doubles(points, order)


def polygon(*rings: Sequence[Sequence[float]], order: str = "<") -> bytes:
    body = b"".join(struct.pack(order + "I", len(ring)) + doubles(ring, order) for ring in rings)
    return head(POLYGON, order) + struct.pack(order + "I", len(rings)) + body


def many(kind: int, *members: bytes, order: str = "<", dimensions: int = 0) -> bytes:
    return head(kind, order, dimensions) + struct.pack(order + "I", len(members)) + b"".join(members)


def random_shape(random: Random, depth: int = 0) -> bytes:
    order = random.choice("<>")

    def points(least: int = 0) -> list[tuple[float, float]]:
        return [
            (random.choice((math.nan, *range(-5, 6))), random.randint(-5, 5)) for _ in range(random.randint(least, 4))
        ]

    match random.randint(1, 7 if depth < 3 else 3):
        case 1:
            return point(*(points(1)[0]), order=order)
        case 2:
            return line(*points(), order=order)
        case 3:
            return polygon(*(points() for _ in range(random.randint(0, 3))), order=order)
        case 4:
            members = [point(*points(1)[0], order=random.choice("<>")) for _ in range(random.randint(0, 3))]
            return many(MULTI_POINT, *members, order=order)
        case 5:
            return many(MULTI_LINE_STRING, *(line(*points()) for _ in range(random.randint(0, 3))), order=order)
        case 6:
            return many(MULTI_POLYGON, *(polygon(points()) for _ in range(random.randint(0, 3))), order=order)
        case _:
            return many(
                COLLECTION, *(random_shape(random, depth + 1) for _ in range(random.randint(0, 3))), order=order
            )


def slow_points(data: bytes) -> list[tuple[float, float]]:
    """The points of a sound shape in the plane."""
    found: list[tuple[float, float]] = []

    def take(form: str, at: int) -> tuple[tuple[Any, ...], int]:
        return struct.unpack_from(form, data, at), at + struct.calcsize(form)

    def shape(at: int) -> int:
        order = "<" if data[at] else ">"
        (kind,), at = take(order + "I", at + 1)
        if kind == POINT:
            xy, at = take(order + "2d", at)
            found.append(xy)
            return at
        (count,), at = take(order + "I", at)
        for _ in range(count):
            if kind == LINE_STRING:
                xy, at = take(order + "2d", at)
                found.append(xy)
            elif kind == POLYGON:
                (size,), at = take(order + "I", at)
                for _ in range(size):
                    xy, at = take(order + "2d", at)
                    found.append(xy)
            else:
                at = shape(at)
        return at

    assert shape(0) == len(data)
    return [(x, y) for x, y in found if not (math.isnan(x) or math.isnan(y))]


def slow_box(data: bytes) -> tuple[float, float, float, float] | None:
    points = slow_points(data)
    if not points:
        return None
    xs, ys = zip(*points, strict=True)
    return min(xs), min(ys), max(xs), max(ys)
