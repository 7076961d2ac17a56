"""Views of a catalog behind Iceberg's REST protocol.

Spec: Iceberg REST specification; Iceberg view spec.
"""

from __future__ import annotations

from typing import Any, Final

from skerry.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    FormatError,
    NotFoundError,
    SkerryError,
    UnsupportedError,
)
from skerry.iceberg.catalogs.records import CatalogView, Identifier, NewView
from skerry.iceberg.catalogs.rest_server import RestServer
from skerry.iceberg.metadata.json_records import json_of
from skerry.iceberg.metadata.view_metadata import parse_view

__all__ = ["VIEW", "VIEWS", "create_view", "load_view", "offers_views", "rename_view", "replace_view"]

VIEWS: Final = "namespaces/{namespace}/views"
VIEW: Final = "namespaces/{namespace}/views/{view}"
_RENAME: Final = "views/rename"


def offers_views(server: RestServer) -> bool:
    """Whether the server lists and loads views."""
    return server.offers(f"GET /v1/{{prefix}}/{VIEWS}") and server.offers(f"GET /v1/{{prefix}}/{VIEW}")


def load_view(server: RestServer, identifier: Identifier, names: dict[str, str]) -> CatalogView:
    """Load a view's newest state; see `IcebergCatalog.load_view`.

    Args:
        server: The server.
        identifier: The view.
        names: Its namespace and name, for the path.
    """
    if not offers_views(server):
        raise NotFoundError(f"no view {'.'.join(identifier)!r}")
    try:
        return _view(server, identifier, server.call("GET", VIEW, names=names))
    except NotFoundError:
        raise NotFoundError(f"no view {'.'.join(identifier)!r}") from None


def create_view(server: RestServer, identifier: Identifier, names: dict[str, str], new: NewView) -> CatalogView:
    """Create a view in a namespace that exists; see `IcebergCatalog.create_view`."""
    name = ".".join(identifier)
    body = {
        "name": identifier[-1],
        "schema": json_of(new.schema),
        "view-version": {**new.version.to_json(), "version-id": 1, "schema-id": 0},
        "properties": dict(new.properties),
    }
    try:
        found = server.call("POST", VIEWS, names=names, body=body)
    except AlreadyExistsError:
        raise AlreadyExistsError(f"table or view {name!r} already exists") from None
    try:
        return _view(server, identifier, found)
    except SkerryError as error:
        raise CommitUnknownError(f"view {name!r} was created, but: {error}", location=name) from error


def replace_view(server: RestServer, view: CatalogView, names: dict[str, str], new: NewView) -> CatalogView:
    """Give a view another definition; see `IcebergCatalog.replace_view`."""
    name = ".".join(view.identifier)
    wanted = view.metadata.replaced_by(new.version, new.schema, new.properties)
    if wanted == view.metadata:
        return view
    updates: list[dict[str, Any]] = []
    if wanted.current_version_id != view.metadata.current_version_id:
        if wanted.schemas != view.metadata.schemas:
            added = wanted.schema
            updates.append({"action": "add-schema", "schema": json_of(added), "last-column-id": added.highest_field_id})
        updates += [
            {"action": "add-view-version", "view-version": wanted.current_version.to_json()},
            {"action": "set-current-view-version", "view-version-id": wanted.current_version_id},
        ]
    if new.properties:
        updates.append({"action": "set-properties", "updates": dict(new.properties)})
    body = {
        "identifier": {"namespace": list(view.identifier[:-1]), "name": view.identifier[-1]},
        "requirements": [{"type": "assert-view-uuid", "uuid": view.metadata.view_uuid}],
        "updates": updates,
    }
    try:
        found = server.call("POST", VIEW, names=names, body=body)
    except AlreadyExistsError as error:  # status 409: a requirement is not met
        raise ConflictError(error.message, location=name) from error
    try:
        return _view(server, view.identifier, found)
    except SkerryError as error:
        raise CommitUnknownError(f"the view was replaced, but: {error}", location=name) from error


def rename_view(server: RestServer, identifier: Identifier, to: Identifier) -> None:
    """Rename a view; see `IcebergCatalog.rename_view`."""
    source, target = ({"namespace": list(parts[:-1]), "name": parts[-1]} for parts in (identifier, to))
    try:
        server.call("POST", _RENAME, body={"source": source, "destination": target})
    except AlreadyExistsError:
        raise AlreadyExistsError(f"table or view {'.'.join(to)!r} already exists") from None
    except NotFoundError as error:
        raise NotFoundError(f"no view {'.'.join(identifier)!r}, or {error.message}") from None


def _view(server: RestServer, identifier: Identifier, found: Any) -> CatalogView:
    answer = server.object(found, "a view")
    location = answer.get("metadata-location")
    if not isinstance(location, str):
        raise server.nonsense("a view has no metadata-location")
    try:
        return CatalogView(identifier, parse_view(answer.get("metadata"), "metadata"), location)
    except (FormatError, UnsupportedError) as error:
        error.location = location
        raise
