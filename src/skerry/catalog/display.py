"""How a catalog looks in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from skerry.markup import Column, Html, element, table
from skerry.table.display import framed

__all__ = ["catalog_html"]

_MOST_NAMES: Final = 200


def catalog_html(name: str, tables: Sequence[str]) -> Html:
    """The names of the tables, by namespace; tables are not loaded for it."""
    listed: dict[str, list[str]] = {}
    for each in tables[:_MOST_NAMES]:
        namespace, _, last = each.rpartition(".")
        listed.setdefault(namespace, []).append(last)
    columns = [
        Column[tuple[str, list[str]]]("namespace", lambda pair: pair[0]),
        Column[tuple[str, list[str]]]("tables", lambda pair: ", ".join(pair[1])),
    ]
    more = len(tables) - _MOST_NAMES
    return framed(
        f"Catalog {name}, {len(tables):,} tables",
        table(list(listed.items()), columns, caption="", empty="no tables"),
        element("p", f"and {more:,} more", class_="dim") if more > 0 else None,
    )
