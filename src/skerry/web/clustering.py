"""How much the data files of a table overlap in a column: how many of them a look-up of one value has to open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.markup import Html, element
from skerry.table.table import Table
from skerry.web.query import Query
from skerry.web.values import count

__all__ = ["Overlap", "overlap_of", "show_overlap"]

_MOST_FILES: Final = 100_000
"""Bounds of more files take longer to read than a page may."""
_DRAWN: Final = 200
_WIDTH: Final = 600
_LINE: Final = 3


@dataclass(frozen=True, slots=True)
class Overlap:
    """Data files by their bounds of a column.

    Args:
        column: The column.
        problem: Why nothing is known; empty if something is.
        files: Data files with bounds.
        without: Data files without.
        mean_files: How many files may hold the least value of a file, on average; 1 if no two overlap.
        most_files: The most of them.
        ranges: Where the bounds of files are among those of all, from 0 to 1, by the lower one; at most 200.
    """

    column: str
    problem: str = ""
    files: int = 0
    without: int = 0
    mean_files: float = 0.0
    most_files: int = 0
    ranges: tuple[tuple[float, float], ...] = ()


def overlap_of(table: Table, column: str, data_files: int) -> Overlap:
    """Compare the bounds of a column.

    Args:
        table: The table.
        column: The dotted name of a primitive column.
        data_files: How many data files it has.
    """
    if data_files > _MOST_FILES:
        return Overlap(column, f"the table has more than {_MOST_FILES:,} data files")
    files = table.inspect.files(columns=["content", "readable_metrics"])
    metrics = files.filter(pc.equal(files.column("content"), 0)).column("readable_metrics").combine_chunks()
    if metrics.type.get_field_index(column) < 0:
        return Overlap(column, "there is no such column with bounds")
    found = metrics.field(column)
    lower, upper = found.field("lower_bound"), found.field("upper_bound")
    has_bounds = pc.and_(pc.is_valid(lower), pc.is_valid(upper))
    lower, upper = lower.filter(has_bounds), upper.filter(has_bounds)
    if not len(lower):
        return Overlap(column, "no data file has bounds of it", without=len(found))
    try:
        ranks = pc.rank(pa.concat_arrays([lower, upper]), tiebreaker="dense").to_numpy().astype(np.int64)
    except pa.ArrowNotImplementedError:
        return Overlap(column, f"values of type {lower.type} have no order", without=len(found))
    low, high = ranks[: len(lower)], ranks[len(lower) :]
    depth = np.searchsorted(np.sort(low), low, "right") - np.searchsorted(np.sort(high), low, "left")
    order = np.lexsort((high, low))
    drawn = order[np.linspace(0, len(order) - 1, min(len(order), _DRAWN)).astype(np.int64)]
    last = max(int(ranks.max()) - 1, 1)
    return Overlap(
        column,
        files=len(lower),
        without=len(found) - len(lower),
        mean_files=float(depth.mean()),
        most_files=int(depth.max()),
        ranges=tuple(((int(low[each]) - 1) / last, (int(high[each]) - 1) / last) for each in drawn),
    )


def show_overlap(found: Overlap | None, query: Query) -> Html:
    """A line per file from its lower to its upper bound, and what that means for look-ups.

    Args:
        found: The overlap; None if no column was asked for.
        query: The address of the page.
    """
    form = element(
        "form",
        element("input", type="hidden", name="t", value=query.table),
        element("label", "by column ", for_="column", class_="dim"),
        element("input", id="column", name="column", value="" if found is None else found.column, size=24),
        action="/files",
    )
    if found is None:
        return element("section", element("h2", "Overlap"), form)
    if found.problem:
        return element("section", element("h2", "Overlap"), form, element("p", found.problem, class_="dim"))
    without = f"; {count(found.without)} files have no bounds" if found.without else ""
    said = (
        f"A value is in {found.mean_files:,.1f} files on average, in {count(found.most_files)} at most, of "
        f"{count(found.files)}{without}."
    )
    height = _LINE * len(found.ranges)
    lines = [
        element(
            "rect",
            x=round(_WIDTH * low, 1),
            y=_LINE * place,
            width=round(max(_WIDTH * (high - low), 1.0), 1),
            height=_LINE - 1,
            class_="bar",
        )
        for place, (low, high) in enumerate(found.ranges)
    ]
    drawing = element(
        "svg",
        element("title", f"bounds of {found.column} by file"),
        lines,
        viewBox=f"0 0 {_WIDTH} {height}",
        width="100%",
        height=min(height, 300),
        preserveAspectRatio="none",
        role="img",
    )
    note = element("span", "least to greatest value of each file, by rank", class_="dim")
    return element("section", element("h2", "Overlap", note), form, element("p", said), drawing)
