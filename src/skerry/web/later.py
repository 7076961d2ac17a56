"""What of a page follows when it is there, because a table has so many files that reading about them takes seconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from skerry.markup import Html, element, join
from skerry.table.table import Table
from skerry.web.query import Query, address
from skerry.web.source import Source
from skerry.web.values import count

__all__ = ["Later", "placeholder"]

_MANY_FILES: Final = 20_000
"""Data files about which everything can be read within a page's second."""
_AT_ONCE: Final = "at-once"


@dataclass(frozen=True, slots=True)
class Later:
    """A part of a page that follows.

    Args:
        key: What the page remembers of a table once it has been read; None if nothing long is asked for.
        head: What is shown meanwhile.
        show: Shows the rest of the record.
    """

    key: Callable[[Table, Query], tuple[Any, ...] | None]
    head: Callable[[Query], Html]
    show: Callable[[Any, Query], Html]


def placeholder(source: Source, query: Query, later: Later) -> Html | None:
    """The head of a page, and where its rest comes; None if all of it can be shown at once.

    Args:
        source: What is served.
        query: The address of the page; with `at-once=yes` it waits, for browsers without scripts.
        later: The part that follows.
    """
    if query.text(_AT_ONCE):
        return None
    opened = source.table(query.table)
    key = later.key(opened, query)
    if key is None or source.remembers(key) or (files := _data_files(opened)) <= _MANY_FILES:
        return None
    note = element(
        "p",
        f"The metadata of {count(files)} files is being read. What it says comes in some seconds.",
        element("noscript", " ", element("a", "Wait for it", href=query.with_(**{_AT_ONCE: "yes"}))),
        class_="waiting",
        role="status",
        data_load=address(f"{query.path}/rest", **query.parameters),
    )
    return join(later.head(query), note)


def _data_files(opened: Table) -> int:
    """Data files of the current snapshot, as it says itself or, in Paimon, as its manifest lists add up."""
    snapshot = opened.current_snapshot()
    told = None if snapshot is None else snapshot.summary.get("total-data-files")
    if snapshot is None or (told is not None and told.isdecimal()):
        return int(told or 0)
    manifests = opened.inspect.manifests()
    added, deleted = (manifests.column(f"{kind}_data_files_count").to_numpy() for kind in ("added", "deleted"))
    return int(added.sum() - deleted.sum())
