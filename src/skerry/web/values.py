"""Values as people read them on a page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from skerry.markup import Html, element
from skerry.table.work import quantities
from skerry.table.work.quantities import count, size

__all__ = ["cell", "count", "cut", "moment", "over_time", "pages", "percent", "short", "size", "tag"]

_MOST_LETTERS: Final = 120


def moment(value: datetime | None) -> Html | None:
    """A point in time to the second, in UTC."""
    if value is None:
        return None
    exact = value if value.tzinfo is None else value.astimezone(UTC)
    return element("time", quantities.moment(value), datetime=exact.isoformat(), title="UTC")


def percent(share: float | None) -> str:
    """A share of 1."""
    if share is None:
        return ""
    return f"{share:.1%}" if 0.0005 < share < 0.9995 or share in (0, 1) else f"{share:.3%}"


def short(value: float) -> str:
    """A number for the axis of a plot."""
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= limit:
            return f"{value / limit:.4g}{unit}"
    return f"{value:.4g}"


def tag(text: str, class_: str = "") -> Html:
    """A short word that stands out."""
    return element("span", text, class_=f"tag {class_}".strip())


def cut(text: str, letters: int = _MOST_LETTERS) -> Html | str:
    """A text, cut if it is long; the whole is its title."""
    if len(text) <= letters:
        return text
    return element("span", f"{text[: letters - 1]}…", title=text[:2000])


def cell(value: Any) -> Html | str:
    """A value of a row."""
    if value is None:
        return element("span", "null", class_="null")
    if isinstance(value, bytes):
        return cut(f"0x{value[:_MOST_LETTERS].hex()}")
    if isinstance(value, bool):
        return "true" if value else "false"
    return cut(str(value))


def pages(address: Any, number: int, per_page: int, total: int, what: str) -> Html | None:
    """Links to the pages of a long list.

    Args:
        address: Gives the address of a page by its number, from 0.
        number: The page at hand.
        per_page: How many there are on a page.
        total: How many there are.
        what: What they are.
    """
    if total <= per_page:
        return None
    last = (total - 1) // per_page
    first = number * per_page
    return element(
        "nav",
        element("a", "‹ previous", href=address(number - 1), rel="prev")
        if number > 0
        else element("span", "‹ previous"),
        element("span", f"{first + 1:,} to {min(first + per_page, total):,} of {total:,} {what}"),
        element("a", "next ›", href=address(number + 1), rel="next") if number < last else element("span", "next ›"),
        aria_label=f"pages of {what}",
        class_="pages",
    )


def over_time(moments: Sequence[datetime]) -> list[float]:
    """Where moments are between the first and the last, from 0 to 1; evenly apart if they are the same."""
    if not moments:
        return []
    first, last = moments[0], moments[-1]
    whole = (last - first).total_seconds()
    if whole <= 0:
        return [number / max(len(moments) - 1, 1) for number in range(len(moments))]
    return [max(0.0, min(1.0, (moment - first).total_seconds() / whole)) for moment in moments]
