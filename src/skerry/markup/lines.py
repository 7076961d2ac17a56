"""Lines over time, and ranges with an uncertainty, as SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Final

from skerry.markup.elements import Html, element

__all__ = ["Point", "line_plot", "range_mark"]

_WIDTH: Final = 380.0
_HEIGHT: Final = 96.0
_LEFT: Final = 62.0
_BOTTOM: Final = 16.0
_TOP: Final = 8.0


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a line: where it is, from 0 to 1, how high, and what is said about it."""

    x: float
    y: float
    title: str


def line_plot(points: Sequence[Point], *, title: str, show: Callable[[float], str], ends: tuple[str, str]) -> Html:
    """A line that keeps its height until the next point, from 0 up.

    Args:
        points: The points, from left to right.
        title: What is shown.
        show: Formats a height.
        ends: What is written below the first and the last point.
    """
    top = _nice(max((point.y for point in points), default=0.0))
    width, height = _WIDTH - _LEFT - 8, _HEIGHT - _BOTTOM - _TOP

    def place(point: Point) -> tuple[float, float]:
        return _LEFT + point.x * width, _TOP + (1 - point.y / top) * height

    path = ""
    for number, point in enumerate(points):
        x, y = place(point)
        path += f"M{x:.1f} {y:.1f}" if number == 0 else f"H{x:.1f}V{y:.1f}"
    base = _TOP + height
    lines = [
        (
            element("line", x1=_LEFT, x2=_WIDTH - 8, y1=_TOP + height * part, y2=_TOP + height * part, class_="grid"),
            element("text", show(top * (1 - part)), x=_LEFT - 6, y=_TOP + height * part + 4, class_="end"),
        )
        for part in (0.0, 0.5, 1.0)
    ]
    dots = [
        element("circle", element("title", point.title), cx=place(point)[0], cy=place(point)[1], r=2.2, class_="dot")
        for point in _thinned(points)
    ]
    area = f"{path}V{base:.1f}H{_LEFT + points[0].x * width:.1f}Z" if points else ""
    return element(
        "figure",
        element("figcaption", title),
        element(
            "svg",
            element("title", f"{title}: {points[0].title} … {points[-1].title}" if points else title),
            lines,
            element("path", d=area, class_="under"),
            element("path", d=path, class_="line"),
            dots,
            element("text", ends[0], x=_LEFT, y=_HEIGHT - 2),
            element("text", ends[1], x=_WIDTH - 8, y=_HEIGHT - 2, class_="end") if len(points) > 1 else None,
            viewBox=f"0 0 {_WIDTH:.0f} {_HEIGHT:.0f}",
            role="img",
            class_="lines",
        ),
    )


def _thinned(points: Sequence[Point], most: int = 120) -> list[Point]:
    """Points that can be pointed at, the last one always among them."""
    step = max(1, ceil(len(points) / most))
    return [*points[:-1:step], *points[-1:]]


def _nice(value: float) -> float:
    """A round number that is not below a value."""
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return next(step * power for step in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if step * power >= value * 0.999)


def range_mark(value: float, lower: float, upper: float, most: float, title: str, class_: str = "") -> Html:
    """A value with its bounds on a line from 1 to the most there can be, in powers of ten."""
    scale = 118 / max(log10(max(most, 10.0)), 1.0)

    def place(number: float) -> float:
        return 1 + log10(max(number, 1.0)) * scale

    left, right = place(lower), place(min(upper, most))
    return element(
        "svg",
        element("title", title),
        element("line", x1=1, x2=119, y1=6, y2=6, class_="grid"),
        element("rect", x=left, y=3, width=max(right - left, 1.0), height=6, class_="bounds"),
        element("rect", x=place(value) - 1.2, y=1, width=2.4, height=10, class_="bar"),
        viewBox="0 0 120 12",
        width=120,
        height=12,
        role="img",
        class_=f"range {class_}".strip(),
    )
