"""How the values of a column are spread: its histogram as bars of equal ranges, and some quantiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import numpy as np

from skerry.markup import Html, definitions, element
from skerry.table.statistics.histogram import Histogram
from skerry.web.values import cell, percent

__all__ = ["Distribution", "distribution_of", "show_distribution"]

_BARS: Final = 60
_QUANTILES: Final = 10
_WIDTH: Final = 600
_HEIGHT: Final = 80


@dataclass(frozen=True, slots=True)
class Distribution:
    """The spread of a column's values.

    Args:
        quantiles: The values below which a share of the others is, from the least to the greatest, evenly by share.
        bars: The share of values in each of equal ranges from the least to the greatest; empty where values have no
            distance, as texts.
        sampled_rows: The rows that it is made from.
        freshness: Whether these are a fair sample of all rows, and why not.
    """

    quantiles: tuple[Any, ...]
    bars: tuple[float, ...]
    sampled_rows: int
    freshness: str


def distribution_of(histogram: Histogram | None) -> Distribution | None:
    """The spread that a histogram shows; None without one, or where all values are the same.

    Args:
        histogram: Buckets with equal shares of the rows.
    """
    if histogram is None or histogram.bounds[0] == histogram.bounds[-1]:
        return None
    last = len(histogram.bounds) - 1
    places = np.linspace(0, last, min(_QUANTILES, last) + 1).round().astype(int).tolist()
    return Distribution(
        tuple(histogram.bounds[place] for place in places),
        _bars([_number(bound) for bound in histogram.bounds]),
        histogram.sampled_rows,
        str(histogram.freshness),
    )


def _number(value: Any) -> float | None:
    """Where a value is on a line."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, date):
        return float(value.toordinal())
    return float(value) if isinstance(value, int | float | Decimal) else None


def _bars(bounds: Sequence[float | None]) -> tuple[float, ...]:
    """Equal shares between bounds as shares of equal ranges; a bucket without width is in one of these."""
    known = np.array([bound for bound in bounds if bound is not None], np.float64)
    if len(known) < len(bounds):
        return ()
    edges = (known - known[0]) / (known[-1] - known[0]) * _BARS
    bars = np.zeros(_BARS)
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        if high - low < 1e-9:
            bars[min(int(low), _BARS - 1)] += 1
            continue
        inside = np.clip(np.minimum(high, np.arange(_BARS) + 1) - np.maximum(low, np.arange(_BARS)), 0, None)
        bars += inside / (high - low)
    return tuple((bars / (len(bounds) - 1)).tolist())


def show_distribution(found: Distribution | None) -> Html | None:
    """The bars and the quantiles.

    Args:
        found: The spread; None if it is not known.
    """
    if found is None:
        return None
    steps = len(found.quantiles) - 1
    quantiles = {f"{place / steps:.0%}": cell(value) for place, value in enumerate(found.quantiles)}
    note = f"from {found.sampled_rows:,} sampled rows"
    if found.freshness != "fresh":
        note += f", {found.freshness}"
    return element(
        "section",
        element("h2", "Values", element("span", note, class_="dim")),
        _drawing(found.bars) if found.bars else None,
        definitions(quantiles),
    )


def _drawing(bars: Sequence[float]) -> Html:
    wide, most = _WIDTH / len(bars), max(bars)
    rects = [
        element(
            "rect",
            element("title", percent(share)),
            x=place * wide,
            y=_HEIGHT * (1 - share / most),
            width=wide - 1,
            height=_HEIGHT * share / most,
            class_="bar",
        )
        for place, share in enumerate(bars)
        if share > 0
    ]
    return element(
        "svg",
        element("title", "share of values in equal ranges from the least to the greatest"),
        rects,
        element("line", x1=0, x2=_WIDTH, y1=_HEIGHT, y2=_HEIGHT, class_="grid"),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT + 1}",
        role="img",
        class_="spread",
    )
