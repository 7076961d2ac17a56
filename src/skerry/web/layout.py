"""What every page has: its head, the way to it, the tabs of a table."""

from __future__ import annotations

from typing import Final

from skerry._version import __version__
from skerry.markup import Html, element, join
from skerry.web.query import Query, address
from skerry.web.source import Source

__all__ = ["page"]

_TABS: Final = (
    ("/table", "Overview"),
    ("/statistics", "Statistics"),
    ("/plan", "Plan"),
    ("/history", "History"),
    ("/files", "Files"),
    ("/streams", "Streams"),
)


def page(source: Source, query: Query, title: str, body: Html) -> str:
    """A whole document."""
    table = query.table
    name = " · ".join(part for part in (table, title) if part)
    return "<!doctype html>\n" + element(
        "html",
        element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            element("title", f"{name} – skerry"),
            element("link", rel="icon", href="/assets/skerry.svg"),
            element("link", rel="stylesheet", href="/assets/skerry.css"),
            element("script", src="/assets/skerry.js", defer=True),
        ),
        element(
            "body",
            element("a", "to the content", href="#content", class_="skip"),
            _header(source, query),
            element("main", body, id="content", tabindex=-1),
        ),
        lang="en",
    )


def _header(source: Source, query: Query) -> Html:
    way: list[Html] = [
        element("a", element("b", "skerry"), href="/", class_="mark"),
        element("a", source.title, href="/"),
    ]
    if query.table:
        way.append(element("a", query.table, href=address("/table", t=query.table), class_="bdi"))
    twin = "/catalog" if query.path == "/" else query.path
    tabs = None
    if query.table:
        tabs = element(
            "nav",
            [
                element(
                    "a",
                    title,
                    href=address(path, t=query.table),
                    aria_current="page" if _is_current(path, query.path) else None,
                )
                for path, title in _TABS
            ],
            aria_label="table",
            class_="tabs",
        )
    return element(
        "header",
        element("nav", join(*way), aria_label="way", class_="way"),
        tabs,
        element(
            "div",
            element(
                "a",
                "JSON",
                href=address(f"{twin}.json", **query.parameters),
                title="what this page shows, for programs",
            ),
            element("span", f"read-only · {__version__}"),
            class_="side",
        ),
    )


def _is_current(path: str, shown: str) -> bool:
    return shown == path or (path == "/files" and shown == "/file")
