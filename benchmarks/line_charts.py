"""Line charts as SVG, one below the other on one axis of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["Chart", "draw"]

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 820, 190, 70, 190, 34, 26
COLORS = ("#1b6ca8", "#c4561a", "#3a7d44", "#7b4fa3", "#8a8a00", "#b03060")


@dataclass(frozen=True)
class Chart:
    """A chart.

    Args:
        title: What it shows, and in what unit.
        lines: Points (seconds, value) by what they are.
    """

    title: str
    lines: Mapping[str, Sequence[tuple[float, float]]]


def draw(charts: Sequence[Chart]) -> str:
    """The charts as an SVG document, each from 0 to its greatest value."""
    seconds = max((x for chart in charts for line in chart.lines.values() for x, _ in line), default=1) or 1
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT * len(charts)}" '
            f'font-family="sans-serif" font-size="12">'
        ),
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, chart in enumerate(charts):
        parts += [f'<g transform="translate(0 {number * HEIGHT})">', *_chart(chart, seconds), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _chart(chart: Chart, seconds: float) -> list[str]:
    top = _round_up(max((y for line in chart.lines.values() for _, y in line), default=1) or 1)
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    parts = [f'<text x="{LEFT}" y="{TOP - 14}" font-weight="bold">{escape(chart.title)}</text>']
    for step in range(5):
        y = TOP + high * (1 - step / 4)
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + wide}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{top * step / 4:,g}</text>')
        x = LEFT + wide * step / 4
        parts.append(f'<text x="{x:.1f}" y="{TOP + high + 16}" text-anchor="middle">{seconds * step / 4:,.0f} s</text>')
    for number, (name, line) in enumerate(chart.lines.items()):
        color = COLORS[number % len(COLORS)]
        points = " ".join(f"{LEFT + wide * x / seconds:.1f},{TOP + high * (1 - y / top):.1f}" for x, y in line)
        parts.append(f'<polyline fill="none" stroke="{color}" stroke-width="1.5" points="{points}"/>')
        parts.append(f'<text x="{LEFT + wide + 10}" y="{TOP + 12 + 16 * number}" fill="{color}">{escape(name)}</text>')
    return parts


def _round_up(value: float) -> float:
    """The next number of 1, 2, 4 or 8 times a power of ten."""
    unit = 10.0 ** (len(f"{value:.0f}") - 1 if value >= 1 else -3)
    while True:
        for factor in (1, 2, 4, 8):
            if factor * unit >= value:
                return factor * unit
        unit *= 10
