"""The graph of a history: a line of dots per branch, newest above."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

from skerry.markup.elements import Html, element

__all__ = ["Lanes", "assign_lanes", "lane_mark"]

LANE: Final = 14.0
_MOST_LANES: Final = 12

Lanes = list[tuple[int, frozenset[int], frozenset[int]]]
"""Per commit the lane of its dot, the lanes that run past it from above, and those that leave it below."""


def assign_lanes(commits: Sequence[tuple[Hashable, Hashable | None]]) -> Lanes:
    """Give every commit a lane, so that a child is above its parent in the same lane where that is free.

    Args:
        commits: Commits with their parents, newest first.
    """
    known = {commit for commit, _ in commits}
    waiting: list[Hashable | None] = []  # per lane the commit that it leads down to
    found: Lanes = []
    for commit, parent in commits:
        above = frozenset(lane for lane, wanted in enumerate(waiting) if wanted is not None)
        lanes = [lane for lane, wanted in enumerate(waiting) if wanted == commit]
        lane = (
            lanes[0] if lanes else next((free for free, wanted in enumerate(waiting) if wanted is None), len(waiting))
        )
        if lane == len(waiting):
            waiting.append(None)
        for each in lanes:
            waiting[each] = None
        waiting[lane] = parent if parent in known else None
        found.append((lane, above, frozenset(number for number, wanted in enumerate(waiting) if wanted is not None)))
    return found


def lane_mark(lane: int, above: frozenset[int], below: frozenset[int], title: str) -> Html:
    """The part of the graph beside one commit; lanes beyond the twelfth are drawn as the twelfth."""

    def x(number: int) -> float:
        return 7 + min(number, _MOST_LANES - 1) * LANE

    lines = [
        element("line", x1=x(each), x2=x(each if each in below else lane), y1=0, y2=13, class_="edge") for each in above
    ]
    lines += [
        element("line", x1=x(each if each in above else lane), x2=x(each), y1=13, y2=26, class_="edge")
        for each in below
    ]
    width = x(max([lane, *above, *below])) + 7
    return element(
        "svg",
        element("title", title),
        lines,
        element("circle", cx=x(lane), cy=13, r=4, class_=f"dot lane-{lane % 4}"),
        viewBox=f"0 0 {width:.0f} 26",
        width=width,
        height=26,
        role="img",
        class_="lanes",
    )
