"""How statistics look in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from skerry.markup import Column, Content, Html, table
from skerry.markup.lines import range_mark
from skerry.table.display import framed, shown
from skerry.table.statistics.column_statistics import ColumnStatistics

__all__ = ["statistics_html"]

_MOST_ROWS: Final = 100


def statistics_html(known: Mapping[str, ColumnStatistics]) -> Html:
    """Columns with their counts and bounds, and why these may be believed or not."""
    most = max([10.0, *(each.upper or 0.0 for each in known.values())])

    def mark(each: ColumnStatistics) -> Html | None:
        if each.ndv is None:
            return None
        lower, upper = each.lower or each.ndv, each.upper or each.ndv
        return range_mark(each.ndv, lower, upper, most, f"{each.ndv:,.0f}, from {lower:,.0f} to {upper:,.0f}")

    columns = [
        Column[ColumnStatistics]("column", lambda each: each.column),
        Column[ColumnStatistics]("distinct", lambda each: _whole(each.ndv), right=True),
        Column[ColumnStatistics]("from", lambda each: _whole(each.lower), right=True),
        Column[ColumnStatistics]("to", lambda each: _whole(each.upper), right=True),
        Column[ColumnStatistics]("", mark),
        Column[ColumnStatistics]("nulls", lambda each: shown("", each.null_count), right=True),
        Column[ColumnStatistics]("min", lambda each: _bound(each.min)),
        Column[ColumnStatistics]("max", lambda each: _bound(each.max)),
        Column[ColumnStatistics]("freshness", lambda each: str(each.freshness)),
    ]
    listed = list(known.values())[:_MOST_ROWS]
    more = f", the first {_MOST_ROWS}" if len(known) > _MOST_ROWS else ""
    return framed(f"Statistics of {len(known):,} columns{more}", table(listed, columns, caption=""))


def _whole(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _bound(value: Any) -> Content:
    return "" if value is None else shown("id", value)
