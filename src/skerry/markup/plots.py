"""Plots as SVG: bars, lines over time, a treemap and a map of bytes. Colours are classes, which a style sheet defines.

A plot is as wide as its place: it is drawn 1,200 units wide and scaled. What it shows is also said in words, in the
title of each mark, for those who point at it and for those who hear it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from skerry.markup.elements import Html, element

__all__ = ["Area", "Part", "byte_map", "share_bar", "treemap"]

WIDTH: Final = 1200.0
_ROW: Final = 30.0
_THIN: Final = 1.5
"""Parts that are narrower than this are drawn together."""
_LETTER: Final = 6.4
"""How wide a letter of a label is, about."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a map of bytes.

    Args:
        label: What is written on it if there is room.
        title: What is said about it.
        start: Its first byte.
        end: The byte after its last.
        class_: Its colour.
        href: Where a click leads.
        children: Its parts, in the order of their bytes.
    """

    label: str
    title: str
    start: int
    end: int
    class_: str
    href: str | None = None
    children: tuple[Part, ...] = ()

    def walk(self) -> Iterator[Part]:
        """This part and all inside."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, slots=True)
class Area:
    """An area of a treemap.

    Args:
        label: What is written on it if there is room.
        title: What is said about it.
        size: How large it is, above 0.
        share: From 0 to 1: how strong its colour is.
        href: Where a click leads.
    """

    label: str
    title: str
    size: float
    share: float = 0.0
    href: str | None = None


def share_bar(share: float, title: str) -> Html:
    """A bar that is filled to a share from 0 to 1."""
    width = max(0.0, min(1.0, share)) * 60
    return element(
        "svg",
        element("title", title),
        element("rect", width=60, height=8, class_="bar-rest"),
        element("rect", width=width, height=8, class_="bar"),
        viewBox="0 0 60 8",
        width=60,
        height=8,
        role="img",
        class_="share",
    )


# ---- map of bytes ----


def byte_map(root: Part, *, depth: int = 3) -> Html:
    """A part of a file and the parts inside of it, a row per level, as wide as their bytes."""
    marks: list[Html] = []
    deepest = _draw(root, 0, root, depth, marks)
    height = (deepest + 1) * (_ROW + 2)
    return element(
        "svg",
        element("title", f"map of bytes {root.start:,} to {root.end:,}"),
        marks,
        viewBox=f"0 0 {WIDTH:.0f} {height:.0f}",
        role="group",
        class_="plot map",
    )


def _draw(part: Part, level: int, root: Part, depth: int, marks: list[Html]) -> int:
    """Draw a part and what is inside; returns the deepest level that was drawn."""
    left, width = _place(part.start, part.end, root)
    marks.append(_mark(part, left, level * (_ROW + 2), width))
    deepest = level
    if level + 1 >= depth:
        return deepest
    thin: list[Part] = []
    for child in part.children:
        if _place(child.start, child.end, root)[1] < _THIN:
            if thin and _place(thin[0].start, child.end, root)[1] > 4 * _THIN:
                _draw_thin(thin, level + 1, root, marks)
                thin = []
            thin.append(child)
            deepest = max(deepest, level + 1)
            continue
        _draw_thin(thin, level + 1, root, marks)
        thin = []
        deepest = max(deepest, _draw(child, level + 1, root, depth, marks))
    _draw_thin(thin, level + 1, root, marks)
    return deepest


def _draw_thin(parts: Sequence[Part], level: int, root: Part, marks: list[Html]) -> None:
    """Draw parts together that are too narrow to be told apart."""
    if not parts:
        return
    if len(parts) == 1:
        together = parts[0]
    else:
        names = f"{len(parts)} parts: {parts[0].label} … {parts[-1].label}"
        together = Part("", names, parts[0].start, max(part.end for part in parts), f"{parts[0].class_} many")
    left, width = _place(together.start, together.end, root)
    marks.append(_mark(together, left, level * (_ROW + 2), max(width, 0.8)))


def _place(start: int, end: int, root: Part) -> tuple[float, float]:
    scale = WIDTH / max(root.end - root.start, 1)
    return (start - root.start) * scale, (end - start) * scale


def _mark(part: Part, left: float, top: float, width: float) -> Html:
    room = int((width - 10) / _LETTER)
    label = part.label if len(part.label) <= room else f"{part.label[: room - 1]}…" if room >= 4 else ""
    box = element(
        "g",
        element("title", part.title),
        element("rect", x=left, y=top, width=max(width - 1, 0.6), height=_ROW, class_=part.class_),
        element("text", label, x=left + 5, y=top + 19) if label else None,
    )
    if part.href is None:
        return box
    return element("a", box, href=part.href, aria_label=part.title)


# ---- treemap ----


def treemap(areas: Sequence[Area], *, title: str, height: float = 260) -> Html:
    """Areas beside and above each other, as large as they say; the largest first.

    Rows and columns are filled so that areas stay close to squares (Bruls, Huizing and van Wijk, Squarified Treemaps).
    """
    ordered = sorted(areas, key=lambda area: -area.size)
    total = sum(area.size for area in ordered)
    marks: list[Html] = []
    if total > 0:
        scale = WIDTH * height / total
        _fill(ordered, [area.size * scale for area in ordered], 0.0, 0.0, WIDTH, height, marks)
    return element(
        "svg",
        element("title", title),
        marks,
        viewBox=f"0 0 {WIDTH:.0f} {height:.0f}",
        role="group",
        class_="plot treemap",
    )


def _fill(
    areas: Sequence[Area], sizes: Sequence[float], x: float, y: float, width: float, height: float, marks: list[Html]
) -> None:
    """Fill a rectangle, a row along its shorter side after another."""
    first = 0
    while first < len(areas):
        side = min(width, height)
        last = first + 1
        while last < len(areas) and _worst(sizes[first : last + 1], side) <= _worst(sizes[first:last], side):
            last += 1
        row = sum(sizes[first:last])
        thickness = min(row / side, max(width, height)) if side > 0 else 0.0  # sums of floats may be a little more
        at = 0.0
        for area, size in zip(areas[first:last], sizes[first:last], strict=True):
            length = min(size / thickness, side) if thickness else 0.0
            if width >= height:
                marks.append(_area(area, x, y + at, thickness, length))
            else:
                marks.append(_area(area, x + at, y, length, thickness))
            at += length
        if width >= height:
            x, width = x + thickness, width - thickness
        else:
            y, height = y + thickness, height - thickness
        first = last


def _worst(sizes: Sequence[float], side: float) -> float:
    """The largest ratio of the sides of areas in a row along a side."""
    row = sum(sizes)
    if not row or not side:
        return float("inf")
    return max(max(side * side * size / row**2, row**2 / (side * side * size)) for size in (sizes[0], sizes[-1]))


def _area(area: Area, x: float, y: float, width: float, height: float) -> Html:
    room = int((width - 8) / _LETTER)
    label = area.label if len(area.label) <= room else f"{area.label[: room - 1]}…" if room >= 4 else ""
    box = element(
        "g",
        element("title", area.title),
        element("rect", x=x, y=y, width=max(width - 1.5, 0.5), height=max(height - 1.5, 0.5), class_="area"),
        element(
            "rect",
            x=x,
            y=y,
            width=max(width - 1.5, 0.5),
            height=max(height - 1.5, 0.5),
            class_="heat",
            opacity=area.share,
        )
        if area.share > 0
        else None,
        element("text", label, x=x + 5, y=y + 15) if label and height > 18 else None,
    )
    return box if area.href is None else element("a", box, href=area.href, aria_label=area.title)
