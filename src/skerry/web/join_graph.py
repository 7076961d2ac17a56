"""Joinable columns as a graph: one column, its partners, and how much of it each has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from skerry.markup import Html, element

__all__ = ["Partner", "join_graph"]

_WIDTH: Final = 600
_ROW: Final = 26
_LEFT: Final = 190
_RIGHT: Final = 360
_THICKEST: Final = 9.0


@dataclass(frozen=True, slots=True)
class Partner:
    """A column at the other end of an edge: its name, its page, the share that makes the edge wide, what it says."""

    name: str
    href: str
    share: float
    title: str


def join_graph(column: str, partners: Sequence[Partner]) -> Html | None:
    """A column with an edge to each partner, the wider the more of its values the partner has.

    Args:
        column: The column.
        partners: Its partners, those with most of its values first; nothing is drawn for none.
    """
    if not partners:
        return None
    height = _ROW * len(partners) + 8
    middle = height / 2
    edges, ends = [], []
    for place, partner in enumerate(partners):
        y = _ROW * place + _ROW / 2 + 4
        bend = (_LEFT + _RIGHT) / 2
        edges.append(
            element(
                "path",
                element("title", partner.title),
                d=f"M{_LEFT} {middle:g}C{bend:g} {middle:g} {bend:g} {y:g} {_RIGHT} {y:g}",
                fill="none",
                stroke="currentColor",
                stroke_opacity="0.35",
                stroke_width=round(max(1.0, _THICKEST * partner.share), 1),
            )
        )
        ends.append(
            element(
                "a",
                element("circle", cx=_RIGHT, cy=round(y, 1), r=4, class_="bar"),
                element("text", partner.name, x=_RIGHT + 10, y=round(y + 4, 1), fill="currentColor", font_size=13),
                href=partner.href,
            )
        )
    start = (
        element("circle", cx=_LEFT, cy=round(middle, 1), r=5, class_="bar"),
        element(
            "text",
            column,
            x=_LEFT - 10,
            y=round(middle + 4, 1),
            fill="currentColor",
            font_size=13,
            text_anchor="end",
        ),
    )
    return element(
        "svg",
        element("title", f"columns that can be joined with {column}"),
        edges,
        start,
        ends,
        viewBox=f"0 0 {_WIDTH} {height}",
        width=_WIDTH,
        height=height,
        role="img",
    )
