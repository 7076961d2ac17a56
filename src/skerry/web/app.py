"""The application: which address shows which screen, as HTML or as JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from skerry.errors import NotFoundError, SkerryError
from skerry.markup import Html, element
from skerry.web.json_twin import to_json
from skerry.web.later import Later, placeholder
from skerry.web.layout import page
from skerry.web.query import Query
from skerry.web.screens import byte_map, catalog, history, plan, queries, statistics, streams, table
from skerry.web.screens import files as table_files
from skerry.web.source import Source

__all__ = ["application"]

_ASSETS: Final = {"skerry.css": "text/css", "skerry.js": "text/javascript", "skerry.svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Screen:
    """A page.

    Args:
        title: What it is called.
        read: Reads its record.
        show: Shows the record.
        later: What of it follows when it is there, if that takes a moment.
    """

    title: str
    read: Callable[[Source, Query], Any]
    show: Callable[[Any, Query], Html]
    later: Later | None = None


_SCREENS: Final = {
    "/": Screen("Catalog", catalog.read_catalog, catalog.show_catalog),
    "/query": Screen("Query", queries.read_query, queries.show_query),
    "/table": Screen("Overview", table.read_table, table.show_table),
    "/statistics": Screen("Statistics", statistics.read_statistics, statistics.show_statistics, statistics.LATER),
    "/plan": Screen("Plan", plan.read_plan, plan.show_plan, plan.LATER),
    "/history": Screen("History", history.read_history, history.show_history),
    "/files": Screen("Files", table_files.read_files, table_files.show_files, table_files.LATER),
    "/streams": Screen("Streams", streams.read_streams, streams.show_streams),
    "/file": Screen("Bytes", byte_map.read_file, byte_map.show_file),
}


_FRAGMENTS: Final[dict[str, tuple[Callable[[Source, Query], Any], Callable[[Any, Query], Html]]]] = {
    "/size": (catalog.read_totals, catalog.show_size),
    "/data-files": (catalog.read_totals, catalog.show_data_files),
    "/freshness": (catalog.read_freshness, catalog.show_freshness),
    "/health": (table.read_health, table.show_health),
    "/checks": (table.read_health, table.show_checks),
}
"""Parts of pages that may take a moment, and are asked for when they come in sight."""


def application(source: Source) -> Starlette:
    """The pages of a source, for requests that `Guard` has let in."""
    routes = [Route(f"/assets/{name}", _asset(name, type_)) for name, type_ in _ASSETS.items()]
    for path, screen in _SCREENS.items():
        routes.append(Route(path, _page(source, path, screen, as_json=None)))
        if screen.later is not None:
            routes.append(Route(f"{path}/rest", _fragment(source, path, screen.read, screen.later.show)))
        routes.append(
            Route("/catalog.json" if path == "/" else f"{path}.json", _page(source, path, screen, as_json=True))
        )
    for path, (read, show) in _FRAGMENTS.items():
        routes.append(Route(path, _fragment(source, path, read, show)))
        routes.append(Route(f"{path}.json", _page(source, path, Screen("", read, show), as_json=True)))
    return Starlette(routes=routes)


def _asset(name: str, type_: str) -> Callable[[Request], Response]:
    content = files("skerry.web").joinpath("assets", name).read_bytes()

    def answer(request: Request) -> Response:
        return Response(content, media_type=type_, headers={"Cache-Control": "max-age=0"})

    return answer


def _page(source: Source, path: str, screen: Screen, *, as_json: bool | None) -> Callable[[Request], Response]:
    """What answers the requests for a page; in a thread, since it reads files."""

    def answer(request: Request) -> Response:
        query = Query(path, dict(request.query_params))
        wants_json = _prefers_json(request) if as_json is None else as_json
        try:
            meanwhile = None if wants_json or screen.later is None else placeholder(source, query, screen.later)
            if meanwhile is not None:
                return HTMLResponse(page(source, query, screen.title, meanwhile))
            record = screen.read(source, query)
        except SkerryError as error:
            return _failed(source, query, error, as_json=wants_json)
        if wants_json:
            return Response(to_json(record), media_type="application/json")
        return HTMLResponse(page(source, query, screen.title, screen.show(record, query)))

    return answer


def _fragment(
    source: Source, path: str, read: Callable[[Source, Query], Any], show: Callable[[Any, Query], Html]
) -> Callable[[Request], Response]:
    """What answers the requests for a part of a page, which takes a moment and is asked for when it is in sight."""

    def answer(request: Request) -> Response:
        query = Query(path, dict(request.query_params))
        try:
            return HTMLResponse(show(read(source, query), query))
        except SkerryError as error:
            return HTMLResponse(element("span", "unknown", class_="problem", title=str(error)))

    return answer


def _prefers_json(request: Request) -> bool:
    accepted = request.headers.get("accept", "")
    return "application/json" in accepted and "text/html" not in accepted


def _failed(source: Source, query: Query, error: SkerryError, *, as_json: bool) -> Response:
    """A page that says what is wrong; the others go on."""
    status = 404 if isinstance(error, NotFoundError) else 400
    if as_json:
        return Response(
            to_json({"error": type(error).__name__, "message": str(error), "help": error.help}),
            status,
            media_type="application/json",
        )
    body = element(
        "section",
        element("h2", "This cannot be shown"),
        element("p", str(error), class_="problem"),
        element("p", f"{type(error).__name__}: what to do is in {error.help}", class_="dim"),
    )
    return HTMLResponse(page(source, query, "Error", body), status)
