"""Commits to a REST catalog whose connection PyIceberg has opened.

Spec: Iceberg REST catalog specification, `updateTable`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pyiceberg.catalog.rest import AUTHORIZATION_HEADER, BEARER_PREFIX, Endpoints, RestCatalog
from pyiceberg.catalog.rest.response import _handle_non_200_response
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from requests import HTTPError

from skerry.iceberg.catalogs.base import CatalogTable
from skerry.iceberg.metadata.json_object import JsonObject
from skerry.iceberg.metadata.json_records import decode_json, encode_json, json_of
from skerry.iceberg.metadata.metadata_json import parse_metadata
from skerry.iceberg.metadata.requirements import TableRequirement
from skerry.iceberg.metadata.table_updates import TableUpdate

__all__ = ["commit_to_server"]

_RULE: Final = "Iceberg REST catalog specification, `CommitTableResponse`"
_TOKEN: Final = "token"  # noqa: S105  the name of an option
_OUTCOMES: Final[dict[int, type[Exception]]] = {
    409: CommitFailedException,
    **dict.fromkeys((500, 502, 504), CommitStateUnknownException),
}


def commit_to_server(
    catalog: RestCatalog,
    table: CatalogTable,
    requirements: Sequence[TableRequirement],
    updates: Sequence[TableUpdate],
) -> CatalogTable:
    """Send updates to the server, which applies them.

    Raises:
        Exception: As PyIceberg's `commit_table`.
    """
    *namespace, name = table.identifier
    request = {
        "identifier": {"namespace": namespace, "name": name},
        "requirements": json_of(tuple(requirements)),
        "updates": json_of(tuple(updates)),
    }
    headers: Any = dict(catalog._session.headers)
    token = table.config.get(_TOKEN)
    if token and token != catalog.properties.get(_TOKEN):
        headers[AUTHORIZATION_HEADER] = f"{BEARER_PREFIX} {token}"
    url = catalog.url(
        Endpoints.update_table, prefixed=True, **catalog._split_identifier_for_path(tuple(table.identifier))
    )
    response = catalog._session.post(url, data=encode_json(request), headers=headers)
    try:
        response.raise_for_status()
    except HTTPError as error:
        _handle_non_200_response(error, _OUTCOMES)
    found = JsonObject(decode_json(response.content), "", _RULE)
    metadata = parse_metadata(found.value.get("metadata"), "metadata")
    return CatalogTable(table.identifier, metadata, found.text("metadata-location"), table.config)
